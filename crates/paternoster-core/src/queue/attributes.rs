// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control: the queue's own attributes, and access to the elevator's.
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
//! | rotational | whether elevators treat the device as a disk |
//! | rules | which block layer: allocation, plug lists, requeue |
//! | plug | what holds requests back: tasks (2.6.39 on) or the device (before) |
//! | hz | ticks per second that elevators see, 0 exact |
//! | write_cache, fua | what the device's cache can do; `write through` makes flushes no-ops |
//! | flush_hold, flush_insert, flush_drain, flush_delay | see `flush/hold.rs` |
//! | flush_elide | see `flush/clean.rs` |
//! | flush_owners, flush_ahead | see `flush/writers.rs`, `block/throttle.rs` |
//! | ncq | whether elevators believe the device's depth or measure it |

use core::fmt;

use crate::attribute::{Attribute, AttributeError, Value, Values};
use crate::block::admission::{bounds, nr_requests_least};
use crate::block::chosen::Chosen;
use crate::elevator::Rules;
use crate::event::{Action, NoObserver, Observer};
use crate::flush::HOLDS;
use crate::knob::{self, Knob, Unit, at_place, place_of, words};
use crate::queue::RequestQueue;
use crate::queue_view::Ncq;
use crate::time::{Hz, Nanos};

/// The values of HZ of actual kernels, and exact time.
const TICKS: [(&str, u32); 4] = [("0", 0), ("100", 100), ("250", 250), ("1000", 1000)];

const RULES: [(&str, Rules); 2] = [("legacy", Rules::Legacy), ("mq", Rules::Mq)];

const NCQS: [(&str, Ncq); 2] = [("declared", Ncq::Declared), ("probe", Ncq::Probe)];

/// How many queue attributes there are.
const COUNT: usize = 21;

/// An attribute of the queue; setting it needs no other data.
type Row<O> = Knob<RequestQueue<O>, ()>;

/// The queue's own attributes, in the order of the listing.
pub const QUEUE_ATTRIBUTES: &[Attribute] = &knob::attributes(&RequestQueue::<NoObserver>::KNOBS);

