// SPDX-License-Identifier: MIT OR Apache-2.0
//! Die: reads a unit in tR, programs one in tPROG, one thing at a time.
//!
//! Reads are served in the order in which they come. A read that finds a program under way waits
//! for its end; with program suspend it waits only until the program can be suspended, and the
//! program ends later by the time that the reads took:
//!
//! ```text
//! without suspend   program |==============================|      with: program 700, tR 75,
//!                   read             ^ waits ..............|=75=|       suspend 20
//! with suspend      program |========|··20··|--75--|=====================|   ends at 795
//!                   read             ^ waits|==75==|
//! ```
//!
//! A program is delayed by at most its own duration; reads that come later wait for it. Without
//! that bound a busy reader would keep data in the write buffer forever.
//!
//! # Read modes
//! A cell of three bits is read in one, two or four steps, depending on which of its bits the page
//! holds: `tr` has one time for each kind of page, and which kind a page is depends on its address
//! alone (a hash), so that the same read always takes the same time.
//!
//! # Invariants
//! I1  Reads of one die never overlap, and end in the order of their beginning.
//! I2  A program ends no later than twice its time after it began.
//!
//! Source: `docs/rules/devices.md` (read modes 88/116/165 us, suspend of 20 to 24 us).
//! Assumed: the bound
//! of I2; drives do not publish theirs.

use paternoster_core::Nanos;

use super::layout::Piece;

/// How long a die's work takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DieTimes {
    /// tR for each kind of page, at least one.
    pub(super) reads: Vec<Nanos>,
    /// tPROG.
    pub(super) program: Nanos,
    /// Until a program is suspended; zero if it cannot be.
    pub(super) suspend: Nanos,
}

impl DieTimes {
    /// The tR of a piece: its pages are read at the same time, so it is that of the slowest.
    pub(super) fn read(&self, piece: &Piece) -> Nanos {
        if let [only] = self.reads.as_slice() {
            return *only;
        }
        let (first, last) = piece.pages;
        let slowest = (first..=last).map(|page| self.reads[kind(page, self.reads.len())]).max();
        slowest.unwrap_or(Nanos::ZERO)
    }
}

impl DieTimes {
    /// The tR of the slowest kind of page.
    pub(super) fn slowest_read(&self) -> Nanos {
        self.reads.iter().copied().max().unwrap_or(Nanos::ZERO)
    }
}

/// Which of `kinds` a page is: a hash of its address (the finalizer of splitmix64).
fn kind(page: u64, kinds: usize) -> usize {
    let mut mixed = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    usize::try_from((mixed >> 32) % kinds as u64).unwrap_or(0)
}

/// One die, and when it is free.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Die {
    reads_until: Nanos,
    program_until: Nanos,
    program_latest: Nanos,
}

impl Die {
    /// A read that takes `time` comes at `now`; returns when the data are in the register.
    pub(super) fn read(&mut self, now: Nanos, time: Nanos, suspend: Nanos) -> Nanos {
        let after_reads = now.max(self.reads_until);
        let begin = if self.program_until <= now {
            after_reads
        } else {
            self.read_during_program(now, time, suspend).unwrap_or_else(|| {
                // It waits for the program, and the reads before it.
                after_reads.max(self.program_until)
            })
        };
        self.reads_until = begin + time;
        self.reads_until
    }

    /// When a read that finds a program on the die may begin before the program ends, if it may.
    fn read_during_program(&mut self, now: Nanos, time: Nanos, suspend: Nanos) -> Option<Nanos> {
        // While other reads run, the program has not begun or is already suspended.
        let aside = self.reads_until > now && self.reads_until < self.program_until;
        let (begin, put_off) = match (suspend, aside) {
            (Nanos::ZERO, _) => return None,
            (_, true) => (self.reads_until, time),
            (_, false) if self.reads_until > now => return None,
            (_, false) => (now + suspend, suspend + time),
        };
        if self.program_until + put_off > self.program_latest {
            return None;
        }
        self.program_until += put_off;
        Some(begin)
    }

    /// A program begins as soon as the reads are done; returns when it ends unless reads delay it.
    pub(super) fn program(&mut self, now: Nanos, time: Nanos) -> Nanos {
        debug_assert!(self.program_until <= now, "a die programs one unit at a time");
        let begin = now.max(self.reads_until);
        self.program_until = begin + time;
        self.program_latest = self.program_until + time;
        self.program_until
    }

    /// When its program ends, as things are now.
    pub(super) const fn program_until(&self) -> Nanos {
        self.program_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    /// Do reads wait for each other and for a program, in order of arrival? 75 us each: the second
    /// at 10 ends at 150; one at 200 during a program until 850 ends at 925.
    #[test]
    fn one_thing_at_a_time() {
        let mut die = Die::default();
        assert_eq!(die.read(us(0), us(75), us(0)), us(75));
        assert_eq!(die.read(us(10), us(75), us(0)), us(150));
        // The program comes at 20 and waits for the reads.
        assert_eq!(die.program(us(20), us(700)), us(850));
        assert_eq!(die.read(us(200), us(75), us(0)), us(925));
        assert_eq!(die.read(us(210), us(75), us(0)), us(1000));
    }

    /// Does the drawing hold? Program 0 to 700, read at 100: begins at 120, ends at 195, program
    /// ends at 795. A second read at 150 follows at once: 195 to 270, program 870.
    #[test]
    fn a_program_lies_aside_for_reads() {
        let mut die = Die::default();
        die.program(us(0), us(700));
        assert_eq!(die.read(us(100), us(75), us(20)), us(195));
        assert_eq!(die.program_until(), us(795));
        assert_eq!(die.read(us(150), us(75), us(20)), us(270));
        assert_eq!(die.program_until(), us(870));
    }

    /// Does a program end by twice its time (I2), however many reads come? 700 us of delay allow 7
    /// reads of 20 + 75 = 95 us each, 665; the eighth waits.
    #[test]
    fn a_program_is_not_put_off_for_ever() {
        let mut die = Die::default();
        die.program(us(0), us(700));
        for read in 0..7 {
            assert_eq!(die.read(us(read * 150), us(75), us(20)), us(read * 150 + 95));
        }
        assert_eq!(die.program_until(), us(1365));
        assert_eq!(die.read(us(1050), us(75), us(20)), us(1440));
        assert!(die.program_until() <= us(1400));
    }

    /// Are the kinds of pages spread evenly, and always the same? 3000 pages: a thousand each,
    /// within five standard deviations (26 each).
    #[test]
    fn kinds_of_pages_are_spread() {
        let mut count = [0u32; 3];
        for page in 0..3000 {
            assert_eq!(kind(page, 3), kind(page, 3));
            count[kind(page, 3)] += 1;
        }
        assert!(count.iter().all(|count| (870..=1130).contains(count)), "{count:?}");
    }

    /// Does the slowest page of a piece set its time?
    #[test]
    fn the_slowest_page_decides() {
        let times =
            DieTimes { reads: vec![us(88), us(116), us(165)], program: us(0), suspend: us(0) };
        let long = Piece { die: 0, sectors: 8, pages: (0, 40) };
        assert_eq!(times.read(&long), us(165));
        let one = Piece { die: 0, sectors: 8, pages: (7, 7) };
        assert_eq!(times.read(&one), times.reads[kind(7, 3)]);
    }
}
