// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identity: what a path really is, and what is below it.
//!
//! Two names may be one file (a link, a mount elsewhere), and two devices one disk. A file is its
//! device and inode, a block device its number. sysfs shows what is below them:
//!
//! ```text
//! loop0p1  bytes 0 …        a partition:  of loop0, 1 MiB further on
//! └ loop0  1 MiB …          a loop:       of its file, `offset` further on
//!   └ a.img  1 MiB …
//!
//! dm-0                      dm, md, bcache: *somewhere* on their slaves
//! └ sda2  (somewhere)
//! ```
//!
//! Two ranges are the same bytes if they meet at one thing. Where a range is known only as
//! "somewhere on" a thing, it meets a range of that thing itself, but not another that is
//! "somewhere on" it: two logical volumes of one disk are two disks.
//!
//! What cannot be read is taken for nothing: a foreign mount namespace, a file that was deleted,
//! what a file system itself lies on (`in_use` looks at mounts).

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::system::{Kind, Stat, System, kernel};

/// Levels of loops on loops on partitions …, at most.
const LEVELS: usize = 8;

/// A file or a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thing {
    /// A file by device and inode.
    File(u64, u64),
    /// A block device by its number.
    Block(u64),
}

/// A range of a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub thing: Thing,
    /// A name of it.
    pub path: PathBuf,
    /// First byte of the range.
    pub start: u64,
    /// The byte after its last one.
    pub end: u64,
    pub cover: Cover,
}

/// How the examined object is placed in a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// It is that thing, or all of it under another name.
    Whole,
    /// It is this range of that thing.
    Part,
    /// It is somewhere within, at an unknown place.
    Somewhere,
}

impl Span {
    /// Whether both have a byte in common, for all one knows.
    pub(super) fn meets(&self, other: &Span) -> bool {
        self.thing == other.thing
            && (self.cover, other.cover) != (Cover::Somewhere, Cover::Somewhere)
            && self.start < other.end
            && other.start < self.end
    }
}

/// The thing that was opened.
pub(crate) fn thing(stat: &Stat) -> Option<Thing> {
    match stat.kind {
        Kind::Block => Some(Thing::Block(stat.number)),
        Kind::File => Some(Thing::File(stat.device, stat.inode)),
        _ => None,
    }
}

/// The same by a descriptor.
pub(super) fn thing_of(fd: BorrowedFd<'_>) -> Option<Thing> {
    thing(&kernel::stat_of(fd)?)
}

/// Whether these name one file or block device; of names that cannot be looked at, whether they are
/// equal.
pub(crate) fn is_one_thing(system: &System, one: &Path, other: &Path) -> bool {
    let look = |path: &Path| thing(&system.stat(path).ok()?);
    one == other || look(one).is_some_and(|one| Some(one) == look(other))
}

/// Where names are, sysfs and the nodes of devices.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub sys: PathBuf,
    pub dev: PathBuf,
    pub system: System,
}

impl Default for Places {
    fn default() -> Places {
        Places::of(&System::default())
    }
}

impl Places {
    /// The places to which these names lead.
    pub(super) fn of(system: &System) -> Places {
        Places { sys: "/sys".into(), dev: "/dev".into(), system: system.clone() }
    }

    /// The thing that a path leads to.
    pub(super) fn thing(&self, path: &Path) -> Option<Thing> {
        thing(&self.system.stat(path).ok()?)
    }

    /// Whether a block device is a disk and no part of one.
    pub(super) fn is_disk(&self, number: u64) -> bool {
        !self.folder(number).join("partition").exists()
    }

    /// A range of a thing, and everything below it; itself first.
    pub(super) fn spans(&self, thing: Thing, path: &Path, start: u64, end: u64) -> Vec<Span> {
        let mut spans =
            vec![Span { thing, path: path.to_owned(), start, end, cover: Cover::Whole }];
        let mut next = 0;
        // Found things are examined in turn; nothing should be below itself, but cycles are
        // handled.
        while next < spans.len() && spans.len() <= LEVELS {
            let below = self.below(&spans[next]);
            spans.extend(below);
            next += 1;
        }
        spans
    }

