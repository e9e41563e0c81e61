// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: the handles of a queue as numbers, and back.
//!
//! The queue's handles are opaque but for the slot. These tables keep, for each slot, its holder
//! and an earlier holder; for bios the order in which they were accepted. Record writer and replay
//! keep the same tables, because they get the same answers.
//!
//! ```text
//! slot       0         1         2
//! present    (0, g3)   (1, g1)   -        (0, g3) ─▶ Slot 0      Slot 0 ─▶ (0, g3)
//! before     (0, g1)   -         -        (0, g1) ─▶ Old 0       Old 0  ─▶ (0, g1)
//! ```
//!
//! Which of several old handles is meant makes no difference: all have gone.

use paternoster_core::{
    AddError, ClientId, Cookie, GroupId, Limits, Output, SubmitError, Tag, Ticket,
};

use super::call::{Answer, Issued, Name, Refusal};

/// Handles that are numbered by slots.
pub(crate) trait Handle: Copy + Eq {
    fn slot(self) -> u32;
}

impl Handle for ClientId {
    fn slot(self) -> u32 {
        self.index()
    }
}

impl Handle for GroupId {
    fn slot(self) -> u32 {
        self.index()
    }
}

impl Handle for Tag {
    fn slot(self) -> u32 {
        self.index()
    }
}

/// The holder of a slot, and an earlier one.
#[derive(Debug)]
pub(crate) struct Slots<T>(Vec<(Option<T>, Option<T>)>);

impl<T: Handle> Slots<T> {
    fn new(count: u32) -> Slots<T> {
        Slots(vec![(None, None); count as usize])
    }

    fn meet(&mut self, handle: T) {
        if let Some((present, before)) = self.0.get_mut(handle.slot() as usize)
            && *present != Some(handle)
        {
            *before = present.replace(handle);
        }
    }

    #[inline]
    pub(crate) fn name(&self, handle: T) -> Name {
        match self.0.get(handle.slot() as usize) {
            None => Name::Nobody,
            Some((present, _)) if *present == Some(handle) => Name::Slot(handle.slot()),
            Some(_) => Name::Old(handle.slot()),
        }
    }

    pub(crate) fn handle(&self, name: Name) -> Option<T> {
        match name {
            Name::Nobody => None,
            Name::Slot(slot) => self.0.get(slot as usize)?.0,
            Name::Old(slot) => self.0.get(slot as usize)?.1,
        }
    }
}

/// The bios that were accepted and have perhaps not ended.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    accepted: u64,
    kept: Vec<(u64, Ticket)>,
    /// The bio that ended last.
    ended: Option<Ticket>,
    /// This many are kept before ended ones are searched for.
    most: usize,
}

impl Tickets {
    fn accept(&mut self, ticket: Ticket) {
        self.kept.push((self.accepted, ticket));
        self.accepted += 1;
    }

    pub(crate) fn number(&self, ticket: Ticket) -> Option<u64> {
        self.kept.iter().rev().find(|(_, kept)| *kept == ticket).map(|(number, _)| *number)
    }

    pub(crate) fn ticket(&self, number: Option<u64>) -> Option<Ticket> {
        let Some(number) = number else { return self.ended };
        self.kept
            .binary_search_by_key(&number, |(number, _)| *number)
            .ok()
            .map(|at| self.kept[at].1)
    }

    /// Forgets those that have ended, once there are many. Both sides do it at the same calls.
    pub(crate) fn tidy(&mut self, is_there: impl Fn(Ticket) -> bool) {
        if self.kept.len() > self.most {
            let ended = &mut self.ended;
            self.kept.retain(|&(_, ticket)| {
                let stays = is_there(ticket);
                if !stays {
                    *ended = Some(ticket);
                }
                stays
            });
        }
    }

    /// Number of bios that were accepted.
    pub(crate) const fn accepted(&self) -> u64 {
        self.accepted
    }
}

/// The handles of a queue, each with its number.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) clients: Slots<ClientId>,
    pub(crate) groups: Slots<GroupId>,
    pub(crate) tags: Slots<Tag>,
    pub(crate) tickets: Tickets,
}

impl Names {
    /// The handles of a new queue with these limits, for a device of this depth.
    pub(crate) fn new(limits: &Limits, depth: u32, root: GroupId) -> Names {
        // A queue raises its limits to what works at least; tables may be larger.
        let mut groups = Slots::new(limits.groups.max(1));
        groups.meet(root);
        // Twice as many as can be under way: looking for those that ended pays.
        let most = 2 * limits.bios.max(16) as usize;
        Names {
            clients: Slots::new(limits.clients.max(1)),
            groups,
            tags: Slots::new(depth.max(1)),
            tickets: Tickets { kept: Vec::with_capacity(most + 1), most, ..Tickets::default() },
        }
    }

    pub(crate) fn submitted(&mut self, answer: &Result<Ticket, SubmitError>) -> Answer {
        match answer {
            Ok(ticket) => {
                self.tickets.accept(*ticket);
                Answer::Fine
            }
            Err(error) => Answer::Refused((*error).into()),
        }
    }

    pub(crate) fn attached(&mut self, answer: &Result<ClientId, AddError>) -> Answer {
        match answer {
            Ok(id) => {
                self.clients.meet(*id);
                Answer::Slot(id.index())
            }
            Err(error) => Answer::Refused((*error).into()),
        }
    }

    pub(crate) fn group_added(&mut self, answer: &Result<GroupId, AddError>) -> Answer {
        match answer {
            Ok(id) => {
                self.groups.meet(*id);
                Answer::Slot(id.index())
            }
            Err(error) => Answer::Refused((*error).into()),
        }
    }

    #[inline]
    pub(crate) fn output(&mut self, output: &Output) -> Answer {
        match *output {
            Output::Issue(command) => {
                self.tags.meet(command.tag);
                Answer::Issue(Issued {
                    tag: command.tag.index(),
                    op: command.op,
                    sector: command.sector,
                    sectors: command.sectors,
                    flags: command.flags,
                    client: self.clients.name(command.client),
                })
            }
            Output::Done(cookie, outcome) => {
                let cookie: Cookie = cookie;
                Answer::Done { cookie, outcome }
            }
            Output::Wake(client) => Answer::Wake(self.clients.name(client)),
            Output::Wait { until, why } => Answer::Wait { until, why },
        }
    }
}

/// The answer of a call that returns nothing.
pub(crate) fn answer_of<E: Into<Refusal>>(answer: Result<(), E>) -> Answer {
    match answer {
        Ok(()) => Answer::Fine,
        Err(error) => Answer::Refused(error.into()),
    }
}
