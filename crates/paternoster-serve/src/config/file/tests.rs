// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of configuration files: what they parse to, and the messages for wrong ones.

mod fuse;
mod refusals;

use std::path::Path;

use paternoster_core::{Class, Nanos};
use proptest::prelude::*;

use super::*;
use crate::config::{
    Address, Caps, Direct, Engine, Fuse, ServiceClass, Tls, TlsMode, Volume, limits,
};

const EXAMPLE: &str = include_str!("../../../../../docs/serve/example.toml");

/// A sound file in which tests replace a line.
const SMALL: &str = r#"[server]
listen = "unix:/run/nbd.sock"
connections = 16

[device.disk]
scheduler = "bfq"
attributes = { slice_idle = 0 }
depth = 32
memory = "64MiB"
engine = "auto"

[volume.vm1]
device = "disk"
path = "/srv/vm1.img"
length = "1GiB"

[group.customers]
weight = 200
floor = "50%"

[tenant.gold]
group = "customers"
weight = 300
class = "best-effort"

[[rule]]
export = "vm*"
address = "10.0.0.0/8"
tenant = "gold"
"#;

fn sound(text: &str) -> Config {
    Config::parse("serve.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    Config::parse("serve.toml", &SMALL.replacen(from, to, 1)).unwrap_err().to_string()
}

/// Does the example in the documents come out as it says?
#[test]
fn the_example_is_sound() {
    let config = sound(EXAMPLE);
    assert_eq!(config.devices.len(), 2);
    assert_eq!(config.devices[0].scheduler, "bfq");
    let tenant = |name: &str| config.tenants.iter().find(|tenant| tenant.name == name).unwrap();
    assert_eq!(tenant("gold").weight, 300);
    assert_eq!(tenant("backup").class, ServiceClass::Background { minimum: 50 });
    assert!(!config.rules.is_empty() && !config.groups.is_empty());
}

/// Does the least file get every default that the documents promise?
#[test]
fn defaults() {
    let config = sound("[server]\nlisten = 'unix:/s'\n[volume.a]\npath = '/f'\n");
    let server = &config.server;
    assert_eq!(server.listen[0].at, Address::Unix { path: "/s".into(), mode: 0o600 });
    assert_eq!((server.connections, server.connection_memory), (4096, 16 << 20));
    assert_eq!(server.handshake_timeout, Nanos::from_secs(10));
    let device = &config.devices[0];
    assert_eq!((device.name.as_str(), device.scheduler.as_str()), ("device", "bfq"));
    assert_eq!((device.depth, device.memory), (None, 64 << 20));
    assert_eq!((&device.engine, device.direct), (&Engine::Auto, Direct::Auto));
    assert_eq!(device.volumes, [Volume::new("a", "/f")]);
    let volume = &device.volumes[0];
    assert_eq!((volume.start, volume.length), (0, None));
    assert!(!volume.readonly && !volume.share && !volume.raw);
}

/// Does every key come out where it belongs?
#[test]
fn every_key() {
    let config = sound(
        r#"
        [server]
        listen = [
          { at = "unix:/s", mode = "0660", tls = "offered" }, "tcp:0.0.0.0:10809", "inherited",
        ]
        tls = { certificate = "c.pem", key = "k.pem", client-authority = "ca.pem" }
        control = "/c"
        control-mode = "0660"
        sandbox = false
        traces = "/t"
        image-folders = ["/i", "/j"]
        control-orders = ["uid=0", { gid = 7 }]
        metrics = "localhost:9809"
        pidfile = "/p"
        user = "nbd"
        group = "kvm"
        connections = 10
        connection-memory = "1 MiB"
        handshake-timeout = "1s"
        stall-timeout = "2s"
        drain-timeout = "3s"
        device-timeout = "7s"
        insecure = true
        verbose = true
        [device.d]
        scheduler = "deadline"
        attributes.fifo_batch = 1
        attributes.nr_requests = "256"
        attributes.front_merges = false
        depth = 1
        memory = "1GiB"
        direct = true
        engine = "model:hdd-7200"
        delay-bound = "50ms"
        [volume.v]
        path = "/f"
        start = 512
        length = "1KiB"
        readonly = true
        share = true
        raw = true
        description = "spare"
        [group.inner]
        parent = "outer"
        weight = 7
        [group.outer]
        cap = "100MB/s"
        cap-requests = 500
        floor = "10%"
        [tenant.t]
        group = "inner"
        class = "realtime"
        level = 2
        [tenant.b]
        class = "background"
        minimum = "2.5%"
        [[rule]]
        export = "v*"
        uid = 1
        pid = 2
        cgroup = "/c"
        address = "::1"
        certificate = "*.example"
        tenant = "t-$uid"
        "#,
    );
    let server = &config.server;
    assert_eq!(server.listen[0].at, Address::Unix { path: "/s".into(), mode: 0o660 });
    let modes: Vec<TlsMode> = server.listen.iter().map(|listen| listen.tls).collect();
    assert_eq!(modes, [TlsMode::Offered, TlsMode::Required, TlsMode::Off]);
    let client_authority = Some("ca.pem".into());
    let tls = Tls { certificate: "c.pem".into(), key: "k.pem".into(), client_authority };
    assert_eq!(server.tls, Some(tls));
    let orders: Vec<String> =
        server.control_orders.iter().flatten().map(ToString::to_string).collect();
    assert_eq!((server.sandbox, server.traces.to_str()), (false, Some("/t")));
    assert_eq!(server.image_folders, [Path::new("/i"), Path::new("/j")]);
    assert_eq!((server.control_mode, &*orders.join(",")), (Some(0o660), "uid=0,gid=7"));
    assert_eq!(server.metrics.unwrap().to_string(), "127.0.0.1:9809");
    assert_eq!((server.user.as_deref(), server.group.as_deref()), (Some("nbd"), Some("kvm")));
    assert_eq!(server.drain_timeout, Nanos::from_secs(3));
    assert_eq!(server.device_timeout, Nanos::from_secs(7));
    assert!(server.insecure && server.verbose);
    let device = &config.devices[0];
    let attributes = [("fifo_batch", "1"), ("nr_requests", "256"), ("front_merges", "0")];
    assert_eq!(device.attributes, attributes.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(device.engine, Engine::Model("hdd-7200".to_owned()));
    assert_eq!(device.delay_bound, Some(Nanos::from_millis(50)));
    assert_eq!((device.volumes[0].start, device.volumes[0].length), (512, Some(1024)));
    assert!(device.volumes[0].readonly && device.volumes[0].share && device.volumes[0].raw);
    // Parents first, whatever the order of the file.
    assert_eq!(config.groups[0].name, "outer");
    assert_eq!(config.groups[0].caps, Caps { bytes: 100_000_000, requests: 500 });
    assert_eq!((config.groups[0].floor, config.groups[1].weight), (Some(100), 7));
    assert_eq!(config.tenants[0].class, ServiceClass::Kernel(Class::Realtime));
    assert_eq!(config.tenants[1].class, ServiceClass::Background { minimum: 25 });
    assert_eq!(config.rules[0].who.address, Some(("::1".parse().unwrap(), 128)));
}

/// Are groups in a circle found, wherever one looks first, and too many levels?
#[test]
fn groups_in_a_circle() {
    let with = |groups: &str| {
        let text = format!("{SMALL}{groups}");
        Config::parse("serve.toml", &text).map_err(|error| error.message)
    };
    let circle = with("[group.a]\nparent='b'\n[group.b]\nparent='c'\n[group.c]\nparent='b'\n");
    let message = circle.unwrap_err();
    assert!(message.contains("a group would be in itself: a in b in c in b"), "{message}");
    let chain = |levels: usize| {
        let groups =
            (1..levels).map(|level| format!("[group.g{level}]\nparent='g{}'\n", level - 1));
        with(&("[group.g0]\n".to_owned() + &groups.collect::<String>()))
    };
    assert!(chain(limits::GROUP_LEVELS).is_ok());
    let message = chain(limits::GROUP_LEVELS + 1).unwrap_err();
    assert!(message.contains("at most 8 levels are allowed"), "{message}");
}

/// Are counts bounded?
#[test]
fn counts_are_bounded() {
    let many = |text: &str, count: usize| {
        let each = (0..count).map(|number| text.replace('#', &number.to_string()));
        Config::parse("serve.toml", &(SMALL.to_owned() + &each.collect::<String>()))
    };
    // The file has one of each already.
    assert!(many("[volume.v#]\npath='/f#'\n", limits::VOLUMES - 1).is_ok());
    let refused = many("[volume.v#]\npath='/f#'\n", limits::VOLUMES).unwrap_err().message;
    assert_eq!(refused, "1025 volumes where 1024 are allowed");
    assert!(many("[tenant.t#]\n", limits::TENANTS).unwrap_err().message.contains("10000 are"));
    assert!(many("[device.d#]\n", limits::DEVICES).unwrap_err().message.contains("64 are"));
    assert!(many("[[rule]]\nuid=#\ntenant='t'\n", limits::RULES - 1).is_ok());
    assert!(many("[[rule]]\nuid=#\ntenant='t'\n", limits::RULES).is_err());
    let long = format!("# {}", "x".repeat(FILE_BYTES));
    assert!(Config::parse("a.toml", &long).unwrap_err().message.contains("1048576 bytes"));
    let name = "x".repeat(256);
    let refused = refusal("[tenant.gold]", &format!("[tenant.{name}]"));
    assert!(refused.contains("256 bytes where 255 are allowed"), "{refused}");
}

/// Are a volume's rights read, as one text, a list of texts and of tables, is an empty list
/// distinguished from a missing one; and are faults reported with their place?
#[test]
fn rights_of_a_volume() {
    let of = |lines: &str| {
        let text = format!("[server]\nlisten = 'unix:/s'\n[volume.a]\npath = '/f'\n{lines}\n");
        let parsed = Config::parse("serve.toml", &text).map_err(|error| error.to_string());
        parsed.map(|config| config.devices[0].volumes[0].rights.clone())
    };
    assert_eq!(of("").unwrap(), crate::config::Rights::default());
    assert_eq!(of("allow = []").unwrap().allow, Some(Vec::new()));
    let rights = of("allow = [ 'uid=7', { gid = 8, cgroup = '/a b' } ]\nreadonly-for = 'anyone'\n\
                     most-clients = 3");
    let rights = rights.unwrap();
    let shown: Vec<String> = rights.entries().map(ToString::to_string).collect();
    assert_eq!(shown, ["uid=7", "gid=8 cgroup=/a b", "anyone"]);
    assert_eq!((rights.readonly_for.len(), rights.most_clients), (1, Some(3)));
    for (lines, told) in [
        ("allow = 'uid7'", "serve.toml:5: `volume.a.allow` cannot be `'uid7'`: `uid7` is not"),
        ("allow = ['uid=7',\n'pid=8']", "serve.toml:6: `volume.a.allow` cannot be `'pid=8'`"),
        ("readonly-for = [{ export = 'a' }]", "cannot be `[{ export = 'a' }]`: it says nothing"),
        ("readonly-for = [{ uid = 1, pid = 2 }]", "`volume.a.readonly-for #1.pid` is not known"),
        ("allow = 7", "`volume.a.allow #1` cannot be `7`"),
        ("most-clients = 0", "a whole number from 1 to 65536"),
        ("allow = 'certificate=a'", "no client shows a certificate"),
    ] {
        let message = of(lines).unwrap_err();
        assert!(message.contains(told), "{lines}: {message}");
    }
    let many = format!("allow = [{}]", "'uid=1',".repeat(limits::RIGHTS + 1));
    assert!(of(&many).unwrap_err().contains("at most 64"));
}

/// Is every key that is read explained in the documents? (The refusal of an unknown key lists all
/// known ones.)
#[test]
fn every_key_is_documented() {
    let documents = include_str!("../../../../../docs/serve/configuration.md");
    let mut count = 0;
    for (line, prefix) in [
        ("connections = 16", ""),
        ("connections = 16", "tls."),
        ("connections = 16", "fuse."),
        ("[device.disk]", ""),
        ("[volume.vm1]", ""),
        ("[group.customers]", ""),
        ("[tenant.gold]", ""),
        ("[[rule]]", ""),
    ] {
        let from = line.lines().next().unwrap();
        let to = match prefix {
            "" => format!("{line}\nzzzzzzzzzzzz = 1"),
            "fuse." => format!("{from}\nfuse = {{ mount = '/m', zzzzzzzzzzzz = 1 }}"),
            _ => format!("{from}\ntls = {{ certificate = 'c', key = 'k', zzzzzzzzzzzz = 1 }}"),
        };
        let message = refusal(from, &to);
        let (_, known) = message.split_once("; known are ").unwrap_or_else(|| panic!("{message}"));
        for key in known.split(", ").filter(|key| !matches!(*key, "tls" | "fuse")) {
            assert!(documents.contains(&format!("| `{prefix}{key}` |")), "{prefix}{key}");
            count += 1;
        }
    }
    // 21 of the server without `tls` and `fuse`, 3 and 5 of these, 7 of devices, 11 of volumes,
    // 5 of groups, 8 of tenants, 8 of rules.
    assert_eq!(count, 21 + 3 + 5 + 7 + 11 + 5 + 8 + 8);
}

/// Is a file that cannot be read reported by name?
#[test]
fn files_that_are_not_there() {
    let error = Config::load(Path::new("/nowhere/a.toml")).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/a.toml: it cannot be read: No such file"), "{error}");
}

proptest! {
    /// Does a file with a piece torn out or doubled parse, or say where it is wrong?
    #[test]
    fn torn_files(start in 0usize..600, length in 0usize..40, twice: bool) {
        let end = (start + length).min(SMALL.len());
        let start = start.min(end);
        let torn = if twice {
            format!("{}{}", &SMALL[..end], &SMALL[start..])
        } else {
            format!("{}{}", &SMALL[..start], &SMALL[end..])
        };
        if let Err(error) = Config::parse("serve.toml", &torn) {
            prop_assert!(error.line > 0, "{}", error);
        }
    }
}
