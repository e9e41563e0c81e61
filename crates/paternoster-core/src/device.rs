// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device: what it reports, what it is given, what it answers; and device time.
//!
//! The library never touches a device. A caller passes [`Command`]s to an implementation of
//! [`Device`], a model in virtual time or io_uring in real time, and passes the [`Completion`]s
//! back.
//!
//! # Device time
//! Fairness is judged by device time: while k commands are in service, each is charged 1/k of the
//! time that passes. [`ServiceClock`] computes it: a clock that runs at 1/k, so that a command's
//! device time is the difference of two readings.
//!
//! ```text
//! time   0        10        20        30
//! A      |---------------------|             clock at its start 0, at its end 10 + 10/2 = 15
//! B               |---------------------|    clock at its start 10, at its end 15 + 10 = 25
//! charge A 15, B 15: together 30, the time the device was busy
//! ```
//!
//! Source: own.

use crate::client::ClientId;
use crate::op::{Flags, Op};
use crate::slab::Key;
use crate::time::Nanos;

/// What a device reports about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Sectors of 512 bytes.
    pub capacity: u64,
    /// The number of commands it takes at a time, at least 1.
    pub depth: u32,
    /// Whether seeks cost time.
    pub rotational: bool,
    /// Whether a power failure may lose completed writes until a flush.
    pub write_cache: bool,
    /// Whether it supports forced unit access.
    pub fua: bool,
    /// Whether a flush can be queued together with other commands.
    pub flush_queueable: bool,
    /// Largest command, in sectors.
    pub max_sectors: u32,
    /// Memory segments that a command may gather.
    pub max_segments: u16,
}

impl Default for DeviceFacts {
    /// 1 TiB of flash that takes 32 commands; limits as Linux 6 sets them (1280 KiB, 128 segments).
    fn default() -> DeviceFacts {
        DeviceFacts {
            capacity: 1 << 31,
            depth: 32,
            rotational: false,
            write_cache: false,
            fua: false,
            flush_queueable: true,
            max_sectors: 2560,
            max_segments: 128,
        }
    }
}

/// Identifies a command in the device; its slot number is below the depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub(crate) Key);

impl Tag {
    /// The tag of a slot that no queue has assigned: for driving a model without a queue. Every
    /// queue treats it as stale.
    #[must_use]
    pub const fn of_slot(slot: u32) -> Tag {
        Tag(Key::new(slot, 0))
    }

    /// The slot, below the device's depth: an index for buffers.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.index()
    }
}

/// What the device is to do: merged, ordered, within its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Identifies it in its completion.
    pub tag: Tag,
    /// The operation.
    pub op: Op,
    /// First sector; 0 for a flush.
    pub sector: u64,
    /// How many sectors; 0 for a flush.
    pub sectors: u32,
    /// Properties; FUA only if the device supports it.
    pub flags: Flags,
    /// Its client; that of the first bio when several were merged.
    pub client: ClientId,
}

impl Command {
    /// The sector after its last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors as u64
    }
}

/// How an I/O ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// Done.
    #[default]
    Ok,
    /// Failed, with the device's errno (positive, as EIO = 5).
    Failed(i32),
    /// Withdrawn before it reached the device.
    Cancelled,
}

/// How an I/O ended and what it cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Device time, if the device knows it; otherwise the queue measures it.
    pub served: Option<Nanos>,
}

impl Outcome {
    /// Done.
    pub const OK: Outcome = Outcome { status: Status::Ok, served: None };

    /// Failed with this errno.
    #[must_use]
    pub const fn failed(errno: i32) -> Outcome {
        Outcome { status: Status::Failed(errno), served: None }
    }

    /// With the device time it took.
    #[must_use]
    pub const fn served(mut self, served: Nanos) -> Outcome {
        self.served = Some(served);
        self
    }
}

