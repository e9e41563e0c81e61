// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lock: checks which other programs use an image, by qemu's convention.
//!
//! The kernel's locks on open files (`F_OFD_SETLK`) are on single bytes, whatever their content;
//! each byte means a right. All of them are read locks, so that many may hold the same one; one
//! *asks* whether a write lock would get through.
//!
//! ```text
//! byte   100    101    103            200    201    203
//!        reads  writes resizes        minds  minds  minds, if others do that
//!
//!        takes its own bytes, then asks: does anybody mind what I do? do what I mind?
//! ```
//!
//! Invariant: of two that cannot live together at least one sees the other, because each takes
//! first and asks afterwards. Both may see each other, and both give up.
//!
//! | | does | minds that others |
//! |---|---|---|
//! | a writer | reads, writes | write, resize |
//! | a reader | reads | write, resize |
//! | either of them, shared | the same | resize |
//!
//! Block devices have two more: the kernel's own (`O_EXCL`: mounts, swap, mkfs, and a second server
//! under whatever name), and udev's convention: a program that changes what a whole disk holds has
//! `flock` on it, exclusively. We have it shared, so that such a program waits and udev itself does
//! not.
//!
//! Source: qemu's documentation of image locking; its bytes as `/proc/locks` of qemu-io and
//! qemu-nbd 7.2 shows them (`tests/all/owners.rs` asks them again); systemd.io, "Locking Block
//! Device Access".

use std::io;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::system::OpenFile;

/// First of the bytes whose locks state what a process does.
const DOES: i64 = 100;
/// First of the bytes whose locks state what it does not tolerate.
const MINDS: i64 = 200;
/// Rights, as offsets from these two.
const READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;

/// How a process uses an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    /// The process writes to it.
    pub writes: bool,
    /// Others may write to it at the same time.
    pub shared: bool,
}

/// Why it was not locked.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Another program has it: what is in the way, in words.
    Taken(String),
    /// The file system cannot lock.
    Unable(io::Error),
}

impl Use {
    /// The least use, which every other one includes.
    pub(super) const LEAST: Use = Use { writes: false, shared: true };

    fn does(self) -> &'static [i64] {
        if self.writes { &[READ, WRITE] } else { &[READ] }
    }

    fn minds(self) -> &'static [i64] {
        if self.shared { &[RESIZE] } else { &[WRITE, RESIZE] }
    }

    /// The use that includes both.
    pub(super) const fn and(self, other: Use) -> Use {
        Use { writes: self.writes || other.writes, shared: self.shared && other.shared }
    }

    /// The bytes that are locked for it.
    fn bytes(self) -> impl Iterator<Item = i64> {
        let does = self.does().iter().map(|right| DOES + right);
        does.chain(self.minds().iter().map(|right| MINDS + right))
    }
}

/// Takes the locks of this use and checks whether others conflict; conflicts are returned, and the
/// locks stay.
pub(super) fn take(file: &dyn OpenFile, wanted: Use) -> Result<(), Refusal> {
    for byte in wanted.bytes() {
        match call(file, libc::F_OFD_SETLK, libc::F_RDLCK, byte) {
            Ok(_) => {}
            // A program with a write lock there does not follow the convention, and wants to be
            // alone.
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Err(Refusal::Taken(holder(file, "an exclusive lock")));
            }
            Err(errno) => return Err(Refusal::Unable(errno.into())),
        }
    }
    ask(file, wanted)
}

/// Gives back what was taken by this descriptor, also where a child that has not yet become another
/// program has it, too.
pub(super) fn give_back(file: &dyn OpenFile) {
    // All bytes, as 0 means to the end of what there can be. If this fails, closing the descriptor
    // releases the lock.
    let _gone = file.lock(libc::F_OFD_SETLK, libc::F_UNLCK, 0, 0);
    let _gone = file.lock_all(FlockOperation::Unlock);
}

/// Gives back what this use does not need.
pub(super) fn give_back_all_but(file: &dyn OpenFile, wanted: Use) {
    let all = Use { writes: true, shared: false };
    for byte in all.bytes().filter(|byte| wanted.bytes().all(|kept| kept != *byte)) {
        // If this fails, closing the descriptor releases the lock.
        let _gone = file.lock(libc::F_OFD_SETLK, libc::F_UNLCK, byte, 1);
    }
}

