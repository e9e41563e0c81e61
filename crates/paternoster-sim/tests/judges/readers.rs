// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers: clients that advance in steps, one request at a time, on a model under an elevator.
//!
//! The next request of each comes 20 us after the end of its last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paternoster_core::{
    Bio, ClientId, ClientSpec, Device, Limits, Nanos, Op, Output, RequestQueue,
};
use paternoster_sim::model::Model;
use paternoster_sim::{Simulated, catalog};

const THINK: Nanos = Nanos::from_micros(20);

/// One reader: its client, where it reads next, its step; and sectors read.
pub(crate) struct Reader {
    client: ClientId,
    at: u64,
    sectors: u32,
    step: u64,
    pub(crate) read: u64,
}

/// Readers of a device.
pub(crate) struct World {
    pub(crate) device: Simulated<Box<dyn Model>>,
    pub(crate) queue: RequestQueue,
    pub(crate) readers: Vec<Reader>,
    due: BinaryHeap<Reverse<(Nanos, usize)>>,
}

impl World {
    /// A device of ours under an elevator of ours, without readers.
    pub(crate) fn new(device: &str, elevator: &str, limits: Limits) -> World {
        let description = catalog::by_name(device).expect("a device of ours").expect("sound");
        let device = Simulated::new(description.model());
        let elevator = paternoster_schedulers::by_name(elevator).expect("an elevator of ours");
        let queue = RequestQueue::builder(device.facts(), elevator)
            .limits(limits)
            .build()
            .expect("its limits work");
        World { device, queue, readers: Vec::new(), due: BinaryHeap::new() }
    }

    /// Adds a reader that begins now.
    pub(crate) fn join(&mut self, spec: ClientSpec, at: u64, sectors: u32, step: u64) {
        let client = self.queue.attach(Nanos::ZERO, spec).expect("room");
        self.due.push(Reverse((self.device.now(), self.readers.len())));
        self.readers.push(Reader { client, at, sectors, step, read: 0 });
    }

    /// Runs until `end`.
    pub(crate) fn run(&mut self, end: Nanos) {
        while self.device.now() < end {
            let now = self.device.now();
            self.submit_what_is_due(now);
            let until = self.issue(now);
            let next = self.due.peek().map(|Reverse((at, _))| *at);
            let until = [until, next, Some(end)].into_iter().flatten().min();
            if let Some(done) = self.device.wait(until) {
                self.queue.complete(done.at, done.tag, done.outcome).expect("a command of ours");
            }
        }
    }

    fn submit_what_is_due(&mut self, now: Nanos) {
        while let Some(&Reverse((at, number))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            let reader = &mut self.readers[number];
            let bio = Bio::new(reader.client, Op::Read, reader.at, reader.sectors);
            reader.at += reader.step;
            self.queue.submit(now, bio.cookie(number as u64)).expect("a free request");
        }
    }

    /// Issues what it can; returns until when nothing more can be issued.
    fn issue(&mut self, now: Nanos) -> Option<Nanos> {
        loop {
            match self.queue.next(now) {
                Output::Issue(command) => self.device.submit(command).expect("room"),
                Output::Done(cookie, _) => {
                    let number = usize::try_from(cookie).expect("a reader's number");
                    self.readers[number].read += u64::from(self.readers[number].sectors);
                    self.due.push(Reverse((now + THINK, number)));
                }
                Output::Wake(_) => {}
                Output::Wait { until, .. } => return until,
            }
        }
    }
}
