// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process: what one process got from one device, how long it waited, what it cost.

use paternoster_core::Nanos;

use crate::record::CoarseHistogram;

/// One process on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessFigures {
    /// The process's number.
    pub pid: u32,
    /// The process's name; empty if unknown.
    pub name: String,
    /// I/Os that it requested.
    pub queued: u64,
    /// Bytes of these I/Os.
    pub asked_bytes: u64,
    /// How many of those I/Os ended.
    pub done: u64,
    /// Bytes that were read for it.
    pub read_bytes: u64,
    /// Bytes that were written, or discarded, for it.
    pub write_bytes: u64,
    /// From asking to the end.
    pub whole: CoarseHistogram,
    /// Of that, before the device had it: for a request, in plugs and with the scheduler.
    pub waited: CoarseHistogram,
    /// How often it slept for want of a request.
    pub sleeps: u64,
    /// Device time.
    pub device_time: Nanos,
    /// Its part of the device time of all, from 0 to 1.
    pub share: f64,
}

/// One process on one device, while the trace is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    pub(super) queued: u64,
    pub(super) asked_bytes: u64,
    pub(super) done: u64,
    pub(super) bytes: [u64; 2],
    pub(super) whole: CoarseHistogram,
    pub(super) waited: CoarseHistogram,
    pub(super) sleeps: u64,
    pub(super) device_time: f64,
}

impl Process {
    /// The figures of a process of this number and name, of `all` device time.
    pub(super) fn finish(self, (pid, name): (u32, String), all: f64) -> ProcessFigures {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let device_time = Nanos(self.device_time.round() as u64);
        ProcessFigures {
            pid,
            name,
            queued: self.queued,
            asked_bytes: self.asked_bytes,
            done: self.done,
            read_bytes: self.bytes[0],
            write_bytes: self.bytes[1],
            whole: self.whole,
            waited: self.waited,
            sleeps: self.sleeps,
            device_time,
            share: if all > 0.0 { self.device_time / all } else { 0.0 },
        }
    }
}
