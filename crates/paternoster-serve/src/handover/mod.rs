// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handover: a new process takes over from a running one, and its clients do not notice.
//!
//! ```text
//! new  reads its configuration ─ {"do":"handover","version":1} ─▶ old     at the control socket
//!      ◀── listening sockets, locks, files of volumes ──────────  (serves all the while)
//!      opens everything, is bounded by its sandbox ─── ready ──▶
//!                                the negotiation pauses, loops become quiet: nothing is read, what
//!                                was accepted is done and answered
//!      ◀── connections, each with what it was in the midst of ──
//!      ──────────────────────────── have ──▶
//!      ◀───────────────────────────── go ──
//!      ──────────────────────────── mine ──▶  from here on it is the new one's
//!      serves                                 TLS and FUSE clients finish; ends with status 0
//! ```
//!
//! Until it reads `mine`, the old one goes on as if nothing had happened if the other side dies,
//! refuses, or is late before `go`. After `go` it waits for `mine` or for the other's end, since
//! the other may already have sent `mine`. The new one serves once it has sent `mine`, or when the
//! old one has died after `have` (a closed channel is no death: the process must have gone).
//!
//! Order: `giver` is the old one's side, `taker` the new one's, `record` the messages, `channel`
//! their transport. The parts of a loop and of the negotiation are with these
//! (`device_loop/handover.rs`, `negotiation/handover.rs`); which process owns paths and locks:
//! `host/ours.rs`; files: `device/handed.rs`.
//!
//! Only root and the server's own user may ask: the sockets of all clients are what is given.
//!
//! Invariants: I1 at most one of the two serves, and one of them does as long as either lives; I2
//! what clients send and receive is the same as with one process; I3 input from the other side is
//! bounded, and checked like any untrusted bytes.

pub(crate) mod channel;
pub(crate) mod giver;
pub(crate) mod record;
pub(crate) mod taker;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use channel::{Channel, Frame};
pub use taker::Takeover;

/// The version that both sides must have.
pub(crate) const VERSION: u32 = 1;
/// How long the new one may take to open everything; the old one serves meanwhile.
const OPENING: Duration = Duration::from_secs(120);
/// How long either side may take for what is but a word, or for connections to go over.
const WORD: Duration = Duration::from_secs(10);
/// Connections at most, and bytes of what they were in the midst of.
const CONNECTIONS_MOST: usize = 100_000;
const BYTES_MOST: usize = 1 << 30;
/// Records of other things at most.
const THINGS_MOST: usize = 200_000;
/// Characters of the other side's message that are logged.
const WHY_MOST: usize = 400;

/// The next record, by then, unless it is a refusal.
fn next(other: &Channel, by: Option<Instant>) -> Result<Frame, String> {
    let frame = other.receive(by).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => "the other process has gone".to_owned(),
        ErrorKind::TimedOut => "the other process has not answered in time".to_owned(),
        _ => error.to_string(),
    })?;
    if frame.kind == record::REFUSED {
        let record::Refused { why } = record::parsed(frame.kind, &frame.payload)?;
        return Err(format!("the other process refuses: {}", printable(&why)));
    }
    Ok(frame)
}

/// What the other process says, as it can go into a log.
fn printable(text: &str) -> String {
    text.chars().take(WHY_MOST).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn told(error: impl Display) -> String {
    error.to_string()
}
