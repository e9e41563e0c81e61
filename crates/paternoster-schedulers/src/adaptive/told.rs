// SPDX-License-Identifier: MIT OR Apache-2.0
//! Told: what a request costs by a model that the elevator is told (attribute `cost_model`).
//!
//! Device time says what a request took *here*: in a full device mostly the wait for others, on a
//! disk the way from wherever the head was. A told cost is what one of its sort takes when the
//! device is full of them:
//!
//! ```text
//! cost = base + sectors * sector    sector = 512 / bps    base = 1 / iops - 8 sectors, not below 0
//! random, with randbps              sector = (1 MiB / randbps - 1 / iops) / (2048 - 8)
//!
//! random, with neariops             base += (1 / randiops - 1 / neariops) * way
//!                                   way: 0 within a tenth of the device, -1 within a hundredth,
//!                                   3.2 all over it, by the root of how far its client jumps
//!
//! with endbps                       a sector costs more or less by where it lies, and a jump is
//!                                   farther or less far by as much
//!
//! ssd-870evo   rrandiops=97100 rbps=553000000   4 KiB: 10.30 us    128 KiB: 2.9 + 237.0 us
//! hdd-7200     rrandiops=160   rbps=120000000   4 KiB: 6.25 ms, whether it took 4 or 12
//! ```
//!
//! # How far
//! A short way of an arm takes as long as its root is long: half of it speeds up, half slows down.
//! And with any number of requests to choose from the ways are parts of the span. So the cost of a
//! random request is on a line over the root of the span, and two points of it are enough:
//!
//! ```text
//! hdd-7200, 64 reads at a time   256 MiB   1 GiB   8 GiB  64 GiB  400 GiB  900 GiB
//! measured, us                      2222    2347    2725    3623     5435     7042
//! by 18.6 and 186 GiB               2354    2431    2724    3539     5447     7039
//! ```
//!
//! A client that jumps about within a span jumps a third of it in the mean.
//!
//! # Where
//! Tracks of equal density hold sectors, and pass them under the head, by their radius; and the
//! sectors within a radius are as its square. So the square of the rate falls evenly from the first
//! sector to the last, and the middle and the end are enough:
//!
//! ```text
//! hdd-7200, at                     0 %   25 %   50 %   75 %   95 %
//! measured, MB/s                   198    180    155    124    100
//! by the middle and the end        196    177    155    129    101
//! ```
//!
//! # Invariants
//! I1  A request of 4 KiB costs 1 / iops of its sort, or 4096 / bps if that is more; a random one
//!     of 1 MiB costs 1 MiB / randbps, if that is told.
//! I2  No cost is 0, nor more than [`COST_MOST`].
//! I3  However short its client's jumps are, a random request of 4 KiB costs at least half of what
//!     it costs within a hundredth of the device.
//!
//! Source: C7 of `docs/rules/adaptive.md`.

use crate::cost_model::{CostModel, Rates};
use paternoster_core::{Op, Request};

/// Costs have this many fraction bits, in ns.
const POINT: u32 = 16;
/// One request costs at most this, in ns: ten seconds. No device is as slow, and sums stay far from
/// what a number holds.
const COST_MOST: u64 = 10_000_000_000;
/// The sectors of 4 KiB.
const PAGE: u64 = 8;
const SECTOR: u64 = 512;
/// A second, in ns with fraction bits.
const SECOND: u64 = 1_000_000_000 << POINT;

/// The sectors of 1 MiB.
const LARGE: u64 = 2048;

/// The mean jump within a tenth, and within a hundredth, of a device is the device by this.
const JUMP_FAR: u64 = 30;
const JUMP_NEAR: u64 = 300;
/// No client jumps farther than one that goes anywhere: a third of the device.
const JUMP_MOST: u64 = 3;
/// A way of 1, from a hundredth to a tenth.
const WAY: i64 = 1 << 12;
/// 1, for a rate by that of the middle; and for its square.
const EVEN: u64 = 1 << 12;
const SQUARE: i64 = 1 << 24;
/// No rate is less than a quarter of the middle's, nor more than four of it.
const RATES: [i64; 2] = [SQUARE >> 4, SQUARE << 4];
/// Places have this many fraction bits; the end is that far behind the middle.
const PLACE: u32 = 16;
const END: i64 = (1 << PLACE) * 48 / 100;

/// What requests of one sort cost, in ns with fraction bits.
#[derive(Debug, Clone, Copy)]
struct Line {
    base: u64,
    sector: u64,
}

impl Line {
    /// With this many requests of 4 KiB a second, and this cost of a sector.
    fn of(iops: u64, sector: u64) -> Line {
        Line { base: each(SECOND, iops).saturating_sub(sector.saturating_mul(PAGE)), sector }
    }

