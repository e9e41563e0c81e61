// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffered: one call of read or write, page by page through the page cache.
//!
//! ```text
//! read    for each page   present            go on
//!                         present, marked    start the next read-ahead, go on
//!                         absent             start a read-ahead
//!                         being read         wait for it
//! write   for each page   absent, in part    read it first
//!                         too much is dirty  wait
//!                         otherwise          dirty
//! then    copy: CPU time for each page; the call ends
//! ```
//!
//! # Invariants
//! I1  A call goes through its pages once, in order.
//!
//! Source: FIO-56.

use paternoster_core::{Nanos, Observer, RequestQueue};

use super::{Identity, Progress};
use crate::direction::Direction;
use crate::page_cache::pages::{PAGE, PageState, Run};
use crate::page_cache::read_ahead::{Cause, Demand, ReadAhead, Window};
use crate::page_cache::{PageCache, Rest, Wait};

/// A call in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) direction: Direction,
    pub(super) file: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) began: Nanos,
    pub(super) error: i32,
    /// How often it had to wait.
    pub(super) waits: u32,
    /// CPU time of its copying.
    pub(super) copying: Nanos,
    /// The current page, and the one after its last.
    page: u64,
    end: u64,
    /// A window that is still to be submitted.
    window: Option<Window>,
    /// When everything is copied.
    copied_at: Option<Nanos>,
}

impl Call {
    pub(super) const fn new(
        now: Nanos,
        direction: Direction,
        file: u32,
        offset: u64,
        bytes: u64,
    ) -> Call {
        Call {
            direction,
            file,
            offset,
            bytes,
            began: now,
            error: 0,
            waits: 0,
            copying: Nanos::ZERO,
            page: offset / PAGE,
            end: (offset + bytes).div_ceil(PAGE),
            window: None,
            copied_at: None,
        }
    }

    /// Its pages.
    pub(super) const fn run(&self) -> Run {
        let first = self.offset / PAGE;
        Run { first, pages: self.end - first }
    }

    /// Goes on as far as it can.
    pub(super) fn go_on<O: Observer>(
        &mut self,
        now: Nanos,
        identity: Identity,
        ahead: &mut ReadAhead,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> Progress {
        if let Some(copied_at) = self.copied_at {
            return if now < copied_at { Progress::Until(copied_at) } else { Progress::Ended };
        }
        if cache.is_waiting(identity.number) {
            return Progress::Waiting;
        }
        self.error = cache.take_error(identity.number);
        while self.error == 0 && (self.page < self.end || self.window.is_some()) {
            let step = match self.window {
                Some(window) => self.submit(now, window, identity, cache, queue),
                None if self.direction == Direction::Read => {
                    self.read_page(identity, ahead, cache, queue.read_ahead_kb())
                }
                None => self.write_page(now, identity, cache),
            };
            self.error = self.error.max(cache.take_refusal());
            if let Err(Blocked) = step {
                self.waits += 1;
                return Progress::Waiting;
            }
        }
        if self.direction != Direction::Read {
            cache.call_ended(identity.number);
        }
        self.copying = Nanos(cache.settings().copy_cost.0 * self.run().pages);
        let copied_at = now + self.copying;
        self.copied_at = Some(copied_at);
        Progress::Until(copied_at)
    }

    fn submit<O: Observer>(
        &mut self,
        now: Nanos,
        window: Window,
        identity: Identity,
        cache: &mut PageCache,
        queue: &mut RequestQueue<O>,
    ) -> Result<(), Blocked> {
        let run = Run { first: window.first, pages: window.pages };
        match cache.read(now, queue, identity.client, self.file, run) {
            Ok(()) => {
                self.window = None;
                if let Some(marker) = window.marker {
                    cache.pages_mut().mark(self.file, marker);
                }
                Ok(())
            }
            Err(Rest(rest)) => {
                self.window = Some(Window { first: rest.first, pages: rest.pages, ..window });
                Err(Blocked)
            }
        }
    }

    fn read_page(
        &mut self,
        identity: Identity,
        ahead: &mut ReadAhead,
        cache: &mut PageCache,
        read_ahead_kb: u64,
    ) -> Result<(), Blocked> {
        let cause = match cache.pages_mut().meet(self.file, self.page) {
            PageState::Present { marked: false } => None,
            PageState::Present { marked: true } => Some(Cause::Marker),
            PageState::Absent => Some(Cause::Absent),
            PageState::Reading => {
                cache.wait(identity.number, Wait::Page { file: self.file, page: self.page });
                return Err(Blocked);
            }
        };
        if let Some(cause) = cause {
            let demand = Demand {
                cause,
                file: self.file,
                page: self.page,
                wanted: self.end - self.page,
                most: read_ahead_kb * 1024 / PAGE,
            };
            self.window = ahead.plan(demand, cache.pages());
        }
        if cause != Some(Cause::Absent) {
            ahead.has_read(self.page);
            self.page += 1;
        }
        Ok(())
    }

    fn write_page(
        &mut self,
        now: Nanos,
        identity: Identity,
        cache: &mut PageCache,
    ) -> Result<(), Blocked> {
        let state = cache.pages().state(self.file, self.page);
        if state == PageState::Reading {
            cache.wait(identity.number, Wait::Page { file: self.file, page: self.page });
            return Err(Blocked);
        }
        if state == PageState::Absent && self.is_partial(cache.file(self.file).bytes) {
            self.window = Some(Window { first: self.page, pages: 1, marker: None });
            return Ok(());
        }
        if !cache.may_dirty(identity.number) {
            return Err(Blocked);
        }
        cache.pages_mut().make_room(1);
        cache.write(now, self.file, self.page);
        self.page += 1;
        Ok(())
    }

    /// Whether the call leaves some bytes of the page as they were.
    fn is_partial(&self, file_bytes: u64) -> bool {
        let (start, end) = (self.page * PAGE, ((self.page + 1) * PAGE).min(file_bytes));
        self.offset > start || self.offset + self.bytes < end
    }
}

/// The call cannot go on now.
#[derive(Debug)]
struct Blocked;