/// Checks whether others conflict with this use.
pub(super) fn ask(file: &dyn OpenFile, wanted: Use) -> Result<(), Refusal> {
    #[cfg(test)]
    if crate::device_loop::planted::has(crate::device_loop::planted::Bug::LocksNothing) {
        return Ok(());
    }
    let taken = |byte| {
        let found = call(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte);
        found.map(|found| found != libc::F_UNLCK).map_err(|errno| Refusal::Unable(errno.into()))
    };
    for right in wanted.minds() {
        if taken(DOES + right)? {
            let what = if *right == WRITE { "it open to write" } else { "the right to resize it" };
            return Err(Refusal::Taken(holder(file, what)));
        }
    }
    for right in wanted.does() {
        if taken(MINDS + right)? {
            let what = if *right == WRITE { "it for itself to write" } else { "it for itself" };
            return Err(Refusal::Taken(holder(file, what)));
        }
    }
    Ok(())
}

/// One call on one byte; the kind of lock that was found there.
fn call(file: &dyn OpenFile, command: i32, kind: i32, byte: i64) -> Result<i32, Errno> {
    file.lock(command, kind, byte, 1)
}

/// Whether this process alone changes what the whole disk holds, as udev's convention has it.
pub(super) fn take_disk(file: &dyn OpenFile) -> Result<(), Refusal> {
    match file.lock_all(FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let what = "flock on it: it changes what is on the disk";
            Err(Refusal::Taken(holder(file, what)))
        }
        Err(errno) => Err(Refusal::Unable(errno.into())),
    }
}

/// `qemu-nbd (process 4711) has WHAT`, or another process, as far as /proc shows.
fn holder(file: &dyn OpenFile, what: &str) -> String {
    let who = file.holder().unwrap_or_else(|| "another program".to_owned());
    format!("{who} has {what}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::device::system::kernel::handle;

    struct Temporary(PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _gone = fs::remove_file(&self.0);
        }
    }

    const ALL: [Use; 4] = [
        Use { writes: false, shared: false },
        Use { writes: true, shared: false },
        Use { writes: false, shared: true },
        Use { writes: true, shared: true },
    ];

    /// Which two may coexist? Two writers only if both share; a writer with a reader only if the
    /// reader shares (a writer does not mind readers); readers always. In either order, and also
    /// for a mere check; and nothing is left when one has gone.
    #[test]
    fn a_table_of_two() {
        let name = format!("paternoster-lock-{}", std::process::id());
        let path = Temporary(std::env::temp_dir().join(name));
        fs::write(&path.0, "").unwrap();
        let open = || handle(fs::File::open(&path.0).unwrap().into());
        for first in ALL {
            for second in ALL {
                let minds = |one: Use, other: Use| !one.shared && other.writes;
                let together = !minds(first, second) && !minds(second, first);
                let (one, other) = (open(), open());
                assert!(take(&*one, first).is_ok(), "{first:?}: nobody is there");
                assert_eq!(ask(&*other, second).is_ok(), together, "{first:?} {second:?}");
                assert_eq!(take(&*other, second).is_ok(), together, "{first:?} {second:?}");
                // Not by closing alone: a child of another test has them, too, until it is another
                // program.
                give_back(&*one);
                give_back(&*other);
                assert!(ask(&*open(), ALL[1]).is_ok(), "both have gone");
            }
        }
    }

    /// Is a plain write lock on all of the file (of a program that knows nothing of bytes) noticed?
    #[test]
    fn a_strange_lock() {
        let name = format!("paternoster-lock-strange-{}", std::process::id());
        let path = Temporary(std::env::temp_dir().join(name));
        fs::write(&path.0, "").unwrap();
        let strange = fs::File::options().write(true).open(&path.0).unwrap();
        let strange = handle(strange.into());
        for byte in DOES..DOES + 4 {
            call(&*strange, libc::F_OFD_SETLK, libc::F_WRLCK, byte).unwrap();
        }
        for wanted in ALL {
            let own = handle(fs::File::open(&path.0).unwrap().into());
            assert!(matches!(take(&*own, wanted), Err(Refusal::Taken(_))), "{wanted:?}");
        }
    }
}
