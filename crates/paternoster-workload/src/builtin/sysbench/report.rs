// SPDX-License-Identifier: MIT OR Apache-2.0
//! Report: what sysbench prints, in both its forms.
//!
//! | form | of | after the heading |
//! |---|---|---|
//! | [`Form::Newer`] | 1.1, the development version | `Throughput:` with IOPS, `Latency (ms):` |
//! | [`Form::Older`] | 1.0, in distributions | `File operations:`, `Throughput:`, |
//! | | | `General statistics:`, `Latency (ms):` |
//!
//! `Threads fairness:` is at the end of both; the development version leaves it out for files.
//! Percentiles are those of our histogram (bins of 1.6 %), sysbench's are those of another one.
//!
//! Source: LOAD-9; reports that users of sysbench have published.

use std::fmt::Write as _;

use paternoster_core::Nanos;

use super::{IoMode, Mode, Sysbench, Thread, Totals, count};
use crate::builtin::seconds;
use crate::fio::syncs::FileSync;

/// Which of the forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As sysbench 1.1 has it.
    Newer,
    /// As sysbench 1.0 has it.
    Older,
}

impl Sysbench {
    /// The lines before the figures; `seed` is that of random places.
    #[must_use]
    pub fn heading(&self, seed: u64) -> String {
        let mut text = format!(
            "sysbench fileio, in virtual time by paternoster {}\n\n\
             Running the test with following options:\nNumber of threads: {}\n",
            env!("CARGO_PKG_VERSION"),
            self.threads
        );
        if let Some(rate) = self.rate {
            let _infallible = writeln!(text, "Target transaction rate: {rate}/sec");
        }
        if let Some(interval) = self.report_interval {
            let every = seconds(interval);
            let _infallible = writeln!(text, "Report intermediate results every {every} second(s)");
        }
        let _infallible =
            writeln!(text, "Initializing random number generator from seed ({seed}).\n\n");
        text.push_str(&self.files_heading());
        text.push_str("Initializing worker threads...\n\nThreads started!\n\n");
        text
    }

    fn files_heading(&self) -> String {
        let Sysbench { files, ratio, sync_every, mode, .. } = *self;
        let bytes = self.file_bytes();
        let mut text = format!(
            "Extra file open flags: {}\n{files} files, {} each\n{} total file size\n\
             Block size {}\n",
            self.flags(),
            size(bytes),
            size(bytes * u64::from(files)),
            size(self.block)
        );
        if mode.is_random() {
            let events = self.events.unwrap_or(0);
            let _infallible = writeln!(
                text,
                "Number of IO requests: {events}\n\
                 Read/Write ratio for combined random IO test: {ratio:.2}"
            );
        }
        let call = self.sync_call.name();
        if self.sync_all {
            let _infallible = writeln!(text, "Calling {call}() after each write operation.");
        } else if sync_every > 0 {
            let _infallible = writeln!(
                text,
                "Periodic FSYNC enabled, calling {call}() each {sync_every} requests."
            );
        }
        if self.sync_end {
            let _infallible = writeln!(text, "Calling {call}() at the end of test, Enabled.");
        }
        text.push_str(match self.io_mode {
            IoMode::Sync => "Using synchronous I/O mode\n",
            IoMode::Async(_) => "Using asynchronous I/O mode\n",
        });
        let _infallible = writeln!(text, "Doing {} test", what(mode));
        text
    }

    fn flags(&self) -> String {
        let open = match self.open {
            FileSync::None => None,
            FileSync::Sync => Some("sync"),
            FileSync::Dsync => Some("dsync"),
        };
        let words: Vec<&str> = open.into_iter().chain(self.direct.then_some("directio")).collect();
        if words.is_empty() { "(none)".to_owned() } else { words.join(" ") }
    }

    /// The line of `--report-interval` at `at`, for what was done since the previous one.
    #[must_use]
    pub fn interim(&self, at: Nanos, since: &Totals) -> String {
        let [read, written] = since.bytes_per_second().map(mega);
        let (fsyncs, per_cent) = (since.fsyncs_per_second(), self.percentile);
        let latency = since.percentile_ms(per_cent);
        format!(
            "[ {:.0}s ] reads: {read:4.2} MiB/s writes: {written:4.2} MiB/s fsyncs: {fsyncs:4.2}/s \
             latency (ms,{per_cent}%): {latency:4.3}\n",
            seconds(at)
        )
    }

    /// The figures.
    #[must_use]
    pub fn figures(&self, form: Form, totals: &Totals) -> String {
        let mut text = match form {
            Form::Newer => throughput(totals),
            Form::Older => operations(totals),
        };
        text.push_str(&self.latency(totals));
        text.push_str(&fairness(&totals.threads));
        text
    }

