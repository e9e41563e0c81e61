// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule: which commands, and what happens to them, in one line.
//!
//! ```text
//! RULE      = EFFECT SELECTION*
//! EFFECT    = error [errno=5] | delay time=50ms | stall time=1s | refuse
//!           | slow factor=10 | throttle rate=50MiB
//!           | torn | misdirect                only on a disk that keeps data (`paternoster-disk`)
//! SELECTION = op=read,write,discard,flush     one of these
//!           | range=1m-2m                     touches a byte from the first up to the second
//!           | from=1s | to=2s                 comes at or after, comes before
//!           | every=100                       of those so far the 100th, the 200th …
//!           | probability=0.01                of those so far, by chance
//!           | count=3                         at most this many times
//! ```
//!
//! Selections apply in this order, whatever the order in the text: `every` counts the commands that
//! operation, range and time have selected, and chance is drawn for those that `every` leaves.
//! Sizes are as in fio (`k`, `m`, `g`, `t`, powers of 1024) or with units (`1 MiB` without the
//! blank); times need a unit.
//!
//! A rule that always refuses would stop a run for good, so a refusing rule must let something
//! through: `every` of at least 2, a probability below 1, a `count`, or a `to`.

use std::fmt;
use std::str::FromStr;

use paternoster_core::{Command, Nanos, Op};

use crate::chance::Chance;
use crate::quantity;

/// EIO.
const ERRNO_DEFAULT: i32 = 5;
/// Linux has no larger errno.
const ERRNO_MAX: i32 = 4095;
/// Longer delays and stalls would make a run look as if it never ends.
const TIME_MAX: Nanos = Nanos::from_secs(24 * 3600);
/// Probabilities are counted in billionths.
const CERTAIN: u64 = 1_000_000_000;
const OPS: [(&str, Op); 4] =
    [("read", Op::Read), ("write", Op::Write), ("discard", Op::Discard), ("flush", Op::Flush)];
/// The units that fio writes sizes in.
const FIO_SIZES: [(&str, u64); 5] =
    [("", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];
/// Slower than that is a stall.
const FACTOR_MAX: u64 = 1_000_000;
const EFFECTS: [&str; 8] =
    ["error", "delay", "stall", "refuse", "slow", "throttle", "torn", "misdirect"];
const REMEDY: &str = "a rule is error, delay, stall, refuse, slow or throttle, then any of op=, \
                      range=, from=, to=, every=, probability=, count=, errno=, time=, factor= or \
                      rate= (as `error every=100 op=write errno=5`)";

/// What happens to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The command fails with this errno.
    Error(i32),
    /// The answer comes this much later.
    Delay(Nanos),
    /// The device stands still from the command's arrival on.
    Stall(Nanos),
    /// The device does not take the command.
    Refuse,
    /// The command takes this many times as long.
    Slow(u64),
    /// This many bytes a second are answered, counted in the order of arrival.
    Throttle(u64),
    /// A power failure may leave only some of its sectors. Models ignore this.
    Torn,
    /// The write goes to another place. Models ignore this.
    Misdirect,
}

/// The commands that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Selection {
    /// All of [`OPS`] unless the rule says otherwise.
    ops: [bool; OPS.len()],
    /// First byte, and the one after the last.
    range: Option<(u64, u64)>,
    from: Nanos,
    to: Nanos,
    every: u64,
    /// Probability in billionths.
    probability: u64,
    count: u64,
}

/// One fault rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    effect: Effect,
    selection: Selection,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// Also accepts the effects on written data, which a model ignores: for a disk that keeps data
    /// and asks [`Watch`] about each write.
    ///
    /// # Errors What is wrong, with the rule's text and what would be valid.
    pub fn with_data(text: &str) -> Result<Rule, String> {
        parse(text).map_err(|why| format!("the rule `{}`: {why}", text.trim()))
    }

    /// Whether it changes written data, and not when and how commands end.
    #[must_use]
    pub const fn is_about_data(&self) -> bool {
        matches!(self.effect, Effect::Torn | Effect::Misdirect)
    }
}

impl FromStr for Rule {
    type Err = String;

    /// The error has the rule's text and what would be valid.
    fn from_str(text: &str) -> Result<Rule, String> {
        let rule = Rule::with_data(text)?;
        if rule.is_about_data() {
            return Err(format!("the rule `{rule}`: there are no data here that it could change"));
        }
        Ok(rule)
    }
}

