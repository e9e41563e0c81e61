// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loop device: the kernel's block layer in front of a file, with few tags and a chosen scheduler.
//!
//! The driver takes as many requests from the scheduler as it has tags, 128 by default, which would
//! leave the scheduler nothing to order. The tags are shrunk to the device's depth, which is
//! possible only while there is no scheduler; the kernel's minimum is 4.
//!
//! ```text
//! scheduler none ─▶ nr_requests 127 ─▶ nr_requests 4 ─▶ scheduler bfq     nr_requests says 256 now
//! ```
//!
//! The first step avoids a trap: after a scheduler the file says 128 whatever the tags are, and
//! writing what it says does nothing. So another number is written first; also at the end, because
//! the tags outlive the device's detachment.
//!
//! Source: measured on Linux 6.18.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::undo::{Undo, chosen, read, tool};

/// The kernel's minimum number of tags.
pub(super) const TAGS_LEAST: u32 = 4;
/// The largest number requested: one less than the driver has, because of the trap.
pub(super) const TAGS_MOST: u32 = 127;

/// How many requests a scheduler may hold: an attribute of the queue. Without a scheduler the
/// same file says how many tags there are.
pub(super) const NR_REQUESTS: &str = "nr_requests";

/// A queue folder of sysfs.
#[derive(Debug)]
pub(super) struct Queue {
    folder: PathBuf,
}

/// The kernel's values for its queue under one scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Attributes {
    /// Requests that the scheduler may hold.
    pub(super) nr_requests: u32,
    /// KiB of the largest request.
    pub(super) max_sectors_kb: u32,
    /// The scheduler's own, sorted by name.
    pub(super) iosched: Vec<(String, String)>,
}

impl Queue {
    /// The queue whose folder this is.
    pub(super) const fn at(folder: PathBuf) -> Queue {
        Queue { folder }
    }

    /// The schedulers that it offers.
    pub(super) fn schedulers(&self) -> Result<Vec<String>, String> {
        let text = read(&self.folder.join("scheduler"))?;
        let words = text.split_whitespace();
        Ok(words.map(|word| word.trim_matches(['[', ']']).to_owned()).collect())
    }

    /// Shrinks the tags and sets whether it rotates. `undo` restores both.
    pub(super) fn shrink(
        &self,
        tags: u32,
        rotational: bool,
        undo: &mut Undo,
    ) -> Result<(), String> {
        let [scheduler, depth, rotates] =
            ["scheduler", "nr_requests", "rotational"].map(|name| self.folder.join(name));
        let before = chosen(&read(&scheduler)?);
        // At the very end; the tags cannot be changed under a scheduler.
        undo.set_and(&scheduler, "none", vec![before])?;
        let tags_before = read(&depth)?;
        let other = (TAGS_MOST).to_string();
        undo.set_and(&depth, &other, vec![other.clone(), tags_before])?;
        undo.set(&depth, &tags.to_string())?;
        undo.set(&rotates, if rotational { "1" } else { "0" })?;
        // Undone first: whatever is chosen later, the tags are restored under none.
        undo.set_and(&scheduler, "none", vec!["none".to_owned()])
    }

    /// Chooses a scheduler and sets those of `wanted` that it has, and how many requests it may
    /// hold; returns its values then.
    ///
    /// # Errors
    /// What was refused.
    pub(super) fn choose(
        &self,
        scheduler: &str,
        wanted: &[(String, String)],
    ) -> Result<Attributes, String> {
        let write = |file: &Path, value: &str| {
            std::fs::write(file, value)
                .map_err(|error| format!("{value} into {}: {error}", file.display()))
        };
        // A fresh one, even if it is already active: its attributes have their defaults again.
        let file = self.folder.join("scheduler");
        write(&file, "none")?;
        write(&file, scheduler)?;
        let own = self.folder.join("iosched");
        for (name, value) in wanted {
            let attribute = own.join(name);
            if attribute.exists() {
                write(&attribute, value)?;
            } else if name == NR_REQUESTS && scheduler != "none" {
                write(&self.folder.join(name), value)?;
            }
        }
        self.attributes()
    }

    fn attributes(&self) -> Result<Attributes, String> {
        let number = |name: &str| {
            let text = read(&self.folder.join(name))?;
            text.parse::<u32>().map_err(|error| format!("{name} says {text}: {error}"))
        };
        let mut iosched = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("iosched")).into_iter().flatten().flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            iosched.push((name, read(&entry.path())?));
        }
        iosched.sort();
        let (nr_requests, max_sectors_kb) = (number("nr_requests")?, number("max_sectors_kb")?);
        Ok(Attributes { nr_requests, max_sectors_kb, iosched })
    }
}

