// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summary: what a log of bfq says of each queue, on one page.
//!
//! ```text
//! device  queue        arrivals  dispatches  injected   sectors  time charged  turns  …
//! 7,0     bfq3628S         1085        1085       713      8680         85541     41  …
//! 7,0     bfq3634S         1109        1109       764      8872         78172      6  …
//! ```
//!
//! * arrivals: requests that entered the queue (`add_request`);
//! * dispatches: requests that were chosen from it; *injected* of them while another queue was in
//!   service;
//! * sectors: of those, 512 bytes each; *time charged*: sectors that the queue was charged beyond
//!   them, for time that it took (BFQ-66);
//! * turns: how often it was put in service; and by reason, how they ended.
//!
//! A queue is known by its name, and all shared queues of a device have the same one: after a merge
//! of two pairs of processes their numbers are one row.
//!
//! Invariants: I1 sums over the rows are the sums over the log, also of what has no row for itself
//! ([`QUEUES_MAX`]).
//!
//! Source: BFQ-41 to BFQ-62, BFQ-160 to BFQ-166; the recordings.

use core::fmt;
use std::collections::BTreeMap;

use super::bfq::{BfqMessage, ExpireReason, QueueName};
use super::calls::{Call, CallKind};
use super::line::{Device, Record, What};

/// Queues with a row for themselves; the rest are counted together.
pub const QUEUES_MAX: usize = 4096;

/// What happened to one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QueueSummary {
    /// Requests that entered it.
    pub arrivals: u64,
    /// Requests that were chosen from it.
    pub dispatches: u64,
    /// How many of them while another queue was in service.
    pub injected: u64,
    /// Sectors of the requests that were chosen.
    pub sectors: u64,
    /// Sectors that it was charged beyond those, for time.
    pub time_charged: u64,
    /// How often it was put in service.
    pub turns: u64,
    /// How its turns ended, by [`ExpireReason::number`].
    pub expiries: [u64; 5],
}

impl QueueSummary {
    /// How many turns ended for this reason.
    #[must_use]
    pub fn expired(&self, reason: ExpireReason) -> u64 {
        self.expiries[reason as usize]
    }
}

/// The contents of a log. Made of [`Call`]s: `calls.collect::<Result<Summary, _>>()`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The first and the last time, in nanoseconds of the trace clock.
    pub span_ns: Option<(u64, u64)>,
    /// Lines.
    pub lines: u64,
    /// Calls by [`CallKind::name`].
    pub calls: BTreeMap<&'static str, u64>,
    /// Dispatch calls that chose nothing.
    pub empty_dispatches: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Lines that the kernel says it lost. It may have lost more and not know how many.
    pub lost: u64,
    /// The queues.
    pub queues: BTreeMap<(Device, QueueName), QueueSummary>,
    /// All queues that have no row for themselves.
    pub others: QueueSummary,
}

impl Summary {
    /// Counts another call.
    pub fn add(&mut self, call: &Call) {
        *self.calls.entry(call.kind.name()).or_default() += 1;
        match call.kind {
            CallKind::Dispatch { served: None, .. } => self.empty_dispatches += 1,
            CallKind::Complete { error, .. } if error != 0 => self.errors += 1,
            CallKind::Lost { events } => self.lost += events.unwrap_or(0),
            _ => {}
        }
        let mut in_service = None;
        for record in &call.records {
            self.see(record);
            if let What::Message { queue: Some(queue), message } = &record.what {
                let row = (call.device, *queue);
                self.message(row, message, &mut in_service);
            }
        }
        if let CallKind::Dispatch { served: Some(served), .. } = call.kind {
            let row = self.row((call.device, served.queue));
            row.sectors = row.sectors.saturating_add(served.sectors);
            // The message was counted with all others that charge.
            row.time_charged -= served.sectors;
        }
    }

    /// A line has a time.
    fn see(&mut self, record: &Record) {
        self.lines += 1;
        let (first, last) = self.span_ns.unwrap_or((record.at_ns, record.at_ns));
        self.span_ns = Some((first.min(record.at_ns), last.max(record.at_ns)));
    }

    fn message(
        &mut self,
        row: (Device, QueueName),
        message: &BfqMessage,
        in_service: &mut Option<QueueName>,
    ) {
        match message {
            BfqMessage::AddRequest { .. } => self.row(row).arrivals += 1,
            BfqMessage::AlreadyInService => *in_service = Some(row.1),
            BfqMessage::SetInService { .. } => {
                *in_service = Some(row.1);
                self.row(row).turns += 1;
            }
            BfqMessage::ReturnedThis => {
                let injected = in_service.is_some_and(|queue| queue != row.1);
                let row = self.row(row);
                row.dispatches += 1;
                row.injected += u64::from(injected);
            }
            BfqMessage::Served { sectors } => {
                let row = self.row(row);
                row.time_charged = row.time_charged.saturating_add(*sectors);
            }
            BfqMessage::Expire { reason, .. } => self.row(row).expiries[*reason as usize] += 1,
            _ => {}
        }
    }

    fn row(&mut self, row: (Device, QueueName)) -> &mut QueueSummary {
        if self.queues.len() >= QUEUES_MAX && !self.queues.contains_key(&row) {
            return &mut self.others;
        }
        self.queues.entry(row).or_default()
    }
}

impl FromIterator<Call> for Summary {
    fn from_iter<T: IntoIterator<Item = Call>>(calls: T) -> Summary {
        let mut summary = Summary::default();
        calls.into_iter().for_each(|call| summary.add(&call));
        summary
    }
}

