// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines: the tables of `list` and `status`, made from snapshots.
//!
//! A `list` has no figures; fields that a newer server adds are skipped, fields that an older one
//! omits are zero.

use paternoster_frame::table::{align_right, plain_table, trimmed};
use paternoster_serve::control::snapshot::{ConnectionLine, Figures, Snapshot, TenantLine};
use serde_json::Value;

use super::tree::tree;
use super::units::{bytes, harmless, mean, millis, p99, percent};

/// A device's answer as a snapshot; missing fields have their defaults.
pub(crate) fn snapshot(answer: &Value) -> Result<Snapshot, String> {
    let mut whole = serde_json::to_value(Snapshot::default()).unwrap_or_default();
    let (tenant, connection) = (TenantLine::default(), ConnectionLine::default());
    fill(&mut whole, answer);
    for (list, default) in [
        ("tenants", serde_json::to_value(tenant).unwrap_or_default()),
        ("connections", serde_json::to_value(connection).unwrap_or_default()),
    ] {
        for line in whole[list].as_array_mut().into_iter().flatten() {
            let mut filled = default.clone();
            fill(&mut filled, line);
            *line = filled;
        }
    }
    serde_json::from_value(whole).map_err(|error| format!("this is no snapshot: {error}"))
}

/// Sets the fields that `with` has.
fn fill(value: &mut Value, with: &Value) {
    let fields = with.as_object().into_iter().flatten();
    for (name, field) in fields {
        value[name] = field.clone();
    }
}

pub(super) fn list(s: &Snapshot) -> String {
    let tracing = if s.tracing { ", tracing" } else { "" };
    let device = harmless(&s.device);
    let Snapshot { scheduler, depth, backend, .. } = s;
    let mut text = format!("{device}: {scheduler}, depth {depth}, {backend}{tracing}\n");
    if !s.scheduler_failed.is_empty() {
        text += &format!("{device}: {scheduler} took over: {}\n", harmless(&s.scheduler_failed));
    }
    text.push('\n');
    let mut table = plain_table();
    table.set_header(["volume", "size", ""]);
    for volume in &s.volumes {
        let states = [(volume.readonly, "read-only"), (volume.drained, "drained")];
        let states: Vec<&str> = states.iter().filter(|one| one.0).map(|one| one.1).collect();
        table.add_row([harmless(&volume.name), bytes(volume.size), states.join(", ")]);
    }
    text.push_str(&trimmed(&table));
    if !s.tenants.is_empty() {
        let mut table = plain_table();
        table.set_header(["tenant", "class", "level", "weight", "effective", "connections"]);
        for (name, line) in indented(&s.tenants) {
            let of_tenant = |text: String| if line.is_group { String::new() } else { text };
            table.add_row([
                name,
                of_tenant(line.class.clone()),
                of_tenant(line.level.to_string()),
                line.weight.to_string(),
                line.effective_weight.to_string(),
                of_tenant(line.connections.to_string()),
            ]);
        }
        align_right(&mut table, 2);
        text = text + "\n" + &trimmed(&table);
    }
    if !s.connections.is_empty() {
        let mut table = plain_table();
        table.set_header(["connection", "tenant", "volume", "under way", "peer"]);
        for line in &s.connections {
            table.add_row([
                format!("#{}", line.id),
                harmless(&line.tenant),
                harmless(&line.volume),
                line.under_way.to_string(),
                harmless(&line.peer),
            ]);
        }
        text = text + "\n" + &trimmed(&table);
    }
    text
}

/// Groups and tenants as a tree, each with its indented name.
fn indented(lines: &[TenantLine]) -> Vec<(String, &TenantLine)> {
    let names: Vec<_> =
        lines.iter().map(|line| (&*line.name, &*line.parent, line.is_group)).collect();
    let places = tree(&names).into_iter();
    let line = |place: super::tree::Place| {
        let line = &lines[place.line];
        let end = if line.is_group { "/" } else { "" };
        (format!("{}{}{end}", "  ".repeat(place.depth), harmless(&line.name)), line)
    };
    places.map(line).collect()
}

