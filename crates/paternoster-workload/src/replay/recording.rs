// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording: the I/Os of a trace in memory, in the order of their arrival.
//!
//! What a trace format has is passed on as plain data; what it lacks stays open:
//!
//! ```text
//!   arrived        issued            completed           counted from the first arrival
//!      |─ in queue ───|─── in device ────|
//!                     └ perhaps unknown ─┘
//! ```
//!
//! # Invariants
//! I1  Arrivals do not go back in time; an I/O does not complete before it arrived.
//! I2  40 bytes for each I/O, at most [`IOS_MAX`] of them, of at most [`PROCESSES_MAX`] processes.

use std::collections::BTreeMap;

use paternoster_core::{Flags, Nanos, Op};

/// The most I/Os that are kept: 16,777,216. With what a replay needs for each besides the 40 bytes
/// (what it follows, when it came and ended, order for a while) about 2 GB.
pub const IOS_MAX: usize = 1 << 24;
/// The most processes: what pids there are by default; each is a client of the queue (1 KiB).
pub const PROCESSES_MAX: usize = 1 << 15;
/// The latest arrival: ten years. What comes later has a broken clock.
pub const LATEST: Nanos = Nanos::from_secs(10 * 365 * 86_400);
/// Names of processes are remembered for this many pids.
const NAMES_MAX: usize = 4 * PROCESSES_MAX;
/// An unknown time.
const UNKNOWN: Nanos = Nanos::MAX;

/// What of an I/O's flags is kept, by bit; the last one is no flag of the I/O.
const KEPT: [Flags; 5] = [Flags::SYNC, Flags::META, Flags::AHEAD, Flags::FUA, Flags::PREFLUSH];
/// The next I/O of its process was submitted under the same plug.
const HELD: u8 = 1 << 7;

/// An I/O as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// On any clock; the first arrival counts as zero.
    pub at: Nanos,
    /// The process's number.
    pub pid: u32,
    /// The operation.
    pub op: Op,
    /// SYNC, META, AHEAD, FUA and PREFLUSH are kept.
    pub flags: Flags,
    /// First sector; nothing for a flush.
    pub sector: u64,
    /// How many sectors; 0 only for a flush.
    pub sectors: u32,
}

/// An I/O of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedIo {
    at: Nanos,
    sector: u64,
    issued: Nanos,
    completed: Nanos,
    sectors: u32,
    process: u16,
    op: Op,
    marks: u8,
}

impl RecordedIo {
    /// When it arrived, counted from the first.
    #[must_use]
    pub const fn at(&self) -> Nanos {
        self.at
    }

    /// First sector.
    #[must_use]
    pub const fn sector(&self) -> u64 {
        self.sector
    }

    /// Number of sectors.
    #[must_use]
    pub const fn sectors(&self) -> u32 {
        self.sectors
    }

    /// The sector after its last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors as u64)
    }

    /// Number of bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * 512
    }

    /// When it went to the device, if that is known.
    #[must_use]
    pub fn issued(&self) -> Option<Nanos> {
        (self.issued != UNKNOWN).then_some(self.issued)
    }

    /// When it ended, if that is known.
    #[must_use]
    pub fn completed(&self) -> Option<Nanos> {
        (self.completed != UNKNOWN).then_some(self.completed)
    }

    /// The place of its process in [`Recording::processes`].
    #[must_use]
    pub const fn process(&self) -> usize {
        self.process as usize
    }

    /// The operation.
    #[must_use]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// Its flags.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let own = KEPT.iter().enumerate().filter(|(bit, _)| self.marks & 1 << bit != 0);
        own.fold(Flags::NONE, |flags, (_, flag)| flags | *flag)
    }

    /// Whether the next I/O of its process was submitted under the same plug.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.marks & HELD != 0
    }
}

/// A process of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedProcess {
    /// The process's number.
    pub pid: u32,
    /// The process's name, if the trace has it.
    pub name: Option<String>,
    /// Number of its I/Os.
    pub ios: u32,
    /// Bytes that they moved.
    pub bytes: u64,
}

