// SPDX-License-Identifier: MIT OR Apache-2.0
//! NBD, the network block device protocol: the server's side, without I/O.
//!
//! Bytes come in as slices, bytes go out into vectors; sockets, TLS, time and memory are the
//! caller's business.
//!
//! ```text
//!        greet            take, take, ...                 parse, check, then a reply each
//! client ◀──── NBDMAGIC   ──▶ options (LIST, GO, …)       ──▶ requests (READ, WRITE, …)
//!              IHAVEOPT   ◀── answers (INFO, ACK, …)      ◀── simple replies or chunks
//!        └──────── Handshake ───────────┘ └ Negotiated ┘ └─────── transmission ────────┘
//! ```
//!
//! * [`wire`]: the numbers of the protocol; [`export`]: an export as a client sees it.
//! * [`handshake`]: frames, TLS and limits; its answers are in `options`, what it reads in
//!   `option_data`, what it writes in `answer`.
//! * [`transmission`]: requests and whether they may be done; [`reply`]: headers of replies;
//!   [`block_status`]: extents as the protocol tells them.
//!
//! Spoken: fixed newstyle with every option of the protocol but extended headers; simple and
//! structured replies; `base:allocation`. Not spoken: oldstyle, and the experimental RESIZE.
//!
//! Invariants: I1 nothing from outside panics; I2 how the input is cut changes nothing; I3 memory
//! is bounded: an option that is longer than [`handshake::OPTION_MOST`] is skipped, not kept, and a
//! client that does not read its answers is not read from.
//!
//! Source: `doc/proto.md` of the reference implementation, which is in the public domain.

mod answer;
pub mod block_status;
pub mod export;
pub mod handshake;
mod option_data;
mod options;
pub mod reply;
mod text;
pub mod transmission;
pub mod wire;

pub use export::{Absent, ExportFacts, Exports, Negotiated};
pub use handshake::{Handshake, Step};
