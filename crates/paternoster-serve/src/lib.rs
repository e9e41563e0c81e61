// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real time: a block server whose clients share a device fairly.
//!
//! ```text
//! socket ──▶ lobby ──guest──▶ desk ──bio──▶ RequestQueue ──command──▶ backend
//!            (handshake,      (one thread    (the library, as in        (io_uring, threads,
//!             TLS, tenant)     a device)      the simulator)             memory, a model)
//!                               ▲   │
//!                      orders ──┘   └──▶ snapshot, trace, decision record
//! ```
//!
//! * [`server`]: all of it, opened, started and stopped.
//! * [`config`]: what the administrator wrote, checked.
//! * [`nbd`]: the protocol, without I/O.
//! * [`device`]: what does the commands.
//! * [`desk`]: the thread in front of a device: its queue, its guests, its memory.
//! * [`fuse`]: volumes as files, any process a client; [`emulate`]: a model as such a file.
//! * [`ledger`]: the queue, and a record of every call of it; [`decisions`]: what is in that
//!   record, and doing it again.
//! * [`watchdog`]: an elevator from outside is held to what elevators promise.
//! * [`witness`]: who got how much of the device, and a blktrace of it at any time.
//! * [`control`]: orders to a running server, and what it tells of itself.
//! * [`log`]: what it tells on standard error.
//! * [`handover`]: a new process takes over from a running one.
//! * [`host`]: sockets, peers, privileges, signals: what the system gives and takes.

mod catalog;
mod clock;
pub mod config;
pub mod control;
pub mod decisions;
pub mod desk;
pub mod device;
pub mod emulate;
pub mod fuse;
pub mod handover;
pub mod host;
pub mod ledger;
mod lobby;
mod locked;
pub mod log;
pub mod nbd;
pub mod reload;
mod save;
pub mod server;
mod spool;
mod table;
mod tally;
mod vital;
pub mod watchdog;
mod wire;
pub mod witness;
