// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commit: the steps of the journal's thread, with a transaction in its hands.
//!
//! ```text
//! Data      dirty pages that have blocks of the transaction's runs, as sync bios
//! Log       descriptor and metadata after the head, as few bios under one plug
//! Wait      until those, and all writes of the runs that were in flight, have ended
//! Record    the commit block, with PREFLUSH and FUA
//! Recorded  until that has ended; processes that wait are woken
//! ```
//!
//! A step that gets no request goes on with the Wake of the journal's client.
//!
//! # Invariants
//! I1  When it wants to be called at once it can go on.

use paternoster_core::{
    Bio, Flags, Nanos, Observer, Op, Outcome, RequestQueue, Status, SubmitError,
};

use super::area::{Area, BLOCK, Piece};
use super::{COOKIE, Journal, LARGE, Transaction};
use crate::page_cache::pages::Run;
use crate::page_cache::{COOKIE as CACHE, EIO, PageCache, Rest, most_pages};

/// Sectors of a block.
const SECTORS: u64 = BLOCK / 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Data,
    Log,
    Wait,
    Record,
    Recorded,
}

/// A transaction on its way to the device.
#[derive(Debug)]
pub(super) struct Commit {
    transaction: Transaction,
    stage: Stage,
    /// Data to be written, the next ones last.
    data: Vec<(u32, Run)>,
    /// The numbers of their writes in flight.
    transfers: Vec<u64>,
    /// Blocks to be written in front of the commit block.
    blocks: u64,
    /// Bios of the journal in flight.
    under_way: u32,
    /// Whether the commit waits for a request.
    blocked: bool,
    error: i32,
}

impl Commit {
    pub(super) const fn id(&self) -> u64 {
        self.transaction.id
    }

    /// Whether its flush has been sent: it does not cover what is written from now on.
    pub(super) fn has_flushed(&self) -> bool {
        self.stage == Stage::Recorded
    }

    const fn waits(&self) -> bool {
        let writes = self.under_way > 0 || !self.transfers.is_empty();
        match self.stage {
            Stage::Data | Stage::Log | Stage::Record => self.blocked,
            Stage::Wait => writes,
            Stage::Recorded => self.under_way > 0,
        }
    }
}

impl Journal {
    /// When its thread has something to do.
    pub(crate) fn due(&self) -> Option<Nanos> {
        if self.error != 0 {
            return None;
        }
        match (&self.committing, &self.running) {
            (Some(commit), _) => (!commit.waits()).then_some(Nanos::ZERO),
            (None, Some(running)) => {
                let large = running.blocks() >= self.settings.blocks / LARGE;
                let at_once = large || self.wanted >= running.id;
                Some(if at_once { Nanos::ZERO } else { running.began + self.settings.commit })
            }
            (None, None) => None,
        }
    }

    /// The running transaction is committed from now on; the next change begins another.
    fn begin_commit(&mut self) {
        let Some(transaction) = self.running.take() else { return };
        let mut data: Vec<(u32, Run)> = Vec::new();
        for (file, run) in transaction.data() {
            let parts = self.inodes[file as usize].allocated.within(run);
            data.extend(parts.into_iter().map(|part| (file, part)));
        }
        data.reverse();
        self.committing = Some(Commit {
            blocks: Area::needed(transaction.blocks()),
            transaction,
            stage: Stage::Data,
            data,
            transfers: Vec::new(),
            under_way: 0,
            blocked: false,
            error: 0,
        });
    }
}

impl PageCache {
    /// When the journal's thread wants to act next; `None` if only a completion, a Wake or a write
    /// brings it work.
    pub(crate) fn journal_due(&self) -> Option<Nanos> {
        self.journal.as_ref().and_then(Journal::due)
    }

