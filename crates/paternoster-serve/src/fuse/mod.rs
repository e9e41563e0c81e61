// SPDX-License-Identifier: MIT OR Apache-2.0
//! FUSE: volumes as files, so that any process is a client.
//!
//! ```text
//! process ──read, write, fsync──▶ kernel ──▶ front (a thread) ──▶ desk
//!                                              └ callers: who is this thread?
//! ```

pub mod callers;
