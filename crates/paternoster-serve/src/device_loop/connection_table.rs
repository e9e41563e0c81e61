// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection table: a loop's connections, and the lists of those that something is to be done for.
//!
//! ```text
//! event ─▶ make_ready ─▶ turns ─▶ read ─▶ blocked? ─▶ waiting (room, tenant) ─▶ unblock ─▶ turns
//! reply ─▶ make_sending ─▶ sending ─▶ sent        over ─▶ leaving ─▶ gone
//! ```
//!
//! A connection is in a list once, and knows by a flag that it is. The loop does the work; the
//! table says for which connections.
//!
//! Invariants: I1 a connection that is read from and has something to be read is in `turns`; I2 a
//! connection that waits for room, or for something of its tenant, is in `waiting`.

use std::ops::{Deref, DerefMut};

use paternoster_core::{ClientId, Nanos};

use super::connection::{Blocked, Connection, Receiving};
use super::turns::Turns;
use super::waiting::Waiting;
use crate::table::Table;

/// The connections of a loop.
#[derive(Debug)]
pub(super) struct Connections {
    table: Table<Connection>,
    /// Index of the connection for each client of the queue.
    by_client: Vec<u32>,
    /// Which tenants' connections are read from next, and how much.
    pub turns: Turns,
    waiting: Waiting,
    /// Connections that have something to send.
    sending: Vec<u32>,
    /// The connection that was answered in the last round, if it was only one.
    told: Option<u32>,
    /// Connections that may be about to close.
    leaving: Vec<u32>,
    /// Connections that are to move to another tenant.
    movers: Vec<u32>,
}

impl Deref for Connections {
    type Target = Table<Connection>;

    #[inline]
    fn deref(&self) -> &Table<Connection> {
        &self.table
    }
}

impl DerefMut for Connections {
    #[inline]
    fn deref_mut(&mut self) -> &mut Table<Connection> {
        &mut self.table
    }
}

impl Connections {
    /// At most so many, of a queue with so many clients.
    pub(super) fn new(most: u32, clients: u32) -> Connections {
        Connections {
            table: Table::new(most),
            by_client: vec![0; clients as usize],
            turns: Turns::default(),
            waiting: Waiting::default(),
            sending: Vec::new(),
            told: None,
            leaving: Vec::new(),
            movers: Vec::new(),
        }
    }

    /// Adds one; `None`: there are too many.
    pub(super) fn add(&mut self, connection: Connection) -> Option<u32> {
        let client = connection.client.index() as usize;
        let index = self.table.insert(connection).ok()?;
        self.by_client[client] = index;
        Some(index)
    }

    /// Takes one out that goes: another may have its index.
    pub(super) fn release(&mut self, index: u32) -> Connection {
        self.leave_line(index);
        self.table.release(index)
    }

    /// One goes, from here or from its tenant: it waits in that tenant's line no more.
    fn leave_line(&mut self, index: u32) {
        let connection = self.table.at_mut(index);
        if let Some(number) = connection.listed.take() {
            self.waiting.remove(connection.tenant, number);
        }
    }

    /// The one that is this client of the queue, if it is there still.
    pub(super) fn of_client(&self, client: ClientId) -> Option<u32> {
        let index = self.by_client[client.index() as usize];
        self.table.is_live(index).then_some(index)
    }

    /// The one whose client of the queue has this number.
    pub(super) fn numbered(&self, client: u32) -> Option<&Connection> {
        let index = *self.by_client.get(client as usize)?;
        let connection = self.table.is_live(index).then(|| self.table.at(index))?;
        (connection.client.index() == client).then_some(connection)
    }

    /// The numbers of all connections.
    pub(super) fn all(&self) -> Vec<u32> {
        self.table.which(|_| true)
    }

    /// Puts one into the list of those to be read from.
    pub(super) fn make_ready(&mut self, index: u32) {
        let connection = self.table.at_mut(index);
        if !connection.is_ready && connection.is_open() {
            connection.is_ready = true;
            self.turns.put(connection.tenant, index);
        }
    }

