// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes as files: what a process finds in the folder, and what happens to its writes.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::RwLockReadGuard;

use paternoster_serve::config::{Config, Fuse, Who};
use paternoster_serve::control::order::Order;
use paternoster_serve::server::Server;

use super::{with_files, with_processes};
use crate::common::{Folder, config, device, end, skipped, start, uneven};

pub(super) const MIB: u64 = 1 << 20;

/// Whether this machine can mount; if not, says why.
pub(super) fn can() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    // Bit 21 is CAP_SYS_ADMIN: to mount.
    let can = device.is_ok() && rights >> 21 & 1 == 1;
    if !can {
        skipped("no right to mount, or no /dev/fuse");
    }
    can
}

/// The turn of a test with files, if this machine can mount.
pub(super) fn turn() -> Option<RwLockReadGuard<'static, ()>> {
    can().then(with_files)
}

/// A server of one volume, `disk`, of this many bytes, shown below `folder`.
fn shown(folder: &Folder, bytes: u64, change: impl FnOnce(&mut Config)) -> (Server, PathBuf) {
    let (config, disk) = shown_by(folder, bytes, change);
    (start(config), disk)
}

/// The configuration of such a server, and where the volume is shown.
pub(super) fn shown_by(
    folder: &Folder,
    bytes: u64,
    change: impl FnOnce(&mut Config),
) -> (Config, PathBuf) {
    let data = folder.file("data", bytes);
    let mount = folder.path("shown");
    std::fs::create_dir_all(&mount).unwrap();
    let mut config = config(folder, device("bfq", &[("disk", &data)]));
    config.rules.clear();
    config.server.connections = 8;
    config.server.fuse = Some(Fuse { processes: 8, ..Fuse::new(mount.clone()) });
    change(&mut config);
    (config, mount.join("disk"))
}

fn both(path: &PathBuf) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Is the folder what was configured, and nothing else?
#[test]
fn what_is_there() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-there");
    let (server, disk) = shown(&folder, 3 * MIB + 512, |_| {});
    let mount = disk.parent().unwrap();
    let names: Vec<_> =
        std::fs::read_dir(mount).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    assert_eq!(disk.metadata().unwrap().len(), 3 * MIB + 512);
    assert!(File::open(mount.join("other")).is_err_and(|it| it.kind() == ErrorKind::NotFound));
    let refused = |it: std::io::Error| it.kind() == ErrorKind::PermissionDenied;
    assert!(File::create(mount.join("new")).is_err_and(refused));
    assert!(std::fs::remove_file(&disk).is_err_and(refused));
    // O_TRUNC: it stays as large as it was.
    drop(File::create(&disk).unwrap());
    assert_eq!(disk.metadata().unwrap().len(), 3 * MIB + 512);
    end(&server);
    assert_eq!(std::fs::read_dir(mount).unwrap().count(), 0);
}

/// Is a change of size refused, not silently ignored, while setting the present size succeeds; and
/// do `cp` and `dd of=`, which open with O_TRUNC, fill the file as they would a disk? (`dd seek=`
/// without `conv=notrunc` tries to truncate the file there, and reports that it cannot.)
#[test]
fn another_size_is_refused() {
    if !can() {
        return;
    }
    let _turn = with_processes();
    let folder = Folder::in_memory("files-truncate");
    let (server, disk) = shown(&folder, 3 * MIB, |_| {});
    let file = both(&disk);
    file.write_all_at(&[7; 4096], MIB).unwrap();
    for (size, errno) in [
        (0, Some(libc::EPERM)),
        (5, Some(libc::EPERM)),
        (3 * MIB - 1, Some(libc::EPERM)),
        (3 * MIB, None),
        (3 * MIB + 1, Some(libc::EFBIG)),
    ] {
        let told = file.set_len(size).err().and_then(|error| error.raw_os_error());
        assert_eq!(told, errno, "{size}");
    }
    let path = CString::new(disk.to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with its NUL.
    assert_eq!(unsafe { libc::truncate(path.as_ptr(), 4096) }, -1);
    assert_eq!(disk.metadata().unwrap().len(), 3 * MIB);
    let mut there = [0; 4096];
    file.read_exact_at(&mut there, MIB).unwrap();
    assert_eq!(there, [7; 4096], "nothing was cut off");
    drop(file);

    let data = uneven(MIB);
    let source = folder.path("source");
    std::fs::write(&source, &data).unwrap();
    let (from, to) = (format!("if={}", source.display()), format!("of={}", disk.display()));
    let dd_says = |options: &[&str]| {
        let mut dd = std::process::Command::new("dd");
        let output = dd.args([&from, &to, "bs=64k", "status=none"]).args(options).output();
        String::from_utf8(output.expect("dd").stderr).expect("text")
    };
    let dd = |options: &[&str]| dd_says(options).is_empty();
    let cp = std::process::Command::new("cp").arg(&source).arg(&disk).status().expect("cp");
    assert!(cp.success());
    let front = |at: u64| {
        let mut back = vec![0; data.len()];
        both(&disk).read_exact_at(&mut back, at).unwrap();
        back
    };
    assert!(front(0) == data);
    both(&disk).write_all_at(&[0; 4096], 0).unwrap();
    assert!(dd(&[]));
    assert!(front(0) == data);
    assert!(dd(&["seek=16", "conv=notrunc"]));
    assert!(front(MIB) == data);
    let told = dd_says(&["seek=16"]);
    assert!(told.contains("failed to truncate"), "it wants 1 MiB to be its size: {told}");
    assert_eq!(disk.metadata().unwrap().len(), 3 * MIB);
    end(&server);
}

/// Do reads return what was written, at any offset, of any length, and at the end?
#[test]
fn data_come_back() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-data");
    let (server, disk) = shown(&folder, 3 * MIB + 512, |_| {});
    let file = both(&disk);
    let data = uneven(2 * MIB);
    // Not aligned to blocks, and longer than one request may be.
    file.write_all_at(&data, 777).unwrap();
    let mut back = vec![0; data.len()];
    file.read_exact_at(&mut back, 777).unwrap();
    assert!(back == data);
    file.read_exact_at(&mut back[..5], 776).unwrap();
    assert_eq!(back[..5], [0, data[0], data[1], data[2], data[3]]);
    // Reads end at the end; writes fill it and find no room beyond.
    let mut rest = Vec::new();
    let mut reader = File::open(&disk).unwrap();
    reader.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() as u64, 3 * MIB + 512);
    assert_eq!(file.write_at(&[1; 100], 3 * MIB + 500).unwrap(), 12);
    let full = file.write_at(&[1; 100], 3 * MIB + 512).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(28), "ENOSPC");
    file.sync_all().unwrap();
    drop((file, reader));
    end(&server);
    let below = std::fs::read(folder.path("data")).unwrap();
    assert!(below[777..777 + data.len()] == data);
}