pub(super) fn status(s: &Snapshot) -> String {
    let busy = percent(s.busy_ns, s.now_ns);
    let device = harmless(&s.device);
    let mut text = format!(
        "{device}: {} for {:.0} s, busy {busy:.1} %, {} of {} in device, {} waiting, memory {} of \
         {}\n\n",
        s.scheduler,
        s.now_ns as f64 / 1e9,
        s.in_device,
        s.depth,
        s.waiting,
        bytes(s.memory_used),
        bytes(s.memory)
    );
    if let Some(error) = &s.last_error {
        let (count, ago) = (s.errors.values().sum::<u64>(), error.ago_ns / 1_000_000_000);
        let what = harmless(&error.what);
        text.push_str(&format!("{count} commands failed, the last {ago} s ago: {what}\n\n"));
    }
    let present = s.tenants.iter().filter(|line| !line.is_group);
    let present = present.map(|line| (harmless(&line.name), &line.figures));
    // Also those that have gone, so that everything that was served, or failed, is counted.
    let gone = s.departed.iter().map(|one| (harmless(&one.name) + " (gone)", &one.figures));
    let earlier = s.earlier.iter().map(|one| {
        let name = harmless(&one.volume);
        let volume = if name.is_empty() { "other volumes" } else { &*name };
        (format!("{} earlier of {volume}", one.tenants), &one.figures)
    });
    let rows: Vec<(String, &Figures)> = present.chain(gone).chain(earlier).collect();
    let all: u64 = rows.iter().fold(0, |sum, (_, f)| sum.saturating_add(f.served_ns));
    let mut table = plain_table();
    table.set_header([
        "tenant", "share", "device s", "reads", "read", "writes", "written", "flushes", "errors",
        "mean ms", "p99 ms",
    ]);
    for (name, f) in rows {
        table.add_row([
            name,
            format!("{:.1} %", percent(f.served_ns, all)),
            format!("{:.3}", f.served_ns as f64 / 1e9),
            f.reads.to_string(),
            bytes(f.read_bytes),
            f.writes.to_string(),
            bytes(f.write_bytes),
            f.flushes.to_string(),
            f.errors.to_string(),
            mean(f).map_or("-".to_owned(), millis),
            p99(f).map_or("-".to_owned(), |bound| bound.told()),
        ]);
    }
    align_right(&mut table, 1);
    text.push_str(&trimmed(&table));
    text
}

#[cfg(test)]
mod tests {
    use paternoster_serve::control::snapshot::{EarlierLine, LastError, VolumeLine};

    use super::*;

    fn sample() -> Snapshot {
        let figures = Figures {
            reads: 99,
            read_bytes: 99 * 4096,
            writes: 1,
            write_bytes: 1024,
            served_ns: 1_500_000_000,
            latency_ns: 100_000_000,
            latency_log2_us: [vec![0; 10], vec![100, 0]].concat(),
            ..Figures::default()
        };
        let line = |name: &str, parent: &str, is_group, figures| TenantLine {
            name: name.to_owned(),
            parent: parent.to_owned(),
            is_group,
            weight: 300,
            effective_weight: 300,
            class: "best-effort".to_owned(),
            level: 4,
            connections: 1,
            figures,
        };
        let less = Figures { served_ns: 500_000_000, ..Figures::default() };
        Snapshot {
            device: "disk0".to_owned(),
            backend: "io_uring, O_DIRECT".to_owned(),
            scheduler: "bfq".to_owned(),
            scheduler_failed: "lottery panicked: unlucky".to_owned(),
            depth: 32,
            now_ns: 10_000_000_000,
            busy_ns: 5_000_000_000,
            waiting: 7,
            memory: 64 << 20,
            volumes: vec![VolumeLine {
                name: "a".to_owned(),
                size: 1 << 30,
                readonly: true,
                drained: true,
            }],
            tenants: vec![
                line("gold", "", true, Figures::default()),
                line("w\x1b", "", false, less),
                line("db", "gold", false, figures),
            ],
            connections: vec![ConnectionLine {
                id: 12,
                tenant: "db".to_owned(),
                volume: "a".to_owned(),
                peer: "unix uid 1000 pid 4711".to_owned(),
                under_way: 3,
                figures: Figures::default(),
            }],
            ..Snapshot::default()
        }
    }