    fn below(&self, span: &Span) -> Vec<Span> {
        let Thing::Block(number) = span.thing else { return Vec::new() };
        let folder = self.folder(number);
        if folder.join("partition").exists() {
            return self.disk_of(span, &folder).into_iter().collect();
        }
        if let Some(path) = text(&folder.join("loop/backing_file")) {
            return self.below_a_loop(span, &folder, path).into_iter().collect();
        }
        let slaves = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        let slaves = slaves.filter_map(|slave| {
            let (number, path) = self.device(&slave.path())?;
            let thing = Thing::Block(number);
            Some(Span { thing, path, start: 0, end: u64::MAX, cover: Cover::Somewhere })
        });
        slaves.collect()
    }

    fn disk_of(&self, span: &Span, folder: &Path) -> Option<Span> {
        // In the kernel's tree a partition is a folder of its disk; sysfs counts in 512 bytes.
        let (number, path) = self.device(&folder.join(".."))?;
        let sectors = |name: &str| text(&folder.join(name))?.parse::<u64>().ok();
        let (first, length) = (sectors("start")?, sectors("size")?);
        Some(within(span, Thing::Block(number), path, first * 512, length * 512))
    }

    /// The file or device that a loop device shows, from its offset on.
    fn below_a_loop(&self, span: &Span, folder: &Path, path: String) -> Option<Span> {
        let found = self.thing(Path::new(&path))?;
        let number = |name: &str| text(&folder.join("loop").join(name))?.parse().ok();
        let (offset, limit) = (number("offset").unwrap_or(0), number("sizelimit").unwrap_or(0));
        let length = if limit == 0 { u64::MAX } else { limit };
        Some(within(span, found, path.into(), offset, length))
    }

    fn folder(&self, number: u64) -> PathBuf {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        self.sys.join(format!("dev/block/{major}:{minor}"))
    }

    /// Number and node of the device of a folder.
    fn device(&self, folder: &Path) -> Option<(u64, PathBuf)> {
        let numbers = text(&folder.join("dev"))?;
        let (major, minor) = numbers.split_once(':')?;
        let number = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        let events = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
        let name = events.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        Some((number, self.dev.join(name.unwrap_or(&numbers))))
    }
}

