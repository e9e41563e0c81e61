// SPDX-License-Identifier: MIT OR Apache-2.0
//! Even: on a disk random requests of one kind cost the same for every client (rule C6).
//!
//! What a random request takes on a disk is seek and rotation, and those depend on the request
//! before it. The drive, and a sweep, go where most requests are; an outlier is passed over, and
//! the way there and back counts as its time. So a client with few requests pays for being the
//! smaller one next to a client with many:
//!
//! ```text
//! hdd-7200, 4 KiB random reads of 100 GiB, weights 800 and 100, 128 requests each
//!   by device time    88 : 12 of the time     236 : 25 reads a second     9.3 to 1
//!   by kind           86 : 14                 228 : 30                    7.6 to 1
//! ```
//!
//! So it is charged the mean of what requests of its *kind* take: the time of each goes into the
//! kind's pot, and each is charged a 256th of that, or less; of writes a 64th. All time is charged,
//! and soon.
//!
//! Reads have the larger pot because the ways between clients come in bursts, at each change of
//! turns, and all have to pay for all of them. So a pot has to last for a round of turns, which
//! takes 0.8 to 1.6 s, in which a disk reads 100 to 300 here and there:
//!
//! ```text
//! 25 reads of weight 1 by turns with 100 of weight 4, 5 ms each; each change takes 80 ms more
//!   pot of 64     a burst costs the light one 1.17 / 64 of it with each read, as its turn is
//!                 short and lies behind a change, the heavy one 0.99 / 64: of 6.3 ms 3.6 % more
//!   pot of 256    4.13 and 4.09 / 256: 0.2 % more
//! ```
//!
//! Several arms read several times as much in that time, and with a pot of 256 each client would
//! pay for its own turn. So the pot of reads doubles as long as it holds less than 0.8 s of device
//! time, once as many have been seen as it lasts for; and is halved above 1.6 s, down to 256:
//!
//! ```text
//! one arm       5 ms each     256 hold 1.28 s
//! twenty arms   0.25 ms       256 hold 0.06 s    512, 1024, 2048: 0.5 s    4096: 1.02 s
//! ```
//!
//! What a pot holds is doubled with it, so that the charge stays the same.
//!
//! For writes the mean of the last 256 lagged where a drive's cache fills and one takes 20 ms, not
//! 20 us: clients of one kind still paid the old price while those of another paid the new one, a
//! thousand times as much, and one of eleven waited for 1.9 s (load 765 of the torture test).
//!
//! A kind is one sort of requests, from clients whose jumps are about as long: a client that stays
//! within a thousandth of the disk has shorter seeks, and pays for those. The way between clients
//! is paid by all in proportion to their use of the device, since that time belongs to none of
//! them.
//!
//! Streams pay what they took: the outer tracks give twice as much as the inner ones in the same
//! time, and turns keep streams apart.
//!
//! # Invariants
//! I1  Only random requests on a device that rotates are charged so, of a kind of which
//!     [`KNOWN_AFTER`] were seen.
//! I2  A few steps a request; integers, no allocation but at the start.
//!
//! Source: own; measured on the models, see `docs/elevator.md`.

use alloc::vec::Vec;

use crate::adaptive::throughput_gain::{READS, SORTS};

/// The time of one is charged to this many of its kind, as a power of two: of reads at least, and
/// of others.
const SPREAD_READS: u32 = 8;
const SPREAD_OTHERS: u32 = 6;
/// Of reads at most: 16,384 of 0.05 ms are 0.8 s.
const SPREAD_MOST: u32 = 14;
/// What the pot of reads holds, in ns: what a round of turns takes (S5).
const POT_LEAST: i64 = 800_000_000;
const POT_MOST: i64 = 2 * POT_LEAST;
/// This many of a kind are seen before others are charged for them, as a power of two.
const KNOWN_BITS: u32 = 4;
const KNOWN_AFTER: u16 = 1 << KNOWN_BITS;
/// How far a client jumps, by powers of eight sectors.
const REACHES: usize = 12;
const REACH_BITS: u32 = 3;
/// The mean is over this many jumps, as a power of two.
const JUMPS: u32 = 6;

