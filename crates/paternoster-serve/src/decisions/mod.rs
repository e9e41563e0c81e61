// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions: a record of every call of a live queue and of its answers, and a replay of it on
//! another loop.
//!
//! The queue reads no clock and draws no lots: the same calls give the same answers. A record of
//! the calls is therefore a record of the scheduler's every decision, and a replay can be looked
//! into with anything that the simulator offers.
//!
//! ```text
//! live loop     calls ──▶ Recorded queue ──▶ RequestQueue ──▶ answers
//!                           │ call, answer │
//!                           └──▶ Record writer ──▶ background writer ──▶ PREFIX.DEVICE.decisions
//!
//! another loop  PREFIX.DEVICE.decisions ──▶ replay ──▶ RequestQueue ──▶ answers, compared
//! ```
//!
//! * [`call`]: what is asked and answered, with numbers instead of handles.
//! * [`format`](mod@format): these in bytes; [`block`]: the file around them.
//! * `names`: handles to numbers and back.
//! * `record_writer`: writes the record; [`replay`](mod@replay): repeats it.

pub mod block;
mod bytes;
pub mod call;
pub mod format;
pub(crate) mod names;
pub(crate) mod record_writer;
pub mod replay;
#[cfg(test)]
mod tests;

pub use block::{Cut, End, Header, HeaderError};
pub use record_writer::{RECORD_BYTES_MAX, RecordError, RecordState};
pub use replay::{Difference, Dispatch, ReplayError, Replayed, Step, replay, replay_with};
