// SPDX-License-Identifier: MIT OR Apache-2.0
//! Due changes: applies changes of jobs during the run, when it is time.
//!
//! Times count from the begin of each clone, which is when its changes go into one heap:
//!
//! ```text
//! job a, begins at 0     change=5s …      5 s  a.0  ┐
//! job b, begins at 2 s   change=4s …      6 s  b.0  ├─▶ the queue gets weight and class,
//!        two clones                       6 s  b.1  ┘   the process its rate
//! ```
//!
//! # Invariants
//! I1  A change happens once for each clone that begins, unless that has ended before.
//!
//! Source: [`crate::fio::changes`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paternoster_core::{Client, GroupId, Nanos};

use super::{Run, setup};
use crate::fio::job::Job;

/// The changes that are still to come.
#[derive(Debug)]
pub(super) struct DueChanges {
    /// When, of which process, which of its job's.
    due: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
    /// For each process: what its job is by now, if that has changes.
    jobs: Vec<Option<Box<Job>>>,
    /// The cgroup of each job.
    groups: Vec<Option<GroupId>>,
}

impl DueChanges {
    /// Of processes that have not begun: the job of each, and the group of each job.
    pub(super) fn new<'a>(
        jobs: impl Iterator<Item = &'a Job>,
        groups: Vec<Option<GroupId>>,
    ) -> DueChanges {
        let changing = |job: &Job| !job.ours.changes.all().is_empty();
        let jobs = jobs.map(|job| changing(job).then(|| Box::new(job.clone()))).collect();
        DueChanges { due: BinaryHeap::new(), jobs, groups }
    }

    /// A process begins.
    pub(super) fn begin(&mut self, number: u32, now: Nanos) {
        if let Some(job) = &self.jobs[number as usize] {
            let all = (0..).zip(job.ours.changes.all());
            self.due.extend(all.map(|(nth, change)| Reverse((now + change.at, number, nth))));
        }
    }

    /// When the next one is.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.due.peek().map(|&Reverse((at, _, _))| at)
    }
}

impl Run {
    /// Applies the changes that are due, and lets those processes act.
    pub(super) fn change_due(&mut self, now: Nanos) {
        while self.changes.next().is_some_and(|at| at <= now) {
            let Some(Reverse((_, number, nth))) = self.changes.due.pop() else { return };
            let seat = &mut self.seats[number as usize];
            let Some(job) = self.changes.jobs[number as usize].as_mut().filter(|_| !seat.ended)
            else {
                continue;
            };
            let change = job.ours.changes.all()[nth as usize];
            change.write(job);
            // Neither group nor client ever leaves.
            if let (Some(weight), Some(group)) =
                (change.cgroup_weight, self.changes.groups[seat.job])
            {
                let _known = self.queue.set_group_weight(now, group, weight);
            }
            if change.is_of_priority() {
                let client = seat.process.client();
                let weight = self.queue.client(client).map_or(0, Client::weight);
                let _known = self.queue.set_priority(now, client, setup::priority(job), weight);
            }
            if change.is_of_rate() {
                seat.process.change_rates(now, job);
            }
            self.act(now, number);
        }
    }
}