impl<O: Observer> RequestQueue<O> {
    /// All of them, in the order of the listing.
    const KNOBS: [Row<O>; COUNT] = [
        Row::<O>::number(
            "nr_requests",
            "requests",
            "requests allocated at a time; per pool (sync, async) under legacy rules, at least 4",
            |queue, ()| queue.common.view.nr_requests.into(),
            |queue, (), value| queue.set_nr_requests(value),
        )
        .at_least(1)
        .at_most(10_240)
        .within(|queue, ()| bounds(&queue.common).1.into()),
        Row::<O>::number(
            "nomerges",
            "",
            "0 try all merges, 1 only with the request merged last, 2 none",
            |queue, ()| queue.merger.nomerges.into(),
            |queue, (), value| queue.merger.nomerges = u8::try_from(value).unwrap_or(2),
        )
        .at_most(2),
        Row::<O>::number(
            "max_sectors_kb",
            "KiB",
            "largest request; at most what the device takes",
            |queue, ()| u64::from(queue.merger.max_sectors) / 2,
            |queue, (), value| {
                let sectors = u32::try_from(value.saturating_mul(2)).unwrap_or(u32::MAX);
                queue.merger.max_sectors = sectors.min(queue.common.view.facts.max_sectors);
            },
        )
        .at_least(4)
        .at_most(u64::MAX),
        Row::<O>::figure(
            "max_hw_sectors_kb",
            "KiB",
            "largest command that the device takes",
            |queue, ()| u64::from(queue.common.view.facts.max_sectors) / 2,
        ),
        Row::<O>::figure(
            "max_segments",
            "segments",
            "pieces of memory that a command may gather",
            |queue, ()| queue.common.view.facts.max_segments.into(),
        ),
        Row::<O>::number(
            "read_ahead_kb",
            "KiB",
            "how far buffered readers read ahead; for the page cache in front of the queue",
            |queue, ()| queue.policy.read_ahead_kb,
            |queue, (), value| queue.policy.read_ahead_kb = value,
        )
        .at_most(READ_AHEAD_KB_MAX),
        Row::<O>::figure(
            "queue_depth",
            "commands",
            "commands that the device takes at a time",
            |queue, ()| queue.common.view.facts.depth.into(),
        ),
        Row::<O>::switch(
            "rotational",
            "1 if seeks cost time, for elevators",
            |queue, ()| queue.common.view.facts.rotational,
            |queue, (), on| queue.common.view.facts.rotational = on,
        ),
        Row::<O>::choice(
            "rules",
            "",
            &words(&RULES),
            "the block layer to follow: pools (until 5.0) or tags; elevators ask for theirs",
            |queue, ()| place_of(&RULES, &queue.common.rules),
            |queue, (), place| {
                queue.common.rules = at_place(&RULES, place).unwrap_or(queue.common.rules);
                queue.policy.rules_fixed = true;
                queue.apply_rules();
            },
        ),
        Row::<O>::choice(
            "plug",
            "",
            &["task", "device"],
            "who holds requests back to merge them: each task (2.6.39 on) or the device (before)",
            |queue, ()| queue.plugs.by_device.into(),
            |queue, (), place| {
                queue.plugs.by_device = place == 1;
                queue.plugs.unplug_device(&mut queue.common, Action::Unplug);
            },
        ),
        Row::<O>::choice(
            "hz",
            "1/s",
            &words(&TICKS),
            "ticks in which elevators see time, as a kernel of that HZ; 0 is exact",
            |queue, ()| place_of(&TICKS, &queue.common.view.hz().get()),
            |queue, (), place| {
                let hz = at_place(&TICKS, place).and_then(Hz::new);
                queue.common.view.set_hz(hz.unwrap_or_default());
            },
        ),
        Row::<O>::choice(
            "write_cache",
            "",
            &["write through", "write back"],
            "whether flushes are needed; `write through` makes every flush a no-op",
            |queue, ()| queue.common.view.facts.write_cache.into(),
            |queue, (), place| {
                // While the device had none, writes were not tracked, and the time in which debts
                // are repaid did not pass.
                if queue.common.view.facts.write_cache != (place == 1) {
                    queue.common.view.facts.write_cache = place == 1;
                    queue.flush.clean.forget();
                    queue.forgive_debts();
                }
            },
        ),
        Row::<O>::figure("fua", "", "1 if the device can write past its cache", |queue, ()| {
            queue.common.view.facts.fua.into()
        }),
        Row::<O>::choice(
            "flush_hold",
            "",
            &words(&HOLDS),
            "held while a flush is in flight: all if the device cannot queue it, or writes",
            |queue, ()| place_of(&HOLDS, &queue.flush.policy.hold),
            |queue, (), place| {
                let before = queue.flush.policy.hold;
                queue.flush.policy.hold = at_place(&HOLDS, place).unwrap_or(before);
            },
        ),
        Row::<O>::choice(
            "flush_insert",
            "",
            &["tail", "head"],
            "place of a flush on the dispatch list: tail since 53d63e6b0d, head before and in mq",
            |queue, ()| queue.flush.policy.at_head.into(),
            |queue, (), place| queue.flush.policy.at_head = place == 1,
        ),
        Row::<O>::switch(
            "flush_drain",
            "1: a flush that cannot be queued is not tried before the device is empty",
            |queue, ()| queue.flush.policy.drains,
            |queue, (), on| queue.flush.policy.drains = on,
        ),
        Row::<O>::switch(
            "flush_elide",
            "1: a flush of a cache known to be clean is no command",
            |queue, ()| queue.flush.policy.elides,
            |queue, (), on| queue.flush.policy.elides = on,
        ),
        Row::<O>::time(
            "flush_delay",
            Unit::Us,
            "how long a flush waits for others to share it while the queue is not empty",
            |queue, ()| queue.flush.policy.delay,
            |queue, (), delay| {
                queue.flush.policy.delay = delay;
                queue.kick();
            },
        )
        .at_most(1_000_000),
        Row::<O>::switch(
            "flush_owners",
            "1: a client whose data a flush drains leaves the device to others for as long (cfq, \
             bfq)",
            |queue, ()| queue.flush.policy.owned,
            |queue, (), on| {
                queue.flush.policy.owned = on;
                queue.forgive_debts();
            },
        ),
        Row::<O>::number(
            "flush_ahead",
            "flushes",
            "with flush_owners: how many flushes like the last one may owe before one waits",
            |queue, ()| queue.flush.policy.ahead,
            |queue, (), value| queue.flush.policy.ahead = value,
        )
        .at_most(1000),
        Row::<O>::choice(
            "ncq",
            "",
            &words(&NCQS),
            "whether elevators take the device's word on its depth, or find out themselves",
            |queue, ()| place_of(&NCQS, &queue.common.view.ncq),
            |queue, (), place| {
                queue.common.view.ncq = at_place(&NCQS, place).unwrap_or(queue.common.view.ncq);
            },
        ),
    ];

