// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do the tools that others wrote find what they expect, and do their requests, legal and not, do
//! what the protocol says?
//!
//! ```text
//! this process             a process of its own, at most two minutes
//! server ── unix socket ── nbdinfo, nbdcopy        describe.rs, copy.rs
//!   │                      libnbd under Python     shell.rs and the scripts beside it
//!   │                      qemu-io, qemu-img       qemu.rs
//!   │                      fio                     fio.rs, blocks.rs
//!   │                      nbdcopy, libnbd in TLS  tls.rs
//!   └─ files ◀── looked into by the tests
//! ```
//!
//! Three clients that share no code: libnbd, QEMU's own, and the raw one of the other tests. A tool
//! that is not installed is said on standard error, and its tests pass.

mod blocks;
mod copy;
mod describe;
mod fio;
mod qemu;
mod shell;
mod tls;
pub(crate) mod tools;
