// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matching: the events of a trace, one by one, made into a recording.
//!
//! Arrivals, issues and completions name sectors, not I/Os. As btt does, the outstanding arrivals
//! are known by their first sector; an event concerns all of them that lie inside its sectors, so
//! that the bios that were merged into a request end with it:
//!
//! ```text
//! arrived      [8..16)  [16..24)           [64..96)
//! completed    [8..24)  both end           [64..80) then [80..96): ends with the second
//! ```
//!
//! * An arrival at the first sector of an outstanding one replaces it; the old one's end stays
//!   unknown.
//! * An I/O that was split ends when all its sectors have. Kernels 4.3 to 4.12 announce the rest as
//!   an arrival of its own: one that begins where a split was and ends where the whole did is left
//!   out.
//! * A flush names no sectors. A flush command ends those flushes that had got a request when it
//!   was first issued, all if its issue is missing. One that got none (our own queue answers a
//!   flush of a clean cache at once) has an end that stays unknown.
//! * What a process submits between plugging and unplugging is marked, so that a replay plugs
//!   as well.
//!
//! Source: BTT-6, BTT-7; TRACE-37 for flushes.

use std::collections::{BTreeMap, VecDeque};

use paternoster_core::{Nanos, Op};

use super::recording::{Arrival, Recording, RecordingError};

/// I/Os of one plug that are remembered; a kernel's plug holds 32 requests.
const PLUG_MAX: usize = 4096;
/// I/Os that are outstanding at a time; with more, the ends of the older half are taken as missing.
const OUTSTANDING_MAX: usize = 1 << 16;
/// Splits that are remembered.
const SPLITS_MAX: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    io: u32,
    pid: u32,
    end: u64,
    /// Sectors that have not ended.
    left: u64,
}

/// A flush that has not ended.
#[derive(Debug, Clone, Copy)]
struct Flush {
    io: u32,
    pid: u32,
    /// It got a request.
    allocated: bool,
}

