// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the block core, one by one: BLK-1 to BLK-17. What else the contract of the queue
//! says is in `queue_contract.rs`.
//!
//! Each test is named after its rule in `docs/rules/block.md` and opens with the question it
//! answers.
//!
//! # Rules without a test
//! * BLK-13 (`rq_affinity`): one thread, no completion CPU to choose.
//! * BLK-8, shared tag sets and several hardware queues: one queue has all the tags.
//! * BLK-9, `dispatch_busy`: a caller pulls one command at a time, so there is no round to choose
//!   the size of.
//! * BLK-6, several queues in one plug, and FLUSH/FUA on it: a plug has one queue here, and what
//!   orders the cache goes to the flush sequencer at once.
//! * BLK-10, positions FRONT and BACK: no caller inserts there; only a forced dispatch is left of
//!   them.

mod dispatching;
mod merging;
mod plugging;
mod requests;

use std::sync::atomic::Ordering;

use paternoster_core::elevator::Rules;
use paternoster_core::{
    Action, Bio, Class, ClientId, ClientSpec, DeviceFacts, Flags, GroupSpec, Limits, Nanos, Op,
    Priority, SubmitError, Waiting,
};

use crate::common::driver::{Rig, Scripted, device_plugged, disk, limits, shape};
