// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that mount something in their own process and open its files: volumes as files, modelled
//! devices as files.
//!
//! They have a program of their own, because other tests start processes. A process that has just
//! been forked has all files open that ours has, and closes them when its program begins. A mount
//! then sees a flush that no test asked for, a guest that no test made, and a file that is still
//! open at the end. A test that starts a process waits until no other test has files open
//! ([`with_processes`]).

#[path = "../common/mod.rs"]
mod common;

mod emulate;
mod files;
mod handover;
mod no_helper;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static FILES: RwLock<()> = RwLock::new(());

/// The turn of a test that has files of a mount open and starts no process.
fn with_files() -> RwLockReadGuard<'static, ()> {
    FILES.read().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a test that starts processes.
fn with_processes() -> RwLockWriteGuard<'static, ()> {
    FILES.write().unwrap_or_else(PoisonError::into_inner)
}