    /// `more`: how much more a sector costs than in the middle, by [`EVEN`].
    fn cost(self, sectors: u32, more: u64) -> u64 {
        let sector = self.sector.saturating_mul(more) / EVEN;
        let bytes = sector.saturating_mul(sectors.into());
        (self.base.saturating_add(bytes) >> POINT).clamp(1, COST_MOST)
    }
}

/// The root of a jump, with fraction bits.
fn root(jump: u64) -> i64 {
    (jump.min(u64::MAX >> 16) << 16).isqrt().cast_signed()
}

/// How the rate of bytes falls from the first sector to the last.
#[derive(Debug, Clone, Copy)]
struct Tracks {
    /// The square of the end's rate less that of the middle's, in parts of the latter; 0 where
    /// that is not told.
    fall: i64,
    capacity: u64,
}

impl Tracks {
    fn of(rates: Rates, capacity: u64) -> Tracks {
        let part = |end: u64| {
            let part = u128::from(end) * u128::from(EVEN) / u128::from(rates.bps.max(1));
            let part = i64::try_from(part).unwrap_or(i64::MAX).min(4 * EVEN.cast_signed());
            part * part - SQUARE
        };
        Tracks { fall: rates.endbps.map_or(0, part), capacity }
    }

    /// How much more a sector costs here than in the middle, by [`EVEN`].
    fn more_at(self, sector: u64) -> u64 {
        if self.fall == 0 || self.capacity == 0 {
            return EVEN;
        }
        let place = (u128::from(sector.min(self.capacity)) << PLACE) / u128::from(self.capacity);
        let behind = i64::try_from(place).unwrap_or(0) - (1 << (PLACE - 1));
        let square = (SQUARE + self.fall * behind / END).clamp(RATES[0], RATES[1]);
        EVEN * EVEN / square.unsigned_abs().isqrt()
    }
}

/// What the way between random requests costs on a device of some capacity.
#[derive(Debug, Clone, Copy)]
struct Ways {
    /// The roots of the mean jumps within a hundredth and a tenth of it; the longest mean jump.
    near: i64,
    far: i64,
    most: u64,
}

impl Ways {
    fn of(capacity: u64) -> Ways {
        let [near, far] = [JUMP_NEAR, JUMP_FAR].map(|part| root(capacity / part));
        Ways { near, far: far.max(near + 1), most: capacity / JUMP_MOST }
    }

    /// How long ways are, for a client that jumps so far in the mean; beyond a tenth more than 0.
    fn way(self, jump: u64) -> i64 {
        (root(jump.min(self.most)) - self.far) * WAY / (self.far - self.near)
    }
}

/// One of so many that take `time`.
fn each(time: u64, number: u64) -> u64 {
    time.checked_div(number).unwrap_or(time)
}

/// The lines of one direction: sequential, and random.
fn lines(rates: Rates) -> [Line; 2] {
    let sector = each(SECOND.saturating_mul(SECTOR), rates.bps);
    let apart = rates.randbps.map(|bps| {
        let large = each(SECOND.saturating_mul(SECTOR), bps).saturating_mul(LARGE);
        large.saturating_sub(each(SECOND, rates.randiops)) / (LARGE - PAGE)
    });
    [Line::of(rates.seqiops, sector), Line::of(rates.randiops, apart.unwrap_or(sector))]
}

/// A cost model, ready to charge by, and the numbers it was made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) model: CostModel,
    /// By whether they are random.
    read: [Line; 2],
    write: [Line; 2],
    /// What is saved within a hundredth of the device, in ns: of a read, of a write.
    near: [i64; 2],
    ways: Ways,
    tracks: [Tracks; 2],
}

/// What a random request costs less within a hundredth of the device than within a tenth, in ns.
fn saved(rates: Rates) -> i64 {
    let Some(near) = rates.neariops else { return 0 };
    let [far, near] = [rates.randiops, near].map(|iops| each(SECOND, iops) >> POINT);
    far.saturating_sub(near).cast_signed()
}

impl Told {
    /// For a device of this many sectors.
    pub(super) fn new(model: CostModel, capacity: u64) -> Told {
        Told {
            model,
            read: lines(model.read),
            write: lines(model.write),
            near: [model.read, model.write].map(saved),
            ways: Ways::of(capacity),
            tracks: [model.read, model.write].map(|rates| Tracks::of(rates, capacity)),
        }
    }

    /// The cost of a request in ns, wherever it lies; `None` if it moves no data: a discard.
    pub(super) fn cost_of(&self, request: &Request, is_random: bool) -> Option<u64> {
        Some(self.line_of(request, is_random)?.cost(request.sectors(), EVEN))
    }

