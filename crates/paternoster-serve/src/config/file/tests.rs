// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of configuration files: what comes out, and what is said to those that are wrong.

use std::path::Path;

use paternoster::{Class, Nanos};
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
    let volume = Volume {
        name: "a".to_owned(),
        path: "/f".into(),
        start: 0,
        length: None,
        readonly: false,
        description: String::new(),
    };
    assert_eq!(device.volumes, [volume]);
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
        metrics = "localhost:9809"
        pidfile = "/p"
        user = "nbd"
        group = "kvm"
        connections = 10
        connection-memory = "1 MiB"
        handshake-timeout = "1s"
        stall-timeout = "2s"
        drain-timeout = "3s"
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
    assert_eq!(server.metrics.unwrap().to_string(), "127.0.0.1:9809");
    assert_eq!((server.user.as_deref(), server.group.as_deref()), (Some("nbd"), Some("kvm")));
    assert_eq!(server.drain_timeout, Nanos::from_secs(3));
    assert!(server.insecure && server.verbose);
    let device = &config.devices[0];
    let attributes = [("fifo_batch", "1"), ("nr_requests", "256"), ("front_merges", "0")];
    assert_eq!(device.attributes, attributes.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(device.engine, Engine::Model("hdd-7200".to_owned()));
    assert_eq!(device.delay_bound, Some(Nanos::from_millis(50)));
    assert_eq!((device.volumes[0].start, device.volumes[0].length), (512, Some(1024)));
    // Parents first, whatever the order of the file.
    assert_eq!(config.groups[0].name, "outer");
    assert_eq!(config.groups[0].caps, Caps { bytes: 100_000_000, requests: 500 });
    assert_eq!((config.groups[0].floor, config.groups[1].weight), (Some(100), 7));
    assert_eq!(config.tenants[0].class, ServiceClass::Kernel(Class::Realtime));
    assert_eq!(config.tenants[1].class, ServiceClass::Background { minimum: 25 });
    assert_eq!(config.rules[0].who.address, Some(("::1".parse().unwrap(), 128)));
}

/// Do files need no socket, and come out with what was asked for and else the defaults?
#[test]
fn volumes_as_files() {
    let with = |server: &str| sound(&format!("[server]\n{server}\n[volume.a]\npath = '/f'\n"));
    let least = with("[server.fuse]\nmount = '/m'").server;
    assert_eq!((least.listen.len(), least.fuse), (0, Some(Fuse::new("/m".into()))));
    let both = with("listen = 'unix:/s'\nfuse.mount = '/m'").server;
    assert_eq!((both.listen.len(), both.fuse.is_some()), (1, true));
    let all = with(
        "listen = []
        [server.fuse]
        mount = '/m'
        cgroups = '/sys/fs/cgroup'
        realtime = ['root', 1_000, '54321', 0x10]
        allow-other = true
        processes = 0",
    );
    let expected = Fuse {
        mount: "/m".into(),
        cgroups: Some("/sys/fs/cgroup".into()),
        realtime: vec![0, 1000, 54321, 16],
        allow_other: true,
        processes: 0,
    };
    assert_eq!(all.server.fuse, Some(expected));
    let nobody = with("fuse = { mount = '/m', realtime = [] }").server.fuse.unwrap();
    assert!(nobody.realtime.is_empty());
}

