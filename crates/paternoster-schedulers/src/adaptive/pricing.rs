// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pricing: what a request is charged when it goes to the device, and what when it has ended.
//!
//! ```text
//! goes    the mean time of its sort (C1); where an SSD is full, its kind's cost, for good (C5), or
//!         the cost that was told (C7)
//! ends    what it took (C2); a random request on a disk, what its kind takes (C6); there the cost
//!         that was told (C7)
//! ```
//!
//! # Invariants
//! I1  A sort of which none has ended costs [`UNKNOWN_PRICE`]; no other costs nothing.
//!
//! Source: C1, C2, C5 to C7 of `docs/rules/adaptive.md`.

use crate::adaptive::access_pattern::blend;
use crate::adaptive::behind::Behind;
use crate::adaptive::costs::Costs;
use crate::adaptive::drains::Drains;
use crate::adaptive::even::Even;
use crate::adaptive::throughput_gain::{Access, SIZES, SORTS, sort_of};
use crate::adaptive::told::Told;
use crate::cost_model::CostModel;
use paternoster_core::time::Nanos;
use paternoster_core::{Flags, Op, QueueView, Request, RequestId};

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
    /// C8: what writes in a disk's cache have cost others.
    behind: Behind,
    /// C9: what random writes pay ahead for the flush that will drain them.
    pub(super) drains: Drains,
    /// C7: what requests cost by the model that was told.
    told: Option<Told>,
    /// The device's, in sectors.
    capacity: u64,
}

/// A disk's cache for writes, at the end of a request.
#[derive(Debug, Clone, Copy)]
struct Cache {
    /// How long the disk has been busy, in ns, if it tells what requests took.
    busy: Option<u64>,
    now: Nanos,
}

/// Whether requests of this sort are of a client that jumps about.
fn is_random(sort: u8) -> bool {
    usize::from(sort) / SIZES % 3 == Access::Random as usize
}

impl Pricing {
    /// For this many clients of a device that takes `depth` commands.
    pub(super) fn new(clients: u32, depth: u32, rotational: bool, capacity: u64) -> Pricing {
        Pricing {
            means: [0; SORTS],
            mean: 0,
            costs: Costs::new(depth, rotational),
            even: Even::new(clients, rotational),
            behind: Behind::new(),
            told: None,
            drains: Drains::new(clients),
            capacity,
        }
    }

    /// From now on costs are those of `model`; if there is none they are learned, if `learns`.
    pub(super) fn tell(&mut self, model: Option<CostModel>, learns: bool) {
        self.told = model.map(|model| Told::new(model, self.capacity));
        self.costs.switch(self.told.is_some() || learns, self.told.is_none());
        self.behind.switch(learns);
    }

