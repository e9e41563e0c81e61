// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures: for comparing a recording and its replays, for all I/Os, for reads, for writes, and for
//! each process.
//!
//! They are made from the same two times of each I/O, when it came and when it ended, by the same
//! code, so that a replay can be compared with the recording:
//!
//! ```text
//! recorded   Q ──────────── C          IOPS, MB/s: over the time from the group's first arrival
//! replayed     came ───── ended                    to its last end; latency: came to ended
//! ```
//!
//! Device time of a replay is what the queue measures or the model says. For a recording it is
//! computed from issues and completions: while k commands are in the device each is charged 1/k of
//! the passing time; neighbours that were issued and completed together are one command.

use paternoster_core::device::ServiceClock;
use paternoster_core::{Nanos, Op};

use super::backlog::Backlog;
use super::engine::Replayed;
use super::recording::{RecordedIo, Recording};
use crate::statistics::{Histogram, Latency};

/// The reported percentiles.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Figures of some I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Number of I/Os.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Number of I/Os whose end is known; the latencies are of these.
    pub timed: u64,
    /// From the first arrival to the last arrival or end.
    pub length: Nanos,
    /// Mean latency in ns.
    pub mean: f64,
    /// Latencies that these percentages ([`PERCENTILES`]) do not exceed.
    pub percentiles: [Nanos; 4],
    /// The longest latency.
    pub max: Nanos,
    /// Device time, where it is known.
    pub served: Option<Nanos>,
}

impl Figures {
    /// I/Os per second; none of no time.
    #[must_use]
    pub fn ios_per_second(&self) -> Option<f64> {
        self.per_second(self.ios)
    }

    /// Bytes per second; none of no time.
    #[must_use]
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.per_second(self.bytes)
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        (self.length > Nanos::ZERO).then(|| as_f64(count) * 1e9 / as_f64(self.length.0))
    }
}

/// All figures of a recording or a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Everything.
    pub all: Figures,
    /// Reads alone.
    pub reads: Figures,
    /// Writes alone.
    pub writes: Figures,
    /// Each process, in the order of the recording.
    pub processes: Vec<Figures>,
    /// Time with something in the device, where it is known.
    pub busy: Option<Nanos>,
    /// How many were in flight.
    pub backlog: Backlog,
}

impl Account {
    /// The account of the recording itself.
    #[must_use]
    pub fn recorded(recording: &Recording) -> Account {
        let ios = recording.ios();
        let (served, busy) = device_time(recording).unzip();
        let times = |io: usize| (ios[io].at(), ios[io].completed());
        Account::new(recording, [&times, &times], served, busy)
    }

    /// From a replay. I/Os whose end is missing in the recording count here, too, but not how long
    /// they took: both accounts must cover the same ones.
    #[must_use]
    pub fn replayed(recording: &Recording, replayed: &Replayed) -> Account {
        let Replayed { came, ended, served, device, .. } = replayed;
        let ios = recording.ios();
        let tells_none = recording.completions() == 0;
        let times = |io: usize| (came[io], Some(ended[io]));
        let told = |io: usize| {
            let is_told = tells_none || ios[io].completed().is_some();
            (came[io], is_told.then_some(ended[io]))
        };
        Account::new(recording, [&told, &times], Some(served.clone()), Some(device.busy))
    }

    fn new(
        recording: &Recording,
        [times, all_times]: [&dyn Fn(usize) -> (Nanos, Option<Nanos>); 2],
        served: Option<Vec<Nanos>>,
        busy: Option<Nanos>,
    ) -> Account {
        let ios = recording.ios();
        let mut tally = Tally { histogram: Histogram::new(), times, ios };
        let sum = served.as_ref().map(|served| Nanos(served.iter().map(|time| time.0).sum()));
        let of_op = |op: Op| (0..ios.len()).filter(move |&io| ios[io].op() == op);
        let (order, starts) = by_process(recording);
        let processes = starts.windows(2).enumerate().map(|(process, ends)| {
            let own = order[ends[0]..ends[1]].iter().map(|&io| io as usize);
            let served = served.as_ref().map(|served| served[process]);
            Figures { served, ..tally.of(own) }
        });
        Account {
            processes: processes.collect(),
            all: Figures { served: sum, ..tally.of(0..ios.len()) },
            reads: tally.of(of_op(Op::Read)),
            writes: tally.of(of_op(Op::Write)),
            busy,
            backlog: Backlog::of((0..ios.len()).map(all_times)),
        }
    }
}

