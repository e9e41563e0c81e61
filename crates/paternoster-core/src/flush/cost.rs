// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost: who is charged for a flush. `writers` knows which client has written what,
//! `block/throttle.rs` what each owes; here the one tells the other.
//!
//! ```text
//! write ends ─▶ in the cache, whose? ─▶ flush ends ─▶ writers split its time ─▶ throttle charges
//! ```
//!
//! Source: own design; no kernel does it.

use super::Sequencer;
use super::writers::Written;
use crate::block::bios::Bios;
use crate::block::common::Common;
use crate::block::throttle::Throttle;
use crate::op::{Flags, Op};
use crate::queue_view::QueueView;
use crate::request::RequestId;
use crate::slab::NIL;
use crate::time::Nanos;

impl Sequencer {
    /// Whether flushes are charged, and device time passes for clients that owe.
    pub(crate) const fn is_charged(&self, view: &QueueView) -> bool {
        self.policy.owned && view.facts.write_cache
    }

    /// A command other than a flush has ended: what it wrote may be in the cache.
    #[inline(never)]
    pub(crate) fn note_written(
        &mut self,
        view: &QueueView,
        bios: &Bios,
        id: RequestId,
        good: bool,
    ) {
        let request = &view.requests[id];
        self.clean.write_ended(request, good);
        let cached = request.op == Op::Write && !request.flags.contains(Flags::FUA);
        if !cached || !self.is_charged(view) {
            return;
        }
        let disk = view.facts.rotational;
        let mut index = request.bios().first;
        while index != NIL {
            let slot = bios.slots.at(index);
            if view.clients.get(slot.client.0).is_some() {
                let written = Written { sector: slot.sector, sectors: slot.sectors };
                self.writers.wrote(view.exact, slot.client.index(), written, disk);
            }
            index = slot.next;
        }
    }

    /// The flush for the requests in `list` has ended and took `served`: its owners are charged,
    /// and the clients that requested it share the rest.
    pub(super) fn settle<O>(
        &mut self,
        common: &mut Common<O>,
        throttle: &mut Throttle,
        list: usize,
        good: bool,
        served: Nanos,
    ) {
        let pays = self.is_charged(&common.view);
        let Common { view, elevator, links, .. } = common;
        throttle.allow_ahead(served, self.policy.ahead);
        let is_mixed = self.writers.are_mixed(view.exact);
        let reading = throttle.begin(view, elevator, served, true).mixed(is_mixed);
        let mut charge = |client, cost| {
            if pays {
                throttle.account(view, elevator, client, reading, cost);
            }
        };
        let rest = self.writers.flush_ends(good, served, &mut charge);
        let askers = &self.lists[list];
        let share = Nanos(rest.0 / u64::from(askers.len()).max(1));
        let mut at = askers.first();
        while let Some(index) = at {
            at = links.next(index);
            if pays {
                let client = view.slot(index).client().index();
                throttle.account(view, elevator, client, reading, share);
            }
        }
    }
}