    fn set_nr_requests(&mut self, value: u64) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.common.view.nr_requests = value.max(nr_requests_least(self.common.rules));
        self.policy.requests_fixed = true;
        self.wake_all();
    }
}

/// 1 GiB: far beyond what any page cache should read ahead.
const READ_AHEAD_KB_MAX: u64 = 1 << 20;

const PREFIX: &str = "iosched/";

/// The owner of an attribute, and its index there.
enum Found {
    Queue(usize),
    Elevator(usize),
}

impl<O: Observer> RequestQueue<O> {
    /// Sets an attribute of the queue or its elevator.
    ///
    /// # Errors
    /// [`AttributeError`] names the attribute, the text and what would be valid; nothing has
    /// changed then.
    pub fn set_attribute(
        &mut self,
        now: Nanos,
        name: &str,
        text: &str,
    ) -> Result<(), AttributeError> {
        self.set_found(now, name, Some(text), |attribute| attribute.parse(text))
    }

    /// Sets an attribute to a typed value: a number or `bool`, a [`Nanos`], a word. Nothing is
    /// clamped.
    ///
    /// ```
    /// # use paternoster_core::elevator::{Elevator, Pick, Position, Traits};
    /// # use paternoster_core::{QueueView, RequestId};
    /// use paternoster_core::{AttributeError, DeviceFacts, Nanos, RequestQueue, Value};
    ///
    /// # #[derive(Debug, Clone)]
    /// # struct Idle;
    /// # impl Elevator for Idle {
    /// #     fn traits(&self) -> Traits { Traits::mq("idle") }
    /// #     fn attach(&mut self, _: &mut QueueView) {}
    /// #     fn insert(&mut self, _: &mut QueueView, _: RequestId, _: Position) {}
    /// #     fn pick(&mut self, _: &mut QueueView) -> Pick { Pick::Nothing }
    /// #     fn removed(&mut self, _: &mut QueueView, _: RequestId) {}
    /// #     fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> { None }
    /// #     fn waiting(&self) -> u32 { 0 }
    /// # }
    /// # fn main() -> Result<(), AttributeError> {
    /// # let (facts, elevator, now) = (DeviceFacts::default(), Box::new(Idle), Nanos::ZERO);
    /// let mut queue = RequestQueue::builder(facts, elevator).build().unwrap();
    /// queue.set_value(now, "flush_delay", Nanos::from_micros(200))?;
    /// queue.set_value(now, "flush_elide", false)?;
    /// queue.set_value(now, "flush_insert", "head")?;
    /// assert_eq!(queue.value("flush_delay")?, Value::Time(Nanos::from_micros(200)));
    /// assert_eq!(queue.value("flush_insert")?, Value::Word("head"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AttributeError`] names the attribute, the value and what would be valid; nothing has
    /// changed then.
    pub fn set_value<'a>(
        &mut self,
        now: Nanos,
        name: &str,
        value: impl Into<Value<'a>>,
    ) -> Result<(), AttributeError> {
        let value = value.into();
        let text = if let Value::Word(word) = value { Some(word) } else { None };
        self.set_found(now, name, text, |attribute| attribute.number(value))
    }

    fn set_found(
        &mut self,
        now: Nanos,
        name: &str,
        text: Option<&str>,
        number: impl FnOnce(&Attribute) -> Result<u64, AttributeError>,
    ) -> Result<(), AttributeError> {
        self.advance(now);
        let result = match find(&self.common.elevator, name)? {
            Found::Queue(place) => {
                let value = number(&QUEUE_ATTRIBUTES[place])?;
                Self::KNOBS[place].set(self, &mut (), value)
            }
            Found::Elevator(place) => {
                let attribute = &self.common.elevator.attributes()[place];
                let result = match (attribute.values, text) {
                    (Values::Text(_), Some(text)) => {
                        self.common.elevator.set_text(&mut self.common.view, place, text)
                    }
                    _ => {
                        let value = number(attribute)?;
                        self.common.elevator.set(&mut self.common.view, place, value)
                    }
                };
                // It may have been a limit that clients sleep for.
                self.wake_all();
                result
            }
        };
        self.end_call();
        result
    }

    /// An attribute's value, with its type.
    ///
    /// # Errors
    /// [`AttributeError::Unknown`], or [`AttributeError::Text`] if it is not a single value.
    pub fn value(&self, name: &str) -> Result<Value<'static>, AttributeError> {
        let (attribute, number) = match find(&self.common.elevator, name)? {
            Found::Queue(place) => (&QUEUE_ATTRIBUTES[place], Self::KNOBS[place].get(self, &())),
            Found::Elevator(place) => (
                &self.common.elevator.attributes()[place],
                self.common.elevator.get(&self.common.view, place),
            ),
        };
        let number = number.ok_or(AttributeError::Text { name: attribute.name })?;
        Ok(attribute.value(number))
    }

    /// Whether an attribute takes this text as it is; [`RequestQueue::set_attribute`] would clamp a
    /// number outside its range. The queue's capacities are not checked.
    ///
    /// # Errors
    /// [`AttributeError`] names the attribute, the text and what would be valid.
    pub fn check_attribute(&self, name: &str, text: &str) -> Result<(), AttributeError> {
        match find(&self.common.elevator, name)? {
            Found::Queue(place) => QUEUE_ATTRIBUTES[place].check(text),
            Found::Elevator(place) => match self.common.elevator.attributes()[place] {
                Attribute { values: Values::Text(_), .. } => {
                    self.common.elevator.check_text(place, text)
                }
                attribute => attribute.check(text),
            },
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
        // A failing writer is the caller's own, which knows.
        let _written = match find(&self.common.elevator, name)? {
            Found::Queue(place) => Self::KNOBS[place].show(self, &(), out),
            Found::Elevator(place) => self.common.elevator.show(&self.common.view, place, out),
        };
        Ok(())
    }

    /// How far a page cache in front of this queue reads ahead, in KiB (attribute `read_ahead_kb`).
    #[must_use]
    pub const fn read_ahead_kb(&self) -> u64 {
        self.policy.read_ahead_kb
    }

    /// Calls `each` with every attribute: its path below `queue/`, its description, its value as
    /// shown.
    pub fn for_each_attribute(&self, mut each: impl FnMut(&str, &Attribute, &str)) {
        let mut shown = alloc::string::String::new();
        for knob in Self::KNOBS {
            shown.clear();
            let _written = knob.show(self, &(), &mut shown);
            let attribute = knob.attribute();
            each(attribute.name, attribute, &shown);
        }
        for (place, attribute) in self.common.elevator.attributes().iter().enumerate() {
            shown.clear();
            let _written = self.common.elevator.show(&self.common.view, place, &mut shown);
            let path = alloc::format!("{PREFIX}{}", attribute.name);
            each(&path, attribute, &shown);
        }
    }
}

/// Whose attribute has this name.
fn find(elevator: &Chosen, name: &str) -> Result<Found, AttributeError> {
    let place = |list: &[Attribute], name: &str| list.iter().position(|a| a.name == name);
    let elevators = elevator.attributes();
    let found = match name.strip_prefix(PREFIX) {
        Some(name) => place(elevators, name).map(Found::Elevator),
        None => place(QUEUE_ATTRIBUTES, name)
            .map(Found::Queue)
            .or_else(|| place(elevators, name).map(Found::Elevator)),
    };
    found.ok_or_else(|| AttributeError::Unknown { name: name.into() })
}
