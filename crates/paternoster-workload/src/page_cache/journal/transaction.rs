// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transaction: metadata that becomes durable together, and the data that must not come after it.
//!
//! A block of metadata is in a transaction once, however often it changes:
//!
//! ```text
//! 16 files get a page each, all in one group of 128 MiB
//! their inodes, of 256 bytes     1 block
//! the group's bitmap             1 block
//! the group's descriptor         1 block       + 1 block that names them, + 1 that commits = 5
//! ```

use std::collections::{BTreeMap, BTreeSet};

use paternoster_core::Nanos;

use super::area::BLOCK;
use crate::page_cache::extent::Extent;
use crate::page_cache::pages::{PAGE, Run};

/// Inodes of a block: 256 bytes each.
const INODES: u32 = 16;
/// Bytes of the device that one bitmap block covers: a bit for each of its blocks.
const GROUP: u64 = BLOCK * 8 * BLOCK;
/// Descriptors of groups in a block: 64 bytes each.
const DESCRIPTORS: u64 = 64;

/// A block of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Metadata {
    Inodes(u32),
    Bitmap(u64),
    Descriptors(u64),
}

/// What is committed together.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    /// Numbers them, from 1.
    pub(super) id: u64,
    /// When the first change joined it.
    pub(super) began: Nanos,
    metadata: BTreeSet<Metadata>,
    /// For each file: from the first to the last page that got blocks in it.
    data: BTreeMap<u32, Run>,
}

impl Transaction {
    pub(super) const fn new(id: u64, began: Nanos) -> Transaction {
        Transaction { id, began, metadata: BTreeSet::new(), data: BTreeMap::new() }
    }

    /// Blocks of metadata.
    pub(super) fn blocks(&self) -> u64 {
        self.metadata.len() as u64
    }

    /// An inode changes.
    pub(super) fn change(&mut self, file: u32) {
        self.metadata.insert(Metadata::Inodes(file / INODES));
    }

    /// Pages of a file get blocks.
    pub(super) fn allocate(&mut self, file: u32, extent: &Extent, run: Run) {
        self.change(file);
        let (mut at, end) = (run.first * PAGE, (run.first + run.pages) * PAGE);
        while at < end {
            let (place, together) = extent.locate(at);
            let bytes = together.min(end - at);
            for group in place / GROUP..=(place + bytes - 1) / GROUP {
                self.metadata.insert(Metadata::Bitmap(group));
                self.metadata.insert(Metadata::Descriptors(group / DESCRIPTORS));
            }
            at += bytes;
        }
    }

    /// Its commit must not be durable before these pages are.
    pub(super) fn order(&mut self, file: u32, run: Run) {
        let all = self.data.entry(file).or_insert(run);
        let first = all.first.min(run.first);
        let end = (all.first + all.pages).max(run.first + run.pages);
        *all = Run { first, pages: end - first };
    }

    /// The data that its commit waits for, by file.
    pub(super) fn data(&self) -> impl Iterator<Item = (u32, Run)> + '_ {
        self.data.iter().map(|(&file, &run)| (file, run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a block counted once? Sixteen files in one group, as drawn above: 3 blocks. A
    /// seventeenth inode lies in the next block; a run over the edge of a group of 128 MiB needs
    /// both bitmaps, whose descriptors lie together.
    #[test]
    fn blocks_are_counted_once() {
        let mut transaction = Transaction::new(1, Nanos::ZERO);
        for file in 0..16 {
            let extent = Extent::whole(u64::from(file) << 20, 1 << 20);
            transaction.allocate(file, &extent, Run { first: 0, pages: 1 });
        }
        assert_eq!(transaction.blocks(), 3);
        transaction.change(16);
        assert_eq!(transaction.blocks(), 4);
        let edge = Extent::whole((128 << 20) - PAGE, 1 << 20);
        transaction.allocate(0, &edge, Run { first: 0, pages: 2 });
        assert_eq!(transaction.blocks(), 5);
    }
}
