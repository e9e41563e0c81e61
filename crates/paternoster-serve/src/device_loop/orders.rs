// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders: what a running loop can be asked to do.
//!
//! Orders come as messages between two rounds of the loop: they see a consistent state, and their
//! changes apply from the next request on. A weight or a class changes what the scheduler does with
//! requests that already wait.

use paternoster_core::{AttributeError, near};
use serde_json::{Value, json};

use super::DeviceLoop;
use crate::config::ServiceClass;
use crate::control::order::{Answer, Asked, Order, Setting, Settings};
use crate::stats::{DeviceNumber, TraceEnding};

/// The device number in traces: from the range for local use.
const DEVICE: DeviceNumber = DeviceNumber::new(240, 0);

impl DeviceLoop {
    /// Executes an order and answers; a drain and a stop are answered when they are done.
    pub(super) fn execute(&mut self, asked: Asked) {
        let answer = match &asked.order {
            Order::Snapshot => {
                let snapshot = self.snapshot();
                serde_json::to_value(snapshot).map_err(|error| error.to_string())
            }
            Order::Weight { name, weight } => self.order_weight(name, *weight),
            Order::Class { name, class, level } => self.order_class(name, *class, *level),
            Order::Scheduler { name } => self.order_scheduler(name),
            Order::Attribute { name, value } => self.order_attribute(name, value.as_deref()),
            Order::Attributes => Ok(self.attributes()),
            Order::Settings => {
                serde_json::to_value(self.settings()).map_err(|error| error.to_string())
            }
            Order::Explain { tenant } => self.explain(tenant.as_deref()),
            Order::Trace { prefix } => match prefix {
                Some(prefix) => self.begin_trace(prefix),
                None => return self.end_trace(Some(asked)),
            },
            Order::Resume { volume } => self.volumes.find(volume).map(|place| {
                self.volumes.resume(place);
                json!({ "ok": true })
            }),
            Order::Drain { volume } => match self.volumes.find(volume) {
                Err(error) => Err(error),
                Ok(place) => {
                    self.volumes.drain(place, asked);
                    return self.wake_all_sleepers();
                }
            },
            Order::Stop => {
                self.stop_asked.push(asked);
                return self.stop();
            }
        };
        // The sender of the order may have gone.
        let _gone = asked.answer.send(answer);
    }

    fn tenant(&self, name: &str) -> Result<u32, String> {
        self.tenants.find(name).ok_or_else(|| {
            let names = self.tenants.iter().skip(1).filter(|(_, node)| !node.is_gone);
            let names: Vec<&str> = names.map(|(_, node)| node.name.as_str()).collect();
            let hint = near::hint(name, names.iter().copied());
            format!("device {} knows no tenant or group {name}{hint}", self.name)
        })
    }

    fn order_weight(&mut self, name: &str, weight: u32) -> Answer {
        let place = self.tenant(name)?;
        if !(1..=10_000).contains(&weight) {
            return Err(format!("{weight} is no weight; 1 to 10000 is"));
        }
        self.now = self.clock.now();
        let before = self.tenants.at(place).weight;
        self.tenants.set_weight(self.now, &mut self.recorded_queue, place, weight);
        self.divide();
        let node = self.tenants.at(place);
        Ok(json!({
            "name": name,
            "before": before,
            "weight": weight,
            "effective_weight": node.effective,
            "share_of_level_percent": self.tenants.share_of_level(place) as f64 / 10.0,
            "share_of_device_percent": f64::from(self.tenants.share(place)) / 10.0,
        }))
    }

    /// The settings that orders can change.
    fn settings(&self) -> Settings {
        let queue = self.recorded_queue.queue();
        let value = |name: &String| {
            let mut shown = String::new();
            queue.show_attribute(name, &mut shown).ok().map(|()| (name.clone(), shown))
        };
        let of_the_start = self.attributes_set.iter().filter(|name| self.is_of_the_start(name));
        let tenants = self.tenants.iter().skip(1).filter(|(_, node)| !node.is_gone);
        let tenants = tenants.map(|(_, node)| Setting {
            name: node.name.clone(),
            is_group: node.is_group,
            is_at_the_root: node.parent == super::tenants::ROOT,
            weight: node.weight,
            class: super::tenants::class_name(node.class).to_owned(),
            minimum: match node.class {
                ServiceClass::Background { minimum } => minimum,
                ServiceClass::Kernel(_) => 0,
            },
            level: node.level,
        });
        Settings {
            scheduler: self.policy.ordered(queue.elevator_name()).to_owned(),
            attributes: self.attributes_set.iter().filter_map(value).collect(),
            of_the_start: of_the_start.cloned().collect(),
            tenants: tenants.collect(),
        }
    }

    /// Whether an attribute has the value that a start gives it by default.
    fn is_of_the_start(&self, name: &str) -> bool {
        let shown = |name: &str| {
            let mut shown = String::new();
            let _unknown = self.recorded_queue.show_attribute(name, &mut shown);
            shown
        };
        match name {
            "low_latency" => shown(name) == "0",
            "nr_requests" => {
                // Two pools, one per direction, each of which may hold half as many again.
                let parts = if shown("rules") == "legacy" { 3 } else { 1 };
                shown(name) == (self.recorded_queue.limits().requests / parts).to_string()
            }
            _ => false,
        }
    }

