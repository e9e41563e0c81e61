// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's client: patterns, zeroes, discards and many requests at a time; images in and out.

use std::path::Path;

use serde_json::Value;

use super::tools::{fails, pattern, succeeds, tool, uri};
use crate::common::{Folder, config, device, end, start};

const SIZE: u64 = 8 << 20;

/// Runs commands of qemu-io one after the other.
fn qemu_io(commands: &[&str], uri: &str) -> Option<String> {
    let mut tool = tool("qemu-io", "qemu-utils")?;
    tool.args(["-f", "raw"]);
    for command in commands {
        tool.args(["-c", command]);
    }
    let told = succeeds(tool.arg(uri));
    // An asynchronous read that finds something else only says so.
    assert!(!told.contains("failed"), "{told}");
    Some(told)
}

/// Do patterns come back, also where requests begin and end within sectors; do zeroes, with and
/// without holes, read as zeroes and leave their neighbours; does a discard end well?
#[test]
fn patterns_come_back() {
    for scheduler in ["bfq", "mq-deadline", "noop"] {
        let folder = Folder::in_memory("qemu-io");
        let disk = folder.file("disk", SIZE);
        let server = start(config(&folder, device(scheduler, &[("disk", &disk)])));
        let commands = [
            "write -P 0xa1 0 1m",
            "write -P 0xa2 1m 2m",
            "write -f -P 0xa3 3m 64k",
            "write -P 0xa4 777 1234", // within sectors: 777..2011
            "read -P 0xa1 0 777",
            "read -P 0xa4 777 1234",
            "read -P 0xa1 2011 10000",
            "read -P 0xa2 1m 2m",
            "read -P 0xa3 3m 64k",
            "write -z 1m 512k",
            "write -z -u 1536k 256k",
            "read -P 0 1m 768k",
            "read -P 0xa2 1792k 1280k", // 1024 + 768 .. 3072
            "write -z 1800001 1000",    // within sectors, in 0xa2
            "read -P 0xa2 1792k 1000",  // 1792k = 1,835,008
            "flush",
            "discard 4m 1m",
            "read -P 0 4m 1m",
        ];
        let told = qemu_io(&commands, &uri("disk", &folder.path("nbd.sock")));
        end(&server);
        if told.is_none() {
            return;
        }
    }
}

/// Do sixteen reads and writes in parallel each bring their own data?
#[test]
fn parallel_requests_keep_apart() {
    let folder = Folder::in_memory("qemu-aio");
    let disk = folder.file("disk", SIZE);
    let server = start(config(&folder, device("bfq", &[("disk", &disk)])));
    let each = |verb: &str| -> Vec<String> {
        (0..16).map(|n| format!("{verb} -P {} {}k 240k", n + 1, n * 256)).collect()
    };
    let mut commands = each("aio_write");
    commands.extend(["aio_flush".to_owned(), "flush".to_owned()]);
    commands.extend(each("aio_read"));
    commands.push("aio_flush".to_owned());
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let told = qemu_io(&commands, &uri("disk", &folder.path("nbd.sock")));
    end(&server);
    let Some(told) = told else { return };
    assert_eq!(told.matches("wrote 245760/245760").count(), 16, "{told}");
    assert_eq!(told.matches("read 245760/245760").count(), 16, "{told}");
    let content = std::fs::read(&disk).unwrap();
    for (place, part) in content[..16 * (256 << 10)].chunks(256 << 10).enumerate() {
        let byte = u8::try_from(place + 1).unwrap();
        assert!(part[..240 << 10].iter().all(|&found| found == byte), "part {place}");
        assert!(part[240 << 10..].iter().all(|&found| found == 0), "behind part {place}");
    }
}

/// Are an image that goes in and comes out again, the map, and the comparison right?
#[test]
fn images_go_in_and_out() {
    let folder = Folder::in_memory("qemu-img");
    let disk = folder.file("disk", SIZE);
    let server = start(config(&folder, device("bfq", &[("disk", &disk)])));
    let uri = uri("disk", &folder.path("nbd.sock"));
    let checked = images(&folder, &disk, &uri);
    end(&server);
    if checked.is_none() {
        return;
    }
    assert!(std::fs::read(&disk).unwrap() == std::fs::read(folder.path("back")).unwrap());
}

/// `None` if qemu-img is not here.
fn images(folder: &Folder, disk: &Path, uri: &str) -> Option<()> {
    let img = || tool("qemu-img", "qemu-utils");
    let (source, back) = (folder.path("source"), folder.path("back"));
    let mut data = pattern(SIZE, 6);
    data[2 << 20..6 << 20].fill(0);
    std::fs::write(&source, &data).unwrap();
    // Sixteen coroutines, writes in any order.
    let convert = ["convert", "-W", "-m", "16", "-f", "raw", "-O", "raw"];
    succeeds(img()?.args(convert).arg("-n").arg(&source).arg(uri));
    assert!(std::fs::read(disk).unwrap() == data, "what went in");
    succeeds(img()?.args(convert).arg(uri).arg(&back));
    assert!(std::fs::read(&back).unwrap() == data, "what came out");
    let compare = ["compare", "-f", "raw", "-F", "raw"];
    succeeds(img()?.args(compare).arg(&source).arg(uri));
    let told = succeeds(img()?.args(["map", "--output=json", "-f", "raw", uri]));
    let runs: Vec<Value> = serde_json::from_str(&told).unwrap();
    let runs: Vec<_> = runs
        .iter()
        .map(|run| (run["start"].as_u64(), run["length"].as_u64(), run["zero"].as_bool()))
        .collect();
    // 2 MiB of data, 4 of zeroes that were left out, 2 of data.
    let expected = [(0, 2, false), (2, 4, true), (6, 2, false)];
    assert_eq!(runs, expected.map(|(at, mib, zero)| (Some(at << 20), Some(mib << 20), Some(zero))));
    let qcow = folder.path("image.qcow2");
    succeeds(img()?.args(["convert", "-f", "raw", "-O", "qcow2"]).arg(uri).arg(&qcow));
    succeeds(img()?.args(["compare", "-f", "raw", "-F", "qcow2"]).arg(uri).arg(&qcow));
    data[5 << 20] = 1;
    std::fs::write(&source, &data).unwrap();
    let told = fails(img()?.args(compare).arg(&source).arg(uri));
    assert!(told.contains("mismatch at offset 5242880"), "{told}");
    Some(())
}
