// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hook into CFQ's decisions.
//!
//! Where CFQ decides, its thread's hook gets the decision and our choice as a number (`choice.rs`);
//! the number it returns is used. One word of the thread says whether there is a hook, so that
//! other tests in the same build hardly pay for it (1 %).
//!
//! Source: ours.

use core::cell::Cell;

use super::Choice;
use crate::cfq::probe_points::Decision;

/// What is decided and our choice; the answer is carried out.
pub type Replace = fn(Decision, Option<i64>) -> Option<i64>;

std::thread_local! {
    static HOOK: Cell<Option<Replace>> = const { Cell::new(None) };
}

/// From now on this thread has this hook, or none.
pub fn install(hook: Option<Replace>) {
    HOOK.set(hook);
}

/// Our choice, or what this thread's hook makes of it.
#[inline]
pub(in crate::cfq) fn replace<C: Choice>(decision: Decision, ours: C) -> C {
    match HOOK.get() {
        None => ours,
        Some(hook) => C::chosen(hook(decision, ours.number())),
    }
}
