// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients and groups: the submitters of I/O, with class, level and weight.
//!
//! A *client* is what the kernel calls an I/O context: a process, a thread, an NBD connection. A
//! *group* is a cgroup: clients and further groups share its weight.
//!
//! ```text
//! root 1000 ─┬─ tenant-a 200 ─┬─ client 0  best effort 4
//!            │                └─ client 1  best effort 4
//!            └─ tenant-b 100 ─── client 2  realtime 0
//! ```
//!
//! The queue only keeps this tree; the elevator defines what a weight or a level means.
//!
//! Source: CFQ-2 to CFQ-4 (classes, levels, nice), CFQ-45, BFQ-180 (weights).

use core::fmt;
use core::ops::Deref;

use crate::op::{Flags, Op};
use crate::slab::{Key, NIL, Slab};
use crate::time::Nanos;

/// What a client may sleep for: a request of one of two pools, a bio (see `block/admission`).
pub(crate) const POOLS: usize = 3;

/// Identifies a client of a queue. The id of a client that has left is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(crate) Key);

impl ClientId {
    /// No client: for the one that plugs the device, and for requests that belong to none.
    pub const NOBODY: ClientId = ClientId(Key::new(NIL, 0));

    /// A small number, unique among the present clients: an index for tables.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.index()
    }

    /// Whether it is no client, as in events for what the queue does by itself.
    #[must_use]
    pub const fn is_nobody(self) -> bool {
        self.0.index() == NIL
    }
}

impl Default for ClientId {
    fn default() -> ClientId {
        ClientId::NOBODY
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.index())
    }
}

/// Names a group of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub(crate) Key);

impl GroupId {
    /// A small number, unique among the present groups: an index for tables.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.index()
    }
}

/// The three scheduling classes, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Class {
    /// Before all others.
    Realtime = 0,
    /// The default.
    #[default]
    BestEffort = 1,
    /// Only when no other client wants the device.
    Idle = 2,
}

/// Class and level of a client or of one bio; level 0 is the highest, 7 the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// Scheduling class.
    pub class: Class,
    /// 0 (most) to 7 (least).
    pub level: u8,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { class: Class::BestEffort, level: 4 }
    }
}

impl Priority {
    /// What Linux gives a process that never called `ioprio_set`: best effort, level `(nice + 20)
    /// / 5`.
    #[must_use]
    pub const fn from_nice(nice: i8) -> Priority {
        let nice = if nice < -20 {
            -20
        } else if nice > 19 {
            19
        } else {
            nice
        };
        Priority { class: Class::BestEffort, level: ((nice + 20) / 5).unsigned_abs() }
    }

    /// The more urgent of two: the priority of a request that two bios share.
    #[must_use]
    pub fn better(self, other: Priority) -> Priority {
        self.min(other)
    }
}

/// A group to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSpec {
    pub(crate) parent: Option<GroupId>,
    pub(crate) weight: u32,
}

impl Default for GroupSpec {
    fn default() -> GroupSpec {
        GroupSpec::new()
    }
}

impl GroupSpec {
    /// A child of the root with the weight that cgroups start with, 100.
    #[must_use]
    pub const fn new() -> GroupSpec {
        GroupSpec { parent: None, weight: 100 }
    }

    /// Share relative to the siblings: 1 to 10 000, others are clamped.
    #[must_use]
    pub const fn weight(mut self, weight: u32) -> GroupSpec {
        self.weight = clamp_weight(weight);
        self
    }

    /// Below `parent` instead of below the root.
    #[must_use]
    pub const fn parent(mut self, parent: GroupId) -> GroupSpec {
        self.parent = Some(parent);
        self
    }
}

pub(crate) const fn clamp_weight(weight: u32) -> u32 {
    if weight < 1 {
        1
    } else if weight > 10_000 {
        10_000
    } else {
        weight
    }
}

/// A client to be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSpec {
    pub(crate) group: Option<GroupId>,
    pub(crate) priority: Priority,
    pub(crate) weight: u32,
    pub(crate) pid: u32,
}

impl Default for ClientSpec {
    fn default() -> ClientSpec {
        ClientSpec::new()
    }
}

impl ClientSpec {
    /// A client of the root group: best effort, level 4, weight 100, no pid.
    #[must_use]
    pub const fn new() -> ClientSpec {
        let priority = Priority { class: Class::BestEffort, level: 4 };
        ClientSpec { group: None, priority, weight: 100, pid: 0 }
    }

    /// A member of `group`.
    #[must_use]
    pub const fn group(mut self, group: GroupId) -> ClientSpec {
        self.group = Some(group);
        self
    }

    /// Class and level; levels beyond 7 become 7.
    #[must_use]
    pub const fn priority(mut self, class: Class, level: u8) -> ClientSpec {
        self.priority = Priority { class, level: if level > 7 { 7 } else { level } };
        self
    }

    /// Share relative to the other clients of its group: 1 to 10 000.
    #[must_use]
    pub const fn weight(mut self, weight: u32) -> ClientSpec {
        self.weight = clamp_weight(weight);
        self
    }

