// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real time: a block server whose clients share a device fairly.
//!
//! ```text
//! socket ──▶ negotiation ──connection──▶ loop ──bio──▶ RequestQueue ──command──▶ backend
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
//! * [`device_loop`]: the thread in front of a device: its queue, its connections, its memory.
//! * [`fuse`]: volumes as files, any process a client; [`emulate`]: a model as such a file.
//! * [`recorded_queue`]: the queue, and a record of every call of it; [`decisions`]: what is in
//!   that record, and doing it again.
//! * [`watchdog`]: checks that an external elevator keeps the promises of elevators.
//! * [`stats`]: how much of the device each client got, and a blktrace of it at any time.
//! * [`control`]: orders to a running server, and its state.
//! * [`log`]: its messages on standard error.
//! * [`handover`]: a new process takes over from a running one.
//! * [`host`]: sockets, peers, privileges, signals: what the system gives and takes.

mod background_writer;
mod clock;
pub mod config;
pub mod control;
pub mod decisions;
pub mod device;
pub mod device_loop;
#[cfg(feature = "instruments")]
pub mod emulate;
mod export_table;
pub mod fuse;
pub mod handover;
pub mod host;
mod locked;
pub mod log;
pub mod nbd;
mod negotiation;
pub mod recorded_queue;
pub mod reload;
mod save;
pub mod server;
pub mod stats;
mod table;
mod tally;
mod vital;
pub mod watchdog;
mod wire;
