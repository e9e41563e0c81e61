// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled device as a file: its data, its flushes, its depth and its time.
//!
//! Times are asserted from below only: how late a busy machine is, is measured elsewhere.

mod common;

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Folder, uneven};
use paternoster::Nanos;
use paternoster_serve::emulate::{Emulated, Emulation, KindPrecision};
use paternoster_sim::{Description, catalog};

const MIB: u64 = 1 << 20;
/// A command is taken to have been asked at most so long before it was seen, with 1 us a KiB more.
const CROSSING: Duration = Duration::from_micros(100);

/// A folder with a mount point, an emulation on it.
struct Rig {
    // It is unmounted before the folder goes.
    emulation: Emulation,
    folder: Folder,
}

fn catalogued(name: &str) -> Description {
    catalog::by_name(name).expect("a name of the catalog").expect("a description")
}

/// Two servers of 5 ms before which two wait: depth 4.
fn two_at_a_time() -> Description {
    let text = r#"
name = "two at a time"
model = "linear"
summary = "two servers of 5 ms"
valid = "for this test"

[facts]
capacity = { value = "64 MiB", source = "assumed" }
depth = { value = 4, source = "assumed" }
max_sectors_kb = { value = 64, source = "assumed" }

[linear]
servers = { value = 2, source = "assumed" }
base = { value = "5 ms", source = "assumed" }
rate = { value = "0 ns/B", source = "assumed" }
"#;
    Description::parse("two.toml", text).expect("a description")
}

/// Whether this machine can; says why not.
fn can() -> bool {
    let root = rustix::process::geteuid().is_root();
    let there = Path::new("/dev/fuse").exists();
    if !(root && there) {
        eprintln!("no root, or no /dev/fuse: skipped");
    }
    root && there
}

fn emulated(device: Description, mount: PathBuf) -> Emulated {
    Emulated { device, mount, data: None, size: Some(32 * MIB), allow_other: false }
}

impl Rig {
    fn new(device: Description, change: impl FnOnce(&mut Emulated)) -> Rig {
        let folder = Folder::in_memory("emulate");
        let mount = folder.path("mount");
        std::fs::create_dir(&mount).unwrap();
        let mut emulated = emulated(device, mount);
        change(&mut emulated);
        Rig { emulation: Emulation::start(&emulated).unwrap(), folder }
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.emulation.file()).unwrap()
    }

    fn open_direct(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT).open(self.emulation.file()).unwrap()
    }

    fn kind(&self, name: &str) -> KindPrecision {
        // An answer is counted a moment after it was given.
        for _ in 0..1_000 {
            let kinds = self.emulation.precision().kinds;
            if let Some(kind) = kinds.into_iter().find(|kind| kind.name == name) {
                return kind;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("nothing of {name} was measured");
    }
}

fn took(what: impl FnOnce()) -> Duration {
    let began = Instant::now();
    what();
    began.elapsed()
}

/// Is it one file of its size, which stays what it is, whoever opens or truncates it?
#[test]
fn it_is_a_device() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let mount = rig.folder.path("mount");
    let names: Vec<_> =
        std::fs::read_dir(&mount).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["two-at-a-time"]);
    let file = rig.open();
    file.set_len(5).unwrap();
    drop(File::create(rig.emulation.file()).unwrap());
    assert_eq!(file.metadata().unwrap().len(), 32 * MIB);
    let denied = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    assert!(File::create(mount.join("other")).is_err_and(denied));
    assert!(std::fs::remove_file(rig.emulation.file()).is_err_and(denied));
    // Reads end at the end, writes fill it and find no room beyond.
    assert_eq!(file.write_at(&[1; 100], 32 * MIB - 12).unwrap(), 12);
    assert_eq!(file.read_at(&mut [0; 100], 32 * MIB - 12).unwrap(), 12);
    assert_eq!(file.read_at(&mut [0; 100], 32 * MIB).unwrap(), 0);
    let full = file.write_at(&[1; 100], 32 * MIB).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    drop(file);
    let told = rig.emulation.finish().unwrap();
    assert_eq!(told.commands, 2);
    assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0);
}

/// Is what was written read again, cut and ragged as it may be, and everything else zeroes?
#[test]
fn data_come_back() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let (file, data) = (rig.open(), uneven(300_001));
    file.write_all_at(&data, 777).unwrap();
    let mut back = vec![9; data.len() + 10];
    file.read_exact_at(&mut back, 772).unwrap();
    assert_eq!(back[..5], [0; 5]);
    assert!(back[5..5 + data.len()] == data);
    assert_eq!(back[5 + data.len()..], [0; 5]);
    // Without the page cache, too: it has no part in it anyway.
    assert!(rig.open_direct().read_at(&mut [0; 512], 0).is_ok());
}

/// Do data in a file outlive the emulation, and is the file sparse?
#[test]
fn data_survive_in_a_file() {
    if !can() {
        return;
    }
    let place = Folder::in_memory("emulate-data");
    let data = place.path("data");
    for round in 0..2u8 {
        let rig = Rig::new(two_at_a_time(), |emulated| emulated.data = Some(data.clone()));
        let (file, mut found) = (rig.open(), [9]);
        file.read_exact_at(&mut found, 5 * MIB).unwrap();
        assert_eq!(found, [round]);
        file.write_all_at(&[round + 1], 5 * MIB).unwrap();
        drop(file);
        rig.emulation.finish().unwrap();
    }
    assert_eq!(std::fs::metadata(&data).unwrap().len(), 32 * MIB);
}