    fn line_of(&self, request: &Request, is_random: bool) -> Option<Line> {
        let lines = match request.op() {
            Op::Read => &self.read,
            Op::Write => &self.write,
            _ => return None,
        };
        Some(lines[usize::from(is_random)])
    }

    /// The same on a disk, where it lies; a random one of a client that jumps so far in the mean,
    /// in sectors, if that is known. `None`: it costs the time that it takes.
    pub(super) fn cost_on_disk(
        &self,
        request: &Request,
        is_random: bool,
        jump: Option<u64>,
    ) -> Option<u64> {
        let direction = usize::from(request.op() == Op::Write);
        let tracks = self.tracks[direction];
        let is_stream_read = !is_random && request.op() == Op::Read;
        // One number for the bytes of all tracks would be wrong for nearly all of them.
        if is_stream_read && tracks.fall == 0 {
            return None;
        }
        let more = tracks.more_at(request.sector());
        let mut line = self.line_of(request, is_random)?;
        // What small ones cost more, since the drive has not read as far ahead, says nothing of
        // larger ones: a stream costs what its tracks give.
        if is_stream_read {
            line.base = 0;
        }
        let cost = line.cost(request.sectors(), more);
        let Some(jump) = jump.filter(|_| is_random) else { return Some(cost) };
        let saved = self.near[direction];
        let far = saved.saturating_mul(self.ways.way(jump.saturating_mul(more) / EVEN)) / WAY;
        let least = cost.saturating_sub(saved.unsigned_abs()) / 2;
        Some(cost.saturating_add_signed(far).clamp(least.max(1), COST_MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::time::Nanos;
    use paternoster_core::{Bio, ClientId};

    fn told(line: &str) -> Told {
        Told::new(line.parse().expect("a model"), 3_000_000)
    }

    fn cost(told: &Told, op: Op, sectors: u32, is_random: bool) -> Option<u64> {
        let bio = Bio::new(ClientId::NOBODY, op, 0, sectors);
        told.cost_of(&Request::of(&bio, Nanos::ZERO), is_random)
    }

    /// C7: does 4 KiB cost 1 / iops of its sort, and do further bytes cost 1 / bps? Reads: 512,000
    /// bytes a second are 1 ms a sector, so that 4 KiB are 8 ms of the 20 ms and 10 ms that 50 and
    /// 100 a second take; 128 KiB cost 12 + 256 and 2 + 256 ms. Writes: 2 ms a sector; 4 KiB take
    /// at least 16 ms, although 1000 a second are said to be done.
    #[test]
    fn c7_a_cost_is_a_base_and_bytes() {
        let line = "rbps=512000 rseqiops=100 rrandiops=50 wbps=256000 wseqiops=1000 wrandiops=10";
        let told = told(line);
        let ms = |told: Option<u64>| told.map(|ns| ns / 1000);
        for (op, sectors, is_random, right) in [
            (Op::Read, 8, true, 20_000),
            (Op::Read, 8, false, 10_000),
            (Op::Read, 256, true, 268_000),
            (Op::Read, 256, false, 258_000),
            (Op::Read, 1, true, 13_000),
            (Op::Write, 8, true, 100_000),
            (Op::Write, 8, false, 16_000),
            (Op::Write, 16, false, 32_000),
        ] {
            let found = ms(cost(&told, op, sectors, is_random));
            assert!(found.is_some_and(|us| us.abs_diff(right) <= 1), "{sectors}: {found:?}");
        }
        assert_eq!(cost(&told, Op::Discard, 8, true), None);
    }

    /// C7: does 1 MiB at random cost what is told of that, and is what lies between on the line? 4
    /// KiB cost 10 ms, 1 MiB 2050 ms (511,500 bytes a second): 1 ms a sector, so that 64 KiB cost 2
    /// + 128 ms. And do sequential ones cost the same as without it, 10 + 120 / 4 ms?
    #[test]
    fn c7_random_bytes_have_a_price_of_their_own() {
        let line = "rbps=2048000 rseqiops=100 rrandiops=100 rrandbps=511500 wbps=1 wseqiops=1 \
                    wrandiops=1";
        let told = told(line);
        for (sectors, is_random, right) in
            [(8, true, 10), (128, true, 130), (2048, true, 2050), (128, false, 40)]
        {
            let found = cost(&told, Op::Read, sectors, is_random).unwrap_or(0);
            assert!(found.abs_diff(right * 1_000_000) < right * 1000, "{sectors}: {found}");
        }
    }

    /// C7: on a device of 3,000,000 sectors a client jumps 10,000 within a hundredth, 100,000
    /// within a tenth and 1,000,000 all over it; roots of 100, 316.2 and 1000. A read costs 10 ms
    /// within a tenth and 4 within a hundredth, so that 216.2 of root are 6 ms: with jumps of
    /// 40,000, a root of 200, 4 + 2.775 ms, and all over it 4 + 24.975 ms, however far it jumps
    /// beyond. Do further bytes cost what they do anywhere, 1 ms a sector, and does a write, of
    /// which nothing near is told, cost its 20 ms? I3: and a read that goes nowhere half of 4 ms,
    /// not 4 - 2.775?
    #[test]
    fn c7_a_way_costs_by_the_root_of_the_jump() {
        let line = "rbps=512000 rseqiops=100 rrandiops=100 rneariops=250 wbps=512000 wseqiops=50 \
                    wrandiops=50";
        let told = told(line);
        let cost = |op, sectors, jump| {
            let bio = Bio::new(ClientId::NOBODY, op, 0, sectors);
            told.cost_on_disk(&Request::of(&bio, Nanos::ZERO), true, Some(jump)).map(|ns| ns / 1000)
        };
        for (op, sectors, jump, right) in [
            (Op::Read, 8, 100_000, 10_000),
            (Op::Read, 8, 10_000, 4000),
            (Op::Read, 8, 40_000, 6775),
            (Op::Read, 18, 40_000, 16_775),
            (Op::Read, 8, 1_000_000, 28_975),
            (Op::Read, 8, u64::MAX, 28_975),
            (Op::Read, 8, 0, 2000),
            (Op::Write, 8, 10_000, 20_000),
        ] {
            let found = cost(op, sectors, jump);
            assert!(found.is_some_and(|us| us.abs_diff(right) <= 10), "{jump}: {found:?}");
        }
        assert_eq!(cost(Op::Discard, 8, 10_000), None);
    }

    /// C7: a disk of 3,000,000 sectors passes 1 ms a sector in its middle, and at 98 % of it 2 ms,
    /// as half of the rate is told: squares of 1 and a quarter, so that the square falls by 0.75 in
    /// 48 %, and is 1.78 at the first sector, where the rate is 1.334 and a sector costs 0.75 ms.
    /// Does a read in sequence of 16 cost these alone, whatever 4 KiB cost; a random one that jumps
    /// as far as within a tenth 20 ms for 4 KiB, and one that lies at the end, where a jump of
    /// 50,000 is as one of 100,000 in the middle, 8 ms more for its bytes? And a write, of which no
    /// end is told, the same anywhere? Not so a read of 64 KiB: 20 + 120 ms in the middle, 120 more
    /// at the end.
    #[test]
    fn c7_bytes_cost_by_the_track_that_they_lie_on() {
        let line = "rbps=512000 rseqiops=100 rrandiops=50 rneariops=100 rendbps=256000 wbps=512000 \
                    wseqiops=50 wrandiops=50";
        let told = told(line);
        let cost = |op, sector, sectors, is_random, jump| {
            let request =
                Request::of(&Bio::new(ClientId::NOBODY, op, sector, sectors), Nanos::ZERO);
            told.cost_on_disk(&request, is_random, jump).map(|ns| ns / 1000)
        };
        for (op, sector, sectors, is_random, jump, right) in [
            (Op::Read, 1_500_000, 16, false, None, 16_000),
            (Op::Read, 0, 16, false, None, 16 * 750),
            (Op::Read, 2_940_000, 16, false, None, 32_000),
            (Op::Read, 1_500_000, 8, true, Some(100_000), 20_000),
            (Op::Read, 2_940_000, 8, true, Some(50_000), 28_000),
            (Op::Read, 1_500_000, 128, true, None, 140_000),
            (Op::Read, 2_940_000, 128, true, None, 268_000),
            (Op::Write, 2_940_000, 16, false, None, 28_000),
        ] {
            let found = cost(op, sector, sectors, is_random, jump);
            assert!(found.is_some_and(|us| us.abs_diff(right) <= 20), "{right}: {found:?}");
        }
        // Nothing is known of ends: a stream costs the time that it takes.
        let line = line.replace("rendbps=256000 ", "");
        let read = Request::of(&Bio::new(ClientId::NOBODY, Op::Read, 0, 16), Nanos::ZERO);
        assert_eq!(self::told(&line).cost_on_disk(&read, false, None), None);
    }

    /// I2: is a cost neither 0 nor too much, whatever is told?
    #[test]
    fn i2_no_cost_is_beyond_its_bounds() {
        let of = |number: u64| {
            let keys = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
            told(&keys.map(|key| alloc::format!("{key}={number}")).join(" "))
        };
        for (number, right) in [(u64::MAX, 1), (1, COST_MOST)] {
            for sectors in [1, u32::MAX] {
                assert_eq!(cost(&of(number), Op::Read, sectors, true), Some(right));
            }
        }
    }
}
