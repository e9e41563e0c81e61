// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive calls: from what processes ask through FUSE to I/Os.
//!
//! ```text
//! call ─▶ the connection of its process ─▶ it waits ─▶ I/O ─▶ fragments, filled from its payload
//! ```
//!
//! It is `receive` without bytes: a call is whole when it comes, so nothing is parsed, read ahead
//! or skipped, and no process is waited for. What keeps a connection from going on is the same:
//! memory, places, caps, the queue, its tenant's turn. A call that cannot go on waits here, and its
//! process for it; the kernel lets no process have more than its number of calls.
//!
//! Invariant: a connection that has calls to be begun, and is not blocked, is in `turns`.

use std::sync::Arc;

use paternoster_core::Priority;

use super::DeviceLoop;
use super::calls::Calls;
use super::connection::Receiving;
use super::processes::{Lookup, Standing, idle_since};
use super::receive::Need;
use crate::fuse::call::Call;
use crate::fuse::callers::Caller;

impl DeviceLoop {
    /// A process makes a call.
    pub(super) fn take_call(&mut self, call: Call) {
        if self.stop.is_on() {
            return call.answer.bad(libc::ESHUTDOWN);
        }
        let Some(index) = self.connection_of(&call) else { return call.answer.bad(libc::ENOMEM) };
        let now = self.time.now;
        let connection = self.connections.at_mut(index);
        if let Some(process) = &mut connection.process {
            process.used = now;
        }
        // A connection that is known takes calls (I2 of `processes`).
        if let Some(calls) = connection.calls_mut() {
            calls.push(call);
        }
        self.connections.make_ready(index);
    }

    /// The connection that a call belongs to.
    fn connection_of(&mut self, call: &Call) -> Option<u32> {
        let place = call.place;
        if let Some(caller) = &call.caller {
            let name = &self.volumes.at(place).name;
            match self.processes.look_up(place, name, caller) {
                Lookup::Known(index) => return Some(index),
                Lookup::Weighs(index) => {
                    let (now, queue) = (self.time.now, &mut self.recorded_queue);
                    self.tenants.weigh(now, queue, &caller.cgroup, &caller.weights);
                    self.divide();
                    return Some(index);
                }
                Lookup::New(standing) => {
                    let made = self.make_process(place, Some(caller), standing, caller.priority);
                    if let Some(index) = made {
                        self.processes.is_of(place, caller, index);
                        return made;
                    }
                }
                Lookup::TooMany => {
                    // The one that has been idle longest makes room.
                    let idle = self.connections.iter();
                    let idle = idle.filter_map(|(index, it)| Some((idle_since(it)?, index)));
                    if let Some((_, index)) = idle.min_by_key(|(since, _)| *since) {
                        self.send_away(index);
                    }
                }
            }
        }
        if let Some(index) = self.processes.common(place) {
            return Some(index);
        }
        let index = self.make_process(place, None, Standing::Root, Priority::default())?;
        self.processes.is_common(place, index);
        Some(index)
    }

    fn make_process(
        &mut self,
        place: u32,
        caller: Option<&Arc<Caller>>,
        standing: Standing,
        priority: Priority,
    ) -> Option<u32> {
        let (newcomer, process) = self.processes.newcomer(self.time.now, place, caller)?;
        self.take_in(newcomer, standing, Some(priority), Some(process))
    }

    /// Removes a process: its connection ends when the calls that it has made are answered.
    pub(super) fn send_away(&mut self, index: u32) {
        self.processes.forget(index);
        if let Some(calls) = self.connections.at_mut(index).calls_mut() {
            calls.leave();
        }
        self.connections.make_ready(index);
    }

    /// Begins what calls of a connection can be begun, for a turn.
    pub(super) fn serve_calls(&mut self, index: u32) {
        while !self.is_held(index) {
            let is_over = self.connections.turns.is_over();
            let need = match self.connections.at(index).receiving {
                Receiving::Over | Receiving::Skipping { .. } => Some(Need::Patience),
                Receiving::Splitting { .. } | Receiving::Header if is_over => Some(Need::Turn),
                Receiving::Splitting { io } => self.go_on_splitting(index, io),
                Receiving::Payload { io, fragment } => self.fill_from_call(index, io, fragment),
                Receiving::Header => self.begin_call(index),
            };
            match need {
                None => {}
                Some(Need::Turn) => return self.connections.make_ready(index),
                Some(Need::Bytes | Need::Patience) => return,
            }
        }
    }

    /// Begins the next call of a connection, or refuses it; what is needed if that cannot be.
    fn begin_call(&mut self, index: u32) -> Option<Need> {
        let connection = self.connections.at_mut(index);
        let calls = connection.calls_mut()?;
        if calls.is_over() {
            connection.receiving = Receiving::Over;
            self.leave_when_idle(index);
            return Some(Need::Patience);
        }
        if calls.is_empty() {
            return Some(Need::Bytes);
        }
        if !self.may_begin(index) {
            return Some(Need::Patience);
        }
        let request = self.connections.at_mut(index).calls_mut().and_then(Calls::begin)?;
        self.connections.turns.hear_call(request.payload());
        if let Some(refusal) = self.begin(index, request) {
            // Its payload is not wanted.
            self.connections.at_mut(index).calls_mut().map(Calls::take_payload);
            self.refuse(index, &request, refusal.errno, &refusal.text);
        }
        None
    }

    /// Moves the payload of a call to the next fragment of its I/O.
    fn fill_from_call(&mut self, index: u32, io: u32, fragment: Option<u32>) -> Option<Need> {
        let (payload, mut read) = self.connections.at_mut(index).calls_mut()?.take_payload();
        let need = self.fill(index, io, fragment, &payload, &mut read);
        // It may have been closed.
        if let Some(calls) = self.connections.at_mut(index).calls_mut() {
            calls.keep_payload(payload, read);
        }
        need
    }
}
