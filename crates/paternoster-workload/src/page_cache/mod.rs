// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page cache: what buffered I/O goes through, shared by all processes of a run.
//!
//! ```text
//! process ──read──▶ page there?  ──yes──▶ copy: costs CPU only
//!                      │ no, or a marker
//!                      ▼
//!               read-ahead window ──bios──▶ queue        the process waits for its page
//!
//! process ──write──▶ pages dirty ──▶ too many? wait      flusher ──bios──▶ queue
//!                                                        (its own async context)
//! process ──fsync──▶ its file's dirty pages as sync bios, wait, commit or flush
//!                                                        journal ──bios──▶ queue
//! ```
//!
//! Bios of the cache carry a cookie with the highest bit set; [`PageCache::transfer_ended`] takes
//! their ends and says, through [`PageCache::next_woken`], which processes may go on.
//!
//! # Dirty limits
//! Above `dirty_background_ratio` of the memory the flusher writes; above `dirty_ratio` writers
//! wait until enough has been written, and share the room that there is then. Pages that are dirty
//! for longer than `dirty_expire` are written at the flusher's next round, every `dirty_writeback`.
//!
//! # Invariants
//! I1  A page that a process waits for is being read, or will be by a bio that the same process
//!     submits.
//! I2  Each transfer ends once, and frees its place.
//!
//! Differs from Linux: no rate matching between writers and device below the limit
//! (`balance_dirty_pages` since 3.2 delays them gradually); no reclaim other than of clean pages.
//!
//! Source: FIO-56; Linux' documentation of `/proc/sys/vm`.

pub mod extent;
mod flusher;
pub mod journal;
pub mod pages;
pub mod read_ahead;
mod throttle;

use std::collections::VecDeque;

use paternoster_core::{
    Bio, ClientId, Flags, Nanos, Observer, Op, Outcome, RequestQueue, Status, SubmitError,
};

use extent::Extent;
use flusher::Flusher;
use journal::{FileKind, Journal, JournalSettings};
use pages::{PAGE, Pages, Run};
use throttle::Throttle;

/// In a cookie: the bio belongs to the page cache.
pub const COOKIE: u64 = 1 << 63;
/// Linux's EIO.
const EIO: i32 = 5;
/// Pages that come into memory together when no bio brings them.
const BROUGHT_TOGETHER: u64 = 16;

/// The memory of the host and how it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSettings {
    /// Bytes of memory for the page cache.
    pub memory: u64,
    /// Writers wait above this many hundredths of it (`vm.dirty_ratio`).
    pub dirty_ratio: u32,
    /// The flusher writes above this many hundredths of it (`vm.dirty_background_ratio`).
    pub dirty_background_ratio: u32,
    /// Pages dirty for this long are written (`vm.dirty_expire_centisecs`).
    pub dirty_expire: Nanos,
    /// How often the flusher looks for them (`vm.dirty_writeback_centisecs`).
    pub dirty_writeback: Nanos,
    /// CPU time to copy a page to or from a process.
    pub copy_cost: Nanos,
    /// The journal of the file system that the files are of.
    pub journal: JournalSettings,
}

impl Default for HostSettings {
    /// 8 GiB, Linux' limits (20 % and 10 %, 30 s, 5 s), 2 us a page, no journal.
    fn default() -> HostSettings {
        HostSettings {
            memory: 8 << 30,
            dirty_ratio: 20,
            dirty_background_ratio: 10,
            dirty_expire: Nanos::from_secs(30),
            dirty_writeback: Nanos::from_secs(5),
            copy_cost: Nanos::from_micros(2),
            journal: JournalSettings::default(),
        }
    }
}

/// What a process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A page that is being read.
    Page {
        /// The page's file.
        file: u32,
        /// Number of the page.
        page: u64,
    },
    /// The end of the writes of some pages that were in flight when the wait began.
    Writeback {
        /// The pages' file.
        file: u32,
        /// The pages.
        run: Run,
        /// Writes with a number below this.
        before: u64,
    },
    /// Fewer dirty pages: the throttle says when.
    Room,
}

/// A bio of the cache.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    file: u32,
    run: Run,
    write: bool,
    /// Number of the transfer, in order of beginning.
    number: u64,
    under_way: bool,
}

impl Transfer {
    /// Whether it waits for these writes.
    const fn writes(&self, file: u32, run: Run, before: u64) -> bool {
        let meets =
            self.run.first < run.first + run.pages && run.first < self.run.first + self.run.pages;
        self.under_way && self.write && self.file == file && meets && self.number < before
    }
}

