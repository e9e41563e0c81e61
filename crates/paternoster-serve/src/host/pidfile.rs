// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pidfile: the server's number, there while it serves.
//!
//! The file is locked as long as its server lives. The lock goes with the process however it ends,
//! so that a number left by a killed server, or since given to another process, blocks no new
//! server. A file that holds anything but a number is not ours and is left alone.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::ours::Ours;

/// A pidfile's text is shorter: a number and the end of its line.
const TEXT_BYTES: u64 = 32;
/// Another server may remove the file between our opening and locking it, but not for ever.
const TRIES: usize = 10;

/// A pidfile, held.
#[derive(Debug)]
pub struct Pidfile {
    path: PathBuf,
    file: File,
    ours: Ours,
}

impl Pidfile {
    /// Writes this process's number into the file at `path`.
    ///
    /// # Errors
    /// Another server holds it, or it is not a pidfile, or what the system said.
    pub fn write(path: &Path) -> Result<Pidfile, String> {
        let told = |why: String| format!("pidfile {}: {why}", path.display());
        for _ in 0..TRIES {
            let mut file = open(path).map_err(|error| told(error.to_string()))?;
            let mut text = String::new();
            let read = (&mut file).take(TEXT_BYTES).read_to_string(&mut text);
            let number = text.trim();
            if read.is_err() || !(number.is_empty() || number.parse::<u32>().is_ok()) {
                return Err(told(
                    "there is a file that holds no process number; remove it or \
                                 choose another path"
                        .to_owned(),
                ));
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let who = if number.is_empty() { "?" } else { number };
                    return Err(told(format!(
                        "process {who} holds it and is alive; stop it first"
                    )));
                }
                Err(error) => return Err(told(error.to_string())),
            }
            let held = Pidfile { path: path.to_owned(), file, ours: Ours::default() };
            if held.is_in_place() {
                held.fill().map_err(|error| told(error.to_string()))?;
                return Ok(held);
            }
            // The path is another's file by now: once more.
        }
        Err(told("others remove it as fast as it is made".to_owned()))
    }

    /// The pidfile of a process that this one takes over from: written once it is ours.
    pub(crate) fn taken(path: &Path, file: OwnedFd, ours: &Ours) -> Pidfile {
        Pidfile { path: path.to_owned(), file: file.into(), ours: ours.clone() }
    }

    /// Another process holds it from now on.
    pub(crate) fn leave(&self) {
        self.ours.set(false);
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file is ours now: writes the number of this process.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn fill(&self) -> std::io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    }

    /// Whether the path still leads to the file that is open.
    fn is_in_place(&self) -> bool {
        let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
        let at_path = std::fs::symlink_metadata(&self.path).map(identity);
        let open = self.file.metadata().map(identity);
        matches!((at_path, open), (Ok(one), Ok(other)) if one == other)
    }
}

/// No link is followed: in a folder that all may write to it could lead anywhere.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o644).custom_flags(flags).open(path)
}

impl AsFd for Pidfile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        if self.ours.is() && self.is_in_place() && std::fs::remove_file(&self.path).is_err() {
            // Another user by now, who may not change the folder; the open file is still ours.
            let _emptied = self.file.set_len(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    /// Is the number there while it is held, refused to a second server, and gone afterwards?
    #[test]
    fn held_and_gone() {
        let scratch = Scratch::new();
        let path = scratch.path("pid");
        let held = Pidfile::write(&path).unwrap();
        let own = std::process::id();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{own}\n"));
        let refusal = Pidfile::write(&path).unwrap_err();
        assert!(refusal.ends_with(&format!("process {own} holds it and is alive; stop it first")));
        drop(held);
        assert!(!path.exists());
    }

    /// Is a killed server's file taken over, and a file of another kind left alone?
    #[test]
    fn what_is_there_already() {
        let scratch = Scratch::new();
        let path = scratch.path("pid");
        std::fs::write(&path, "99999999\n").unwrap();
        drop(Pidfile::write(&path).unwrap());
        std::fs::write(&path, "root:x:0:0\n").unwrap();
        let refusal = Pidfile::write(&path).unwrap_err();
        assert!(refusal.contains("holds no process number"), "{refusal}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "root:x:0:0\n");
        let link = scratch.path("link");
        std::os::unix::fs::symlink(scratch.path("target"), &link).unwrap();
        assert!(Pidfile::write(&link).is_err());
        assert!(!scratch.path("target").exists());
    }

    /// Is a file that has replaced it left alone?
    #[test]
    fn only_its_own_is_removed() {
        let scratch = Scratch::new();
        let path = scratch.path("pid");
        let held = Pidfile::write(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(held);
        assert!(path.exists());
    }
}
