// SPDX-License-Identifier: MIT OR Apache-2.0
//! Behind: what random writes leave in a disk's cache is charged to them, not to the stream that
//! waits for room there (rule C8).
//!
//! A write has ended as soon as the cache has it. Its way to the medium takes time later: that of
//! the clients that wait meanwhile. Room is counted in bytes, ways in extents, so that a stream
//! waits until 32 of 4 KiB have left for 128 KiB of its own, which those find again at once:
//!
//! ```text
//! hdd-7200-no-ncq, a stream and 4 KiB at random      alone      together
//! 128 KiB of the stream, in the device               0.7 ms     6.0 ms, up to 270
//! 4 KiB                                              2.4 ms     2.0 ms
//! so, if each pays that, the stream has 152 of the 758 a second that it is owed
//! ```
//!
//! So while random writes may have left something, a stream's write is charged what its sectors
//! cost, and what it took more goes into a *pot*. So does time in which the device had requests and
//! served none of them: it worked for writes that had ended. Random writes are charged a 64th of
//! the pot each, in addition to what their kind takes (C6). All time is charged, once.
//!
//! Only a device that tells what its requests took tells that time. By the queue's own clock it
//! serves whatever is inside, and what those have had so far would seem to be no request's.
//!
//! Each may have left [`LEFT`] at most, less what it took: what it pays for others is bounded by
//! that, and streams without random writes beside them pay for what they take, as ever. What a
//! sector costs is taken from reads of streams; until there are some it is a guess.
//!
//! # Invariants
//! I1  All that was taken from others and has not been charged is in the pot, to the nanosecond;
//!     the pot is not negative.
//! I2  No more is taken than random writes may have left.
//! I3  A few steps a request; integers, no allocation.
//!
//! Source: own; C8 of `docs/rules/adaptive.md`; measured on the models, see `docs/elevator.md`.

use paternoster_core::{Op, Request};

/// What a random write may leave in the cache, in ns: about the longest way there is on average.
const LEFT: i64 = 8_000_000;
/// What all may have left, in ns: a thousand of them, as many as a cache may hold.
const LEFT_MOST: i64 = 8_000_000_000;
/// The pot is charged to this many random writes, as a power of two.
const SPREAD: u32 = 6;
/// What a request of a stream costs besides its sectors, in ns.
const COMMAND: u64 = 50_000;
/// What a sector costs before streams were read, in 1024ths of a ns: 197 MB/s.
const SECTOR: u64 = 2_600 << POINT;
const POINT: u32 = 10;
/// The mean is over this many reads, as a power of two, of as many sectors at least, that took no
/// more than this many times what was expected: else there was a way, or a pause.
const READS: u32 = 6;
const READ_LEAST: u64 = 64;
const OUTLIER: u64 = 4;

/// What writes in the cache have cost others.
#[derive(Debug)]
pub(super) struct Behind {
    is_on: bool,
    /// What random writes may have left, in ns.
    left: i64,
    /// I1, in ns.
    pot: i64,
    /// What a sector of a stream costs, in 1024ths of a ns.
    sector: u64,
    /// What ended requests took; and the busy time besides when last looked at.
    served: u64,
    besides: i64,
}

impl Behind {
    /// Switched off, until the elevator says what it may learn.
    pub(super) const fn new() -> Behind {
        Behind { is_on: false, left: 0, pot: 0, sector: SECTOR, served: 0, besides: 0 }
    }

    /// From now on each pays for what it took, or again for what it left.
    pub(super) const fn switch(&mut self, on: bool) {
        (self.is_on, self.left, self.pot) = (on, 0, 0);
    }

    /// Whether each pays for what it left.
    #[inline(always)]
    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// What a request is charged that has ended after `served` ns and would be charged `charge`
    /// otherwise; the device has been busy for `busy` ns so far, if it tells what requests took.
    pub(super) fn charge(
        &mut self,
        ended: &Request,
        is_random: bool,
        (served, charge): (u64, u64),
        busy: Option<u64>,
    ) -> u64 {
        if !self.is_on {
            return charge;
        }
        if let Some(busy) = busy {
            self.claim(served, busy);
        }
        match (ended.op(), is_random) {
            (Op::Write, true) => self.random_write(served, charge),
            (Op::Write, false) => self.stream_write(ended.sectors(), served),
            (Op::Read, false) => {
                self.learn(ended.sectors(), served);
                charge
            }
            _ => charge,
        }
    }

    /// The time in which the device had requests and served none. (It counts what those inside have
    /// had so far, and gives that back when they end.)
    fn claim(&mut self, served: u64, busy: u64) {
        self.served += served;
        let besides = busy.cast_signed() - self.served.cast_signed();
        self.take(besides - self.besides);
        self.besides = besides;
    }

    /// Moves time into the pot, or out of it; returns how much (I1, I2).
    fn take(&mut self, time: i64) -> i64 {
        let taken = time.max(-self.pot).min(self.left);
        self.left -= taken.max(0);
        self.pot += taken;
        taken
    }

    fn random_write(&mut self, served: u64, charge: u64) -> u64 {
        let left = LEFT - i64::try_from(served).unwrap_or(i64::MAX).min(LEFT);
        self.left = (self.left + left).min(LEFT_MOST);
        let part = self.pot >> SPREAD;
        self.pot -= part;
        charge + part.unsigned_abs()
    }

    fn stream_write(&mut self, sectors: u32, served: u64) -> u64 {
        if self.left == 0 {
            return served;
        }
        let served = i64::try_from(served).unwrap_or(i64::MAX);
        (served - self.take(served - self.cost_of(sectors).cast_signed())).unsigned_abs()
    }