/// Time that requests of a kind took, in ns, and that has not been charged.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    pot: i64,
    /// How many were seen: up to [`KNOWN_AFTER`], and of reads on from there, anew each time that
    /// the pot is made larger or smaller.
    count: u16,
    /// The pot is for so many times more than the least, as a power of two.
    more: u8,
}

impl Mean {
    /// One took `served` ns; returns its charge. All that goes into the pot is charged: half of it
    /// before the charge is computed and half after, so that the charge leans to neither side.
    #[inline(always)]
    fn charge<const SPREAD: u32>(&mut self, served: i64) -> i64 {
        if self.count < KNOWN_AFTER {
            self.count += 1;
            self.pot += served << (SPREAD - KNOWN_BITS);
            return served;
        }
        let charge = (self.pot + (served >> 1)) >> (SPREAD + u32::from(self.more));
        self.pot += served - charge;
        if SPREAD == SPREAD_READS {
            self.fit();
        }
        charge
    }

    /// After the charge for a read: makes the pot last for a round of turns.
    #[inline(always)]
    fn fit(&mut self) {
        self.count = self.count.saturating_add(1);
        let spread = SPREAD_READS + u32::from(self.more);
        if self.pot < POT_LEAST {
            if spread < SPREAD_MOST && u32::from(self.count) > 1 << spread {
                (self.pot, self.more, self.count) = (self.pot << 1, self.more + 1, KNOWN_AFTER);
            }
        } else if self.pot > POT_MOST && self.more > 0 {
            (self.pot, self.more, self.count) = (self.pot >> 1, self.more - 1, KNOWN_AFTER);
        }
    }
}

/// How far a client jumps.
#[derive(Debug, Clone, Copy, Default)]
struct Jumps {
    last: Option<u64>,
    mean: u64,
}

/// What random requests cost, by kind.
#[derive(Debug)]
pub(super) struct Even {
    rotates: bool,
    /// By sort and reach.
    means: Vec<Mean>,
    /// By client.
    jumps: Vec<Jumps>,
}

impl Even {
    /// For this many clients of a device.
    pub(super) fn new(clients: u32, rotates: bool) -> Even {
        let (means, clients) = if rotates { (SORTS * REACHES, clients) } else { (0, 0) };
        Even {
            rotates,
            means: (0..means).map(|_| Mean::default()).collect(),
            jumps: (0..clients).map(|_| Jumps::default()).collect(),
        }
    }

    /// A client asks for a request at `sector`.
    pub(super) fn jump(&mut self, client: u32, sector: u64) {
        if let Some(jumps) = self.jumps.get_mut(client as usize) {
            let Some(last) = jumps.last.replace(sector) else { return };
            let jump = last.abs_diff(sector);
            let kept = jumps.mean - (jumps.mean >> JUMPS);
            // The first jumps are a mean of only a few.
            let grown = kept + (jump >> JUMPS);
            jumps.mean = if jumps.mean == 0 { jump } else { grown };
        }
    }

    /// How far this client jumps in the mean, in sectors, if it has.
    pub(super) fn mean_jump(&self, client: u32) -> Option<u64> {
        let jumps = self.jumps.get(client as usize)?;
        (jumps.mean > 0).then_some(jumps.mean)
    }

    /// This number belongs to another client now.
    pub(super) fn forget(&mut self, client: u32) {
        if let Some(jumps) = self.jumps.get_mut(client as usize) {
            *jumps = Jumps::default();
        }
    }

    /// Whether anything is charged so.
    #[inline(always)]
    pub(super) const fn rotates(&self) -> bool {
        self.rotates
    }