/// The page cache of a run.
#[derive(Debug)]
pub struct PageCache {
    pages: Pages,
    files: Vec<Extent>,
    /// The errno of the last write that failed, by file; reported once, by fsync.
    errors: Vec<i32>,
    transfers: Vec<Transfer>,
    free: Vec<u32>,
    /// How many transfers there have been.
    numbered: u64,
    /// The errno of a transfer that the queue did not take, once.
    refused: i32,
    /// For each process: what it waits for, and the errno of the read that it waited for.
    waits: Vec<(Option<Wait>, i32)>,
    woken: VecDeque<u32>,
    settings: HostSettings,
    throttle: Throttle,
    flusher: Flusher,
    journal: Option<Journal>,
}

/// What could not be submitted for lack of a request; the client gets a Wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest(pub Run);

impl PageCache {
    /// An empty cache for these files and this many processes; `flusher` is the client that writes
    /// back in the background.
    #[must_use]
    pub fn new(
        settings: HostSettings,
        files: Vec<Extent>,
        processes: usize,
        flusher: ClientId,
    ) -> PageCache {
        let sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
        PageCache {
            pages: Pages::new(&sizes, (settings.memory / PAGE).max(1)),
            errors: vec![0; files.len()],
            flusher: Flusher::new(flusher, files.len()),
            files,
            transfers: Vec::new(),
            free: Vec::new(),
            numbered: 0,
            refused: 0,
            waits: vec![(None, 0); processes],
            woken: VecDeque::new(),
            settings,
            throttle: Throttle::new(processes),
            journal: None,
        }
    }

    /// Adds a journal in `area` for files of these kinds; its thread submits as `client`.
    #[must_use]
    pub fn with_journal(mut self, client: ClientId, area: Extent, kinds: &[FileKind]) -> PageCache {
        let files: Vec<(FileKind, u64)> =
            kinds.iter().zip(&self.files).map(|(&kind, file)| (kind, file.bytes)).collect();
        self.journal = Some(Journal::new(self.settings.journal, client, area, &files));
        self
    }