    /// What a request of a stream costs, in ns.
    const fn cost_of(&self, sectors: u32) -> u64 {
        COMMAND + ((sectors as u64 * self.sector) >> POINT)
    }

    /// A read of a stream took so long.
    fn learn(&mut self, sectors: u32, served: u64) {
        let many = u64::from(sectors);
        if many >= READ_LEAST && served < OUTLIER * self.cost_of(sectors) {
            let each = (served << POINT) / many;
            self.sector = self.sector - (self.sector >> READS) + (each >> READS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use paternoster_core::time::Nanos;
    use paternoster_core::{Bio, ClientId};

    const MS: u64 = 1_000_000;

    fn request(op: Op, sectors: u32) -> Request {
        Request::of(&Bio::new(ClientId::NOBODY, op, 0, sectors), Nanos::ZERO)
    }

    fn switched_on() -> Behind {
        let mut behind = Behind::new();
        behind.switch(true);
        behind
    }

    /// A disk that always serves something, so that nothing but `took` has passed.
    struct Busy(Behind, u64);

    impl Busy {
        fn new() -> Busy {
            Busy(switched_on(), 0)
        }

        fn ends(&mut self, op: Op, sectors: u32, is_random: bool, took: u64) -> u64 {
            self.1 += took;
            self.0.charge(&request(op, sectors), is_random, (took, took), Some(self.1))
        }
    }

    /// C8: does a stream that waits for 32 random writes pay for its sectors only, and do the
    /// random ones pay the rest? 256 sectors at 2.6 us and 0.05 ms: 0.7156 ms of 77.
    #[test]
    fn c8_who_wrote_pays_for_the_room() {
        let mut disk = Busy::new();
        let (mut random, mut stream) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            for _ in 0..32 {
                random.push(disk.ends(Op::Write, 8, true, MS / 10));
            }
            stream.push(disk.ends(Op::Write, 256, false, 77 * MS));
        }
        assert!(stream.iter().all(|&paid| paid == 715_600), "{stream:?}");
        // All that has passed is charged, or in the pot (I1).
        let charged: u64 = random.iter().chain(&stream).sum();
        assert_eq!(charged + disk.0.pot.unsigned_abs(), disk.1);
        // (77 - 0.7156) / 32 + 0.1 = 2.48 ms each, but for what is in the pot.
        let last = random[random.len() - 3200..].iter().sum::<u64>() / 3200;
        assert!((2_400_000..=2_560_000).contains(&last), "{last}");
    }

    /// C8, I2: does a stream pay for what it takes where nothing was written at random, or no more
    /// than was taken already? One write of 0.1 ms may have left 7.9 ms.
    #[test]
    fn c8_no_more_is_taken_than_was_left() {
        let mut disk = Busy::new();
        assert_eq!(disk.ends(Op::Write, 256, false, 77 * MS), 77 * MS);
        disk.ends(Op::Write, 8, true, MS / 10);
        assert_eq!(disk.ends(Op::Write, 256, false, 77 * MS), 77 * MS - 7_900_000);
        assert_eq!(disk.ends(Op::Write, 256, false, 77 * MS), 77 * MS);
    }

    /// C8: is time in which the device served nothing charged to those who wrote at random? Reads
    /// take 5 ms, and the disk works for 3 ms in between; a 64th of what has gathered is paid with
    /// each write: in the end 3 ms for each.
    #[test]
    fn c8_background_work_has_an_owner() {
        let (mut behind, mut busy, mut last) = (switched_on(), 0, 0);
        for _ in 0..1000 {
            busy += 8 * MS;
            let read = behind.charge(&request(Op::Read, 8), true, (5 * MS, 5 * MS), Some(busy));
            assert_eq!(read, 5 * MS);
            last = behind.charge(&request(Op::Write, 8), true, (0, 0), Some(busy));
        }
        assert!(last.abs_diff(3 * MS) < MS / 100, "{last}");
    }

    /// C8: is no time without a request found where the device does not tell what requests took?
    #[test]
    fn c8_time_is_without_a_request_only_if_the_device_tells_so() {
        for (busy, left) in [(None, 0), (Some(8 * MS), 3)] {
            let mut behind = switched_on();
            behind.charge(&request(Op::Write, 8), true, (0, 0), busy.map(|_| 0));
            behind.charge(&request(Op::Read, 8), true, (5 * MS, 5 * MS), busy);
            assert_eq!(behind.pot, left * MS.cast_signed());
        }
    }

    /// C8: does a stream's write that found room pay for its sectors, too, as far as others have
    /// paid too much? And is the pot never negative (I1)?
    #[test]
    fn c8_room_is_not_free_while_others_wait_for_it() {
        let mut disk = Busy::new();
        disk.ends(Op::Write, 8, true, MS / 10);
        assert_eq!(disk.ends(Op::Write, 256, false, MS / 10), MS / 10, "the pot is empty");
        assert_eq!(disk.ends(Op::Write, 256, false, 2 * MS), 715_600);
        assert_eq!(disk.ends(Op::Write, 256, false, MS / 10), 715_600);
        assert_eq!(disk.0.pot, 1_284_400 - 615_600);
    }

    /// C8: is a sector's cost learned from reads of streams, whatever single ones take? 256 sectors
    /// in 1.28 ms are 5 us each.
    #[test]
    fn c8_reads_of_streams_tell_what_sectors_cost() {
        let mut disk = Busy::new();
        for nth in 0..1000 {
            let took = if nth % 10 == 0 { 20 * MS } else { 1_280_000 };
            assert_eq!(disk.ends(Op::Read, 256, false, took), took);
        }
        assert!(disk.0.cost_of(256).abs_diff(1_330_000) < 2_000, "{}", disk.0.cost_of(256));
    }
}
