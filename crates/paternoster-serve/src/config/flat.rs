// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flat: a configuration as keys and values, to tell two of them apart.
//!
//! ```text
//! tenant gold weight   100 ─▶ 300      tenant.gold.weight: 100 -> 300
//! tenant new  …             added      tenant.new: added
//! device disk depth     32 ─▶ 64       device.disk.depth: 32 -> 64   (a start takes it, no reload)
//! ```
//!
//! Keys are those of the file. Every part of a configuration is taken apart by name, so that a new
//! one cannot be forgotten here.

use std::collections::BTreeMap;

use super::{
    Config, Device, Fuse, Group, Listen, Rights, Rule, Server, ServiceClass, Tenant, Tls, Volume,
    Who, quantity,
};

/// A key's parts from the top of the file, and its value in words.
type Flat = BTreeMap<Vec<String>, String>;

/// How a key differs between two configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The key's parts.
    pub key: Vec<String>,
    /// The old and the new value; `None`: the key is absent.
    pub values: (Option<String>, Option<String>),
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key.join(".");
        let is_section = self.key.len() == 2 && self.key[0] != "server";
        match (is_section, &self.values) {
            (_, (Some(old), Some(new))) if old == new => write!(f, "{key}: changed"),
            (_, (Some(old), Some(new))) => write!(f, "{key}: {old} -> {new}"),
            (true, (None, _)) => write!(f, "{key}: added"),
            (true, (_, None)) => write!(f, "{key}: taken out"),
            (_, (None, Some(new))) => write!(f, "{key}: {new}, was not there"),
            (_, (Some(old), None)) => write!(f, "{key}: taken out, was {old}"),
            (_, (None, None)) => write!(f, "{key}"),
        }
    }
}

/// What is different in `new`; a section that is new, or gone, as one.
pub(crate) fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let (before, after) = (flat(old), flat(new));
    let mut changes: Vec<Change> = Vec::new();
    let keys: std::collections::BTreeSet<&Vec<String>> =
        before.keys().chain(after.keys()).collect();
    for key in keys {
        let values = (before.get(key), after.get(key));
        if values.0 == values.1 {
            continue;
        }
        let section = &key[..key.len().min(2)];
        let has = |all: &Flat| all.keys().any(|key| key.starts_with(section));
        let whole = key[0] != "server" && !(has(&before) && has(&after));
        let key = if whole { section.to_vec() } else { key.clone() };
        if changes.last().is_none_or(|last| last.key != key) {
            changes.push(Change { key, values: (values.0.cloned(), values.1.cloned()) });
        }
    }
    if old.rules != new.rules {
        let count = |rules: &[Rule]| Some(format!("{} rules", rules.len()));
        let values = (count(&old.rules), count(&new.rules));
        changes.push(Change { key: vec!["rule".to_owned()], values });
    }
    changes
}

fn flat(config: &Config) -> Flat {
    let Config { server: all, devices, groups, tenants, rules: _ } = config;
    let mut flat = Flat::new();
    server(all, &mut |key, value| put(&mut flat, &["server", key], value));
    for one in devices {
        device(one, &mut flat);
    }
    for one in groups {
        let Group { name, parent, weight, caps, floor } = one;
        let mut tell = |key: &str, value| put(&mut flat, &["group", name, key], value);
        tell("parent", parent.clone());
        tell("weight", Some(weight.to_string()));
        shared(*caps, *floor, &mut tell);
    }
    for one in tenants {
        let Tenant { name, group, weight, class, level, caps, floor } = one;
        let mut tell = |key: &str, value| put(&mut flat, &["tenant", name, key], value);
        tell("group", group.clone());
        tell("weight", Some(weight.to_string()));
        tell("class", Some(class.to_string()));
        if let ServiceClass::Background { minimum } = class {
            tell("minimum", Some(quantity::show_percent(*minimum)));
        }
        tell("level", Some(level.to_string()));
        shared(*caps, *floor, &mut tell);
    }
    flat
}

fn put(flat: &mut Flat, key: &[&str], value: Option<String>) {
    if let Some(value) = value {
        flat.insert(key.iter().map(|part| (*part).to_owned()).collect(), value);
    }
}

fn shared(caps: super::Caps, floor: Option<u16>, tell: &mut impl FnMut(&str, Option<String>)) {
    tell("cap", (caps.bytes != 0).then(|| quantity::show_rate(caps.bytes)));
    tell("cap-requests", (caps.requests != 0).then(|| caps.requests.to_string()));
    tell("floor", floor.map(quantity::show_percent));
}

