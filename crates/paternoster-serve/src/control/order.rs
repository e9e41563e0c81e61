// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders: what a running desk can be asked, and where its answer goes.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use serde_json::Value;

use crate::config::ServiceClass;

/// What a desk can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// How it stands: a [`Snapshot`](super::snapshot::Snapshot).
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
        /// Its class from now on.
        class: ServiceClass,
        /// 0 to 7.
        level: u8,
    },
    /// Another scheduler.
    Scheduler {
        /// Its name.
        name: String,
    },
    /// An attribute of the queue or its scheduler, as sysfs names it.
    Attribute {
        /// Which.
        name: String,
        /// What it is set to; `None`: only tell it.
        value: Option<String>,
    },
    /// All attributes.
    Attributes,
    /// Takes no new requests for a volume, answers when the last has ended; its guests get
    /// ESHUTDOWN.
    Drain {
        /// Which.
        volume: String,
    },
    /// Takes requests for a drained volume again.
    Resume {
        /// Which.
        volume: String,
    },
    /// Who waits for what, and the effective weight at every level.
    Explain {
        /// Only this tenant.
        tenant: Option<String>,
    },
    /// Begins a blktrace of the device (`Some`), or ends it.
    Trace {
        /// Files `PREFIX.blktrace.0`.
        prefix: Option<PathBuf>,
    },
    /// Guests finish, then the desk ends.
    Stop,
}

/// What came of an order: a document, or why not.
pub type Answer = Result<Value, String>;

/// An order with its way back.
#[derive(Debug)]
pub struct Asked {
    /// What.
    pub order: Order,
    /// Where the answer goes. Who asked may have gone.
    pub answer: Sender<Answer>,
}
