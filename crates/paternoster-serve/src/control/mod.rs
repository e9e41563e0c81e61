// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control: orders to a running server, and what it tells of itself.
//!
//! ```text
//! unix socket ──▶ acceptor ──line──▶ request ──▶ answer ──Order──▶ loops
//! loopback    ──▶ acceptor ──GET ──▶ http ─────▶ metrics ─Snapshot─▶ loops
//! TLS         ──▶ acceptor ─┘
//! ```
//!
//! * [`request`]: the language of the control socket, and [`answer`]: which loops are asked, and
//!   the answers.
//! * [`server`]: the socket; [`client`]: its other end.
//! * [`http`]: metrics and health for monitors; [`metrics`]: their text.
//! * `secured`: monitors under TLS.
//! * `acceptor`: threads, few at a time, for connections with deadlines.
//! * [`order`], [`snapshot`]: orders to loops, and their reports.

mod acceptor;
pub mod answer;
pub mod client;
mod health;
pub mod http;
pub mod metrics;
pub mod order;
pub mod request;
mod secured;
pub mod server;
pub mod snapshot;

pub(crate) use secured::Certified;

/// The control socket's default path.
pub const DEFAULT_SOCKET: &str = "/run/paternoster/control.sock";