    /// The model that was told.
    pub(super) fn model(&self) -> Option<CostModel> {
        self.told.map(|told| told.model)
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
            return match &self.told {
                None => (self.costs.charge_for(gone, sort), true),
                Some(told) => self.told_cost_of(told, gone, sort),
            };
        }
        (i64::try_from(self.price_of_sort(sort)).unwrap_or(i64::MAX), false)
    }

    /// What it costs where the device is full and costs were told; what moves no data has none, and
    /// is charged what it takes.
    #[inline(never)]
    fn told_cost_of(&self, told: &Told, gone: &Request, sort: u8) -> (i64, bool) {
        match told.cost_of(gone, is_random(sort)) {
            Some(cost) => (cost.cast_signed(), true),
            None => (i64::try_from(self.price_of_sort(sort)).unwrap_or(i64::MAX), false),
        }
    }

    /// What a request of this sort, of `client`, is charged when it has ended after `served` ns;
    /// the device has been busy for `busy` ns so far.
    #[inline(always)]
    pub(super) fn charge_at_end(
        &mut self,
        view: &QueueView,
        request: RequestId,
        (client, sort): (u32, u8),
        (served, busy): (u64, u64),
    ) -> u64 {
        if !self.even.rotates() {
            return served;
        }
        self.charge_at_end_of_disk(view, request, (client, sort), (served, busy))
    }

    /// The same for a device that rotates.
    #[inline(never)]
    fn charge_at_end_of_disk(
        &mut self,
        view: &QueueView,
        request: RequestId,
        of: (u32, u8),
        (served, busy): (u64, u64),
    ) -> u64 {
        let cache = view.facts().write_cache.then(|| {
            let busy = view.tells_times().then_some(busy);
            Cache { busy, now: view.exact_now() }
        });
        self.charge_on_disk(view.request(request), of, served, cache)
    }

    /// What a request counts as in a turn: the time that it took, whatever it costs. A write into a
    /// disk's cache takes next to none, and counts as its cost if that is known (C7, C8): otherwise
    /// a turn of 25 ms has a thousand of them, and its client waits for half a minute behind it.
    #[inline(always)]
    pub(super) fn turn_time(&self, op: Op, served: u64, charge: u64) -> u64 {
        let knows = self.told.is_some() || self.even.rotates() && self.behind.is_on();
        if knows && op == Op::Write { served.max(charge) } else { served }
    }

    /// C6 to C9: on a disk.
    fn charge_on_disk(
        &mut self,
        ended: &Request,
        (client, sort): (u32, u8),
        served: u64,
        cache: Option<Cache>,
    ) -> u64 {
        let is_random = is_random(sort);
        if let Some(told) = &self.told
            && let Some(cost) = told.cost_on_disk(ended, is_random, self.even.mean_jump(client))
        {
            return cost;
        }
        let charge = if is_random { self.even.charge(client, sort, served) } else { served };
        let Some(Cache { busy, now }) = cache else { return charge };
        let charge = self.behind.charge(ended, is_random, (served, charge), busy);
        // One with FUA ends on the medium: no flush has to drain it.
        let is_cached = ended.op() == Op::Write && !ended.flags().contains(Flags::FUA);
        if is_cached && is_random && self.told.is_none() {
            return charge + self.drains.wrote(client, now);
        }
        charge
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
    use paternoster_core::{Bio, ClientId, Op};

    /// C1: does a request cost 1 us while nothing is known of its sort, and then what the first one
    /// took, and a 16th more of what later ones take: 16,000 - 1,000 + 2,000?
    #[test]
    fn c1_a_sort_costs_its_mean() {
        let mut pricing = Pricing::new(1, 32, false, 1 << 31);
        let read = Request::of(&Bio::new(ClientId::NOBODY, Op::Read, 0, 8), Nanos::ZERO);
        let sort = sort_of(&read, Access::Random);
        assert_eq!(pricing.charge_of(&read, sort, false), (1000, false));
        pricing.ended(sort, 16_000);
        assert_eq!(pricing.price_of(&read, Access::Random), 16_000);
        pricing.ended(sort, 32_000);
        assert_eq!(pricing.price_of(&read, Access::Random), 17_000);
        assert_eq!((pricing.price_of(&read, Access::Sequential), pricing.mean()), (1000, 17_000));
    }

    /// C6: does a stream on a disk pay what it took, while random reads pay what their kind takes:
    /// after sixteen of 9 ms one of 1 ms (256 * 9 + 1 / 2) / 256 = 9.002 ms?
    #[test]
    fn c6_streams_pay_what_they_took() {
        let mut pricing = Pricing::new(1, 32, true, 1 << 31);
        assert!(pricing.even.rotates() && !Pricing::new(1, 32, false, 1 << 31).even.rotates());
        let read = Request::of(&Bio::new(ClientId::NOBODY, Op::Read, 0, 8), Nanos::ZERO);
        let [random, stream] =
            [Access::Random, Access::Sequential].map(|access| sort_of(&read, access));
        for _ in 0..16 {
            assert_eq!(pricing.charge_on_disk(&read, (0, random), 9_000_000, None), 9_000_000);
        }
        let charge = pricing.charge_on_disk(&read, (0, random), 1_000_000, None);
        assert!(charge.abs_diff(9_001_953) < 1000, "{charge}");
        assert_eq!(pricing.charge_on_disk(&read, (0, stream), 1_000_000, None), 1_000_000);
    }

    /// 4 KiB: reads 1 ms at random and 0.5 ms in sequence, writes 2 ms.
    const LINE: &str = "rbps=1000000000 rseqiops=2000 rrandiops=1000 wbps=1000000000 \
                        wseqiops=500 wrandiops=500";

    /// 100 requests end that took twice their least time: the device is full.
    fn fill(pricing: &mut Pricing, read: &Request, sort: u8) {
        let mut is_over = false;
        for _ in 0..100 {
            is_over = pricing.costs.ended(read, sort, Nanos::ZERO, [2000, 1000]);
        }
        if is_over {
            pricing.costs.end(Nanos::ZERO, true);
        }
    }

    /// C7: is a told cost charged for good when a request goes, where nothing rotates, the device
    /// is full and there are no seats, and does a discard cost what it takes? Are told costs not
    /// tried? And is that over once no model is told?
    #[test]
    fn c7_told_costs_are_charged_on_a_full_flash() {
        let mut pricing = Pricing::new(1, 32, false, 1 << 31);
        let request = |op| Request::of(&Bio::new(ClientId::NOBODY, op, 0, 8), Nanos::ZERO);
        let (read, discard) = (request(Op::Read), request(Op::Discard));
        let sort = sort_of(&read, Access::Random);
        pricing.ended(sort, 16_000);
        pricing.tell(LINE.parse().ok(), false);
        assert_eq!(pricing.charge_of(&read, sort, false), (16_000, false), "not full");
        fill(&mut pricing, &read, sort);
        assert_eq!(pricing.charge_of(&read, sort, false), (1_000_000, true));
        let own = sort_of(&read, Access::Sequential);
        assert_eq!(pricing.charge_of(&read, own, false), (500_000, true));
        assert_eq!(pricing.charge_of(&read, sort, true), (16_000, false), "seats");
        let own = sort_of(&discard, Access::Random);
        assert_eq!(pricing.charge_of(&discard, own, false), (1000, false));
        assert_eq!(pricing.costs.trials, 0);
        pricing.tell(None, false);
        fill(&mut pricing, &read, sort);
        assert_eq!(pricing.charge_of(&read, sort, false), (16_000, false));
        // One command at a time: what each takes is known.
        let mut card = Pricing::new(1, 1, false, 1 << 31);
        card.tell(LINE.parse().ok(), false);
        fill(&mut card, &read, sort);
        assert_eq!(card.charge_of(&read, sort, false), (1000, false));
    }

    /// C7: does a random read on a disk cost what it is told, and so a write of either sort, and a
    /// sequential read, of which no end is told, the time that it took?
    #[test]
    fn c7_told_costs_are_charged_on_a_disk_at_the_end() {
        let mut pricing = Pricing::new(1, 32, true, 1 << 31);
        pricing.tell(LINE.parse().ok(), false);
        for (op, access, charged) in [
            (Op::Read, Access::Random, 1_000_000),
            (Op::Read, Access::Sequential, 7_000_000),
            (Op::Read, Access::Together, 7_000_000),
            (Op::Write, Access::Random, 2_000_000),
            (Op::Write, Access::Sequential, 2_000_000),
            (Op::Discard, Access::Sequential, 7_000_000),
        ] {
            let request = Request::of(&Bio::new(ClientId::NOBODY, op, 0, 8), Nanos::ZERO);
            let sort = sort_of(&request, access);
            assert!(!pricing.charge_of(&request, sort, false).1, "it is corrected at the end");
            let charge = pricing.charge_on_disk(&request, (0, sort), 7_000_000, None);
            assert_eq!(charge, charged, "{op:?} {access:?}");
        }
        // A told write that the cache took in 20 us counts as its 2 ms in a turn; a read as its
        // time.
        assert_eq!(pricing.turn_time(Op::Write, 20_000, 2_000_000), 2_000_000);
        assert_eq!(pricing.turn_time(Op::Read, 20_000, 1_000_000), 20_000);
        // Nor told, with and without C8; and what does not rotate.
        pricing.tell(None, true);
        assert_eq!(pricing.turn_time(Op::Write, 20_000, 2_000_000), 2_000_000);
        pricing.tell(None, false);
        assert_eq!(pricing.turn_time(Op::Write, 20_000, 2_000_000), 20_000);
        let mut flash = Pricing::new(1, 32, false, 1 << 31);
        flash.tell(None, true);
        assert_eq!(flash.turn_time(Op::Write, 20_000, 2_000_000), 20_000);
    }
}
