// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job logs: the files of `write_bw_log`, `write_lat_log`, `write_iops_log` and `write_hist_log`.
//!
//! One line per I/O, or with `log_avg_msec` one line per direction and window:
//!
//! ```text
//! ms, value, direction, bytes, priority            P_bw.1.log     bytes per ms of that I/O
//! 0, 133524, 0, 4096, 0                            P_clat.1.log   ns; slat and lat likewise
//! 0, 30676, 0, 4096, 0                             P_iops.1.log   1
//! ms, value, direction, 0, 0                       window: KiB/s, mean ns, I/Os per second
//! 500, 1206, 0, 0, 0
//! ```
//!
//! `log_offset` puts the offset before the priority; `log_prio` prints the priority as Linux packs
//! it (0x2002 is class 1 level 2) instead of 1 for class 1 and 0 for the others; `log_max_value`
//! gives the window's largest latency, and bandwidth and I/Os unchanged.
//!
//! Windows begin with the job and adjoin each other; each is written when the first I/O after it
//! completes, or at the end. Of a window that the end cuts off only latencies are written, as fio
//! does. A histogram's line has the counts of its own window, in 1856 bins of fio's, of which
//! `log_hist_coarseness` joins 2^N to one.
//!
//! An engine that blocks has no submission latency: its slat log is empty.
//!
//! Invariant: the lines of a file are in order of time.
//!
//! Source: FIO-123; files of fio 3.33. Differs: fio stamps a window with the time at
//! which it noticed its end, some ms late.

use std::io::{self, Write};

use paternoster_core::Nanos;
use paternoster_measure::bin_of;

use crate::direction::Direction;

use super::cmdprio::IoPriority;
use super::value::{self, MILLISECOND, Reader};

/// Bins of fio's histograms: 29 groups of 64.
const BINS: usize = 29 * 64;
/// The class whose I/Os have a 1 in the logs.
const REAL_TIME: u8 = 1;

/// The values that a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Bytes per time.
    Bandwidth,
    /// From preparation to submission.
    Submission,
    /// From submission to completion.
    Completion,
    /// From preparation to completion.
    Total,
    /// I/Os per second.
    Iops,
    /// Completion latencies by bin.
    Histogram,
}

impl LogKind {
    /// Its part of the file's name.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            LogKind::Bandwidth => "bw",
            LogKind::Submission => "slat",
            LogKind::Completion => "clat",
            LogKind::Total => "lat",
            LogKind::Iops => "iops",
            LogKind::Histogram => "clat_hist",
        }
    }
}

/// The options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRules {
    /// Prefix of the bandwidth log; empty is the job's name, as of the next three.
    pub bandwidth: Option<String>,
    /// Prefix of the three latency logs.
    pub latency: Option<String>,
    /// Prefix of the log of I/Os per second.
    pub iops: Option<String>,
    /// Prefix of the histograms' log.
    pub histogram: Option<String>,
    /// `log_avg_msec`: the window; zero is one line per I/O.
    pub window: Nanos,
    /// `log_hist_msec`: the window of histograms; zero writes none.
    pub histogram_window: Nanos,
    /// `log_hist_coarseness`, 0 to 6.
    pub coarseness: u8,
    /// `log_max_value`.
    pub largest: bool,
    /// `log_offset`.
    pub offset: bool,
    /// `log_prio`.
    pub priority: bool,
    /// `per_job_logs`: clones have files of their own.
    pub per_job: bool,
}

impl Default for LogRules {
    fn default() -> LogRules {
        LogRules {
            bandwidth: None,
            latency: None,
            iops: None,
            histogram: None,
            window: Nanos::ZERO,
            histogram_window: Nanos::ZERO,
            coarseness: 0,
            largest: false,
            offset: false,
            priority: false,
            per_job: true,
        }
    }
}

impl LogRules {
    /// The logs of a clone and their files' names. `number` counts all clones of the run, from 1.
    #[must_use]
    pub fn files(&self, job_name: &str, number: u32) -> Vec<(LogKind, String)> {
        let kinds = [
            (&self.bandwidth, LogKind::Bandwidth),
            (&self.latency, LogKind::Submission),
            (&self.latency, LogKind::Completion),
            (&self.latency, LogKind::Total),
            (&self.iops, LogKind::Iops),
            (&self.histogram, LogKind::Histogram),
        ];
        let wanted =
            kinds.into_iter().filter_map(|(prefix, kind)| Some((prefix.as_deref()?, kind)));
        let name = |(prefix, kind): (&str, LogKind)| {
            let prefix = if prefix.is_empty() { job_name } else { prefix };
            let suffix = kind.suffix();
            let name = if self.per_job {
                format!("{prefix}_{suffix}.{number}.log")
            } else {
                format!("{prefix}_{suffix}.log")
            };
            (kind, name)
        };
        wanted.map(name).collect()
    }

