// SPDX-License-Identifier: MIT OR Apache-2.0
//! Least time: what requests of a sort take at the least, in a device that has room for them (L6).
//!
//! A device is crowded where requests take longer than that. A sort has sizes from one power of two
//! to the next, of which the greatest may well take twice as long as the least. So each power of
//! two is four steps, of sizes that differ by a quarter at most:
//!
//! ```text
//! sectors       128 … 159   160 … 191   192 … 223   224 … 255
//! 128 took      228 us      342 at most 399         456           none of these has come yet
//! 160 took                  270                     432
//! ```
//!
//! What has not come yet is bounded by what has. A larger request takes no longer than in
//! proportion to its size, as each has a part that does not depend on that. Where nothing
//! rotates no read takes less than a smaller one would: a client that comes to a full device
//! learns no other.
//!
//! A request that failed, one that took no time by a clock that stands still, and a discard (which
//! moves no data, and counts among writes of its size) say nothing of what others take.
//!
//! # Invariants
//! I1  A step has no more than the least that a request of its sizes took.
//!
//! Source: L6 of `docs/rules/adaptive.md`; own.

use crate::adaptive::throughput_gain::{READS, SIZES, SORTS};
use paternoster_core::{Op, Request};

/// Steps from one power of two to the next.
const STEPS: usize = 4;

/// The least times of all sorts.
#[derive(Debug)]
pub(super) struct LeastTimes {
    /// Of each sort and step, in ns; the greatest number where there was none.
    times: [u64; SORTS * STEPS],
    /// The device rotates; if not, no read takes less than a smaller one would.
    rotates: bool,
}

impl LeastTimes {
    pub(super) const fn new(rotates: bool) -> LeastTimes {
        LeastTimes { times: [u64::MAX; SORTS * STEPS], rotates }
    }

    /// This request, of this sort, was in the device for `latency`. Returns the least for such.
    #[inline(always)]
    pub(super) fn ended(&mut self, sort: u8, ended: &Request, latency: u64) -> u64 {
        let place = usize::from(sort) * STEPS + step_of(ended.sectors());
        if latency < self.times[place] {
            self.went_below(place, ended, latency);
            return latency;
        }
        self.times[place]
    }

    /// No request of this sort and step has taken as little.
    #[inline(never)]
    fn went_below(&mut self, place: usize, ended: &Request, latency: u64) {
        if latency > 0 && !ended.has_failed() && ended.op() != Op::Discard {
            self.learn(place, latency);
        }
    }

    fn learn(&mut self, place: usize, latency: u64) {
        let (sort, step) = (place / STEPS, place % STEPS);
        let is_bound = !self.rotates && sort < READS;
        let first = if is_bound { sort / SIZES * SIZES } else { sort };
        let smaller = first * STEPS..=place;
        self.times[smaller].iter_mut().for_each(|time| *time = latency.min(*time));
        for larger in step + 1..STEPS {
            // The greatest of its sizes, divided by the least of this step's.
            let [most, least] = [STEPS + larger + 1, STEPS + step].map(|part| part as u64);
            let time = &mut self.times[sort * STEPS + larger];
            *time = (latency.saturating_mul(most) / least).min(*time);
        }
    }
}

/// Which quarter of the way to the next power of two a size is in.
const fn step_of(sectors: u32) -> usize {
    // The two bits after the highest one, which is shifted to the top.
    (sectors.wrapping_shl(sectors.leading_zeros()) >> 29) as usize % STEPS
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::time::Nanos;
    use paternoster_core::{Bio, ClientId};

    fn ended(least: &mut LeastTimes, sort: u8, sectors: u32, latency: u64) -> u64 {
        let bio = Bio::new(ClientId::NOBODY, Op::Read, 0, sectors);
        least.ended(sort, &Request::of(&bio, Nanos::ZERO), latency)
    }

    /// L6: does a read bound what smaller ones take at the least, if nothing rotates, also of sizes
    /// that come later; and no larger power of two, nor a write or another access pattern?
    #[test]
    fn l6_a_read_bounds_smaller_ones() {
        let sizes = u8::try_from(SIZES).expect("it is 16");
        let (four, sixty_four, writes) = (3, 7, 3 * sizes + 7);
        for (rotates, bounded) in [(false, 130), (true, 1400)] {
            let mut least = LeastTimes::new(rotates);
            assert_eq!(ended(&mut least, sixty_four, 128, 130), 130);
            assert_eq!(ended(&mut least, four, 8, 1400), bounded);
            assert_eq!(ended(&mut least, sixty_four + 1, 256, 1400), 1400);
            assert_eq!(ended(&mut least, four + sizes, 8, 1400), 1400);
            assert_eq!(
                (ended(&mut least, four, 8, 90), ended(&mut least, sixty_four, 128, 200)),
                (90, 130)
            );
            assert_eq!(
                (ended(&mut least, writes, 128, 20), ended(&mut least, writes - 1, 64, 30)),
                (20, 30)
            );
        }
    }

    /// L6: are sizes between powers of two told apart, and bounded by smaller ones in proportion to
    /// their size: 6/4 of 228 for up to 191 sectors, 8/4 for up to 255?
    #[test]
    fn l6_sizes_between_powers_of_two() {
        let mut least = LeastTimes::new(false);
        assert_eq!(ended(&mut least, 7, 128, 228), 228);
        assert_eq!([185, 255].map(|sectors| ended(&mut least, 7, sectors, 1000)), [342, 456]);
        assert_eq!([185, 160, 191].map(|sectors| ended(&mut least, 7, sectors, 285)), [285; 3]);
        assert_eq!(ended(&mut least, 7, 128, 285), 228);
        // 8/5 of 270.
        assert_eq!([ended(&mut least, 7, 160, 270), ended(&mut least, 7, 255, 1000)], [270, 432]);
        assert_eq!(ended(&mut least, 7, 255, 200), 200);
        assert_eq!(ended(&mut least, 7, 128, 300), 200, "a smaller one takes no longer");
    }

    /// L6: does a request say nothing of others that took no time, or that moves no data?
    #[test]
    fn l6_what_moves_nothing_tells_nothing() {
        let mut least = LeastTimes::new(false);
        assert_eq!(ended(&mut least, 7, 128, 228), 228);
        assert_eq!(ended(&mut least, 7, 128, 0), 0);
        let discard = Bio::new(ClientId::NOBODY, Op::Discard, 0, 128);
        assert_eq!(least.ended(7, &Request::of(&discard, Nanos::ZERO), 10), 10);
        assert_eq!(ended(&mut least, 7, 128, 300), 228);
    }

    /// Are the steps those of the table above, for all sizes?
    #[test]
    fn four_steps_to_each_power_of_two() {
        let steps = [128, 159, 160, 191, 192, 223, 224, 255, 256].map(step_of);
        assert_eq!(steps, [0, 0, 1, 1, 2, 2, 3, 3, 0]);
        assert_eq!([0, 1, 2, 3, 5, 6, 7, u32::MAX].map(step_of), [0, 0, 0, 2, 1, 2, 3, 3]);
    }
}
