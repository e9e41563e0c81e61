// SPDX-License-Identifier: MIT OR Apache-2.0
//! An emulation with a folder of its own, with helpers for tests.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paternoster_serve::emulate::{Emulated, Emulation, KindPrecision};
use paternoster_sim::{Description, catalog};

use super::{Folder, skipped};

pub(crate) const MIB: u64 = 1 << 20;

/// A folder with a mount point, an emulation on it.
pub(crate) struct Rig {
    // It is unmounted before the folder goes.
    pub(crate) emulation: Emulation,
    pub(crate) folder: Folder,
}

pub(crate) fn catalogued(name: &str) -> Description {
    catalog::by_name(name).expect("a name of the catalog").expect("a description")
}

/// Two servers of 5 ms before which two wait: depth 4.
pub(crate) fn two_at_a_time() -> Description {
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
pub(crate) fn can() -> bool {
    if !rustix::process::geteuid().is_root() {
        skipped("it takes root to mount");
        return false;
    }
    let there = Path::new("/dev/fuse").exists();
    if !there {
        skipped("/dev/fuse is missing");
    }
    there
}

pub(crate) fn emulated(device: Description, mount: PathBuf) -> Emulated {
    Emulated { device, mount, data: None, size: Some(32 * MIB), allow_other: false }
}

impl Rig {
    pub(crate) fn new(device: Description, change: impl FnOnce(&mut Emulated)) -> Rig {
        let folder = Folder::in_memory("emulate");
        let mount = folder.path("mount");
        std::fs::create_dir(&mount).unwrap();
        let mut emulated = emulated(device, mount);
        change(&mut emulated);
        Rig { emulation: Emulation::start(&emulated).unwrap(), folder }
    }

    pub(crate) fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.emulation.file()).unwrap()
    }

    pub(crate) fn open_direct(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT).open(self.emulation.file()).unwrap()
    }

    pub(crate) fn kind(&self, name: &str) -> KindPrecision {
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