    /// Do the tables line up, does the tree print as one, and can names do no harm?
    #[test]
    fn a_list() {
        let expected = "\
disk0: bfq, depth 32, io_uring, O_DIRECT
disk0: bfq took over: lottery panicked: unlucky

 volume  size
 a       1.0 GiB  read-only, drained

 tenant  class        level  weight  effective  connections
 gold/                          300        300
   db    best-effort      4     300        300            1
 w�      best-effort      4     300        300            1

 connection  tenant  volume  under way  peer
 #12         db      a       3          unix uid 1000 pid 4711
";
        assert_eq!(list(&sample()), expected);
    }

    /// What did each client get? 1.5 s of 2 s are 75 %; 100 ms for 100 requests are 1 ms each, all
    /// of them below 2^10 us.
    #[test]
    fn a_status() {
        let expected = "\
disk0: bfq for 10 s, busy 50.0 %, 0 of 32 in device, 7 waiting, memory 0 B of 64.0 MiB

 tenant   share  device s  reads       read  writes  written  flushes  errors  mean ms  p99 ms
 w�      25.0 %     0.500      0        0 B       0      0 B        0       0        -       -
 db      75.0 %     1.500     99  396.0 KiB       1  1.0 KiB        0       0     1.00   <1.02
";
        assert_eq!(status(&sample()), expected);
    }

    /// Does the output include what clients that have gone got, and what failed? 1 s of 3 s is a
    /// third.
    #[test]
    fn a_status_with_those_that_have_gone() {
        let one = |served_ns| Figures { served_ns, errors: 2, ..Figures::default() };
        let tenant = |name: &str, figures| TenantLine {
            name: name.to_owned(),
            figures,
            ..TenantLine::default()
        };
        let status = status(&Snapshot {
            device: "d".to_owned(),
            scheduler: "bfq".to_owned(),
            tenants: vec![tenant("db", one(1_000_000_000))],
            departed: vec![tenant("vm7", one(1_000_000_000))],
            earlier: vec![EarlierLine {
                volume: "vm".to_owned(),
                tenants: 12,
                figures: one(1_000_000_000),
            }],
            errors: [(28, 6)].into(),
            last_error: Some(LastError { ago_ns: 7_000_000_000, what: "vm: full".to_owned() }),
            ..Snapshot::default()
        });
        assert!(status.contains("\n6 commands failed, the last 7 s ago: vm: full\n"), "{status}");
        let rows: Vec<Vec<&str>> =
            status.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
        for row in [&["db", "33.3", "%", "1.000"], &["vm7", "(gone)", "33.3", "%"]] {
            assert!(rows.iter().any(|told| told == row), "{status}");
        }
        assert!(rows.iter().any(|told| told == &["12", "earlier", "of", "vm"]), "{status}");
    }

    /// Is a list, which has no figures, read; and is other JSON refused?
    #[test]
    fn what_is_left_out() {
        let answer = serde_json::json!({ "device": "d", "tenants": [{ "name": "t", "more": 1 }] });
        let read = snapshot(&answer).expect("a snapshot");
        assert_eq!((&*read.device, &*read.tenants[0].name), ("d", "t"));
        assert!(snapshot(&serde_json::json!({ "device": 7 })).is_err());
    }
}