impl RecordedProcess {
    /// `fio (4711)`, or `pid 4711`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({})", self.pid),
            None => format!("pid {}", self.pid),
        }
    }
}

/// A recording takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// Too many I/Os.
    #[error("there are more than {IOS_MAX} I/Os; replay a part of them")]
    Ios,
    /// Too many processes.
    #[error("there are more than {PROCESSES_MAX} processes; replay a part of the time")]
    Processes,
    /// An arrival that no clock explains.
    #[error("an I/O arrives {0} after the first one; the clock of the trace is broken")]
    Late(Nanos),
}

/// The I/Os of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    ios: Vec<RecordedIo>,
    processes: Vec<RecordedProcess>,
    by_pid: BTreeMap<u32, u16>,
    names: BTreeMap<u32, String>,
    origin: Nanos,
    bytes: u64,
    completed: u64,
}

impl Recording {
    /// Adds an I/O; returns its number. One that goes back in time counts as simultaneous.
    ///
    /// # Errors
    /// [`RecordingError`] when there are too many, or it is much too late.
    pub fn push(&mut self, arrival: &Arrival) -> Result<u32, RecordingError> {
        let Arrival { at, pid, op, flags, sector, sectors } = *arrival;
        if self.ios.len() >= IOS_MAX {
            return Err(RecordingError::Ios);
        }
        if self.ios.is_empty() {
            self.origin = at;
        }
        let at = self.since_origin(at).max(self.last_arrival());
        if at > LATEST {
            return Err(RecordingError::Late(at));
        }
        let process = self.process_of(pid)?;
        let whose = &mut self.processes[usize::from(process)];
        let io = RecordedIo {
            at,
            sector,
            issued: UNKNOWN,
            completed: UNKNOWN,
            sectors,
            process,
            op,
            marks: marks(flags),
        };
        whose.ios += 1;
        whose.bytes += io.bytes();
        self.bytes += io.bytes();
        self.ios.push(io);
        Ok(u32::try_from(self.ios.len() - 1).unwrap_or(u32::MAX))
    }

    fn process_of(&mut self, pid: u32) -> Result<u16, RecordingError> {
        if let Some(&process) = self.by_pid.get(&pid) {
            return Ok(process);
        }
        if self.processes.len() >= PROCESSES_MAX {
            return Err(RecordingError::Processes);
        }
        let process = u16::try_from(self.processes.len()).unwrap_or(u16::MAX);
        let name = self.names.get(&pid).cloned();
        self.processes.push(RecordedProcess { pid, name, ios: 0, bytes: 0 });
        self.by_pid.insert(pid, process);
        Ok(process)
    }

    /// The process `pid` has this name. The first one given after its first I/O, or the last one
    /// before, counts.
    pub fn name(&mut self, pid: u32, name: &str) {
        if let Some(&process) = self.by_pid.get(&pid) {
            let known = &mut self.processes[usize::from(process)].name;
            known.get_or_insert_with(|| name.to_owned());
        } else if self.names.len() < NAMES_MAX || self.names.contains_key(&pid) {
            self.names.insert(pid, name.to_owned());
        }
    }

    /// I/O `io` went to the device.
    pub fn set_issued(&mut self, io: u32, at: Nanos) {
        let at = self.since_origin(at);
        if let Some(io) = self.ios.get_mut(io as usize) {
            io.issued = at.max(io.at);
        }
    }

    /// I/O `io` has ended.
    pub fn set_completed(&mut self, io: u32, at: Nanos) {
        let at = self.since_origin(at);
        if let Some(io) = self.ios.get_mut(io as usize) {
            self.completed += u64::from(io.completed == UNKNOWN);
            io.completed = at.max(io.at);
        }
    }

    /// I/O `io` and the next one of its process were submitted under one plug.
    pub fn set_held(&mut self, io: u32) {
        if let Some(io) = self.ios.get_mut(io as usize) {
            io.marks |= HELD;
        }
    }

    fn since_origin(&self, at: Nanos) -> Nanos {
        Nanos(at.0.saturating_sub(self.origin.0))
    }

    /// When the last one arrived.
    #[must_use]
    pub fn last_arrival(&self) -> Nanos {
        self.ios.last().map_or(Nanos::ZERO, |io| io.at)
    }

