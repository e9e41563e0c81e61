// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence: how a sequenced request goes from step to step.
//!
//! ```text
//! bio with flags ─▶ steps ─▶ pending ─kick─▶ flush ─ends─▶ next step ─▶ data ─ends─▶ ... ─▶ end
//!                                └─ cache is clean: no flush ──┘
//! ```
//!
//! What may be flushed, held or left out the sequencer knows, and it has the invariants and the
//! source; here it is connected with elevator, dispatch list, admission and throttle: each of these
//! is lent for one call.

use super::Sequencer;
use crate::block::admission::Allocator;
use crate::block::common::Common;
use crate::block::dispatch::Dispatch;
use crate::block::throttle::Throttle;
use crate::client::ClientId;
use crate::device::{Outcome, Status};
use crate::elevator::{Position, Rules};
use crate::event::{Action, Observer};
use crate::op::Flags;
use crate::request::steps::Step;
use crate::request::{RequestId, Stage};
use crate::time::Nanos;

/// The sequencer, and the parts that its requests go through.
pub(crate) struct Sequence<'a, O: Observer> {
    pub(crate) common: &'a mut Common<O>,
    pub(crate) flush: &'a mut Sequencer,
    pub(crate) dispatch: &'a mut Dispatch,
    pub(crate) allocator: &'a mut Allocator,
    pub(crate) throttle: &'a mut Throttle,
    /// Whether the device or a plug has something.
    pub(crate) is_busy: bool,
}

impl<O: Observer> Sequence<'_, O> {
    /// Starts the first step of a request.
    pub(crate) fn begin(&mut self, id: RequestId) {
        self.common.emit_request(Action::Insert, id);
        let steps = self.common.view.requests[id].steps;
        if self.common.rules == Rules::Mq && steps.begins_with_data() {
            self.start_data(id, Position::Sorted);
        } else {
            self.go_to_next_step(id, Outcome::OK);
            self.kick();
        }
    }

    /// Puts a request where its next step is done, or ends it.
    fn go_to_next_step(&mut self, id: RequestId, outcome: Outcome) {
        let Common { view, links, .. } = &mut *self.common;
        let steps = view.requests[id].steps;
        let next = if outcome.status == Status::Ok { steps.next() } else { Step::Done };
        match next {
            Step::Preflush | Step::Postflush => {
                self.flush.ask(links, view.exact, id);
                self.flush.writers.called(view.exact, view.requests[id].client().index());
                view.requests[id].stage = Stage::Flushing;
            }
            Step::Data => self.start_data(id, Position::Head),
            Step::Done => {
                let run = view.requests[id].bios();
                self.common.end_all(run, outcome);
                self.free(id);
            }
        }
    }

    /// The current step of a request has ended.
    fn end_step(&mut self, id: RequestId, outcome: Outcome) {
        let steps = &mut self.common.view.requests[id].steps;
        *steps = steps.advanced();
        self.go_to_next_step(id, outcome);
    }

    /// The data of a sequence go to the device, past the elevator or through it.
    fn start_data(&mut self, id: RequestId, position: Position) {
        self.flush.data_start();
        let Common { view, rules, .. } = &mut *self.common;
        let request = &mut view.requests[id];
        let ordering = if view.facts.fua { Flags::PREFLUSH } else { Flags::PREFLUSH | Flags::FUA };
        request.flags = request.flags.without(ordering) | Flags::SYNC | Flags::NOMERGE;
        if *rules == Rules::Legacy {
            self.dispatch.push_front(self.common, id);
            return;
        }
        self.common.rebind(id);
        let Common { view, elevator, .. } = &mut *self.common;
        view.requests[id].stage = Stage::Waiting;
        elevator.insert(view, id, position);
    }

    /// The device has processed the data of a sequence. If the elevator knew of them, it has been
    /// told.
    #[inline(never)]
    pub(crate) fn data_ended(&mut self, id: RequestId, outcome: Outcome) {
        self.common.unbind(id);
        self.common.view.requests[id].epoch = u32::MAX;
        self.flush.data_end();
        self.end_step(id, outcome);
        self.kick();
    }

    /// Issues flushes while requests wait and may have one. (More than one only if they cost
    /// nothing.)
    #[inline(never)]
    pub(crate) fn kick(&mut self) {
        while self.may_flush() {
            if self.is_clean() {
                self.pass_pending();
            } else {
                self.issue_flush();
            }
        }
    }

    /// Whether a flush may be issued now; at the end of a train others go first.
    fn may_flush(&self) -> bool {
        let busy = || self.is_busy || self.common.elevator.waiting() != 0;
        self.flush.may_flush(self.common.view.exact, busy)
            && !self.flush.gives_way(self.common, self.dispatch)
    }

    /// Whether the clients that wait for a flush can continue without one.
    fn is_clean(&mut self) -> bool {
        if !self.flush.policy.elides {
            return false;
        }
        #[cfg(feature = "planted-bugs")]
        if self.common.view.planted.elides_too_many(!self.flush.clean.is_clean()) {
            return true;
        }
        self.flush.clean.is_clean()
    }

    /// No request in the pending list needs a flush: all continue.
    fn pass_pending(&mut self) {
        let pending = self.flush.pending;
        for _ in 0..self.flush.lists[pending].len() {
            if let Some(id) = self.flush.take_asker(&mut self.common.links, pending) {
                self.end_step(id, Outcome::OK);
            }
        }
    }

    /// A flush for the pending list goes to the dispatch list.
    fn issue_flush(&mut self) {
        let Some(id) = self.flush.begin_flush(&mut self.common.view) else { return };
        if self.flush.policy.at_head {
            self.dispatch.push_front(self.common, id);
        } else {
            self.dispatch.push_back(self.common, id);
        }
    }

    /// The flush has ended, and took `served` device time: all requests that waited for it
    /// continue.
    #[inline(never)]
    pub(crate) fn flush_ended(&mut self, id: RequestId, outcome: Outcome, served: Nanos) {
        let good = outcome.status == Status::Ok;
        let running = self.flush.running();
        self.flush.note_end(good, served);
        self.flush.settle(self.common, self.throttle, running, good, served);
        #[cfg(feature = "planted-bugs")]
        if self.common.view.planted.shares_late(self.flush.has_pending()) {
            self.end_waiters(self.flush.pending, outcome);
        }
        self.free(id);
        let others_wait = self.flush.others_wait(self.common, self.dispatch);
        self.flush.end(others_wait);
        self.end_waiters(running, outcome);
        #[cfg(feature = "planted-bugs")]
        self.common.view.planted.forgets_restart(self.flush.has_train());
    }

    /// The steps of all requests in a list have ended.
    fn end_waiters(&mut self, list: usize, outcome: Outcome) {
        // During this loop the next flush may be issued, and this list become the pending one
        // again: requests put back are behind those still in it.
        for _ in 0..self.flush.lists[list].len() {
            let Some(id) = self.flush.take_asker(&mut self.common.links, list) else { return };
            self.end_step(id, outcome);
            self.kick();
        }
    }

    /// Ends a request, and lets its client go if that has gone.
    fn free(&mut self, id: RequestId) {
        if let Some(gone) = self.allocator.free(self.common, self.throttle, id) {
            self.flush.let_go(self.common, self.allocator, self.throttle, gone);
        }
    }
}