    /// When the flusher or the journal wants to act next; `None` if only a completion, a Wake or a
    /// write brings them work.
    #[must_use]
    pub fn background_due(&self) -> Option<Nanos> {
        match (self.flusher_due(), self.journal_due()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Lets the flusher and the journal do what is due at `now`.
    pub fn work_in_background<O: Observer>(&mut self, now: Nanos, queue: &mut RequestQueue<O>) {
        let due = |at: Option<Nanos>| at.is_some_and(|at| at <= now);
        if due(self.journal_due()) {
            self.go_on_committing(now, queue);
        }
        if due(self.flusher_due()) {
            self.flush_in_background(now, queue);
        }
    }

    /// The queue has room again for `client`, the flusher's or the journal's.
    pub fn client_woken<O: Observer>(
        &mut self,
        now: Nanos,
        client: ClientId,
        queue: &mut RequestQueue<O>,
    ) {
        if client == self.flusher.client() {
            self.flush_in_background(now, queue);
        } else {
            self.go_on_committing(now, queue);
        }
    }

    /// The pages.
    #[must_use]
    pub const fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The pages, for a reader or writer.
    pub const fn pages_mut(&mut self) -> &mut Pages {
        &mut self.pages
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// The extent of a file.
    #[must_use]
    pub fn file(&self, file: u32) -> &Extent {
        &self.files[file as usize]
    }

    /// Pages of a file, the last one perhaps in part.
    #[must_use]
    pub fn pages_of(&self, file: u32) -> u64 {
        self.files[file as usize].bytes.div_ceil(PAGE)
    }

    /// Whether process `number` may make a page dirty now; if not it waits until it may.
    pub fn may_dirty(&mut self, number: u32) -> bool {
        let room = self.room();
        let may = self.throttle.may_dirty(number, room);
        if !may {
            self.wait(number, Wait::Room);
        }
        may
    }

    /// A call of process `number` has ended; if it wrote it needs no more room.
    pub fn call_ended(&mut self, number: u32) {
        self.let_in(|throttle, room, woken| throttle.call_ended(number, room, woken));
    }

    /// How many more pages may be dirty.
    fn room(&self) -> u64 {
        self.hundredths(self.settings.dirty_ratio).saturating_sub(self.pages.unwritten())
    }

    /// There may be room: those that the throttle adds to the woken do not wait any longer.
    fn let_in(&mut self, by: impl FnOnce(&mut Throttle, u64, &mut VecDeque<u32>)) {
        let (room, before) = (self.room(), self.woken.len());
        by(&mut self.throttle, room, &mut self.woken);
        for &number in self.woken.range(before..) {
            self.waits[number as usize] = (None, 0);
        }
    }

    fn hundredths(&self, ratio: u32) -> u64 {
        (self.settings.memory / PAGE * u64::from(ratio) / 100).max(1)
    }

    /// Above this many dirty pages the flusher writes; always fewer than make writers wait, or
    /// nothing would let them go.
    fn background_limit(&self) -> u64 {
        let most = self.hundredths(self.settings.dirty_ratio);
        let background = self.hundredths(self.settings.dirty_background_ratio);
        if background >= most { most / 2 } else { background }
    }

    /// Process `number` waits; it is woken when what it waits for has come.
    pub fn wait(&mut self, number: u32, wait: Wait) {
        self.waits[number as usize] = (Some(wait), 0);
    }

    /// Whether a process still waits.
    #[must_use]
    pub fn is_waiting(&self, number: u32) -> bool {
        self.waits[number as usize].0.is_some()
    }

    /// The errno of what a process had waited for, once; 0 if it succeeded.
    pub fn take_error(&mut self, number: u32) -> i32 {
        std::mem::take(&mut self.waits[number as usize].1)
    }

    /// The errno of a write of this file that failed since the last call, 0 if none did.
    pub fn take_write_error(&mut self, file: u32) -> i32 {
        std::mem::take(&mut self.errors[file as usize])
    }

    /// A process that may go on.
    pub fn next_woken(&mut self) -> Option<u32> {
        self.woken.pop_front()
    }

    /// Brings pages in without any I/O: what was read before the run began. If not all fit, the
    /// last ones stay.
    pub fn bring(&mut self, file: u32, run: Run) {
        let end = run.first + run.pages;
        let capacity = (self.settings.memory / PAGE).max(1);
        let mut first = end.saturating_sub(capacity).max(run.first);
        while first < end {
            let part = Run { first, pages: (end - first).min(BROUGHT_TOGETHER) };
            self.pages.make_room(part.pages);
            self.pages.begin_read(file, part);
            self.pages.end_read(file, part, true);
            first += part.pages;
        }
    }

    /// Whether some writes of these pages, with numbers below `before`, are still in flight.
    #[must_use]
    pub fn is_writing(&self, file: u32, run: Run, before: u64) -> bool {
        self.pages.writeback_of(file) > 0
            && self.transfers.iter().any(|transfer| transfer.writes(file, run, before))
    }

    /// The number that the next transfer will have.
    #[must_use]
    pub const fn next_transfer(&self) -> u64 {
        self.numbered
    }

    /// The errno of a transfer that the queue did not take since the last call, 0 if it took all.
    pub fn take_refusal(&mut self) -> i32 {
        std::mem::take(&mut self.refused)
    }

    /// Submits the pages of `run` that are absent, as few bios under one plug.
    ///
    /// # Errors
    /// The [`Rest`] when the queue has no request; come again with it after a Wake.
    pub fn read<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RequestQueue<O>,
        client: ClientId,
        file: u32,
        run: Run,
    ) -> Result<(), Rest> {
        self.pages.make_room(run.pages);
        let end = (run.first + run.pages).min(self.pages_of(file));
        let mut first = run.first;
        // The client is the caller's: it cannot be stale.
        let _plugged = queue.plug(now, client);
        let mut rest = Ok(());
        while let Some(absent) = self.pages.next_absent(file, first, end.saturating_sub(first)) {
            let there = |page: &u64| self.pages.next_absent(file, *page, 1).is_none();
            let until = (absent..end).find(there).unwrap_or(end);
            let wanted = Run { first: absent, pages: until - absent };
            match self.submit(now, queue, client, file, wanted, Op::Read, Flags::AHEAD) {
                Some(sent) => first = sent.first + sent.pages,
                None => {
                    rest = Err(Rest(Run { first: absent, pages: end - absent }));
                    break;
                }
            }
        }
        let _unplugged = queue.unplug(now, client);
        rest
    }

    /// Submits the dirty pages of `run`, as few bios under one plug. True if dirty pages were
    /// passed over because an earlier write of them is still on its way.
    ///
    /// # Errors
    /// The [`Rest`] when the queue has no request; come again with it after a Wake.
    pub fn write_back<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RequestQueue<O>,
        client: ClientId,
        file: u32,
        run: Run,
        flags: Flags,
    ) -> Result<bool, Rest> {
        let end = run.first + run.pages;
        let (mut first, mut passed) = (run.first, false);
        let _plugged = queue.plug(now, client);
        let mut rest = Ok(());
        loop {
            // Of a long run no more than one bio takes.
            let most = end.saturating_sub(first).clamp(1, most_pages(queue, Op::Write));
            let (dirty, passed_over) = self.pages.next_dirty(file, first, most);
            passed |= passed_over;
            let Some(dirty) = dirty.filter(|dirty| dirty.first < end) else { break };
            let wanted = Run { pages: dirty.pages.min(end - dirty.first), ..dirty };
            match self.submit(now, queue, client, file, wanted, Op::Write, flags) {
                Some(sent) => first = sent.first + sent.pages,
                None => {
                    rest = Err(Rest(Run { first: dirty.first, pages: end - dirty.first }));
                    break;
                }
            }
        }
        let _unplugged = queue.unplug(now, client);
        rest.map(|()| passed)
    }

    /// One bio for as much of `run` as lies together and fits; `None` if the queue is full.
    #[expect(clippy::too_many_arguments, reason = "a bio has as many properties")]
    fn submit<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RequestQueue<O>,
        client: ClientId,
        file: u32,
        run: Run,
        op: Op,
        flags: Flags,
    ) -> Option<Run> {
        let extent = self.files[file as usize];
        let wanted = (run.pages * PAGE).min(extent.bytes - run.first * PAGE);
        let (at, room) = extent.locate(run.first * PAGE);
        let bytes = wanted.min(room).min(most_pages(queue, op) * PAGE);
        let sent = Run { first: run.first, pages: bytes.div_ceil(PAGE) };
        let sectors = u32::try_from(bytes.div_ceil(512)).unwrap_or(u32::MAX);
        let write = op == Op::Write;
        let (number, under_way) = (self.numbered, true);
        let slot = self.new_transfer(Transfer { file, run: sent, write, number, under_way });
        let cookie = COOKIE | u64::from(slot);
        let mut bio = Bio::new(client, op, at / 512, sectors).flags(flags).cookie(cookie);
        if !write {
            bio.segments = u16::try_from(sent.pages).unwrap_or(u16::MAX);
        }
        match queue.submit(now, bio) {
            Ok(_) => {
                self.begin(now, file, sent, write);
                Some(sent)
            }
            Err(SubmitError::Busy) => {
                self.transfers[slot as usize].under_way = false;
                self.free.push(slot);
                None
            }
            Err(_) => {
                // The layout has checked that the file lies on the device: this is a broken queue.
                self.begin(now, file, sent, write);
                self.transfer_ended(u64::from(slot), Outcome::failed(EIO));
                self.refused = EIO;
                Some(sent)
            }
        }
    }

