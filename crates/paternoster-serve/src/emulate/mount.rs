// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mount: whether a folder can be mounted on, said in words before it is tried; and unmounting.
//!
//! A file system whose process is gone stays in the table of mounts until somebody removes it, and
//! everybody who touches it gets "transport endpoint is not connected". So unmounting has a last
//! resort: to detach, after which the name is free and who still has the file open is told EIO.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";

/// The folder's full name, if it can be mounted on.
pub(super) fn check(folder: &Path) -> Result<PathBuf, String> {
    let shown = folder.display();
    let wrong = |error: &io::Error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => {
            format!("{shown}: a dead mount is left there; `umount {shown}` removes it")
        }
        Some(libc::ENOENT) => format!("{shown}: there is no such folder; `mkdir {shown}` makes it"),
        Some(libc::ENOTDIR) => format!("{shown}: it is no folder"),
        _ => format!("{shown}: {error}"),
    };
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

/// What a refused mount means.
pub(super) fn explain(folder: &Path, error: &io::Error, others: bool) -> String {
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
pub(super) fn unmount(folder: &Path, detached: bool) -> io::Result<()> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let flags = libc::UMOUNT_NOFOLLOW | if detached { libc::MNT_DETACH } else { 0 };
    // SAFETY: the path is a text with its end, which outlives the call.
    if unsafe { libc::umount2(path.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Somebody else has done it.
        Some(libc::EINVAL | libc::ENOENT) => Ok(()),
        Some(libc::EPERM) => ask_helper(folder, detached),
        _ => Err(error),
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
