// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes while requests are outstanding: elevators, clients, groups; and withdrawn bios.
//!
//! # A change of elevator
//! No request is lost and none waits for the device to become empty. The old elevator gives up its
//! waiting requests, the new one takes them in; requests in the device or on the dispatch list
//! stay, with the *epoch* of the elevator that picked them, so that their ends are not reported to
//! a successor that never knew them:
//!
//! ```text
//!            old (epoch 4)                          new (epoch 5)
//! waits      drain ───────────────────────────────▶ bind, insert
//! plugged    released ────────────────────────────▶ bind
//! in device  stays, epoch 4 ── complete ─▶ bios end; the new one is not told
//! ```
//!
//! Source: own. Differs from Linux, where the legacy layer emptied the queue first and blk-mq froze
//! it.

use alloc::boxed::Box;
use core::fmt;

use crate::answer::Stale;
use crate::bio::Ticket;
use crate::block::admission::{Context, reset_nr_requests};
use crate::block::common::Common;
use crate::client::{
    Client, ClientId, ClientSpec, Group, GroupId, GroupSpec, Priority, clamp_weight,
};
use crate::device::{Outcome, Status};
use crate::elevator::{Elevator, Rules, Side};
use crate::event::{Note, Observer};
use crate::list::List;
use crate::queue::RequestQueue;
use crate::request::{Request, RequestId, Stage};
use crate::slab::NIL;
use crate::time::Nanos;

/// A client or group was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// The queue's capacity for it, fixed when it was built, is used up.
    Full {
        /// That capacity.
        capacity: u32,
    },
    /// The group it should belong to does not exist.
    NoGroup,
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddError::Full { capacity } => {
                write!(f, "all {capacity} places of this queue are taken")
            }
            AddError::NoGroup => f.write_str("no such group"),
        }
    }
}

impl core::error::Error for AddError {}

/// A bio was not withdrawn; it will end as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelError {
    /// It has ended, or never existed.
    Stale,
    /// It is in the device, or on its way there.
    TooLate,
    /// It is in the middle of a merged request, which cannot be cut in two.
    Merged,
}

impl fmt::Display for CancelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelError::Stale => "the bio has ended already",
            CancelError::TooLate => "the bio is in the device already",
            CancelError::Merged => "the bio is in the middle of a merged request",
        })
    }
}

impl core::error::Error for CancelError {}

/// The root group cannot be removed, nor a group with members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse;

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the group is the root or has members")
    }
}

impl core::error::Error for InUse {}

impl<O: Observer> RequestQueue<O> {
    /// Replaces the present elevator by `elevator` and returns the old one, empty. Nothing is lost
    /// or reordered on its way to the device; attributes of the old one are gone with it.
    pub fn change_elevator(
        &mut self,
        now: Nanos,
        elevator: Box<dyn Elevator>,
    ) -> Box<dyn Elevator> {
        self.advance(now);
        self.forgive_debts();
        let waiting = self.merger.take_back(&mut self.common);
        let old = self.common.elevator.replace(elevator);
        self.common.view.cancel_timer();
        self.common.view.note(Note::ElevatorChanged { epoch: self.common.elevator.epoch() });
        if !self.policy.rules_fixed {
            self.common.rules = self.common.elevator.traits().rules;
        }
        self.apply_rules();
        self.common.introduce();
        self.hand_over(waiting);
        self.end_call();
        old
    }

    /// Rules or limits may have changed: wakes all sleepers to try again.
    pub(crate) fn apply_rules(&mut self) {
        reset_nr_requests(&mut self.common, self.policy.requests_fixed);
        self.wake_all();
    }

    /// Wakes all sleepers: limits or rules have changed.
    pub(crate) fn wake_all(&mut self) {
        self.allocator.wake_all(&mut Context::of(&mut self.common, &self.throttle));
    }

    fn hand_over(&mut self, mut waiting: List) {
        for index in 0..self.common.view.request_slots() {
            if self.common.is_plugged(index) {
                self.common.rebind(RequestId(index));
            }
        }
        while let Some(index) = waiting.pop_front(&mut self.common.links) {
            let id = RequestId(index);
            self.common.rebind(id);
            // The device may have refused it once; the new elevator treats it as any other.
            self.common.view.requests[id].was_started = false;
            // Nor does it go ahead of others: the new one charges it.
            self.common.view.requests[id].past_throttle = false;
            self.insert(id);
        }
    }