/// Does a punched or zeroed range read as zeroes, and is what no disk does refused?
#[test]
fn ranges_are_cleared() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open();
    file.write_all_at(&[7; 4096], 0).unwrap();
    let allocate = |mode, offset, length| {
        // SAFETY: a descriptor that is open, and numbers.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error()) }
    };
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    allocate(libc::FALLOC_FL_PUNCH_HOLE | keep, 10, 10).unwrap();
    allocate(libc::FALLOC_FL_ZERO_RANGE, 100, 10).unwrap();
    assert_eq!(allocate(0, 0, 4096), Err(Some(libc::EOPNOTSUPP)));
    let mut back = [9; 4096];
    file.read_exact_at(&mut back, 0).unwrap();
    let zeroes = back.iter().filter(|&&byte| byte == 0).count();
    assert_eq!((zeroes, back[10], back[19], back[100], back[109]), (20, 0, 0, 0, 0));
    assert_eq!((rig.kind("discard").commands, rig.kind("write").commands), (1, 2));
}

/// Does an fsync reach the model, alone and as long as it says, and a write that is to last as
/// long? A flush of this drive takes 3.2 ms after what was written was programmed.
#[test]
fn flushes_take_their_time() {
    if !can() {
        return;
    }
    let flush = Duration::from_micros(3_200);
    let rig = Rig::new(catalogued("ssd-870evo"), |_| {});
    let file = rig.open();
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert!(took(|| file.sync_all().unwrap()) >= flush - CROSSING);
    let told = rig.kind("flush");
    assert_eq!(told.commands, 1);
    // What is told is within 1/128.
    assert!(told.set.p50.0 >= 3_200_000 * 127 / 128, "{}", told.set.p50);
    let mut lasting = OpenOptions::new();
    let lasting = lasting.write(true).custom_flags(libc::O_DSYNC).open(rig.emulation.file());
    let lasting = lasting.unwrap();
    assert!(took(|| lasting.write_all_at(&[1; 4096], 0).unwrap()) >= flush - CROSSING);
    // It was its write's, and no fsync of its own.
    assert_eq!((rig.kind("flush").commands, rig.kind("write").commands), (1, 2));
}

/// Has a device without a write cache nothing to flush?
#[test]
fn without_a_cache_there_is_nothing_to_flush() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open();
    file.write_all_at(&[1; 512], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(rig.emulation.finish().unwrap().commands, 1);
}

/// Do commands take as long as the model says, as many at a time as it says, and never less? 40 of
/// 5 ms by two servers are 100 ms; who waits in line waits for longer than 5.
#[test]
fn the_model_says_how_long() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open();
    let one = took(|| drop(file.read_exact_at(&mut [0; 512], 0)));
    assert!(one >= Duration::from_millis(5) - CROSSING, "{one:?}");
    let all = took(|| {
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..5 {
                        file.read_exact_at(&mut [0; 512], 0).unwrap();
                    }
                });
            }
        });
    });
    // A crossing is saved where the line is empty: once.
    assert!(all >= Duration::from_millis(100) - CROSSING, "{all:?}");
    drop(file);
    let told = rig.emulation.finish().unwrap();
    assert_eq!(told.commands, 41);
    assert!(told.set.p50 >= Nanos::from_millis(5));
    assert!(told.served.p50 >= told.set.p50 && told.served.p99 >= told.set.p99, "{told:?}");
    assert!(told.crossing <= Nanos::from_micros(100));
}

/// Is a large read as many commands of the model as it takes? 64 KiB at a time, 1 MiB is 16, by
/// two servers in 40 ms.
#[test]
fn large_requests_are_cut() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let file = rig.open_direct();
    let mut memory = paternoster_serve::device::memory::Memory::new(1 << 20).unwrap();
    let time = took(|| file.read_exact_at(memory.bytes_mut(), 0).unwrap());
    // 1 us a KiB is the most that the way through the kernel is taken for.
    let crossing = CROSSING + Duration::from_micros(1_024);
    assert!(time >= Duration::from_millis(40) - crossing, "{time:?}");
}

/// Does an emulation that is still used end, its mount go, and its user learn of it?
#[test]
fn who_still_uses_it_learns_of_the_end() {
    if !can() {
        return;
    }
    let rig = Rig::new(two_at_a_time(), |_| {});
    let (file, mount) = (rig.open(), rig.folder.path("mount"));
    let why = rig.emulation.finish().unwrap_err();
    assert!(why.contains("two-at-a-time open"), "{why}");
    assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0);
    assert!(file.read_at(&mut [0; 512], 0).is_err());
}

/// Does a panic leave no mount behind?
#[test]
fn a_panic_unmounts() {
    if !can() {
        return;
    }
    let folder = Folder::in_memory("emulate-panic");
    let mount = folder.path("mount");
    std::fs::create_dir(&mount).unwrap();
    let emulated = emulated(two_at_a_time(), mount.clone());
    let panicked = std::thread::spawn(move || {
        let emulation = Emulation::start(&emulated).unwrap();
        assert!(!emulation.file().exists(), "a panic that is meant");
    });
    assert!(panicked.join().is_err());
    assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0);
}

/// Is a folder that is not fit refused before anything is mounted, and one of a device that is
/// too small?
#[test]
fn what_cannot_be_is_said() {
    let folder = Folder::in_memory("emulate-unfit");
    let mount = folder.path("mount");
    let refusal = |emulated: &Emulated| Emulation::start(emulated).unwrap_err();
    let mut asked = emulated(two_at_a_time(), mount.clone());
    assert!(refusal(&asked).contains("mkdir"));
    std::fs::create_dir(&mount).unwrap();
    std::fs::write(mount.join("something"), "").unwrap();
    assert!(refusal(&asked).contains("not empty"));
    std::fs::remove_file(mount.join("something")).unwrap();
    asked.size = Some(65 * MIB);
    if can() {
        assert!(refusal(&asked).contains("more than two at a time has"));
    }
}
