// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journal: a file system's metadata becomes durable in transactions, one after another, through a
//! thread of its own; its data is written before it (ext4's `data=ordered`).
//!
//! ```text
//! write(2), write-back, direct writes                       fsync ──asks, waits──┐
//!        │ inode changed, pages got blocks                                       │
//!        ▼                                                                       ▼
//!   running transaction ──requested, 5 s old, or large──▶ committing ──▶ committed: fsyncs return
//!        the next one collects meanwhile                  │
//!                                                         │ 1 data that got blocks in it   ┐ both
//!                                                         │ 2 descriptor and metadata      ┘ wait
//!                                                         ▼ 3 commit block: PREFLUSH and FUA
//! device    |file a|file b|…|D M M M C D M C …          |
//!                             the journal's own area, round and round
//! ```
//!
//! # What changes metadata
//! * A write changes the file's times, which have the resolution of a tick (4 ms): the inode joins
//!   the running transaction with the first write in a tick. An fsync needs that, an fdatasync does
//!   not.
//! * A page without a block gets one when it is written back (*delayed allocation*), or already
//!   when it is written (`delayed_allocation=0`, as ext3 does); with a direct write when that
//!   begins. Inode, bitmap and the group's descriptor join; every sync needs them. Files that a job
//!   reads, or writes with `overwrite=1`, have all their blocks; the others none, at their full
//!   length, as fio leaves them.
//! * Raw devices (`/dev/…`) have no metadata.
//!
//! # A worked number
//! On a device where every command takes 1 ms, a process repeatedly appends a page and syncs it.
//! Data 1 ms; descriptor, inode, bitmap and group as one write of 16 KiB 1 ms; flush 1 ms; commit
//! block 1 ms: 4 ms. Eight such processes together need no more: the first to ask begins the
//! commit, the others' metadata is in it, and they wait for the same one. Nine rounds are 36 ms
//! either way, with nine commits and nine flushes: for 9 fsyncs, or for 72.
//!
//! # Invariants
//! I1  An fsync returns only after the commit that holds what was changed before it, and after a
//!     flush that was sent after the end of its data's writes.
//! I2  Transactions commit in the order of their numbers; one at a time.
//! I3  The commit block is sent when data and metadata of the transaction have been written.
//!
//! # Not here
//! Checkpoints: metadata is not written to its home later, so the area is never too full. No
//! process waits for a transaction that has grown too large. One journal on the same device, no
//! fast commits, no asynchronous commit record, no batching of `O_SYNC` writers by waiting for
//! others; no blocks of extent trees. Blocks that were allocated lately but not written
//! (`dioread_nolock`) count as allocated, so commits wait for a little more.
//!
//! Source: Linux' documentation of ext4 and jbd2 (ordered mode, `commit=`, `journal_ioprio=`, disk
//! layout); general knowledge of both.

mod allocated;
mod area;
mod commit;
mod transaction;

use paternoster_core::{Class, ClientId, Nanos};

use allocated::Allocated;
use area::Area;
use commit::Commit;
use transaction::Transaction;

use super::PageCache;
use super::extent::Extent;
use super::pages::{PAGE, Run};

/// In a cookie of the cache: the bio belongs to the journal.
pub(super) const COOKIE: u64 = 1 << 62;
/// Times of files have this grain: a tick of 250 Hz.
const TICK: Nanos = Nanos::from_millis(4);
/// A transaction of more than this part of the area is committed.
const LARGE: u64 = 4;
/// The priority of the journal's thread, a little above others, unless a mount option sets it.
pub(crate) const PRIORITY: (Class, u8) = (Class::BestEffort, 3);

/// Whether files have a journal, and how it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalSettings {
    /// How data and metadata are ordered.
    pub mode: JournalMode,
    /// A transaction is committed at this age (ext4's `commit=`).
    pub commit: Nanos,
    /// Blocks of 4 KiB that the journal has on the device, at least 1024.
    pub blocks: u64,
    /// Pages get their blocks when they are written back, not when they are written (ext4's
    /// `delalloc`).
    pub delayed_allocation: bool,
}

/// How a journal orders data and metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalMode {
    /// There is no journal: a file is its data.
    #[default]
    None,
    /// Data are written before the metadata that point to them.
    Ordered,
}

impl Default for JournalSettings {
    /// No journal; the other settings are ext4's: 5 s, 128 MiB, delayed allocation.
    fn default() -> JournalSettings {
        JournalSettings {
            mode: JournalMode::None,
            commit: Nanos::from_secs(5),
            blocks: 32_768,
            delayed_allocation: true,
        }
    }
}

impl JournalSettings {
    /// Bytes that the journal takes on the device.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self.mode {
            JournalMode::None => 0,
            JournalMode::Ordered => self.blocks * area::BLOCK,
        }
    }
}

/// A file as the file system sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A device: no file system knows of it.
    Device,
    /// None of its pages has a block.
    New,
    /// All pages have blocks already.
    Old,
}

/// What the file system knows of a file.
#[derive(Debug, Clone)]
struct Inode {
    kind: FileKind,
    allocated: Allocated,
    /// The tick in which its times changed last.
    changed_at: Option<u64>,
    /// The last transaction that it is in; and the last that its data needs.
    transaction: u64,
    data_transaction: u64,
}

/// The journal of a run.
#[derive(Debug)]
pub(super) struct Journal {
    client: ClientId,
    settings: JournalSettings,
    area: Area,
    inodes: Vec<Inode>,
    running: Option<Transaction>,
    committing: Option<Commit>,
    /// Numbers of transactions: the last begun, the last requested, the last committed.
    begun: u64,
    wanted: u64,
    committed: u64,
    /// The transaction that each process waits for.
    waiting: Vec<(u64, u32)>,
    /// The errno of a commit that failed: there will be no other.
    error: i32,
}