    /// Adds a client.
    ///
    /// # Errors
    /// [`AddError`] when there is no room or no such group.
    pub fn attach(&mut self, now: Nanos, spec: ClientSpec) -> Result<ClientId, AddError> {
        let group = spec.group.unwrap_or(self.common.view.root);
        self.common.view.groups.get(group.0).ok_or(AddError::NoGroup)?;
        self.advance(now);
        let capacity = self.common.view.clients.capacity();
        let client = Client::of(spec, group);
        let key =
            self.common.view.clients.0.insert(client).map_err(|_| AddError::Full { capacity })?;
        self.common.view.groups.0.at_mut(group.index()).members += 1;
        let id = ClientId(key);
        self.throttle.attach(id.index());
        self.common.elevator.tell(|it| it.client_attached(&mut self.common.view, id));
        self.end_call();
        Ok(id)
    }

    /// Lets a client go: its plug is flushed, its bios end as usual, and it is removed with the
    /// last of them and of its requests. It can submit nothing more.
    ///
    /// # Errors
    /// [`Stale`] when it no longer exists.
    pub fn detach(&mut self, now: Nanos, id: ClientId) -> Result<(), Stale> {
        self.advance(now);
        let client = self.common.view.clients.0.get_mut(id.0).ok_or(Stale)?;
        client.plugged = false;
        client.leaving = true;
        let gone = client.is_gone();
        self.flush_plug(id);
        let around = &mut Context::of(&mut self.common, &self.throttle);
        self.allocator.stop_sleeping(around, id);
        if gone {
            self.remove_client(id);
        }
        self.end_call();
        Ok(())
    }

    /// Sets a client's class, level and weight.
    ///
    /// # Errors
    /// [`Stale`] when it no longer exists.
    pub fn set_priority(
        &mut self,
        now: Nanos,
        id: ClientId,
        priority: Priority,
        weight: u32,
    ) -> Result<(), Stale> {
        self.advance(now);
        let client = self.common.view.clients.0.get_mut(id.0).ok_or(Stale)?;
        client.priority = Priority { class: priority.class, level: priority.level.min(7) };
        client.weight = clamp_weight(weight);
        self.common.elevator.tell(|it| it.client_changed(&mut self.common.view, id));
        self.end_call();
        Ok(())
    }

    /// Moves a client to another group.
    ///
    /// # Errors
    /// [`AddError::NoGroup`] when the client or the group does not exist.
    pub fn move_client(&mut self, now: Nanos, id: ClientId, to: GroupId) -> Result<(), AddError> {
        self.advance(now);
        self.common.view.groups.get(to.0).ok_or(AddError::NoGroup)?;
        let client = self.common.view.clients.0.get_mut(id.0).ok_or(AddError::NoGroup)?;
        let from = client.group.replace(to);
        if let Some(from) = from {
            self.common.view.groups.0.at_mut(from.index()).members -= 1;
        }
        self.common.view.groups.0.at_mut(to.index()).members += 1;
        self.common.elevator.tell(|it| it.client_changed(&mut self.common.view, id));
        self.end_call();
        Ok(())
    }

    /// The group that all others descend from.
    #[must_use]
    pub const fn root(&self) -> GroupId {
        self.common.view.root
    }

    /// Adds a group.
    ///
    /// # Errors
    /// [`AddError`] when there is no room or no such parent.
    pub fn add_group(&mut self, now: Nanos, spec: GroupSpec) -> Result<GroupId, AddError> {
        let parent = spec.parent.unwrap_or(self.common.view.root);
        self.common.view.groups.get(parent.0).ok_or(AddError::NoGroup)?;
        self.advance(now);
        let capacity = self.common.view.groups.capacity();
        let group = Group { parent: Some(parent), weight: spec.weight, members: 0 };
        let key =
            self.common.view.groups.0.insert(group).map_err(|_| AddError::Full { capacity })?;
        self.common.view.groups.0.at_mut(parent.index()).members += 1;
        let id = GroupId(key);
        self.common.elevator.tell(|it| it.group_changed(&mut self.common.view, id));
        self.end_call();
        Ok(id)
    }

    /// Sets a group's weight (1 to 10 000).
    ///
    /// # Errors
    /// [`Stale`] when it no longer exists.
    pub fn set_group_weight(&mut self, now: Nanos, id: GroupId, weight: u32) -> Result<(), Stale> {
        self.advance(now);
        self.common.view.groups.0.get_mut(id.0).ok_or(Stale)?.weight = clamp_weight(weight);
        self.common.elevator.tell(|it| it.group_changed(&mut self.common.view, id));
        self.end_call();
        Ok(())
    }

