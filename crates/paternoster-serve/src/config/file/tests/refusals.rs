// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes that are refused, one by one: the line, the wrong text in it, and what would be right.

use super::*;

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
            "serve.toml:2: `server.listen #1` cannot be `tcp:0.0.0.0:10809`: everybody who reaches \
             it could read and write, in the clear; TLS",
        ),
        (
            "\"unix:/run/nbd.sock\"",
            "[\"tcp:127.0.0.1:1\", { at = \"unix:/s\", tls = \"required\" }]",
            "serve.toml:2: `server.listen #2` cannot be `unix:/s`: TLS needs `[server.tls]` with",
        ),
        (
            "\"unix:/run/nbd.sock\"",
            "[\"unix:/s\", \"unix:/s\"]",
            "serve.toml:2: `server.listen #2` cannot be `\"unix:/s\"`: it is there twice",
        ),
        (
            "connections = 16",
            "metrics = \"10.0.0.1:80\"",
            "serve.toml:3: `server.metrics` cannot be `\"10.0.0.1:80\"`: metrics tell tenants' \
             names and what they do; beyond loopback they need TLS",
        ),
        (
            "connections = 16",
            "control-mode = \"0660\"",
            "serve.toml:3: `server.control-mode` cannot be `\"0660\"`: there is no `control`",
        ),
        (
            "connections = 16",
            "control = \"/c\"\ncontrol-orders = \"uid=x\"",
            "serve.toml:4: `server.control-orders` cannot be `\"uid=x\"`: `uid` cannot be `x`",
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
             scheduler; did you mean `bfq`? Known are none, noop,",
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
            "serve.toml:28: `rule #1.address` cannot be `\"10.0.0.1/8\"`: it has bits behind its \
             first 8; `10.0.0.0/8` or `10.0.0.1` would be right",
        ),
        (
            "tenant = \"gold\"",
            "tenant = \"$uit\"",
            "serve.toml:29: `rule #1.tenant` cannot be `\"$uit\"`: there is no `$uit`; did you \
             mean `uid`?",
        ),
        ("tenant = \"gold\"", "", "serve.toml:26: `rule #1.tenant` is missing: `tenant = \"…\"`"),
        (
            "[[rule]]",
            "[[rule]]\ntenant = \"all\"\n[[rule]]",
            "serve.toml:28: `rule #2`: it never counts: the rule before it takes everybody",
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
            "serve.toml:9: `depth` is there already, in line 8",
        ),
        (
            "[group.customers]",
            "[volume.vm1]\npath = '/x'\n[group.customers]",
            "serve.toml:17: `[volume.vm1]` is there already, in line ",
        ),
        (
            "depth = 32",
            "depth = 032",
            "serve.toml:8: `depth` cannot be `032`: a number has no zero in front; permission bits \
             are a text, `depth = \"032\"`",
        ),
        (
            "depth = 32",
            "attributes = { nr_requests = 64, mode = 0660 } # of an address",
            "serve.toml:8: `mode` cannot be `0660`: a number has no zero in front; permission bits \
             are a text, `mode = \"0660\"`",
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