    fn new_transfer(&mut self, transfer: Transfer) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.transfers[slot as usize] = transfer;
            return slot;
        }
        self.transfers.push(transfer);
        u32::try_from(self.transfers.len() - 1).unwrap_or(u32::MAX)
    }

    fn begin(&mut self, now: Nanos, file: u32, sent: Run, write: bool) {
        self.numbered += 1;
        if write {
            self.written_back(now, file, sent);
            self.pages.begin_writeback(file, sent);
        } else {
            self.pages.begin_read(file, sent);
        }
    }

    /// The bio with this cookie has ended.
    pub fn transfer_ended(&mut self, cookie: u64, outcome: Outcome) {
        if cookie & journal::COOKIE != 0 {
            return self.journal_ended(outcome);
        }
        let slot = u32::try_from(cookie & !COOKIE).unwrap_or(u32::MAX);
        let Transfer { file, run, write, number, .. } = self.transfers[slot as usize];
        self.transfers[slot as usize].under_way = false;
        self.free.push(slot);
        let errno = match outcome.status {
            Status::Ok => 0,
            Status::Failed(errno) => errno,
            Status::Cancelled => EIO,
        };
        if write {
            self.pages.end_writeback(file, run);
            if errno != 0 {
                self.errors[file as usize] = errno;
            }
            self.flusher.transfer_ended();
            self.tell_commit(number);
        } else {
            self.pages.end_read(file, run, errno == 0);
        }
        self.wake(file, run, write, errno);
    }

    /// Wakes the processes that waited for what this transfer brought.
    fn wake(&mut self, file: u32, run: Run, write: bool, errno: i32) {
        if write {
            self.let_in(Throttle::let_in);
        }
        for number in 0..self.waits.len() {
            let Some(wait) = self.waits[number].0 else { continue };
            let come = match wait {
                Wait::Page { file: its, page } => {
                    !write && its == file && (run.first..run.first + run.pages).contains(&page)
                }
                Wait::Writeback { file: its, run: pages, before } => {
                    write && its == file && !self.is_writing(its, pages, before)
                }
                Wait::Room => false,
            };
            if come {
                // A failed write is reported to a process that syncs, not to one that waited.
                let told = if matches!(wait, Wait::Page { .. }) { errno } else { 0 };
                self.waits[number] = (None, told);
                self.woken.push_back(u32::try_from(number).unwrap_or(u32::MAX));
            }
        }
    }
}

/// Pages of the largest bio. A page that is read is a segment of its own: pages of read-ahead are
/// taken one by one and lie anywhere in memory.
fn most_pages<O: Observer>(queue: &RequestQueue<O>, op: Op) -> u64 {
    let by_sectors = u64::from(queue.max_sectors()) * 512 / PAGE;
    let by_segments = u64::from(queue.facts().max_segments);
    let most = if op == Op::Read { by_sectors.min(by_segments) } else { by_sectors };
    most.max(1)
}
