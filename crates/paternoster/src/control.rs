// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control: the queue's own attributes, and the way to the elevator's.
//!
//! The queue's attributes have the names of `/sys/block/*/queue`; those of the elevator follow
//! under `iosched/`, as in sysfs. Either may be set by its bare name when it is unambiguous
//! (`slice_idle` for `iosched/slice_idle`).
//!
//! | attribute | meaning |
//! |---|---|
//! | nr_requests | requests allocated at a time (BLK-7 per pool, BLK-8) |
//! | nomerges | 0 all merges, 1 only with the last merged, 2 none (BLK-3) |
//! | max_sectors_kb | largest request |
//! | read_ahead_kb | how far a page cache in front of the queue reads ahead; kept for it here |
//! | rotational | whether elevators take the device for a disk |
//! | rules | which block layer: allocation, plug lists, requeue |
//! | plug | who holds requests back: tasks (2.6.39 on) or the device (before) |
//! | hz | ticks per second that elevators see, 0 exact |
//! | write_cache, fua | what the device's cache can do; `write through` makes flushes no-ops |
//! | flush_hold, flush_insert, flush_drain, flush_delay | see `flush/hold.rs` |
//! | flush_elide | see `flush/clean.rs` |
//! | flush_owners, flush_ahead | see `flush/owner.rs`, `debt.rs` |
//! | ncq | whether elevators believe the device's depth or find out |

use core::fmt;

use crate::attribute::{Attribute, AttributeError, Values};
use crate::elevator::Rules;
use crate::event::Observer;
use crate::flush::{HOLDS, Hold, INSERTS};
use crate::queue::RequestQueue;
use crate::scene::Ncq;
use crate::time::{Hz, Nanos};

const SWITCH: Values = Values::Number { min: 0, max: 1 };

/// HZ of the kernels that there are, and exact time.
const TICKS: &[&str] = &["0", "100", "250", "1000"];

/// What the queue itself offers, in the order of the listing.
pub const QUEUE_ATTRIBUTES: &[Attribute] = &[
    Attribute {
        name: "nr_requests",
        unit: "requests",
        values: Values::Number { min: 1, max: 10_240 },
        help: "requests allocated at a time; per pool (sync, async) under legacy rules, at least 4",
    },
    Attribute {
        name: "nomerges",
        unit: "",
        values: Values::Number { min: 0, max: 2 },
        help: "0 try all merges, 1 only with the request merged last, 2 none",
    },
    Attribute {
        name: "max_sectors_kb",
        unit: "KiB",
        values: Values::Number { min: 4, max: u64::MAX },
        help: "largest request; at most what the device takes",
    },
    Attribute {
        name: "max_hw_sectors_kb",
        unit: "KiB",
        values: Values::ReadOnly,
        help: "largest command that the device takes",
    },
    Attribute {
        name: "max_segments",
        unit: "segments",
        values: Values::ReadOnly,
        help: "pieces of memory that a command may gather",
    },
    Attribute {
        name: "read_ahead_kb",
        unit: "KiB",
        values: Values::Number { min: 0, max: READ_AHEAD_KB_MAX },
        help: "how far buffered readers read ahead; for the page cache in front of the queue",
    },
    Attribute {
        name: "queue_depth",
        unit: "commands",
        values: Values::ReadOnly,
        help: "commands that the device takes at a time",
    },
    Attribute {
        name: "rotational",
        unit: "",
        values: SWITCH,
        help: "1 if seeks cost time, for elevators",
    },
    Attribute {
        name: "rules",
        unit: "",
        values: Values::Choice(&["legacy", "mq"]),
        help: "the block layer to follow: pools (until 5.0) or tags; elevators ask for theirs",
    },
    Attribute {
        name: "plug",
        unit: "",
        values: Values::Choice(&["task", "device"]),
        help: "who holds requests back to merge them: each task (2.6.39 on) or the device (before)",
    },
    Attribute {
        name: "hz",
        unit: "1/s",
        values: Values::Choice(TICKS),
        help: "ticks in which elevators see time, as a kernel of that HZ; 0 is exact",
    },
    Attribute {
        name: "write_cache",
        unit: "",
        values: Values::Choice(&["write through", "write back"]),
        help: "whether flushes are needed; `write through` makes every flush a no-op",
    },
    Attribute {
        name: "fua",
        unit: "",
        values: Values::ReadOnly,
        help: "1 if the device can write past its cache",
    },
    Attribute {
        name: "flush_hold",
        unit: "",
        values: Values::Choice(HOLDS),
        help: "held while a flush is in flight: all if the device cannot queue it, or writes",
    },
    Attribute {
        name: "flush_insert",
        unit: "",
        values: Values::Choice(INSERTS),
        help: "place of a flush on the dispatch list: tail since 53d63e6b0d, head before and in mq",
    },
    Attribute {
        name: "flush_drain",
        unit: "",
        values: SWITCH,
        help: "1: a flush that cannot be queued is not tried before the device is empty",
    },
    Attribute {
        name: "flush_elide",
        unit: "",
        values: SWITCH,
        help: "1: a flush of a cache known to be clean is no command",
    },
    Attribute {
        name: "flush_delay",
        unit: "us",
        values: Values::Number { min: 0, max: 1_000_000 },
        help: "how long a flush waits for others to share it while the queue is not empty",
    },
    Attribute {
        name: "flush_owners",
        unit: "",
        values: SWITCH,
        help: "1: who wrote what a flush drains leaves the device to others for as long (cfq, bfq)",
    },
    Attribute {
        name: "flush_ahead",
        unit: "flushes",
        values: Values::Number { min: 0, max: 1000 },
        help: "with flush_owners: how many flushes like the last one may owe before one waits",
    },
    Attribute {
        name: "ncq",
        unit: "",
        values: Values::Choice(&["declared", "probe"]),
        help: "whether elevators take the device's word on its depth, or find out themselves",
    },
];

