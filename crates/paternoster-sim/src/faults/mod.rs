// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults: errors, delays, stalls and refusals in front of any model, by rules.
//!
//! To see what a scheduler and its callers do when a device misbehaves, it must misbehave on
//! demand. A rule selects commands and says what happens to them (`rule.rs` has the language):
//!
//! ```text
//! error every=100 op=write errno=5           every hundredth write ends with EIO
//! error range=1m-2m                          whatever touches the second MiB
//! delay probability=0.01 time=50ms           one in a hundred completes 50 ms late
//! stall every=1000 time=1s count=3           the whole device stands still for a second
//! refuse every=10 from=2s to=3s              the device takes no command; it is requeued
//! slow factor=10 from=2s to=3s               answers take ten times as long
//! throttle rate=50MiB from=2s                at most this many bytes a second are answered
//! ```
//!
//! # Idea
//! The model does not know of the faults. A command that fails still takes its time. A delay holds
//! back the answer, not the work. A stall stops the clock of the model: everything that is in it,
//! and what comes meanwhile, happens later by the length of the stall. A slow or throttled command
//! is held back like a delayed one: its place in the device stays taken, so that a full device does
//! less, and later.
//!
//! ```text
//! outer time   0    10 stall of 50              60   65
//! inner time   0----10  (stands still) ---------10---15      inner = outer - 50
//! ```
//!
//! # Order
//! A command passes the rules in their order. Refusing rules see every attempt; the others see only
//! commands that the device has taken. The first error is the error; delays add, the larger of two
//! factors counts, and the later of two throttles; overlapping stalls are one that ends with the
//! later.
//!
//! # Invariants
//! I1  Every command taken completes exactly once, with the model's device time.
//! I2  The same rules, seed and commands give the same faults: chance comes from each rule's own
//!     generator and is drawn only for commands that the rest of the rule selects.

mod rule;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paternoster_core::{Command, Completion, DeviceFacts, Nanos, Refused, Status};

use crate::model::{Figure, Model};

pub use self::rule::{Effect, Rule, Watch};

/// What will happen to a command that the device has taken.
#[derive(Debug, Clone, Copy, Default)]
struct Verdict {
    /// 0 for none.
    errno: i32,
    delay: Nanos,
    /// When it came, in the time of the model, and how many times its own time it is late.
    came: Nanos,
    longer: u64,
    /// When a throttle lets it go.
    not_before: Nanos,
}

/// An answer that is held back, in the time of the model.
#[derive(Debug, Clone, Copy)]
struct Held {
    until: Nanos,
    order: u64,
    completion: Completion,
}

