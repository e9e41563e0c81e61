// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns: how much of the loop's own time each tenant has, counted in steps of work.
//!
//! A request may cost the device nothing and the loop much: one that is refused, a flush of
//! nothing, a question. A client that sends thousands of them would occupy the thread that all
//! share. So reading from clients is counted in *steps*, and a tenant has a limited number in a
//! turn:
//!
//! ```text
//! a step       a look at a connection, a request, a fragment of one, 8 KiB that were read
//! a turn       64 steps by weight, among tenants with input: two equal ones have 32 each
//! a: 16 connections with 64 refused requests each, b: a read
//! turn 1       a: some 30 requests    b: its read
//! turn 2       a: the next 30         b: the next
//! ```
//!
//! If a turn exceeds a tenant's steps (a payload is read with one call), the tenant has fewer in
//! the next, if others want some then. Steps that were not used are not kept.
//!
//! Invariants: I1 a tenant is in `ready` once, while `is_in_turn`; I2 a ready connection is in its
//! tenant's list.

use super::DeviceLoop;
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

/// How many steps tenants have.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By tenant.
    shares: Vec<u64>,
    /// Steps left to the tenant whose turn it is.
    left: i64,
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
    pub(super) const fn take(&mut self, steps: i64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Whether the present turn is over.
    pub(super) const fn is_over(&self) -> bool {
        self.left <= 0
    }
}

impl DeviceLoop {
    /// Reads from those that have something to be read, each tenant for its turn.
    pub(super) fn hear_all(&mut self) {
        let all = self.ready.iter().map(|&tenant| u128::from(self.turns.share(tenant))).sum();
        let is_alone = self.ready.len() == 1;
        for _ in 0..self.ready.len() {
            let Some(tenant) = self.ready.pop_front() else { break };
            let steps = self.turns.steps(tenant, all);
            self.hear(tenant, steps, is_alone);
        }
    }

    /// Reads from a tenant's connections, for this many steps. A tenant that is alone carries no
    /// debt.
    fn hear(&mut self, tenant: u32, steps: i64, is_alone: bool) {
        // One that has gone took its list with it.
        let Some(node) = self.tenants.get_mut(tenant).filter(|node| node.is_in_turn) else {
            return;
        };
        node.is_in_turn = false;
        let owed = std::mem::take(&mut node.overdrawn);
        self.turns.left = if is_alone { steps } else { steps - owed };
        for _ in 0..node.ready.len() {
            if self.turns.is_over() {
                break;
            }
            let Some(index) = self.tenants.at_mut(tenant).ready.pop_front() else { break };
            crate::tally::looked(1);
            if self.connections.is_live(index) {
                self.connections.at_mut(index).is_ready = false;
                self.serve(index);
                self.turns.take(1);
            }
        }
        let overdrawn = (-self.turns.left).max(0);
        let node = self.tenants.at_mut(tenant);
        node.overdrawn = overdrawn;
        if !node.ready.is_empty() {
            self.put_in_turn(tenant);
        }
    }

    /// Reads from a connection without an event, as if it were ready; returns whether there was
    /// anything.
    pub(super) fn listen(&mut self, index: u32) -> bool {
        if !self.connections.is_live(index) {
            return false;
        }
        let before = self.heard;
        self.connections.at_mut(index).readable = true;
        self.turns.left = LEAST;
        self.serve(index);
        // It may have ended.
        self.heard != before
            || !self.connections.is_live(index)
            || self.connections.at(index).wire.is_none()
    }

    /// A tenant has connections that are ready.
    fn put_in_turn(&mut self, tenant: u32) {
        let node = self.tenants.at_mut(tenant);
        if !node.is_in_turn {
            node.is_in_turn = true;
            self.ready.push_back(tenant);
        }
    }

    /// Puts a connection into the list of those to be read from.
    pub(super) fn make_ready(&mut self, index: u32) {
        let connection = self.connections.at_mut(index);
        if !connection.is_ready && connection.wire.is_some() {
            connection.is_ready = true;
            let tenant = connection.tenant;
            self.tenants.at_mut(tenant).ready.push_back(index);
            self.put_in_turn(tenant);
        }
    }
}
