// SPDX-License-Identifier: MIT OR Apache-2.0
//! In use: what else lives on a block device or in a file, before it is overwritten.
//!
//! ```text
//! /proc/self/mountinfo    the device itself is mounted (its number, or the source of the mount)
//! /proc/swaps             it is swapped to
//! /sys/dev/block/M:m/*/   it has partitions, each of which is looked at in turn
//! …/holders/              dm, md or bcache are built on it
//! ```
//!
//! Other mount namespaces cannot be seen from here.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A device's number: major and minor.
type Number = (u32, u32);

/// What the system says about its devices.
trait World {
    fn mountinfo(&self) -> String;
    fn swaps(&self) -> String;
    /// The number of the block device at a path.
    fn number(&self, path: &str) -> Option<Number>;
    /// Name and number of each partition of a device.
    fn partitions(&self, of: Number) -> Vec<(String, Number)>;
    /// Names of what is built on a device.
    fn holders(&self, of: Number) -> Vec<String>;
}

/// Why one should not write to `path`, in words; empty if there is no reason.
///
/// # Errors
/// The system's error for the path.
pub fn in_use(path: &Path) -> io::Result<Vec<String>> {
    let metadata = fs::metadata(path)?;
    if !metadata.file_type().is_block_device() {
        return Ok(file_in_use(&fs::canonicalize(path)?, &Linux));
    }
    Ok(device_in_use(split(metadata.rdev()), &path.display().to_string(), &Linux))
}

fn file_in_use(path: &Path, world: &impl World) -> Vec<String> {
    let swaps = world.swaps();
    let mut swaps = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let swapped = swaps.any(|file| Path::new(&unescape(file)) == path);
    if swapped { vec![format!("{} is swapped to", path.display())] } else { Vec::new() }
}

fn device_in_use(number: Number, name: &str, world: &impl World) -> Vec<String> {
    let mut uses = own_uses(number, name, world);
    let partitions = world.partitions(number);
    if !partitions.is_empty() {
        let names: Vec<&str> = partitions.iter().map(|(name, _)| name.as_str()).collect();
        uses.push(format!("{name} has partitions ({})", names.join(", ")));
    }
    uses.extend(partitions.iter().flat_map(|(name, number)| own_uses(*number, name, world)));
    uses
}

/// What a device is used for by itself.
fn own_uses(number: Number, name: &str, world: &impl World) -> Vec<String> {
    let mut uses = Vec::new();
    for place in mounts_of(number, world) {
        uses.push(format!("{name} is mounted at {place}"));
    }
    let swaps = world.swaps();
    let mut swaps = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    if swaps.any(|file| world.number(&unescape(file)) == Some(number)) {
        uses.push(format!("{name} is swapped to"));
    }
    let holders = world.holders(number);
    if !holders.is_empty() {
        uses.push(format!("{name} is held by {}", holders.join(", ")));
    }
    uses
}

/// Where a device is mounted. A line of mountinfo is `ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS …
/// - TYPE SOURCE OPTIONS`. A file system on several devices has a number of its own; its source
///   decides then.
fn mounts_of(number: Number, world: &impl World) -> Vec<String> {
    let table = world.mountinfo();
    let places = table.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        let (device, place) = (mount.next()?, mount.nth(1)?);
        let source = system.split(' ').nth(1)?;
        let (major, minor) = device.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        let is_it = device == number
            || (source.starts_with('/') && world.number(&unescape(source)) == Some(number));
        is_it.then(|| unescape(place))
    });
    places.collect()
}

/// The tables write blanks and the like as `\040`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal.filter(|_| first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn split(number: u64) -> Number {
    (rustix::fs::major(number), rustix::fs::minor(number))
}

/// This machine.
struct Linux;

impl World for Linux {
    fn mountinfo(&self) -> String {
        fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
    }

    fn swaps(&self) -> String {
        fs::read_to_string("/proc/swaps").unwrap_or_default()
    }

    fn number(&self, path: &str) -> Option<Number> {
        let metadata = fs::metadata(path).ok()?;
        metadata.file_type().is_block_device().then(|| split(metadata.rdev()))
    }

    fn partitions(&self, of: Number) -> Vec<(String, Number)> {
        let folder = sysfs(of);
        let parts = names_in(&folder).into_iter().filter_map(|name| {
            let part = folder.join(&name);
            let number = fs::read_to_string(part.join("dev")).ok()?;
            let (major, minor) = number.trim().split_once(':')?;
            let number = (major.parse().ok()?, minor.parse().ok()?);
            part.join("partition").exists().then_some((name, number))
        });
        parts.collect()
    }

    fn holders(&self, of: Number) -> Vec<String> {
        names_in(&sysfs(of).join("holders"))
    }
}

fn sysfs((major, minor): Number) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with a disk of two partitions, one of them the root, the other swap; a volume on
    /// a third disk; and a btrfs on a fourth.
    struct Fake;

    impl World for Fake {
        fn mountinfo(&self) -> String {
            "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
             27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
             28 27 0:40 /sub /my\\040data rw - btrfs /dev/sdd rw\n"
                .to_owned()
        }

        fn swaps(&self) -> String {
            "Filename\t\tType\t\tSize\n/dev/sda2 partition 8 0 -2\n/var/swap\\040file file 8 0 -3\n"
                .to_owned()
        }

        fn number(&self, path: &str) -> Option<Number> {
            match path {
                "/dev/sda1" => Some((8, 1)),
                "/dev/sda2" => Some((8, 2)),
                "/dev/sdd" => Some((8, 48)),
                _ => None,
            }
        }

        fn partitions(&self, of: Number) -> Vec<(String, Number)> {
            let parts = [("sda1".to_owned(), (8, 1)), ("sda2".to_owned(), (8, 2))];
            if of == (8, 0) { parts.to_vec() } else { Vec::new() }
        }

        fn holders(&self, of: Number) -> Vec<String> {
            if of == (8, 32) { vec!["dm-0".to_owned()] } else { Vec::new() }
        }
    }

    /// Is every use of a device found, and none if it is not in use?
    #[test]
    fn uses_are_found() {
        let uses = |number, name| device_in_use(number, name, &Fake);
        assert_eq!(
            uses((8, 0), "/dev/sda"),
            ["/dev/sda has partitions (sda1, sda2)", "sda1 is mounted at /", "sda2 is swapped to"]
        );
        assert_eq!(uses((8, 1), "/dev/sda1"), ["/dev/sda1 is mounted at /"]);
        assert_eq!(uses((8, 32), "/dev/sdc"), ["/dev/sdc is held by dm-0"]);
        assert_eq!(uses((8, 48), "/dev/sdd"), ["/dev/sdd is mounted at /my data"]);
        assert!(uses((8, 16), "/dev/sdb").is_empty());
        let file = |path| file_in_use(Path::new(path), &Fake);
        assert_eq!(file("/var/swap file"), ["/var/swap file is swapped to"]);
        assert!(file("/var/other").is_empty());
    }

    /// Does this machine's own root come out as mounted, where it is a block device?
    #[test]
    fn this_machines_root() {
        let number = split(fs::metadata("/").unwrap().dev());
        if sysfs(number).exists() {
            let uses = device_in_use(number, "root", &Linux);
            assert!(uses.iter().any(|found| found == "root is mounted at /"), "{uses:?}");
        } else {
            eprintln!("skipped: this_machines_root: the root is on no block device");
        }
    }
}
