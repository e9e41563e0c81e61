// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bios: the slots of all bios of a queue, and the list of those that have ended.
//!
//! ```text
//! take ─▶ run of a request ── join, take_over, cut_off ──▶ end_all ─▶ done ─▶ hand_back
//!                                        └ one bio: end_one ─────────▲
//! ```
//!
//! Slots and runs are in `bio_slot.rs`; here is what happens to them.
//!
//! # Invariants
//! I1  A bio is in exactly one run: that of its request, or the list of ended bios.
//!
//! Source: own.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use crate::bio::Bio;
use crate::bio_slot::{BioRun, BioSlot};
use crate::device::Outcome;
use crate::elevator::{Fault, Side};
use crate::op::Flags;
use crate::queue_view::QueueView;
use crate::request::{Request, RequestId, Requests};
use crate::slab::{Key, NIL, Slab};

/// All bios of a queue.
#[derive(Debug)]
pub(crate) struct Bios {
    pub(crate) slots: Slab<BioSlot>,
    done: BioRun,
}

impl Bios {
    pub(crate) fn with_capacity(bios: u32) -> Bios {
        Bios { slots: Slab::with_capacity(bios), done: BioRun::EMPTY }
    }

    /// A slot for `bio`, which no request carries yet.
    #[inline]
    pub(crate) fn take(&mut self, bio: &Bio) -> Option<Key> {
        let (key, slot) = self.slots.take()?;
        slot.fill(bio);
        Some(key)
    }

    /// Whether a bio has ended that was not handed back.
    #[inline]
    pub(crate) const fn has_ended(&self) -> bool {
        !self.done.is_empty()
    }

    /// The next bio that has ended; its slot is free.
    #[inline]
    pub(crate) fn hand_back(&mut self) -> Option<&BioSlot> {
        self.done.pop(&mut self.slots)
    }

    /// One bio has ended, apart from those of its request.
    pub(crate) fn end_one(&mut self, index: u32, outcome: Outcome) {
        self.end_all(BioRun::one(index), outcome);
    }

    /// All bios in a run have ended with `outcome`.
    pub(crate) fn end_all(&mut self, run: BioRun, outcome: Outcome) {
        let mut index = run.first;
        while index != NIL {
            let slot = self.slots.at_mut(index);
            slot.outcome = outcome;
            slot.request = NIL;
            index = slot.next;
        }
        self.done.append(&mut self.slots, run);
    }