impl Journal {
    /// A journal in `area` for files of these kinds; `client` is its thread.
    pub(super) fn new(
        settings: JournalSettings,
        client: ClientId,
        area: Extent,
        files: &[(FileKind, u64)],
    ) -> Journal {
        let inode = |&(kind, bytes): &(FileKind, u64)| Inode {
            kind,
            allocated: match kind {
                FileKind::Old => Allocated::whole(bytes.div_ceil(PAGE)),
                FileKind::New | FileKind::Device => Allocated::default(),
            },
            changed_at: None,
            transaction: 0,
            data_transaction: 0,
        };
        Journal {
            client,
            settings,
            area: Area::new(area.at, settings.blocks),
            inodes: files.iter().map(inode).collect(),
            running: None,
            committing: None,
            begun: 0,
            wanted: 0,
            committed: 0,
            waiting: Vec::new(),
            error: 0,
        }
    }

    fn has(&self, file: u32) -> bool {
        self.inodes[file as usize].kind != FileKind::Device
    }

    /// The transaction that collects.
    fn collect(&mut self, now: Nanos) -> &mut Transaction {
        let begun = &mut self.begun;
        self.running.get_or_insert_with(|| {
            *begun += 1;
            Transaction::new(*begun, now)
        })
    }

    /// A file is written: its times change.
    fn touch(&mut self, now: Nanos, file: u32) {
        let tick = now.0 / TICK.0;
        if self.inodes[file as usize].changed_at.replace(tick) == Some(tick) {
            return;
        }
        let transaction = self.collect(now);
        transaction.change(file);
        self.inodes[file as usize].transaction = transaction.id;
    }

    /// Pages of a file get blocks, those that have none. False if all have.
    fn allocate(&mut self, now: Nanos, file: u32, extent: &Extent, run: Run) -> bool {
        if !self.inodes[file as usize].allocated.add(run) {
            return false;
        }
        let transaction = self.collect(now);
        transaction.allocate(file, extent, run);
        let id = transaction.id;
        let inode = &mut self.inodes[file as usize];
        (inode.transaction, inode.data_transaction) = (id, id);
        true
    }

    fn order(&mut self, file: u32, run: Run) {
        if let Some(transaction) = &mut self.running {
            transaction.order(file, run);
        }
    }
}

impl PageCache {
    /// Whether a file has metadata in a journal.
    #[must_use]
    pub fn is_journalled(&self, file: u32) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.has(file))
    }

    fn journal_of(&mut self, file: u32) -> Option<&mut Journal> {
        self.journal.as_mut().filter(|journal| journal.has(file))
    }

    /// A page is written by a process: it is dirty from now on.
    pub fn write(&mut self, now: Nanos, file: u32, page: u64) {
        self.pages.write(now, file, page);
        let (run, extent) = (Run { first: page, pages: 1 }, self.files[file as usize]);
        let Some(journal) = self.journal_of(file) else { return };
        journal.touch(now, file);
        let at_once = !journal.settings.delayed_allocation;
        if at_once && journal.allocate(now, file, &extent, run) {
            journal.order(file, run);
        }
    }

    /// Pages of a file are on their way to the device.
    pub(super) fn written_back(&mut self, now: Nanos, file: u32, run: Run) {
        let extent = self.files[file as usize];
        let Some(journal) = self.journal_of(file) else { return };
        if journal.allocate(now, file, &extent, run) {
            journal.order(file, run);
        }
    }

    /// Pages of a file are written past the cache. True if all of them had their blocks.
    pub fn write_directly(&mut self, now: Nanos, file: u32, run: Run) -> bool {
        let extent = self.files[file as usize];
        let Some(journal) = self.journal_of(file) else { return true };
        journal.touch(now, file);
        !journal.allocate(now, file, &extent, run)
    }

    /// The transaction whose commit a sync of a file must wait for; with `data_only` the one needed
    /// to find its data. `None` if there is none, or it is committed.
    pub fn transaction_of(&mut self, file: u32, data_only: bool) -> Option<u64> {
        let journal = self.journal_of(file)?;
        let inode = &journal.inodes[file as usize];
        let id = if data_only { inode.data_transaction } else { inode.transaction };
        (id > journal.committed).then_some(id)
    }

    /// Transaction `id` is to be committed without delay. True if this also flushes data that has
    /// been written by now.
    pub fn ask_for_commit(&mut self, id: u64) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        journal.wanted = journal.wanted.max(id);
        match &journal.committing {
            Some(commit) if commit.id() == id => !commit.has_flushed(),
            _ => id > journal.committed,
        }
    }

    /// Whether transaction `id` is durable, or never will be.
    #[must_use]
    pub fn has_committed(&self, id: u64) -> bool {
        let done = |journal: &Journal| journal.committed >= id || journal.error != 0;
        self.journal.as_ref().is_none_or(done)
    }

    /// Process `number` is woken when transaction `id` is committed, or never will be.
    pub fn await_commit(&mut self, number: u32, id: u64) {
        let Some(journal) = &mut self.journal else { return };
        if !journal.waiting.contains(&(id, number)) {
            journal.waiting.push((id, number));
        }
    }

    /// The errno of the commit that failed, if that loses a file's metadata; 0 if not.
    #[must_use]
    pub fn journal_error(&self, file: u32) -> i32 {
        self.journal.as_ref().filter(|journal| journal.has(file)).map_or(0, |journal| journal.error)
    }
}
