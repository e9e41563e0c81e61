// SPDX-License-Identifier: MIT OR Apache-2.0
//! Issued: the commands in the device, by their tags, and whether it takes more.
//!
//! ```text
//! enter: a free tag, the service clock ─▶ device ─▶ leave: the device time it took
//!                                           └ refused: nothing is sent for 3 ms, or before
//!                                             another command ends
//! ```
//!
//! # Invariants
//! I1  A tag is taken exactly while its request's stage is `InDevice`; as many commands are in
//!     service.
//! I2  A device that refused is tried again (BLK-9).
//!
//! Source: BLK-9, BLK-11; device time is own (`device.rs`).

use crate::answer::Stale;
use crate::block::common::Common;
use crate::device::{ServiceClock, Tag};
use crate::op::Op;
use crate::request::{Request, RequestId, Stage};
use crate::slab::Slab;
use crate::time::Nanos;

/// A device that refused with nothing in it is tried again after this time (BLK-9).
const RETRY_AFTER_REFUSAL: Nanos = Nanos::from_millis(3);

/// A request that has become a command in the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) tag: Tag,
    /// Whether it is bound to the present elevator.
    pub(crate) bound: bool,
    pub(crate) is_flush: bool,
}

/// A request that has left the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) id: RequestId,
    /// Whether it is bound to the present elevator.
    pub(crate) bound: bool,
    /// The device time it took.
    pub(crate) measured: Nanos,
}

/// What is in the device.
#[derive(Debug)]
pub(crate) struct Issued {
    tags: Slab<u32>,
    service: ServiceClock,
    /// The device refused: nothing is sent before this, or before a command ends. `Nanos::MAX`: it
    /// did not.
    refused_until: Nanos,
}