    /// Lets the journal's thread do what it can at `now`; also after a Wake of its client.
    pub(crate) fn go_on_committing<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RequestQueue<O>,
    ) {
        if let Some(commit) = self.journal.as_mut().and_then(|journal| journal.committing.as_mut())
        {
            commit.blocked = false;
        }
        while self.journal_due().is_some_and(|due| due <= now) {
            let stage = self.commit().map(|commit| commit.stage);
            match stage {
                None => {
                    if let Some(journal) = &mut self.journal {
                        journal.begin_commit();
                    }
                }
                Some(Stage::Data) => self.write_ordered(now, queue),
                Some(Stage::Log) => self.write_log(now, queue),
                Some(Stage::Wait) => self.end_wait(),
                Some(Stage::Record) => self.write_record(now, queue),
                Some(Stage::Recorded) => self.end_commit(),
            }
        }
    }

    fn commit(&mut self) -> Option<&mut Commit> {
        self.journal.as_mut()?.committing.as_mut()
    }

    /// The data that must not come after the metadata.
    fn write_ordered<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        let Some(client) = self.journal.as_ref().map(|journal| journal.client) else { return };
        while let Some((file, run)) = self.commit().and_then(|commit| commit.data.pop()) {
            // A page that is dirty again during an earlier write of it has its data there.
            let rest = self.write_back(now, queue, client, file, run, Flags::SYNC);
            if let (Err(Rest(rest)), Some(commit)) = (rest, self.commit()) {
                commit.data.push((file, rest));
                commit.blocked = true;
                return;
            }
        }
        let transfers = self.transfers_of_commit();
        if let Some(commit) = self.commit() {
            commit.transfers = transfers;
            commit.stage = Stage::Log;
        }
    }

    /// The writes in flight of the data that the commit waits for.
    fn transfers_of_commit(&self) -> Vec<u64> {
        let commit = self.journal.as_ref().and_then(|journal| journal.committing.as_ref());
        let Some(commit) = commit else { return Vec::new() };
        let mut numbers = Vec::new();
        for (file, run) in commit.transaction.data() {
            let under_way = self.transfers.iter().filter(|it| it.writes(file, run, u64::MAX));
            numbers.extend(under_way.map(|transfer| transfer.number));
        }
        numbers
    }

    fn write_log<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        let most = most_pages(queue, Op::Write);
        let Some(journal) = &mut self.journal else { return };
        let (client, area) = (journal.client, &mut journal.area);
        let Some(commit) = &mut journal.committing else { return };
        let _plugged = queue.plug(now, client);
        while commit.blocks > 0 {
            let piece = area.next(most.min(commit.blocks));
            match queue.submit(now, bio(client, piece)) {
                Ok(_) => commit.under_way += 1,
                Err(SubmitError::Busy) => {
                    commit.blocked = true;
                    break;
                }
                Err(_) => commit.error = EIO,
            }
            area.advance(piece);
            commit.blocks -= piece.blocks;
        }
        let _unplugged = queue.unplug(now, client);
        if commit.blocks == 0 {
            commit.stage = Stage::Wait;
        }
    }

    /// Everything that the commit block speaks of is written, or has failed.
    fn end_wait(&mut self) {
        let Some(commit) = self.commit() else { return };
        if commit.error == 0 {
            commit.stage = Stage::Record;
        } else {
            self.end_commit();
        }
    }

    fn write_record<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        let Some(journal) = &mut self.journal else { return };
        let Some(commit) = &mut journal.committing else { return };
        let piece = journal.area.next(1);
        let record = bio(journal.client, piece).flags(Flags::PREFLUSH | Flags::FUA);
        match queue.submit(now, record) {
            Ok(_) => commit.under_way += 1,
            Err(SubmitError::Busy) => {
                commit.blocked = true;
                return;
            }
            Err(_) => commit.error = EIO,
        }
        journal.area.advance(piece);
        commit.stage = Stage::Recorded;
    }

    /// A commit has ended, well or not: processes that wait for it may go on.
    fn end_commit(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let Some(commit) = journal.committing.take() else { return };
        journal.error = commit.error;
        if commit.error == 0 {
            journal.committed = commit.id();
        }
        let (committed, failed) = (journal.committed, journal.error != 0);
        let woken = &mut self.woken;
        journal.waiting.retain(|&(id, number)| {
            let ended = failed || id <= committed;
            if ended {
                woken.push_back(number);
            }
            !ended
        });
    }

    /// A bio of the journal has ended.
    pub(crate) fn journal_ended(&mut self, outcome: Outcome) {
        let Some(commit) = self.commit() else { return };
        commit.under_way -= 1;
        if let Status::Failed(errno) = outcome.status {
            commit.error = errno;
        }
        if commit.stage == Stage::Recorded {
            self.end_commit();
        }
    }

    /// Write number `number` of the cache has ended.
    pub(crate) fn tell_commit(&mut self, number: u64) {
        if let Some(commit) = self.commit() {
            commit.transfers.retain(|&other| other != number);
        }
    }
}

/// The journal's thread waits for its bios, and others for it.
fn bio(client: paternoster_core::ClientId, piece: Piece) -> Bio {
    let sectors = u32::try_from(piece.blocks * SECTORS).unwrap_or(u32::MAX);
    Bio::new(client, Op::Write, piece.sector, sectors)
        .flags(Flags::SYNC | Flags::META)
        .cookie(CACHE | COOKIE)
}
