// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands: what the device was given and has not ended, with the memory that is lent for it.
//!
//! ```text
//! lend, lend … ─▶ give ──▶ device        taken: a command of its slot is under way
//!                   └────▶ refused       the loans come back
//! reap ─▶ ended: a tag, and an errno ─▶ returned, returned …
//! ```
//!
//! What a device does at once has been done when its bytes are still in the cache: after so many
//! bytes it is worth asking what has ended.
//!
//! Invariants: I1 `count` is the number of slots with a tag; I2 loans are here only between a call
//! that lends or ends and the last `returned` after it.

use paternoster_core::{DeviceFacts, Nanos, Tag};

use crate::clock::Clock;
use crate::device::lender::{Lender, Loan};
use crate::device::{Backend, Finished, Job};

/// Bytes given to a device before it is asked what has ended: what was done at once is answered
/// while it is in the cache, and its client goes on while the rest is done.
const BURST: u64 = 128 << 10;
/// How many commands are listed one by one.
const TOLD: usize = 4;

/// What happened to a command that was given to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// The device has it.
    Taken,
    /// The device has it, and should be asked what has ended.
    Burst,
    /// The device takes no more: what was lent for it comes back.
    Refused,
}

/// The commands of a device.
#[derive(Debug)]
pub(super) struct Commands {
    lender: Lender,
    /// For each slot: the command in the backend.
    tags: Vec<Option<Tag>>,
    /// For each slot: when the backend was given the command.
    given: Vec<Nanos>,
    count: u32,
    /// Bytes given to the backend since it was last asked what has ended.
    burst: u64,
    /// The device does its commands at once, on this thread.
    at_once: bool,
    told_of_loss: bool,
    /// Memory on its way to the device, or back; kept to be used again.
    loans: Vec<Loan>,
}

impl Commands {
    /// No command is under way yet.
    pub(super) fn new(lender: Lender, facts: &DeviceFacts) -> Commands {
        Commands {
            at_once: lender.backend().does_at_once(),
            lender,
            tags: vec![None; facts.depth as usize],
            given: vec![Nanos::ZERO; facts.depth as usize],
            count: 0,
            burst: 0,
            told_of_loss: false,
            loans: Vec::with_capacity(usize::from(facts.max_segments)),
        }
    }

    /// The device.
    pub(super) fn backend(&self) -> &dyn Backend {
        self.lender.backend()
    }

    /// The part that lends memory to the backend and asks it for holes.
    pub(super) const fn lender(&mut self) -> &mut Lender {
        &mut self.lender
    }

    /// Whether a question for holes was answered.
    pub(super) fn has_surveyed(&self) -> bool {
        self.lender.has_surveyed()
    }

    /// Number of commands under way.
    pub(super) const fn len(&self) -> u32 {
        self.count
    }

    /// Whether no command is under way.
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether the device does its commands at once, in the loop's own time.
    pub(super) const fn are_done_at_once(&self) -> bool {
        self.at_once
    }

    /// Whether those that are under way have taken the loop's time until then.
    pub(super) fn have_spent(&self, clock: &Clock, until: Nanos) -> bool {
        self.at_once && self.count > 0 && clock.now() >= until
    }

    /// Memory for the next command.
    pub(super) fn lend(&mut self, loan: Loan) {
        self.loans.push(loan);
    }

    /// Memory that came back with the last command, or was not taken.
    #[inline]
    pub(super) fn returned(&mut self) -> Option<Loan> {
        self.loans.pop()
    }

    /// Gives the device a command, with what was lent for it.
    pub(super) fn give(&mut self, now: Nanos, tag: Tag, job: Job<'static>) -> Given {
        let bytes = job.length;
        if self.lender.submit(now, job, &mut self.loans).is_err() {
            return Given::Refused;
        }
        self.tags[tag.index() as usize] = Some(tag);
        self.given[tag.index() as usize] = now;
        self.count += 1;
        self.burst += bytes;
        if self.burst >= BURST && self.lender.backend().deadline() == Some(Nanos::ZERO) {
            self.burst = 0;
            return Given::Burst;
        }
        Given::Taken
    }

    /// Tells the device that no more commands come now.
    pub(super) fn kick(&mut self) {
        self.lender.kick();
    }

    /// Asks the device what has ended; returns whether anything has.
    pub(super) fn reap(&mut self, now: Nanos) -> bool {
        self.lender.reap(now)
    }

    /// The next command that has ended, and its errno; its memory is returned. Without a tag: the
    /// device has reported this end twice.
    pub(super) fn ended(&mut self) -> Option<(Option<Tag>, i32)> {
        let Finished { slot, error } = self.lender.ended(&mut self.loans)?;
        let tag = self.tags[slot as usize].take();
        self.count -= u32::from(tag.is_some());
        Some((tag, error))
    }

    /// The errno with which the device has lost data, the first time that it is asked for.
    pub(super) fn loss(&mut self) -> Option<i32> {
        let errno = self.lender.backend().lost().filter(|_| !self.told_of_loss);
        self.told_of_loss |= errno.is_some();
        errno
    }