/// The same range, seen from below: `first` further on, and no longer than `length`.
fn within(span: &Span, thing: Thing, path: PathBuf, first: u64, length: u64) -> Span {
    let at = |byte: u64| first.saturating_add(byte.min(length));
    let (start, end) = (at(span.start), at(span.end));
    let cover = match span.cover {
        Cover::Whole if (first, length) == (0, u64::MAX) => Cover::Whole,
        Cover::Somewhere => Cover::Somewhere,
        _ => Cover::Part,
    };
    Span { thing, path, start, end, cover }
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree as sysfs has it: disk 8:0 with partitions 8:1 (1 MiB to 2 MiB) and 8:2 (after it), a
    /// loop 7:0 over `file` from byte 4096 on, with a partition 7:1, and dm 253:0 and :1 on 8:2.
    fn tree(name: &str) -> (PathBuf, Places) {
        let root = std::env::temp_dir().join(format!("paternoster-{name}-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let image = root.join("file");
        file("file", "data");
        for (folder, dev) in [
            ("sda", "8:0"),
            ("sda/sda1", "8:1"),
            ("sda/sda2", "8:2"),
            ("loop0", "7:0"),
            ("loop0/loop0p1", "7:1"),
            ("dm-0", "253:0"),
            ("dm-1", "253:1"),
        ] {
            file(&format!("sys/devices/{folder}/dev"), &format!("{dev}\n"));
            let name = folder.rsplit('/').next().unwrap();
            file(&format!("sys/devices/{folder}/uevent"), &format!("MAJOR=1\nDEVNAME={name}\n"));
            fs::create_dir_all(root.join("sys/dev/block")).unwrap();
            let target = format!("../../devices/{folder}");
            std::os::unix::fs::symlink(target, root.join("sys/dev/block").join(dev)).unwrap();
        }
        for (part, start, size) in [
            ("sda/sda1", "2048", "2048"),
            ("sda/sda2", "4096", "4096"),
            ("loop0/loop0p1", "8", "8"),
        ] {
            file(&format!("sys/devices/{part}/partition"), "1\n");
            file(&format!("sys/devices/{part}/start"), &format!("{start}\n"));
            file(&format!("sys/devices/{part}/size"), &format!("{size}\n"));
        }
        file("sys/devices/loop0/loop/backing_file", &format!("{}\n", image.display()));
        file("sys/devices/loop0/loop/offset", "4096\n");
        file("sys/devices/loop0/loop/sizelimit", "0\n");
        for dm in ["dm-0", "dm-1"] {
            let slaves = root.join(format!("sys/devices/{dm}/slaves"));
            fs::create_dir_all(&slaves).unwrap();
            std::os::unix::fs::symlink("../../sda/sda2", slaves.join("sda2")).unwrap();
        }
        let places = Places { sys: root.join("sys"), ..Places::default() };
        (root, places)
    }

    fn block(major: u32, minor: u32) -> Thing {
        Thing::Block(rustix::fs::makedev(major, minor))
    }

    /// Which of these have bytes in common? Do a partition and its disk overlap, in the partition's
    /// range alone; a dm device and what it is on, but not two dm devices on one disk; a loop
    /// device and its file, from its offset on?
    #[test]
    fn who_meets_whom() {
        let (root, places) = tree("identity");
        let whole = |thing| places.spans(thing, Path::new("/x"), 0, u64::MAX);
        let part = |thing, start, end| places.spans(thing, Path::new("/x"), start, end);
        let meet = |one: &[Span], other: &[Span]| {
            one.iter().any(|one| other.iter().any(|other| one.meets(other)))
        };
        let file = places.thing(&root.join("file")).unwrap();
        let (disk, first, second) = (block(8, 0), block(8, 1), block(8, 2));
        for (one, other, expected) in [
            (whole(disk), whole(first), true),
            (whole(first), whole(second), false),
            // The first MiB of the disk is before all partitions; the next 512 bytes are not.
            (part(disk, 0, 1 << 20), whole(first), false),
            (part(disk, 0, (1 << 20) + 512), whole(first), true),
            // sda1 ends at 2 MiB, whatever one asks of it.
            (part(disk, 2 << 20, 3 << 20), whole(first), false),
            (part(disk, 2 << 20, 3 << 20), whole(second), true),
            (whole(block(253, 0)), whole(second), true),
            (whole(block(253, 0)), whole(disk), true),
            (whole(block(253, 0)), whole(first), false),
            (whole(block(253, 0)), whole(block(253, 1)), false),
            (whole(block(253, 0)), whole(block(253, 0)), true),
            (whole(block(7, 0)), whole(file), true),
            (part(file, 0, 4096), whole(block(7, 0)), false),
            // The partition is 8 sectors on in the loop: from byte 8192 of the file on, for 4096.
            (part(file, 0, 8192), whole(block(7, 1)), false),
            (part(file, 8192, 8193), whole(block(7, 1)), true),
            (part(file, 12288, u64::MAX), whole(block(7, 1)), false),
            (whole(file), whole(disk), false),
        ] {
            assert_eq!(meet(&one, &other), expected, "{one:?}\n{other:?}");
            assert_eq!(meet(&other, &one), expected, "the other way round");
        }
        let names: Vec<PathBuf> = whole(first).into_iter().map(|span| span.path).collect();
        assert_eq!(names, [Path::new("/x"), Path::new("/dev/sda")]);
        fs::remove_dir_all(root).unwrap();
    }

    /// Does a cycle come to an end?
    #[test]
    fn circles_end() {
        let (root, places) = tree("identity-circle");
        let slaves = root.join("sys/devices/sda/slaves");
        fs::create_dir_all(&slaves).unwrap();
        std::os::unix::fs::symlink("../../dm-0", slaves.join("dm-0")).unwrap();
        let spans = places.spans(block(253, 0), Path::new("/x"), 0, u64::MAX);
        assert!(spans.len() <= LEVELS + 1, "{spans:?}");
        fs::remove_dir_all(root).unwrap();
    }
}