/// 1 GiB: far beyond what any page cache should read ahead.
const READ_AHEAD_KB_MAX: u64 = 1 << 20;

const PREFIX: &str = "iosched/";

/// Where an attribute is found.
enum Found {
    Queue(usize),
    Elevator(usize),
}

impl<O: Observer> RequestQueue<O> {
    /// Sets an attribute of the queue or its elevator.
    ///
    /// # Errors
    /// [`AttributeError`] names the attribute, the text and what would be right; nothing has
    /// changed then.
    pub fn set_attribute(
        &mut self,
        now: Nanos,
        name: &str,
        text: &str,
    ) -> Result<(), AttributeError> {
        self.advance(now);
        let result = match self.find_attribute(name)? {
            Found::Queue(place) => {
                let value = QUEUE_ATTRIBUTES[place].parse(text)?;
                self.set_own(place, value)
            }
            Found::Elevator(place) => {
                let value = self.elevator.attributes()[place].parse(text)?;
                self.elevator.set(&mut self.scene, place, value);
                // It may have been a limit that somebody sleeps for.
                self.wake_all();
                Ok(())
            }
        };
        self.end_call();
        result
    }

    /// Whether an attribute takes this text as it is: [`RequestQueue::set_attribute`] would bring a
    /// number outside its range into it. What the queue's capacities do not allow is not asked.
    ///
    /// # Errors
    /// [`AttributeError`] names the attribute, the text and what would be right.
    pub fn check_attribute(&self, name: &str, text: &str) -> Result<(), AttributeError> {
        match self.find_attribute(name)? {
            Found::Queue(place) => QUEUE_ATTRIBUTES[place].check(text),
            Found::Elevator(place) => self.elevator.attributes()[place].check(text),
        }
    }

    /// Writes an attribute's value as sysfs shows it.
    ///
    /// # Errors
    /// [`AttributeError::Unknown`].
    pub fn show_attribute(
        &self,
        name: &str,
        out: &mut dyn fmt::Write,
    ) -> Result<(), AttributeError> {
        // A failing writer is the caller's own; it knows.
        let _written = match self.find_attribute(name)? {
            Found::Queue(place) => QUEUE_ATTRIBUTES[place].show(self.own_value(place), out),
            Found::Elevator(place) => self.elevator.show(&self.scene, place, out),
        };
        Ok(())
    }

    /// How far a page cache in front of this queue reads ahead, in KiB (attribute `read_ahead_kb`).
    #[must_use]
    pub const fn read_ahead_kb(&self) -> u64 {
        self.policy.read_ahead_kb
    }

    fn find_attribute(&self, name: &str) -> Result<Found, AttributeError> {
        let place = |list: &[Attribute], name: &str| list.iter().position(|a| a.name == name);
        let elevators = self.elevator.attributes();
        let found = match name.strip_prefix(PREFIX) {
            Some(name) => place(elevators, name).map(Found::Elevator),
            None => place(QUEUE_ATTRIBUTES, name)
                .map(Found::Queue)
                .or_else(|| place(elevators, name).map(Found::Elevator)),
        };
        found.ok_or_else(|| AttributeError::Unknown { name: name.into() })
    }