    /// The age of the oldest one.
    pub(super) fn oldest(&self, now: Nanos) -> Nanos {
        let all = self.tags.iter().zip(&self.given).filter(|(tag, _)| tag.is_some());
        let oldest = all.map(|(_, &given)| given).min();
        oldest.map_or(Nanos::ZERO, |given| now - given)
    }

    /// The commands under way, in words: at most [`TOLD`] one by one, as `named` describes them.
    pub(super) fn under_way(&self, named: impl Fn(Tag) -> String) -> String {
        let mut words = format!("{} commands", self.count);
        for (number, tag) in self.tags.iter().flatten().take(TOLD).enumerate() {
            words.push_str(if number == 0 { ": " } else { ", " });
            words.push_str(&named(*tag));
        }
        if self.count as usize > TOLD {
            words.push_str(", …");
        }
        words
    }

    /// The last flush: returns its errno, or nothing if the device has not answered by then.
    pub(super) fn flush_and_wait(&mut self, now: Nanos, clock: &Clock, by: Nanos) -> Option<i32> {
        let job = Job::flush();
        if self.lender.submit(now, job, &mut Vec::new()).is_err() {
            return Some(0);
        }
        self.lender.kick();
        while !self.lender.reap(clock.now()) && clock.now() < by {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.lender.ended(&mut Vec::new()).map(|finished| finished.error)
    }

    /// The device does its commands at once from now on.
    #[cfg(test)]
    pub(super) const fn do_at_once(&mut self) {
        self.at_once = true;
    }

    /// Tags of what is under way, counted.
    #[cfg(test)]
    pub(super) fn tags(&self) -> usize {
        self.tags.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use crate::device::Work;
    use paternoster_core::{Bio, ClientSpec, Limits, NoObserver, Op, Output};

    use super::*;
    use crate::device::arena::{Arena, LARGEST};
    use crate::device_loop::rig::Prompt;
    use crate::recorded_queue::RecordedQueue;

    /// Commands of a device that ends each when it is asked, unless it is held.
    fn none_yet() -> (Commands, Arena, std::sync::Arc<std::sync::atomic::AtomicBool>) {
        let arena = Arena::new(4 * LARGEST).unwrap();
        let prompt = Prompt::default();
        let holds = prompt.holds();
        let facts = prompt.facts();
        (Commands::new(Lender::new(Box::new(prompt), &arena), &facts), arena, holds)
    }

    fn tags(many: u64) -> Vec<Tag> {
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        let facts = DeviceFacts { depth: 32, ..DeviceFacts::default() };
        let mut queue = RecordedQueue::new(facts, Limits::default(), noop, NoObserver).unwrap();
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        let mut tags = Vec::new();
        for at in 0..many {
            queue.submit(Nanos::ZERO, Bio::new(client, Op::Write, 64 * at, 8)).unwrap();
            if let Output::Issue(command) = queue.next(Nanos::ZERO) {
                tags.push(command.tag);
            }
        }
        tags
    }

    fn write(tag: Tag, length: u64) -> Job<'static> {
        let (slot, work) = (tag.index(), Work::Write { fua: false });
        Job { slot, work, file: 0, offset: 0, length, pieces: &[], sector: 0 }
    }

    /// Does a command keep its memory until it has ended, and is each counted once?
    #[test]
    fn memory_comes_back_with_the_end() {
        let (mut commands, mut arena, _) = none_yet();
        let tag = tags(1)[0];
        let block = arena.take(4096).unwrap();
        commands.lend(Loan { whose: 7, length: 4096, block });
        assert_eq!(commands.give(Nanos::from_secs(1), tag, write(tag, 4096)), Given::Taken);
        assert!(commands.returned().is_none() && commands.len() == 1);
        assert_eq!(commands.oldest(Nanos::from_secs(3)), Nanos::from_secs(2));
        assert!(commands.reap(Nanos::from_secs(3)));
        assert_eq!(commands.ended(), Some((Some(tag), 0)));
        let loan = commands.returned().unwrap();
        assert_eq!((loan.whose, commands.is_empty(), commands.ended()), (7, true, None));
        assert_eq!(commands.oldest(Nanos::from_secs(3)), Nanos::ZERO);
        arena.give_back(loan.block);
    }

    /// Are at most four listed one by one, and the others hinted at?
    #[test]
    fn few_are_listed() {
        let (mut commands, ..) = none_yet();
        for tag in tags(5) {
            commands.give(Nanos::ZERO, tag, write(tag, 0));
        }
        let words = commands.under_way(|_| "it".to_owned());
        assert_eq!(words, "5 commands: it, it, it, it, …");
    }

    /// Is the last flush waited for until its time is over, and not longer?
    #[test]
    fn a_device_that_hangs_is_left() {
        let (mut commands, _, holds) = none_yet();
        let clock = Clock::Told(Nanos::from_secs(9));
        let flush = |commands: &mut Commands| {
            commands.flush_and_wait(Nanos::ZERO, &clock, Nanos::from_secs(9))
        };
        assert_eq!(flush(&mut commands), Some(0));
        holds.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(flush(&mut commands), None);
    }
}