/// Does a punched or zeroed range read as zeroes, and what is around it as before?
#[test]
fn zeroes() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-zeroes");
    let (server, disk) = shown(&folder, MIB, |_| {});
    let file = both(&disk);
    file.write_all_at(&vec![7; 65536], 0).unwrap();
    let allocate = |mode, offset, length| {
        // SAFETY: a descriptor that is open, and numbers.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error()) }
    };
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    allocate(libc::FALLOC_FL_PUNCH_HOLE | keep, 1000, 5000).unwrap();
    allocate(libc::FALLOC_FL_ZERO_RANGE, 20_000, 96).unwrap();
    allocate(0, 0, 4096).unwrap();
    assert_eq!(allocate(libc::FALLOC_FL_COLLAPSE_RANGE, 0, 4096), Err(Some(95)), "EOPNOTSUPP");
    assert_eq!(allocate(0, 0, 2 << 20), Err(Some(28)), "ENOSPC");
    let mut back = vec![0; 65536];
    file.read_exact_at(&mut back, 0).unwrap();
    for (at, byte) in back.iter().enumerate() {
        let zeroed = (1000..6000).contains(&at) || (20_000..20_096).contains(&at);
        assert_eq!(*byte, if zeroed { 0 } else { 7 }, "byte {at}");
    }
    drop(file);
    end(&server);
}

/// Do flush, fsync and the closing of a written file reach the device as a flush, and nothing else?
#[test]
fn flushes_reach_the_device() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-flush");
    let (server, disk) = shown(&folder, MIB, |_| {});
    let flushes = || -> u64 {
        let told = server.device_loops()[0].ask(Order::Snapshot).unwrap();
        let lines = told["connections"].as_array().unwrap();
        lines.iter().map(|line| line["figures"]["flushes"].as_u64().unwrap()).sum()
    };
    let file = both(&disk);
    file.read_at(&mut [0; 512], 0).unwrap();
    assert_eq!(flushes(), 0);
    file.sync_data().unwrap();
    assert_eq!(flushes(), 1);
    file.write_all_at(&[1; 512], 0).unwrap();
    drop(file);
    assert_eq!(flushes(), 2);
    // It was only read: closing it causes no flush.
    drop(File::open(&disk).unwrap());
    assert_eq!(flushes(), 2);
    end(&server);
}

