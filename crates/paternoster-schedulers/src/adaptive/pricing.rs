// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pricing: what a request is charged when it goes to the device, and what when it has ended.
//!
//! ```text
//! goes    the mean time of its sort (C1); where an SSD is full, its kind's cost, for good (C5)
//! ends    what it took (C2); a random request on a disk, what its kind takes (C6)
//! ```
//!
//! # Invariants
//! I1  A sort of which none has ended costs [`UNKNOWN_PRICE`]; no other costs nothing.
//!
//! Source: C1, C2, C5, C6 of `docs/rules/adaptive.md`.

use crate::adaptive::access_pattern::blend;
use crate::adaptive::costs::Costs;
use crate::adaptive::even::Even;
use crate::adaptive::throughput_gain::{Access, SORTS, sort_of};
use paternoster_core::Request;

/// C1: the assumed cost of a request of whose sort none has ended yet, in ns.
const UNKNOWN_PRICE: u64 = 1000;

/// What requests cost.
#[derive(Debug)]
pub(super) struct Pricing {
    /// Mean device time by sort of request, and of all requests, in ns.
    means: [u64; SORTS],
    mean: u64,
    /// C5: what is charged where the device is full.
    pub(super) costs: Costs,
    /// C6: what random requests cost on a disk.
    pub(super) even: Even,
}

impl Pricing {
    /// For this many clients of a device that takes `depth` commands.
    pub(super) fn new(clients: u32, depth: u32, rotational: bool) -> Pricing {
        Pricing {
            means: [0; SORTS],
            mean: 0,
            costs: Costs::new(depth, rotational),
            even: Even::new(clients, rotational),
        }
    }

    /// The assumed cost of a request, in ns.
    pub(super) fn price_of(&self, request: &Request, access: Access) -> u64 {
        self.price_of_sort(sort_of(request, access))
    }

    fn price_of_sort(&self, sort: u8) -> u64 {
        match self.means[usize::from(sort)] {
            0 => UNKNOWN_PRICE,
            price => price,
        }
    }

    /// What a request of this sort is charged when it goes, and whether that is final (C5): never
    /// where there are seats.
    #[inline(always)]
    pub(super) fn charge_of(&self, gone: &Request, sort: u8, has_seats: bool) -> (i64, bool) {
        if self.costs.is_full() && !has_seats {
            return (self.costs.charge_for(gone, sort), true);
        }
        (i64::try_from(self.price_of_sort(sort)).unwrap_or(i64::MAX), false)
    }

    /// A request of this sort took `served` ns.
    #[inline(always)]
    pub(super) fn ended(&mut self, sort: u8, served: u64) {
        let price = &mut self.means[usize::from(sort)];
        *price = blend(*price, served, 4).max(1);
        self.mean = blend(self.mean, served, 4);
    }

    /// The mean device time of all requests, in ns.
    pub(super) const fn mean(&self) -> u64 {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::time::Nanos;
    use paternoster_core::{Bio, ClientId, Op};

    /// C1: does a request cost 1 us while nothing is known of its sort, and then what the first one
    /// took, and a 16th more of what later ones take: 16,000 - 1,000 + 2,000?
    #[test]
    fn c1_a_sort_costs_its_mean() {
        let mut pricing = Pricing::new(1, 32, false);
        let read = Request::of(&Bio::new(ClientId::NOBODY, Op::Read, 0, 8), Nanos::ZERO);
        let sort = sort_of(&read, Access::Random);
        assert_eq!(pricing.charge_of(&read, sort, false), (1000, false));
        pricing.ended(sort, 16_000);
        assert_eq!(pricing.price_of(&read, Access::Random), 16_000);
        pricing.ended(sort, 32_000);
        assert_eq!(pricing.price_of(&read, Access::Random), 17_000);
        assert_eq!((pricing.price_of(&read, Access::Sequential), pricing.mean()), (1000, 17_000));
    }
}