/// A loop device on a file.
#[derive(Debug)]
pub(super) struct LoopDevice {
    /// `/dev/loop0`
    pub(super) path: PathBuf,
    pub(super) queue: Queue,
}

impl LoopDevice {
    /// Attaches the first free one, bypassing the page cache. `undo` detaches it.
    pub(super) fn attach(file: &Path, undo: &mut Undo) -> Result<LoopDevice, String> {
        let mut losetup = Command::new("losetup");
        let path = tool(losetup.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        let path = PathBuf::from(path);
        undo.attached(&path);
        let queue = Queue::at(Path::new("/sys/block").join(name(&path)).join("queue"));
        Ok(LoopDevice { path, queue })
    }

    /// Completed reads and the ms that they took in the block layer, from arrival to completion.
    pub(super) fn reads(&self) -> Result<(u64, u64), String> {
        reads(&read(&Path::new("/sys/block").join(self.name()).join("stat"))?)
    }

    /// `loop0`
    pub(super) fn name(&self) -> String {
        name(&self.path)
    }
}

/// The first and the fourth number of a disk's `stat`.
fn reads(stat: &str) -> Result<(u64, u64), String> {
    let numbers: Vec<u64> = stat.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [ios, _, _, ms, ..] => Ok((ios, ms)),
        _ => Err(format!("a disk's stat has at least four numbers, and not `{stat}`")),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A queue folder as the kernel shows one, and goes with its test.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str) -> Fake {
            let name = format!("paternoster-queue-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(folder.join("iosched")).unwrap();
            for (file, text) in [
                ("scheduler", "none [mq-deadline] kyber bfq\n"),
                ("nr_requests", "128\n"),
                ("rotational", "0\n"),
                ("max_sectors_kb", "1280\n"),
                ("iosched/low_latency", "1\n"),
                ("iosched/max_budget", "0\n"),
            ] {
                fs::write(folder.join(file), text).unwrap();
            }
            Fake(folder)
        }

        fn holds(&self, file: &str) -> String {
            fs::read_to_string(self.0.join(file)).unwrap().trim().to_owned()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    /// Are tags shrunk without a scheduler, and does the queue have its previous state at the end?
    #[test]
    fn tags_shrink_and_grow_back() {
        let fake = Fake::new("shrink");
        let queue = Queue::at(fake.0.clone());
        assert_eq!(queue.schedulers().unwrap(), ["none", "mq-deadline", "kyber", "bfq"]);
        let mut undo = Undo::new();
        queue.shrink(4, true, &mut undo).unwrap();
        assert_eq!(["nr_requests", "rotational"].map(|file| fake.holds(file)), ["4", "1"]);
        assert_eq!(fake.holds("scheduler"), "none");
        queue.choose("bfq", &[]).unwrap();
        assert_eq!(fake.holds("scheduler"), "bfq");
        assert!(undo.all().is_empty());
        assert_eq!(["nr_requests", "rotational"].map(|file| fake.holds(file)), ["128", "0"]);
        assert_eq!(fake.holds("scheduler"), "mq-deadline");
    }

    /// Are reads and their time read from a disk's numbers?
    #[test]
    fn reads_are_counted() {
        assert_eq!(reads(" 812  0 6496 767  3 0 24 1 0 768 768\n"), Ok((812, 767)));
        assert!(reads("1 2 three 4").unwrap_err().contains("`1 2 three 4`"));
    }

    /// Are attributes set if the scheduler has them, and all reported? Is a non-number refused?
    #[test]
    fn attributes_are_set_and_told() {
        let fake = Fake::new("attributes");
        let queue = Queue::at(fake.0.clone());
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let wanted = [pair("low_latency", "0"), pair("slice_idle", "0"), pair(NR_REQUESTS, "64")];
        // Without a scheduler that would be tags.
        assert_eq!(queue.choose("none", &wanted).unwrap().nr_requests, 128);
        let told = queue.choose("bfq", &wanted).unwrap();
        assert_eq!((told.nr_requests, told.max_sectors_kb), (64, 1280));
        assert_eq!(told.iosched, [pair("low_latency", "0"), pair("max_budget", "0")]);
        fs::write(fake.0.join("nr_requests"), "many").unwrap();
        let wrong = queue.choose("bfq", &[]).unwrap_err();
        assert!(wrong.starts_with("nr_requests says many: "), "{wrong}");
    }
}
