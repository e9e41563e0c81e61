// SPDX-License-Identifier: MIT OR Apache-2.0
//! Place: a folder that is mounted on by the process that opened it, whatever its path means later.
//!
//! ```text
//! /run/paternoster/disks     settled once, at the start: links are followed then, never again
//!  └─── parent ───┘ └name┘   each later look is for this name in this open folder, no link
//!                   itself   held, too: another folder under its name is refused
//! ```
//!
//! The helper of a server that becomes another user stays root. If it went by path, that user could
//! put a link in the place of the folder, or of one above it, and have root mount elsewhere.
//!
//! If something is mounted on the folder at the start (by a server that is to be taken over, or a
//! dead one), the folder beneath cannot be opened; and the mounted folder must not be held open
//! either, since that would keep it from being unmounted. Then the folder that has the name in
//! `parent` when it is mounted on counts: a user that can rename there may choose another folder in
//! `parent`, and none elsewhere.
//!
//! Invariants: I1 the folder that is mounted on has this name in this parent, is no link, and is
//! the folder of the start if nothing was mounted on that; I2 nothing is unmounted but what
//! [`Place::mount`] has mounted, and dead mounts before it. I2 has two gaps. Unmounting only if it
//! is not in use, and unmounting as a user other than root, works by path alone: another mount that
//! is made on top between look and call is taken for ours. And before Linux 6.8 the number of a
//! mount that has gone can come again.
//!
//! Source: open(2), `O_PATH`; statx(2), `STATX_MNT_ID`; umount(2); proc(5), `fd` and `mountinfo`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::mount;

/// How often a mount whose server has just been killed is looked at, and how long between.
const LOOKS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(10);

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// A number that no other mount ever has (`STATX_MNT_ID_UNIQUE`, Linux 6.8).
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A folder that can be mounted on.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its full name at the start: for people.
    full: PathBuf,
    parent: OwnedFd,
    name: OsString,
    /// The folder, if nothing was mounted on it.
    itself: Option<OwnedFd>,
}

/// Which mount it is, where the kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountId {
    /// As in the table of mounts; when it has gone the next one has it.
    number: Option<u64>,
    unique: Option<u64>,
}