    /// A planted bug: only the first bio of a run is left.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn only_first(&mut self, run: BioRun) -> BioRun {
        self.slots.at_mut(run.first).next = NIL;
        BioRun::one(run.first)
    }

    /// A planted bug: a bio ends once more.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn end_again(&mut self, index: u32, outcome: Outcome) {
        let again = self.slots.at(index).clone();
        if let Ok(key) = self.slots.insert(BioSlot { next: NIL, ..again }) {
            self.end_one(key.index(), outcome);
        }
    }

    /// Links bio `index` to one end of request `id` and moves the request's bounds.
    pub(crate) fn join(&mut self, request: &mut Request, id: RequestId, index: u32, side: Side) {
        let slot = self.slots.at_mut(index);
        slot.request = id.0;
        let (sector, sectors, segments) = (slot.sector, slot.sectors, slot.segments);
        let mut run = request.bios();
        match side {
            Side::Back => run.append(&mut self.slots, BioRun::one(index)),
            Side::Front => {
                let mut front = BioRun::one(index);
                front.append(&mut self.slots, run);
                run = front;
                request.sector = sector;
            }
        }
        (request.bios_first, request.bios_last) = (run.first, run.last);
        request.sectors += sectors;
        request.segments += segments;
    }

    /// The bios of `gone` go to `survivor`, which keeps the earlier start and the better priority.
    pub(crate) fn take_over(
        &mut self,
        requests: &mut Requests,
        survivor: RequestId,
        gone: RequestId,
    ) {
        let taken = requests[gone].clone();
        let run = taken.bios();
        let mut index = run.first;
        while index != NIL {
            let slot = self.slots.at_mut(index);
            slot.request = survivor.0;
            index = slot.next;
        }
        let request = &mut requests[survivor];
        let mut all = request.bios();
        all.append(&mut self.slots, run);
        request.bios_last = all.last;
        request.sectors += taken.sectors;
        request.segments += taken.segments;
        request.start = request.start.min(taken.start);
        request.priority = request.priority.better(taken.priority);
        let empty = &mut requests[gone];
        (empty.bios_first, empty.bios_last) = (NIL, NIL);
    }

    /// A request of several bios loses its first or last, which is in no run then.
    pub(crate) fn cut_off(&mut self, request: &mut Request, index: u32) {
        let lost = self.slots.at(index).bio();
        let mut kept = BioRun::EMPTY;
        let mut at = request.bios().first;
        while at != NIL {
            let next = mem::replace(&mut self.slots.at_mut(at).next, NIL);
            if at != index {
                kept.append(&mut self.slots, BioRun::one(at));
            }
            at = next;
        }
        (request.bios_first, request.bios_last) = (kept.first, kept.last);
        request.sectors -= lost.sectors;
        request.segments -= lost.segments;
        request.sector = self.slots.at(kept.first).sector;
        request.flags = request.flags.without(Flags::NOMERGE);
    }

    /// Verifies I1, and that the bios of a request are adjacent.
    pub(crate) fn audit(&self, view: &QueueView) -> Result<(), Fault> {
        let mut places: Vec<u8> = vec![0; self.slots.capacity() as usize];
        let mut walk = |run: BioRun, owner: u32| -> Result<u32, Fault> {
            let mut sectors = 0;
            for index in run.iter(&self.slots) {
                places[index as usize] += 1;
                let slot = self.slots.at(index);
                if slot.request != owner {
                    return Err(format!("queue I1: bio {index} names another request"));
                }
                if places[index as usize] > 1 {
                    return Err(format!("queue I1: bio {index} is in two places"));
                }
                sectors += slot.sectors;
            }
            Ok(sectors)
        };
        walk(self.done, NIL)?;
        for (key, request) in view.requests.0.iter() {
            let run = request.bios();
            let sectors = walk(run, key.index())?;
            if sectors != request.sectors {
                let index = key.index();
                return Err(format!(
                    "queue I1: request {index} has {} sectors, its bios {sectors}",
                    request.sectors
                ));
            }
            self.audit_adjacency(request, run)?;
        }
        match self.slots.iter().find(|(key, _)| places[key.index() as usize] != 1) {
            Some((key, _)) => Err(format!("queue I1: bio {} is nowhere", key.index())),
            None => Ok(()),
        }
    }

    /// Verifies that every client counts its bios.
    pub(crate) fn audit_counts(&self, view: &QueueView) -> Result<(), Fault> {
        let mut bios: Vec<u32> = vec![0; view.clients.capacity() as usize];
        for (_, slot) in self.slots.iter() {
            bios[slot.client.index() as usize] += 1;
        }
        for (key, client) in view.clients.iter() {
            let index = key.index();
            if bios[index as usize] != client.bios {
                let found = bios[index as usize];
                return Err(format!("client {index} has {found} bios, counts {}", client.bios));
            }
        }
        Ok(())
    }

    fn audit_adjacency(&self, request: &Request, run: BioRun) -> Result<(), Fault> {
        let mut at = request.sector;
        for index in run.iter(&self.slots) {
            let bio = self.slots.at(index).bio();
            if bio.sector != at || bio.op != request.op {
                return Err(format!("merge: bio {index} does not continue its request at {at}"));
            }
            at = bio.end();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientId;
    use crate::device::DeviceFacts;
    use crate::op::Op;
    use crate::queue_view::Limits;
    use crate::time::Nanos;

    const READ: fn(u64, u64) -> Bio =
        |sector, cookie| Bio::new(ClientId::NOBODY, Op::Read, sector, 8).cookie(cookie);

    fn request(view: &mut QueueView, bios: &mut Bios, bio: &Bio) -> RequestId {
        let index = bios.take(bio).unwrap().index();
        let (key, request) = view.requests.0.take().unwrap();
        request.fill(bio, bio.priority.unwrap_or_default(), Nanos::ZERO);
        (request.bios_first, request.bios_last) = (index, index);
        bios.slots.at_mut(index).request = key.index();
        RequestId(key.index())
    }

    /// Do bios keep their order by sector when they join a request at both of its ends, when it
    /// takes over another and loses its first, and does each end once, with its cookie?
    #[test]
    fn bios_of_a_request_stay_in_order() {
        let limits = Limits { bios: 8, ..Limits::default() };
        let mut view = QueueView::new(DeviceFacts::default(), limits, false);
        let mut bios = Bios::with_capacity(limits.bios);
        let id = request(&mut view, &mut bios, &READ(16, 2));
        for (sector, cookie, side) in [(24, 3, Side::Back), (8, 1, Side::Front)] {
            let index = bios.take(&READ(sector, cookie)).unwrap().index();
            bios.join(&mut view.requests[id], id, index, side);
            bios.audit(&view).unwrap();
        }
        let gone = request(&mut view, &mut bios, &READ(32, 4));
        bios.take_over(&mut view.requests, id, gone);
        view.requests.0.free(gone.0);
        bios.audit(&view).unwrap();
        // 4 bios of 8 sectors each, from 8 on; then without the first.
        assert_eq!((view.requests[id].sector, view.requests[id].sectors), (8, 32));
        let first = view.requests[id].bios_first;
        bios.cut_off(&mut view.requests[id], first);
        bios.end_one(first, Outcome::failed(5));
        bios.audit(&view).unwrap();
        assert_eq!((view.requests[id].sector, view.requests[id].sectors), (16, 24));
        bios.end_all(view.requests[id].bios(), Outcome::OK);
        view.requests.0.free(id.0);
        bios.audit(&view).unwrap();
        let mut handed_back = Vec::new();
        while let Some(slot) = bios.hand_back() {
            handed_back.push((slot.cookie, slot.outcome));
        }
        let ended = |cookie| (cookie, Outcome::OK);
        assert_eq!(handed_back, [(1, Outcome::failed(5)), ended(2), ended(3), ended(4)]);
        assert!(bios.slots.is_empty() && !bios.has_ended());
    }
}
