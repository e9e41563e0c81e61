// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers: which loops a request concerns, and the reply to the client that asked.
//!
//! ```text
//! {"do":"weight","name":"db","weight":300}
//!   ├─▶ loop disk0: ok                        {"ok":true,"devices":[{"device":"disk0"},
//!   └─▶ loop disk1: there is no tenant db  ──▶   {"device":"disk1","error":"there is no …"}]}
//! ```
//!
//! A request that names no device means: all of them (harmless queries, weights and classes, the
//! end of a trace), the one that has the volume, or the only one.
//!
//! Invariants: I1 every answer is an object, with `ok` or with `error`; I2 an order that no loop
//! carried out is an error; I3 loops are asked in the order of the configuration.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::order::{Answer, Order};
use super::request::{FORMS, Request, What};
use super::server::Host;
use super::snapshot::Snapshot;
use crate::device_loop::DeviceLoopHandle;
use crate::handover::VERSION;

/// Answers a request; [`What::Stop`] is answered, too, but the caller ends the server.
#[must_use]
pub fn answer(device_loops: &[DeviceLoopHandle], host: &impl Host, request: &Request) -> Value {
    let result = match &request.what {
        What::Help => Ok(help()),
        What::Stop => Ok(json!({ "ok": true })),
        What::Reload => host.reload(),
        What::Save => host.save(),
        What::Handover(VERSION) => Ok(json!({ "ok": true, "version": VERSION })),
        What::Handover(other) => {
            Err(format!("this server hands over by version {VERSION}, not by {other}"))
        }
        What::List => {
            ask(device_loops, request.device.as_deref(), &Order::Snapshot).map(without_figures)
        }
        What::Order(order) => ask(device_loops, request.device.as_deref(), order),
    };
    result.unwrap_or_else(|error| refusal(&error))
}

/// An answer that says why not.
#[must_use]
pub fn refusal(why: &str) -> Value {
    json!({ "error": why })
}

fn help() -> Value {
    let forms = FORMS.iter().map(|form| {
        let fields = form.fields.iter().map(
            |field| json!({ "name": field.name, "takes": field.takes, "optional": field.optional }),
        );
        json!({ "do": form.name, "fields": fields.collect::<Vec<_>>(), "meaning": form.meaning })
    });
    json!({ "ok": true, "help": forms.collect::<Vec<_>>() })
}

fn ask(
    device_loops: &[DeviceLoopHandle],
    device: Option<&str>,
    order: &Order,
) -> Result<Value, String> {
    let concerned = concerned(device_loops, device, order)?;
    let (mut lines, mut errors) = (Vec::new(), Vec::new());
    for device_loop in &concerned {
        let line = match device_loop.ask(order.clone()) {
            Ok(value) => line(&device_loop.device, value),
            Err(error) => {
                let mut line = Map::new();
                line.insert("device".to_owned(), device_loop.device.clone().into());
                line.insert("error".to_owned(), error.clone().into());
                errors.push(format!("{}: {error}", device_loop.device));
                Value::Object(line)
            }
        };
        lines.push(line);
    }
    if errors.len() == lines.len() {
        return Err(errors.join("; "));
    }
    Ok(json!({ "ok": true, "devices": lines }))
}

/// A loop's answer, which says first of which device it is.
fn line(device: &str, value: Value) -> Value {
    let mut line = match value {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        other => Map::from_iter([("answer".to_owned(), other)]),
    };
    line.insert("device".to_owned(), device.into());
    Value::Object(line)
}

