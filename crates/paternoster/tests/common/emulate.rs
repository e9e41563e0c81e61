// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster emulate` in a folder that is removed with its test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::skipped;

const PROGRAM: &str = env!("CARGO_BIN_EXE_paternoster");
/// A busy machine may take long; a broken program takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A folder with a mount point, removed with its test, and what was left mounted with it.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Place {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("paternoster-emulate-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("mount")).unwrap();
        Place(path)
    }

    pub(crate) fn mount(&self) -> PathBuf {
        self.0.join("mount")
    }

    pub(crate) fn emulate(&self, device: &str, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["emulate", device, "--mount"]).arg(self.mount());
        command.args(["--size", "32m"]).args(more).stdin(Stdio::null());
        command
    }

    pub(crate) fn is_empty(&self) -> bool {
        std::fs::read_dir(self.mount()).is_ok_and(|mut entries| entries.next().is_none())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_empty() {
            let _unmounted = Command::new("umount").arg("-l").arg(self.mount()).status();
        }
        // Never through a mount.
        if self.is_empty() {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }
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

pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
