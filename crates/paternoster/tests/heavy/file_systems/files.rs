// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files whose content follows from a number, so that it can be checked without a copy.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// This many bytes, different for every number.
pub(crate) fn content(number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        // xorshift64: quick, and no two blocks are alike.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        all.extend(state.to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// Bytes of the file with this number: from none to 512 KiB, of all magnitudes.
fn size(number: u64) -> usize {
    let magnitude = number % 20;
    let odd = usize::try_from(number.wrapping_mul(7919) % 1000).expect("small");
    if magnitude == 0 { 0 } else { (1 << magnitude) + odd }
}

/// What should be in a folder.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Tree {
    /// Puts `files` files into folders below `root` and then does to them what people do: each
    /// third is removed, each fifth renamed, each seventh written to in its middle.
    ///
    /// Twenty sizes in turn, 2 + 4 + … + 2^19 bytes and some, are 1 MiB: 400 files are 20 MiB.
    pub(crate) fn grow(root: &Path, files: u64) -> Tree {
        let mut tree = Tree::default();
        for number in 0..files {
            let name = PathBuf::from(format!("folder-{}/file-{number}", number % 9));
            fs::create_dir_all(root.join(&name).parent().expect("a folder")).expect("a folder");
            let bytes = content(number, size(number));
            fs::write(root.join(&name), &bytes).expect("room for a file");
            tree.files.insert(name, bytes);
        }
        for number in 0..files {
            let name = PathBuf::from(format!("folder-{}/file-{number}", number % 9));
            if number % 3 == 0 {
                fs::remove_file(root.join(&name)).expect("a file");
                tree.files.remove(&name);
            } else if number % 5 == 0 {
                let other = PathBuf::from(format!("folder-{}/renamed-{number}", (number + 1) % 9));
                fs::rename(root.join(&name), root.join(&other)).expect("a file");
                let bytes = tree.files.remove(&name).expect("known");
                tree.files.insert(other, bytes);
            } else if number % 7 == 0 {
                tree.patch(root, &name, number);
            }
        }
        tree
    }

    fn patch(&mut self, root: &Path, name: &Path, number: u64) {
        let bytes = self.files.get_mut(name).expect("known");
        let patch = content(number + 1_000_000, 5000.min(bytes.len() / 2));
        let at = bytes.len() / 2;
        let file = File::options().write(true).open(root.join(name)).expect("a file");
        file.write_all_at(&patch, at as u64).expect("room");
        bytes[at..at + patch.len()].copy_from_slice(&patch);
    }

    /// Fails if the folder holds other files than these, or other bytes.
    pub(crate) fn check(&self, root: &Path) {
        let mut found = Vec::new();
        for folder in 0..9 {
            let entries = fs::read_dir(root.join(format!("folder-{folder}"))).expect("a folder");
            found.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        found.sort();
        let wanted: Vec<PathBuf> = self.files.keys().map(|name| root.join(name)).collect();
        assert_eq!(found, wanted);
        for (name, bytes) in &self.files {
            assert!(fs::read(root.join(name)).expect("a file") == *bytes, "{}", name.display());
        }
    }
}

/// Writes files until there is no room, and returns how many fitted: a full disk is no error.
pub(crate) fn fill_up(root: &Path) -> u64 {
    let folder = root.join("filler");
    fs::create_dir(&folder).expect("a folder");
    for number in 0.. {
        let name = folder.join(number.to_string());
        let written = File::create(&name).and_then(|mut file| {
            file.write_all(&content(number, 1 << 20))?;
            file.sync_all()
        });
        if let Err(error) = written {
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
            let _was_never_made = fs::remove_file(name);
            return number;
        }
    }
    unreachable!("a disk has an end")
}

/// Fails unless the files of `fill_up` hold what they should.
pub(crate) fn check_full(root: &Path, files: u64) {
    for number in 0..files {
        let found = fs::read(root.join("filler").join(number.to_string())).expect("a file");
        assert!(found == content(number, 1 << 20), "filler {number}");
    }
}
