// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes: those of a gate, each with its place in the queue: a client, and a group once there is
//! another class below it.
//!
//! ```text
//! open, close, reweigh ─▶ Classes ─▶ RequestQueue: attach, add_group, move_client, detach
//! ```
//!
//! Invariant: an open class has a client in the queue; it has a group exactly if one was ever
//! opened below it. The group of a closed class is in `closing` until the queue releases it.

use alloc::vec::Vec;

use paternoster_core::slab::{Key, Slab};
use paternoster_core::{
    AddError, Class as Urgency, ClientSpec, GroupId, GroupSpec, Nanos, Priority, RequestQueue,
};

use super::class::{Class, ClassId, ClassSpec, Kind};

/// A class was not opened, changed or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassError {
    /// There are already as many as the gate has places for.
    Full,
    /// There is no such class: it was closed.
    NoClass,
    /// Others are below it, so it cannot be closed.
    InUse,
    /// Only a class of the normal kind without a floor has others below it.
    Kind,
}

impl core::fmt::Display for ClassError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ClassError::Full => "there are as many classes as the gate has places for",
            ClassError::NoClass => "the class was closed",
            ClassError::InUse => "other classes are below it",
            ClassError::Kind => {
                "only a class of the normal kind without a floor has others below it"
            }
        })
    }
}

impl core::error::Error for ClassError {}

impl From<AddError> for ClassError {
    fn from(error: AddError) -> ClassError {
        match error {
            AddError::Full { .. } => ClassError::Full,
            _ => ClassError::NoClass,
        }
    }
}

/// The classes of a gate.
#[derive(Debug)]
pub(super) struct Classes {
    all: Slab<Class>,
    /// Groups of closed classes, until the queue releases them.
    closing: Vec<GroupId>,
}

impl Classes {
    /// No classes, with places for `most`.
    pub(super) fn new(most: u32) -> Classes {
        Classes { all: Slab::with_capacity(most), closing: Vec::new() }
    }

    #[inline]
    pub(super) fn get(&self, id: ClassId) -> Option<&Class> {
        self.all.get(id.0)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ClassId) -> Option<&mut Class> {
        self.all.get_mut(id.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Class)> {
        self.all.iter()
    }

    /// A class opens.
    pub(super) fn open(
        &mut self,
        queue: &mut RequestQueue,
        now: Nanos,
        spec: ClassSpec,
    ) -> Result<ClassId, ClassError> {
        if self.all.is_full() {
            return Err(ClassError::Full);
        }
        let group = spec.below.map(|above| self.group_of(queue, now, above)).transpose()?;
        let mut class = Class {
            name: spec.name,
            weight: spec.weight,
            kind: spec.kind,
            above: spec.below,
            ..Class::default()
        };
        let priority = class.priority();
        let client = ClientSpec::new()
            .priority(priority.class, priority.level)
            .weight(class.client_weight());
        class.client = queue.attach(now, group.map_or(client, |group| client.group(group)))?;
        let key = self.all.insert(class).map_err(|_| ClassError::Full)?;
        if let Some(above) = spec.below.and_then(|above| self.get_mut(above)) {
            above.below += 1;
        }
        Ok(ClassId(key))
    }

    /// The group of a class; it is made if the class has none.
    fn group_of(
        &mut self,
        queue: &mut RequestQueue,
        now: Nanos,
        id: ClassId,
    ) -> Result<GroupId, ClassError> {
        let class = self.get(id).ok_or(ClassError::NoClass)?;
        if class.kind != Kind::Normal || class.floor.rate().is_said() {
            return Err(ClassError::Kind);
        }
        if let Some(group) = class.group {
            return Ok(group);
        }
        let (client, weight, above) = (class.client, class.effective_weight(), class.above);
        let mut spec = GroupSpec::new().weight(weight);
        if let Some(group) = above.and_then(|above| self.get(above)?.group) {
            spec = spec.parent(group);
        }
        let group = queue.add_group(now, spec)?;
        queue.move_client(now, client, group)?;
        if let Some(class) = self.get_mut(id) {
            class.group = Some(group);
            tell_weight(queue, now, class);
        }
        Ok(group)
    }

    /// Sets a class's weight from now on.
    pub(super) fn set_weight(
        &mut self,
        queue: &mut RequestQueue,
        now: Nanos,
        id: ClassId,
        weight: u32,
    ) -> Result<(), ClassError> {
        let class = self.get_mut(id).ok_or(ClassError::NoClass)?;
        class.weight = weight;
        tell_weight(queue, now, class);
        Ok(())
    }

    /// A class closes.
    pub(super) fn close(
        &mut self,
        queue: &mut RequestQueue,
        now: Nanos,
        id: ClassId,
    ) -> Result<(), ClassError> {
        let class = self.get(id).ok_or(ClassError::NoClass)?;
        if class.below > 0 {
            return Err(ClassError::InUse);
        }
        let (client, group, above) = (class.client, class.group, class.above);
        self.all.release(id.0.index());
        if let Some(above) = above.and_then(|above| self.get_mut(above)) {
            above.below -= 1;
        }
        let left = queue.detach(now, client);
        debug_assert!(left.is_ok(), "an open class has a client");
        self.closing.extend(group);
        self.let_groups_go(queue, now);
        Ok(())
    }

    /// Removes the groups of closed classes that are empty.
    #[inline]
    pub(super) fn let_groups_go(&mut self, queue: &mut RequestQueue, now: Nanos) {
        if !self.closing.is_empty() {
            self.closing.retain(|group| queue.remove_group(now, *group).is_err());
        }
    }
}

/// Tells the queue a class's weight.
fn tell_weight(queue: &mut RequestQueue, now: Nanos, class: &Class) {
    let told = queue.set_priority(now, class.client, class.priority(), class.client_weight());
    debug_assert!(told.is_ok(), "an open class has a client");
    if let Some(urgent) = class.urgent {
        let priority = Priority { class: Urgency::Realtime, ..class.priority() };
        let told = queue.set_priority(now, urgent, priority, class.effective_weight());
        debug_assert!(told.is_ok(), "it was attached");
    }
    if let Some(group) = class.group {
        let told = queue.set_group_weight(now, group, class.effective_weight());
        debug_assert!(told.is_ok(), "an open class has its group");
    }
}