    /// Calls `each` with every attribute: its path below `queue/`, what it is, its value as shown.
    pub fn for_each_attribute(&self, mut each: impl FnMut(&str, &Attribute, &str)) {
        let mut shown = alloc::string::String::new();
        for (place, attribute) in QUEUE_ATTRIBUTES.iter().enumerate() {
            shown.clear();
            let _written = attribute.show(self.own_value(place), &mut shown);
            each(attribute.name, attribute, &shown);
        }
        for (place, attribute) in self.elevator.attributes().iter().enumerate() {
            shown.clear();
            let _written = self.elevator.show(&self.scene, place, &mut shown);
            let path = alloc::format!("{PREFIX}{}", attribute.name);
            each(&path, attribute, &shown);
        }
    }

    fn own_value(&self, place: usize) -> u64 {
        let (facts, policy) = (&self.scene.facts, &self.policy);
        match QUEUE_ATTRIBUTES[place].name {
            "nr_requests" => self.scene.nr_requests.into(),
            "nomerges" => policy.nomerges.into(),
            "max_sectors_kb" => u64::from(policy.max_sectors) / 2,
            "max_hw_sectors_kb" => u64::from(facts.max_sectors) / 2,
            "max_segments" => facts.max_segments.into(),
            "read_ahead_kb" => policy.read_ahead_kb,
            "queue_depth" => facts.depth.into(),
            "rotational" => facts.rotational.into(),
            "rules" => (policy.rules == Rules::Mq).into(),
            "plug" => policy.device_plug.into(),
            "hz" => self.ticks_place(),
            "write_cache" => facts.write_cache.into(),
            "fua" => facts.fua.into(),
            "flush_hold" => self.flush.policy.hold as u64,
            "flush_insert" => self.flush.policy.at_head.into(),
            "flush_drain" => self.flush.policy.drains.into(),
            "flush_elide" => self.flush.policy.elides.into(),
            "flush_delay" => self.flush.policy.delay.0 / 1000,
            "flush_owners" => self.flush.policy.owned.into(),
            "flush_ahead" => self.flush.policy.ahead,
            _ => (self.scene.ncq == Ncq::Probe).into(),
        }
    }

    fn ticks_place(&self) -> u64 {
        let hz = self.scene.hz().get();
        let same = |word: &&&str| word.parse() == Ok(hz);
        TICKS.iter().take_while(|word| !same(word)).count() as u64
    }

    fn set_own(&mut self, place: usize, value: u64) -> Result<(), AttributeError> {
        let attribute = &QUEUE_ATTRIBUTES[place];
        match attribute.name {
            "nr_requests" => self.set_nr_requests(value)?,
            "nomerges" => self.policy.nomerges = u8::try_from(value).unwrap_or(2),
            "max_sectors_kb" => {
                let most = self.scene.facts.max_sectors;
                let sectors = u32::try_from(value.saturating_mul(2)).unwrap_or(u32::MAX);
                self.policy.max_sectors = sectors.min(most);
            }
            "read_ahead_kb" => self.policy.read_ahead_kb = value,
            "rotational" => self.scene.facts.rotational = value == 1,
            "rules" => {
                self.policy.rules = if value == 1 { Rules::Mq } else { Rules::Legacy };
                self.policy.rules_fixed = true;
                self.apply_rules();
            }
            "plug" => {
                self.policy.device_plug = value == 1;
                self.unplug_device(crate::event::Action::Unplug);
            }
            "hz" => {
                let hz =
                    TICKS.get(usize::try_from(value).unwrap_or(0)).and_then(|hz| hz.parse().ok());
                self.scene.set_hz(hz.and_then(Hz::new).unwrap_or_default());
            }
            "write_cache" => self.believe_write_cache(value == 1),
            "flush_hold" => self.flush.policy.hold = Hold::from_place(value),
            "flush_insert" => self.flush.policy.at_head = value == 1,
            "flush_drain" => self.flush.policy.drains = value == 1,
            "flush_elide" => self.flush.policy.elides = value == 1,
            "flush_delay" => {
                self.flush.policy.delay = Nanos::from_micros(value);
                self.kick();
            }
            "flush_ahead" => self.flush.policy.ahead = value,
            "flush_owners" => {
                self.flush.policy.owned = value == 1;
                self.forgive_debts();
            }
            _ => self.scene.ncq = if value == 1 { Ncq::Probe } else { Ncq::Declared },
        }
        Ok(())
    }

    fn set_nr_requests(&mut self, value: u64) -> Result<(), AttributeError> {
        let (_, most) = self.nr_requests_bounds();
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        let value = value.max(self.nr_requests_least());
        if value > most {
            return Err(AttributeError::Capacity { name: "nr_requests", most: most.into() });
        }
        self.scene.nr_requests = value;
        self.policy.requests_fixed = true;
        self.wake_all();
        Ok(())
    }
}
