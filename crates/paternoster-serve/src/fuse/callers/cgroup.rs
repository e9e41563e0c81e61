// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups: where a thread is in the tree, and the weights on the way down to it.
//!
//! ```text
//! /proc/4711/cgroup    0::/db.slice/pg.service          version 2: the line `0::`
//!                      7:blkio:/db/pg                   version 1: the line of `blkio`
//!
//! ROOT/db.slice              io.bfq.weight  200   ┐
//! ROOT/db.slice/pg.service   io.weight      50    ┴▶ weights [200, 50]
//! ```
//!
//! ROOT is what is configured: a hierarchy of version 2 has a file `cgroup.controllers` there. One
//! of version 1 has none: it is ROOT's own folder `blkio` if there is one (as in `/sys/fs/cgroup`
//! on systems with both), else ROOT itself. Files of weights, the first that is there:
//!
//! | version | file | weights |
//! |---|---|---|
//! | 2 | `io.bfq.weight` | 1 to 1000, the one that the kernel's own bfq uses |
//! | 2 | `io.weight` | 1 to 10000, as `default 100` |
//! | 1 | `blkio.bfq.weight`, `blkio.weight` | 1 to 1000, 10 to 1000 |
//!
//! Without either the weight is 100, the kernel's default; so is one that cannot be read. Lines for
//! single devices (`8:16 200`) do not count here: the kernel's devices are not ours.
//!
//! C1  There are as many weights as the path has names: the root has none, and no weight.
//! C2  At most [`LEVELS`] names: a deeper process belongs to the last of these. A path that is
//!     longer than [`PATH_BYTES`], or leads out of the hierarchy (`/../x`: a cgroup that this
//!     namespace does not see), counts as the root.
//! C3  A folder's weight is believed for [`TTL`], for all callers: a hundred threads of a cgroup
//!     cost one look a second. `Cgroups::version` counts the changes that were seen.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::TTL;
use super::recent::Recent;
use crate::host::peer;

/// Cgroups within cgroups that are told apart.
pub const LEVELS: usize = 16;
/// Longer paths count as the root.
pub const PATH_BYTES: usize = 1024;
/// Folders whose weights are remembered.
const FOLDERS_MAX: usize = 4096;
/// A cgroup's default weight.
const DEFAULT_WEIGHT: u32 = 100;
/// Largest weight that the library takes.
const WEIGHT_MAX: u32 = 10_000;
/// The line that counts is the first.
const WEIGHT_FILE_BYTES: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn files(self) -> [&'static str; 2] {
        match self {
            Version::One => ["blkio.bfq.weight", "blkio.weight"],
            Version::Two => ["io.bfq.weight", "io.weight"],
        }
    }

    fn is_line(self, number: &str, controllers: &str) -> bool {
        match self {
            Version::One => controllers.split(',').any(|controller| controller == "blkio"),
            Version::Two => number == "0" && controllers.is_empty(),
        }
    }
}

/// A folder's weight, and when it was looked at.
#[derive(Debug, Clone, Copy)]
struct Weight {
    weight: u32,
    read_at: Instant,
}

/// One hierarchy, and the weights that were found in it of late.
#[derive(Debug)]
pub(super) struct Cgroups {
    root: PathBuf,
    version: Version,
    weights: Recent<String, Weight>,
    changes: u64,
}

impl Cgroups {
    pub(super) fn new(root: &Path) -> Cgroups {
        let version =
            if root.join("cgroup.controllers").exists() { Version::Two } else { Version::One };
        let blkio = root.join("blkio");
        let inner = version == Version::One && blkio.is_dir();
        let root = if inner { blkio } else { root.to_owned() };
        Cgroups { root, version, weights: Recent::new(FOLDERS_MAX), changes: 0 }
    }

    /// If this number has changed, weights that were returned earlier may have changed, too.
    pub(super) fn version(&self) -> u64 {
        self.changes
    }

    /// The thread's cgroup, `/` or `/a/b`; `None` if nothing is said of it.
    ///
    /// In a hierarchy of version 1 a thread may be elsewhere than its process.
    pub(super) fn path_of(&self, proc_root: &Path, thread: u32, process: u32) -> Option<String> {
        let number = if self.version == Version::One { thread } else { process };
        let text = peer::cgroups_text(number, proc_root)?;
        self.path_in(&text)
    }