/// One histogram for one group after the other.
struct Tally<'a> {
    histogram: Histogram,
    times: &'a dyn Fn(usize) -> (Nanos, Option<Nanos>),
    ios: &'a [RecordedIo],
}

impl Tally<'_> {
    fn of(&mut self, group: impl Iterator<Item = usize>) -> Figures {
        self.histogram.clear();
        let (mut latency, mut figures) = (Latency::default(), Figures::default());
        let (mut from, mut to) = (Nanos::MAX, Nanos::ZERO);
        for io in group {
            let (came, ended) = (self.times)(io);
            figures.ios += 1;
            figures.bytes += self.ios[io].bytes();
            (from, to) = (from.min(came), to.max(ended.unwrap_or(came)));
            if let Some(ended) = ended {
                latency.record(ended - came);
                self.histogram.record(ended - came);
            }
        }
        figures.timed = latency.n();
        figures.length = to - from;
        (figures.mean, figures.max) = (latency.mean(), latency.max());
        // A percentile is the middle of its bin, which may lie above the largest value in it.
        let percentile = |p| Nanos(self.histogram.percentile(p)).min(figures.max);
        figures.percentiles = PERCENTILES.map(percentile);
        figures
    }
}

/// The I/Os of each process one after the other, and where each process's begin; the end last.
fn by_process(recording: &Recording) -> (Vec<u32>, Vec<usize>) {
    let counts = recording.processes().iter().map(|process| process.ios as usize);
    let mut starts = vec![0];
    for count in counts {
        starts.push(starts[starts.len() - 1] + count);
    }
    let mut next = starts.clone();
    let mut order = vec![0; recording.ios().len()];
    for (io, number) in recording.ios().iter().zip(0u32..) {
        let place = &mut next[io.process()];
        order[*place] = number;
        *place += 1;
    }
    (order, starts)
}

/// A command as it was recorded: issued, completed, its first sector and its end, whose.
type Command = (Nanos, Nanos, u64, u64, usize);

/// Device time of each process as recorded, and the time with something in the device; none if
/// nothing is known.
fn device_time(recording: &Recording) -> Option<(Vec<Nanos>, Nanos)> {
    let commands = commands(recording);
    if commands.is_empty() {
        return None;
    }
    let mut by_end: Vec<usize> = (0..commands.len()).collect();
    by_end.sort_unstable_by_key(|&command| (commands[command].1, command));
    let mut served = vec![Nanos::ZERO; recording.processes().len()];
    let mut clock = ServiceClock::default();
    let mut entered = Vec::with_capacity(commands.len());
    let mut ends = by_end.into_iter().peekable();
    let mut leave = |clock: &mut ServiceClock, command: usize, entered: &[Nanos]| {
        let (_, completed, _, _, process) = commands[command];
        served[process] += clock.leave(completed, entered[command]);
    };
    for &(issued, ..) in &commands {
        while let Some(command) = ends.next_if(|&command| commands[command].1 <= issued) {
            leave(&mut clock, command, &entered);
        }
        entered.push(clock.enter(issued));
    }
    ends.for_each(|command| leave(&mut clock, command, &entered));
    Some((served, clock.busy()))
}