    /// From the first arrival to the last arrival or known completion.
    #[must_use]
    pub fn length(&self) -> Nanos {
        let ends = self.ios.iter().filter_map(RecordedIo::completed);
        ends.max().unwrap_or(Nanos::ZERO).max(self.last_arrival())
    }

    /// All I/Os, in the order of their arrival.
    #[must_use]
    pub fn ios(&self) -> &[RecordedIo] {
        &self.ios
    }

    /// All processes, in the order of their first I/O.
    #[must_use]
    pub fn processes(&self) -> &[RecordedProcess] {
        &self.processes
    }

    /// Bytes of all I/Os.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of I/Os whose completion is known.
    #[must_use]
    pub const fn completions(&self) -> u64 {
        self.completed
    }
}

fn marks(flags: Flags) -> u8 {
    let own = KEPT.iter().enumerate().filter(|(_, flag)| flags.contains(**flag));
    own.fold(0, |marks, (bit, _)| marks | 1 << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(at_us: u64, pid: u32) -> Arrival {
        let (op, flags) = (Op::Write, Flags::SYNC | Flags::META | Flags::FUA | Flags::NOIDLE);
        Arrival { at: Nanos::from_micros(at_us), pid, op, flags, sector: 8, sectors: 16 }
    }

    /// Is an I/O as small as is said, and does it come back as it was pushed, counted from the
    /// first arrival?
    #[test]
    fn ios_are_small_and_whole() {
        assert_eq!(size_of::<RecordedIo>(), 40);
        let mut recording = Recording::default();
        assert_eq!(recording.push(&arrival(500, 7)), Ok(0));
        assert_eq!(recording.push(&arrival(530, 9)), Ok(1));
        recording.set_issued(1, Nanos::from_micros(540));
        recording.set_completed(1, Nanos::from_micros(600));
        let io = recording.ios()[1];
        assert_eq!((io.at(), io.op(), io.process()), (Nanos::from_micros(30), Op::Write, 1));
        // NOIDLE is what a scheduler makes of an I/O, no trace has it.
        assert_eq!(io.flags(), Flags::SYNC | Flags::META | Flags::FUA);
        assert_eq!((io.end(), io.bytes()), (24, 8192));
        assert_eq!(io.issued(), Some(Nanos::from_micros(40)));
        assert_eq!(io.completed(), Some(Nanos::from_micros(100)));
        assert_eq!((recording.ios()[0].issued(), recording.completions()), (None, 1));
        assert_eq!((recording.bytes(), recording.length()), (16_384, Nanos::from_micros(100)));
    }

    /// I1: is what goes back in time brought into order, and a broken clock refused?
    #[test]
    fn times_do_not_go_back() {
        let mut recording = Recording::default();
        let first = recording.push(&arrival(500, 7)).unwrap();
        let second = recording.push(&arrival(400, 7)).unwrap();
        assert_eq!(recording.ios()[second as usize].at(), Nanos::ZERO);
        recording.set_completed(first, Nanos::from_micros(100));
        assert_eq!(recording.ios()[0].completed(), Some(Nanos::ZERO));
        let late = Arrival { at: LATEST + Nanos::from_secs(1), ..arrival(0, 7) };
        assert!(matches!(recording.push(&late), Err(RecordingError::Late(_))));
    }

    /// Has a process the name that was last said before its first I/O, or the first one after?
    #[test]
    fn processes_have_names() {
        let mut recording = Recording::default();
        recording.name(7, "sh");
        recording.name(7, "fio");
        recording.push(&arrival(0, 7)).unwrap();
        recording.push(&arrival(0, 9)).unwrap();
        let labels = |of: &Recording| of.processes().iter().map(RecordedProcess::label).collect();
        let before: Vec<String> = labels(&recording);
        assert_eq!(before, ["fio (7)", "pid 9"]);
        recording.name(7, "other");
        recording.name(9, "dd");
        let after: Vec<String> = labels(&recording);
        assert_eq!(after, ["fio (7)", "dd (9)"]);
    }
}