/// A command that has ended.
#[must_use = "a queue that is not told holds the command's tag and bios for ever"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Its tag.
    pub tag: Tag,
    /// Its time.
    pub at: Nanos,
    /// How it ended.
    pub outcome: Outcome,
}

/// The device takes no command now; requeue it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// Something that executes commands, in virtual or real time. The device owns the clock.
pub trait Device {
    /// What it reports about itself.
    fn facts(&self) -> DeviceFacts;

    /// The time now. Never steps back.
    fn now(&self) -> Nanos;

    /// Takes a command.
    ///
    /// # Errors
    /// [`Refused`] when it cannot take one now; the caller requeues the command.
    fn submit(&mut self, command: Command) -> Result<(), Refused>;

    /// Lets time pass until a command ends, at most until `until`; `None` when none ended by then.
    /// With nothing in service and no `until` it returns at once.
    #[must_use = "a queue that is not told holds the command's tag and bios for ever"]
    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion>;
}

/// A clock that runs at 1/k while k commands are in service, and stops while there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceClock {
    clock: u64,
    /// The remainder of the division, less than k: nothing is lost over time.
    rest: u64,
    in_service: u32,
    last: Nanos,
    busy: Nanos,
}

impl ServiceClock {
    /// Lets the clock run to `now`.
    pub fn advance(&mut self, now: Nanos) {
        let passed = (now - self.last).0;
        if passed == 0 {
            return;
        }
        self.last = now;
        if self.in_service != 0 {
            let served = passed + self.rest;
            // As often as not there is one, and a division takes as long as twenty additions.
            (self.clock, self.rest) = match u64::from(self.in_service) {
                1 => (self.clock + served, 0),
                commands => (self.clock + served / commands, served % commands),
            };
            self.busy += Nanos(passed);
        }
    }

    /// A command enters service at `now`; keep the reading for [`ServiceClock::leave`].
    pub fn enter(&mut self, now: Nanos) -> Nanos {
        self.advance(now);
        self.in_service += 1;
        Nanos(self.clock)
    }

    /// A command leaves service at `now`; returns its device time.
    pub fn leave(&mut self, now: Nanos, entered: Nanos) -> Nanos {
        self.advance(now);
        debug_assert!(self.in_service > 0, "a command leaves an idle device");
        self.in_service = self.in_service.saturating_sub(1);
        Nanos(self.clock) - entered
    }

    /// How many commands are in service.
    #[must_use]
    pub const fn in_service(&self) -> u32 {
        self.in_service
    }

    /// How long at least one command was in service, up to the last call.
    #[must_use]
    pub const fn busy(&self) -> Nanos {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Does the module's example hold? A 0-20, B 10-30: 15 each.
    #[test]
    fn two_commands_share_the_time_they_overlap() {
        let mut clock = ServiceClock::default();
        let a = clock.enter(Nanos(0));
        let b = clock.enter(Nanos(10));
        assert_eq!(clock.leave(Nanos(20), a), Nanos(15));
        assert_eq!(clock.leave(Nanos(30), b), Nanos(15));
        assert_eq!(clock.busy(), Nanos(30));
    }

    proptest! {
        /// Do the charges add up to the time the device was busy, within one ns per command?
        #[test]
        fn charges_add_up_to_busy_time(
            steps in prop::collection::vec((0u64..1000, any::<bool>()), 1..200)
        ) {
            let (mut clock, mut now, mut charged, mut commands) =
                (ServiceClock::default(), 0, 0, 0u64);
            let mut inside: Vec<Nanos> = Vec::new();
            for (passed, enter) in steps {
                now += passed;
                if enter || inside.is_empty() {
                    inside.push(clock.enter(Nanos(now)));
                    commands += 1;
                } else {
                    charged += clock.leave(Nanos(now), inside.remove(0)).0;
                }
            }
            while let Some(entered) = inside.pop() {
                charged += clock.leave(Nanos(now), entered).0;
            }
            prop_assert!(clock.busy().0.abs_diff(charged) <= commands * 2);
        }
    }
}