fn parse(text: &str) -> Result<Rule, String> {
    let mut words = text.split_whitespace();
    let effect = words.next().ok_or(REMEDY)?;
    if !EFFECTS.contains(&effect) {
        return Err(format!("`{effect}` is no effect; {REMEDY}"));
    }
    let (mut errno, mut time, mut number) = (None, None, None);
    let mut selection = Selection {
        ops: [true; OPS.len()],
        range: None,
        from: Nanos::ZERO,
        to: Nanos::MAX,
        every: 1,
        probability: CERTAIN,
        count: u64::MAX,
    };
    let mut said: Vec<&str> = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or(format!("`{word}` has no `=`; {REMEDY}"))?;
        if said.contains(&key) {
            return Err(format!("`{key}` is said twice"));
        }
        said.push(key);
        let wrong = |why: &str| format!("`{key}` cannot be `{value}`: {why}");
        match key {
            "errno" if effect == "error" => {
                let number = value.parse().ok().filter(|it| (1..=ERRNO_MAX).contains(it));
                errno = Some(number.ok_or(wrong("a whole number from 1 to 4095"))?);
            }
            "time" if effect == "delay" || effect == "stall" => {
                let span = quantity::time(value).map_err(|why| wrong(&why))?;
                if span == Nanos::ZERO || span > TIME_MAX {
                    return Err(wrong("more than nothing, at most 86400s"));
                }
                time = Some(span);
            }
            "factor" if effect == "slow" => {
                let factor = value.parse().ok().filter(|it| (2..=FACTOR_MAX).contains(it));
                number = Some(factor.ok_or(wrong("a whole number from 2 to 1000000"))?);
            }
            "rate" if effect == "throttle" => {
                let rate = size(value).filter(|rate| *rate > 0);
                number = Some(rate.ok_or(wrong("bytes a second (as `50MiB`)"))?);
            }
            "errno" | "time" | "factor" | "rate" => {
                return Err(format!("`{key}` means nothing to `{effect}`"));
            }
            _ => select(&mut selection, key, value).map_err(|why| match why {
                Some(why) => wrong(&why),
                None => format!("`{key}` is not known; {REMEDY}"),
            })?,
        }
    }
    let timed = || time.ok_or(format!("`{effect}` needs a time, as `{effect} time=50ms`"));
    let effect = match effect {
        "error" => Effect::Error(errno.unwrap_or(ERRNO_DEFAULT)),
        "refuse" => Effect::Refuse,
        "delay" => Effect::Delay(timed()?),
        "stall" => Effect::Stall(timed()?),
        "slow" => Effect::Slow(number.ok_or("`slow` needs a factor, as `slow factor=10`")?),
        "throttle" => {
            Effect::Throttle(number.ok_or("`throttle` needs a rate, as `throttle rate=50MiB`")?)
        }
        "torn" => Effect::Torn,
        _ => Effect::Misdirect,
    };
    if selection.from >= selection.to {
        return Err("nothing comes between `from` and `to`: `from` is the earlier".to_owned());
    }
    let for_ever = selection.every == 1
        && selection.probability == CERTAIN
        && selection.count == u64::MAX
        && selection.to == Nanos::MAX;
    if effect == Effect::Refuse && for_ever {
        return Err("nothing would ever be done: say every= (2 or more), probability= (below 1), \
                    count= or to="
            .to_owned());
    }
    Ok(Rule { text: text.trim().to_owned(), effect, selection })
}

/// Sets one part of a selection. The error says what would be valid; it is `None` if there is no
/// such part.
fn select(selection: &mut Selection, key: &str, value: &str) -> Result<(), Option<String>> {
    let whole = || {
        let number = value.parse().ok().filter(|number| *number > 0u64);
        number.ok_or_else(|| Some("a whole number from 1".to_owned()))
    };
    match key {
        "op" => selection.ops = ops(value)?,
        "range" => selection.range = Some(range(value)?),
        "from" => selection.from = quantity::time(value)?,
        "to" => selection.to = quantity::time(value)?,
        "every" => selection.every = whole()?,
        "count" => selection.count = whole()?,
        "probability" => {
            let billionths = quantity::decimal(value, CERTAIN);
            selection.probability = billionths
                .filter(|it| (1..=CERTAIN).contains(it))
                .ok_or_else(|| Some("a decimal above 0 up to 1 (as `0.01`)".to_owned()))?;
        }
        _ => return Err(None),
    }
    Ok(())
}

fn ops(text: &str) -> Result<[bool; OPS.len()], Option<String>> {
    let mut chosen = [false; OPS.len()];
    for word in text.split(',') {
        let place = OPS.iter().position(|(name, _)| *name == word);
        let place = place.ok_or_else(|| {
            Some("one or several of read, write, discard, flush (as `read,write`)".to_owned())
        })?;
        chosen[place] = true;
    }
    Ok(chosen)
}

fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let fio = quantity::quantity(&text.to_ascii_lowercase(), &FIO_SIZES);
    fio.or_else(|| quantity::size(text).ok())
}

fn range(text: &str) -> Result<(u64, u64), Option<String>> {
    let wrong = || Some("from a byte up to another one behind it (as `1m-2m`)".to_owned());
    let (first, end) = text.split_once('-').ok_or_else(wrong)?;
    match (size(first), size(end)) {
        (Some(first), Some(end)) if first < end => Ok((first, end)),
        _ => Err(wrong()),
    }
}

/// A rule at work: what it has seen and done.
#[derive(Debug)]
pub struct Watch {
    effect: Effect,
    selection: Selection,
    seen: u64,
    done: u64,
    chance: Chance,
    /// When everything that a throttle has released so far is out.
    gone: Nanos,
}