    /// Whether any log is written.
    #[must_use]
    pub fn is_used(&self) -> bool {
        [&self.bandwidth, &self.latency, &self.iops, &self.histogram]
            .iter()
            .any(|prefix| prefix.is_some())
    }

    /// Reads one option; false if it is not one of these. A log option without a value takes the
    /// job's name as its prefix.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        let text = value.unwrap_or("1");
        let prefix = || Some(value.unwrap_or("").to_owned());
        match name {
            "write_bw_log" => self.bandwidth = prefix(),
            "write_lat_log" => self.latency = prefix(),
            "write_iops_log" => self.iops = prefix(),
            "write_hist_log" => self.histogram = prefix(),
            "log_avg_msec" => self.window = read.time(text, MILLISECOND)?,
            "log_hist_msec" => self.histogram_window = read.time(text, MILLISECOND)?,
            "log_hist_coarseness" => self.coarseness = read.small(text, 0, 6)?,
            "log_max_value" => self.largest = value::boolean(text)?,
            "log_offset" => self.offset = value::boolean(text)?,
            "log_prio" => self.priority = value::boolean(text)?,
            "per_job_logs" => self.per_job = value::boolean(text)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// One I/O that has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedIo {
    /// Time since the start of the job.
    pub at: Nanos,
    /// The direction.
    pub direction: Direction,
    /// Length in bytes.
    pub bytes: u64,
    /// Offset in bytes.
    pub offset: u64,
    /// From preparation to submission; `None` for engines that block.
    pub submission: Option<Nanos>,
    /// From submission to completion.
    pub completion: Nanos,
    /// The priority, if it is not the default one.
    pub priority: Option<IoPriority>,
}

/// Sum, number and largest of a window's values.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    sum: u128,
    count: u64,
    largest: u64,
}

impl Window {
    fn add(&mut self, value: u64) {
        self.sum += u128::from(value);
        self.count += 1;
        self.largest = self.largest.max(value);
    }

    fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count));
        u64::try_from(mean.unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

/// One log of one clone.
#[derive(Debug)]
pub struct JobLog<W: Write> {
    kind: LogKind,
    rules: LogRules,
    out: W,
    /// How long a window is; zero is one line per I/O.
    span: Nanos,
    /// End of the window, since the start of the job.
    ends: Nanos,
    windows: [Window; 3],
    bins: [Vec<u64>; 3],
    /// Block of the last I/O of each direction.
    block: [u64; 3],
}

impl<W: Write> JobLog<W> {
    /// A log into `out`.
    #[must_use]
    pub fn new(kind: LogKind, rules: &LogRules, out: W) -> JobLog<W> {
        let histogram = kind == LogKind::Histogram;
        let span = if histogram { rules.histogram_window } else { rules.window };
        let bins = if histogram { BINS } else { 0 };
        JobLog {
            kind,
            rules: rules.clone(),
            out,
            span,
            ends: span,
            windows: [Window::default(); 3],
            bins: Direction::ALL.map(|_| vec![0; bins]),
            block: [0; 3],
        }
    }

    /// An I/O has completed.
    ///
    /// # Errors
    /// Those of the output.
    pub fn completed(&mut self, io: &LoggedIo) -> io::Result<()> {
        let Some(value) = self.value(io) else { return Ok(()) };
        if self.span == Nanos::ZERO {
            return if self.kind == LogKind::Histogram { Ok(()) } else { self.single(io, value) };
        }
        self.turn(io.at)?;
        let way = io.direction as usize;
        self.windows[way].add(value);
        self.block[way] = io.bytes;
        if let Some(bin) = self.bins[way].get_mut(bin_of(value).min(BINS - 1)) {
            *bin += 1;
        }
        Ok(())
    }

    /// The job has ended at `now`, since its start. Gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self, now: Nanos) -> io::Result<W> {
        if self.span > Nanos::ZERO {
            self.turn(now)?;
            let latency =
                matches!(self.kind, LogKind::Submission | LogKind::Completion | LogKind::Total);
            if latency {
                self.write_window(now)?;
            }
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// The value that this log has for an I/O, alone or as part of a window.
    fn value(&self, io: &LoggedIo) -> Option<u64> {
        Some(match self.kind {
            LogKind::Submission => io.submission?.0,
            LogKind::Completion | LogKind::Histogram => io.completion.0,
            LogKind::Total => (io.submission.unwrap_or(Nanos::ZERO) + io.completion).0,
            LogKind::Iops => 1,
            LogKind::Bandwidth if self.span > Nanos::ZERO => io.bytes,
            LogKind::Bandwidth => {
                let rate = u128::from(io.bytes) * 1_000_000 / u128::from(io.completion.0.max(1));
                u64::try_from(rate).unwrap_or(u64::MAX)
            }
        })
    }

    fn single(&mut self, io: &LoggedIo, value: u64) -> io::Result<()> {
        let (ms, way, bytes) = (io.at.as_millis(), io.direction as usize, io.bytes);
        write!(self.out, "{ms}, {value}, {way}, {bytes}")?;
        self.tail(io.offset, io.priority)
    }

    /// Offset, if wanted, and priority.
    fn tail(&mut self, offset: u64, priority: Option<IoPriority>) -> io::Result<()> {
        if self.rules.offset {
            write!(self.out, ", {offset}")?;
        }
        if self.rules.priority {
            return writeln!(self.out, ", 0x{:04x}", priority.map_or(0, IoPriority::packed));
        }
        let first = priority.is_some_and(|priority| priority.class == REAL_TIME);
        writeln!(self.out, ", {}", u8::from(first))
    }

    /// Writes the window if it is over at `now`, and goes on to the one in which `now` lies.
    fn turn(&mut self, now: Nanos) -> io::Result<()> {
        if now < self.ends {
            return Ok(());
        }
        self.write_window(self.ends)?;
        self.windows = [Window::default(); 3];
        self.bins.iter_mut().for_each(|bins| bins.fill(0));
        self.ends = Nanos(now.0 - now.0 % self.span.0) + self.span;
        Ok(())
    }

    fn write_window(&mut self, at: Nanos) -> io::Result<()> {
        for (way, window) in self.windows.into_iter().enumerate() {
            if window.count == 0 {
                continue;
            }
            if self.kind == LogKind::Histogram {
                self.histogram(at, way)?;
                continue;
            }
            let value = self.value_of(window);
            write!(self.out, "{}, {value}, {way}, 0", at.as_millis())?;
            self.tail(0, None)?;
        }
        Ok(())
    }

    fn value_of(&self, window: Window) -> u64 {
        let per_second = |amount: u128| {
            u64::try_from(amount * 1_000_000_000 / u128::from(self.span.0)).unwrap_or(u64::MAX)
        };
        match self.kind {
            LogKind::Bandwidth => per_second(window.sum) / 1024,
            LogKind::Iops => per_second(window.sum),
            _ if self.rules.largest => window.largest,
            _ => window.mean(),
        }
    }

    fn histogram(&mut self, at: Nanos, way: usize) -> io::Result<()> {
        write!(self.out, "{}, {way}, {}", at.as_millis(), self.block[way])?;
        for joined in self.bins[way].chunks(1 << self.rules.coarseness) {
            write!(self.out, ", {}", joined.iter().sum::<u64>())?;
        }
        writeln!(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(at_ms: u64, direction: Direction, completion_ns: u64) -> LoggedIo {
        LoggedIo {
            at: Nanos::from_millis(at_ms),
            direction,
            bytes: 4096,
            offset: 8192,
            submission: Some(Nanos(100)),
            completion: Nanos(completion_ns),
            priority: None,
        }
    }

    fn log(kind: LogKind, rules: &LogRules, ios: &[LoggedIo], end_ms: u64) -> String {
        let mut log = JobLog::new(kind, rules, Vec::new());
        for io in ios {
            log.completed(io).unwrap();
        }
        String::from_utf8(log.end(Nanos::from_millis(end_ms)).unwrap()).unwrap()
    }

    /// Are single lines those of fio? Of an I/O of 4 KiB in 30676 ns fio wrote 133524 (bytes per
    /// ms), 30676 and 1.
    #[test]
    fn one_line_for_each_io() {
        let rules = LogRules::default();
        let ios = [io(0, Direction::Read, 30_676), io(3, Direction::Write, 1_000)];
        assert_eq!(log(LogKind::Bandwidth, &rules, &ios[..1], 9), "0, 133524, 0, 4096, 0\n");
        assert_eq!(
            log(LogKind::Completion, &rules, &ios, 9),
            "0, 30676, 0, 4096, 0\n3, 1000, 1, 4096, 0\n"
        );
        assert_eq!(log(LogKind::Total, &rules, &ios[1..], 9), "3, 1100, 1, 4096, 0\n");
        assert_eq!(log(LogKind::Iops, &rules, &ios[1..], 9), "3, 1, 1, 4096, 0\n");
        let blocking = LoggedIo { submission: None, ..ios[0] };
        assert_eq!(log(LogKind::Submission, &rules, &[blocking], 9), "");
    }

    /// Do offset and priority follow if requested? Class 1 level 2 is 0x2002.
    #[test]
    fn offset_and_priority() {
        let first = LoggedIo {
            priority: Some(IoPriority { class: 1, level: 2 }),
            ..io(0, Direction::Read, 500)
        };
        let both = LogRules { offset: true, priority: true, ..LogRules::default() };
        assert_eq!(log(LogKind::Completion, &both, &[first], 1), "0, 500, 0, 4096, 8192, 0x2002\n");
        let plain = LogRules::default();
        assert_eq!(log(LogKind::Completion, &plain, &[first], 1), "0, 500, 0, 4096, 1\n");
    }

    /// Are windows written at their ends, with the rest of latencies only? 50 reads of 4 KiB in
    /// 200 ms are 250 per second, 1000 KiB/s.
    #[test]
    fn windows() {
        let rules = LogRules { window: Nanos::from_millis(200), ..LogRules::default() };
        let ios: Vec<LoggedIo> = (0..60).map(|n| io(n * 4, Direction::Read, n)).collect();
        assert_eq!(log(LogKind::Bandwidth, &rules, &ios, 240), "200, 1000, 0, 0, 0\n");
        assert_eq!(log(LogKind::Iops, &rules, &ios, 240), "200, 250, 0, 0, 0\n");
        // Means of 0..=49 and of 50..=59, rounded down.
        assert_eq!(
            log(LogKind::Completion, &rules, &ios, 240),
            "200, 24, 0, 0, 0\n240, 54, 0, 0, 0\n"
        );
        let largest = LogRules { largest: true, ..rules.clone() };
        assert_eq!(
            log(LogKind::Completion, &largest, &ios, 240),
            "200, 49, 0, 0, 0\n240, 59, 0, 0, 0\n"
        );
        // Windows without I/O have no line, and do not move the later ones.
        let apart = [io(10, Direction::Read, 7), io(1010, Direction::Write, 9)];
        assert_eq!(
            log(LogKind::Completion, &rules, &apart, 1200),
            "200, 7, 0, 0, 0\n1200, 9, 1, 0, 0\n"
        );
    }

    /// Has a histogram fio's bins? 40570 is in bin 655; of 2^4 joined ones in 655 / 16 = 40. A
    /// window that is cut off at the end has no line.
    #[test]
    fn histograms() {
        let rules = LogRules {
            histogram_window: Nanos::from_millis(100),
            coarseness: 4,
            ..LogRules::default()
        };
        let ios = [
            io(10, Direction::Write, 40_570),
            io(20, Direction::Write, 40_570),
            io(150, Direction::Read, 1),
        ];
        let text = log(LogKind::Histogram, &rules, &ios, 160);
        let fields: Vec<&str> = text.trim_end().split(", ").collect();
        assert_eq!(fields.len(), 3 + BINS / 16);
        assert_eq!((fields[..3].to_vec(), fields[3 + 40]), (vec!["100", "1", "4096"], "2"));
        assert_eq!(text.lines().count(), 1);
        // Without log_hist_msec the file stays empty.
        assert_eq!(log(LogKind::Histogram, &LogRules::default(), &ios, 160), "");
    }

    /// Have files fio's names?
    #[test]
    fn names_of_files() {
        let mut rules = LogRules::default();
        let mut notes = Vec::new();
        let mut read = Reader::new(1024, &mut notes);
        rules.set("write_bw_log", Some("out/p"), &mut read).unwrap();
        rules.set("write_lat_log", None, &mut read).unwrap();
        let names: Vec<String> = rules.files("job", 3).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["out/p_bw.3.log", "job_slat.3.log", "job_clat.3.log", "job_lat.3.log"]);
        rules.per_job = false;
        assert_eq!(rules.files("job", 3)[0].1, "out/p_bw.log");
        assert!(rules.is_used() && !LogRules::default().is_used());
    }
}