    /// Removes a group without members.
    ///
    /// # Errors
    /// [`InUse`] for the root, a group with members, or one that does not exist.
    pub fn remove_group(&mut self, now: Nanos, id: GroupId) -> Result<(), InUse> {
        self.advance(now);
        let group = self.common.view.groups.get(id.0).ok_or(InUse)?;
        let parent = group.parent.ok_or(InUse)?;
        if group.members != 0 {
            return Err(InUse);
        }
        self.common.elevator.tell(|it| it.group_removed(&mut self.common.view, id));
        self.common.view.groups.0.release(id.index());
        self.common.view.groups.0.at_mut(parent.index()).members -= 1;
        self.end_call();
        Ok(())
    }

    /// Withdraws a bio that has not started: it ends with `Status::Cancelled`.
    ///
    /// # Errors
    /// [`CancelError`] says why it is not withdrawn.
    pub fn cancel(&mut self, now: Nanos, ticket: Ticket) -> Result<(), CancelError> {
        self.arrive(now);
        let index = ticket.0.index();
        let slot = self.common.bios.slots.get(ticket.0).ok_or(CancelError::Stale)?;
        if slot.request == NIL {
            // Ended and not yet handed back.
            return Err(CancelError::TooLate);
        }
        let id = RequestId(slot.request);
        if self.cut_out(id, index)? {
            self.common.unbind(id);
            self.free_unbound(id);
        }
        let withdrawn = Outcome { status: Status::Cancelled, served: None };
        self.common.bios.end_one(index, withdrawn);
        self.end_call();
        Ok(())
    }

    /// Takes bio `index` out of its request; whether that ends with it, its only one.
    fn cut_out(&mut self, id: RequestId, index: u32) -> Result<bool, CancelError> {
        let request = &self.common.view.requests[id];
        let (first, last) = (request.bios_first, request.bios_last);
        let (stage, sequenced) = (request.stage, request.steps.is_sequenced());
        match stage {
            Stage::Flushing
                if self.flush.leave_pending(&self.common.view, &mut self.common.links, id) =>
            {
                return Ok(true);
            }
            Stage::Throttled => {}
            Stage::Waiting | Stage::Plugged if !sequenced => {}
            _ => return Err(CancelError::TooLate),
        }
        if index != first && index != last {
            return Err(CancelError::Merged);
        }
        let waiting = stage == Stage::Waiting;
        if waiting {
            self.merger.leave(id);
        }
        if first == last {
            let Common { view, elevator, links, .. } = &mut self.common;
            let client = view.requests[id].client();
            match stage {
                Stage::Waiting => elevator.removed(view, id),
                Stage::Throttled => self.throttle.cancel(links, client.index(), id.0),
                _ => self.plugs.tasks.remove(links, client, id),
            }
            return Ok(true);
        }
        self.common.bios.cut_off(&mut self.common.view.requests[id], index);
        if waiting {
            let side = if index == first { Side::Front } else { Side::Back };
            self.common.elevator.shrunk(&mut self.common.view, id, side);
            self.merger.offer(id, &self.common.view.requests[id]);
        }
        Ok(false)
    }

    /// A client, to read its properties.
    #[must_use]
    pub fn client(&self, id: ClientId) -> Option<&Client> {
        self.common.view.clients.get(id.0)
    }

    /// A group, to read its weight.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.common.view.groups.get(id.0)
    }

    /// The request that carries the bio of this ticket; `None` once the bio has ended or was
    /// withdrawn. A caller that keeps tickets learns from it which of them can still be cancelled.
    #[must_use]
    pub fn request_with(&self, ticket: Ticket) -> Option<&Request> {
        let slot = self.common.bios.slots.get(ticket.0)?;
        (slot.request != NIL).then(|| self.common.view.slot(slot.request))
    }

    /// Whether a pool is congested, sync or async: a submitter that may wait should (BLK-7).
    #[must_use]
    pub fn is_congested(&self, sync: bool) -> bool {
        self.common.rules == Rules::Legacy && self.allocator.is_congested(sync)
    }

    /// Requests allocated: async (or limited) and sync (or others).
    #[must_use]
    pub const fn allocated(&self) -> (u32, u32) {
        let [limited, others] = self.allocator.pools;
        (limited.allocated, others.allocated)
    }
}
