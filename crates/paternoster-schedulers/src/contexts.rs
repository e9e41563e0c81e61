// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: what CFQ or BFQ keeps of each process, and which queues it has.
//!
//! A process has two slots, for the queue of its async requests and that of its sync ones; a queue
//! that is to be merged names the queue that its processes are to move to:
//!
//! ```text
//! slots [async, sync] ──▶ 4     held: 4, and 7 and 9, to which the process is to move
//!                         └─ merge_into 7 ─ merge_into 9
//! ```
//!
//! Source: CFQ-2 to CFQ-4, BFQ-19, BFQ-142.

use alloc::vec::Vec;
use core::iter::successors;

use paternoster_core::ClientId;
use paternoster_core::pick::shared::rather_sync;

/// What is kept for a process.
pub(crate) trait Slots: Default {
    /// Its queues: for async requests, for sync ones.
    fn slots(&self) -> &[Option<u32>; 2];
}

/// The contexts of all processes.
#[derive(Debug)]
pub(crate) struct Contexts<C> {
    of: Vec<C>,
}

impl<C: Slots> Contexts<C> {
    pub(crate) fn with_capacity(clients: u32) -> Contexts<C> {
        Contexts { of: (0..clients).map(|_| C::default()).collect() }
    }

    #[inline]
    pub(crate) fn at(&self, client: ClientId) -> &C {
        &self.of[client.index() as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, client: ClientId) -> &mut C {
        &mut self.of[client.index() as usize]
    }

    /// The same, for a client that need not be known.
    #[inline]
    pub(crate) fn get(&self, client: ClientId) -> Option<&C> {
        self.of.get(client.index() as usize)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, client: ClientId) -> Option<&mut C> {
        self.of.get_mut(client.index() as usize)
    }

    /// The queue of a process's sync or async requests, if it has one.
    #[inline]
    pub(crate) fn slot(&self, client: ClientId, sync: bool) -> Option<u32> {
        self.at(client).slots()[usize::from(sync)]
    }

    /// One of the process's queues, preferably the sync one.
    pub(crate) fn any_slot(&self, client: ClientId) -> Option<u32> {
        rather_sync(*self.at(client).slots())
    }

    /// How many processes there may be.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.of.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.of.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut C> {
        self.of.iter_mut()
    }

    /// Yields each queue once for each process that has it or is to move to it; `next` gives the
    /// queue to which the processes of another are to move.
    pub(crate) fn held<'a>(
        &'a self,
        next: impl Fn(u32) -> Option<u32> + Copy + 'a,
    ) -> impl Iterator<Item = u32> + 'a {
        let slots = self.iter().flat_map(|context| *context.slots());
        slots.flat_map(move |slot| successors(slot, move |&queue| next(queue)))
    }
}
