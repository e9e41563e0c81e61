// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that mount something in their own process and open its files: volumes as files, modelled
//! devices as files.
//!
//! They have a program of their own, because other tests start processes. A process that has just
//! been forked has all files open that ours has, and closes them when its program begins. To a
//! mount that is a flush that nobody asked for, a guest that nobody sent, and somebody who is still
//! there at the end. Who starts a process here waits until nobody has files open
//! ([`with_processes`]).

#[path = "../common/mod.rs"]
mod common;

mod emulate;
mod files;

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