/// The commands that took time, in the order of their issue.
fn commands(recording: &Recording) -> Vec<Command> {
    let command = |io: &RecordedIo| {
        let (issued, completed) = (io.issued()?, io.completed()?);
        (issued < completed).then_some((issued, completed, io.sector(), io.end(), io.process()))
    };
    let mut commands: Vec<Command> = recording.ios().iter().filter_map(command).collect();
    commands.sort_unstable();
    commands.dedup_by(|next, first| {
        let same = (next.0, next.1) == (first.0, first.1);
        let one = same && next.2 <= first.3;
        if one {
            first.3 = first.3.max(next.3);
        }
        one
    });
    commands
}

/// Exact up to 104 days in nanoseconds; beyond that the last digits go.
#[expect(clippy::cast_precision_loss, reason = "a report's figure")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use paternoster_core::Flags;

    use super::super::recording::Arrival;
    use super::*;

    const fn us(time: u64) -> Nanos {
        Nanos::from_micros(time)
    }

    /// (process, operation, sector, arrival, issue, end) in microseconds; an issue and an end of 0
    /// are not known. 8 sectors each.
    fn recording(ios: &[(u32, Op, u64, u64, u64, u64)]) -> Recording {
        let mut recording = Recording::default();
        for &(pid, op, sector, at, issued, ended) in ios {
            let (flags, sectors) = (Flags::NONE, 8);
            let arrival = Arrival { at: us(at), pid, op, flags, sector, sectors };
            let io = recording.push(&arrival).unwrap();
            if issued > 0 {
                recording.set_issued(io, us(issued));
            }
            if ended > 0 {
                recording.set_completed(io, us(ended));
            }
        }
        recording
    }

    /// Are the figures those of a hand-made recording? Latencies 100, 200 and 300 us: mean 200,
    /// median 200, max 300. Four I/Os of 4 KiB in 400 us: 10,000/s, 40.96 MB/s. The process 2 has
    /// one of them, over 200 us: 5000/s.
    #[test]
    fn figures_of_a_recording() {
        let read = Op::Read;
        let account = Account::recorded(&recording(&[
            (1, read, 0, 0, 10, 100),
            (2, Op::Write, 80, 100, 110, 300),
            (1, read, 8, 100, 300, 400),
            (1, read, 16, 390, 0, 0),
        ]));
        let all = account.all;
        assert_eq!((all.ios, all.timed, all.bytes), (4, 3, 16_384));
        assert_eq!((all.length, all.max), (us(400), us(300)));
        assert!((all.mean - 200_000.0).abs() < 1e-6);
        // The middle of the bin: 1/64 of the value wide.
        assert!(all.percentiles[0].0.abs_diff(200_000) < 200_000 / 64);
        assert_eq!(all.ios_per_second(), Some(10_000.0));
        assert_eq!(all.bytes_per_second(), Some(40_960_000.0));
        assert_eq!((account.reads.ios, account.writes.ios), (3, 1));
        assert_eq!(account.processes[1].ios_per_second(), Some(5000.0));
        assert_eq!(account.backlog.most, 2);
        assert_eq!(Account::recorded(&recording(&[])).all.ios_per_second(), None);
    }

    /// Is device time shared while several commands are in the device, and are merged bios one
    /// command? 10 to 30 alone, 30 to 50 two: the first is charged 20 + 10, the second 10 + 10
    /// (until 60 alone). The merged pair from 100 to 200 is one, of process 1.
    #[test]
    fn recorded_device_time() {
        let read = Op::Read;
        let account = Account::recorded(&recording(&[
            (1, read, 0, 0, 10, 50),
            (2, read, 80, 0, 30, 60),
            (1, read, 200, 70, 100, 200),
            (2, read, 208, 70, 100, 200),
        ]));
        let served: Vec<_> = account.processes.iter().map(|of| of.served).collect();
        assert_eq!(served, [Some(us(30 + 100)), Some(us(20))]);
        assert_eq!((account.busy, account.all.served), (Some(us(150)), Some(us(150))));
        let unknown = Account::recorded(&recording(&[(1, read, 0, 0, 0, 50)]));
        assert_eq!((unknown.busy, unknown.processes[0].served), (None, None));
    }
}
