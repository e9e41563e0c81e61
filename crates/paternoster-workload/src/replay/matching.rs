// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matching: the events of a trace, one by one, made into a recording.
//!
//! Arrivals, issues and completions name sectors, not I/Os; what belongs together is said by the
//! rule of [`InFlight`], so that the bios that were merged into a request end with it, and one that
//! was split ends with its last part:
//!
//! ```text
//! arrived      [8..16)  [16..24)           [64..96)
//! completed    [8..24)  both end           [64..80) then [80..96): ends with the second
//! ```
//!
//! * Kernels 4.3 to 4.12 announce the rest of a split I/O as an arrival of its own: one that begins
//!   where a split was and ends where the whole did is left out.
//! * A flush names no sectors. A flush command ends those flushes that had got a request when it
//!   was first issued, all if its issue is missing. One that got none (our own queue answers a
//!   flush of a clean cache at once) has an end that stays unknown.
//! * What is no longer waited for, because too much is under way, has an end that stays unknown.
//! * What a process submits between plugging and unplugging is marked, so that a replay plugs
//!   as well.
//!
//! Source: BTT-6, BTT-7; TRACE-37 for flushes.

use std::collections::{BTreeMap, VecDeque};

use paternoster_core::{Nanos, Op};
use paternoster_measure::{Extent, InFlight};

use super::recording::{Arrival, Recording, RecordingError};

/// I/Os of one plug that are remembered; a kernel's plug holds 32 requests.
const PLUG_MAX: usize = 4096;
/// Flushes that are waited for.
const FLUSHES_MAX: usize = 1 << 12;
/// Splits that are remembered.
const SPLITS_MAX: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    io: u32,
    pid: u32,
}

/// A flush that has not ended.
#[derive(Debug, Clone, Copy)]
struct Flush {
    io: u32,
    pid: u32,
    /// Whether the bio has got a request.
    allocated: bool,
}

/// Makes a [`Recording`] of events, which come in order of time.
#[derive(Debug, Default)]
pub struct Matcher {
    recording: Recording,
    outstanding: InFlight<Outstanding>,
    flushes: VecDeque<Flush>,
    /// How many of them the flush command in the device ends.
    covered: Option<usize>,
    sees_flush_commands: bool,
    sees_allocations: bool,
    /// For each process: its I/Os since it was plugged.
    plugs: BTreeMap<u32, Vec<u32>>,
    /// Last I/O of each process.
    last: BTreeMap<u32, u32>,
    /// By first sector of the rest: whose I/O was split there.
    splits: BTreeMap<u64, u32>,
}

impl Matcher {
    /// An I/O arrives.
    ///
    /// # Errors
    /// Those of [`Recording::push`].
    pub fn arrive(&mut self, arrival: &Arrival) -> Result<(), RecordingError> {
        if self.is_rest_of_split(arrival) {
            return Ok(());
        }
        let io = self.recording.push(arrival)?;
        let Arrival { pid, op, sector, sectors, .. } = *arrival;
        self.last.insert(pid, io);
        if let Some(plugged) = self.plugs.get_mut(&pid)
            && plugged.len() < PLUG_MAX
        {
            plugged.push(io);
        }
        if op == Op::Flush {
            if self.flushes.len() >= FLUSHES_MAX {
                self.flushes.pop_front();
                self.covered = self.covered.map(|covered| covered.saturating_sub(1));
            }
            self.flushes.push_back(Flush { io, pid, allocated: false });
        } else {
            let extent = extent(op != Op::Read, sector, sectors);
            self.outstanding.insert(extent, Outstanding { io, pid });
        }
        Ok(())
    }

    fn is_rest_of_split(&mut self, arrival: &Arrival) -> bool {
        if self.splits.get(&arrival.sector) != Some(&arrival.pid) {
            return false;
        }
        self.splits.remove(&arrival.sector);
        let rest = extent(arrival.op != Op::Read, arrival.sector, arrival.sectors);
        let before = Extent { sector: rest.sector.saturating_sub(1), end: rest.sector, ..rest };
        let mut around = self.outstanding.at(before);
        around.any(|(whole, own)| own.pid == arrival.pid && whole.end == rest.end)
    }

    /// An I/O of `pid` was split; the rest begins at `rest`.
    pub fn split(&mut self, pid: u32, rest: u64) {
        if self.splits.len() >= SPLITS_MAX {
            self.splits.clear();
        }
        self.splits.insert(rest, pid);
    }

    /// A request of these sectors goes to the device; it is a write, or a read.
    pub fn issue(&mut self, at: Nanos, write: bool, sector: u64, sectors: u32) {
        let Matcher { recording, outstanding, .. } = self;
        outstanding.issue(extent(write, sector, sectors), |part| {
            if part.first {
                recording.set_issued(part.value.io, at);
            }
        });
    }

