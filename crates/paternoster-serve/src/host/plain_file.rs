// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain files: what is written at a path that a client or another user may have prepared.
//!
//! ```text
//! path ── a link? a pipe? a device? ──▶ refused, untouched
//!      ── ours, with one name ────────▶ emptied
//!      ── nothing there ──────────────▶ made, mode 0600
//! ```
//!
//! Links among the folders on the way are followed: `/var/run` is one everywhere.
//!
//! Invariant: nothing is changed before it is known to be a plain file of ours with one name.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::sandbox;

/// Opens an empty file for writing; the error names it.
///
/// # Errors
/// It is a link, no plain file, another user's or has several names; or what the system said.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let named = |why: &str| io::Error::other(format!("{}: {why}", path.display()));
    let told = |error: io::Error| match error.raw_os_error() {
        Some(libc::ELOOP) => named("it is a symbolic link, which is not followed"),
        Some(libc::EACCES) => named(&format!("{error}{}", sandbox::hint())),
        _ => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(told)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(named("it is no plain file"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(named("it is another user's"));
    }
    if found.nlink() != 1 {
        return Err(named("it has other names (hard links)"));
    }
    // Where files may be replaced, as in the configuration's folder, none may be cut.
    if found.len() > 0 {
        file.set_len(0).map_err(told)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::scratch::Scratch;
    use super::*;

    /// Is only a plain file of ours with one name written, and everything else left as it is?
    #[test]
    fn what_is_written() {
        let scratch = Scratch::new();
        let precious = scratch.path("precious");
        fs::write(&precious, "keep").unwrap();
        symlink(&precious, scratch.path("link")).unwrap();
        symlink(scratch.path("nowhere"), scratch.path("dangling")).unwrap();
        fs::hard_link(&precious, scratch.path("hard")).unwrap();
        fs::create_dir(scratch.path("folder")).unwrap();
        let refusal = |name: &str| create(&scratch.path(name)).unwrap_err().to_string();
        for name in ["link", "dangling"] {
            assert!(refusal(name).ends_with("it is a symbolic link, which is not followed"));
        }
        assert!(refusal("hard").ends_with("it has other names (hard links)"));
        assert!(refusal("folder").contains("folder: "));
        assert!(refusal("none/file").contains("none/file: No such file"));
        assert_eq!(fs::read(&precious).unwrap(), b"keep");
        assert!(!scratch.path("nowhere").exists());
        let fresh = scratch.path("fresh");
        create(&fresh).unwrap();
        assert_eq!(fs::metadata(&fresh).unwrap().permissions().mode() & 0o7777, 0o600);
        fs::write(&fresh, "old").unwrap();
        create(&fresh).unwrap();
        assert_eq!(fs::read(&fresh).unwrap(), b"");
    }
}