impl Place {
    /// Settles what the path means.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub(crate) fn open(folder: &Path) -> Result<Place, String> {
        let wrong = |error: io::Error| mount::wrong(folder, &error);
        let full = folder.canonicalize().map_err(wrong)?;
        let (Some(above), Some(name)) = (full.parent(), full.file_name()) else {
            return Err(format!("{}: nothing can be mounted there", folder.display()));
        };
        let parent = rustix::fs::open(above, FOLDER, Mode::empty());
        let parent = parent.map_err(|error| wrong(error.into()))?;
        let name = name.to_owned();
        let mut place = Place { full, parent, name, itself: None };
        let there = place.look().map_err(wrong)?;
        place.itself = is_bare(&there).then_some(there);
        Ok(place)
    }

    /// The folder's full path at the start.
    pub(crate) fn full(&self) -> &Path {
        &self.full
    }

    /// Mounts on it: which mount it is, and where the kernel asks.
    ///
    /// # Errors
    /// What is missing or was refused, in words.
    pub(crate) fn mount(&self, others: bool) -> Result<(MountId, OwnedFd), String> {
        let shown = &self.full;
        let wrong = |error: io::Error| mount::wrong(shown, &error);
        let mut there = self.look().map_err(wrong)?;
        if mount::is_dead(&by_handle(&there)) {
            // If this fails, the next access to the folder says so.
            let _still_there = self.detach(there);
            there = self.look().map_err(wrong)?;
        }
        if let Some(itself) = &self.itself
            && file(itself).map_err(wrong)? != file(&there).map_err(wrong)?
        {
            return Err(format!(
                "{}: another folder has this name than at the start",
                shown.display()
            ));
        }
        mount::is_empty(&by_handle(&there), shown)?;
        mount::can_mount()?;
        let device = mount::mount(&by_handle(&there), &by_handle(&self.parent), &self.name, others)
            .map_err(|error| mount::explain(shown, &error, others))?;
        // A folder that is mounted on cannot be renamed: this is what has just come.
        let mounted = self.look().map_err(|error| {
            // Unmounting needs it. As long as it cannot be looked at, what has the name is ours.
            self.detach_by_name();
            wrong(error)
        })?;
        Ok((id_of(&mounted), device))
    }

    /// Unmounts that mount; `detached`: also when it is in use.
    ///
    /// # Errors
    /// The system's error; EBUSY when it is in use, or another mount is on top of it.
    pub(crate) fn unmount(&self, id: MountId, detached: bool) -> io::Result<()> {
        let there = self.look();
        let Some(there) = there.ok().filter(|there| id_of(there) == id) else {
            // It is unmounted already, or covered: then it cannot be reached.
            return if is_in_table(id) { Err(Errno::BUSY.into()) } else { Ok(()) };
        };
        if detached {
            return self.detach(there);
        }
        // Our handle would be a user, too.
        drop(there);
        let path = by_handle(&self.parent).join(&self.name);
        match rustix::mount::unmount(&path, UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
            Err(Errno::PERM) => mount::ask_helper(&by_handle(&self.parent), &self.name, false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Unmounts that mount if its server is dead. The server may still be dying: calls that wait
    /// for it are aborted.
    pub(crate) fn take_away_if_dead(&self, id: MountId) {
        let Some(there) = self.look().ok().filter(|there| id_of(there) == id) else { return };
        for _ in 0..LOOKS {
            let entry = fs::read_dir(by_handle(&there)).and_then(|mut it| it.next().transpose());
            match entry.map_err(|error| error.raw_os_error()) {
                Err(Some(libc::ENOTCONN)) => {
                    // Nothing is left to report.
                    let _still_there = self.detach(there);
                    return;
                }
                Err(Some(libc::ECONNABORTED)) => std::thread::sleep(BETWEEN),
                _ => return,
            }
        }
    }

    /// Opens what has the name now.
    fn look(&self) -> io::Result<OwnedFd> {
        let flags = FOLDER | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())?)
    }

    /// Detaches this mount itself, which minds no open file. For a user that is not root the helper
    /// program does it, by name: what comes on top between look and call is detached instead.
    /// Takes away what has just been mounted and cannot be opened. What it fails with says nothing
    /// new: the folder's name is in the error that led here.
    fn detach_by_name(&self) {
        let (parent, flags) = (by_handle(&self.parent), UnmountFlags::DETACH);
        let by_name =
            rustix::mount::unmount(parent.join(&self.name), flags | UnmountFlags::NOFOLLOW);
        if by_name.is_err() {
            let _asked = mount::ask_helper(&parent, &self.name, true);
        }
    }

    fn detach(&self, there: OwnedFd) -> io::Result<()> {
        match rustix::mount::unmount(by_handle(&there), UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL) => return Ok(()),
            Err(Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
        // While it is open, its number is no other's.
        if self.look().is_ok_and(|now| id_of(&now) == id_of(&there)) {
            return mount::ask_helper(&by_handle(&self.parent), &self.name, true);
        }
        Ok(())
    }
}

/// The path that means an open file, as long as it is open.
fn by_handle(open: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_raw_fd()).into()
}

/// What is known without asking the server of a mounted file system.
fn known(open: impl AsFd, what: StatxFlags) -> io::Result<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(rustix::fs::statx(open, OsStr::new(""), flags, what)?)
}

fn id_of(open: &OwnedFd) -> MountId {
    let of = |what: StatxFlags| {
        let it = known(open, what).ok().filter(|it| it.stx_mask & what.bits() != 0);
        it.map(|it| it.stx_mnt_id)
    };
    MountId { number: of(StatxFlags::MNT_ID), unique: of(UNIQUE) }
}

/// Whether a mount of ours has this number still.
fn is_in_table(id: MountId) -> bool {
    let Some(number) = id.number.map(|number| number.to_string()) else { return false };
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let ours = format!(" - {} ", mount::KIND);
    table.lines().any(|line| line.split(' ').next() == Some(&number) && line.contains(&ours))
}

/// Whether nothing is mounted on it for certain.
fn is_bare(open: &OwnedFd) -> bool {
    known(open, StatxFlags::MNT_ID).is_ok_and(|it| {
        it.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
            && !it.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    })
}

/// Device and inode of an open file.
fn file(open: &OwnedFd) -> io::Result<(u32, u32, u64)> {
    let it = known(open, StatxFlags::INO)?;
    Ok((it.stx_dev_major, it.stx_dev_minor, it.stx_ino))
}