    fn path_in(&self, text: &str) -> Option<String> {
        let mut lines = peer::cgroup_lines(text);
        let line = lines.find(|(number, controllers, _)| self.version.is_line(number, controllers));
        Some(bounded(line?.2))
    }

    /// The weights of the cgroups on the way to this one, from the top (C1).
    pub(super) fn weights_of(&mut self, path: &str, now: Instant) -> Vec<u32> {
        folders(path).map(|folder| self.weight_of(folder, now)).collect()
    }

    fn weight_of(&mut self, folder: &str, now: Instant) -> u32 {
        let known = self.weights.get(folder).copied();
        if let Some(known) = known.filter(|known| now.duration_since(known.read_at) < TTL) {
            return known.weight;
        }
        let weight = self.read(folder);
        if known.is_some_and(|known| known.weight != weight) {
            self.changes += 1;
        }
        self.weights.put(folder.to_owned(), Weight { weight, read_at: now });
        weight
    }

    fn read(&self, folder: &str) -> u32 {
        let folder = self.root.join(folder.trim_start_matches('/'));
        let texts = self.version.files().into_iter().map(|name| start_of(&folder.join(name)));
        let found = texts.flatten().next();
        found.as_deref().and_then(weight_in).unwrap_or(DEFAULT_WEIGHT)
    }
}

/// The path in its plain form, within the bounds (C2).
fn bounded(path: &str) -> String {
    let names = || path.split('/').filter(|name| !name.is_empty());
    if path.len() > PATH_BYTES || names().any(|name| matches!(name, "." | "..")) {
        return "/".to_owned();
    }
    let mut plain = String::with_capacity(path.len());
    for name in names().take(LEVELS) {
        plain.push('/');
        plain.push_str(name);
    }
    if plain.is_empty() { "/".to_owned() } else { plain }
}

/// `/a/b/c`: `/a`, `/a/b`, `/a/b/c`; of the root nothing.
pub(crate) fn folders(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.bytes().enumerate().skip(1).filter(|(_, byte)| *byte == b'/');
    let ends = ends.map(|(place, _)| place).chain((path.len() > 1).then_some(path.len()));
    ends.map(|end| &path[..end])
}

