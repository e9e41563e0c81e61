// SPDX-License-Identifier: MIT OR Apache-2.0
//! hdd: a disk with an arm, platters, caches and a queue of its own.
//!
//! What a command costs depends on where the arm stands, on the angle of the platters and on what
//! the disk has read or promised before, so the model keeps all of these:
//!
//! ```text
//! Hdd ── Drive<Tag> ─┬─ mechanism ─┬─ geometry   sector -> cylinder, head, angle
//!                    │             └─ seek       distance -> time
//!                    ├─ schedule                 which queued command next
//!                    ├─ segments                 what was read, what is read ahead
//!                    └─ write_cache              what was promised and not yet written
//! ```
//!
//! [`Drive`] knows nothing of queues and tags: its tasks are named by any `Copy` type, and a model
//! that stripes over several disks has one for each. [`Hdd`] is one drive as a [`Model`].
//!
//! Where it stops being valid: see `docs/models/hdd.md`.
//!
//! Source: Ruemmler and Wilkes 1994; `docs/rules/devices.md`.

pub mod bus;
pub mod drive;
pub mod geometry;
pub mod layout;
pub mod mechanism;
pub(crate) mod parameters;
pub mod read_ahead;
pub mod schedule;
pub mod seek;
pub mod segments;
pub mod write_cache;

use std::sync::Arc;

use paternoster_core::{Command, Completion, DeviceFacts, Flags, Nanos, Op, Outcome, Refused, Tag};

pub use drive::{Drive, DriveParameters, Ended, Task};
pub(crate) use parameters::read as read_parameters;

use crate::model::{Blueprint, Model};
use crate::sections::{DeviceFileError, Sections};

/// The disk model.
#[derive(Debug)]
pub struct Hdd {
    facts: DeviceFacts,
    drive: Drive<Tag>,
}

impl Hdd {
    /// A disk that has done nothing yet.
    #[must_use]
    pub fn new(facts: DeviceFacts, parameters: Arc<DriveParameters>) -> Hdd {
        Hdd { facts, drive: Drive::new(parameters) }
    }

    /// Reads the section `[hdd]` of a device file.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        facts: &DeviceFacts,
    ) -> Result<Arc<dyn Blueprint>, DeviceFileError> {
        let parameters = parameters::read(sections, "hdd", facts)?;
        Ok(Arc::new(Plan(Arc::new(parameters))))
    }
}

/// A disk's parameters, shared by all that are made of them.
#[derive(Debug)]
struct Plan(Arc<DriveParameters>);

impl Blueprint for Plan {
    fn build(&self, facts: DeviceFacts) -> Box<dyn Model> {
        Box::new(Hdd::new(facts, Arc::clone(&self.0)))
    }
}

impl Model for Hdd {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        let fua = command.flags.intersects(Flags::FUA);
        // Without a volatile cache every write is on the medium when it ends.
        let fua = fua || command.op == Op::Write && !self.facts.write_cache;
        let Command { op, sector, sectors, .. } = *command;
        self.drive.submit(now, command.tag, Task { op, sector, sectors, fua })
    }

    fn next_event(&self) -> Option<Nanos> {
        self.drive.next_event()
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        let ended = self.drive.advance(now)?;
        let outcome = Outcome::OK.served(ended.served);
        Some(Completion { tag: ended.id, at: ended.at, outcome })
    }
}
