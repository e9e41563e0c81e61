// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hook into what BFQ says and decides.
//!
//! One word of the thread says whether a listener is installed, so that other tests in the same
//! build hardly pay for it.
//!
//! Source: ours.

use core::cell::Cell;

use super::Turns;
use crate::bfq::probe_points::{Decision, ProbePoint, Reading};
use crate::bfq::schedule::Schedule;
use paternoster_core::time::Nanos;

/// A listener.
#[derive(Debug, Clone, Copy)]
pub struct Listener {
    /// A message about a queue or about the device.
    pub probe: fn(Option<u32>, ProbePoint),
    /// The clock is read: what it shows.
    pub clock: fn(Reading, Nanos) -> Nanos,
    /// Our choice; the answer is carried out.
    pub replace: fn(Decision, u64) -> u64,
    /// A turn is about to begin.
    pub turn: fn(&mut Turns<'_>),
}

std::thread_local! {
    static HOOK: Cell<Option<&'static Listener>> = const { Cell::new(None) };
}

/// Installs the listener for decisions on this thread, or removes it.
pub fn install(listener: Option<&'static Listener>) {
    HOOK.set(listener);
}

/// Reports a message about a queue or about the device.
#[inline]
pub(in crate::bfq) fn probe(queue: Option<u32>, said: ProbePoint) {
    if let Some(listener) = HOOK.get() {
        (listener.probe)(queue, said);
    }
}

/// The same, for what takes a while to compute.
#[inline]
pub(in crate::bfq) fn probe_of(what: impl FnOnce() -> (Option<u32>, ProbePoint)) {
    if let Some(listener) = HOOK.get() {
        let (queue, said) = what();
        (listener.probe)(queue, said);
    }
}

/// Our choice, or the recorded one.
#[inline]
pub(in crate::bfq) fn replace(decision: Decision, ours: u64) -> u64 {
    HOOK.get().map_or(ours, |listener| (listener.replace)(decision, ours))
}

/// A queue is about to be served: the one whose turn it is, or the recorded one.
#[inline]
pub(in crate::bfq) fn replace_turn(schedule: &mut Schedule, root: u32) {
    if let Some(listener) = HOOK.get() {
        (listener.turn)(&mut Turns::new(schedule, root));
    }
}

/// The time: `now`, or what the clock showed at this point in the recording.
#[inline]
pub(in crate::bfq) fn clock(reading: Reading, now: Nanos) -> Nanos {
    HOOK.get().map_or(now, |listener| (listener.clock)(reading, now))
}
