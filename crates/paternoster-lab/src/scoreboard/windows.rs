// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows: the times of a run in which its load is constant. Shares are judged separately in each.
//!
//! ```text
//! stays   ├───────────────────────────────┤
//! comes   ·       ├───────────────────────┤      cuts: it begins, it ends, its weight changes
//! goes    ├───────────────┤       ·
//!         0      │1       │2              │      the first tenth after a cut is for adapting
//! ```
//!
//! Job files say when clients come, go and change as if a run settled for 2 s and were measured for
//! 8; [`Scale`] stretches that to the times of a device.
//!
//! # Invariants
//! I1  Within a window no client begins or ends, and nothing changes.

use paternoster_core::Nanos;
use paternoster_workload::entitlement::WEIGHT;
use paternoster_workload::fio::job::Job;

use super::cell::Times;

/// The times of job files.
const FILE_SETTLES: Nanos = Nanos::from_secs(2);
const FILE_MEASURES: u64 = 8;
/// This part of a window after a cut does not count.
const FINDING_OUT: u64 = 10;
/// `prioclass` of best effort, the default.
const BEST_EFFORT: u8 = 2;

/// From the times of a job file to those of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale(pub(super) Times);

impl Scale {
    /// The instant of a run that a file means by `at`; none is before measuring begins.
    pub(super) fn instant(self, at: Nanos) -> Nanos {
        self.0.settle + self.span(Nanos(at.0.saturating_sub(FILE_SETTLES.0)))
    }

    /// The length of a span in a run.
    pub(super) fn span(self, span: Nanos) -> Nanos {
        let file = u128::from(Nanos::from_secs(FILE_MEASURES).0);
        let stretched = u128::from(span.0) * u128::from(self.0.measure.0) / file;
        Nanos(u64::try_from(stretched).unwrap_or(u64::MAX))
    }
}

/// What a client of a job is in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Standing {
    pub(super) weight: f64,
    /// As `prioclass` counts: 1 real time, 2 best effort, 3 idle.
    pub(super) class: u8,
}

/// A time in which the load is constant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Window {
    pub(super) begin: Nanos,
    pub(super) end: Nanos,
    /// What the clients of each job are, if they are present.
    pub(super) jobs: Vec<Option<Standing>>,
}

impl Window {
    /// Seconds.
    pub(super) fn seconds(&self) -> f64 {
        super::cell::as_f64(self.end.0 - self.begin.0) / 1e9
    }
}

/// When a job's clients begin, and when they end.
fn span(job: &Job, times: Times) -> (Nanos, Nanos) {
    let begin = job.time.start_delay.0;
    (begin, begin + job.time.ramp_time + job.time.runtime.unwrap_or(times.measure))
}

/// The windows of a run of these jobs, one after the other.
pub(super) fn windows(jobs: &[Job], times: Times) -> Vec<Window> {
    let (first, last) = (times.settle, times.settle + times.measure);
    let mut cuts = vec![first, last];
    for job in jobs {
        let (begin, end) = span(job, times);
        cuts.extend([begin, end]);
        cuts.extend(job.ours.changes.all().iter().map(|change| begin + change.at));
    }
    cuts.retain(|cut| (first..=last).contains(cut));
    cuts.sort_unstable();
    cuts.dedup();
    let standing = |job: &Job, at: Nanos, to: Nanos| {
        let (begin, end) = span(job, times);
        let mut standing = Standing {
            weight: job.priority.cgroup_weight.map_or(WEIGHT, f64::from),
            class: job.priority.prioclass.filter(|class| *class > 0).unwrap_or(BEST_EFFORT),
        };
        for change in job.ours.changes.all().iter().filter(|change| begin + change.at <= at) {
            standing.weight = change.cgroup_weight.map_or(standing.weight, f64::from);
            standing.class = change.prioclass.unwrap_or(standing.class);
        }
        (begin <= at && end >= to).then_some(standing)
    };
    let window = |pair: &[Nanos]| {
        let (cut, end) = (pair[0], pair[1]);
        let lost = if cut > first { Nanos((end.0 - cut.0) / FINDING_OUT) } else { Nanos::ZERO };
        let jobs = jobs.iter().map(|job| standing(job, cut, end)).collect();
        Window { begin: cut + lost, end, jobs }
    };
    cuts.windows(2).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cell;
    use super::super::workloads::by_name;
    use super::*;
    use paternoster_frame::target::{Real, Target};

    /// Are changes of weight and arriving clients cuts, each where the file says? W24 changes at 4
    /// and 7 s of 2 to 10: after 1 and 2.5 quarters of 20 s after 5, and a tenth of each span (7.5
    /// and 7.5 s) is lost. W10's four begin where measuring does: no cut.
    #[test]
    fn loads_are_constant_between_cuts() {
        let card = Target::find("flash-card-2010", Real::Refused, 0).expect("it is there");
        let found = |name: &str| {
            let workload = by_name(name)[0];
            let times = Times::of(&card.facts, &workload);
            windows(&cell::jobs(&workload, &card.facts, times).expect("jobs"), times)
        };
        let changed = found("W24");
        let ms = |window: &Window| (window.begin.0 / 1_000_000, window.end.0 / 1_000_000);
        let all: Vec<(u64, u64)> = changed.iter().map(ms).collect();
        assert_eq!(all, [(5000, 10_000), (10_750, 17_500), (18_250, 25_000)]);
        let weights = |window: &Window| {
            let weight = |one: &Option<Standing>| one.map_or(0.0, |one| one.weight);
            window.jobs.iter().map(weight).collect::<Vec<_>>()
        };
        let all: Vec<Vec<f64>> = changed.iter().map(weights).collect();
        assert_eq!(all, [[100.0, 100.0], [400.0, 100.0], [100.0, 400.0]]);
        assert_eq!(found("W10").len(), 1);
        // Four stay; two are there from 4 to 8 s of 2 to 10.
        let there: Vec<usize> =
            found("W16").iter().map(|one| one.jobs.iter().flatten().count()).collect();
        assert_eq!(there, [4, 6, 4]);
    }
}