impl Sequencer {
    /// Whether something outside a sequence has yet to go to the device.
    fn others_wait<O>(&self, common: &Common<O>, dispatch: &Dispatch) -> bool {
        common.elevator.waiting() > 0 || self.has_plain(&common.view, &dispatch.list, &common.links)
    }

    /// A client that has gone is no writer any more, and is forgotten.
    #[inline(never)]
    pub(crate) fn let_go<O>(
        &mut self,
        common: &mut Common<O>,
        allocator: &mut Allocator,
        throttle: &Throttle,
        gone: ClientId,
    ) {
        self.writers.forget(gone.index());
        allocator.remove_client(common, throttle, gone);
    }

    /// Whether the next flush lets others go first.
    pub(crate) fn gives_way<O>(&self, common: &Common<O>, dispatch: &Dispatch) -> bool {
        self.is_long_train() && self.others_wait(common, dispatch)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::bio::{Bio, Cookie};
    use crate::block::common::tests::{client, common};
    use crate::event::NoObserver;
    use crate::op::Op;
    use crate::request::steps::Steps;

    /// A sequencer between a dispatch list and a device, without a queue.
    struct Rig {
        common: Common<NoObserver>,
        flush: Sequencer,
        dispatch: Dispatch,
        allocator: Allocator,
        throttle: Throttle,
        in_device: Vec<RequestId>,
    }

    impl Rig {
        fn new(fua: bool) -> Rig {
            let mut common = common();
            (common.view.facts.write_cache, common.view.facts.fua) = (true, fua);
            (common.rules, common.view.nr_requests) = (Rules::Legacy, 128);
            let limits = common.view.limits;
            Rig {
                flush: Sequencer::new(&limits),
                dispatch: Dispatch::default(),
                allocator: Allocator::new(&limits),
                throttle: Throttle::with_capacity(limits.clients),
                in_device: Vec::new(),
                common,
            }
        }

        fn sequence(&mut self) -> Sequence<'_, NoObserver> {
            Sequence {
                is_busy: !self.in_device.is_empty(),
                common: &mut self.common,
                flush: &mut self.flush,
                dispatch: &mut self.dispatch,
                allocator: &mut self.allocator,
                throttle: &mut self.throttle,
            }
        }

        fn submit(&mut self, cookie: Cookie, flags: Flags) {
            let client = client(&self.common);
            let bio = match flags {
                Flags::NONE => Bio::flush(client),
                _ => Bio::new(client, Op::Write, 8 * cookie, 8).flags(flags),
            };
            let bio = bio.cookie(cookie);
            let index = self.common.bios.take(&bio).unwrap().index();
            let Rig { common, throttle, .. } = self;
            let id = self.allocator.allocate(common, throttle, index, &bio).unwrap();
            let one = &mut self.common.view.requests[id];
            one.steps = Steps::of(&bio, &self.common.view.facts);
            one.epoch = u32::MAX;
            self.sequence().begin(id);
        }

        /// The device takes all that is dispatched.
        fn issue(&mut self) {
            while let Some(id) = self.dispatch.pop(&mut self.common.links) {
                self.common.view.requests[id].stage = Stage::InDevice;
                if self.flush.is_command(id) {
                    self.flush.starts(self.common.view.exact);
                }
                self.in_device.push(id);
            }
        }

        /// One of the commands in the device ends; which cookies that hands back.
        fn end(&mut self, place: usize, outcome: Outcome) -> Vec<(Cookie, bool)> {
            let id = self.in_device.remove(place);
            if self.flush.is_command(id) {
                self.sequence().flush_ended(id, outcome, Nanos::from_millis(1));
            } else {
                let Common { view, bios, .. } = &self.common;
                self.flush.note_written(view, bios, id, outcome.status == Status::Ok);
                self.sequence().data_ended(id, outcome);
            }
            self.flush.audit(&self.common.view, &self.common.links).unwrap();
            let mut ended = Vec::new();
            while let Some(slot) = self.common.bios.hand_back() {
                ended.push((slot.cookie, slot.outcome.status == Status::Ok));
            }
            ended
        }
    }

