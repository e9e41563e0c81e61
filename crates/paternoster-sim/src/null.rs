// SPDX-License-Identifier: MIT OR Apache-2.0
//! null: every command completes after a fixed latency, any number at a time.
//!
//! For measuring what schedulers and the simulation itself cost. Commands do not hinder each other;
//! even so, k of them share the passing time as device time.

use std::collections::VecDeque;
use std::sync::Arc;

use paternoster_core::device::ServiceClock;
use paternoster_core::{Command, Completion, DeviceFacts, Nanos, Outcome, Refused, Tag};

use crate::model::{Blueprint, Model};
use crate::sections::{DeviceFileError, Sections};

/// The fixed latency of every command.
#[derive(Debug)]
struct Latency(Nanos);

impl Blueprint for Latency {
    fn build(&self, facts: DeviceFacts) -> Box<dyn Model> {
        Box::new(Null::new(facts, self.0))
    }
}

/// A device that costs nothing but a fixed latency.
#[derive(Debug)]
pub struct Null {
    facts: DeviceFacts,
    latency: Nanos,
    clock: ServiceClock,
    /// In order of their ends, which is the order of submission.
    under_way: VecDeque<(Nanos, Tag, Nanos)>,
}

impl Null {
    /// A null device.
    #[must_use]
    pub fn new(facts: DeviceFacts, latency: Nanos) -> Null {
        let under_way = VecDeque::with_capacity(facts.depth as usize);
        Null { facts, latency, clock: ServiceClock::default(), under_way }
    }

    /// Reads the section `[null]` of a device file.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        _: &DeviceFacts,
    ) -> Result<Arc<dyn Blueprint>, DeviceFileError> {
        let mut fields = sections.open("null");
        let latency = fields.time("latency", None)?;
        fields.finish()?;
        Ok(Arc::new(Latency(latency)))
    }
}

impl Model for Null {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        let entered = self.clock.enter(now);
        self.under_way.push_back((now + self.latency, command.tag, entered));
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.under_way.front().map(|&(end, ..)| end)
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        let &(end, tag, entered) = self.under_way.front()?;
        if end > now {
            return None;
        }
        self.under_way.pop_front();
        let served = self.clock.leave(end, entered);
        Some(Completion { tag, at: end, outcome: Outcome::OK.served(served) })
    }
}
