// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes: jobs that change during the run: another weight, class, level or rate.
//!
//! fio has nothing like it; the option is ours, and fio refuses a job that has it. Each `change`
//! says when, counted from the job's start, and what is set then. It may be given as often as
//! needed: unlike every other option it adds to those before it, including those of `[global]`.
//!
//! ```text
//! cgroup_weight=100
//! change=5s cgroup_weight=400                weight   100 ────┐400 ──────────┐400
//! change=8s prioclass=3 rate_iops=200        class    be  ─────be ───────────┘idle, 200 a second
//!                                                    0       5 s            8 s
//! ```
//!
//! A rate restarts when it is set: a job that was late has nothing to catch up. A change leaves
//! what it does not name unchanged.
//!
//! Limit: 256 changes a job, those of `[global]` among them.
//!
//! # Invariants
//! I1  Changes are in the order of their times; those of one time in the order in which they were
//!     written.
//! I2  A change sets something, and nothing that cannot change while a job runs.
//!
//! Source: what an operator does to a running process: `ionice -p`, `io.bfq.weight`, `ctl weight`.

use std::sync::Arc;

use paternoster_core::Nanos;

use super::job::Job;
use super::pace::rates;
use super::value::Reader;

/// The options that may change during a run.
const CAN_CHANGE: &str = "cgroup_weight, prioclass, prio, rate, rate_iops";

/// Changes of one job. A section that adds one to those of `[global]` has a list of its own: of as
/// many jobs as there may be they take 150 MB.
const CHANGES_MAX: usize = 256;

/// What is set at one time; `None` stays unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// Since the job began.
    pub at: Nanos,
    /// Weight of its cgroup.
    pub cgroup_weight: Option<u32>,
    /// I/O class, 0 to 3.
    pub prioclass: Option<u8>,
    /// I/O priority, 0 to 7.
    pub prio: Option<u8>,
    /// Bytes per second: reads, writes, trims.
    pub rate: Option<[Option<u64>; 3]>,
    /// I/Os per second: reads, writes, trims.
    pub rate_iops: Option<[Option<u64>; 3]>,
}

impl Change {
    /// Class or level.
    pub(crate) const fn is_of_priority(&self) -> bool {
        self.prioclass.is_some() || self.prio.is_some()
    }

    /// Whether it says how fast the job may be.
    pub(crate) const fn is_of_rate(&self) -> bool {
        self.rate.is_some() || self.rate_iops.is_some()
    }

    /// What the job is from then on.
    pub(crate) fn write(&self, job: &mut Job) {
        job.priority.cgroup_weight = self.cgroup_weight.or(job.priority.cgroup_weight);
        job.priority.prioclass = self.prioclass.or(job.priority.prioclass);
        job.priority.prio = self.prio.or(job.priority.prio);
        job.pacing.rate = self.rate.unwrap_or(job.pacing.rate);
        job.pacing.rate_iops = self.rate_iops.unwrap_or(job.pacing.rate_iops);
    }
}

/// The changes of a job (I1). Sections and clones that add none have one list together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes(Arc<Vec<Change>>);

impl Changes {
    /// All changes, in the order of their times.
    #[must_use]
    pub fn all(&self) -> &[Change] {
        &self.0
    }

    /// The same at other times.
    #[must_use]
    pub fn at_times(&self, time: impl Fn(Nanos) -> Nanos) -> Changes {
        let moved = self.0.iter().map(|one| Change { at: time(one.at), ..*one });
        Changes(Arc::new(moved.collect()))
    }

