// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies by nbdcopy: four connections, 64 requests on each, whatever order they end in.

use super::tools::{pattern, succeeds, tool, uri};
use crate::common::{Folder, config, device, end, start, volume};

const SIZE: u64 = 8 << 20;

/// Does everything arrive, byte for byte: from a file to a volume, from there to a second volume of
/// the same server, and from that to a file?
#[test]
fn nbdcopy_loses_nothing() {
    let Some(mut nbdcopy) = tool("nbdcopy", "libnbd-bin") else { return };
    let folder = Folder::in_memory("copy");
    let mut data = pattern(SIZE, 1);
    // A hole of 2 MiB in the middle, which a copy may leave out and the reader must see.
    data[3 << 20..5 << 20].fill(0);
    std::fs::write(folder.path("source"), &data).unwrap();
    let (first, second) = (folder.file("first", SIZE), folder.file("second", SIZE));
    // Whatever was there before must be gone.
    std::fs::write(&second, pattern(SIZE, 2)).unwrap();
    let volumes = [("first", first.as_path()), ("second", second.as_path())];
    let server = start(config(&folder, device("bfq", &volumes)));
    let socket = folder.path("nbd.sock");
    let here = |name: &str| folder.path(name).display().to_string();
    let steps = [
        (here("source"), uri("first", &socket)),
        (uri("first", &socket), uri("second", &socket)),
        (uri("second", &socket), here("target")),
    ];
    for (from, to) in &steps {
        succeeds(nbdcopy.args(["--connections=4", "--flush", from, to]));
        let Some(next) = tool("nbdcopy", "libnbd-bin") else { return };
        nbdcopy = next;
    }
    end(&server);
    assert!(std::fs::read(folder.path("target")).unwrap() == data, "the copy of the copy");
    assert!(std::fs::read(first).unwrap() == data && std::fs::read(second).unwrap() == data);
}

/// Do two adjacent volumes of one file not disturb each other when written at the same time?
#[test]
fn ranges_of_one_file_do_not_touch() {
    let Some(mut left) = tool("nbdcopy", "libnbd-bin") else { return };
    let Some(mut right) = tool("nbdcopy", "libnbd-bin") else { return };
    let folder = Folder::in_memory("ranges");
    // │ 1 MiB │ left 2 MiB + 512 │ right 3 MiB │ the rest, up to 8 MiB │
    let (from, between) = (1 << 20, (3 << 20) + 512);
    let to = between + (3 << 20);
    let mut expected = pattern(SIZE, 3);
    let disk = folder.path("disk");
    std::fs::write(&disk, &expected).unwrap();
    let mut dev = device("bfq", &[]);
    for (name, start, end) in [("left", from, between), ("right", between, to)] {
        let (start, length) = (start as u64, Some((end - start) as u64));
        dev.volumes.push(paternoster_serve::config::Volume {
            start,
            length,
            ..volume(name, &disk)
        });
    }
    let (a, b) = (pattern((between - from) as u64, 4), pattern(3 << 20, 5));
    std::fs::write(folder.path("a"), &a).unwrap();
    std::fs::write(folder.path("b"), &b).unwrap();
    let server = start(config(&folder, dev));
    let socket = folder.path("nbd.sock");
    std::thread::scope(|scope| {
        scope.spawn(|| succeeds(left.arg(folder.path("a")).arg(uri("left", &socket))));
        scope.spawn(|| succeeds(right.arg(folder.path("b")).arg(uri("right", &socket))));
    });
    expected[from..between].copy_from_slice(&a);
    expected[between..to].copy_from_slice(&b);
    assert!(std::fs::read(&disk).unwrap() == expected, "each in its place");
    if let Some(mut qemu_io) = tool("qemu-io", "qemu-utils") {
        // All of the left one to zeroes, its end is no whole page; then one byte too far.
        let length = between - from;
        let zero = format!("write -z -u 0 {length}");
        succeeds(qemu_io.args(["-f", "raw", "-c", &zero, &uri("left", &socket)]));
        expected[from..between].fill(0);
        assert!(std::fs::read(&disk).unwrap() == expected, "zeroes end where the volume ends");
    }
    end(&server);
}