/// Makes a [`Recording`] of events, which come in order of time.
#[derive(Debug, Default)]
pub struct Matcher {
    recording: Recording,
    /// By first sector.
    outstanding: BTreeMap<u64, Outstanding>,
    /// Sectors of the longest I/O so far: an event touches no I/O that begins further before it.
    longest: u64,
    flushes: VecDeque<Flush>,
    /// How many of them the flush command in the device ends.
    covered: Option<usize>,
    sees_flush_commands: bool,
    sees_allocations: bool,
    /// By process: its I/Os since it was plugged.
    plugs: BTreeMap<u32, Vec<u32>>,
    /// By process: its last I/O.
    last: BTreeMap<u32, u32>,
    /// By first sector of the rest: whose I/O was split there.
    splits: BTreeMap<u64, u32>,
    touched: Vec<u64>,
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
        if self.outstanding() >= OUTSTANDING_MAX {
            self.forget_older_half(io);
        }
        if op == Op::Flush {
            self.flushes.push_back(Flush { io, pid, allocated: false });
        } else {
            let left = u64::from(sectors);
            let end = sector.saturating_add(left);
            self.longest = self.longest.max(left);
            self.outstanding.insert(sector, Outstanding { io, pid, end, left });
        }
        Ok(())
    }

    /// Of a trace that lost ends, or has none.
    fn forget_older_half(&mut self, newest: u32) {
        let half = u32::try_from(OUTSTANDING_MAX / 2).unwrap_or(u32::MAX);
        let oldest = newest.saturating_sub(half);
        self.outstanding.retain(|_, outstanding| outstanding.io > oldest);
        let gone = self.flushes.iter().take_while(|flush| flush.io <= oldest).count();
        self.flushes.drain(..gone);
        self.covered = self.covered.map(|covered| covered.saturating_sub(gone));
    }

    fn is_rest_of_split(&mut self, arrival: &Arrival) -> bool {
        if self.splits.get(&arrival.sector) != Some(&arrival.pid) {
            return false;
        }
        self.splits.remove(&arrival.sector);
        let end = arrival.sector.saturating_add(arrival.sectors.into());
        let whole = self.outstanding.range(..arrival.sector).next_back();
        whole.is_some_and(|(_, whole)| whole.pid == arrival.pid && whole.end == end)
    }

    /// An I/O of `pid` was split; the rest begins at `rest`.
    pub fn split(&mut self, pid: u32, rest: u64) {
        if self.splits.len() >= SPLITS_MAX {
            self.splits.clear();
        }
        self.splits.insert(rest, pid);
    }

    /// A request of these sectors goes to the device.
    pub fn issue(&mut self, at: Nanos, sector: u64, sectors: u32) {
        let end = self.touch(sector, sectors);
        for start in self.touched.drain(..) {
            let Some(outstanding) = self.outstanding.get(&start) else { continue };
            let first_part = start == sector;
            if first_part || start > sector && outstanding.end <= end {
                self.recording.set_issued(outstanding.io, at);
            }
        }
    }

    /// A request of these sectors has ended.
    pub fn complete(&mut self, at: Nanos, sector: u64, sectors: u32) {
        let end = self.touch(sector, sectors);
        for start in self.touched.drain(..) {
            let Some(outstanding) = self.outstanding.get_mut(&start) else { continue };
            if start >= sector && outstanding.end <= end {
                outstanding.left = 0;
            } else if start <= sector && outstanding.end >= end {
                outstanding.left = outstanding.left.saturating_sub(sectors.into());
            }
            if outstanding.left == 0 {
                self.recording.set_completed(outstanding.io, at);
                self.outstanding.remove(&start);
            }
        }
    }

    /// Notes the first sectors of all outstanding I/Os that have sectors in common with these, and
    /// returns the end of these.
    fn touch(&mut self, sector: u64, sectors: u32) -> u64 {
        let end = sector.saturating_add(sectors.into());
        let near = self.outstanding.range(sector.saturating_sub(self.longest)..end);
        let touching = near.filter(|(_, outstanding)| outstanding.end > sector);
        self.touched.extend(touching.map(|(start, _)| *start));
        end
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

#[cfg(test)]
mod tests {
    use paternoster_core::Flags;

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
        matcher.issue(at(3), 8, 16);
        matcher.issue(at(4), 64, 16);
        matcher.issue(at(5), 80, 16);
        matcher.complete(at(10), 64, 16);
        matcher.complete(at(11), 8, 16);
        assert_eq!(matcher.outstanding(), 1);
        matcher.complete(at(12), 80, 16);
        let issued: Vec<_> = matcher.recording().ios().iter().map(|io| io.issued()).collect();
        assert_eq!(issued, [Some(at(3)), Some(at(3)), Some(at(4))]);
        assert_eq!(ends(matcher), [Some(11), Some(11), Some(12)]);
    }

    /// Does an arrival at the same sector replace the one before, which then has no end?
    #[test]
    fn the_second_at_a_sector_replaces_the_first() {
        let mut matcher = Matcher::default();
        arrive(&mut matcher, 0, 1, Op::Write, (8, 8));
        arrive(&mut matcher, 1, 2, Op::Write, (8, 8));
        matcher.complete(at(9), 8, 8);
        assert_eq!(ends(matcher), [None, Some(9)]);
    }

    /// Is the rest of a split I/O that an old kernel announces again no I/O of its own, and one
    /// that merely begins there one?
    #[test]
    fn the_rest_of_a_split_is_no_arrival() {
        let mut matcher = Matcher::default();
        arrive(&mut matcher, 0, 1, Op::Read, (0, 32));
        matcher.split(1, 16);
        arrive(&mut matcher, 1, 1, Op::Read, (16, 16));
        matcher.complete(at(5), 0, 16);
        matcher.complete(at(6), 16, 16);
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
        let count = 3 * OUTSTANDING_MAX as u64;
        for nth in 0..count {
            let op = if nth % 2 == 0 { Op::Read } else { Op::Flush };
            let sectors = if nth % 2 == 0 { (nth * 8, 8) } else { (0, 0) };
            arrive(&mut matcher, nth, 1, op, sectors);
            assert!(matcher.outstanding() <= OUTSTANDING_MAX);
        }
        matcher.complete(at(count), (count - 2) * 8, 8);
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
