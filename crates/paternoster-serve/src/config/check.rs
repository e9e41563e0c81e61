// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks: every part of a configuration against the limits and against what there is.
//!
//! Schedulers and attributes are tried on a queue of their own, so that what is refused here is
//! what a running server would refuse, in the same words. Only capacities are not tried: they are
//! the real queue's.

use std::collections::HashSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use paternoster_base::schedulers;
use paternoster_core::{AttributeError, DeviceFacts, Nanos, RequestQueue};

use crate::device::model as models;

use super::document::plain;
use super::settle::Complaint;
use super::{
    Address, Config, Device, Engine, Listen, Rule, Server, ServiceClass, TlsMode, Who, limits,
    near, quantity, rules,
};

/// Complains unless the value is within the range.
fn within<T: PartialOrd>(
    place: &[&str],
    value: &T,
    allowed: &RangeInclusive<T>,
    show: impl Fn(&T) -> String,
) -> Result<(), Complaint> {
    if allowed.contains(value) {
        return Ok(());
    }
    let why = format!("{} to {}", show(allowed.start()), show(allowed.end()));
    Err(Complaint::new(place, show(value), why))
}

/// Complains unless the name is printable, not too long, and new.
fn name<'a>(
    kind: &str,
    name: &'a str,
    seen: &mut HashSet<&'a str>,
    most: usize,
) -> Result<(), Complaint> {
    if let Err(why) = plain(name) {
        return Err(Complaint::new(&[kind, name], "", format!("not a name: {why}")));
    }
    if !seen.insert(name) {
        let why = format!("there are two of this name; each {kind} has its own");
        return Err(Complaint::new(&[kind, name], "", why));
    }
    if seen.len() > most {
        return Err(Complaint::new(&[kind, name], "", format!("at most {most} are allowed")));
    }
    Ok(())
}

/// Sockets, limits, the user to switch to.
pub(super) fn server(server: &Server) -> Result<(), Complaint> {
    let least = usize::from(server.fuse.is_none());
    if !(least..=limits::LISTENERS).contains(&server.listen.len()) {
        let why = format!("{least} to {} sockets that clients come to", limits::LISTENERS);
        return Err(Complaint::new(&["server", "listen"], "", why));
    }
    for place in 0..server.listen.len() {
        listener(server, place)?;
    }
    let beyond = |metrics: &SocketAddr| !metrics.ip().to_canonical().is_loopback();
    if let Some(metrics) = server.metrics.filter(|at| beyond(at) && server.tls.is_none()) {
        let why = "metrics tell tenants' names and what they do; beyond loopback they need TLS: \
                   `[server.tls]` with `certificate` and `key`, or an address like \
                   `127.0.0.1:9809`";
        return Err(Complaint::new(&["server", "metrics"], metrics, why));
    }
    if let Some(control) = &server.control {
        let bytes = control.as_os_str().len();
        let taken =
            |listen: &Listen| matches!(&listen.at, Address::Unix { path, .. } if path == control);
        if server.listen.iter().any(taken) {
            let why = "clients come to that socket; orders need one of their own";
            return Err(Complaint::new(&["server", "control"], control.display(), why));
        }
        if bytes > limits::SOCKET_PATH_BYTES {
            let why = format!("{bytes} bytes where {} are allowed", limits::SOCKET_PATH_BYTES);
            return Err(Complaint::new(&["server", "control"], control.display(), why));
        }
    }
    if server.control.is_none() {
        let why = "there is no `control`, which it is about";
        if let Some(mode) = server.control_mode {
            return Err(Complaint::new(&["server", "control-mode"], format!("{mode:04o}"), why));
        }
        if server.control_orders.is_some() {
            return Err(Complaint::new(&["server", "control-orders"], "", why));
        }
    }
    if let Some(group) = server.group.as_ref().filter(|_| server.user.is_none()) {
        let why = "a group alone changes little; name the `user` too";
        return Err(Complaint::new(&["server", "group"], group, why));
    }
    let number = |number: &u32| number.to_string();
    let size = |size: &u64| quantity::show_size(*size);
    let time = |time: &Nanos| quantity::show_time(*time);
    within(&["server", "connections"], &server.connections, &limits::CONNECTIONS, number)?;
    let memory = &server.connection_memory;
    within(&["server", "connection-memory"], memory, &limits::CONNECTION_MEMORY, size)?;
    for (key, timeout) in [
        ("handshake-timeout", server.handshake_timeout),
        ("stall-timeout", server.stall_timeout),
        ("drain-timeout", server.drain_timeout),
        ("device-timeout", server.device_timeout),
    ] {
        within(&["server", key], &timeout, &limits::TIMEOUT, time)?;
    }
    Ok(())
}

