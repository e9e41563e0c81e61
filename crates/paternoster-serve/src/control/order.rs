// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders: what a running loop can be asked, and where its answer goes.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Config, ServiceClass, Tenant};

/// An order to a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The loop's state: a [`Snapshot`](super::snapshot::Snapshot).
    Snapshot,
    /// A tenant's or a group's weight.
    Weight {
        /// Tenant or group.
        name: String,
        /// 1 to 10,000.
        weight: u32,
    },
    /// A tenant's class and level.
    Class {
        /// Tenant.
        name: String,
        /// The new class.
        class: ServiceClass,
        /// 0 to 7.
        level: u8,
    },
    /// Another scheduler.
    Scheduler {
        /// The tenant's name.
        name: String,
    },
    /// An attribute of the queue or its scheduler, as sysfs names it.
    Attribute {
        /// The attribute's name.
        name: String,
        /// The new value; `None`: only report the present one.
        value: Option<String>,
    },
    /// Asks for all attributes.
    Attributes,
    /// Takes no new requests for a volume, answers when the last has ended; its connections get
    /// ESHUTDOWN.
    Drain {
        /// The volume's name.
        volume: String,
    },
    /// Takes requests for a drained volume again.
    Resume {
        /// The volume's name.
        volume: String,
    },
    /// What each waiting request waits for, and the effective weight at every level.
    Explain {
        /// Explains this tenant alone.
        tenant: Option<String>,
    },
    /// Begins a blktrace of the device (`Some`), or ends it.
    Trace {
        /// Files `PREFIX.blktrace.0`.
        prefix: Option<PathBuf>,
    },
    /// The settings that orders can change: [`Settings`].
    Settings,
    /// Connections finish, then the loop ends.
    Stop,
}

/// The settings of a loop that orders can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Settings {
    /// The scheduler's name.
    pub scheduler: String,
    /// Attributes that were set, by the configuration or by order.
    pub attributes: Vec<(String, String)>,
    /// Those of them that are what a start gives by itself: a configuration without them is right.
    #[serde(default)]
    pub of_the_start: Vec<String>,
    /// Groups and tenants.
    pub tenants: Vec<Setting>,
}

/// The settings of a group or a tenant that orders can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Setting {
    /// Name of the tenant or group.
    pub name: String,
    /// Whether it is a group of tenants.
    pub is_group: bool,
    /// Whether it belongs to no group.
    pub is_at_the_root: bool,
    /// The weight, as configured or ordered.
    pub weight: u32,
    /// `best-effort`, `realtime`, `idle`, `background`.
    pub class: String,
    /// For the class background: its least part, in thousandths.
    pub minimum: u16,
    /// 0 to 7.
    pub level: u8,
}

impl Settings {
    /// Writes these settings into a device's configuration. A tenant that is not configured is
    /// added if its weight differs from the default.
    pub(crate) fn put_into(self, config: &mut Config, device: &str) {
        for Setting { name, is_group, is_at_the_root, weight, class, minimum, level } in
            self.tenants
        {
            let class = match class.parse() {
                Ok(ServiceClass::Kernel(class)) => ServiceClass::Kernel(class),
                _ => ServiceClass::Background { minimum },
            };
            if let Some(group) = config.groups.iter_mut().find(|it| is_group && it.name == name) {
                group.weight = weight;
            } else if let Some(tenant) = config.tenants.iter_mut().find(|it| it.name == name) {
                (tenant.weight, tenant.class, tenant.level) = (weight, class, level);
            } else if !is_group && is_at_the_root && weight != 100 {
                config.tenants.push(Tenant { weight, ..Tenant::new(&name) });
            }
        }
        let Some(device) = config.devices.iter_mut().find(|it| it.name == device) else { return };
        device.scheduler = self.scheduler;
        for (name, value) in self.attributes {
            match device.attributes.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None if self.of_the_start.contains(&name) => {}
                None => device.attributes.push((name, value)),
            }
        }
    }
}

/// What came of an order: a document, or why not.
pub type Answer = Result<Value, String>;

/// An order, and where its answer goes.
#[derive(Debug)]
pub struct Asked {
    /// The order itself.
    pub order: Order,
    /// Where the answer goes. The sender of the order may have gone.
    pub answer: Sender<Answer>,
}
