// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that fail for real, now and then.
//!
//! * `Broken`: a file of a FUSE file system (nbdfuse) over nbdkit's error filter: the kernel
//!   answers with EIO when the filter fails a command, half of them while a file exists. A dm
//!   target would need device-mapper.
//! * `Full`: a sparse image in a small tmpfs, which a file fills up: ENOSPC.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::skipped;
use crate::upgrade::until;

/// Bytes of each image.
pub(crate) const SIZE: u64 = 1 << 20;

fn is_mount(folder: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(folder))
}

fn unmount(folder: &str) {
    for tool in [&["fusermount3", "-uz"][..], &["umount", "-l"]] {
        if is_mount(folder) {
            let mut command = Command::new(tool[0]);
            let _done = command.args(&tool[1..]).arg(folder).stderr(Stdio::null()).status();
        }
    }
}

/// A device that fails half of its commands while told to.
pub(crate) struct Broken {
    child: Child,
    folder: String,
    switch: String,
    pub(crate) image: String,
    /// The device below.
    pub(crate) below: String,
}

impl Broken {
    /// One in a folder; none, and a message, where its programs are missing.
    pub(crate) fn new(at: &str) -> Option<Broken> {
        let [folder, below, switch] =
            ["mount", "below", "fails"].map(|name| format!("{at}/{name}"));
        fs::create_dir(&folder).expect("a folder");
        fs::File::create(&below).expect("an image").set_len(SIZE).expect("room");
        let has = |program: &str| {
            Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
        };
        if !has("nbdfuse") || !has("nbdkit") || !Path::new("/dev/fuse").exists() {
            skipped("devices that fail: no nbdfuse, nbdkit or /dev/fuse");
            return None;
        }
        let file = format!("error-file={switch}");
        let child = Command::new("nbdfuse")
            .args([&folder, "--command", "nbdkit", "-s", "--filter=error", "file", &below])
            .args(["error-pread-rate=50%", "error-pwrite-rate=50%", "error-zero-rate=50%", &file])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nbdfuse starts");
        let mut broken = Broken { child, image: format!("{folder}/nbd"), folder, switch, below };
        let there = || {
            let ended = broken.child.try_wait().expect("a child").is_some();
            (ended || Path::new(&broken.image).exists()).then_some(ended)
        };
        if until(there, || "nbdfuse does not mount".to_owned()) {
            skipped("devices that fail: nbdfuse may not mount here");
            return None;
        }
        Some(broken)
    }

    pub(crate) fn fail(&self, fails: bool) {
        switch(&self.switch, fails, 0);
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        unmount(&self.folder);
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Whether a file exists, of this many bytes or as many as there is room for.
fn switch(path: &str, is_there: bool, length: usize) {
    if is_there {
        let mut file = fs::File::create(path).expect("a file");
        let _full = std::io::Write::write_all(&mut file, &vec![1; length]);
    } else {
        let _gone = fs::remove_file(path);
    }
}

/// A file system that is full while told to be.
pub(crate) struct Full {
    folder: String,
    pub(crate) image: String,
}

impl Full {
    pub(crate) fn new(at: &str) -> Option<Full> {
        let folder = format!("{at}/small");
        fs::create_dir(&folder).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "none", &folder]).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            skipped("a full file system: only root may mount one");
            return None;
        }
        let image = format!("{folder}/image");
        fs::File::create(&image).expect("an image").set_len(SIZE).expect("room");
        Some(Full { folder, image })
    }

    pub(crate) fn fill(&self, fills: bool) {
        switch(&format!("{}/filler", self.folder), fills, 1 << 20);
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        unmount(&self.folder);
    }
}
