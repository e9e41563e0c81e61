// SPDX-License-Identifier: MIT OR Apache-2.0
//! What clients learn before they ask for data: sizes, flags, block sizes, contexts, lists.

use serde_json::Value;

use super::tools::{fails, succeeds, tool, uri};
use crate::common::{Client, Folder, config, device, end, start};

const SIZE: u64 = 4 << 20;

/// Is one volume reported with size, flags, block sizes, description and context, and the other as
/// read-only?
#[test]
fn nbdinfo_tells_what_is_served() {
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let folder = Folder::in_memory("info");
    let (disk, fixed) = (folder.file("disk", SIZE), folder.file("fixed", 1 << 20));
    let mut device = device("bfq", &[("disk", &disk), ("fixed", &fixed)]);
    device.volumes[0].description = "of the first customer".into();
    device.volumes[1].readonly = true;
    let server = start(config(&folder, device));
    let socket = folder.path("nbd.sock");
    let told = succeeds(nbdinfo.args(["--list", "--json", &uri("", &socket)]));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["protocol"], "newstyle-fixed");
    assert_eq!(told["TLS"], false);
    assert_eq!(told["structured"], true);
    let [disk, fixed] = &told["exports"].as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!(disk["export-name"], "disk");
    assert_eq!(disk["description"], "of the first customer");
    assert_eq!(disk["export-size"], SIZE);
    assert_eq!(disk["contexts"], Value::from(vec!["base:allocation"]));
    let can = ["cache", "df", "flush", "fua", "multi_conn", "trim", "zero", "fast_zero"];
    for what in can {
        assert_eq!(disk[format!("can_{what}")], true, "{what}: {disk}");
    }
    assert_eq!(disk["is_read_only"], false);
    // Files in memory have sectors of 512; 32 MiB is what clients may send without asking.
    assert_eq!(disk["block_size_minimum"], 512);
    assert_eq!(disk["block_size_preferred"], 4096);
    assert_eq!(disk["block_size_maximum"], 32 << 20);
    assert_eq!(fixed["export-name"], "fixed");
    assert_eq!(fixed["export-size"], 1 << 20);
    assert_eq!(fixed["is_read_only"], true);
    for what in ["fua", "trim", "zero", "fast_zero"] {
        assert_eq!(fixed[format!("can_{what}")], false, "{what}: {fixed}");
    }
    end(&server);
}

/// Is the export without a name the first one, and is an unknown name refused?
#[test]
fn names_are_found() {
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let Some(mut again) = tool("nbdinfo", "libnbd-bin") else { return };
    let Some(mut once_more) = tool("nbdinfo", "libnbd-bin") else { return };
    let folder = Folder::in_memory("names");
    let (first, second) = (folder.file("first", 1 << 20), folder.file("second", 2 << 20));
    let volumes = [("first", first.as_path()), ("a/b ä", second.as_path())];
    let server = start(config(&folder, device("noop", &volumes)));
    let socket = folder.path("nbd.sock");
    let size = succeeds(nbdinfo.args(["--size", &uri("", &socket)]));
    assert_eq!(size.trim(), (1 << 20).to_string());
    let size = succeeds(again.args(["--size", &uri("a/b%20%C3%A4", &socket)]));
    assert_eq!(size.trim(), (2 << 20).to_string());
    let told = fails(once_more.args(["--size", &uri("third", &socket)]));
    assert!(told.contains("no export named 'third'"), "{told}");
    end(&server);
}

/// Does the map show what was written, and nothing else, as data?
#[test]
fn nbdinfo_maps_what_was_written() {
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let folder = Folder::in_memory("map");
    let disk = folder.file("disk", SIZE);
    let server = start(config(&folder, device("mq-deadline", &[("disk", &disk)])));
    let socket = folder.path("nbd.sock");
    let mut client = Client::connect(&socket, "disk").unwrap();
    assert_eq!(client.write(0, 64 << 10, &[7; 128 << 10]).unwrap(), 0);
    assert_eq!(client.write(0, 3 << 20, &[7; 4096]).unwrap(), 0);
    let told = succeeds(nbdinfo.args(["--map", "--json", &uri("disk", &socket)]));
    let runs: Vec<Value> = serde_json::from_str(&told).unwrap();
    let runs: Vec<_> = runs
        .iter()
        .map(|run| {
            let number = |key: &str| run[key].as_u64().unwrap();
            (number("offset"), number("length"), number("type"))
        })
        .collect();
    // Of 4096 KiB: 64 of hole, 128 of data, hole up to 3072, 4 of data, hole to the end.
    let expected = [(0, 64, 3), (64, 128, 0), (192, 2880, 3), (3072, 4, 0), (3076, 1020, 3)];
    assert_eq!(runs, expected.map(|(at, length, kind)| (at << 10, length << 10, kind)));
    end(&server);
}

/// Does QEMU's client, which asks in its own order, see the same list?
#[test]
fn qemu_nbd_lists() {
    let Some(mut qemu_nbd) = tool("qemu-nbd", "qemu-utils") else { return };
    let folder = Folder::in_memory("list");
    let (disk, fixed) = (folder.file("disk", SIZE), folder.file("fixed", 1 << 20));
    let mut device = device("kyber", &[("disk", &disk), ("fixed", &fixed)]);
    device.volumes[1].readonly = true;
    let server = start(config(&folder, device));
    let socket = folder.path("nbd.sock");
    let told = succeeds(qemu_nbd.arg("--list").arg("-k").arg(&socket));
    assert!(told.contains("exports available: 2"), "{told}");
    let (first, second) = told.split_once("'fixed'").unwrap_or_else(|| panic!("{told}"));
    assert!(first.contains(&format!("size:  {SIZE}")), "{told}");
    assert!(first.contains("multi") && first.contains("base:allocation"), "{told}");
    assert!(!first.contains("readonly") && second.contains("readonly"), "{told}");
    end(&server);
}