    /// The charge to a client for a random request of this sort that took `served` ns.
    pub(super) fn charge(&mut self, client: u32, sort: u8, served: u64) -> u64 {
        let reach = self.jumps[client as usize].mean.max(1).ilog2() / REACH_BITS;
        let place = usize::from(sort) * REACHES + (reach as usize).min(REACHES - 1);
        let served = i64::try_from(served).unwrap_or(i64::MAX);
        let mean = &mut self.means[place];
        let charge = if usize::from(sort) < READS {
            mean.charge::<SPREAD_READS>(served)
        } else {
            mean.charge::<SPREAD_OTHERS>(served)
        };
        charge.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A random read of 4 KiB, and such a write.
    const READ: u8 = 3;
    const WRITE: u8 = 48 + 3;

    fn jumps(even: &mut Even, client: u32, far: u64) {
        for nth in 0..100 {
            even.jump(client, (nth % 2) * far);
        }
    }

    /// Two clients that jump as far.
    fn two_alike() -> Even {
        let mut even = Even::new(2, true);
        jumps(&mut even, 0, 1 << 24);
        jumps(&mut even, 1, 1 << 24);
        even
    }

    /// C6: do two clients that jump as far pay the same, although one is passed over? Of 9 requests
    /// 8 take 2 ms and one takes 11: a mean of 3 ms.
    #[test]
    fn c6_the_one_that_is_passed_over_pays_what_all_pay() {
        let mut even = two_alike();
        let mut paid = [0; 2];
        for nth in 0..9000_u32 {
            let (client, took) = if nth % 9 == 8 { (1, 11_000_000) } else { (0, 2_000_000) };
            let charge = even.charge(client, READ, took);
            // Once the pot reflects this load: 7200 and 900 requests.
            if nth >= 900 {
                paid[client as usize] += charge;
            }
        }
        let [one, other] = [paid[0] / 7200, paid[1] / 900];
        // 2 % of 3 ms. 256 * 3 ms are less than 0.8 s, so that 512 share: one that takes 8 ms more
        // pays a 1024th of that itself, 0.01 ms; those after it pay the rest.
        for each in [one, other] {
            assert!((2_940_000..=3_060_000).contains(&each), "{one} and {other}");
        }
    }

    /// C6: does a client that stays near pay for short seeks, and a write what writes take?
    #[test]
    fn c6_kinds_are_told_apart() {
        let mut even = Even::new(2, true);
        jumps(&mut even, 0, 1 << 24);
        jumps(&mut even, 1, 1 << 14);
        // 256 * 9 ms are in the pot at first, and 4.5 less in the end: that takes some thousand.
        for _ in 0..5000 {
            even.charge(0, READ, 9_000_000);
            even.charge(1, READ, 4_000_000);
            even.charge(0, WRITE, 1_000_000);
        }
        // A read of 5 ns lowers its own charge by 1/512, a write by 1/128, and those after it make
        // up the rest.
        for (client, sort, took, part) in
            [(0, READ, 9_000_000, 512), (1, READ, 4_000_000, 512), (0, WRITE, 1_000_000, 128)]
        {
            let paid = even.charge(client, sort, 5);
            assert!(paid.abs_diff(took - took / part) < 100, "{paid} of {took}");
        }
    }

    /// C6: does a pot last for a round of turns where several arms read more in that time? Two take
    /// turns of 400 requests, of 0.2 and of 0.3 ms: 0.25 in the mean, of which 4096 hold 1.02 s.
    /// In a turn the pot changes by 400 * 0.05 of 1024 ms, 2 %, from 1 % below the mean to 1 %
    /// above it, and both pay the mean. (Of a pot of 256 a turn leaves a fifth, and each would pay
    /// for its own.) On one arm that takes 5 ms it is one of 256 again, which hold 1.28 s.
    #[test]
    fn c6_a_pot_lasts_for_a_round_of_turns() {
        let mut even = two_alike();
        let mut paid = [0; 2];
        for nth in 0..80_000_u32 {
            let client = nth / 400 % 2;
            let charge = even.charge(client, READ, 200_000 + 100_000 * u64::from(client));
            // The pot has doubled after 256, 512, 1024 and 2048, and has reflected this load since.
            paid[client as usize] += if nth < 40_000 { 0 } else { charge };
        }
        for each in paid {
            assert!((249_000..=251_000).contains(&(each / 20_000)), "{paid:?}");
        }
        for _ in 0..5000 {
            even.charge(0, READ, 5_000_000);
        }
        let charge = even.charge(0, READ, 5_000_000 + 512_000);
        assert!(charge.abs_diff(5_001_000) < 100, "{charge}");
    }

    /// C6: is the actual time charged as long as too little is known, for the first 16 requests?
    #[test]
    fn c6_what_is_not_known_is_not_charged() {
        let mut even = Even::new(1, true);
        let charged: Vec<u64> = (0..20).map(|nth| even.charge(0, READ, 10 + nth % 2)).collect();
        assert_eq!(charged[..16], [10, 11].repeat(8));
        assert!(charged[16..].iter().all(|&paid| paid == 10), "{charged:?}");
    }
}
