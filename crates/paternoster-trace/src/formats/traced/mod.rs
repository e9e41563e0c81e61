// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traced: what the texts of tracers have in common, blkparse's and the kernel's.
//!
//! ```text
//! lines ─▶ words ─▶ body: letters, flags, extents ─▶ Outbox: in order, with names ─▶ Source
//! ```
//!
//! * [`Lines`]: a text line by line; [`words`]: numbers, devices and times in it.
//! * [`body`]: the part after action and flags.
//! * [`Outbox`]: events put in order, names first, plugs that wait for a device.

pub(super) mod body;
mod lines;
mod outbox;
pub(super) mod words;

pub(super) use lines::Lines;
pub(super) use outbox::Outbox;

/// Bytes of one line, without its end.
const LINE_MAX: usize = 4096;
