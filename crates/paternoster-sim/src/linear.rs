// SPDX-License-Identifier: MIT OR Apache-2.0
//! linear: n servers, each command costs `base + bytes / rate`, and a penalty if it does not
//! continue the last.
//!
//! The simplest model with a cost for size and one for location. With one server it is a flash card
//! without queueing or an emulated disk; with several, parallel flash. Commands wait for a server
//! in order of arrival:
//!
//! ```text
//! depth 4, servers 2       in service A B     waiting C D     A ends: C starts
//! ```
//!
//! Device time is charged to those in service; waiting inside the device costs nothing.
//!
//! # Invariants
//! I1  At most `servers` commands are in service, at most `depth` are in the device.
//! I2  The device times of all commands add up to the time that something was in service.
//!
//! # Not here
//! Seeks by distance, rotation, caches, channels: see the models `hdd`, `ssd`, `array`.
//!
//! Source: own; `docs/rules/devices.md` (flash card); the emulated devices of our recordings.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use paternoster_core::device::ServiceClock;
use paternoster_core::{Command, Completion, DeviceFacts, Nanos, Op, Outcome, Refused, Tag};

use crate::model::{Blueprint, Model};
use crate::sections::{DEPTH_MAX, DeviceFileError, Sections};
use crate::transfer::Transfer;

/// What a linear device costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearCosts {
    /// Commands in service at a time, at least 1.
    pub servers: u32,
    /// Every command.
    pub base: Nanos,
    /// Every byte.
    pub transfer: Transfer,
    /// A command that does not begin where the last one that started ended.
    pub penalty: Nanos,
    /// A flush.
    pub flush: Nanos,
}

impl Blueprint for LinearCosts {
    fn build(&self, facts: DeviceFacts) -> Box<dyn Model> {
        Box::new(Linear::new(facts, *self))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InService {
    end: Nanos,
    /// Breaks ties: commands end in the order of their start.
    order: u64,
    tag: Tag,
    entered: Nanos,
}

/// The linear model.
#[derive(Debug)]
pub struct Linear {
    facts: DeviceFacts,
    costs: LinearCosts,
    clock: ServiceClock,
    in_service: BinaryHeap<Reverse<InService>>,
    waiting: VecDeque<Command>,
    started: u64,
    last_end: Option<u64>,
}

impl Linear {
    /// A linear device.
    #[must_use]
    pub fn new(facts: DeviceFacts, costs: LinearCosts) -> Linear {
        Linear {
            facts,
            costs: LinearCosts { servers: costs.servers.max(1), ..costs },
            clock: ServiceClock::default(),
            in_service: BinaryHeap::with_capacity(facts.depth as usize),
            waiting: VecDeque::with_capacity(facts.depth as usize),
            started: 0,
            last_end: None,
        }
    }

    /// Reads the section `[linear]` of a device file.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        _: &DeviceFacts,
    ) -> Result<Arc<dyn Blueprint>, DeviceFileError> {
        let mut fields = sections.open("linear");
        let costs = LinearCosts {
            servers: fields.number("servers", None, 1..=DEPTH_MAX)?,
            base: fields.time("base", None)?,
            transfer: fields.rate("rate", None)?,
            penalty: fields.time("penalty", Some(Nanos::ZERO))?,
            flush: fields.time("flush", Some(Nanos::ZERO))?,
        };
        fields.finish()?;
        Ok(Arc::new(costs))
    }

    fn start(&mut self, now: Nanos, command: &Command) {
        let time = self.service_time(command);
        if command.op != Op::Flush {
            self.last_end = Some(command.end());
        }
        let entered = self.clock.enter(now);
        let order = self.started;
        self.started += 1;
        self.in_service.push(Reverse(InService {
            end: now + time,
            order,
            tag: command.tag,
            entered,
        }));
    }

    fn service_time(&self, command: &Command) -> Nanos {
        if command.op == Op::Flush {
            return self.costs.flush;
        }
        let contiguous = self.last_end == Some(command.sector);
        let penalty = if contiguous { Nanos::ZERO } else { self.costs.penalty };
        let bytes = u64::from(command.sectors) * 512;
        self.costs.base + self.costs.transfer.time(bytes) + penalty
    }

    fn busy_servers(&self) -> usize {
        self.in_service.len()
    }
}

impl Model for Linear {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        if self.busy_servers() + self.waiting.len() >= self.facts.depth as usize {
            return Err(Refused);
        }
        if self.busy_servers() < self.costs.servers as usize {
            self.start(now, command);
        } else {
            self.waiting.push_back(*command);
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.in_service.peek().map(|Reverse(first)| first.end)
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        let end = self.next_event().filter(|&end| end <= now)?;
        let Reverse(done) = self.in_service.pop()?;
        let served = self.clock.leave(end, done.entered);
        if let Some(command) = self.waiting.pop_front() {
            self.start(end, &command);
        }
        Some(Completion { tag: done.tag, at: end, outcome: Outcome::OK.served(served) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulated;
    use paternoster_core::{Bio, ClientId, ClientSpec, Device, Output, RequestQueue};

    fn facts(depth: u32) -> DeviceFacts {
        DeviceFacts { depth, ..DeviceFacts::default() }
    }

    fn costs(servers: u32) -> LinearCosts {
        LinearCosts {
            servers,
            base: Nanos::from_micros(100),
            // 1 us per KiB.
            transfer: Transfer { nanos: 1_000, bytes: 1024 },
            penalty: Nanos::from_millis(8),
            flush: Nanos::from_micros(50),
        }
    }

    /// Reads of 4 KiB at these sectors, all at time zero: when each ends, and its device time, in
    /// us.
    fn ends(servers: u32, depth: u32, sectors: &[u64]) -> Vec<(u64, u64)> {
        let mut device = Simulated::new(Linear::new(facts(depth), costs(servers)));
        let elevator = paternoster_schedulers::by_name("noop").unwrap();
        let mut queue =
            RequestQueue::builder(device.facts(), elevator).build().expect("its limits work");
        queue.set_attribute(Nanos::ZERO, "nomerges", "2").unwrap();
        let client: ClientId = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        for &sector in sectors {
            queue.submit(Nanos::ZERO, Bio::new(client, Op::Read, sector, 8)).unwrap();
        }
        let mut ends = Vec::new();
        loop {
            let until = loop {
                match queue.next(device.now()) {
                    Output::Issue(command) => device.submit(command).unwrap(),
                    Output::Wait { until, .. } => break until,
                    _ => {}
                }
            };
            let Some(completion) = device.wait(until) else { return ends };
            let served = completion.outcome.served.unwrap();
            ends.push((completion.at.as_micros(), served.as_micros()));
            queue.complete(device.now(), completion.tag, completion.outcome).unwrap();
        }
    }

    /// Does a command cost base + bytes/rate, and the penalty unless it continues the last?
    /// 100 + 4 + 8000 us, then 104 us for the contiguous one, then 8104 again.
    #[test]
    fn place_and_size_cost_time() {
        assert_eq!(ends(1, 1, &[0, 8, 100]), [(8104, 8104), (8208, 104), (16312, 8104)]);
    }

    /// Do two servers work at the same time, and is that time divided between their requests? The
    /// first two start at 0, with a penalty, and end at 8104: half of it is charged to each. The
    /// third starts then, alone.
    #[test]
    fn servers_work_side_by_side() {
        assert_eq!(ends(2, 4, &[0, 100, 200]), [(8104, 4052), (8104, 4052), (16208, 8104)]);
    }
}
