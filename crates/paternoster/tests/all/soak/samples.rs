// SPDX-License-Identifier: MIT OR Apache-2.0
//! What servers hold over the time of the soak, and the law that it does not grow.
//!
//! ```text
//! one after the other, by hand-over    last sample of each: first quarter │ … │ last quarter
//! the last server, which stays         all its samples:     first quarter │ … │ last quarter
//! ```
//!
//! A quarter's figure is its median; the last one may exceed the first by as much as an allocator
//! may cache, not by as much as an hour of leaks. Kernel threads that work for io_uring come and go
//! and are counted with them.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// One measurement of a server.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// Number of the server.
    pub(crate) number: u32,
    /// KiB, resident.
    pub(crate) memory: u64,
    /// Descriptors, except those of the idle clients that the soak keeps connected.
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    /// User and system time of the process, in hundredths of a second.
    pub(crate) ticks: u64,
}

impl Sample {
    /// Looks at an existing process.
    pub(crate) fn new(at: Duration, number: u32, process: u32, idle: usize) -> Sample {
        let read =
            |name| fs::read_to_string(format!("/proc/{process}/{name}")).expect("it is there");
        let status = read("status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("its line");
            line.split_whitespace().next().and_then(|text| text.parse().ok()).expect("a number")
        };
        let stat = read("stat");
        let times = stat[stat.rfind(')').expect("a name")..].split(' ').skip(12).take(2);
        let ticks = times.map(|text| text.parse::<u64>().expect("a number")).sum();
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).expect("it is there").count();
        let descriptors = descriptors.saturating_sub(idle) as u64;
        let (memory, threads) = (field("VmRSS:"), field("Threads:"));
        Sample { at, number, memory, descriptors, threads, ticks }
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// A figure's medians in the first and in the last quarter.
fn quarters(samples: &[Sample], figure: fn(&Sample) -> u64) -> (u64, u64) {
    let quarter = samples.len().div_ceil(4);
    let of = |samples: &[Sample]| median(samples.iter().map(figure));
    (of(&samples[..quarter]), of(&samples[samples.len() - quarter..]))
}

/// Judges samples of servers that followed each other; text with the figures, or what has grown.
pub(crate) fn judge(all: &[Sample]) -> Result<String, String> {
    let newest = all.last().expect("a sample").number;
    let is_last =
        |(at, it): &(usize, &Sample)| all.get(at + 1).is_none_or(|next| next.number != it.number);
    let ends = all.iter().enumerate().filter(is_last).map(|(_, it)| *it).collect::<Vec<_>>();
    let stays = all.iter().filter(|it| it.number == newest).copied().collect::<Vec<_>>();
    let (mut told, mut grown) = (String::new(), String::new());
    for (who, samples) in [("servers one behind the other", &ends), ("the last server", &stays)] {
        for (what, figure, more) in [
            ("KiB", (|it| it.memory) as fn(&Sample) -> u64, 8 << 10),
            ("descriptors", |it| it.descriptors, 6),
            ("threads", |it| it.threads, 16),
        ] {
            let (first, last) = quarters(samples, figure);
            let count = samples.len();
            let line =
                format!("{who}: {what} {first} at first, {last} at last ({count} samples)\n");
            let _ = write!(told, "{line}");
            if last > first + more {
                grown += &line;
            }
        }
    }
    if grown.is_empty() { Ok(told) } else { Err(format!("it grows:\n{grown}")) }
}

/// Is a leak found, whether one descriptor is lost at each hand-over or the last server leaks; and
/// is noise not taken for a leak?
#[test]
fn a_leak_is_found() {
    let sample = |at: u64, number: u32, descriptors: u64| Sample {
        at: Duration::from_secs(at),
        number,
        memory: 50_000 + at % 7,
        descriptors: descriptors + at % 3,
        threads: 5,
        ticks: 0,
    };
    let each = |leak: u64, last: u64| {
        let young =
            (0..40).map(move |at| sample(at, u32::try_from(at / 2).unwrap(), 20 + leak * at / 2));
        let stays = move |at| sample(at, 20, 20 + leak * 20 + last * (at - 40) / 4);
        young.chain((40..100).map(stays)).collect::<Vec<_>>()
    };
    assert!(judge(&each(0, 0)).is_ok());
    let error = judge(&each(1, 0)).unwrap_err();
    assert!(
        error.contains("one behind the other") && !error.contains("the last server"),
        "{error}"
    );
    let error = judge(&each(0, 1)).unwrap_err();
    assert!(error.contains("the last server"), "{error}");
}