fn server(server: &Server, tell: &mut impl FnMut(&str, Option<String>)) {
    let Server {
        listen,
        tls,
        fuse,
        control,
        control_mode,
        control_orders,
        metrics,
        pidfile,
        user,
        group,
        connections,
        connection_memory,
        handshake_timeout,
        stall_timeout,
        drain_timeout,
        device_timeout,
        insecure,
        sandbox,
        image_folders,
        traces,
        verbose,
        log_level,
        log_format,
    } = server;
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|at| at.display().to_string());
    let each = listen.iter().map(|Listen { at, tls }| format!("{at:?} {tls:?}"));
    tell("listen", Some(each.collect::<Vec<_>>().join(", ")));
    if let Some(Tls { certificate, key, client_authority }) = tls {
        tell("tls.certificate", Some(certificate.display().to_string()));
        tell("tls.key", Some(key.display().to_string()));
        tell("tls.client-authority", path(client_authority));
    }
    if let Some(Fuse { mount, cgroups, realtime, allow_other, processes }) = fuse {
        tell("fuse.mount", Some(mount.display().to_string()));
        tell("fuse.cgroups", path(cgroups));
        tell("fuse.realtime", Some(format!("{realtime:?}")));
        tell("fuse.allow-other", Some(allow_other.to_string()));
        tell("fuse.processes", Some(processes.to_string()));
    }
    tell("control", path(control));
    tell("control-mode", control_mode.map(|mode| format!("{mode:04o}")));
    tell("control-orders", control_orders.as_deref().map(entries));
    tell("metrics", metrics.map(|at| at.to_string()));
    tell("pidfile", path(pidfile));
    tell("user", user.clone());
    tell("group", group.clone());
    tell("connections", Some(connections.to_string()));
    tell("connection-memory", Some(quantity::show_size(*connection_memory)));
    tell("handshake-timeout", Some(quantity::show_time(*handshake_timeout)));
    tell("stall-timeout", Some(quantity::show_time(*stall_timeout)));
    tell("drain-timeout", Some(quantity::show_time(*drain_timeout)));
    tell("device-timeout", Some(quantity::show_time(*device_timeout)));
    tell("insecure", Some(insecure.to_string()));
    tell("sandbox", Some(sandbox.to_string()));
    let folders: Vec<_> = image_folders.iter().map(|at| at.display().to_string()).collect();
    tell("image-folders", (!folders.is_empty()).then(|| format!("[{}]", folders.join(", "))));
    tell("traces", Some(traces.display().to_string()));
    tell("verbose", Some(verbose.to_string()));
    tell("log-level", Some(log_level.to_string()));
    tell("log-format", Some(log_format.to_string()));
}

fn device(it: &Device, flat: &mut Flat) {
    let Device {
        name,
        scheduler,
        attributes,
        depth,
        memory,
        direct,
        engine,
        delay_bound,
        volumes: on_it,
    } = it;
    let mut tell = |key: &str, value| put(flat, &["device", name, key], value);
    tell("scheduler", Some(scheduler.clone()));
    for (attribute, value) in attributes {
        tell(&format!("attributes.{attribute}"), Some(value.clone()));
    }
    tell("depth", depth.map(|depth| depth.to_string()));
    tell("memory", Some(quantity::show_size(*memory)));
    tell("direct", Some(direct.to_string()));
    tell("engine", Some(engine.to_string()));
    tell("delay-bound", delay_bound.map(quantity::show_time));
    for volume in on_it {
        let Volume { name: own, path, start, length, readonly, share, raw, description, rights } =
            volume;
        let Rights { allow, readonly_for, most_clients } = rights;
        let mut tell = |key: &str, value| put(flat, &["volume", own, key], value);
        tell("device", Some(name.clone()));
        tell("path", Some(path.display().to_string()));
        tell("start", (*start != 0).then(|| quantity::show_size(*start)));
        tell("length", length.map(quantity::show_size));
        tell("readonly", Some(readonly.to_string()));
        tell("share", Some(share.to_string()));
        tell("raw", Some(raw.to_string()));
        tell("description", Some(description.clone()));
        tell("allow", allow.as_deref().map(entries));
        tell("readonly-for", (!readonly_for.is_empty()).then(|| entries(readonly_for)));
        tell("most-clients", most_clients.map(|most| most.to_string()));
    }
}

/// Entries of rights.
fn entries(entries: &[Who]) -> String {
    format!("[{}]", entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(old: &str, new: &str) -> Vec<String> {
        let read = |text: &str| {
            let text = format!("[server]\nlisten = \"unix:/s\"\n[volume.a]\npath = \"/a\"\n{text}");
            Config::parse("x", &text).expect("sound")
        };
        changes(&read(old), &read(new)).iter().map(ToString::to_string).collect()
    }

    /// Is every difference reported by its key, a section that comes or goes as one?
    #[test]
    fn differences_are_told_by_key() {
        let tenant = "[tenant.gold]\nweight = 100\n";
        assert_eq!(told(tenant, tenant), Vec::<String>::new());
        assert_eq!(told("", tenant), ["tenant.gold: added"]);
        assert_eq!(told(tenant, ""), ["tenant.gold: taken out"]);
        let other = "[tenant.gold]\nweight = 300\ncap = \"1MB/s\"\n";
        assert_eq!(
            told(tenant, other),
            ["tenant.gold.cap: 1MB/s, was not there", "tenant.gold.weight: 100 -> 300"]
        );
        let rule = "[[rule]]\ntenant = \"gold\"\n";
        assert_eq!(told("", rule), ["rule: 0 rules -> 1 rules"]);
        let device = "[device.device]\ndepth = 8\n";
        assert_eq!(told("", device), ["device.device.depth: 8, was not there"]);
    }
}
