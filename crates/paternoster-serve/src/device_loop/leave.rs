// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leave: a loop gives its connections to another process, or goes on with those of one.
//!
//! What is given and taken, and when, `handover` says; here it is done.
//!
//! Invariants: I1 between the giver's report and the verdict nothing is read, written or sent; I2 a
//! connection is served by one process at a time.

use super::DeviceLoop;
use super::connection::{Pace, Receiving};
use super::handover::{
    HandoverMessage, Leaving, Resumed, Verdict, is_given, is_quiet, leaving, states_of,
    take_tenants,
};
use super::io_fragment::Io;
use super::outbox::Outbox;
use super::tenants::BUCKETS;
use crate::control::snapshot::Figures;
use crate::handover::record::{Asked, Reading};
use crate::nbd::transmission::{Kind, Refusal};
use crate::wire::Wire;

const EIO: i32 = 5;

impl DeviceLoop {
    pub(super) fn read_of_handover(&mut self, message: HandoverMessage) {
        match message {
            HandoverMessage::Files(answer) => {
                // The drain would be forgotten: a volume that is being copied would be written to.
                let files = match self.volumes.any_drained() {
                    Some(name) => {
                        Err(format!("volume {name} is drained, or goes: resume it, or try again"))
                    }
                    None => Ok(self.commands.backend().to_hand_over()),
                };
                if let Ok(files) = &files {
                    self.handover.tells(files);
                }
                let _gone = answer.send(files);
            }
            HandoverMessage::Tenants(all) => {
                let now = self.time.look();
                take_tenants(
                    &mut self.tenants,
                    now,
                    all.iter().filter(|it| it.device == self.name),
                );
            }
            HandoverMessage::Leave(leave) => {
                let ends = if self.stop.is_on() {
                    Some(leave)
                } else {
                    let now = self.time.look();
                    self.handover.asks(leave, now).err()
                };
                if let Some(leave) = ends {
                    let _gone = leave.answer.send(Err("it is ending already".to_owned()));
                }
            }
        }
    }

    /// Gives connections away as soon as possible, or gives up.
    pub(super) fn leave_if_quiet(&mut self) {
        let Some(by) = self.handover.by() else { return };
        let is_quiet = is_quiet(&self.requests, &self.connections, self.is_waited_for());
        if !is_quiet && !self.stop.is_on() && self.time.now < by {
            return;
        }
        let told = match is_quiet && !self.stop.is_on() {
            // The kernel has reported it here, and will not there: the other's next flush would
            // succeed.
            true if self.handover.has_lost(&self.commands.backend().to_hand_over()) => {
                Err("a flush has failed since it heard of the files: try again".to_owned())
            }
            true => leaving(&self.requests, &self.connections, &self.volumes).map(|leaving| {
                Leaving { tenants: states_of(&self.tenants, self.time.now, &self.name), ..leaving }
            }),
            false if self.stop.is_on() => Err("it is ending already".to_owned()),
            false => Err(format!("what is under way does not end: {}", self.under_way())),
        };
        let verdict = self.handover.settle(told);
        self.time.look();
        match verdict {
            Verdict::Resume => self.connections.go_on(self.time.now),
            Verdict::Gone => self.give_connections_away(),
        }
    }

    /// Another process has the connections: they go without notice. The others finish, as in a
    /// stop.
    fn give_connections_away(&mut self) {
        let given = self.connections.iter().filter(|(_, connection)| is_given(connection));
        let given: Vec<u32> = given.map(|(index, _)| index).collect();
        for index in given {
            let socket = self.connections.at(index).wire().map(Wire::socket);
            // The other process has it open: its events would still arrive here.
            if let Some(socket) = socket {
                self.poller.forget(socket);
            }
            self.hang_up(index);
        }
        for index in self.connections.all() {
            self.forget_half_a_write(index);
        }
        self.stop_soon();
        // Their sockets do not ring again for bytes that came while nothing was read.
        self.connections.go_on(self.time.now);
    }

    /// A write whose payload has not come is neither done nor answered, as after a break of its
    /// connection: its client repeats it. Done here later it would not be covered by a flush of the
    /// other process.
    fn forget_half_a_write(&mut self, index: u32) {
        let connection = self.connections.at_mut(index);
        let Receiving::Payload { io, fragment } = connection.receiving else { return };
        connection.receiving = Receiving::Over;
        connection.brings.paid();
        self.requests.io_mut(io).silent = true;
        match fragment {
            Some(fragment) => self.end_fragment(fragment, EIO),
            None if self.requests.io(io).left == 0 => self.end_io(io),
            None => {}
        }
    }

    /// A connection goes on where it was at another process.
    pub(super) fn resume(&mut self, index: u32, resumed: Resumed) {
        let Resumed { reading, output, behind, figures, .. } = resumed;
        let connection = self.connections.at_mut(index);
        if figures.latency_log2_us.len() == BUCKETS {
            connection.served_before = 0;
            connection.figures = Figures { served_ns: 0, ..figures };
        }
        let owed = match &reading {
            Reading::Within { owed, .. } => *owed,
            _ => 0,
        };
        connection.out = Outbox::taken(output, owed, behind);
        if !connection.out.is_empty() {
            connection.takes.owes(self.time.now);
        }
        let done = match reading {
            Reading::Header => Ok(()),
            Reading::Over => {
                connection.receiving = Receiving::Over;
                self.leave_when_idle(index);
                Ok(())
            }
            Reading::Skipping { left, asked, errno, text } => asked.request().map(|request| {
                connection.receiving = Receiving::Skipping { left };
                connection.refusal = Some((request, Refusal { errno, text }));
            }),
            Reading::Within { asked, cut, error, answered, .. } => {
                self.go_on_within(index, &asked, cut, error, answered)
            }
        };
        if let Err(why) = done {
            self.close(index, &format!("it cannot go on where it was: {why}"));
        }
    }

    fn go_on_within(
        &mut self,
        index: u32,
        asked: &Asked,
        cut: u64,
        error: i32,
        answered: u32,
    ) -> Result<(), String> {
        let request = asked.request()?;
        if cut > u64::from(request.length) {
            return Err(format!("{cut} bytes of {} were done", request.length));
        }
        let made = Io { cut, answered, error, ..Io::new(index, request, self.time.now) };
        if !self.begin_io(made) {
            return Err("there is no room for its request".to_owned());
        }
        if request.kind == Kind::Write {
            let connection = self.connections.at_mut(index);
            connection.brings = Pace::default();
            connection.brings.owes(self.time.now);
        }
        Ok(())
    }
}