impl Watch {
    /// The rule that is `place`-th in its list.
    #[must_use]
    pub fn new(rule: &Rule, seed: u64, place: u64) -> Watch {
        let Rule { effect, selection, .. } = *rule;
        let chance = Chance::new(seed, place);
        Watch { effect, selection, seen: 0, done: 0, chance, gone: Nanos::ZERO }
    }

    /// When a throttle of `rate` bytes a second releases a command that came at `came`.
    pub(super) fn let_go(&mut self, came: Nanos, command: &Command, rate: u64) -> Nanos {
        let bytes = u128::from(command.sectors) * 512;
        let takes = (bytes * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        self.gone = self.gone.max(came) + Nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        self.gone
    }

    /// What happens to the commands it selects.
    #[must_use]
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether the rule applies to this command, which comes at `now`.
    pub fn selects(&mut self, now: Nanos, command: &Command) -> bool {
        let Selection { every, probability, count, .. } = self.selection;
        if self.done >= count || !self.concerns(now, command) {
            return false;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(every) {
            return false;
        }
        let selected = probability == CERTAIN || self.chance.below(CERTAIN) < probability;
        self.done += u64::from(selected);
        selected
    }

    fn concerns(&self, now: Nanos, command: &Command) -> bool {
        let Selection { ops, range, from, to, .. } = self.selection;
        let op = OPS.iter().zip(ops).any(|((_, op), chosen)| chosen && *op == command.op);
        let place = range.is_none_or(|(first, end)| {
            let (begins, ends) = (command.sector * 512, command.end() * 512);
            begins < end && first < ends && command.sectors > 0
        });
        op && place && from <= now && now < to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are rules parsed as meant?
    #[test]
    fn rules_are_read() {
        let rule: Rule = "error every=100 op=write,flush errno=28".parse().unwrap();
        assert_eq!(rule.effect, Effect::Error(28));
        assert_eq!((rule.selection.every, rule.selection.ops), (100, [false, true, false, true]));
        let rule: Rule = " delay probability=0.01 time=50ms range=1m-1GiB ".parse().unwrap();
        assert_eq!(rule.effect, Effect::Delay(Nanos::from_millis(50)));
        assert_eq!(rule.selection.probability, 10_000_000);
        assert_eq!(rule.selection.range, Some((1 << 20, 1 << 30)));
        assert_eq!(rule.to_string(), "delay probability=0.01 time=50ms range=1m-1GiB");
        let rule: Rule = "refuse from=1s to=2s count=7".parse().unwrap();
        assert_eq!((rule.effect, rule.selection.count), (Effect::Refuse, 7));
        assert_eq!(rule.selection.from, Nanos::from_secs(1));
        assert_eq!("error".parse::<Rule>().unwrap().effect, Effect::Error(5));
    }

    /// Does every refusal name the rule, the word and what would be right?
    #[test]
    fn bad_rules_say_what_would_be_right() {
        for (text, expected) in [
            ("", "a rule is error, delay, stall, refuse, slow or throttle"),
            ("fail every=3", "`fail` is no effect; a rule is error"),
            ("error evry=3", "`evry` is not known; a rule is error"),
            ("error every", "`every` has no `=`"),
            ("error every=0", "`every` cannot be `0`: a whole number from 1"),
            ("error every=2 every=3", "`every` is said twice"),
            ("error errno=0", "`errno` cannot be `0`: a whole number from 1 to 4095"),
            ("error time=1s", "`time` means nothing to `error`"),
            ("delay", "`delay` needs a time, as `delay time=50ms`"),
            ("delay time=50", "`time` cannot be `50`: not a span of time"),
            ("stall time=0s", "`time` cannot be `0s`: more than nothing"),
            ("error op=trim", "`op` cannot be `trim`: one or several of read, write"),
            ("error range=2m-1m", "`range` cannot be `2m-1m`: from a byte up to another"),
            ("error range=2m", "(as `1m-2m`)"),
            ("error probability=2", "`probability` cannot be `2`: a decimal above 0 up to 1"),
            ("error from=2s to=1s", "nothing comes between `from` and `to`"),
            ("slow", "`slow` needs a factor, as `slow factor=10`"),
            ("slow factor=1", "`factor` cannot be `1`: a whole number from 2"),
            ("slow time=1s", "`time` means nothing to `slow`"),
            ("throttle rate=0", "`rate` cannot be `0`: bytes a second"),
            ("torn", "there are no data here"),
            ("misdirect every=2", "there are no data here"),
            ("refuse", "nothing would ever be done"),
            ("refuse every=1 from=1s", "nothing would ever be done"),
        ] {
            let why = text.parse::<Rule>().unwrap_err();
            assert!(why.starts_with(&format!("the rule `{text}`: ")), "{why}");
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    /// Do rules of one seed, and seeds of one rule, draw different numbers, and each always the
    /// same?
    #[test]
    fn chance_is_repeatable() {
        let draws = |seed, place| {
            let mut chance = Chance::new(seed, place);
            (0..20).map(|_| chance.below(CERTAIN)).collect::<Vec<_>>()
        };
        assert_eq!(draws(0, 0), draws(0, 0));
        assert_ne!(draws(0, 0), draws(0, 1));
        assert_ne!(draws(0, 0), draws(1, 0));
    }
}