/// Words above the columns, and the width of each.
const COLUMNS: [(&str, usize); 11] = [
    ("arrivals", 10),
    ("dispatches", 12),
    ("injected", 10),
    ("sectors", 12),
    ("time charged", 14),
    ("turns", 8),
    ("too idle", 10),
    ("timeout", 9),
    ("exhausted", 11),
    ("no more", 9),
    ("preempted", 11),
];

impl QueueSummary {
    /// In the order of the columns.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueSummary { arrivals, dispatches, injected, sectors, time_charged, turns, .. } =
            *self;
        let first = [arrivals, dispatches, injected, sectors, time_charged, turns];
        for (number, (_, width)) in first.into_iter().chain(self.expiries).zip(COLUMNS) {
            write!(f, "{number:>width$}")?;
        }
        Ok(())
    }
}

/// A table with a row for each queue, below what the log has as a whole.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.span_ns.unwrap_or_default();
        let ms = (last - first) / 1_000_000;
        write!(f, "{} lines, {}.{:03} s", self.lines, ms / 1000, ms % 1000)?;
        for (name, count) in &self.calls {
            write!(f, ", {name} {count}")?;
        }
        let (empty, errors, lost) = (self.empty_dispatches, self.errors, self.lost);
        writeln!(f, "\nnothing to dispatch {empty}, failed {errors}, lines lost {lost}")?;
        write!(f, "{:<8}{:<13}", "device", "queue")?;
        for (word, width) in COLUMNS {
            write!(f, "{word:>width$}")?;
        }
        for ((device, queue), row) in &self.queues {
            write!(f, "\n{:<8}{:<13}", device.to_string(), queue.to_string())?;
            row.write(f)?;
        }
        if self.others != QueueSummary::default() {
            write!(f, "\n{:<21}", "all others")?;
            self.others.write(f)?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftrace::{Calls, Reader};

    fn summary(bodies: &[&str]) -> Summary {
        let line = |(number, body): (usize, &&str)| {
            format!("fio-1 [0] d..1. {}.500000: 8,16 {body}\n", number + 1)
        };
        let text: String = bodies.iter().enumerate().map(line).collect();
        Calls::new(Reader::new(text.as_bytes())).collect::<Result<_, _>>().unwrap()
    }

    /// Is each number counted where it belongs: charged time, service out of turn, failures?
    #[test]
    fn numbers() {
        let summary = summary(&[
            "m N bfq1S get_request 00000000000000aa: bfqq 00000000000000bb, 2",
            "I R 8 + 8 [fio]",
            "m N bfq1S add_request 1",
            "m N bfq dispatch requests: 2 busy queues",
            "m N bfq2S bfqq_served 1000 secs",
            "m N bfq2S expire (1, slow 1, num_disp 0, short_ttime 1)",
            "m N bfq3S set_in_service_queue, cur-budget = 512",
            "m N bfq1S select_queue: returned this queue",
            "m N bfq1S bfqq_served 8 secs",
            "m N bfq dispatch requests: 2 busy queues",
            "m N bfq select_queue: no queue returned",
            "D R 8 + 8 [fio]",
            "C R 8 + 8 [-5]",
        ]);
        let device = Device { major: 8, minor: 16 };
        let of = |pid| summary.queues[&(device, QueueName::Process { pid, sync: true })];
        let (none, one) = (QueueSummary::default(), 1);
        let (dispatches, injected, sectors) = (1, 1, 8);
        assert_eq!(of(1), QueueSummary { arrivals: one, dispatches, injected, sectors, ..none });
        let expiries = [0, 1, 0, 0, 0];
        assert_eq!(of(2), QueueSummary { time_charged: 1000, expiries, ..none });
        assert_eq!(of(2).expired(ExpireReason::BudgetTimeout), 1);
        assert_eq!(of(3), QueueSummary { turns: 1, ..none });
        let counts = (summary.lines, summary.empty_dispatches, summary.errors, summary.lost);
        assert_eq!(counts, (13, 1, 1, 0));
        assert_eq!(summary.span_ns, Some((1_500_000_000, 13_500_000_000)));
        assert_eq!(summary.calls["dispatch"], 2);
    }

    /// Does the table say all of it, with a head for each column?
    #[test]
    fn table() {
        let summary = summary(&["m N bfq1S add_request 1", "m N bfqSHARED-A add_request 0"]);
        let text = summary.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "2 lines, 1.000 s, other 1");
        assert_eq!(lines[1], "nothing to dispatch 0, failed 0, lines lost 0");
        assert!(lines[2].starts_with("device  queue          arrivals  dispatches  injected"));
        assert!(lines[3].starts_with("8,16    bfq1S                 1           0         0"));
        assert!(lines[4].starts_with("8,16    bfqSHARED-A           1           0         0"));
        // Two words, and a number below each head.
        assert_eq!(lines[3].split_whitespace().count(), 2 + COLUMNS.len());
        assert!(lines[3..].iter().all(|line| line.len() == lines[2].len()), "{text}");
    }

    /// Are queues without a row for themselves counted together, and the rest as before?
    #[test]
    fn many_queues() {
        let bodies: Vec<String> =
            (0..QUEUES_MAX + 5).map(|pid| format!("m N bfq{pid}S add_request 1")).collect();
        let bodies: Vec<&str> = bodies.iter().map(|body| &**body).collect();
        let summary = summary(&bodies);
        assert_eq!((summary.queues.len(), summary.others.arrivals), (QUEUES_MAX, 5));
        assert!(summary.to_string().contains("all others"));
    }
}