fn listener(server: &Server, place: usize) -> Result<(), Complaint> {
    let listen = &server.listen[place];
    let refused = |why: &str| {
        let number = place.to_string();
        Err(Complaint::new(&["server", "listen", &number], &listen.at, why))
    };
    // Port 0 is another port each time.
    let free = matches!(listen.at, Address::Tcp(at) if at.port() == 0);
    let same = |other: &Listen| match (&other.at, &listen.at) {
        (Address::Unix { path: one, .. }, Address::Unix { path: other, .. }) => one == other,
        (one, other) => one == other,
    };
    if !free && server.listen[..place].iter().any(same) {
        return refused("it is there twice");
    }
    if listen.tls != TlsMode::Off && server.tls.is_none() {
        return refused("TLS needs `[server.tls]` with `certificate` and `key`");
    }
    match listen.at {
        Address::Tcp(at)
            if !at.ip().is_loopback() && listen.tls != TlsMode::Required && !server.insecure =>
        {
            refused(
                "everybody who reaches it could read and write, in the clear; TLS (`tls = \
                 \"required\"`), an address of loopback (`127.0.0.1`), or `insecure = true`",
            )
        }
        _ => Ok(()),
    }
}

/// Devices and their volumes, each for itself.
pub(super) fn devices(devices: &[Device]) -> Result<(), Complaint> {
    let (mut names, mut volumes) = (HashSet::new(), HashSet::new());
    for device in devices {
        name("device", &device.name, &mut names, limits::DEVICES)?;
        sizes(device)?;
        scheduler(device)?;
        engine(device)?;
        for volume in &device.volumes {
            name("volume", &volume.name, &mut volumes, limits::VOLUMES)?;
            let multiple = |key, bytes: u64| {
                if bytes.is_multiple_of(limits::SECTOR) {
                    return Ok(());
                }
                let why = format!("a multiple of {} bytes", limits::SECTOR);
                Err(Complaint::new(&["volume", &volume.name, key], bytes, why))
            };
            multiple("start", volume.start)?;
            multiple("length", volume.length.unwrap_or(0))?;
            let length = volume.length.unwrap_or(limits::SECTOR);
            if length == 0 || volume.start.checked_add(length).is_none_or(|end| end >> 63 != 0) {
                let why = "at least 512 bytes, and an end below 8 EiB";
                return Err(Complaint::new(&["volume", &volume.name, "length"], length, why));
            }
        }
    }
    if volumes.is_empty() {
        return Err(Complaint::new(&["volume"], "", "there is none: nothing would be served"));
    }
    if let Some(idle) = devices.iter().find(|device| device.volumes.is_empty()) {
        let why = "no volume is on it; `[volume.NAME]` with `device` and `path`";
        return Err(Complaint::new(&["device", &idle.name], "", why));
    }
    Ok(())
}

fn sizes(device: &Device) -> Result<(), Complaint> {
    let place = |key| ["device", device.name.as_str(), key];
    if let Some(depth) = device.depth {
        within(&place("depth"), &depth, &limits::DEPTH, u32::to_string)?;
    }
    let size = |size: &u64| quantity::show_size(*size);
    within(&place("memory"), &device.memory, &limits::MEMORY, size)?;
    if let Some(bound) = device.delay_bound {
        let time = |time: &Nanos| quantity::show_time(*time);
        within(&place("delay-bound"), &bound, &limits::DELAY_BOUND, time)?;
    }
    if device.attributes.len() > limits::ATTRIBUTES {
        let why = format!("{} where {} are allowed", device.attributes.len(), limits::ATTRIBUTES);
        return Err(Complaint::new(&place("attributes"), "", why));
    }
    Ok(())
}

/// Tries scheduler and attributes on a queue.
fn scheduler(device: &Device) -> Result<(), Complaint> {
    let asked = &device.scheduler;
    let Some(elevator) = schedulers::by_name(asked) else {
        let hint = near::hint(asked, schedulers::choices().map(|entry| entry.name));
        let why = format!("there is no such scheduler{hint}");
        return Err(Complaint::new(&["device", &device.name, "scheduler"], asked, why));
    };
    let mut queue = RequestQueue::builder(DeviceFacts::default(), elevator)
        .build()
        .expect("the default limits work");
    for (key, text) in &device.attributes {
        let taken = queue.check_attribute(key, text);
        let why = match taken.and_then(|()| queue.set_attribute(Nanos::ZERO, key, text)) {
            Ok(()) | Err(AttributeError::Capacity { .. }) => continue,
            Err(AttributeError::Unknown { .. }) => {
                let mut known = Vec::new();
                queue.for_each_attribute(|path, _, _| {
                    known.push(path.strip_prefix("iosched/").unwrap_or(path).to_owned());
                });
                let wanted = key.strip_prefix("iosched/").unwrap_or(key);
                let near = near::nearest(wanted, known.iter().map(String::as_str));
                let near = near.map_or(";".to_owned(), |near| format!("; did you mean `{near}`?"));
                format!(
                    "{asked} has no such attribute{near} `paternoster schedulers {asked}` \
                         lists them"
                )
            }
            Err(error) => error.to_string(),
        };
        return Err(Complaint::new(&["device", &device.name, "attributes", key], text, why));
    }
    Ok(())
}

