// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flusher: writes dirty pages back in the background, in a context of its own.
//!
//! It has work while more than `dirty_background_ratio` of the memory is dirty, and at each of its
//! rounds for files that have been dirty longer than `dirty_expire`. Files take turns of 4 MiB; in
//! a file it goes on where it stopped:
//!
//! ```text
//! dirty    a: 0-2047, 9000     b: 5        turn of 1024 pages
//! writes   a 0-1023 │ b 5 │ a 1024-2047 │ a 9000
//! ```
//!
//! Its bios are async writes: no process waits for one of them, so schedulers may delay them.
//!
//! # Invariants
//! I1  When it wants to be called at once it has something that it can submit.
//!
//! Source: Linux' documentation of `/proc/sys/vm` and of writeback.

use paternoster_core::{ClientId, Flags, Nanos, Observer, RequestQueue};

use super::pages::Run;
use super::{PageCache, Rest};

/// Pages of one file's turn: 4 MiB.
const TURN: u64 = 1024;

/// The flusher's state.
#[derive(Debug)]
pub(super) struct Flusher {
    client: ClientId,
    /// For each file: the page where it goes on.
    cursors: Vec<u64>,
    /// The file whose turn is next.
    next: u32,
    /// What it could not submit for lack of a request.
    rest: Option<(u32, Run)>,
    /// Everything dirty is already being written.
    stalled: bool,
    /// When it looks for old pages next.
    round: Nanos,
    /// Until when files were dirtied that are written now because of their age.
    aged: Option<Nanos>,
}

impl Flusher {
    pub(super) fn new(client: ClientId, files: usize) -> Flusher {
        Flusher {
            client,
            cursors: vec![0; files],
            next: 0,
            rest: None,
            stalled: false,
            round: Nanos::ZERO,
            aged: None,
        }
    }

    pub(super) const fn client(&self) -> ClientId {
        self.client
    }

    /// A write has ended: pages dirtied again meanwhile can go.
    pub(super) const fn transfer_ended(&mut self) {
        self.stalled = false;
    }
}

impl PageCache {
    /// When the flusher wants to act next; `None` if only a Wake or a write brings it work.
    #[must_use]
    pub fn flusher_due(&self) -> Option<Nanos> {
        if self.flusher.rest.is_some() || self.pages.dirty() == 0 {
            None
        } else if self.has_background_work() && !self.flusher.stalled {
            Some(Nanos::ZERO)
        } else {
            Some(self.flusher.round)
        }
    }

    fn has_background_work(&self) -> bool {
        self.pages.dirty() > self.background_limit() || self.flusher.aged.is_some()
    }

    /// Lets the flusher do what it can at `now`; also after a Wake of its client.
    pub fn flush_in_background<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        if now >= self.flusher.round {
            self.begin_round(now);
        }
        loop {
            let turn = self.flusher.rest.take().or_else(|| self.next_turn());
            let Some((file, run)) = turn else { return };
            let client = self.flusher.client;
            match self.write_back(now, queue, client, file, run, Flags::BACKGROUND) {
                Ok(_) => {}
                Err(Rest(rest)) => {
                    self.flusher.rest = Some((file, rest));
                    return;
                }
            }
        }
    }

    /// A round: pages older than `dirty_expire` are due.
    fn begin_round(&mut self, now: Nanos) {
        self.flusher.round = now + self.settings.dirty_writeback;
        let Some(before) = now.0.checked_sub(self.settings.dirty_expire.0) else { return };
        let files = 0..self.flusher.cursors.len();
        let old = |file: usize| {
            let file = u32::try_from(file).unwrap_or(u32::MAX);
            self.pages.dirty_since(file).is_some_and(|since| since.0 <= before)
        };
        if files.into_iter().any(old) {
            self.flusher.aged = Some(Nanos(before));
        }
    }

    /// The next file's turn, if there is work.
    fn next_turn(&mut self) -> Option<(u32, Run)> {
        if !self.has_background_work() {
            return None;
        }
        let over = self.pages.dirty() > self.background_limit();
        let count = u32::try_from(self.flusher.cursors.len()).unwrap_or(u32::MAX);
        for _ in 0..count {
            let file = self.flusher.next;
            self.flusher.next = (file + 1) % count;
            let since = self.pages.dirty_since(file);
            let aged = since.is_some_and(|since| self.flusher.aged.is_some_and(|at| since <= at));
            if !over && !aged {
                continue;
            }
            if let Some(run) = self.turn_of(file) {
                return Some((file, run));
            }
        }
        // None of the due pages can be sent now.
        self.flusher.aged = None;
        self.flusher.stalled = self.pages.unwritten() > self.pages.dirty();
        None
    }

    /// A turn in `file` from where it stopped, or from its beginning.
    fn turn_of(&mut self, file: u32) -> Option<Run> {
        let cursor = self.flusher.cursors[file as usize];
        let (behind, _) = self.pages.next_dirty(file, cursor, TURN);
        let first = behind.or_else(|| self.pages.next_dirty(file, 0, TURN).0)?.first;
        self.flusher.cursors[file as usize] = first + TURN;
        Some(Run { first, pages: TURN })
    }
}
