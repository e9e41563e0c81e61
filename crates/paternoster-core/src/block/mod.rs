// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block: the parts of the queue, each of which owns its state and receives what else it needs.
//!
//! No part knows the [`RequestQueue`](crate::RequestQueue): a part answers, the queue acts.

pub(crate) mod admission;
pub(crate) mod bios;
pub(crate) mod chosen;
pub(crate) mod common;
pub(crate) mod dispatch;
pub(crate) mod events;
pub(crate) mod issued;
pub(crate) mod merge;
pub(crate) mod plug;
pub(crate) mod throttle;