    /// The device refused a request of these sectors.
    pub fn requeue(&mut self, write: bool, sector: u64, sectors: u32) {
        self.outstanding.requeue(extent(write, sector, sectors), |_| ());
    }

    /// A request of these sectors has ended.
    pub fn complete(&mut self, at: Nanos, write: bool, sector: u64, sectors: u32) {
        let Matcher { recording, outstanding, .. } = self;
        outstanding.complete(extent(write, sector, sectors), |part| {
            if part.last {
                recording.set_completed(part.value.io, at);
            }
        });
    }

    /// The process's flush got a request.
    pub fn allocate_flush(&mut self, pid: u32) {
        self.sees_allocations = true;
        let own = self.flushes.iter_mut().rev().find(|flush| flush.pid == pid);
        if let Some(flush) = own {
            flush.allocated = true;
        }
    }

    /// A flush command goes to the device; again, if it was refused.
    pub fn issue_flush(&mut self, at: Nanos) {
        self.sees_flush_commands = true;
        if self.covered.is_none() && self.sees_allocations {
            self.flushes.retain(|flush| flush.allocated);
        }
        let covered = *self.covered.get_or_insert(self.flushes.len());
        for flush in self.flushes.iter().take(covered) {
            self.recording.set_issued(flush.io, at);
        }
    }

    /// A flush command has ended.
    pub fn complete_flush(&mut self, at: Nanos) {
        let covered = self.covered.take().unwrap_or(self.flushes.len());
        for flush in self.flushes.drain(..covered) {
            self.recording.set_completed(flush.io, at);
        }
    }

    /// A process's flush has ended: the form in a trace without the commands themselves.
    pub fn complete_flush_of_process(&mut self, at: Nanos) {
        if !self.sees_flush_commands
            && let Some(flush) = self.flushes.pop_front()
        {
            self.recording.set_completed(flush.io, at);
        }
    }

    /// The process's last I/O was the first of a plug.
    pub fn plug(&mut self, pid: u32) {
        if let Some(&io) = self.last.get(&pid) {
            self.plugs.insert(pid, vec![io]);
        }
    }

    /// The process's plug was opened.
    pub fn unplug(&mut self, pid: u32) {
        let Some(plugged) = self.plugs.remove(&pid) else { return };
        let Some((_last, held)) = plugged.split_last() else { return };
        held.iter().for_each(|&io| self.recording.set_held(io));
    }

    /// The process has this name.
    pub fn name(&mut self, pid: u32, name: &str) {
        self.recording.name(pid, name);
    }

    /// How many I/Os have arrived and not ended.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len() + self.flushes.len()
    }

    /// What was recorded so far.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The recording, once all events were passed in.
    #[must_use]
    pub fn finish(self) -> Recording {
        self.recording
    }
}

/// The sectors of an event; a matcher has one device.
fn extent(write: bool, sector: u64, sectors: u32) -> Extent {
    Extent::new(0, write, sector, sectors.into())
}

#[cfg(test)]
mod tests {
    use paternoster_core::Flags;
    use paternoster_measure::IN_FLIGHT_MAX;

    use super::*;

