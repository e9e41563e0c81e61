// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mount: whether a folder can be mounted on, said in words before it is tried; how; and the end.
//!
//! A file system whose process was killed stays in the table of mounts, and every use of it fails
//! with "transport endpoint is not connected": such a mount is taken away first. A mount that is
//! still in use at the end is detached, as a last resort: the name is free then, and a process that
//! still has a file open gets EIO.

use std::ffi::{CString, OsStr};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fuser::{Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// What the table of mounts says, and the kind of file system.
const NAME: &str = "paternoster";
pub(super) const KIND: &str = "fuse.paternoster";

/// The folder's full name, if it can be mounted on.
pub(crate) fn check(folder: &Path) -> Result<PathBuf, String> {
    if is_dead(folder) {
        // If this fails, the next access to the folder says so.
        let _still_there = unmount(folder, true);
    }
    is_empty(folder, folder)?;
    can_mount()?;
    folder.canonicalize().map_err(|error| wrong(folder, &error))
}

/// The message for a folder that cannot be looked at.
pub(super) fn wrong(folder: &Path, error: &io::Error) -> String {
    let shown = folder.display();
    match error.raw_os_error() {
        Some(libc::ENOTCONN) => format!("{shown}: a dead mount is there; `umount {shown}` helps"),
        Some(libc::ENOENT) => format!("{shown}: there is no such folder; `mkdir {shown}` makes it"),
        Some(libc::ENOTDIR) => format!("{shown}: it is no folder"),
        _ => format!("{shown}: {error}"),
    }
}

/// Whether a server that was killed has left a mount behind.
pub(super) fn is_dead(at: &Path) -> bool {
    // The kernel still answers from its cache what a dead mount's folder is; for what is in the
    // folder it has to ask the server. If the server of the mount dies meanwhile, the kernel aborts
    // the call.
    let dead = [Some(libc::ENOTCONN), Some(libc::ECONNABORTED)];
    fs::read_dir(at).is_err_and(|error| dead.contains(&error.raw_os_error()))
}

/// Complains about a folder, called `shown`, that is not empty.
pub(super) fn is_empty(folder: &Path, shown: &Path) -> Result<(), String> {
    let mut entries = fs::read_dir(folder).map_err(|error| wrong(shown, &error))?;
    if entries.next().is_none() {
        return Ok(());
    }
    let shown = shown.display();
    Err(format!("{shown}: it is not empty; what is in it could not be reached"))
}

/// Complains about what is missing to mount anywhere.
pub(super) fn can_mount() -> Result<(), String> {
    check_device()?;
    if !rustix::process::geteuid().is_root() && !in_path(HELPER) {
        return Err(format!("only root can mount without {HELPER} (in Debian: apt install fuse3)"));
    }
    Ok(())
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

/// How it is mounted: under this name, for this user or for all users.
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

/// What a refused mount means, for the user.
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

/// Mounts on a folder, by ourselves or by the helper program, which is told its name within another
/// one: where the kernel asks. (`fuser` can do it, too, but waits for the first question then,
/// which another process is to answer.)
///
/// # Errors
/// What the system or the program said.
pub(super) fn mount(
    folder: &Path,
    parent: &Path,
    name: &OsStr,
    others: bool,
) -> io::Result<OwnedFd> {
    let device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        uid.as_raw(),
        gid.as_raw()
    );
    if others {
        data += ",allow_other";
    }
    let data = CString::new(data)?;
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NOATIME;
    match rustix::mount::mount(NAME, folder, KIND, flags, &*data) {
        Ok(()) => Ok(device.into()),
        Err(Errno::PERM) => mount_by_helper(parent, name, others),
        Err(errno) => Err(errno.into()),
    }
}

/// It opens the device, mounts, and sends the device through the socket that it is told of.
fn mount_by_helper(parent: &Path, name: &OsStr, others: bool) -> io::Result<OwnedFd> {
    let (ours, its) = UnixStream::pair()?;
    let mut options = format!("fsname={NAME},subtype={NAME},default_permissions");
    options += ",nodev,nosuid,noexec,noatime";
    if others {
        options += ",allow_other";
    }
    let mut command = Command::new(HELPER);
    command.current_dir(parent).arg("-o").arg(options).arg("--").arg(name);
    command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(OwnedFd::from(its)));
    let output = command.stdout(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    // It has ended: what it has sent is there, and its side of the socket goes with the command.
    drop(command);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let slices = &mut [IoSliceMut::new(&mut byte)];
    recvmsg(&ours, slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let found = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut found) => found.next(),
        _ => None,
    });
    found.ok_or_else(|| io::Error::other(format!("{HELPER} has sent no file")))
}

/// Unmounts; `detached`: also when it is in use.
///
/// # Errors
/// The system's error; EBUSY when it is in use.
pub(crate) fn unmount(folder: &Path, detached: bool) -> io::Result<()> {
    let flags = if detached { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(folder, flags | UnmountFlags::NOFOLLOW) {
        // INVAL and NOENT: it is unmounted already.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(Errno::PERM) => ask_helper(Path::new("."), folder.as_os_str(), detached),
        Err(errno) => Err(errno.into()),
    }
}

/// A server that is not root has mounted through a helper, and unmounts through it; it is told a
/// name within a folder.
pub(super) fn ask_helper(parent: &Path, name: &OsStr, detached: bool) -> io::Result<()> {
    let mut command = Command::new(HELPER);
    command.current_dir(parent);
    command.arg("-u").arg("-q").args(detached.then_some("-z")).arg("--").arg(name);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It says why in words only; nearly always it is in use.
    if command.status()?.success() { Ok(()) } else { Err(ErrorKind::ResourceBusy.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::private_folder::PrivateFolder;

    /// Does a user that cannot mount learn what would be right?
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
        // A user other than root asks the helper, which decides for itself.
        if rustix::process::geteuid().is_root() {
            unmount(folder.path(), false).unwrap();
        }
        unmount(&folder.path().join("missing"), true).unwrap_or_default();
    }
}
