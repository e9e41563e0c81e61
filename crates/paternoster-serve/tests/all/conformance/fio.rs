// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio's nbd engine: two jobs of 32 requests, of all sizes, each block with its own checksum.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use paternoster_serve::config::Direct;
use serde_json::Value;

use super::tools::{succeeds, tool, uri};
use crate::common::{Client, Folder, config, device, end, skipped, start};

/// Bytes of each job's part.
pub(crate) const PART: u64 = 3 << 20;

/// Reads and writes at random, and reads all that was written again. `range`: sizes of blocks.
pub(crate) fn fio(folder: &Folder, range: &str) -> Option<()> {
    let mut fio = tool("fio", "fio")?;
    let part = PART.to_string();
    let told = succeeds(fio.current_dir(folder.path("")).args([
        "--name=conformance",
        "--ioengine=nbd",
        &format!("--uri={}", uri("disk", &folder.path("nbd.sock"))),
        "--rw=randrw",
        &format!("--bsrange={range}"),
        "--iodepth=32",
        // Processes, not threads: each job has its own connection.
        "--numjobs=2",
        &format!("--size={part}"),
        &format!("--offset_increment={part}"),
        "--randseed=8",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--fsync=100",
        "--output-format=json",
    ]));
    // Notes come before the document.
    let document = &told[told.find('{').unwrap_or_else(|| panic!("{told}"))..];
    let report: Value = serde_json::from_str(document).unwrap_or_else(|_| panic!("{told}"));
    let jobs = report["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    for job in jobs {
        assert_eq!(job["error"], 0, "{job}");
        let bytes = |what: &str| job[what]["io_bytes"].as_u64().unwrap();
        // Half of a part is written, as far as chance goes; what is written is read again.
        assert!(bytes("write") > PART / 4 && bytes("read") > PART / 2, "{job}");
    }
    Some(())
}

/// Do checksums hold for files in memory, from half a KiB to 128, under two schedulers?
#[test]
fn checksums_hold_in_memory() {
    for scheduler in ["bfq", "mq-deadline"] {
        let folder = Folder::in_memory("fio");
        let disk = folder.file("disk", 2 * PART);
        let server = start(config(&folder, device(scheduler, &[("disk", &disk)])));
        let ran = fio(&folder, "512-128k");
        end(&server);
        if ran.is_none() {
            return;
        }
    }
}

/// And past the kernel's cache, where the disk has a block of its own?
#[test]
fn checksums_hold_on_disk() {
    let folder = Folder::on_disk("fio");
    let disk = folder.file("disk", 2 * PART);
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&disk);
    if let Err(error) = direct {
        return skipped(&format!("O_DIRECT is refused below {}: {error}", disk.display()));
    }
    let mut device = device("bfq", &[("disk", &disk)]);
    device.direct = Direct::Yes;
    let server = start(config(&folder, device));
    let mut client = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    // A client that does not know blocks may write a part of one.
    assert_eq!(client.write(0, 4095, &[1; 2]).unwrap(), 0);
    assert_eq!(client.read(4094, 4).unwrap(), [0, 1, 1, 0]);
    fio(&folder, "4k-128k");
    end(&server);
}