    fn order_class(&mut self, name: &str, class: ServiceClass, level: u8) -> Answer {
        let place = self.tenant(name)?;
        let node = self.tenants.at_mut(place);
        if node.is_group {
            return Err(format!("{name} is a group; classes are of tenants"));
        }
        (node.class, node.level) = (class, level.min(7));
        self.now = self.clock.now();
        self.tenants.settle(self.now, &mut self.recorded_queue, place);
        self.divide();
        self.rank_again(place);
        Ok(json!({ "ok": true }))
    }

    fn order_scheduler(&mut self, name: &str) -> Answer {
        self.now = self.clock.now();
        self.change_scheduler(name)?;
        self.policy.forgive();
        Ok(json!({ "scheduler": name }))
    }

    fn order_attribute(&mut self, name: &str, value: Option<&str>) -> Answer {
        self.now = self.clock.now();
        if let Some(value) = value {
            if name.ends_with("max_sectors_kb") && !self.fragments.is_empty() {
                // Fragments that are cut already must still fit.
                return Err(format!("{name}: requests are under way; drain the volumes first"));
            }
            // The queue would silently clamp it to its range.
            let checked = self.recorded_queue.queue().check_attribute(name, value);
            let set =
                checked.and_then(|()| self.recorded_queue.set_attribute(self.now, name, value));
            set.map_err(|error| self.not_set(&error))?;
            self.attributes_set.insert(name.to_owned());
        }
        let mut shown = String::new();
        self.recorded_queue
            .show_attribute(name, &mut shown)
            .map_err(|error| self.not_set(&error))?;
        Ok(json!({ "name": name, "value": shown }))
    }

    /// Why an attribute is not set, or read: it may be one of another scheduler.
    fn not_set(&self, error: &AttributeError) -> String {
        let AttributeError::Unknown { name } = error else { return error.to_string() };
        let (queue, mut known) = (self.recorded_queue.queue(), Vec::new());
        queue.for_each_attribute(|name, _, _| {
            known.push(name.strip_prefix("iosched/").unwrap_or(name).to_owned());
        });
        // The scheduler's own come after the queue's.
        known.reverse();
        let hint = near::hint(name, known.iter().map(String::as_str));
        format!("{} has no attribute `{name}`{hint}", queue.elevator_name())
    }

    fn attributes(&self) -> Value {
        let mut all = Vec::new();
        self.recorded_queue.queue().for_each_attribute(|name, attribute, value| {
            all.push(json!({ "name": name, "value": value, "meaning": attribute.help }));
        });
        json!({ "elevator": self.recorded_queue.queue().elevator_name(), "attributes": all })
    }

    /// No new requests; connections finish, then the loop ends.
    pub(super) fn stop(&mut self) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.now = self.clock.now();
        self.stop_by = Some(self.now + self.drain_timeout);
        self.wake_all_sleepers();
        let all: Vec<u32> = self.connections.iter().map(|(key, _)| key).collect();
        for index in all {
            #[cfg(test)]
            if super::planted::has(super::planted::Bug::ClosesAtOnce) {
                self.close(index, "");
                continue;
            }
            self.leave_when_idle(index);
        }
    }

    fn begin_trace(&mut self, prefix: &std::path::Path) -> Answer {
        let names: Vec<(u32, String)> = self
            .connections
            .iter()
            .map(|(_, connection)| {
                let tenant = &self.tenants.at(connection.tenant).name;
                (connection.client.index(), format!("{tenant}#{}", connection.id))
            })
            .collect();
        let elevator = self.recorded_queue.queue().elevator_name();
        self.now = self.clock.now();
        self.recorded_queue
            .observer_mut()
            .start_trace(prefix, self.now, wall_clock(), DEVICE, elevator, &names)
            .map_err(|error| format!("{}: {error}", prefix.display()))?;
        Ok(json!({ "trace": prefix.display().to_string() }))
    }

    /// Ends a trace, if one is written. Another thread waits for the disk.
    pub(super) fn end_trace(&mut self, asked: Option<Asked>) {
        let ending = self.recorded_queue.observer_mut().end_trace();
        std::thread::spawn(move || {
            let answer = match ending.map(TraceEnding::wait) {
                None => Err("no trace is being written".to_owned()),
                Some(Err(error)) => Err(format!("the trace could not be written: {error}")),
                Some(Ok(told)) => Ok(json!({
                    "events": told.events, "bytes": told.bytes, "dropped": told.dropped,
                })),
            };
            if let Some(asked) = asked {
                // The sender of the order may have gone.
                let _gone = asked.answer.send(answer);
            }
        });
    }
}

/// Seconds and nanoseconds since the epoch: where a trace begins.
fn wall_clock() -> (u64, u32) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or((0, 0), |since| (since.as_secs(), since.subsec_nanos()))
}
