// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endings: sections between stonewalls, jobs that wait for others, jobs that end others.
//!
//! ```text
//! section 0 │ stonewall │ section 1 …       a section begins when all of the one before has ended
//! wait_for=a                                within a section: begins when every clone of a has
//! exitall                                   in any job: the end of each stops its group, or more
//! ```
//!
//! Source: FIO-60; whose end counts was measured on fio 3.33.

use std::cmp::Reverse;

use paternoster_core::Nanos;

use super::starts::looks;
use super::{Run, SectionResult};
use crate::fio::ending::ExitWhat;
use crate::process::Phase;

impl Run {
    /// A process has ended: its figures, and what follows from it.
    pub(super) fn end_process(&mut self, now: Nanos, number: u32) {
        let seat = &mut self.seats[number as usize];
        seat.ended = true;
        let served = self.queue.observer().0.client(seat.process.client().index()).served;
        seat.served = served - seat.served_before.unwrap_or(Nanos::ZERO);
        let (job, failed) = (seat.job, seat.process.error() != 0);
        self.ended += 1;
        self.left_of_job[job] -= 1;
        if self.seats[number as usize].section == self.section {
            self.left -= 1;
        }
        // As in fio `exitall` in any job is said of all: each ends what its own `exit_what` says.
        if self.ends.iter().any(|end| end.exit_all) || failed && self.ends[job].on_error {
            self.stop_others(now, job);
        }
        self.stop_background(now);
        if self.left_of_job[job] == 0 {
            self.let_go(now, Some(job));
        }
        // Ending others may have ended the section already.
        if self.left == 0 && self.sections.len() == self.section + 1 {
            self.end_section(now);
        }
    }

    /// What the device did in the present section, if it ends now.
    pub(super) fn measure_section(&mut self, now: Nanos) {
        if let Some(section) = self.sections.last_mut() {
            let busy = self.queue.observer().0.device(now).busy;
            section.ended = now;
            section.busy = busy - self.busy_before;
        }
    }

    fn end_section(&mut self, now: Nanos) {
        self.measure_section(now);
        let last = self.seats.last().map_or(0, |seat| seat.section);
        // A section whose jobs were all ended before it is over as it begins.
        while self.left == 0 && self.section < last {
            self.section += 1;
            self.begin_section(now);
        }
    }

    /// Lets the jobs up to the next stonewall go.
    pub(super) fn begin_section(&mut self, now: Nanos) {
        self.busy_before = self.queue.observer().0.device(now).busy;
        let own = |seat: &&super::Seat| seat.section == self.section && !seat.ended;
        self.left = u32::try_from(self.seats.iter().filter(own).count()).unwrap_or(u32::MAX);
        self.sections.push(SectionResult { began: now, ended: now, busy: Nanos::ZERO });
        // Those of a flow wait for one with a delay.
        let there = |seat: &&super::Seat| seat.section == self.section && seat.after.is_none();
        for seat in self.seats.iter().filter(there).filter(|seat| !seat.ended) {
            seat.process.enter_flow(&mut self.shared);
        }
        self.let_go(now, None);
    }

    /// Starts the processes of the section that wait for none (`ended` is none), or those that
    /// waited for the job that has ended.
    fn let_go(&mut self, now: Nanos, ended: Option<usize>) {
        let ready = |seat: &super::Seat| {
            let waits = seat.after.is_some_and(|job| self.left_of_job[job] > 0);
            let concerned = ended.is_none() || seat.after == ended;
            let new = seat.section == self.section && !seat.ended;
            let new = new && seat.process.phase() == Phase::Waiting && seat.timer == Nanos::MAX;
            new && concerned && !waits
        };
        let go: Vec<usize> = (0..self.seats.len()).filter(|at| ready(&self.seats[*at])).collect();
        // As in fio a start delay counts from the beginning of the run.
        let due = |at: &usize| now.max(self.began + self.seats[*at].delay);
        let mut starts: Vec<Nanos> = go.iter().map(due).collect();
        if self.looks_for_delayed {
            looks(now, &mut starts);
        }
        for (number, start) in go.into_iter().zip(starts) {
            let seat = &mut self.seats[number];
            seat.timer = start + seat.behind;
            self.timers.push(Reverse((seat.timer, u32::try_from(number).unwrap_or(u32::MAX))));
        }
    }

    /// `exitall`: one has ended and takes others along.
    fn stop_others(&mut self, now: Nanos, job: usize) {
        let (what, group) = (self.ends[job].what, self.groups[job]);
        for number in 0..self.seats.len() {
            let seat = &mut self.seats[number];
            let runs = matches!(seat.process.phase(), Phase::Running | Phase::Draining);
            let meant = match what {
                ExitWhat::Group => self.groups[seat.job] == group,
                ExitWhat::Stonewall => runs || seat.section == self.section,
                ExitWhat::All => true,
            };
            if meant && !seat.ended {
                seat.process.stop();
                seat.process.leave_flow_if_ended(&mut self.shared);
                self.wake_to_end(now, number);
            }
        }
    }

    /// Jobs that run for as long as others do end with the last of these. Jobs that burn CPU do not
    /// count.
    fn stop_background(&mut self, now: Nanos) {
        let in_front = |seat: &super::Seat| {
            !seat.ended && !seat.process.is_cpu_load() && !self.in_background[seat.job]
        };
        if self.seats.iter().any(in_front) {
            return;
        }
        for number in 0..self.seats.len() {
            let seat = &mut self.seats[number];
            if !seat.ended && self.in_background[seat.job] {
                seat.process.stop();
                seat.process.leave_flow_if_ended(&mut self.shared);
                self.wake_to_end(now, number);
            }
        }
    }

    /// Wakes a process that was told to stop, so that it sees that.
    fn wake_to_end(&mut self, now: Nanos, number: usize) {
        let seat = &mut self.seats[number];
        seat.timer = now;
        self.timers.push(Reverse((now, u32::try_from(number).unwrap_or(u32::MAX))));
    }
}
