// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locked: access to what threads of the server share, one thread at a time.
//!
//! A thread that has panicked leaves nothing half done in what is locked so: each step of it is one
//! statement. So the lock is taken, and not the panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `mutex` holds, for the caller alone.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