/// Is what is wrong with files told with its line and what would be right?
#[test]
fn refusals_of_files() {
    for (line, expected) in [
        ("fuse = {}", "`server.fuse.mount` is missing: `mount = \"/run/paternoster/disks\"`, an"),
        ("fuse = '/m'", "`server.fuse` cannot be `'/m'`: a section, `[server.fuse]`"),
        ("fuse = { mount = '' }", "`server.fuse.mount` cannot be `''`: a path of printable"),
        (
            "fuse = { mount = '/m', proceses = 1 }",
            "`server.fuse.proceses` is not known here; did you mean `processes`? Known are mount,",
        ),
        (
            "fuse = { mount = '/m', processes = 65537 }",
            "`server.fuse.processes` cannot be `65537`: a whole number from 0 to 65536",
        ),
        (
            "fuse = { mount = '/m', allow-other = 1 }",
            "`server.fuse.allow-other` cannot be `1`: true or false",
        ),
        (
            "fuse = { mount = '/m', realtime = 'root' }",
            "`server.fuse.realtime` cannot be `'root'`: names of users or their numbers, as",
        ),
        (
            "fuse = { mount = '/m', realtime = [-1] }",
            "`server.fuse.realtime` cannot be `[-1]`: names of users or their numbers, as",
        ),
        (
            "fuse = { mount = '/m', realtime = ['root', 'no-such-user'] }",
            "`server.fuse.realtime` cannot be `['root', 'no-such-user']`: user no-such-user: there \
             is no such user; a name or a number",
        ),
        (
            "fuse = { mount = '/srv' }",
            "`server.fuse.mount` cannot be `'/srv'`: the volume `vm1` would be in it",
        ),
    ] {
        let message = refusal("connections = 16", line);
        assert!(message.starts_with(&format!("serve.toml:3: {expected}")), "{line}\n{message}");
    }
    let slash = SMALL.replace("connections = 16", "fuse.mount = '/m'");
    let slash = slash.replace("[volume.vm1]", "[volume.'a/b']");
    let message = Config::parse("serve.toml", &slash).unwrap_err().to_string();
    let expected = "serve.toml:12: `volume.a/b`: with `[server.fuse]` it is the name of a file";
    assert!(message.starts_with(expected), "{message}");
    let message = refusal("connections = 16", "user = 'root'\nfuse.mount = '/m'");
    let expected = "serve.toml:3: `server.user` cannot be `'root'`: a server that becomes another";
    assert!(message.starts_with(expected), "{message}");
    let message = refusal("\"unix:/run/nbd.sock\"", "[]");
    let expected = "serve.toml:2: `server.listen` cannot be `[]`: `\"unix:/PATH\"`, ";
    assert!(message.starts_with(expected), "{message}");
}

/// Is a folder that is not there complained about, and told how to make it?
#[test]
fn folders_of_files() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let look = |mount: &Path, cgroups: Option<&Path>| {
        let cgroups = cgroups.map(Path::to_owned);
        let fuse = Fuse { cgroups, ..Fuse::new(mount.to_owned()) };
        fuse.look().map_err(|complaint| complaint.to_string())
    };
    assert_eq!(look(here, None), Ok(()));
    assert_eq!(look(here, Some(here)), Ok(()));
    let missing = Path::new("/nowhere/at/all");
    assert_eq!(
        look(missing, None).unwrap_err(),
        "`server.fuse.mount` cannot be `/nowhere/at/all`: there is no such folder; make it first: \
         `mkdir -p /nowhere/at/all`"
    );
    assert!(look(here, Some(missing)).unwrap_err().contains("`/sys/fs/cgroup` nearly everywhere"));
    let file = here.join("Cargo.toml");
    assert!(look(&file, None).unwrap_err().ends_with("it is not a folder"));
}

