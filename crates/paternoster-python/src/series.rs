// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series: what each client had done in each interval of a run.
//!
//! ```text
//! C of client 0, 4 KiB, at 130 ms      interval 100 ms ─▶ (100 ms, client 0, read): 1, 4096
//! ```
//!
//! A request counts when it comes back from the device, for its client; one merged from bios of
//! several clients counts for the first of them.

use std::collections::BTreeMap;

use paternoster_core::{Action, Event, Nanos, Note, Observer, Op};
use paternoster_workload::fio::job::Job;

/// The work of one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Device time.
    pub(crate) served: u64,
}

/// Observes a run; nothing if the interval is zero.
#[derive(Debug, Default)]
pub(crate) struct Series {
    clients: Vec<(String, u32)>,
    interval: u64,
    amounts: BTreeMap<(u64, u32, &'static str), Amount>,
}

impl Series {
    /// A series for the clients that these jobs make, in order of their indices.
    pub(crate) fn new(jobs: &[Job], interval: Nanos) -> Series {
        let clones = |job: &'_ Job| {
            let (count, name) = (job.clones.numjobs, job.name.clone());
            (0..count).map(move |clone| (name.clone(), clone))
        };
        let own = jobs.iter().flat_map(clones);
        let others = ["flusher", "journal"].map(|name| (name.to_owned(), 0));
        let (clients, amounts) = (own.chain(others).collect(), BTreeMap::new());
        Series { clients, interval: interval.0, amounts }
    }

    /// Beginning of the interval in ns, job, clone, direction, amount.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, &str, u32, &'static str, Amount)> {
        self.amounts.iter().map(|(&(place, client, direction), &amount)| {
            let known = self.clients.get(client as usize);
            let (job, clone) = known.map_or(("", 0), |(job, clone)| (job.as_str(), *clone));
            (place * self.interval, job, clone, direction, amount)
        })
    }
}

/// The operation, in a word.
pub(crate) const fn direction(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "trim",
        Op::Flush => "flush",
        _ => "other",
    }
}

impl Observer for Series {
    fn event(&mut self, event: &Event) {
        if event.action != Action::Complete || self.interval == 0 {
            return;
        }
        let place = (event.at.0 / self.interval, event.client.index(), direction(event.op));
        let amount = self.amounts.entry(place).or_default();
        amount.requests += 1;
        amount.bytes += u64::from(event.sectors) * 512;
        amount.served += event.served.0;
    }

    fn note(&mut self, _at: Nanos, _sequence: u64, _note: &Note) {}
}
