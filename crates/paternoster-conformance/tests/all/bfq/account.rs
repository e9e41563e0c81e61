// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of a log: what was compared, what differed, and why.

use std::collections::BTreeMap;

use super::words::{Kind, Word};

/// At most this many differences of one kind are shown.
const EXAMPLES: usize = 3;

/// Why a call differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// How long a turn lasted is within microseconds of a whole millisecond.
    Millisecond,
    /// The call came within microseconds of a tick.
    Tick,
    /// Linux served another eligible queue, with a later finish (BFQ-10).
    Turn,
    /// No known cause.
    Unexplained,
}

/// A kind of messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Class {
    /// Said by either.
    pub(super) said: u64,
    /// Said by both, of the same queues, with the same numbers.
    pub(super) same: u64,
    /// The first of those that differ.
    pub(super) examples: Vec<String>,
}

/// The account of all kinds and all calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) differences: BTreeMap<Cause, u64>,
    pub(super) numbers: u64,
    pub(super) differing_numbers: u64,
    /// The first call that differs.
    first: Option<String>,
    pub(super) classes: BTreeMap<Kind, Class>,
}

/// What Linux said, and what we said instead.
pub(super) type Pair<'a> = (Option<&'a Word>, Option<&'a Word>);

impl Account {
    /// Compares the messages of one call; returns the differences.
    pub(super) fn compare<'a>(
        &mut self,
        at: &str,
        recorded: &'a [Word],
        ours: &'a [Word],
    ) -> Vec<Pair<'a>> {
        let mut pairs = align(recorded, ours);
        pairs.retain(|pair| !self.is_same(at, *pair));
        pairs
    }

    fn is_same(&mut self, at: &str, pair: Pair<'_>) -> bool {
        let Some(word) = pair.0.or(pair.1) else { return true };
        let kind = word.kind;
        let class = self.classes.entry(kind).or_default();
        class.said += 1;
        if let (Some(recorded), Some(ours)) = pair {
            let numbers = || recorded.numbers().iter().zip(ours.numbers());
            self.numbers += numbers().count() as u64;
            self.differing_numbers += numbers().filter(|(a, b)| a != b).count() as u64;
            if recorded == ours {
                class.same += 1;
                return true;
            }
        }
        if class.examples.len() < EXAMPLES {
            let text = |word: Option<&Word>| word.map_or_else(|| "nothing".into(), Word::text);
            let (recorded, ours) = (text(pair.0), text(pair.1));
            class.examples.push(format!("{at}: Linux {recorded}, ours {ours}"));
        }
        false
    }

    /// A call of that kind was compared; `cause` says why it differs, if it does.
    pub(super) fn call(&mut self, kind: &'static str, at: &str, cause: Option<Cause>) {
        *self.calls.entry(kind).or_default() += 1;
        if let Some(cause) = cause {
            *self.differences.entry(cause).or_default() += 1;
            self.first.get_or_insert_with(|| format!("{at}: {cause:?}"));
        }
    }

    /// How often messages of a kind occurred.
    pub(super) fn said(&self, kind: Kind) -> u64 {
        self.classes.get(&kind).map_or(0, |class| class.said)
    }

    /// Calls that differ, for any cause.
    pub(super) fn differing_calls(&self) -> u64 {
        self.differences.values().sum()
    }

    pub(super) fn add(&mut self, other: &Account) {
        for (kind, more) in &other.calls {
            *self.calls.entry(kind).or_default() += more;
        }
        for (cause, more) in &other.differences {
            *self.differences.entry(*cause).or_default() += more;
        }
        self.numbers += other.numbers;
        self.differing_numbers += other.differing_numbers;
        for (kind, more) in &other.classes {
            let class = self.classes.entry(*kind).or_default();
            class.said += more.said;
            class.same += more.same;
            class.examples.extend(more.examples.iter().cloned());
        }
    }

    /// As text: the sums, and a kind a line with its differences below it.
    pub(super) fn report(&self) -> String {
        let calls: u64 = self.calls.values().sum();
        let differing = self.differing_calls();
        let Account { numbers, differing_numbers, .. } = self;
        let mut text = format!(
            "{calls} calls {:?}, {differing} differ {:?}\n\
             {numbers} numbers, {differing_numbers} differ\n",
            self.calls, self.differences
        );
        if let Some(first) = &self.first {
            text += &format!("first {first}\n");
        }
        for (kind, Class { said, same, examples }) in &self.classes {
            text += &format!("  {:16} {said:7} {:5}\n", format!("{kind:?}"), said - same);
            for example in examples {
                text += &format!("      {example}\n");
            }
        }
        text
    }
}

/// How well two words match.
fn likeness(one: &Word, other: &Word) -> u32 {
    match () {
        () if one == other => 5,
        () if one.kind != other.kind => 0,
        () if one.queue == other.queue => 3,
        () => 2,
    }
}

/// The messages of both sides in order, aligned so that as many as possible agree.
fn align<'a>(recorded: &'a [Word], ours: &'a [Word]) -> Vec<Pair<'a>> {
    let alike = |(one, other): (&Word, &Word)| one.kind == other.kind;
    if recorded.len() == ours.len() && recorded.iter().zip(ours).all(alike) {
        return recorded.iter().map(Some).zip(ours.iter().map(Some)).collect();
    }
    // best[i][j]: of what comes from i and j on.
    let (rows, columns) = (recorded.len(), ours.len());
    let mut best = vec![vec![0; columns + 1]; rows + 1];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            let alike = likeness(&recorded[i], &ours[j]);
            let both = if alike > 0 { best[i + 1][j + 1] + alike } else { 0 };
            best[i][j] = both.max(best[i + 1][j]).max(best[i][j + 1]);
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < rows || j < columns {
        let alike = if i < rows && j < columns { likeness(&recorded[i], &ours[j]) } else { 0 };
        if alike > 0 && best[i][j] == best[i + 1][j + 1] + alike {
            pairs.push((Some(&recorded[i]), Some(&ours[j])));
            (i, j) = (i + 1, j + 1);
        } else if i < rows && (j == columns || best[i][j] == best[i + 1][j]) {
            pairs.push((Some(&recorded[i]), None));
            i += 1;
        } else {
            pairs.push((None, Some(&ours[j])));
            j += 1;
        }
    }
    pairs
}