impl Issued {
    pub(crate) fn with_depth(depth: u32) -> Issued {
        Issued {
            tags: Slab::with_capacity(depth),
            service: ServiceClock::default(),
            refused_until: Nanos::MAX,
        }
    }

    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.tags.is_full()
    }

    #[inline(always)]
    pub(crate) const fn len(&self) -> u32 {
        self.tags.len()
    }

    /// Whether the device refused, and is not tried yet.
    #[inline(always)]
    pub(crate) fn is_refused(&self) -> bool {
        self.refused_until != Nanos::MAX
    }

    /// `until`, or earlier if a device that refused, and has nothing in it, is tried again before.
    #[inline(always)]
    pub(crate) fn or_retry(&self, until: Nanos) -> Nanos {
        if self.tags.is_empty() { until.min(self.refused_until) } else { until }
    }

    /// The device may be tried again if it is time.
    #[inline(always)]
    pub(crate) fn retry_if_due(&mut self, now: Nanos) {
        if self.refused_until <= now && self.tags.is_empty() {
            self.refused_until = Nanos::MAX;
        }
    }

    /// The request of a command.
    pub(crate) fn request_of(&self, tag: Tag) -> Option<RequestId> {
        self.tags.get(tag.0).map(|&index| RequestId(index))
    }

    /// A request goes to the device; `None` if there is no tag for it.
    #[inline(always)]
    pub(crate) fn enter<O>(&mut self, common: &mut Common<O>, id: RequestId) -> Option<Entered> {
        let tag = self.tags.insert(id.0).ok()?;
        let Common { view, elevator, .. } = common;
        let now = view.exact;
        let clock = self.service.enter(now);
        let request = &mut view.requests[id];
        request.stage = Stage::InDevice;
        request.was_started = true;
        request.tag = tag.index();
        request.issued = now;
        request.clock = clock;
        let bound = elevator.has_bound(request);
        let is_flush = request.op == Op::Flush;
        if !is_flush {
            let in_device = &mut view.in_device;
            in_device.requests += 1;
            in_device.sync += u32::from(request.is_sync());
            in_device.last_end = request.end();
        }
        Some(Entered { tag: Tag(tag), bound, is_flush })
    }

    /// A command has left the device.
    ///
    /// # Errors
    /// [`Stale`] when no such command is in the device.
    #[inline(always)]
    pub(crate) fn leave<O>(&mut self, common: &mut Common<O>, tag: Tag) -> Result<Left, Stale> {
        let id = RequestId(*self.tags.free_by_key(tag.0).ok_or(Stale)?);
        let Common { view, elevator, .. } = common;
        let request = &view.requests[id];
        let bound = elevator.has_bound(request);
        if request.op != Op::Flush {
            view.in_device.requests -= 1;
            view.in_device.sync -= u32::from(request.is_sync());
        }
        let measured = self.service.leave(view.exact, request.clock);
        Ok(Left { id, bound, measured })
    }

    /// A command has ended: there is room for others.
    #[inline(always)]
    pub(crate) const fn has_room(&mut self) {
        self.refused_until = Nanos::MAX;
    }

    /// The device has refused a command.
    pub(crate) fn refused(&mut self, now: Nanos) {
        self.refused_until = now + RETRY_AFTER_REFUSAL;
    }

    /// Whether the tag of a request in the device is its own.
    pub(crate) fn holds(&self, index: u32, request: &Request) -> bool {
        self.tags.is_live(request.tag) && *self.tags.at(request.tag) == index
    }

    /// The number of commands in service, for the audit.
    pub(crate) const fn in_service(&self) -> u32 {
        self.service.in_service()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::common::tests::common;
    use crate::event::NoObserver;

    fn request(common: &mut Common<NoObserver>, op: Op) -> RequestId {
        let request = Request { op, sectors: 8, epoch: u32::MAX, ..Request::default() };
        RequestId(common.view.requests.0.insert(request).unwrap().index())
    }

    /// Are commands counted while they are in the device, flushes not, and does each of two that
    /// overlap all the time take half of it?
    #[test]
    fn commands_are_in_service_until_they_leave() {
        let (mut common, mut issued) = (common(), Issued::with_depth(2));
        let (read, flush) = (request(&mut common, Op::Read), request(&mut common, Op::Flush));
        let first = issued.enter(&mut common, read).unwrap();
        let second = issued.enter(&mut common, flush).unwrap();
        assert_eq!((first.is_flush, second.is_flush, first.bound), (false, true, false));
        assert!(issued.is_full() && issued.enter(&mut common, read).is_none());
        let in_device = common.view.in_device;
        assert_eq!((in_device.requests, in_device.sync, in_device.last_end), (1, 1, 8));
        common.view.exact = Nanos(100);
        // 100 / 2, and then nothing more passes.
        for (id, tag) in [(read, first.tag), (flush, second.tag)] {
            let left = Left { id, bound: false, measured: Nanos(50) };
            assert_eq!(issued.leave(&mut common, tag), Ok(left));
            assert_eq!(issued.leave(&mut common, tag), Err(Stale));
        }
        assert_eq!((common.view.in_device.requests, issued.in_service()), (0, 0));
    }

    /// Is a device that refused tried again after 3 ms if nothing is in it, and otherwise when a
    /// command has ended (I2)?
    #[test]
    fn a_device_that_refused_is_tried_again() {
        let (mut common, mut issued) = (common(), Issued::with_depth(2));
        issued.refused(Nanos::ZERO);
        assert_eq!(
            (issued.is_refused(), issued.or_retry(Nanos::MAX)),
            (true, Nanos::from_millis(3))
        );
        issued.retry_if_due(Nanos::from_millis(2));
        assert!(issued.is_refused());
        issued.retry_if_due(Nanos::from_millis(3));
        assert!(!issued.is_refused());
        let read = request(&mut common, Op::Read);
        let tag = issued.enter(&mut common, read).unwrap().tag;
        issued.refused(Nanos::ZERO);
        issued.retry_if_due(Nanos::from_secs(1));
        assert_eq!((issued.is_refused(), issued.or_retry(Nanos::MAX)), (true, Nanos::MAX));
        let _left = issued.leave(&mut common, tag);
        issued.has_room();
        assert!(!issued.is_refused());
    }
}