    /// Puts one into the list of those to be sent to.
    pub(super) fn make_sending(&mut self, index: u32) {
        let connection = self.table.at_mut(index);
        if !connection.is_sending && connection.is_open() {
            connection.is_sending = true;
            self.sending.push(index);
        }
    }

    /// Whether there are any to be sent to.
    pub(super) const fn has_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Takes the list of those to be sent to.
    pub(super) fn take_sending(&mut self) -> Vec<u32> {
        let sending = std::mem::take(&mut self.sending);
        if let [first, others @ ..] = &sending[..] {
            self.told = others.is_empty().then_some(*first);
        }
        sending
    }

    /// The list's memory, to be used again.
    pub(super) fn sent(&mut self, sending: Vec<u32>) {
        // Only closing ran meanwhile, and closing adds no connection.
        if self.sending.is_empty() {
            self.sending = sending;
        }
    }

    /// The one that was answered in the last round, if it was only one.
    pub(super) const fn told(&self) -> Option<u32> {
        self.told
    }

    /// One is not read from until something happens.
    pub(super) fn block(&mut self, index: u32, why: Blocked) {
        let connection = self.table.at_mut(index);
        connection.blocked = why;
        match why {
            Blocked::Room => self.waiting.for_room(index),
            Blocked::Tenant | Blocked::Client if connection.listed.is_none() => {
                connection.listed = Some(self.waiting.for_tenant(connection.tenant, index));
            }
            _ => {}
        }
    }

    /// Takes a connection off the waiting list: what blocked it is over.
    pub(super) fn unblock(&mut self, index: u32) {
        self.table.at_mut(index).blocked = Blocked::No;
        self.make_ready(index);
    }

    /// [`Connections::unblock`], if this is the reason why it is blocked.
    pub(super) fn unblock_if(&mut self, index: u32, is_it: impl Fn(Blocked) -> bool) {
        if is_it(self.table.at(index).blocked) {
            self.unblock(index);
        }
    }

    /// Some memory of one has come back: if it waits for that, it goes on.
    pub(super) fn share_again(&mut self, index: u32) {
        self.unblock_if(index, |why| matches!(why, Blocked::Share | Blocked::Client));
    }

    /// So many things that any connection may wait for have come back.
    pub(super) const fn freed(&mut self, things: usize) {
        self.waiting.freed(things);
    }

    /// Whether some have, and connections that wait for room have not looked again since.
    pub(super) const fn has_freed(&self) -> bool {
        self.waiting.has_freed()
    }

    /// Two of those that wait for room try again for each thing that has come back.
    pub(super) fn retry_blocked(&mut self) {
        for _ in 0..self.waiting.tries() {
            let Some(index) = self.waiting.next_for_room() else { return };
            if self.table.is_live(index) {
                self.unblock_if(index, |why| why == Blocked::Room);
            }
        }
    }

    /// Something of a tenant has come back: two of those that wait for that look again, as what
    /// comes back may suffice for two.
    pub(super) fn feed(&mut self, tenant: u32) {
        for _ in 0..2 {
            let Some(index) = self.waiting.next_of_tenant(tenant) else { return };
            crate::tally::looked(1);
            if !self.table.is_live(index) {
                continue;
            }
            self.table.at_mut(index).listed = None;
            self.unblock_if(index, |why| matches!(why, Blocked::Tenant | Blocked::Client));
        }
    }

    /// As [`Connections::feed`], for each tenant some of whose connections wait.
    pub(super) fn feed_all(&mut self) {
        for tenant in self.waiting.tenants() {
            self.feed(tenant);
        }
    }

    /// A read of one has ended: a read whose first data wait for that goes on.
    pub(super) fn read_has_ended(&mut self, index: u32) {
        let connection = self.table.at_mut(index);
        connection.reads -= 1;
        if connection.reads == 1 && connection.is_open() && connection.out.open() {
            self.unblock_if(index, |why| why == Blocked::Own);
            self.make_sending(index);
        }
    }

