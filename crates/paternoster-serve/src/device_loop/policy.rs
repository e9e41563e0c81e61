// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policy: a scheduler that broke a law is replaced, and this is reported.
//!
//! ```text
//! loop ─▶ queue ─▶ watched scheduler: a law is broken      (see `watchdog`)
//!      ─▶ bfq takes what waits ─▶ log, status, metrics ─▶ loop again
//! ```
//!
//! The loop asks the queue at least every 250 ms, so that a scheduler that keeps the device idle is
//! detected, and replaced, in less than a second.
//!
//! Invariants: I1 the new scheduler has all waiting requests; I2 `ctl save` writes nothing that was
//! not ordered.

use std::collections::BTreeSet;

use paternoster_core::{AttributeError, Nanos, Observer, near};
use serde_json::{Value, json};

use crate::config::DEFAULT_SCHEDULER;
use crate::control::order::Answer;
use crate::recorded_queue::RecordedQueue;

/// The chosen scheduler, the attributes that were set, and the schedulers that have failed.
#[derive(Debug)]
pub(super) struct Policy {
    device: String,
    /// The attributes that were set, by the configuration or an order.
    set: BTreeSet<String>,
    /// The last one that has failed and why, as long as its replacement is in use.
    last: Option<(String, String)>,
    failures: u64,
}

impl Policy {
    /// The policy of this device, for which these attributes were set.
    pub(super) fn new(device: &str, set: BTreeSet<String>) -> Policy {
        Policy { device: device.to_owned(), set, last: None, failures: 0 }
    }

    /// The chosen scheduler: not its replacement.
    pub(super) fn ordered<'a>(&'a self, present: &'a str) -> &'a str {
        self.last.as_ref().map_or(present, |(name, _)| name)
    }

    pub(super) fn words(&self) -> String {
        self.last.as_ref().map(|(name, why)| format!("{name} {why}")).unwrap_or_default()
    }

    pub(super) const fn failures(&self) -> u64 {
        self.failures
    }

    /// Whether the scheduler had to be replaced.
    pub(super) fn replace_what_failed<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RecordedQueue<O>,
    ) -> bool {
        let Some(why) = queue.broken_law().map(str::to_owned) else { return false };
        let failed = queue.queue().elevator_name().to_owned();
        // One of our own schedulers.
        let _known = change(now, queue, DEFAULT_SCHEDULER);
        crate::log::tell(format_args!(
            "paternoster: device {}: the scheduler {failed} {why}: {DEFAULT_SCHEDULER} has taken \
             over, with all requests; `ctl scheduler {failed}` tries it again",
            self.device
        ));
        self.failures += 1;
        self.last = Some((failed, why));
        true
    }

    /// Another scheduler, by order.
    pub(super) fn order_scheduler<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RecordedQueue<O>,
        name: &str,
    ) -> Answer {
        change(now, queue, name)?;
        self.last = None;
        Ok(json!({ "scheduler": name }))
    }

    /// Carries out an order about an attribute: sets it if a value is given; returns its value.
    /// `is_idle`: no request is under way.
    pub(super) fn order_attribute<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RecordedQueue<O>,
        (name, value): (&str, Option<&str>),
        is_idle: bool,
    ) -> Answer {
        if let Some(value) = value {
            if !may_set(name, is_idle) {
                return Err(format!("{name}: requests are under way; drain the volumes first"));
            }
            // The queue would silently clamp it to its range.
            let checked = queue.queue().check_attribute(name, value);
            let set = checked.and_then(|()| queue.set_attribute(now, name, value));
            set.map_err(|error| not_set(queue, &error))?;
            self.set.insert(name.to_owned());
        }
        let mut shown = String::new();
        queue.show_attribute(name, &mut shown).map_err(|error| not_set(queue, &error))?;
        Ok(json!({ "name": name, "value": shown }))
    }

    /// Attributes that were set and have a value, and names of those whose value is that of the
    /// start.
    pub(super) fn settings<O: Observer>(
        &self,
        queue: &RecordedQueue<O>,
    ) -> (Vec<(String, String)>, Vec<String>) {
        let value = |name: &String| {
            let mut shown = String::new();
            queue.show_attribute(name, &mut shown).ok().map(|()| (name.clone(), shown))
        };
        let of_the_start = self.set.iter().filter(|name| is_of_the_start(queue, name));
        (self.set.iter().filter_map(value).collect(), of_the_start.cloned().collect())
    }

    /// Takes scheduler and attributes of a configuration, of which `wanted` are written in it;
    /// returns those that cannot be changed now. What a scheduler tunes by itself is left alone:
    /// only what was set is set again, and a scheduler that loses a setting is made anew.
    pub(super) fn take<O: Observer>(
        &mut self,
        now: Nanos,
        queue: &mut RecordedQueue<O>,
        (scheduler, wanted): (&str, BTreeSet<String>),
        attributes: &[(String, String)],
        is_idle: bool,
    ) -> Vec<String> {
        let set = std::mem::replace(&mut self.set, wanted);
        let differs = queue.queue().elevator_name() != scheduler;
        let is_new = differs || !set.is_subset(&self.set);
        self.last = None;
        if is_new && queue.change_elevator(now, scheduler).is_err() {
            return vec!["scheduler".to_owned()];
        }
        let mut later = Vec::new();
        for (name, value) in attributes {
            let mut shown = String::new();
            let is_set = is_new || self.set.contains(name);
            let is_known = queue.show_attribute(name, &mut shown).is_ok();
            if !is_set || !is_known || shown == *value {
                continue;
            }
            if !may_set(name, is_idle) || queue.set_attribute(now, name, value).is_err() {
                later.push(format!("attributes.{name}"));
            }
        }
        later
    }
}

