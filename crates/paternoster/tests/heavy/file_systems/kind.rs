// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file systems: made, mounted, checked.

use std::path::{Path, PathBuf};

use super::disk::{Disk, Place, Way};
use super::tools::{command, command_within, installed, kernel_has, succeeds, tried};

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ext4,
    Xfs,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
        }
    }

    /// MiB of the disks that most tests use. xfs does not go below 300.
    fn mib(self) -> u64 {
        match self {
            Kind::Ext4 => 64,
            Kind::Xfs => 320,
        }
    }

    /// A disk with this file system on it; `None`, which is reported, where that is impossible.
    pub(crate) fn disk(self, way: Way, place: Place) -> Option<Disk> {
        self.disk_of(way, place, self.mib())
    }

    /// The same, of this many MiB.
    pub(crate) fn disk_of(self, way: Way, place: Place, mib: u64) -> Option<Disk> {
        let programs = match self {
            Kind::Ext4 => [("mkfs.ext4", "e2fsprogs"), ("e2fsck", "e2fsprogs")],
            Kind::Xfs => [("mkfs.xfs", "xfsprogs"), ("xfs_repair", "xfsprogs")],
        };
        if !installed(&programs) || !kernel_has(self.name()) {
            return None;
        }
        let disk = Disk::new(way, place, mib)?;
        succeeds(command(format!("mkfs.{}", self.name())).arg("-q").arg(disk.device()));
        Some(disk)
    }

    /// Has the file system's own program check a disk that is not mounted; all must be well.
    pub(crate) fn check(self, disk: &Disk) {
        let mut check = match self {
            Kind::Ext4 => command("e2fsck"),
            Kind::Xfs => command("xfs_repair"),
        };
        match self {
            Kind::Ext4 => check.args(["-f", "-n"]),
            Kind::Xfs => check.arg("-n"),
        };
        succeeds(check.arg(disk.device()));
    }

    /// Mounts a disk.
    pub(crate) fn mount(self, disk: &Disk) -> Mounted<'_> {
        let point = disk.mount_point();
        succeeds(command("mount").args(["-t", self.name()]).arg(disk.device()).arg(&point));
        Mounted { disk, point, mounted: true }
    }
}

/// A mounted disk; unmounted when this is dropped, by force if it has to be.
#[derive(Debug)]
pub(crate) struct Mounted<'a> {
    disk: &'a Disk,
    point: PathBuf,
    mounted: bool,
}

impl Mounted<'_> {
    /// The root of the file system.
    pub(crate) fn path(&self) -> &Path {
        &self.point
    }

    /// Unmounts it in good order, which must succeed.
    pub(crate) fn unmount(mut self) {
        succeeds(command("umount").arg(&self.point));
        self.mounted = false;
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if !self.mounted || tried(command_within(20, "umount").arg(&self.point)) {
            return;
        }
        // Whatever it waits for ends with an error once no server serves the disk any more.
        self.disk.kill();
        if !tried(command_within(20, "umount").arg(&self.point)) {
            tried(command_within(10, "umount").arg("-l").arg(&self.point));
        }
    }
}
