// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts: a folder that the kernel asks us for, from start to end.
//!
//! A server that was killed leaves a folder behind of which every use fails with "Transport
//! endpoint is not connected": whoever comes next takes that away first. At the end a folder that
//! somebody still uses goes out of sight at once, and away with its last user.
//!
//! Invariant: after [`Mounted::end`], or a panic, nobody finds the folder's files there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fuser::{BackgroundSession, Filesystem, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};

/// A folder that is mounted.
#[derive(Debug)]
pub(crate) struct Mounted {
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts at a folder that is there; the kernel's questions are answered on a thread.
    ///
    /// # Errors
    /// What is missing or was refused, in words.
    pub(crate) fn start(
        files: impl Filesystem,
        at: &Path,
        allow_other: bool,
    ) -> Result<Mounted, String> {
        let shown = at.display();
        take_away_the_dead(at);
        let told = fs::metadata(at).map_err(|error| format!("{shown}: {error}"))?;
        if !told.is_dir() {
            return Err(format!("{shown}: not a folder that could be mounted on"));
        }
        let mut options = fuser::Config::default();
        options.mount_options = vec![
            MountOption::FSName("paternoster".to_owned()),
            MountOption::Subtype("paternoster".to_owned()),
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoExec,
            MountOption::NoAtime,
            MountOption::DefaultPermissions,
        ];
        options.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
        let session = Session::new(files, at, &options)
            .and_then(Session::spawn)
            .map_err(|error| format!("{shown}: {}", why(&error)))?;
        Ok(Mounted { at: at.to_owned(), session: Some(session) })
    }

    /// Unmounts it, and waits until the last question was answered if nobody uses it.
    ///
    /// # Errors
    /// Somebody does; or it could not be taken away.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), String> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let shown = self.at.display();
        match unmount(&self.at, UnmountFlags::empty()) {
            Ok(()) => session.join().map_err(|error| format!("{shown}: {error}")),
            Err(rustix::io::Errno::BUSY) => {
                // It goes with its last user; the thread that serves it then ends by itself.
                let gone = unmount(&self.at, UnmountFlags::DETACH);
                std::mem::forget(session);
                gone.map_err(|error| format!("{shown}: {error}"))?;
                Err(format!("{shown}: somebody still uses its files, which fail from now on"))
            }
            // Not ours to unmount: fusermount3 may.
            Err(_) => session.umount_and_join().map_err(|error| format!("{shown}: {error}")),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Whoever wants to know calls `end`.
        let _result = self.take_down();
    }
}

/// Unmounts what a server left behind that was killed.
pub(crate) fn take_away_the_dead(at: &Path) {
    let dead = |error: io::Error| error.raw_os_error() == Some(libc::ENOTCONN);
    if fs::metadata(at).is_err_and(dead) {
        // What cannot be taken away is told by the mount itself.
        let _still_there = unmount(at, UnmountFlags::DETACH);
    }
}

/// Why a mount was refused, in words that help.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if !Path::new("/dev/fuse").exists() => {
            "there is no /dev/fuse: this kernel has no FUSE, or its module is not loaded".to_owned()
        }
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => format!(
            "it cannot be mounted on: {error}; that takes root, or fusermount3 (package fuse3)"
        ),
        _ => format!("it cannot be mounted on: {error}"),
    }
}
