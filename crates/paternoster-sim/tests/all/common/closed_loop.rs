// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closed loop: clients that each keep a number of commands under way, on one device, under noop.
//!
//! What a data sheet measures: each client submits the next I/O as soon as one has ended (and its
//! CPU has spent `cpu` on it). Merging is off, so that the device gets the I/Os as submitted. The
//! first part of the time is not counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paternoster_core::{
    Bio, ClientId, ClientSpec, Device, Limits, Nanos, Op, Output, RequestQueue,
};
use paternoster_sim::{Description, Simulated, catalog};

/// What one client does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) op: Op,
    pub(crate) kib: u32,
    pub(crate) sequential: bool,
    pub(crate) depth: u32,
    /// Whether each write is followed by a flush that counts as part of it.
    pub(crate) synced: bool,
}

impl Load {
    pub(crate) const fn random(op: Op, kib: u32, depth: u32) -> Load {
        Load { op, kib, sequential: false, depth, synced: false }
    }

    pub(crate) const fn sequential(op: Op, kib: u32, depth: u32) -> Load {
        Load { op, kib, sequential: true, depth, synced: false }
    }

    pub(crate) const fn synced(self) -> Load {
        Load { synced: true, ..self }
    }
}

/// The results of one client's load.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) mb_per_second: f64,
    latencies: Vec<Nanos>,
}

impl Figures {
    /// The mean latency in us.
    pub(crate) fn mean(&self) -> f64 {
        let sum: u64 = self.latencies.iter().map(|latency| latency.0).sum();
        sum as f64 / self.latencies.len().max(1) as f64 / 1000.0
    }

    /// A percentile of the latencies in us.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.quantile(percent, 100)
    }

    /// The quantile `part / of` of the latencies, in us.
    pub(crate) fn quantile(&self, part: usize, of: usize) -> f64 {
        let place = (self.latencies.len() * part / of).min(self.latencies.len() - 1);
        self.latencies[place].0 as f64 / 1000.0
    }

    /// The standard deviation of the latencies in us.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.mean();
        let square = |latency: &Nanos| (latency.0 as f64 / 1000.0 - mean).powi(2);
        let sum: f64 = self.latencies.iter().map(square).sum();
        (sum / self.latencies.len().max(1) as f64).sqrt()
    }
}

struct Client {
    id: ClientId,
    load: Load,
    next: u64,
    cpu_free: Nanos,
    ios: u64,
    latencies: Vec<Nanos>,
}

/// The device `name` from the catalog.
pub(crate) fn device(name: &str) -> Description {
    catalog::by_name(name).expect("a device of ours").expect("sound")
}

/// How long a run warms up and how long it is measured, in ms.
pub(crate) type Times = (u64, u64);

/// A run of the loads on a fresh device; `cpu` is what each I/O costs its client.
pub(crate) fn run(
    description: &Description,
    cpu: Nanos,
    times: Times,
    loads: &[Load],
) -> Vec<Figures> {
    let mut device = Simulated::new(description.model());
    let facts = device.facts();
    let limits = Limits { requests: 3 * 1024, ..Limits::default() };
    let noop = paternoster_schedulers::by_name("noop").expect("noop");
    let mut queue =
        RequestQueue::builder(facts, noop).limits(limits).build().expect("its limits work");
    queue.set_attribute(Nanos::ZERO, "nomerges", "2").expect("nomerges");
    queue.set_attribute(Nanos::ZERO, "nr_requests", "1024").expect("nr_requests");
    let mut due = BinaryHeap::new();
    let mut clients: Vec<Client> = Vec::new();
    for (number, &load) in loads.iter().enumerate() {
        let id = queue.attach(Nanos::ZERO, ClientSpec::new()).expect("a place");
        let next = (number as u64 + 1) << 24;
        let (ios, latencies) = (0, Vec::new());
        clients.push(Client { id, load, next, cpu_free: Nanos::ZERO, ios, latencies });
        for _ in 0..load.depth {
            due.push(Reverse((Nanos::ZERO, number)));
        }
    }
    let (warm, end) = (Nanos::from_millis(times.0), Nanos::from_millis(times.0 + times.1));
    // Of each I/O under way: its client, when it began, and whether its flush follows.
    let mut under_way: Vec<(usize, Nanos, bool)> = Vec::new();
    loop {
        let now = device.now();
        while due.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((_, number))) = due.pop() else { break };
            let client = &mut clients[number];
            let bio = next_bio(client, facts.capacity);
            let cookie = under_way.len() as u64;
            under_way.push((number, now, client.load.synced));
            queue.submit(now, bio.cookie(cookie)).expect("room");
        }
        let until = loop {
            match queue.next(now) {
                Output::Issue(command) => {
                    if device.submit(command).is_err() {
                        queue.requeue(now, command.tag).expect("it was issued");
                    }
                }
                Output::Done(cookie, outcome) => {
                    assert_eq!(outcome.status, paternoster_core::Status::Ok);
                    let place = usize::try_from(cookie).expect("our cookie");
                    let (number, began, flush_follows) = under_way[place];
                    let client = &mut clients[number];
                    if flush_follows {
                        under_way[place].2 = false;
                        queue.submit(now, Bio::flush(client.id).cookie(cookie)).expect("room");
                        continue;
                    }
                    if now > warm {
                        client.ios += 1;
                        client.latencies.push(now - began);
                    }
                    client.cpu_free = client.cpu_free.max(now) + cpu;
                    due.push(Reverse((client.cpu_free.max(now + Nanos(1)), number)));
                }
                Output::Wait { until, .. } => break until,
                Output::Wake(_) => {}
            }
        };
        if now >= end {
            return clients.into_iter().map(|client| figures(client, times.1)).collect();
        }
        let timer = due.peek().map(|Reverse((at, _))| *at);
        let wake = [until, timer, Some(end)].into_iter().flatten().min();
        if let Some(completion) = device.wait(wake) {
            queue.complete(completion.at, completion.tag, completion.outcome).expect("once");
        }
    }
}

fn next_bio(client: &mut Client, capacity: u64) -> Bio {
    let Load { op, kib, sequential, .. } = client.load;
    let sectors = kib * 2;
    let places = capacity / u64::from(sectors);
    let place = if sequential {
        client.next += 1;
        client.next
    } else {
        // Any generator with a long period would do.
        client.next = client.next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        client.next >> 20
    };
    Bio::new(client.id, op, place % places * u64::from(sectors), sectors)
}

fn figures(mut client: Client, millis: u64) -> Figures {
    client.latencies.sort_unstable();
    let per_second = client.ios as f64 * 1000.0 / millis as f64;
    Figures {
        per_second,
        mb_per_second: per_second * f64::from(client.load.kib) * 1.024 / 1000.0,
        latencies: client.latencies,
    }
}
