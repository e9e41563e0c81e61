// SPDX-License-Identifier: MIT OR Apache-2.0
//! Needs: what this machine must have; everything missing is listed first, one line each.

use std::path::{Path, PathBuf};

use super::cgroups::Hierarchy;
use super::loop_device::Queue;

/// A tool and the package that it is in on Debian.
const TOOLS: [(&str, &str); 3] =
    [("fio", "fio"), ("losetup", "util-linux and mount"), ("umount", "mount")];

/// What is needed besides the tools.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs<'a> {
    pub(super) schedulers: &'a [&'a str],
    /// Some job is in a cgroup.
    pub(super) cgroups: bool,
}

impl Needs<'_> {
    /// All that is missing; empty if nothing is.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if !rustix::process::geteuid().is_root() {
            missing.push("root: it mounts, attaches a loop device and writes to sysfs".to_owned());
        }
        let paths: Vec<PathBuf> =
            std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
        for (tool, package) in TOOLS {
            if !paths.iter().any(|folder| folder.join(tool).is_file()) {
                missing.push(format!("{tool}: apt-get install {package}"));
            }
        }
        for (file, what) in [
            ("/dev/fuse", "the kernel's FUSE (CONFIG_FUSE_FS, `modprobe fuse`)"),
            ("/dev/loop-control", "loop devices (CONFIG_BLK_DEV_LOOP, `modprobe loop`)"),
        ] {
            if !Path::new(file).exists() {
                missing.push(format!("{file}: {what}"));
            }
        }
        missing.extend(self.missing_schedulers(Path::new("/sys/block")));
        if self.cgroups {
            missing.extend(Hierarchy::find().err());
        }
        missing
    }

    /// The schedulers that no loop device below `folder` offers.
    fn missing_schedulers(&self, folder: &Path) -> Vec<String> {
        let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut loops =
            found.filter(|entry| entry.file_name().to_string_lossy().starts_with("loop"));
        let offered =
            loops.find_map(|entry| Queue::at(entry.path().join("queue")).schedulers().ok());
        let offered = offered.unwrap_or_default();
        let is_missing = |name: &&&str| !offered.iter().any(|other| other == **name);
        let tell = |name: &&str| {
            let module = if *name == "kyber" { "kyber-iosched" } else { name };
            format!(
                "scheduler {name}: this kernel has it not yet (`modprobe {module}`), or not at all"
            )
        };
        self.schedulers.iter().filter(is_missing).map(tell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the schedulers that a loop device lacks reported, one line each?
    #[test]
    fn schedulers_are_looked_for() {
        let name = format!("paternoster-needs-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let needs = Needs { schedulers: &["none", "kyber", "bfq"], cgroups: false };
        assert_eq!(needs.missing_schedulers(&folder).len(), 3, "there is no such folder");
        let queue = folder.join("loop0/queue");
        std::fs::create_dir_all(&queue).unwrap();
        std::fs::write(queue.join("scheduler"), "[none] mq-deadline bfq\n").unwrap();
        let missing = needs.missing_schedulers(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let [only] = missing.as_slice() else { panic!("{missing:?}") };
        assert!(only.starts_with("scheduler kyber: ") && only.contains("kyber-iosched"), "{only}");
    }
}