/// Changes the scheduler, with the same defaults as at the start (see `open.rs`).
pub(super) fn change<O: Observer>(
    now: Nanos,
    queue: &mut RecordedQueue<O>,
    name: &str,
) -> Result<(), String> {
    queue.change_elevator(now, name)?;
    let requests = queue.limits().requests.to_string();
    for (name, value) in [("nr_requests", &*requests), ("low_latency", "0")] {
        // A scheduler without this attribute needs no such default.
        let _unknown = queue.set_attribute(now, name, value);
    }
    Ok(())
}

/// All attributes, with their meanings.
pub(super) fn attributes<O: Observer>(queue: &RecordedQueue<O>) -> Value {
    let mut all = Vec::new();
    queue.queue().for_each_attribute(|name, attribute, value| {
        all.push(json!({ "name": name, "value": value, "meaning": attribute.help }));
    });
    json!({ "elevator": queue.queue().elevator_name(), "attributes": all })
}

/// Whether an attribute can be set now: fragments that are cut already must still fit.
fn may_set(name: &str, is_idle: bool) -> bool {
    is_idle || !name.ends_with("max_sectors_kb")
}

/// Whether an attribute has the value that a start gives it by default.
fn is_of_the_start<O: Observer>(queue: &RecordedQueue<O>, name: &str) -> bool {
    let shown = |name: &str| {
        let mut shown = String::new();
        let _unknown = queue.show_attribute(name, &mut shown);
        shown
    };
    match name {
        "low_latency" => shown(name) == "0",
        "nr_requests" => {
            // Two pools, one per direction, each of which may hold half as many again.
            let parts = if shown("rules") == "legacy" { 3 } else { 1 };
            shown(name) == (queue.limits().requests / parts).to_string()
        }
        _ => false,
    }
}

/// Why an attribute is not set, or read: it may be one of another scheduler.
fn not_set<O: Observer>(queue: &RecordedQueue<O>, error: &AttributeError) -> String {
    let AttributeError::Unknown { name } = error else { return error.to_string() };
    let (queue, mut known) = (queue.queue(), Vec::new());
    queue.for_each_attribute(|name, _, _| {
        known.push(name.strip_prefix("iosched/").unwrap_or(name).to_owned());
    });
    // The scheduler's own come after the queue's.
    known.reverse();
    let hint = near::hint(name, known.iter().map(String::as_str));
    format!("{} has no attribute `{name}`{hint}", queue.elevator_name())
}

#[cfg(test)]
mod tests {
    use paternoster_core::{DeviceFacts, Limits, NoObserver};

    use super::*;

    fn bfq() -> (Policy, RecordedQueue<NoObserver>) {
        let bfq = paternoster_schedulers::by_name("bfq").unwrap();
        let queue = RecordedQueue::new(DeviceFacts::default(), Limits::default(), bfq, NoObserver);
        (Policy::new("dev", BTreeSet::new()), queue.unwrap())
    }

    fn set(policy: &mut Policy, queue: &mut RecordedQueue<NoObserver>, of: (&str, &str)) -> Answer {
        policy.order_attribute(Nanos::ZERO, queue, (of.0, Some(of.1)), false)
    }

    /// Is what was ordered told with its value, and what could not be set not?
    #[test]
    fn settings_are_what_was_set() {
        let (mut policy, mut queue) = bfq();
        let answer = set(&mut policy, &mut queue, ("slice_idle", "3")).unwrap();
        assert_eq!(answer, json!({ "name": "slice_idle", "value": "3" }));
        let why = set(&mut policy, &mut queue, ("slice_idel", "3")).unwrap_err();
        assert!(why.contains("slice_idle"), "{why}");
        assert!(set(&mut policy, &mut queue, ("max_sectors_kb", "64")).is_err(), "under way");
        let (set, of_the_start) = policy.settings(&queue);
        assert_eq!(set, [("slice_idle".to_owned(), "3".to_owned())]);
        assert!(of_the_start.is_empty());
    }

    /// Is a scheduler that loses a setting made anew, and one that keeps its settings not?
    #[test]
    fn what_is_not_configured_any_more_is_as_at_the_start() {
        let (mut policy, mut queue) = bfq();
        let shown = |queue: &RecordedQueue<NoObserver>| {
            let mut shown = String::new();
            queue.show_attribute("slice_idle", &mut shown).unwrap();
            shown
        };
        let before = shown(&queue);
        set(&mut policy, &mut queue, ("slice_idle", "3")).unwrap();
        let all = [("slice_idle".to_owned(), before.clone())];
        let none = ("bfq", BTreeSet::new());
        assert!(policy.take(Nanos::ZERO, &mut queue, none, &all, true).is_empty());
        assert_eq!(shown(&queue), before);
        let later = policy.take(Nanos::ZERO, &mut queue, ("none such", BTreeSet::new()), &[], true);
        assert_eq!(later, ["scheduler"]);
    }
}
