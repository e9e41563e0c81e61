// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kind: how a queue is treated, and the service tree that it belongs to.
//!
//! Each group has seven service trees: for each of the classes RT and BE one for async queues, one
//! for sync queues that are not idled for, and one for those that are; and one for the idle class.
//!
//! ```text
//!              async   not idled for   idled for
//! best effort    0           1             2
//! real time      3           4             5
//! idle                       6
//! ```
//!
//! Source: CFQ-5, CFQ-17.

use paternoster_core::Class;

/// Service trees of a group.
pub(super) const TREES: usize = 7;
/// The tree of the idle class.
pub(super) const IDLE_TREE: usize = 6;

/// How a queue is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Kind {
    /// No process waits for it.
    #[default]
    Async = 0,
    /// Sync, but not idled for singly: served in turns.
    NoIdle = 1,
    /// Sync, and idled for: served in slices.
    Sync = 2,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Async, Kind::NoIdle, Kind::Sync];

/// The place of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stand {
    pub(super) group: u32,
    pub(super) tree: usize,
}

/// The tree of a class and kind.
pub(super) const fn tree_of(class: Class, kind: Kind) -> usize {
    match class {
        Class::Realtime => 3 + kind as usize,
        Class::BestEffort => kind as usize,
        Class::Idle => IDLE_TREE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has each class and kind a tree of its own, and the idle class one for all kinds?
    #[test]
    fn each_class_and_kind_has_a_tree() {
        let of = |class| KINDS.map(|kind| tree_of(class, kind));
        assert_eq!(of(Class::BestEffort), [0, 1, 2]);
        assert_eq!(of(Class::Realtime), [3, 4, 5]);
        assert_eq!(of(Class::Idle), [IDLE_TREE; 3]);
        assert_eq!(IDLE_TREE + 1, TREES);
    }
}
