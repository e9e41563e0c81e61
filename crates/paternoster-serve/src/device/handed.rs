// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handed: the open files of another process's volumes, which serves them until now.
//!
//! ```text
//! path ──open──▶ our own description ── the same file, opened in the same way? ──▶ theirs instead
//! ```
//!
//! The kernel reports a failed write-back once to each open description of a file. With the other
//! process's descriptions, errors not yet reported come here, and those reported already come as a
//! number. A file that is to be opened otherwise (another access, O_DIRECT or not) has a
//! description of its own for data; flushes have theirs in any case, which nothing but flushes
//! uses.
//!
//! Invariant: nothing is changed of a description that another process still works with.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::{OFlags, fcntl_getfl};

use super::calls::{Calls, Descriptors};
use super::files::File;
use super::identity::{Thing, thing_of};
use crate::locked::locked;

/// A volume's file, to be handed over.
#[derive(Debug, Clone)]
pub struct Giving {
    pub(super) calls: Arc<dyn Calls>,
    /// The errno of a flush that has failed, 0 if none has.
    pub(crate) lost: i32,
}

impl Giving {
    /// The descriptor's number, for a ring.
    #[cfg(test)]
    pub(crate) fn raw(&self) -> std::os::fd::RawFd {
        self.calls.raw()[0]
    }

    /// Its descriptors: for data, and for flushes if those have their own.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.calls.descriptors()
    }
}

/// The files of which another process knows that a flush has failed.
///
/// By identity: while it gets ready a reload may remove one of them, and a flush of another may
/// fail, so that there are as many as before. A file that was closed is in none of these.
#[derive(Debug, Default)]
pub(crate) struct KnownLosses(Vec<Weak<dyn Calls>>);

impl KnownLosses {
    /// The state that goes with these files to another process.
    pub(crate) fn told(files: &[Giving]) -> KnownLosses {
        let lost = files.iter().filter(|file| file.lost != 0);
        KnownLosses(lost.map(|file| Arc::downgrade(&file.calls)).collect())
    }

    /// Whether no flush has failed besides.
    pub(crate) fn are_all(&self, files: &[Giving]) -> bool {
        let is_known = |file: &Giving| {
            let own = Arc::downgrade(&file.calls);
            self.0.iter().any(|known| known.ptr_eq(&own))
        };
        files.iter().filter(|file| file.lost != 0).all(is_known)
    }
}

/// A volume's file that was handed over.
#[derive(Debug)]
struct Given {
    thing: Thing,
    data: OwnedFd,
    for_flushes: Option<OwnedFd>,
    lost: i32,
}

/// Descriptors that were handed over and are not in use.
#[derive(Debug, Default)]
pub(crate) struct Handed(Mutex<Vec<Given>>);

impl Handed {
    /// Adds a file: its descriptor for data, one for flushes, and the errno of a flush that has
    /// failed.
    pub(crate) fn add(&self, mut fds: Vec<OwnedFd>, lost: i32) {
        let Some(thing) = fds.first().and_then(|fd| thing_of(fd.as_fd())) else { return };
        let for_flushes = if fds.len() > 1 { fds.pop() } else { None };
        let Some(data) = fds.pop() else { return };
        locked(&self.0).push(Given { thing, data, for_flushes, lost });
    }

    /// Puts in place of what was opened what was handed over, as far as it is the same.
    pub(super) fn put_into(&self, file: File) -> File {
        let Some(&own) = file.calls.descriptors().first() else { return file };
        let mut all = locked(&self.0);
        let found = thing_of(own);
        let is_same =
            |given: &Given| found == Some(given.thing) && writes(own) == writes(given.data.as_fd());
        let Some(place) = all.iter().position(is_same) else { return file };
        let Given { data, for_flushes, lost, .. } = all.swap_remove(place);
        let data = match own.try_clone_to_owned() {
            Ok(again) if way(own) != way(data.as_fd()) => again,
            _ => data,
        };
        let calls: Arc<dyn Calls> = Arc::new(Descriptors { data, for_flushes });
        file.of_another(calls, lost)
    }
}

/// Whether it may be written to.
fn writes(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::RDWR))
}

/// The flags with which it was opened.
fn way(fd: BorrowedFd<'_>) -> Option<OFlags> {
    Some(fcntl_getfl(fd).ok()? & (OFlags::DIRECT | OFlags::RDWR))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::config::Direct;
    use crate::device::system::System;

    fn open(path: &Path, readonly: bool) -> File {
        File::open(&System::default(), path, Direct::No, readonly).expect("it is there")
    }

    struct Temporary(std::path::PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    /// Is a failed flush noticed that the other process does not know of, even if the number of
    /// files with a failed flush is the same as before, since a reload has removed one of them?
    #[test]
    fn losses_are_compared_by_file() {
        let folder = Temporary(
            std::env::temp_dir().join(format!("paternoster-losses-{}", std::process::id())),
        );
        fs::create_dir(&folder.0).unwrap();
        let giving = |name: &str, lost| {
            let path = folder.0.join(name);
            fs::write(&path, [0; 512]).unwrap();
            let file = open(&path, false);
            Giving { calls: Arc::clone(&file.calls), lost }
        };
        let [one, mut two] = [giving("one", libc::EIO), giving("two", 0)];
        let known = KnownLosses::told(&[one.clone(), two.clone()]);
        assert!(known.are_all(&[one.clone(), two.clone()]));
        assert!(known.are_all(&[two.clone()]), "a reload has removed it");
        two.lost = libc::EIO;
        assert!(!known.are_all(&[one.clone(), two.clone()]));
        drop(one);
        assert!(!known.are_all(&[two.clone()]), "one as before, and another one");
        let again = giving("one", libc::EIO);
        assert!(!known.are_all(&[again]), "a file of the same name, opened anew");
    }

    /// Is a descriptor that was handed over used instead of the newly opened one, if it is the same
    /// file and open for writing, too? Does a failed flush stay failed, and is another file left
    /// alone?
    #[test]
    fn the_same_file_is_taken() {
        let folder = Temporary(
            std::env::temp_dir().join(format!("paternoster-handed-{}", std::process::id())),
        );
        fs::create_dir(&folder.0).unwrap();
        for name in ["one", "other"] {
            fs::write(folder.0.join(name), vec![0; 4096]).unwrap();
        }
        let open = |name: &str, readonly| open(&folder.0.join(name), readonly);
        let handed = Handed::default();
        let theirs = open("one", false);
        let fds = theirs.calls.descriptors();
        let fds = fds.iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
        handed.add(fds, libc::EIO);
        let is_theirs = |file: &File| {
            fcntl_getfl(file.calls.descriptors()[0]).unwrap().contains(OFlags::APPEND)
        };
        // A flag of the description shows which one it is.
        rustix::fs::fcntl_setfl(theirs.calls.descriptors()[0], OFlags::APPEND).unwrap();
        let other = handed.put_into(open("other", false));
        assert!(!is_theirs(&other));
        assert!(!is_theirs(&handed.put_into(open("one", true))), "it is not to be written");
        let one = handed.put_into(open("one", false));
        assert!(is_theirs(&one));
        assert_eq!(one.durability.is_not_lost(), Err(libc::EIO));
        assert!(other.durability.is_not_lost().is_ok());
        assert!(!is_theirs(&handed.put_into(open("one", false))), "once");
    }
}
