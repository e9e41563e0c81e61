// SPDX-License-Identifier: MIT OR Apache-2.0
//! Socket files: a unix socket at a path, with its mode from the first moment, removed at the end.
//!
//! ```text
//! something there? ── nothing ─────────────────▶ bind ─▶ chmod ─▶ listen
//!        ├── a socket that nobody answers ─ removed ─▲      (before `listen` nobody can connect)
//!        ├── a socket with a server behind it: refused
//!        └── anything else: refused, and never removed
//! ```
//!
//! Invariant: what is removed at the end is the file that was made here; if somebody has put
//! another in its place, that one stays.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The file of a socket; removed when it is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    made: (u64, u64),
}

impl SocketFile {
    /// Listens at `path`, for those that `mode` lets in.
    ///
    /// # Errors
    /// What the system said, with the path; somebody listens there already; what is there is no
    /// socket.
    pub fn listen(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        make_room(path).map_err(named)?;
        let socket = bind(path).map_err(named)?;
        let made = fs::symlink_metadata(path).map_err(named)?;
        let file = SocketFile { path: path.to_owned(), made: (made.dev(), made.ino()) };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(named)?;
        rustix::net::listen(&socket, BACKLOG).map_err(|error| named(error.into()))?;
        Ok((UnixListener::from(socket), file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == self.made) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path).map_err(|error| match error {
        rustix::io::Errno::NAMETOOLONG => {
            io::Error::new(ErrorKind::InvalidInput, "the path of a socket has at most 108 bytes")
        }
        other => other.into(),
    })?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Removes a socket that nobody listens at.
fn make_room(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !there.file_type().is_socket() {
        let what = "there is something that is not a socket; it is left alone";
        return Err(io::Error::new(ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "a server listens there already")),
    }
}
