// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns: how much of the loop's own time each tenant has, counted in steps of work.
//!
//! A request may cost the device nothing and the loop much: one that is refused, a flush of
//! nothing, a question. A client that sends thousands of them would occupy the thread that all
//! share. So reading from clients is counted in *steps*, and a tenant has a limited number in a
//! turn:
//!
//! ```text
//! a step       a look at a connection, a request or call, a fragment of one, 8 KiB that were read
//! a turn       64 steps by weight, among tenants with input: two equal ones have 32 each
//! a: 16 connections with 64 refused requests each, b: a read
//! turn 1       a: some 30 requests    b: its read
//! turn 2       a: the next 30         b: the next
//! ```
//!
//! If a turn exceeds a tenant's steps (a payload is read with one call), the tenant has fewer in
//! the next, if others want some then. Steps that were not used are not kept.
//!
//! Invariants: I1 a tenant is in `in_turn` once, while `is_in_turn`; I2 a ready connection is in
//! its tenant's list.

use std::collections::VecDeque;

use super::pool::Shares;

/// Steps of a turn for all tenants together.
const STEPS: u64 = 64;
/// Of each at least: enough for a request, a fragment of it and a look.
const LEAST: i64 = 4;
/// Bytes that are as much work as a request.
const BYTES: usize = 8 << 10;

/// A number of bytes, in steps.
pub(super) fn steps_of(bytes: usize) -> i64 {
    i64::try_from(bytes / BYTES).unwrap_or(i64::MAX)
}

/// A tenant's connections to read from.
#[derive(Debug, Default)]
struct Line {
    ready: VecDeque<u32>,
    /// Whether the tenant waits for its turn.
    is_in_turn: bool,
    /// By how many steps it exceeded the last.
    overdrawn: i64,
}

/// Which tenants' connections are read from, and for how many steps.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Share of each tenant.
    shares: Vec<u64>,
    /// See there.
    lines: Vec<Line>,
    /// Tenants with connections to read from.
    in_turn: VecDeque<u32>,
    /// Steps left to the tenant whose turn it is.
    left: i64,
    /// Bytes that were read from connections, and calls that were taken.
    heard: u64,
}

/// A turn of each tenant that has something to be read.
#[derive(Debug)]
pub(super) struct Round {
    tenants: usize,
    /// Sum of the shares.
    all: u128,
    is_alone: bool,
}

/// A tenant's turn.
#[derive(Debug)]
pub(super) struct Visit {
    tenant: u32,
    connections: usize,
}

impl Turns {
    /// What is divided among tenants has changed.
    pub(super) fn divide(&mut self, shares: &Shares) {
        self.shares.clear();
        self.shares.extend(shares.by_weight().map(Option::unwrap_or_default));
    }

    fn share(&self, tenant: u32) -> u64 {
        self.shares.get(tenant as usize).copied().unwrap_or(0)
    }

    /// What a tenant has of a turn with these shares in all.
    fn steps(&self, tenant: u32, all: u128) -> i64 {
        let steps = u128::from(STEPS) * u128::from(self.share(tenant)) / all.max(1);
        i64::try_from(steps).unwrap_or(LEAST).max(LEAST)
    }