/// The tenant, connection or volume that an order concerns.
fn concerned<'a>(
    device_loops: &'a [DeviceLoopHandle],
    device: Option<&str>,
    order: &Order,
) -> Result<Vec<&'a DeviceLoopHandle>, String> {
    if let Some(name) = device {
        let named: Vec<_> =
            device_loops.iter().filter(|device_loop| device_loop.device == name).collect();
        if named.is_empty() {
            return Err(format!(
                "there is no device {name:?}: there are {}",
                devices(device_loops)
            ));
        }
        return Ok(named);
    }
    match order {
        Order::Drain { volume } | Order::Resume { volume } => {
            let has = |device_loop: &&DeviceLoopHandle| device_loop.volumes().contains(volume);
            let having: Vec<_> = device_loops.iter().filter(has).collect();
            if having.is_empty() {
                let all: Vec<String> =
                    device_loops.iter().flat_map(DeviceLoopHandle::volumes).collect();
                let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                return Err(format!("there is no volume {volume:?}: there are {all}"));
            }
            Ok(having)
        }
        _ if device_loops.is_empty() => Err("this server has no device".to_owned()),
        Order::Scheduler { .. }
        | Order::Attribute { value: Some(_), .. }
        | Order::Trace { prefix: Some(_) }
        | Order::Stop
            if device_loops.len() > 1 =>
        {
            Err(format!("the field \"device\" must say which: there are {}", devices(device_loops)))
        }
        _ => Ok(device_loops.iter().collect()),
    }
}