    fn latency(&self, totals: &Totals) -> String {
        let (least, mean) = (1000.0 * seconds(totals.least), totals.mean_ms());
        let greatest = 1000.0 * seconds(totals.greatest);
        let percentile = match self.percentile {
            0 => "         percentile stats:               disabled\n".to_owned(),
            at => {
                let latency = totals.percentile_ms(at);
                format!("        {at:3}th percentile:                {latency:10.2}\n")
            }
        };
        format!(
            "\nLatency (ms):\n\
             \x20        min:                            {least:10.2}\n\
             \x20        avg:                            {mean:10.2}\n\
             \x20        max:                            {greatest:10.2}\n\
             {percentile}\
             \x20        sum:                            {:10.2}\n",
            1000.0 * totals.busy_seconds()
        )
    }
}

fn throughput(totals: &Totals) -> String {
    let [read, written] = totals.bytes_per_second();
    let (reads, writes) = (totals.reads_per_second(), totals.writes_per_second());
    format!(
        "\nThroughput:\n\
         \x20        read:  IOPS={reads:4.2} {:4.2} MiB/s ({:4.2} MB/s)\n\
         \x20        write: IOPS={writes:4.2} {:4.2} MiB/s ({:4.2} MB/s)\n\
         \x20        fsync: IOPS={:4.2}\n",
        mega(read),
        read / 1e6,
        mega(written),
        written / 1e6,
        totals.fsyncs_per_second()
    )
}

fn operations(totals: &Totals) -> String {
    let [read, written] = totals.bytes_per_second().map(mega);
    format!(
        "\nFile operations:\n\
         \x20   reads/s:                      {:4.2}\n\
         \x20   writes/s:                     {:4.2}\n\
         \x20   fsyncs/s:                     {:4.2}\n\n\
         Throughput:\n\
         \x20   read, MiB/s:                  {read:4.2}\n\
         \x20   written, MiB/s:               {written:4.2}\n\n\
         General statistics:\n\
         \x20   total time:                          {:.4}s\n\
         \x20   total number of events:              {}\n",
        totals.reads_per_second(),
        totals.writes_per_second(),
        totals.fsyncs_per_second(),
        seconds(totals.time),
        totals.events()
    )
}

fn fairness(threads: &[Thread]) -> String {
    let events: Vec<f64> = threads.iter().map(|thread| count(thread.events)).collect();
    let times: Vec<f64> = threads.iter().map(|thread| thread.seconds).collect();
    let ((events, events_off), (time, time_off)) = (spread(&events), spread(&times));
    format!(
        "\nThreads fairness:\n\
         \x20   events (avg/stddev):           {events:.4}/{events_off:3.2}\n\
         \x20   execution time (avg/stddev):   {time:.4}/{time_off:3.2}\n\n"
    )
}

/// Mean and deviation of all there are.
fn spread(values: &[f64]) -> (f64, f64) {
    let number = count(values.len().max(1) as u64);
    let mean = values.iter().sum::<f64>() / number;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squares / number).sqrt())
}

const fn what(mode: Mode) -> &'static str {
    match mode {
        Mode::SequentialWrite => "sequential write (creation)",
        Mode::SequentialRewrite => "sequential rewrite",
        Mode::SequentialRead => "sequential read",
        Mode::RandomRead => "random read",
        Mode::RandomWrite => "random write",
        Mode::RandomReadWrite => "random r/w",
    }
}

/// MiB, of bytes.
fn mega(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// `16MiB`, `78.125GiB`, `4.8828TiB`: five digits, without trailing zeros.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut place) = (count(bytes), 0);
    while value >= 1024.0 && place + 1 < units.len() {
        value /= 1024.0;
        place += 1;
    }
    let decimals = 5_usize.saturating_sub(format!("{:.0}", value.trunc()).len());
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", units[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are sizes those of published reports: `--file-total-size=5000G` in 64 files, 10 KiB blocks?
    #[test]
    fn sizes_are_those_of_sysbench() {
        assert_eq!(size(16 << 20), "16MiB");
        assert_eq!(size(5000 << 30), "4.8828TiB");
        assert_eq!(size((5000 << 30) / 64), "78.125GiB");
        assert_eq!(size(10_240), "10KiB");
        assert_eq!(size(1000), "1000B");
        assert_eq!(size(102_400_000_000 << 10), "95.367TiB");
    }

    /// Are mean and deviation those of all threads? 2, 4, 4, 4, 5, 5, 7, 9 is the textbook's: 5, 2.
    #[test]
    fn spreads_are_of_all() {
        let (mean, deviation) = spread(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert!((mean - 5.0).abs() < 1e-12 && (deviation - 2.0).abs() < 1e-12);
    }
}