    /// Do all that ask while a flush is in the device share the next one, as in the picture of the
    /// folder's header: 1 ends x, 2 ends a, b and c?
    #[test]
    fn flush_4_any_number_of_fsyncs_share_two_flushes() {
        let mut rig = Rig::new(false);
        rig.flush.policy.elides = false;
        rig.submit(9, Flags::NONE);
        rig.issue();
        for cookie in [1, 2, 3] {
            rig.submit(cookie, Flags::NONE);
            assert!(rig.dispatch.is_empty(), "one is in flight");
        }
        assert_eq!(rig.end(0, Outcome::OK), [(9, true)]);
        rig.issue();
        assert_eq!(rig.in_device.len(), 1);
        assert_eq!(rig.end(0, Outcome::OK), [(1, true), (2, true), (3, true)]);
    }

    proptest! {
        /// Whatever is submitted and whatever fails: does each bio end once, with an error only if
        /// a command failed, and is at most one flush in flight?
        #[test]
        fn flush_17_each_sequence_ends_once(
            fua in any::<bool>(),
            calls in prop::collection::vec((0u8..6, any::<prop::sample::Index>()), 1..80)
        ) {
            let (mut rig, mut ended, mut submitted) = (Rig::new(fua), Vec::new(), 0);
            let mut failed = false;
            let kinds = [Flags::NONE, Flags::PREFLUSH, Flags::FUA, Flags::PREFLUSH | Flags::FUA];
            for (call, place) in calls {
                rig.common.view.exact += Nanos::from_millis(1);
                match kinds.get(usize::from(call)) {
                    // With FUA in the device such a write is plain, and comes here only with a
                    // flush before it.
                    Some(&Flags::FUA) if fua => {}
                    Some(&flags) => {
                        submitted += 1;
                        rig.submit(submitted, flags);
                    }
                    None if rig.in_device.is_empty() => {}
                    None => {
                        let place = place.index(rig.in_device.len());
                        failed |= call == 5;
                        let outcome = if call == 5 { Outcome::failed(5) } else { Outcome::OK };
                        ended.extend(rig.end(place, outcome));
                    }
                }
                rig.issue();
                let flushes = rig.in_device.iter().filter(|&&id| rig.flush.is_command(id));
                prop_assert!(flushes.count() <= 1);
            }
            while !rig.in_device.is_empty() {
                ended.extend(rig.end(0, Outcome::OK));
                rig.issue();
            }
            prop_assert!(failed || ended.iter().all(|&(_, good)| good), "{ended:?}");
            ended.sort_unstable();
            let cookies: Vec<Cookie> = ended.iter().map(|&(cookie, _)| cookie).collect();
            // A flush of a clean cache ends at once, and is handed back with the next end.
            while let Some(slot) = rig.common.bios.hand_back() {
                prop_assert!(!cookies.contains(&slot.cookie));
                ended.push((slot.cookie, true));
            }
            ended.sort_unstable();
            let cookies: Vec<Cookie> = ended.iter().map(|&(cookie, _)| cookie).collect();
            prop_assert_eq!(cookies, (1..=submitted).collect::<Vec<Cookie>>());
        }
    }
}