fn start_of(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(WEIGHT_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// `100`, or `default 100` in one of the lines.
fn weight_in(text: &str) -> Option<u32> {
    let number = |line: &str| {
        let line = line.trim();
        line.strip_prefix("default").map_or(line, str::trim).parse::<u32>().ok()
    };
    let weight = text.lines().find_map(number)?;
    (1..=WEIGHT_MAX).contains(&weight).then_some(weight)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::fake::Fake;
    use super::*;

    const LINES: &str = "12:cpu,cpuacct:/c\n7:net,blkio:/old/one\n1:name=blkio:/x\n0::/new/one\n";

    /// Is the hierarchy recognised that the root is of, and its line taken?
    #[test]
    fn both_versions() {
        let fake = Fake::new();
        fs::create_dir_all(fake.path("v1/blkio")).unwrap();
        fs::create_dir_all(fake.path("v2/blkio")).unwrap();
        fs::write(fake.path("v2/cgroup.controllers"), "cpuset cpu io memory\n").unwrap();
        for (root, expected) in [
            ("v1", "/old/one"),
            ("v1/blkio", "/old/one"),
            // A cgroup named blkio does not make the hierarchy an old one (v1).
            ("v2", "/new/one"),
        ] {
            let cgroups = Cgroups::new(&fake.path(root));
            assert_eq!(cgroups.path_in(LINES).as_deref(), Some(expected), "{root}");
            assert_eq!(cgroups.path_in("3:cpu:/c\n"), None, "{root}");
        }
        assert_eq!(Cgroups::new(&fake.path("v1")).root, fake.path("v1/blkio"));
        assert_eq!(Cgroups::new(&fake.path("v2")).root, fake.path("v2"));
    }

    /// Do long, deep and strange paths stay within the bounds (C2)?
    #[test]
    fn paths_are_bounded() {
        assert_eq!((bounded("/"), bounded("")), ("/".to_owned(), "/".to_owned()));
        assert_eq!(bounded("//a///b/"), "/a/b");
        assert_eq!(bounded("/a..b/...c"), "/a..b/...c");
        for outside in ["/..", "/../x", "/a/../b", "/a/..", "/./a"] {
            assert_eq!(bounded(outside), "/", "{outside}");
        }
        assert_eq!(bounded(&"/a".repeat(17)), "/a".repeat(16));
        assert_eq!(bounded(&format!("/{}", "x".repeat(1023))).len(), 1024);
        assert_eq!(bounded(&format!("/{}", "x".repeat(1024))), "/");
    }

    /// Is there a weight for each name, and none for the root (C1)?
    #[test]
    fn a_weight_for_each_name() {
        let all = |path| folders(path).collect::<Vec<_>>();
        assert_eq!(all("/"), [""; 0]);
        assert_eq!(all("/a"), ["/a"]);
        assert_eq!(all("/a/bc/d"), ["/a", "/a/bc", "/a/bc/d"]);
        assert_eq!(folders(&"/é".repeat(16)).count(), 16);
    }

    /// Which contents of a weight file are a weight?
    #[test]
    fn texts_of_weights() {
        for (text, weight) in [
            ("100\n", Some(100)),
            ("default 250\n8:16 300\n", Some(250)),
            ("8:16 300\ndefault 7\n", Some(7)),
            ("10000", Some(10_000)),
            ("0\n", None),
            ("10001\n", None),
            ("8:16 300\n", None),
            ("defaults 3\n", None),
            ("", None),
            ("-5\n", None),
        ] {
            assert_eq!(weight_in(text), weight, "{text}");
        }
    }

    /// Which file gives the weight in which version of cgroups, and what if there is none?
    #[test]
    fn files_of_weights() {
        let fake = Fake::new();
        fs::create_dir_all(fake.path("v2/a/b/c")).unwrap();
        fs::create_dir_all(fake.path("v1/a/b/c")).unwrap();
        for (file, text) in [
            ("v2/cgroup.controllers", ""),
            ("v2/a/io.weight", "default 500\n"),
            ("v2/a/b/io.weight", "default 500\n"),
            ("v2/a/b/io.bfq.weight", "default 20\n8:0 9\n"),
            ("v1/a/blkio.weight", "300\n"),
            ("v1/a/b/blkio.bfq.weight", "400\n"),
            // The other version's files do not count.
            ("v2/a/b/c/blkio.weight", "7\n"),
            ("v1/a/b/c/io.weight", "default 7\n"),
        ] {
            fs::write(fake.path(file), text).unwrap();
        }
        let weights =
            |root: &str| Cgroups::new(&fake.path(root)).weights_of("/a/b/c/gone", Instant::now());
        assert_eq!(weights("v2"), [500, 20, 100, 100]);
        assert_eq!(weights("v1"), [300, 400, 100, 100]);
    }

    /// Is a folder looked at once a second, however many callers ask, and a change counted (C3)?
    #[test]
    fn a_look_a_second() {
        let fake = Fake::new();
        fs::create_dir_all(fake.path("cgroups/a/b")).unwrap();
        let weigh = |text: &str| fs::write(fake.path("cgroups/a/blkio.weight"), text).unwrap();
        let mut cgroups = Cgroups::new(&fake.path("cgroups"));
        let start = Instant::now();
        weigh("200");
        assert_eq!(cgroups.weights_of("/a", start), [200]);
        weigh("300");
        assert_eq!(cgroups.weights_of("/a/b", start + TTL / 2), [200, 100]);
        assert_eq!(cgroups.version(), 0);
        assert_eq!(cgroups.weights_of("/a/b", start + TTL), [300, 100]);
        assert_eq!(cgroups.version(), 1);
        // `/a/b` was not half as old as `/a`, and is looked at now.
        assert_eq!(cgroups.weights_of("/a/b", start + TTL * 2), [300, 100]);
        assert_eq!(cgroups.version(), 1);
    }
}