impl Held {
    const fn key(&self) -> (Nanos, u64) {
        (self.until, self.order)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A model with faults.
#[derive(Debug)]
pub struct Faulty {
    inner: Box<dyn Model>,
    refusing: Vec<Watch>,
    others: Vec<Watch>,
    /// Verdicts by the index of the command's tag.
    verdicts: Vec<Verdict>,
    held: BinaryHeap<Reverse<Held>>,
    held_ever: u64,
    inside: u32,
    /// Total time that the model has stood still, with a current stall counted to its end.
    stood: Nanos,
    stalled_until: Nanos,
}

impl Faulty {
    /// `inner` with the faults of `rules`; `seed` determines their random choices.
    #[must_use]
    pub fn new(inner: Box<dyn Model>, rules: &[Rule], seed: u64) -> Faulty {
        let depth = inner.facts().depth as usize;
        let watches = rules.iter().zip(0..).map(|(rule, place)| Watch::new(rule, seed, place));
        let (refusing, others) = watches.partition(|watch| watch.effect() == Effect::Refuse);
        Faulty {
            inner,
            refusing,
            others,
            verdicts: vec![Verdict::default(); depth],
            held: BinaryHeap::with_capacity(depth),
            held_ever: 0,
            inside: 0,
            stood: Nanos::ZERO,
            stalled_until: Nanos::ZERO,
        }
    }

    /// Adds a rule, which sees the commands from now on. `place` and `seed` determine its random
    /// choices.
    pub fn add(&mut self, rule: &Rule, seed: u64, place: u64) {
        let watch = Watch::new(rule, seed, place);
        if watch.effect() == Effect::Refuse {
            self.refusing.push(watch);
        } else {
            self.others.push(watch);
        }
    }

    /// The power has failed and is back: `inner` replaces the model, and no command is inside. The
    /// rules keep their counts.
    pub fn restart(&mut self, inner: Box<dyn Model>) {
        self.inner = inner;
        self.held.clear();
        self.inside = 0;
        self.stood = Nanos::ZERO;
        self.stalled_until = Nanos::ZERO;
    }

    /// The time of the model.
    fn inner_time(&self, now: Nanos) -> Nanos {
        now.max(self.stalled_until) - self.stood
    }

    fn stall(&mut self, now: Nanos, time: Nanos) {
        let stands_until = now.max(self.stalled_until);
        let until = stands_until.max(now + time);
        self.stood += until - stands_until;
        self.stalled_until = until;
    }

    /// Lets the rules decide about a command that the device has taken.
    fn judge(&mut self, now: Nanos, command: &Command) {
        let came = self.inner_time(now);
        let mut verdict = Verdict { came, ..Verdict::default() };
        let mut stall = Nanos::ZERO;
        for watch in &mut self.others {
            if !watch.selects(now, command) {
                continue;
            }
            match watch.effect() {
                Effect::Error(errno) if verdict.errno == 0 => verdict.errno = errno,
                Effect::Delay(time) => verdict.delay += time,
                Effect::Stall(time) => stall = stall.max(time),
                Effect::Slow(factor) => verdict.longer = verdict.longer.max(factor - 1),
                Effect::Throttle(rate) => {
                    verdict.not_before = verdict.not_before.max(watch.let_go(came, command, rate));
                }
                Effect::Error(_) | Effect::Refuse | Effect::Torn | Effect::Misdirect => {}
            }
        }
        let place = command.tag.index() as usize;
        if place >= self.verdicts.len() {
            // Only possible with a queue whose tags serve more than this device.
            self.verdicts.resize(place + 1, Verdict::default());
        }
        self.verdicts[place] = verdict;
        if stall > Nanos::ZERO {
            self.stall(now, stall);
        }
    }

    /// The model's answer as reported; `None` while it is held back.
    fn answer(&mut self, mut completion: Completion) -> Option<Completion> {
        let verdict = self.verdicts[completion.tag.index() as usize];
        if verdict.errno != 0 && completion.outcome.status == Status::Ok {
            completion.outcome.status = Status::Failed(verdict.errno);
        }
        let took = completion.at - verdict.came;
        let late = verdict.delay + Nanos(took.0.saturating_mul(verdict.longer));
        let until = (completion.at + late).max(verdict.not_before);
        if until == completion.at {
            return Some(completion);
        }
        self.held.push(Reverse(Held { until, order: self.held_ever, completion }));
        self.held_ever += 1;
        None
    }

    fn tell(&mut self, mut completion: Completion, inner_time: Nanos) -> Completion {
        completion.at = inner_time + self.stood;
        self.inside -= 1;
        completion
    }

    fn first_held(&self) -> Option<Nanos> {
        self.held.peek().map(|Reverse(held)| held.until)
    }
}

impl Model for Faulty {
    fn facts(&self) -> DeviceFacts {
        self.inner.facts()
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        // Answers that are held back are still in the device, though not in the model.
        let full = self.inside >= self.inner.facts().depth;
        if full || self.refusing.iter_mut().any(|watch| watch.selects(now, command)) {
            return Err(Refused);
        }
        self.inner.submit(self.inner_time(now), command)?;
        self.inside += 1;
        self.judge(now, command);
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        self.inner.figures()
    }

    fn next_event(&self) -> Option<Nanos> {
        let inner = self.inner.next_event();
        let next = match (inner, self.first_held()) {
            (Some(inner), Some(held)) => Some(inner.min(held)),
            (inner, held) => inner.or(held),
        };
        next.map(|next| next + self.stood)
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        let inner_now = self.inner_time(now);
        loop {
            let inner = self.inner.next_event().filter(|&at| at <= inner_now);
            let held = self.first_held().filter(|&at| at <= inner_now);
            match (inner, held) {
                (None, None) => return None,
                (Some(inner), held) if held.is_none_or(|held| inner <= held) => {
                    // One event of the model at a time, so that held answers keep their place.
                    if let Some(completion) = self.inner.advance(inner)
                        && let Some(completion) = self.answer(completion)
                    {
                        return Some(self.tell(completion, completion.at));
                    }
                }
                _ => {
                    let Reverse(held) = self.held.pop()?;
                    return Some(self.tell(held.completion, held.until));
                }
            }
        }
    }
}