/// Does every refusal name file and line, the text, and what would be right?
#[test]
fn refusals_say_where_and_what_would_be_right() {
    sound(SMALL);
    for (from, to, expected) in [
        (
            "connections = 16",
            "connections = 0",
            "serve.toml:3: `server.connections` cannot be `0`: a whole number from 1 to 65536",
        ),
        (
            "connections = 16",
            "conections = 16",
            "serve.toml:3: `server.conections` is not known here; did you mean `connections`? \
             Known are tls, fuse, listen, control,",
        ),
        (
            "unix:/run",
            "unx:/run",
            "serve.toml:2: `server.listen` cannot be `\"unx:/run/nbd.sock\"`: an address: \
             `unix:/PATH`,",
        ),
        (
            "\"unix:/run/nbd.sock\"",
            "\"tcp:0.0.0.0:10809\"",
            "serve.toml:2: `server.listen.0` cannot be `tcp:0.0.0.0:10809`: everybody who reaches \
             it could read and write, in the clear; TLS",
        ),
        (
            "\"unix:/run/nbd.sock\"",
            "[\"tcp:127.0.0.1:1\", { at = \"unix:/s\", tls = \"required\" }]",
            "serve.toml:2: `server.listen.1` cannot be `unix:/s`: TLS needs `[server.tls]` with",
        ),
        (
            "\"unix:/run/nbd.sock\"",
            "[\"unix:/s\", \"unix:/s\"]",
            "serve.toml:2: `server.listen.1` cannot be `\"unix:/s\"`: it is there twice",
        ),
        (
            "connections = 16",
            "metrics = \"10.0.0.1:80\"",
            "serve.toml:3: `server.metrics` cannot be `\"10.0.0.1:80\"`: metrics are told on \
             loopback only",
        ),
        (
            "connections = 16",
            "control = \"/run/nbd.sock\"",
            "serve.toml:3: `server.control` cannot be `\"/run/nbd.sock\"`: clients come to that",
        ),
        (
            "connections = 16",
            "tls = { certificate = \"c.pem\" }",
            "serve.toml:3: `server.tls.key` is missing: the path of a PEM file",
        ),
        (
            "connections = 16",
            "stall-timeout = \"1 ms\"",
            "serve.toml:3: `server.stall-timeout` cannot be `\"1 ms\"`: 100ms to 1h",
        ),
        (
            "connections = 16",
            "connection-memory = 16",
            "serve.toml:3: `server.connection-memory` cannot be `16`: a text between quotes",
        ),
        (
            "scheduler = \"bfq\"",
            "shceduler = \"bfq\"",
            "serve.toml:6: `device.disk.shceduler` is not known here; did you mean `scheduler`?",
        ),
        (
            "scheduler = \"bfq\"",
            "scheduler = \"bqf\"",
            "serve.toml:6: `device.disk.scheduler` cannot be `\"bqf\"`: there is no such \
             scheduler; did you mean `bfq`? Known are noop,",
        ),
        (
            "slice_idle = 0",
            "slice_idel = 0",
            "serve.toml:7: `device.disk.attributes.slice_idel` cannot be `0`: bfq has no such \
             attribute; did you mean `slice_idle`?",
        ),
        (
            "slice_idle = 0",
            "slice_idle = \"soon\"",
            "serve.toml:7: `device.disk.attributes.slice_idle` cannot be `\"soon\"`: attribute \
             `slice_idle` cannot be `soon`: it takes a whole number",
        ),
        (
            "slice_idle = 0",
            "slice_idle = [0]",
            "serve.toml:7: `device.disk.attributes.slice_idle` cannot be `[0]`: a whole number,",
        ),
        (
            "depth = 32",
            "depth = 5000",
            "serve.toml:8: `device.disk.depth` cannot be `5000`: a whole number from 1 to 4096",
        ),
        (
            "\"64MiB\"",
            "\"64M\"",
            "serve.toml:9: `device.disk.memory` cannot be `\"64M\"`: a size: a number and one of",
        ),
        (
            "\"64MiB\"",
            "\"64kB\"",
            "serve.toml:9: `device.disk.memory` cannot be `\"64kB\"`: 1MiB to 1TiB",
        ),
        (
            "\"auto\"",
            "\"model:hdd-7201\"",
            "serve.toml:10: `device.disk.engine` cannot be `\"model:hdd-7201\"`: there is no model \
             `hdd-7201`; did you mean `hdd-7200`?",
        ),
        (
            "device = \"disk\"",
            "device = \"dish\"",
            "serve.toml:13: `volume.vm1.device` cannot be `\"dish\"`: there is no such device; did \
             you mean `disk`? Known are disk",
        ),
        (
            "path = \"/srv/vm1.img\"",
            "",
            "serve.toml:12: `volume.vm1.path` is missing: `path = \"…\"` is the file",
        ),
        (
            "\"1GiB\"",
            "1000",
            "serve.toml:15: `volume.vm1.length` cannot be `1000`: a multiple of 512 bytes",
        ),
        (
            "\"1GiB\"",
            "\"0\"",
            "serve.toml:15: `volume.vm1.length` cannot be `\"0\"`: at least 512 bytes",
        ),
        (
            "[group.customers]",
            "[volume.vm2]\npath = \"/srv/vm1.img\"\nstart = \"512MiB\"\n[group.customers]",
            "serve.toml:18: `volume.vm2.path` cannot be `\"/srv/vm1.img\"`: volumes overlap in it: \
             `vm1` has bytes 0 to 1073741824, `vm2` has bytes 536870912 to the end",
        ),
        (
            "weight = 200",
            "parent = \"customers\"",
            "serve.toml:18: `group.customers.parent` cannot be `\"customers\"`: a group would be \
             in itself: customers in customers",
        ),
        (
            "weight = 200",
            "weight = 10001",
            "serve.toml:18: `group.customers.weight` cannot be `10001`: a whole number from 1 to",
        ),
        (
            "floor = \"50%\"",
            "floor = \"91%\"",
            "serve.toml:19: `group.customers.floor` cannot be `\"91%\"`: 0.1% to 90%",
        ),
        (
            "[[rule]]",
            "[tenant.b]\nclass = \"background\"\nminimum = \"41%\"\n[[rule]]",
            "serve.toml:28: `tenant.b.minimum` cannot be `\"41%\"`: its siblings below the root \
             have 50% already, and together at most 90% are promised",
        ),
        (
            "class = \"best-effort\"",
            "minimum = \"5%\"",
            "serve.toml:24: `tenant.gold.minimum` cannot be `\"5%\"`: only `class = ",
        ),
        (
            "class = \"best-effort\"",
            "class = \"best\"",
            "serve.toml:24: `tenant.gold.class` cannot be `\"best\"`: one of best-effort, ",
        ),
        (
            "group = \"customers\"",
            "group = \"customer\"",
            "serve.toml:22: `tenant.gold.group` cannot be `\"customer\"`: there is no such group; \
             did you mean `customers`?",
        ),
        (
            "[[rule]]",
            "[tenant.customers]\n[[rule]]",
            "serve.toml:26: `tenant.customers`: a group has this name",
        ),
        (
            "10.0.0.0/8",
            "10.0.0.1/8",
            "serve.toml:28: `rule.0.address` cannot be `\"10.0.0.1/8\"`: it has bits behind its \
             first 8; `10.0.0.0/8` or `10.0.0.1` would be right",
        ),
        (
            "tenant = \"gold\"",
            "tenant = \"$uit\"",
            "serve.toml:29: `rule.0.tenant` cannot be `\"$uit\"`: there is no `$uit`; did you mean \
             `uid`?",
        ),
        ("tenant = \"gold\"", "", "serve.toml:26: `rule.0.tenant` is missing: `tenant = \"…\"`"),
        (
            "[[rule]]",
            "[[rule]]\ntenant = \"all\"\n[[rule]]",
            "serve.toml:28: `rule.1`: it never counts: the rule before it takes everybody",
        ),
        ("[[rule]]", "[rule]", "serve.toml:26: `rule` cannot be"),
        (
            "[device.disk]",
            "[disk]",
            "serve.toml:5: `disk` is not known here; known are server, device, volume, group,",
        ),
        (
            "[group.customers]",
            "[groop.customers]",
            "serve.toml:17: `groop` is not known here; did you mean `group`? Known are server,",
        ),
        ("depth = 32", "depth = ", "serve.toml:8: `depth =` is not TOML: "),
        ("[device.disk]", "[device.disk", "serve.toml:5: `[device.disk` is not TOML: "),
        (
            "depth = 32",
            "depth = 32\ndepth = 33",
            "serve.toml:9: `depth = 33` is not TOML: duplicate key",
        ),
    ] {
        let message = refusal(from, to);
        assert!(message.starts_with(expected), "{to}\n  got {message}\n want {expected}");
    }
    let nothing = Config::parse("a.toml", "").unwrap_err().to_string();
    assert!(nothing.starts_with("a.toml:1: `server` is missing: `[server]` with"), "{nothing}");
    let nowhere = Config::parse("a.toml", "[server]\n").unwrap_err().to_string();
    assert!(nowhere.starts_with("a.toml:1: `server.listen` is missing: "), "{nowhere}");
    let empty = Config::parse("a.toml", "[server]\nlisten = 'unix:/s'").unwrap_err().to_string();
    assert!(empty.contains("`volume` is missing: `[volume.NAME]`"), "{empty}");
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

/// Is every key that is read explained in the documents? (An unknown key is told all known ones.)
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
    // 13 of the server without `tls` and `fuse`, 3 and 5 of these, 7 of devices, 6 of volumes, 5 of
    // groups, 8 of tenants, 7 of rules.
    assert_eq!(count, 13 + 3 + 5 + 7 + 6 + 5 + 8 + 7);
}

/// Is a file that cannot be read told by name?
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