/// Is a write with O_DSYNC or O_SYNC durable before its answer, and no other write?
#[test]
fn synchronous_writes() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-sync");
    let (server, disk) = shown(&folder, MIB, |_| {});
    let prefix = folder.path("live");
    server.device_loops()[0].ask(Order::Trace { prefix: Some(prefix) }).unwrap();
    for flags in [0, libc::O_DSYNC, libc::O_SYNC, 0] {
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&disk).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
    }
    server.device_loops()[0].ask(Order::Trace { prefix: None }).unwrap();
    let trace = std::fs::read(folder.path("live.blktrace.0")).unwrap();
    let mut writes = Vec::new();
    let mut at = 0;
    while at < trace.len() {
        let number = |from: usize| u32::from_le_bytes(trace[from..from + 4].try_into().unwrap());
        let (length, action) = (number(at + 24), number(at + 28));
        // Low half 1: queued. Above it bit 1 says a write, bit 15 FUA.
        if action & 0xffff == 1 && action >> 17 & 1 == 1 && length == 4096 {
            writes.push(action >> 31 == 1);
        }
        at += 48 + usize::from(u16::from_le_bytes([trace[at + 46], trace[at + 47]]));
    }
    assert_eq!(writes, [false, true, true, false]);
    end(&server);
}

/// Is a read-only volume's file protected from writes?
#[test]
fn readonly_files() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-readonly");
    let readonly = |config: &mut Config| config.devices[0].volumes[0].readonly = true;
    let (server, disk) = shown(&folder, MIB, readonly);
    let refused = OpenOptions::new().write(true).open(&disk).unwrap_err();
    assert!(matches!(refused.raw_os_error(), Some(30 | 13)), "EROFS or EACCES: {refused}");
    File::open(&disk).unwrap().read_exact(&mut [0; 512]).unwrap();
    end(&server);
}

/// Is a process that may not open a volume refused, and one that may only read not allowed to
/// write? Its groups and cgroups are looked up at each open.
#[test]
fn rights_count_for_files() {
    let Some(_turn) = turn() else { return };
    let uid = rustix::process::getuid().as_raw();
    let user = |uid| Who { uid: Some(uid), ..Who::default() };
    let cgroup = |pattern: &str| Who { cgroup: Some(pattern.into()), ..Who::default() };
    let none = || Some(Vec::new());
    for (allow, readonly_for, reads, writes) in [
        (Some(vec![user(uid)]), vec![], true, true),
        (Some(vec![user(uid + 1)]), vec![], false, false),
        (None, vec![user(uid)], true, false),
        (none(), vec![cgroup("/*")], true, false),
        (none(), vec![cgroup("/no such/*")], false, false),
        (none(), vec![Who { gid: Some(u32::MAX - 1), ..Who::default() }], false, false),
    ] {
        let folder = Folder::in_memory("files-rights");
        let (server, disk) = shown(&folder, MIB, |config| {
            let rights = &mut config.devices[0].volumes[0].rights;
            (rights.allow, rights.readonly_for) = (allow.clone(), readonly_for.clone());
        });
        let opened = |open: std::io::Result<File>| match open {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EACCES), "{error}");
                false
            }
        };
        let writer = || OpenOptions::new().read(true).write(true).open(&disk);
        let told = (opened(File::open(&disk)), opened(writer()));
        assert_eq!(told, (reads, writes), "{allow:?} {readonly_for:?}");
        end(&server);
    }
}

/// Is a process one connection, whichever thread makes the call; and are all processes one
/// connection where they are not told apart?
#[test]
fn processes_are_connections() {
    let Some(_turn) = can().then(with_processes) else { return };
    for (processes, named) in [(8, true), (0, false)] {
        let folder = Folder::in_memory("files-connections");
        let few = |config: &mut Config| {
            config.server.fuse.as_mut().unwrap().processes = processes;
        };
        let (server, disk) = shown(&folder, MIB, few);
        let file = both(&disk);
        std::thread::scope(|scope| {
            for place in 0..4 {
                let file = &file;
                scope.spawn(move || file.read_at(&mut [0; 512], place * 512).unwrap());
            }
        });
        let status = std::process::Command::new("dd")
            .arg(format!("if={}", disk.display()))
            .args(["of=/dev/null", "bs=64k", "count=4", "iflag=direct"])
            .stderr(std::process::Stdio::null())
            .status();
        assert!(status.unwrap().success());
        let told = server.device_loops()[0].ask(Order::Snapshot).unwrap();
        let peers: Vec<&str> = told["connections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["peer"].as_str().unwrap())
            .collect();
        if named {
            let own = format!("[{}]", std::process::id());
            assert_eq!(peers.len(), 2, "this one and dd: {peers:?}");
            assert!(peers.iter().any(|peer| peer.ends_with(&own)), "{peers:?}");
            assert!(peers.iter().any(|peer| peer.starts_with("dd[")), "{peers:?}");
        } else {
            assert_eq!(peers, ["processes"]);
        }
        drop(file);
        end(&server);
    }
}

/// Does a server stop in time although a file is open, and does the file then fail?
#[test]
fn an_open_file_is_no_reason_to_stay() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-stay");
    let (server, disk) = shown(&folder, MIB, |_| {});
    let file = both(&disk);
    file.write_all_at(&[3; 4096], 0).unwrap();
    end(&server);
    assert!(file.read_at(&mut [0; 512], 0).is_err());
    assert!(!disk.exists());
    assert_eq!(std::fs::read(folder.path("data")).unwrap()[..4], [3; 4]);
}