    /// Counts steps of the tenant whose turn it is.
    #[inline]
    pub(super) const fn take(&mut self, steps: i64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Counts bytes that were read, and the steps that they are.
    pub(super) fn hear(&mut self, bytes: usize) {
        self.heard += bytes as u64;
        self.take(steps_of(bytes));
    }

    /// Counts a call that was taken, and the bytes that it brings: the first 8 KiB of them, however
    /// few they are, are a step, and so are each further 8 KiB.
    pub(super) fn hear_call(&mut self, payload: u32) {
        self.heard += 1;
        self.take(1 + steps_of(payload as usize + BYTES - 1));
    }

    /// Number of bytes read, and of calls taken.
    pub(super) const fn heard(&self) -> u64 {
        self.heard
    }

    /// Whether the present turn is over.
    #[inline]
    pub(super) const fn is_over(&self) -> bool {
        self.left <= 0
    }

    /// Whether no connection is to be read from.
    pub(super) fn is_empty(&self) -> bool {
        self.in_turn.is_empty()
    }

    /// A connection of a tenant is to be read from, and in no list yet.
    pub(super) fn put(&mut self, tenant: u32, index: u32) {
        let place = tenant as usize;
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, Line::default);
        }
        self.lines[place].ready.push_back(index);
        self.put_in_turn(tenant);
    }

    /// A tenant has connections that are ready.
    fn put_in_turn(&mut self, tenant: u32) {
        let line = &mut self.lines[tenant as usize];
        if !line.is_in_turn {
            line.is_in_turn = true;
            self.in_turn.push_back(tenant);
        }
    }

    /// Begins a round: each tenant that has something to be read has a turn.
    pub(super) fn begin_round(&self) -> Round {
        Round {
            tenants: self.in_turn.len(),
            all: self.in_turn.iter().map(|&tenant| u128::from(self.share(tenant))).sum(),
            is_alone: self.in_turn.len() == 1,
        }
    }

    /// Begins the next turn of a round. A tenant that is alone carries no debt.
    pub(super) fn begin(&mut self, round: &mut Round) -> Option<Visit> {
        while round.tenants > 0 {
            round.tenants -= 1;
            let tenant = self.in_turn.pop_front()?;
            let steps = self.steps(tenant, round.all);
            let line = &mut self.lines[tenant as usize];
            // A tenant that has gone leaves its number to another.
            if std::mem::take(&mut line.is_in_turn) {
                let owed = std::mem::take(&mut line.overdrawn);
                self.left = if round.is_alone { steps } else { steps - owed };
                return Some(Visit { tenant, connections: line.ready.len() });
            }
        }
        None
    }

    /// The next connection of a turn.
    pub(super) fn next(&mut self, visit: &mut Visit) -> Option<u32> {
        if visit.connections == 0 || self.is_over() {
            return None;
        }
        visit.connections -= 1;
        self.lines[visit.tenant as usize].ready.pop_front()
    }

    /// Ends a turn: the tenant has another if it has more to be read.
    pub(super) fn end(&mut self, visit: &Visit) {
        let line = &mut self.lines[visit.tenant as usize];
        line.overdrawn = (-self.left).max(0);
        if !line.ready.is_empty() {
            self.put_in_turn(visit.tenant);
        }
    }

    /// A turn for one connection, out of order.
    pub(super) const fn begin_alone(&mut self) {
        self.left = LEAST;
    }

    /// A connection leaves its tenant.
    pub(super) fn remove(&mut self, tenant: u32, index: u32) {
        if let Some(line) = self.lines.get_mut(tenant as usize) {
            line.ready.retain(|other| *other != index);
        }
    }

    /// A tenant has gone, and with it its list and its debt.
    pub(super) fn forget(&mut self, tenant: u32) {
        if let Some(line) = self.lines.get_mut(tenant as usize) {
            *line = Line::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round in which each connection takes `takes` steps: which were read from.
    fn round(turns: &mut Turns, takes: i64) -> Vec<u32> {
        let (mut round, mut read) = (turns.begin_round(), Vec::new());
        while let Some(mut visit) = turns.begin(&mut round) {
            while let Some(index) = turns.next(&mut visit) {
                turns.take(takes);
                read.push(index);
            }
            turns.end(&visit);
        }
        read
    }

    fn of_equals(tenants: usize) -> Turns {
        Turns { shares: vec![1; tenants], ..Turns::default() }
    }

    /// Have two equal tenants 32 steps each, whatever the number of their connections? Of 8 steps
    /// each: four connections of the first, and the second's one.
    #[test]
    fn tenants_share_a_round() {
        let mut turns = of_equals(2);
        (0..9).for_each(|index| turns.put(0, index));
        turns.put(1, 100);
        assert_eq!(round(&mut turns, 8), [0, 1, 2, 3, 100]);
        // Alone it has all 64 steps.
        assert_eq!(round(&mut turns, 8), [4, 5, 6, 7, 8]);
        assert!(turns.is_empty() && round(&mut turns, 8).is_empty());
    }

    /// Does a call cost a step, and its payload as many as 8 KiB have begun in it?
    #[test]
    fn a_call_and_its_payload_cost_steps() {
        for (payload, steps) in [(0, 1), (1, 2), (8192, 2), (8193, 3), (256 << 10, 33)] {
            let mut turns = of_equals(1);
            turns.left = 64;
            turns.hear_call(payload);
            assert_eq!((turns.left, turns.heard()), (64 - steps, 1), "{payload}");
        }
    }

    /// Does a tenant that has exceeded its turn have fewer steps in the next, if others want some?
    /// 40 of 32 steps leave 24 of the next.
    #[test]
    fn what_was_exceeded_is_owed() {
        let mut turns = of_equals(2);
        (0..9).for_each(|index| turns.put(0, index));
        turns.put(1, 100);
        assert_eq!(round(&mut turns, 40), [0, 100]);
        turns.put(1, 100);
        assert_eq!(round(&mut turns, 8), [1, 2, 3, 100]);
    }

    /// Is a tenant that has gone forgotten, though its number is in the list, and its number free
    /// for another?
    #[test]
    fn a_tenant_that_has_gone_is_not_read() {
        let mut turns = of_equals(2);
        turns.put(1, 7);
        turns.forget(1);
        assert!(round(&mut turns, 1).is_empty());
        turns.put(1, 8);
        turns.remove(1, 8);
        assert!(round(&mut turns, 1).is_empty());
    }
}