    const fn at(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    fn arrive(matcher: &mut Matcher, us: u64, pid: u32, op: Op, sectors: (u64, u32)) {
        let (sector, sectors) = sectors;
        let arrival = Arrival { at: at(us), pid, op, flags: Flags::NONE, sector, sectors };
        matcher.arrive(&arrival).unwrap();
    }

    fn ends(matcher: Matcher) -> Vec<Option<u64>> {
        let recording = matcher.finish();
        recording.ios().iter().map(|io| io.completed().map(Nanos::as_micros)).collect()
    }

    /// Do merged bios end with their request, and a split one with its last part, as drawn?
    #[test]
    fn requests_end_their_bios() {
        let mut matcher = Matcher::default();
        arrive(&mut matcher, 0, 1, Op::Read, (8, 8));
        arrive(&mut matcher, 1, 1, Op::Read, (16, 8));
        arrive(&mut matcher, 2, 2, Op::Read, (64, 32));
        matcher.issue(at(3), false, 8, 16);
        matcher.issue(at(4), false, 64, 16);
        matcher.issue(at(5), false, 80, 16);
        matcher.complete(at(10), false, 64, 16);
        matcher.complete(at(11), false, 8, 16);
        assert_eq!(matcher.outstanding(), 1);
        matcher.complete(at(12), false, 80, 16);
        let issued: Vec<_> = matcher.recording().ios().iter().map(|io| io.issued()).collect();
        assert_eq!(issued, [Some(at(3)), Some(at(3)), Some(at(4))]);
        assert_eq!(ends(matcher), [Some(11), Some(11), Some(12)]);
    }

    /// Of two writes of one place, does the older one end first, and the other with the next end?
    #[test]
    fn the_older_one_at_a_place_ends_first() {
        let mut matcher = Matcher::default();
        arrive(&mut matcher, 0, 1, Op::Write, (8, 8));
        arrive(&mut matcher, 1, 2, Op::Write, (8, 8));
        matcher.complete(at(9), true, 8, 8);
        matcher.complete(at(12), true, 8, 8);
        assert_eq!(ends(matcher), [Some(9), Some(12)]);
    }

    /// Is the rest of a split I/O that an old kernel announces again no I/O of its own, and one
    /// that merely begins there one?
    #[test]
    fn the_rest_of_a_split_is_no_arrival() {
        let mut matcher = Matcher::default();
        arrive(&mut matcher, 0, 1, Op::Read, (0, 32));
        matcher.split(1, 16);
        arrive(&mut matcher, 1, 1, Op::Read, (16, 16));
        matcher.complete(at(5), false, 0, 16);
        matcher.complete(at(6), false, 16, 16);
        arrive(&mut matcher, 7, 1, Op::Read, (100, 32));
        matcher.split(1, 116);
        arrive(&mut matcher, 8, 1, Op::Read, (116, 8));
        assert_eq!(ends(matcher), [Some(6), None, None]);
    }

    /// Does a flush command end those flushes that it was issued for, also when it was refused in
    /// between? As in a kernel's trace: 299 arrives and is issued, refused, issued again; 298 and
    /// 297 arrive meanwhile; the command ends 299's, the next one theirs.
    #[test]
    fn flush_commands_end_flushes() {
        let mut matcher = Matcher::default();
        arrive(&mut matcher, 0, 299, Op::Flush, (0, 0));
        matcher.issue_flush(at(1));
        arrive(&mut matcher, 2, 298, Op::Flush, (0, 0));
        matcher.issue_flush(at(3));
        arrive(&mut matcher, 4, 297, Op::Flush, (0, 0));
        matcher.complete_flush(at(20));
        // A newer kernel's event for the process's flush comes later and adds nothing.
        matcher.complete_flush_of_process(at(21));
        matcher.issue_flush(at(22));
        matcher.complete_flush(at(30));
        assert_eq!(ends(matcher), [Some(20), Some(30), Some(30)]);

        let mut without_commands = Matcher::default();
        arrive(&mut without_commands, 0, 1, Op::Flush, (0, 0));
        arrive(&mut without_commands, 1, 2, Op::Flush, (0, 0));
        without_commands.complete_flush_of_process(at(5));
        assert_eq!(ends(without_commands), [Some(5), None]);

        // The second one got no request: it was answered at once.
        let mut clean = Matcher::default();
        arrive(&mut clean, 0, 1, Op::Flush, (0, 0));
        clean.allocate_flush(1);
        arrive(&mut clean, 1, 2, Op::Flush, (0, 0));
        clean.issue_flush(at(2));
        clean.complete_flush(at(9));
        assert_eq!(ends(clean), [Some(9), None]);
    }

    /// Is a trace without ends held in bounded memory, and an end still found for recent arrivals?
    #[test]
    fn outstanding_ios_are_bounded() {
        let mut matcher = Matcher::default();
        let count = 3 * IN_FLIGHT_MAX as u64;
        for nth in 0..count {
            let op = if nth % 2 == 0 { Op::Read } else { Op::Flush };
            let sectors = if nth % 2 == 0 { (nth * 8, 8) } else { (0, 0) };
            arrive(&mut matcher, nth, 1, op, sectors);
            assert!(matcher.outstanding() <= IN_FLIGHT_MAX + FLUSHES_MAX);
        }
        matcher.complete(at(count), false, (count - 2) * 8, 8);
        matcher.complete_flush(at(count));
        let ends = ends(matcher);
        assert_eq!(ends[ends.len() - 2..], [Some(count); 2]);
        assert_eq!(ends[0], None);
    }

    /// Are the I/Os of a plug marked up to the one before the last? A kernel reports the plug after
    /// the first of them; another process's I/O in between is not one of them.
    #[test]
    fn plugs_hold_all_but_their_last() {
        let mut matcher = Matcher::default();
        arrive(&mut matcher, 0, 1, Op::Read, (0, 8));
        arrive(&mut matcher, 1, 1, Op::Read, (80, 8));
        matcher.plug(1);
        arrive(&mut matcher, 2, 2, Op::Read, (800, 8));
        arrive(&mut matcher, 3, 1, Op::Read, (88, 8));
        arrive(&mut matcher, 4, 1, Op::Read, (96, 8));
        matcher.unplug(1);
        arrive(&mut matcher, 5, 1, Op::Read, (104, 8));
        matcher.unplug(1);
        let held: Vec<bool> = matcher.finish().ios().iter().map(|io| io.is_held()).collect();
        assert_eq!(held, [false, true, false, true, false, false]);
    }
}
