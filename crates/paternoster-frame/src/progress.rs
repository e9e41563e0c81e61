// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: one line on a terminal while runs, or traces, take longer than a moment; nothing
//! anywhere else.
//!
//! ```text
//! - bfq on hdd-7200: 42 %, 3s left: 1,234,567 requests, 0 of 4 jobs ended
//! - 7 of 60 runs done, 41s left: bfq, seed 2
//! ```
//!
//! The total is known for jobs that all have a runtime, and for a replay: its I/Os.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use paternoster_core::Nanos;
use paternoster_workload::Progress;
use paternoster_workload::fio::job::Job;

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// Unknown.
    Unknown,
    /// It ends at this time on its clock, or sooner.
    Until(Nanos),
    /// About this many requests.
    Requests(u64),
}

impl Whole {
    /// For jobs that end after `runtime`, or their own: a section lasts as long as its longest, and
    /// the next one begins after it.
    pub fn of(jobs: &[Job], runtime: Option<Nanos>) -> Whole {
        let (mut before, mut longest) = (Nanos::ZERO, Nanos::ZERO);
        for job in jobs {
            let Some(runtime) = runtime.or(job.time.runtime) else { return Whole::Unknown };
            if job.clones.stonewall {
                before = before.max(longest);
            }
            let begins = before.max(job.time.start_delay.1);
            longest = longest.max(begins + job.time.ramp_time + runtime);
        }
        Whole::Until(longest)
    }

    /// How much of it is done, of `PARTS`.
    fn done(self, progress: Progress) -> Option<u64> {
        let (done, all) = match self {
            Whole::Unknown => return None,
            Whole::Until(end) => (progress.now.0, end.0),
            Whole::Requests(all) => (progress.requests, all),
        };
        let parts = u128::from(done.min(all)) * u128::from(PARTS) / u128::from(all.max(1));
        u64::try_from(parts).ok()
    }
}

/// What a run is divided into.
const PARTS: u64 = 1000;

/// The line.
#[derive(Debug)]
pub struct Display(Option<ProgressBar>, Whole);

impl Display {
    /// A line for this run, if standard error is a terminal.
    pub fn new(quiet: bool, what: &str, whole: Whole) -> Display {
        let style = ProgressStyle::with_template(match whole {
            Whole::Unknown => "{spinner} {prefix}: {msg}",
            _ => "{spinner} {prefix}: {percent} %, {eta} left: {msg}",
        });
        match (quiet, style) {
            (false, Ok(style)) => {
                let bar = ProgressBar::new(PARTS).with_style(style).with_prefix(what.to_owned());
                bar.enable_steady_tick(Duration::from_millis(200));
                Display(Some(bar), whole)
            }
            _ => Display(None, whole),
        }
    }

    /// This many events of a trace were read.
    pub fn read(&self, events: u64) {
        if let Some(bar) = &self.0 {
            bar.set_message(format!("{events} events"));
        }
    }

    /// Shows how far the run is.
    pub fn update(&self, progress: Progress) {
        if let Some(bar) = &self.0 {
            let Progress { now, requests, ended: (ended, all) } = progress;
            let seconds = now.as_millis() / 1000;
            bar.set_message(format!(
                "{seconds} s on its clock, {requests} requests, {ended} of {all} jobs ended"
            ));
            if let Some(done) = self.1.done(progress) {
                bar.set_position(done);
            }
        }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// The line for many runs on several threads.
#[derive(Debug)]
pub struct Steps(Option<ProgressBar>);

impl Steps {
    /// A line for this many runs, if standard error is a terminal.
    pub fn new(quiet: bool, count: usize) -> Steps {
        let style =
            ProgressStyle::with_template("{spinner} {pos} of {len} runs done, {eta} left: {msg}");
        match (quiet, style) {
            (false, Ok(style)) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                let bar = ProgressBar::new(count).with_style(style);
                bar.enable_steady_tick(Duration::from_millis(200));
                Steps(Some(bar))
            }
            _ => Steps(None),
        }
    }

    /// Counts one more, and shows that it was this one.
    pub fn done(&self, name: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(name.to_owned());
            bar.inc(1);
        }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use paternoster_workload::fio::jobfile::{Source, parse};

    use super::*;

    /// Is the end of a run known from its jobs' times, section by section, and unknown if one job
    /// has none?
    #[test]
    fn the_end_is_known() {
        let whole = |text: &str| {
            let source = [Source { name: "a.fio", text }];
            let none = |_: &str, _: &str| Err(String::new());
            let jobs = parse(&source, &[], &[], &|_| None, &none).expect("it is right").jobs;
            Whole::of(&jobs, None)
        };
        // 1 s ramp and 4 s, then 2 s after the wall.
        let text = "[global]\nsize=1m\n[a]\nruntime=4\nramp_time=1\n[b]\nruntime=3\n\
                    [c]\nstonewall\nruntime=2\n";
        assert_eq!(whole(text), Whole::Until(Nanos::from_secs(7)));
        assert_eq!(whole("[global]\nsize=1m\n[a]\nruntime=4\n[b]\n"), Whole::Unknown);
    }

    /// Is progress shown in parts of the whole, and never as more than that?
    #[test]
    fn parts_are_of_the_whole() {
        let at = |seconds| Progress { now: Nanos::from_secs(seconds), requests: 5, ended: (0, 1) };
        let whole = Whole::Until(Nanos::from_secs(4));
        assert_eq!([1, 4, 9].map(|at_| whole.done(at(at_))), [Some(250), Some(1000), Some(1000)]);
        assert_eq!(Whole::Requests(10).done(at(1)), Some(500));
        assert_eq!(Whole::Unknown.done(at(1)), None);
    }
}