    /// Reads one `change`.
    ///
    /// # Errors
    /// The message: what is wrong with it, and what would be right.
    pub(super) fn add(&mut self, text: &str, read: &mut Reader<'_>) -> Result<(), String> {
        let mut words = text.split_whitespace();
        let time = words.next().unwrap_or_default();
        if time.contains('=') {
            return Err(format!("`{time}` is no time: write it first, as in {EXAMPLE}"));
        }
        let mut change = Change { at: read.seconds(time)?, ..Change::default() };
        let mut is_empty = true;
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                return Err(format!("`{word}` is no option with a value: write {EXAMPLE}"));
            };
            match name {
                "cgroup_weight" => change.cgroup_weight = Some(read.small(value, 100, 1000)?),
                "prioclass" => change.prioclass = Some(read.small(value, 0, 3)?),
                "prio" => change.prio = Some(read.small(value, 0, 7)?),
                "rate" => rates(change.rate.insert([None; 3]), value, read)?,
                "rate_iops" => rates(change.rate_iops.insert([None; 3]), value, read)?,
                _ => {
                    let only = "cannot change while a job runs; only these can";
                    return Err(format!("`{name}` {only}: {CAN_CHANGE}"));
                }
            }
            is_empty = false;
        }
        if is_empty {
            return Err(format!("`{text}` changes nothing: write {EXAMPLE}"));
        }
        if self.0.len() >= CHANGES_MAX {
            return Err(format!(
                "the job has {CHANGES_MAX} changes already, those of `[global]` among them, and \
                 no more fit: leave some out"
            ));
        }
        let place = self.0.partition_point(|other| other.at <= change.at);
        Arc::make_mut(&mut self.0).insert(place, change);
        Ok(())
    }

    /// Whether they go together with the job's other options.
    ///
    /// # Errors
    /// What is missing, or what conflicts in saying when the job may issue.
    pub(super) fn check(&self, job: &Job, notes: &mut Vec<String>) -> Result<(), String> {
        let name = &job.name;
        if self.0.is_empty() {
            return Ok(());
        }
        if job.priority.cgroup.is_none()
            && self.0.iter().any(|change| change.cgroup_weight.is_some())
        {
            return Err(format!(
                "job `{name}` changes the weight of its cgroup and has none: give it cgroup=NAME"
            ));
        }
        if job.ours.frames.period.is_some() && self.0.iter().any(Change::is_of_rate) {
            return Err(format!(
                "job `{name}` is a player: frame_period says when it issues, so its rate cannot \
                 change"
            ));
        }
        notes.push(format!("job `{name}` changes in mid-run (change); fio has no such option"));
        Ok(())
    }
}

const EXAMPLE: &str = "change=5s cgroup_weight=400";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<Changes, String> {
        let (mut changes, mut notes) = (Changes::default(), Vec::new());
        for line in lines {
            changes.add(line, &mut Reader::new(1024, &mut notes))?;
        }
        Ok(changes)
    }

    /// Are changes in the order of their times, those of one time as they were written (I1)?
    #[test]
    fn changes_are_in_order() {
        let lines = ["8 prioclass=3", "500ms rate_iops=200,100", "8s prio=2 rate=1m", "2 prio=0"];
        let changes = read(&lines).unwrap();
        let millis: Vec<u64> = changes.all().iter().map(|change| change.at.as_millis()).collect();
        assert_eq!(millis, [500, 2000, 8000, 8000]);
        assert_eq!(changes.all()[0].rate_iops, Some([Some(200), Some(100), Some(100)]));
        assert_eq!((changes.all()[2].prioclass, changes.all()[2].prio), (Some(3), None));
        let last = changes.all()[3];
        assert_eq!((last.prio, last.rate), (Some(2), Some([Some(1 << 20); 3])));
    }

    /// Are mistakes reported with what would be right (I2)?
    #[test]
    fn refusals() {
        for (line, words) in [
            ("prio=1 5s", "`prio=1` is no time: write it first"),
            ("5s", "`5s` changes nothing"),
            ("5s iodepth=4", "`iodepth` cannot change while a job runs; only these can: cgroup_w"),
            ("5s prio", "`prio` is no option with a value"),
            ("5s prio=9", "0 to 7"),
            ("5x prio=1", "5x"),
        ] {
            let message = read(&[line]).unwrap_err();
            assert!(message.contains(words), "{line}: {message}");
        }
    }

    /// Is there an end to how many a job may have, and have jobs that add none one list together?
    #[test]
    fn changes_have_a_limit() {
        let full = read(&["1 prio=1"; CHANGES_MAX]).unwrap();
        assert_eq!(full.all().len(), 256);
        assert!(std::ptr::eq(full.all(), full.clone().all()));
        let message = read(&["1 prio=1"; CHANGES_MAX + 1]).unwrap_err();
        assert!(message.contains("has 256 changes already"), "{message}");
    }
}
