// SPDX-License-Identifier: MIT OR Apache-2.0
//! A unix socket in the file system: made with its mode, and gone with its owner.
//!
//! ```text
//! socket ─▶ bind (the path is there, no one can connect) ─▶ mode, owner ─▶ listen (clients come)
//! ```
//!
//! Before `listen` a connect is refused, so that no client slips in while the permissions are still
//! those of the umask. A path that exists already is one of three things: a socket with a live
//! server (refused), a socket whose server died (replaced), or something else (refused).

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::ours::Ours;
use super::privileges::Account;

/// A path that is removed when its owner goes, unless it has been replaced.
#[derive(Debug)]
pub(crate) struct OwnPath {
    path: PathBuf,
    identity: (u64, u64),
    ours: Ours,
}

impl OwnPath {
    /// That of a socket as it is now; another process removes it until it is ours.
    pub(crate) fn of(path: &Path, ours: &Ours) -> io::Result<OwnPath> {
        let found = fs::symlink_metadata(path)?;
        let identity = (found.dev(), found.ino());
        Ok(OwnPath { path: path.to_owned(), identity, ours: ours.clone() })
    }

    /// Whether it is removed here.
    pub(crate) fn ours(&self) -> Ours {
        self.ours.clone()
    }

    /// Leaves the path to another process from now on.
    pub(crate) fn leave(&self) {
        self.ours.set(false);
    }
}

impl Drop for OwnPath {
    fn drop(&mut self) {
        let ours = |found: fs::Metadata| (found.dev(), found.ino()) == self.identity;
        if self.ours.is() && fs::symlink_metadata(&self.path).is_ok_and(ours) {
            // Not allowed any more after a change of user; the next server replaces it.
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// Why there is no socket.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Another server is listening there.
    InUse,
    /// There is something that is no socket.
    NoSocket,
    /// There is a socket, and it cannot be determined whether a server listens on it.
    Unclear(io::Error),
    /// The system does not say what is at the path.
    Unseen(io::Error),
    /// What could not be done, in words.
    Failed(&'static str, io::Error),
}

impl Refusal {
    /// In words, with what would be right.
    fn told(&self, path: &Path) -> String {
        let why = match self {
            Refusal::InUse => {
                "another server is listening there; stop it or choose another path".to_owned()
            }
            Refusal::NoSocket => {
                "there is something that is no socket; remove it or choose another path".to_owned()
            }
            Refusal::Unclear(error) => format!(
                "there is a socket, and whether a server is behind it cannot be seen: {error}; \
                 remove it or choose another path"
            ),
            Refusal::Unseen(error) => error.to_string(),
            Refusal::Failed(what, error) => format!("{what}: {error}"),
        };
        format!("unix:{}: {why}", path.display())
    }
}

/// As [`listen_at`], with its refusals in words.
pub(super) fn open(
    path: &Path,
    mode: u32,
    backlog: i32,
    owner: Option<&Account>,
) -> Result<(OwnedFd, OwnPath), String> {
    listen_at(path, mode, backlog, owner).map_err(|refusal| refusal.told(path))
}

/// Listens at `path`, with these permission bits, for `owner` if another than us.
pub(crate) fn listen_at(
    path: &Path,
    mode: u32,
    backlog: i32,
    owner: Option<&Account>,
) -> Result<(OwnedFd, OwnPath), Refusal> {
    let failed = |what| move |error| Refusal::Failed(what, error);
    make_room(path)?;
    let socket = stream().map_err(failed("no socket"))?;
    let address = address(path).map_err(failed("not a socket's path"))?;
    bind(&socket, &address).map_err(|error| failed("cannot be bound")(error.into()))?;
    let own = OwnPath::of(path, &Ours::default()).map_err(failed("has gone"))?;
    if let Some(owner) = owner {
        owner.give(path).map_err(failed("cannot be given away"))?;
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(failed("its mode cannot be set"))?;
    listen(&socket, backlog).map_err(|error| failed("cannot listen")(error.into()))?;
    Ok((socket, own))
}

fn stream() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(path)?)
}

/// Removes a socket whose server is dead; everything else at `path` is refused.
fn make_room(path: &Path) -> Result<(), Refusal> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Refusal::Unseen(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(Refusal::NoSocket),
        Ok(_) => {}
    }
    match try_connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| Refusal::Failed("a dead server's socket cannot be removed", error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Full is alive too.
        Ok(()) => Err(Refusal::InUse),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Refusal::InUse),
        Err(error) => Err(Refusal::Unclear(error)),
    }
}

fn try_connect(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(connect(&socket, &address(path)?)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::super::scratch::Scratch;
    use super::*;

    /// Has a socket its mode whatever the mask, and does it go with its owner?
    #[test]
    fn its_mode_and_its_end() {
        let scratch = Scratch::new();
        for mode in [0o600, 0o666] {
            let path = scratch.path("s");
            let (socket, own) = open(&path, mode, 1, None).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            UnixStream::connect(&path).unwrap();
            drop((socket, own));
            assert!(!path.exists());
        }
    }

    /// Is a dead server's socket replaced, a live one's left alone, and anything else too?
    #[test]
    fn what_is_there_already() {
        let scratch = Scratch::new();
        let path = scratch.path("s");
        // The standard library leaves the path behind, as a killed server does.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (_socket, _own) = open(&path, 0o600, 1, None).unwrap();
        let refusal = open(&path, 0o600, 1, None).unwrap_err();
        assert!(refusal.ends_with("stop it or choose another path"), "{refusal}");
        let file = scratch.path("f");
        fs::write(&file, "precious").unwrap();
        let refusal = open(&file, 0o600, 1, None).unwrap_err();
        assert!(refusal.contains("something that is no socket"), "{refusal}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        let nowhere = open(&scratch.path("no/s"), 0o600, 1, None).unwrap_err();
        assert!(nowhere.contains("cannot be bound: No such file"), "{nowhere}");
    }

    /// Is a server whose queue is full alive?
    #[test]
    fn a_full_server_is_alive() {
        let scratch = Scratch::new();
        let path = scratch.path("s");
        let (_socket, _own) = open(&path, 0o600, 0, None).unwrap();
        let _first = UnixStream::connect(&path).unwrap();
        for _ in 0..3 {
            let refusal = open(&path, 0o600, 1, None).unwrap_err();
            assert!(refusal.contains("another server is listening"), "{refusal}");
        }
    }

    /// Is another's socket of the same path left when the first owner goes?
    #[test]
    fn only_its_own_path_is_removed() {
        let scratch = Scratch::new();
        let path = scratch.path("s");
        let (_socket, own) = open(&path, 0o600, 1, None).unwrap();
        fs::rename(&path, scratch.path("old")).unwrap();
        fs::write(&path, "another").unwrap();
        drop(own);
        assert!(path.exists());
    }
}
