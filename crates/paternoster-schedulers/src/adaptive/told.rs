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
//! ssd-870evo   rrandiops=97100 rbps=553000000   4 KiB: 10.30 us    128 KiB: 2.9 + 237.0 us
//! hdd-7200     rrandiops=160   rbps=120000000   4 KiB: 6.25 ms, whether it took 4 or 12
//! ```
//!
//! # Invariants
//! I1  A request of 4 KiB costs 1 / iops of its sort, or 4096 / bps if that is more; a random one
//!     of 1 MiB costs 1 MiB / randbps, if that is told.
//! I2  No cost is 0, nor more than [`COST_MOST`].
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

    fn cost(self, sectors: u32) -> u64 {
        let bytes = self.sector.saturating_mul(sectors.into());
        (self.base.saturating_add(bytes) >> POINT).clamp(1, COST_MOST)
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
}

impl Told {
    pub(super) fn new(model: CostModel) -> Told {
        Told { model, read: lines(model.read), write: lines(model.write) }
    }

    /// The cost of a request in ns; `None` if it moves no data: a discard.
    pub(super) fn cost_of(&self, request: &Request, is_random: bool) -> Option<u64> {
        let lines = match request.op() {
            Op::Read => &self.read,
            Op::Write => &self.write,
            _ => return None,
        };
        Some(lines[usize::from(is_random)].cost(request.sectors()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::time::Nanos;
    use paternoster_core::{Bio, ClientId};

    fn told(line: &str) -> Told {
        Told::new(line.parse().expect("a model"))
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