fn devices(device_loops: &[DeviceLoopHandle]) -> String {
    let names: Vec<&str> = device_loops.iter().map(|device_loop| &*device_loop.device).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Figures are for `snapshot`: a list is for people.
fn without_figures(mut answer: Value) -> Value {
    for device in answer["devices"].as_array_mut().into_iter().flatten() {
        for list in ["tenants", "connections"] {
            let lines = device.get_mut(list).and_then(Value::as_array_mut);
            for line in lines.into_iter().flatten().filter_map(Value::as_object_mut) {
                line.remove("figures");
            }
        }
    }
    answer
}

/// Asks all loops for a snapshot at once; a loop that has not answered within `bound` is late.
#[must_use]
pub fn snapshots(
    device_loops: &[DeviceLoopHandle],
    bound: Duration,
) -> Vec<(String, Result<Snapshot, String>)> {
    let (sender, answers) = channel::<(usize, Answer)>();
    for (place, device_loop) in device_loops.iter().cloned().enumerate() {
        let sender = sender.clone();
        let ask = move || drop(sender.send((place, device_loop.ask(Order::Snapshot))));
        // A loop without a thread gives no answer, and the reply says that.
        drop(thread::Builder::new().name("ask".to_owned()).spawn(ask));
    }
    drop(sender);
    let late = || format!("no answer within {} ms", bound.as_millis());
    let mut all: Vec<_> =
        device_loops.iter().map(|device_loop| (device_loop.device.clone(), Err(late()))).collect();
    let deadline = Instant::now() + bound;
    while let Ok((place, answer)) =
        answers.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        let read = |value| serde_json::from_value(value).map_err(|error| error.to_string());
        all[place].1 = answer.and_then(read);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::request::parse;
    use crate::control::snapshot::{ConnectionLine, TenantLine};

    /// A loop that knows these tenants and repeats its orders.
    fn device_loop(device: &str, volume: &str, tenant: &'static str) -> DeviceLoopHandle {
        let snapshot = Snapshot {
            device: device.to_owned(),
            tenants: vec![TenantLine { name: tenant.to_owned(), ..TenantLine::default() }],
            connections: vec![ConnectionLine::default()],
            ..Snapshot::default()
        };
        DeviceLoopHandle::new(
            device.to_owned(),
            vec![volume.to_owned()],
            move |order| match order {
                Order::Snapshot => Ok(serde_json::to_value(&snapshot).expect("plain data")),
                Order::Weight { name, .. } if name != tenant => {
                    Err(format!("there is no tenant or group {name:?}"))
                }
                Order::Attribute { name, value } => Ok(json!({ "name": name, "value": value })),
                _ => Ok(json!({})),
            },
        )
    }

    struct Nobody;

    impl Host for Nobody {
        fn stop(&self) {}

        fn reload(&self) -> Answer {
            Err("nobody reads it".to_owned())
        }
    }

    fn two() -> [DeviceLoopHandle; 2] {
        [device_loop("disk0", "a", "db"), device_loop("disk1", "b", "web")]
    }

    fn said(device_loops: &[DeviceLoopHandle], line: &str) -> String {
        answer(device_loops, &Nobody, &parse(line.as_bytes()).expect("a request")).to_string()
    }

    /// Which device does an order go to if it names none?
    #[test]
    fn who_is_concerned() {
        let no = |name: &str| format!("there is no tenant or group {name:?}");
        let done = |devices: Value| json!({ "ok": true, "devices": devices });
        let refused = |why: &str| json!({ "error": why });
        for (line, expected) in [
            (
                r#"{"do":"weight","name":"db","weight":300}"#,
                done(json!([{ "device": "disk0" }, { "device": "disk1", "error": no("db") }])),
            ),
            (
                r#"{"do":"weight","name":"x","weight":300}"#,
                refused(&format!("disk0: {}; disk1: {}", no("x"), no("x"))),
            ),
            (r#"{"do":"drain","volume":"b"}"#, done(json!([{ "device": "disk1" }]))),
            (r#"{"do":"drain","volume":"c"}"#, refused("there is no volume \"c\": there are a, b")),
            (
                r#"{"do":"scheduler","name":"bfq"}"#,
                refused("the field \"device\" must say which: there are disk0, disk1"),
            ),
            (
                r#"{"do":"scheduler","name":"bfq","device":"disk1"}"#,
                done(json!([{ "device": "disk1" }])),
            ),
            (
                r#"{"do":"explain","device":"disk7"}"#,
                refused("there is no device \"disk7\": there are disk0, disk1"),
            ),
            (
                r#"{"do":"get","attribute":"hz"}"#,
                done(json!([
                    { "device": "disk0", "name": "hz", "value": null },
                    { "device": "disk1", "name": "hz", "value": null }
                ])),
            ),
        ] {
            assert_eq!(said(&two(), line), expected.to_string(), "{line}");
        }
        let only = r#"{"devices":[{"device":"disk0"}],"ok":true}"#;
        assert_eq!(said(&two()[..1], r#"{"do":"scheduler","name":"bfq"}"#), only);
        assert_eq!(said(&[], r#"{"do":"snapshot"}"#), r#"{"error":"this server has no device"}"#);
    }

    /// Does a list leave the figures out, and a snapshot not?
    #[test]
    fn a_list_has_no_figures() {
        let list = said(&two(), r#"{"do":"list"}"#);
        assert!(!list.contains("figures") && list.contains("\"weight\""), "{list}");
        assert!(said(&two(), r#"{"do":"snapshot"}"#).contains("figures"));
    }

    /// Does the help name every form?
    #[test]
    fn help_is_complete() {
        let help = answer(&[], &Nobody, &parse(br#"{"do":"help"}"#).expect("a request"));
        assert_eq!(help["help"].as_array().map(Vec::len), Some(FORMS.len()));
    }

    /// Is a loop that hangs reported as late, and no other loop?
    #[test]
    fn who_hangs_is_late() {
        let (keep, hang) = channel::<()>();
        let hang = std::sync::Mutex::new(hang);
        let hung = DeviceLoopHandle::new("hung".to_owned(), Vec::new(), move |_| {
            let _ = hang.lock().map(|hang| hang.recv());
            Err("never mind".to_owned())
        });
        let all = snapshots(&[hung], Duration::from_millis(10));
        assert_eq!(all, [("hung".to_owned(), Err("no answer within 10 ms".to_owned()))]);
        // All answers are there at once, so that no test waits for this bound.
        let all = snapshots(&two(), Duration::from_secs(600));
        assert!(all.iter().all(|(_, snapshot)| snapshot.is_ok()), "{all:?}");
        drop(keep);
    }
}