/// A model's name must be known; a model's file is read when the server starts.
fn engine(device: &Device) -> Result<(), Complaint> {
    let Engine::Model(model) = &device.engine else { return Ok(()) };
    let is_file = model.contains('/') || model.ends_with(".toml");
    let why = match models::known() {
        Err(absent) => absent.to_owned(),
        Ok(known) if is_file || known.contains(&model.as_str()) => return Ok(()),
        Ok(known) => {
            let hint = near::hint(model, known);
            format!("there is no model `{model}`{hint}, or a device file (FILE.toml)")
        }
    };
    Err(Complaint::new(&["device", &device.name, "engine"], &device.engine, why))
}

/// Groups and tenants, each for itself. Orders name both, so that they share their names.
pub(super) fn sharers(config: &Config) -> Result<(), Complaint> {
    let (mut groups, mut tenants) = (HashSet::new(), HashSet::new());
    for group in &config.groups {
        name("group", &group.name, &mut groups, limits::GROUPS)?;
        within(&["group", &group.name, "weight"], &group.weight, &limits::WEIGHT, u32::to_string)?;
        floor("group", &group.name, group.floor)?;
    }
    for tenant in &config.tenants {
        let place = |key| ["tenant", tenant.name.as_str(), key];
        name("tenant", &tenant.name, &mut tenants, limits::TENANTS)?;
        if groups.contains(tenant.name.as_str()) {
            let why = "a group has this name; orders could not tell them apart";
            return Err(Complaint::new(&["tenant", &tenant.name], "", why));
        }
        within(&place("weight"), &tenant.weight, &limits::WEIGHT, u32::to_string)?;
        within(&place("level"), &tenant.level, &limits::LEVEL, u8::to_string)?;
        floor("tenant", &tenant.name, tenant.floor)?;
        match tenant.class {
            ServiceClass::Background { .. } if tenant.floor.is_some() => {
                let why = "a background tenant has a `minimum` instead";
                let shown = quantity::show_percent(tenant.floor.unwrap_or(0));
                return Err(Complaint::new(&place("floor"), shown, why));
            }
            ServiceClass::Background { minimum } if minimum > *limits::FLOOR.end() => {
                let why = format!("at most {}", quantity::show_percent(*limits::FLOOR.end()));
                let shown = quantity::show_percent(minimum);
                return Err(Complaint::new(&place("minimum"), shown, why));
            }
            _ => {}
        }
    }
    for (kind, child, key, parent) in parents(config) {
        if !groups.contains(parent) {
            let hint = near::hint(parent, config.groups.iter().map(|group| group.name.as_str()));
            let why = format!("there is no such group{hint}");
            return Err(Complaint::new(&[kind, child, key], parent, why));
        }
    }
    Ok(())
}

/// All members of groups: kind, name, the key that says so, the group.
fn parents(config: &Config) -> impl Iterator<Item = (&str, &str, &str, &str)> {
    let groups = config.groups.iter().filter_map(|group| {
        Some(("group", group.name.as_str(), "parent", group.parent.as_deref()?))
    });
    let tenants = config.tenants.iter().filter_map(|tenant| {
        Some(("tenant", tenant.name.as_str(), "group", tenant.group.as_deref()?))
    });
    groups.chain(tenants)
}

fn floor(kind: &str, name: &str, floor: Option<u16>) -> Result<(), Complaint> {
    let show = |floor: &u16| quantity::show_percent(*floor);
    floor.map_or(Ok(()), |floor| within(&[kind, name, "floor"], &floor, &limits::FLOOR, show))
}

/// Rules: bounded in number, and none after one that matches every client.
pub(super) fn rules(all: &[Rule]) -> Result<(), Complaint> {
    let refused =
        |place: usize, why: String| Err(Complaint::new(&["rule", &place.to_string()], "", why));
    if all.len() > limits::RULES {
        return refused(limits::RULES, format!("at most {} are allowed", limits::RULES));
    }
    // Every client has an export; nothing else is certain.
    let takes_all = |rule: &Rule| {
        rule.who == Who::default() && rules::variables(&rule.tenant).all(|name| name == "export")
    };
    let last = all.iter().position(takes_all);
    match last.filter(|place| place + 1 < all.len()) {
        Some(place) => {
            let tenant: &dyn Display = &all[place].tenant;
            let why = format!(
                "it never counts: the rule before it takes everybody for `{tenant}`; \
                 put that one last"
            );
            refused(place + 1, why)
        }
        None => Ok(()),
    }
}
