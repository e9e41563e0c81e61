// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ours: whether this process is the one that removes a path or gives a lock back.
//!
//! ```text
//! a server on its own    yes, from the start
//! one that takes over    not yet ──"mine"──▶ yes
//! one that has handed over                   no
//! ```
//!
//! Both processes have the same socket, the same locked file for a while. Whichever ends without
//! being the one that serves must leave them as they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by all that is handed over together.
#[derive(Debug, Clone)]
pub(crate) struct Ours(Arc<AtomicBool>);

impl Default for Ours {
    fn default() -> Ours {
        Ours(Arc::new(AtomicBool::new(true)))
    }
}

impl Ours {
    /// Still another process's.
    pub(crate) fn not_yet() -> Ours {
        Ours(Arc::new(AtomicBool::new(false)))
    }

    /// Whether they are this process's.
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// From now on they are this process's, or not.
    pub(crate) fn set(&self, ours: bool) {
        self.0.store(ours, Ordering::SeqCst);
    }
}
