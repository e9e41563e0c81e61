// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mount: whether a folder can be mounted on, said in words before it is tried; how; and the end.
//!
//! A file system whose process was killed stays in the table of mounts, and everybody who touches
//! it gets "transport endpoint is not connected": such a one is taken away first. For who is in
//! use at the end there is a last resort: to detach, after which the name is free and who still
//! has the file open is told EIO.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fuser::{Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";

/// The folder's full name, if it can be mounted on.
pub(crate) fn check(folder: &Path) -> Result<PathBuf, String> {
    let shown = folder.display();
    let wrong = |error: &io::Error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => format!("{shown}: a dead mount is there; `umount {shown}` helps"),
        Some(libc::ENOENT) => format!("{shown}: there is no such folder; `mkdir {shown}` makes it"),
        Some(libc::ENOTDIR) => format!("{shown}: it is no folder"),
        _ => format!("{shown}: {error}"),
    };
    take_away_the_dead(folder);
    let mut entries = fs::read_dir(folder).map_err(|error| wrong(&error))?;
    if entries.next().is_some() {
        return Err(format!("{shown}: it is not empty; what is in it could not be reached"));
    }
    check_device()?;
    if !rustix::process::geteuid().is_root() && !in_path(HELPER) {
        return Err(format!(
            "only root can mount, or who has {HELPER} (in Debian: apt install fuse3)"
        ));
    }
    folder.canonicalize().map_err(|error| wrong(&error))
}

/// Unmounts what somebody left behind who was killed.
fn take_away_the_dead(at: &Path) {
    let dead = |error: io::Error| error.raw_os_error() == Some(libc::ENOTCONN);
    // What a folder is the kernel remembers of the dead, for as long as it was told to; for what
    // is in it, it has to ask.
    if fs::read_dir(at).is_err_and(dead) {
        // What cannot be taken away is told by whoever looks next.
        let _still_there = unmount(at, true);
    }
}

fn check_device() -> Result<(), String> {
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "{DEVICE} is missing: this kernel has no FUSE, or not yet (`modprobe fuse`); a \
             container must be given it (docker: --device {DEVICE} --cap-add SYS_ADMIN)"
        )),
        Err(error) => Err(format!("{DEVICE}: {error}")),
    }
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// How it is mounted: under this name, for us or for everybody.
pub(crate) fn options(name: &str, others: bool) -> Config {
    let mut options = Config::default();
    options.mount_options = vec![
        MountOption::FSName(name.to_owned()),
        MountOption::Subtype("paternoster".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
        MountOption::NoAtime,
    ];
    options.acl = if others { SessionACL::All } else { SessionACL::Owner };
    options
}

/// What a refused mount means.
pub(crate) fn explain(folder: &Path, error: &io::Error, others: bool) -> String {
    let shown = folder.display();
    let said = error.to_string();
    if error.kind() == ErrorKind::NotFound {
        return format!("{shown}: mounting is not allowed here (no CAP_SYS_ADMIN, no {HELPER})");
    }
    if others && said.contains("user_allow_other") {
        return format!(
            "{shown}: for other users than root, --allow-other needs a line user_allow_other in \
             /etc/fuse.conf"
        );
    }
    format!("{shown}: it cannot be mounted: {}", said.trim_end())
}

/// Unmounts; `detached`: also when somebody is in it.
///
/// # Errors
/// What the system said; EBUSY when somebody is in it.
pub(crate) fn unmount(folder: &Path, detached: bool) -> io::Result<()> {
    let flags = if detached { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(folder, flags | UnmountFlags::NOFOLLOW) {
        // Or somebody else has done it.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::PERM) => ask_helper(folder, detached),
        Err(errno) => Err(errno.into()),
    }
}

/// Who is not root has mounted through a helper, and unmounts through it.
fn ask_helper(folder: &Path, detached: bool) -> io::Result<()> {
    let mut command = Command::new(HELPER);
    command.arg("-u").arg("-q").args(detached.then_some("-z")).arg("--").arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It says why in words only; nearly always somebody is in it.
    if command.status()?.success() { Ok(()) } else { Err(ErrorKind::ResourceBusy.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::private_folder::PrivateFolder;

    /// Does who cannot mount learn what would be right?
    #[test]
    fn what_is_wrong_is_said() {
        let folder = PrivateFolder::new("paternoster-test").unwrap();
        let missing = folder.path().join("missing");
        assert!(check(&missing).unwrap_err().contains("mkdir"));
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(check(&file).unwrap_err().ends_with("it is no folder"));
        assert!(check(folder.path()).unwrap_err().contains("not empty"));
        fs::remove_file(&file).unwrap();
        let refused = io::Error::from(ErrorKind::NotFound);
        assert!(explain(&file, &refused, false).contains("CAP_SYS_ADMIN"));
    }

    /// Is unmounting what is not mounted no failure?
    #[test]
    fn what_is_not_mounted_is_unmounted() {
        let folder = PrivateFolder::new("paternoster-test").unwrap();
        // Who is not root asks the helper, which has its own opinion.
        if rustix::process::geteuid().is_root() {
            unmount(folder.path(), false).unwrap();
        }
        unmount(&folder.path().join("missing"), true).unwrap_or_default();
    }
}