    /// A change of one waits no more for others of its blocks.
    pub(super) fn change_goes_on(&mut self, index: u32) {
        self.table.at_mut(index).changes_waiting -= 1;
        self.unblock_if(index, |why| why == Blocked::Changes);
    }

    /// What a client has not done in time, if anything: it holds memory that others want.
    pub(super) fn is_slow(
        &mut self,
        index: u32,
        now: Nanos,
        patience: Nanos,
    ) -> Option<&'static str> {
        let connection = self.table.at_mut(index);
        if !matches!(connection.blocked, Blocked::No | Blocked::Client) {
            // It is not being read from: that its payload is missing is not its fault.
            connection.brings.begin_again(now);
        }
        match () {
            () if connection.takes.is_late(now, patience) => Some("it takes no answers"),
            () if connection.brings.is_late(now, patience) => Some("its payload does not come"),
            () => None,
        }
    }

    /// Lets all connections be read from again.
    pub(super) fn go_on(&mut self, now: Nanos) {
        for index in self.all() {
            let connection = self.table.at_mut(index);
            connection.readable = true;
            // That nothing has moved was not the client's fault.
            connection.takes.begin_again(now);
            connection.brings.begin_again(now);
            self.make_ready(index);
        }
    }

    /// Notes that a connection may be about to close.
    pub(super) fn leaves(&mut self, index: u32) {
        self.leaving.push(index);
    }

    /// Takes those that may be about to go and are there.
    pub(super) fn next_leaving(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.leaving)
    }

    /// The list's memory, to be used again.
    pub(super) fn left(&mut self, mut leaving: Vec<u32>) {
        leaving.clear();
        self.leaving = leaving;
    }

    /// One is to move to another tenant, or is not.
    pub(super) fn is_to_move(&mut self, index: u32, to: Option<String>) {
        if to.is_some() && !self.movers.contains(&index) {
            self.movers.push(index);
        }
        self.table.at_mut(index).moves_to = to;
        // It looks again: it may have to wait no more.
        self.unblock_if(index, |why| why == Blocked::Moving);
    }

    /// Those that can move now, and where to: at a request boundary a connection holds nothing.
    pub(super) fn can_move(&mut self) -> Vec<(u32, String)> {
        let (table, mut can) = (&self.table, Vec::new());
        self.movers.retain(|&index| {
            let connection = Some(index).filter(|&index| table.is_live(index));
            let Some(connection) = connection.map(|index| table.at(index)) else { return false };
            let is_over = !connection.is_open() || connection.receiving == Receiving::Over;
            let Some(name) = connection.moves_to.as_ref().filter(|_| !is_over) else {
                return false;
            };
            let is_idle = connection.receiving == Receiving::Header
                && connection.ios == 0
                && connection.memory == 0;
            if is_idle {
                can.push((index, name.clone()));
            }
            !is_idle
        });
        can
    }

    /// One moves to another tenant: it is in no list of the old one.
    pub(super) fn moves(&mut self, index: u32, tenant: u32) {
        self.leave_line(index);
        let connection = self.table.at_mut(index);
        let old = std::mem::replace(&mut connection.tenant, tenant);
        connection.moves_to = None;
        connection.is_ready = false;
        self.turns.remove(old, index);
    }

    /// A tenant has gone: another may have its number.
    pub(super) fn forget_tenant(&mut self, tenant: u32) {
        self.waiting.forget(tenant);
        self.turns.forget(tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of these tenants, all without input.
    fn of(tenants: &[u32]) -> Connections {
        let mut connections = Connections::new(8, 64);
        for connection in Connection::some(tenants) {
            connections.add(connection).unwrap();
        }
        connections
    }

    /// Connections that are read from in the next round.
    fn read(connections: &mut Connections) -> Vec<u32> {
        let (mut round, mut read) = (connections.turns.begin_round(), Vec::new());
        while let Some(mut visit) = connections.turns.begin(&mut round) {
            while let Some(index) = connections.turns.next(&mut visit) {
                connections.at_mut(index).is_ready = false;
                read.push(index);
            }
            connections.turns.end(&visit);
        }
        read
    }

    /// Is a connection in each list once, and in none when its wire is gone?
    #[test]
    fn lists_have_each_once() {
        let mut connections = of(&[1, 1]);
        for _ in 0..2 {
            connections.make_ready(1);
            connections.make_sending(0);
        }
        assert_eq!((read(&mut connections), connections.take_sending()), (vec![1], vec![0]));
        assert_eq!(connections.told(), Some(0), "it was the only one");
        connections.at_mut(1).link = None;
        connections.make_ready(1);
        connections.make_sending(1);
        assert!(connections.turns.is_empty() && !connections.has_sending());
    }

    /// If one thing is given back, does one connection of that tenant look again, and one that
    /// waits for room, and no others?
    #[test]
    fn who_waits_looks_again() {
        let mut connections = of(&[1, 1, 1, 2]);
        (0..4).for_each(|index| connections.block(index, Blocked::Tenant));
        connections.feed(1);
        assert_eq!(read(&mut connections), [0, 1]);
        connections.feed_all();
        assert_eq!(read(&mut connections), [2, 3]);
        connections.block(3, Blocked::Room);
        connections.retry_blocked();
        assert!(read(&mut connections).is_empty(), "nothing was freed");
        connections.freed(1);
        connections.retry_blocked();
        assert_eq!(read(&mut connections), [3]);
    }

    /// Does a connection that goes while it waits leave the line, so that the line does not grow
    /// with those that come and go, and the next of its index has a place of its own?
    #[test]
    fn who_goes_leaves_the_line() {
        let mut connections = of(&[1, 1]);
        (0..2).for_each(|index| connections.block(index, Blocked::Tenant));
        let gone = connections.release(0);
        assert_eq!(connections.add(gone), Some(0), "another of the same index");
        connections.block(0, Blocked::Tenant);
        connections.feed(1);
        assert_eq!(read(&mut connections), [1, 0], "the new one is behind, and there once");
        assert!(connections.waiting.tenants().is_empty());
        connections.block(0, Blocked::Tenant);
        connections.block(1, Blocked::Tenant);
        (0..2).for_each(|index| drop(connections.release(index)));
        assert!(connections.waiting.tenants().is_empty());
    }

    /// Does a connection move only when it holds nothing, and is it in no list of its old tenant
    /// then?
    #[test]
    fn who_moves_holds_nothing() {
        let mut connections = of(&[1]);
        connections.at_mut(0).ios = 1;
        connections.is_to_move(0, Some("new".to_owned()));
        assert!(connections.can_move().is_empty());
        connections.at_mut(0).ios = 0;
        connections.make_ready(0);
        assert_eq!(connections.can_move(), [(0, "new".to_owned())]);
        connections.moves(0, 2);
        assert!(connections.can_move().is_empty() && read(&mut connections).is_empty());
        assert_eq!((connections.at(0).tenant, connections.at(0).moves_to.is_none()), (2, true));
    }

    /// Is a client that takes no answers told from one whose payload does not come, and not blamed
    /// for what it could not send?
    #[test]
    fn who_is_slow_is_told_so() {
        let mut connections = of(&[1, 1, 1]);
        let (patience, now) = (Nanos::from_secs(60), Nanos::from_secs(60));
        connections.at_mut(0).takes.owes(Nanos::ZERO);
        connections.at_mut(1).brings.owes(Nanos::ZERO);
        connections.at_mut(2).brings.owes(Nanos::ZERO);
        connections.block(2, Blocked::Room);
        let slow = [0, 1, 2].map(|index| connections.is_slow(index, now, patience));
        assert_eq!(slow, [Some("it takes no answers"), Some("its payload does not come"), None]);
    }
}
