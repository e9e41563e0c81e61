// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders: what a running loop can be asked to do.
//!
//! Orders come as messages between two rounds of the loop: they see a consistent state, and their
//! changes apply from the next request on. A weight or a class changes what the scheduler does with
//! requests that already wait.

use serde_json::json;

use super::{DeviceLoop, policy};
use crate::config::ServiceClass;
use crate::control::order::{Answer, Asked, Order, Settings};
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
            Order::Scheduler { name } => {
                self.time.look();
                self.policy.order_scheduler(self.time.now, &mut self.recorded_queue, name)
            }
            Order::Attribute { name, value } => {
                self.time.look();
                let (order, is_idle) =
                    ((&**name, value.as_deref()), self.requests.fragments().is_empty());
                self.policy.order_attribute(self.time.now, &mut self.recorded_queue, order, is_idle)
            }
            Order::Attributes => Ok(policy::attributes(&self.recorded_queue)),
            Order::Settings => {
                let elevator = self.recorded_queue.queue().elevator_name();
                let (attributes, of_the_start) = self.policy.settings(&self.recorded_queue);
                let settings = Settings {
                    scheduler: self.policy.ordered(elevator).to_owned(),
                    attributes,
                    of_the_start,
                    tenants: self.tenants.settings(),
                };
                serde_json::to_value(settings).map_err(|error| error.to_string())
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
                    return self.pass_all_caps();
                }
            },
            Order::Stop => {
                self.stop.asks(asked);
                return self.stop_soon();
            }
        };
        // The sender of the order may have gone.
        let _gone = asked.answer.send(answer);
    }

    fn order_weight(&mut self, name: &str, weight: u32) -> Answer {
        let place = self.tenants.find_or_say(name, &self.name)?;
        if !(1..=10_000).contains(&weight) {
            return Err(format!("{weight} is no weight; 1 to 10000 is"));
        }
        self.time.look();
        let before = self.tenants.at(place).weight;
        self.tenants.set_weight(self.time.now, &mut self.recorded_queue, place, weight);
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

    fn order_class(&mut self, name: &str, class: ServiceClass, level: u8) -> Answer {
        let place = self.tenants.find_or_say(name, &self.name)?;
        let node = self.tenants.at_mut(place);
        if node.is_group {
            return Err(format!("{name} is a group; classes are of tenants"));
        }
        (node.class, node.level) = (class, level.min(7));
        self.time.look();
        self.tenants.settle(self.time.now, &mut self.recorded_queue, place);
        self.divide();
        self.rank_again(place);
        Ok(json!({ "ok": true }))
    }

    /// No new requests; connections finish, then the loop ends.
    pub(super) fn stop_soon(&mut self) {
        let now = self.time.clock.now();
        if !self.stop.begin(now + self.settings.drain_timeout) {
            return;
        }
        self.time.now = now;
        self.pass_all_caps();
        for index in self.connections.all() {
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
        self.time.look();
        self.recorded_queue
            .observer_mut()
            .start_trace(prefix, self.time.now, wall_clock(), DEVICE, elevator, &names)
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
