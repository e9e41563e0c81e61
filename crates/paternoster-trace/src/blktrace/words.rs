// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words: an elevator's notes as messages of a trace, in the manner of the kernel's.
//!
//! ```text
//! cfq1001S set_slice=100000000            the slice of process 1001's queue: 100 ms
//! cfq1001S arm_idle: 8000000              the device is kept for it, 8 ms at most
//! bfq1002S expire (2, served 16384)       its turn is over: its budget is used up
//! cfq1001S preempt by 1002: SyncOverAsync
//! lottery1001S wins with tickets 100000   an elevator of one's own: its words, its number
//! ```
//!
//! The first word is the elevator and the process whose queue it is; `S` because notes are about
//! queues of processes that wait. Times are nanoseconds, service is in sectors. The numbers of
//! [`Expiry`] are Linux's. A message is at most [`MESSAGE_MAX`] bytes, like a kernel's.
//!
//! Source: TRACE-26; recordings in `paternoster-conformance`.

use core::fmt::{self, Write};

use paternoster_core::{ClientId, Expiry, Nanos, Note, Op};

/// Bytes of a message.
pub const MESSAGE_MAX: usize = 128;

/// The process number of a client.
pub(super) type PidOf<'a> = &'a dyn Fn(ClientId) -> u32;

/// Writes the words of a note at `now`; `speaker` is the elevator.
pub(super) fn write(
    out: &mut String,
    speaker: &str,
    now: Nanos,
    note: &Note,
    pid: PidOf<'_>,
) -> fmt::Result {
    out.clear();
    if let Some(client) = subject(note) {
        write!(out, "{speaker}{}S ", pid(client))?;
    } else {
        write!(out, "{speaker} ")?;
    }
    match *note {
        Note::ElevatorChanged { epoch } => write!(out, "init_queue, epoch {epoch}"),
        Note::BatchBegins { writes, from_fifo } => {
            let of = if writes { "writes" } else { "reads" };
            write!(out, "batch of {of}{}", if from_fifo { ", from fifo" } else { "" })
        }
        Note::Aged { .. } => write!(out, "prio_aging_expire"),
        Note::Throttled { op } => write!(out, "throttled {}", domain(op)),
        Note::LatencyTold { op, percent, quarters } => {
            write!(out, "{} p{percent} {quarters}/4 of target", domain(op))
        }
        Note::DepthChanged { op, depth } => write!(out, "{} depth {depth}", domain(op)),
        Note::SliceBegins { slice, .. } => write!(out, "set_slice={}", slice.0),
        Note::SliceEnds { served, .. } => write!(out, "slice expired, sl_used={}", served.0),
        Note::Idling { until, .. } => {
            write!(out, "arm_idle: {}", until.0.saturating_sub(now.0))
        }
        Note::QueuesMerged { into, .. } => write!(out, "merging with queue of {}", pid(into)),
        Note::QueuesParted { from, .. } => write!(out, "splitting from queue of {}", pid(from)),
        Note::BudgetGranted { budget, .. } => {
            write!(out, "set_in_service_queue, cur-budget = {budget}")
        }
        Note::Expired { served, why, .. } => {
            write!(out, "expire ({}, served {served})", reason(why))
        }
        Note::WeightRaised { coefficient: 1, .. } => write!(out, "wrais ending"),
        Note::WeightRaised { coefficient, .. } => write!(out, "wrais starting, x{coefficient}"),
        Note::Injected { into, .. } => write!(out, "injected in turn of {}", pid(into)),
        Note::Preempted { by, rule, .. } => write!(out, "preempt by {}: {rule:?}", pid(by)),
        Note::FellBack { why } => write!(out, "fell back to plain fair queueing: {why:?}"),
        Note::TriesAgain => write!(out, "all rules again"),
        Note::Own { kind, value, .. } => write!(out, "{} {value}{}", kind.words, kind.unit),
        ref other => write!(out, "{other:?}"),
    }
}

/// The client whose queue a note is about, if it is about one.
fn subject(note: &Note) -> Option<ClientId> {
    match *note {
        Note::Aged { client }
        | Note::SliceBegins { client, .. }
        | Note::SliceEnds { client, .. }
        | Note::Idling { client, .. }
        | Note::QueuesMerged { client, .. }
        | Note::QueuesParted { client, .. }
        | Note::BudgetGranted { client, .. }
        | Note::Expired { client, .. }
        | Note::WeightRaised { client, .. }
        | Note::Injected { client, .. }
        | Note::Own { client, .. }
        | Note::Preempted { client, .. } => Some(client),
        _ => None,
    }
}

/// kyber's names of its kinds of requests.
const fn domain(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
        _ => "other",
    }
}

/// Linux's numbers of the reasons.
const fn reason(why: Expiry) -> u32 {
    match why {
        Expiry::TooIdle => 0,
        Expiry::BudgetTimeout => 1,
        Expiry::BudgetExhausted => 2,
        Expiry::NoMoreRequests => 3,
        Expiry::Preempted => 4,
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{ClientSpec, DeviceFacts, NoteKind, RequestQueue};

    use super::*;

    /// Do a custom elevator's words appear next to the process, with number and unit?
    #[test]
    fn an_elevator_of_ones_own_speaks() {
        static WAITS: NoteKind = NoteKind { words: "waits for its turn", unit: " ns" };
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        let mut queue =
            RequestQueue::builder(DeviceFacts::default(), noop).build().expect("its limits work");
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        let note = Note::Own { kind: &WAITS, client, value: 8000 };
        let mut out = String::new();
        write(&mut out, "lottery", Nanos::ZERO, &note, &|_| 1001).unwrap();
        assert_eq!(out, "lottery1001S waits for its turn 8000 ns");
    }
}