    /// The process id to show in traces.
    #[must_use]
    pub const fn pid(mut self, pid: u32) -> ClientSpec {
        self.pid = pid;
        self
    }
}

/// A member of a queue's group tree.
#[derive(Debug, Clone, Default)]
pub struct Group {
    pub(crate) parent: Option<GroupId>,
    pub(crate) weight: u32,
    /// Clients and groups directly below.
    pub(crate) members: u32,
}

impl Group {
    /// The group above; `None` for the root.
    #[must_use]
    pub const fn parent(&self) -> Option<GroupId> {
        self.parent
    }

    /// Share relative to the siblings.
    #[must_use]
    pub const fn weight(&self) -> u32 {
        self.weight
    }
}

/// A client's state in a pool that it may wait for (see `block/admission`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sleep {
    /// Not waiting.
    #[default]
    Awake,
    /// Got Busy; is in the pool's list of sleepers.
    Asleep,
    /// Got a Wake and has not tried again yet.
    Woken,
}

/// A submitter of bios.
///
/// The fields up to `refused` are read for each bio: together with the slab's own data of the slot
/// they fit in a cache line.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct Client {
    /// Requests allocated on its behalf and not yet freed.
    pub(crate) requests: u32,
    /// Bios submitted and not yet handed back.
    pub(crate) bios: u32,
    pub(crate) priority: Priority,
    /// Detached: it is removed when its last bio has gone.
    pub(crate) leaving: bool,
    pub(crate) plugged: bool,
    pub(crate) sleep: [Sleep; POOLS],
    /// Requests left of a batcher's batch, and since when it runs (BLK-7).
    pub(crate) batch_left: u8,
    pub(crate) batch_since: Nanos,
    /// The bio that last got Busy: submitting it again is not a second Q event.
    pub(crate) refused: Option<(u64, u32)>,

    pub(crate) group: Option<GroupId>,
    pub(crate) weight: u32,
    pub(crate) pid: u32,
    /// The kind of I/O for which it was last refused.
    pub(crate) refused_as: (Op, Flags),
    /// The elevator's limit for that at the time (`Admission::AtMost`).
    pub(crate) refused_under: u32,
    /// Its place in the line of sleepers; whether its last wake got it nothing.
    pub(crate) turn: u64,
    pub(crate) passed_over: bool,
    /// It has been woken for a tag and not told yet; the tag is kept for it.
    pub(crate) expected: bool,
    pub(crate) kept: bool,
}

impl Client {
    /// A client as it is attached, in `group`.
    pub(crate) fn of(spec: ClientSpec, group: GroupId) -> Client {
        let ClientSpec { group: _, priority, weight, pid } = spec;
        Client { group: Some(group), priority, weight, pid, ..Client::default() }
    }

    /// The group it belongs to; `None` before it was attached.
    #[must_use]
    pub const fn group(&self) -> Option<GroupId> {
        self.group
    }

    /// Class and level of bios that have none of their own.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// Share relative to the other clients of its group.
    #[must_use]
    pub const fn weight(&self) -> u32 {
        self.weight
    }

    /// Process id for traces.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has left and nothing is left of it: neither a bio nor a request, which may
    /// outlive its own bio (withdrawn from a merged request).
    pub(crate) const fn is_gone(&self) -> bool {
        self.leaving && self.bios == 0 && self.requests == 0
    }

    /// Requests allocated on its behalf and not yet freed.
    #[must_use]
    pub const fn requests(&self) -> u32 {
        self.requests
    }
}

/// A slab that the queue owns and elevators can only read.
#[derive(Debug)]
pub(crate) struct ReadOnly<T>(pub(crate) Slab<T>);

impl<T> Deref for ReadOnly<T> {
    type Target = Slab<T>;

    #[inline]
    fn deref(&self) -> &Slab<T> {
        &self.0
    }
}

/// All clients of a queue.
pub(crate) type Clients = ReadOnly<Client>;
/// All groups of a queue.
pub(crate) type Groups = ReadOnly<Group>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a process without ioprio get the level of its nice value, (nice + 20) / 5? And does a
    /// client start with best effort, level 4?
    #[test]
    fn cfq_2_nice_gives_the_level() {
        assert_eq!(Priority::default(), Priority::from_nice(0));
        for (nice, level) in [(0, 4), (-20, 0), (19, 7), (10, 6)] {
            let expected = Priority { class: Class::BestEffort, level };
            assert_eq!(Priority::from_nice(nice), expected, "nice {nice}");
        }
    }

    /// Does an idle client take at most 1 KiB, 100 MB for 100,000, and its hot part a cache line?
    #[test]
    fn an_idle_client_is_small() {
        assert!(size_of::<Client>() <= 1024, "{}", size_of::<Client>());
        // With the 8 bytes of a slab.
        assert!(core::mem::offset_of!(Client, group) + 8 <= 64);
    }
}
