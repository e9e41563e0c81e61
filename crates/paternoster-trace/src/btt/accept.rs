// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accept: which events count.
//!
//! Not counted are commands passed through to the device, events outside the time window, I/Os
//! without data (flushes), splits, bounces, aborts and drivers' data. For each device nothing
//! counts before its first bio or remap: requests in flight when the trace began would have half of
//! their steps. A message makes its device known, even one before the time window; the window ends
//! with the first event after it.
//!
//! Source: BTT-1 to BTT-3.

use super::options::Options;
use super::times::seconds;
use crate::blktrace::{Code, Record};

/// How to treat a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It names a process.
    Name,
    /// It is a message.
    Message,
    /// It is about the plug of a device.
    Plug,
    /// It is a step of an I/O.
    Step,
    /// It does not count.
    Nothing,
}

/// The kind of a record.
#[inline]
pub(super) fn kind(record: &Record, options: &Options) -> Kind {
    if record.is_note() {
        return match record.code {
            Code::NOTE_PROCESS => Kind::Name,
            Code::NOTE_MESSAGE => Kind::Message,
            _ => Kind::Nothing,
        };
    }
    if record.is_passthrough() || !is_in_time(record, options) {
        return Kind::Nothing;
    }
    match record.code {
        Code::PLUG | Code::UNPLUG | Code::UNPLUG_TIMER => Kind::Plug,
        Code::REQUEUE => Kind::Step,
        Code::REMAP if !options.no_remaps => Kind::Step,
        Code::QUEUE
        | Code::GET
        | Code::INSERT
        | Code::BACK_MERGE
        | Code::FRONT_MERGE
        | Code::ISSUE
        | Code::COMPLETE
        | Code::SLEEP
            if record.bytes > 0 =>
        {
            Kind::Step
        }
        _ => Kind::Nothing,
    }
}

/// Whether a record is an event at all, of those that btt looks at.
pub(super) fn is_event(record: &Record, options: &Options) -> bool {
    !record.is_note() && !record.is_passthrough() && is_in_time(record, options)
}

fn is_in_time(record: &Record, options: &Options) -> bool {
    options.start.is_none_or(|start| seconds(record.at.0) >= start)
}

/// Whether the time window ends with this event, which is after it: all further events are ignored.
#[inline]
pub(super) fn is_end(record: &Record, options: &Options) -> bool {
    let Some(end) = options.end else { return false };
    !record.is_note() && seconds(record.at.0) > end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blktrace::Categories;
    use paternoster_core::Nanos;

    fn record(code: Code, bytes: u32) -> Record {
        Record { code, bytes, at: Nanos(2_000_000_000), ..Record::default() }
    }

    /// Does what carries no data not count, but requeues and remaps all the same?
    #[test]
    fn what_carries_no_data_does_not_count() {
        let options = Options::default();
        for code in [Code::QUEUE, Code::GET, Code::INSERT, Code::ISSUE, Code::COMPLETE] {
            assert_eq!(kind(&record(code, 0), &options), Kind::Nothing);
            assert_eq!(kind(&record(code, 512), &options), Kind::Step);
        }
        assert_eq!(kind(&record(Code::REQUEUE, 0), &options), Kind::Step);
        assert_eq!(kind(&record(Code::REMAP, 0), &options), Kind::Step);
        assert_eq!(kind(&record(Code::SPLIT, 512), &options), Kind::Nothing);
        let passed = Record { categories: Categories::PASSTHROUGH, ..record(Code::QUEUE, 512) };
        assert_eq!(kind(&passed, &options), Kind::Nothing);
    }

    /// Are the ends of the time window within it?
    #[test]
    fn the_window_has_its_ends() {
        let window = |start, end| Options { start, end, ..Options::default() };
        let record = record(Code::QUEUE, 512);
        assert_eq!(kind(&record, &window(Some(2.0), None)), Kind::Step);
        assert_eq!(kind(&record, &window(Some(2.1), None)), Kind::Nothing);
        assert!(!is_end(&record, &window(None, Some(2.0))));
        assert!(is_end(&record, &window(None, Some(1.9))));
    }
}
