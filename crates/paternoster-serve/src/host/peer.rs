// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers: the identity of a client, from the kernel.
//!
//! Of a unix socket's peer the kernel noted user, groups and process at `connect`, and what it
//! becomes later changes nothing; its cgroup is in
//! `/proc/PID/cgroup`, as lines of `number:controllers:path`:
//!
//! ```text
//! 0::/system.slice/db.service        the unified hierarchy: this is the one
//! 4:memory:/docker/1f…               hierarchies of old: where the unified one says nothing
//! ```
//!
//! The process may have ended since, and another may have its number. Its pidfd tells
//! (SO_PEERPIDFD, Linux 6.5): while the process lives its number is its own, so what was read about
//! the number before is believed if the process is alive afterwards. The cgroup of an ended process
//! is unknown. An older kernel is logged once; there the cgroup is as reliable as the number.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Once;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::Identity;

/// The origin that a peer is counted under, where each has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Origin {
    /// A peer of which nothing is known.
    #[default]
    Unknown,
    /// A user of this machine.
    User(u32),
    /// A machine; of IPv6 the network of 64 bits, in which one may have as many as it likes.
    Address(IpAddr),
}

impl Origin {
    /// The origin of a peer.
    #[must_use]
    pub fn of(who: &Identity) -> Origin {
        match (who.uid, who.address) {
            (Some(uid), _) => Origin::User(uid),
            (None, Some(IpAddr::V6(address))) => {
                let network = u128::from(address) >> 64 << 64;
                Origin::Address(IpAddr::V6(network.into()))
            }
            (None, Some(address)) => Origin::Address(address),
            (None, None) => Origin::Unknown,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Unknown => f.write_str("unknown"),
            Origin::User(uid) => write!(f, "uid {uid}"),
            Origin::Address(IpAddr::V6(network)) => write!(f, "{network}/64"),
            Origin::Address(address) => address.fmt(f),
        }
    }
}

/// A peer: in words, and the origin it is counted under.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// User and process, or address and port.
    pub words: String,
    /// The customer that it counts as.
    pub origin: Origin,
}

impl From<String> for Peer {
    fn from(words: String) -> Peer {
        Peer { words, origin: Origin::Unknown }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// The folder that lists processes.
pub const PROC: &str = "/proc";
/// More than that is not read of a file that tells of a process.
const PROC_FILE_BYTES: u64 = 64 << 10;
/// Groups that there is room for at once, and those that the kernel allows.
const GROUPS: usize = 64;
const GROUPS_MOST: usize = 65_536;
/// A longer path matches no socket.
const CGROUP_BYTES: usize = 4096;

/// The peer at the other end of a unix socket; its export is not known yet.
///
/// # Errors
/// The system's error.
pub fn of_unix(socket: impl AsFd, proc_root: &Path) -> io::Result<Identity> {
    let [pid, uid, gid] = credentials(&socket)?;
    // A process that this namespace does not see has no number here.
    let pid = Some(pid).filter(|pid| (1..=i32::MAX.cast_unsigned()).contains(pid));
    let cgroup = pid.and_then(|pid| cgroup_now(&socket, pid, proc_root));
    let groups = groups(socket).ok();
    let (uid, gid) = (Some(uid), Some(gid));
    Ok(Identity { uid, gid, groups, pid, cgroup, ..Identity::default() })
}

/// The peer at that address; its export is not known yet.
#[must_use]
pub fn of_tcp(at: SocketAddr) -> Identity {
    Identity { address: Some(at.ip().to_canonical()), ..Identity::default() }
}

/// Process, user and group.
fn credentials(socket: impl AsFd) -> io::Result<[u32; 3]> {
    let mut found = [0, u32::MAX, u32::MAX];
    option(socket, libc::SO_PEERCRED, &mut found)?;
    Ok(found)
}

/// The cgroup of a socket's peer of this number, if the peer is there.
fn cgroup_now(socket: impl AsFd, pid: u32, proc_root: &Path) -> Option<String> {
    let process = match process(socket) {
        Ok(process) => process,
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            ONCE.call_once(|| {
                crate::log::tell(format_args!(
                    "paternoster: this kernel does not tell a client's process for certain \
                     (SO_PEERPIDFD, Linux 6.5): the cgroup of one that has ended may be that of \
                     another with its number"
                ));
            });
            return cgroup_of(pid, proc_root);
        }
        // It has ended and is forgotten, or there is no descriptor left.
        Err(_) => return None,
    };
    let cgroup = cgroup_of(pid, proc_root)?;
    lives(&process).then_some(cgroup)
}

/// Said once of a kernel that is too old.
static ONCE: Once = Once::new();

/// The process of a socket's peer, as a descriptor.
fn process(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut found = [u32::MAX];
    option(socket, libc::SO_PEERPIDFD, &mut found)?;
    let number = found[0].cast_signed();
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: the kernel has just opened this descriptor for us, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether the process at the other end of a unix socket, of this number, has ended.
pub(crate) fn has_ended(socket: impl AsFd, pid: u32) -> bool {
    match process(socket) {
        Ok(process) => !lives(&process),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            let pid = pid.try_into().ok().and_then(rustix::process::Pid::from_raw);
            pid.is_none_or(|pid| {
                rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
            })
        }
        // The client has gone: forget it.
        Err(_) => true,
    }
}

/// Whether a process has not ended: its descriptor is readable then.
fn lives(process: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)) == Ok(0)
}

/// The other groups of its user.
fn groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut found = vec![0; GROUPS];
    let count = match option(&socket, libc::SO_PEERGROUPS, &mut found) {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
            found.resize(GROUPS_MOST, 0);
            option(socket, libc::SO_PEERGROUPS, &mut found)?
        }
        count => count?,
    };
    found.truncate(count);
    Ok(found)
}

/// What the kernel says of a socket in whole numbers; how many they are.
fn option(socket: impl AsFd, name: libc::c_int, found: &mut [u32]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(size_of_val(found)).unwrap_or(0);
    // SAFETY: the pointers are to plain integers and to the number of their bytes, both live during
    // the call, and the kernel writes at most `length` bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            found.as_mut_ptr().cast(),
            std::ptr::from_mut(&mut length),
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(length).unwrap_or(0) / size_of::<u32>())
}

/// The other groups of a process, as it is now.
pub(crate) fn groups_of(pid: u32, proc_root: &Path) -> Option<Vec<u32>> {
    let text = text_of(pid, "status", proc_root)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    line.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// The cgroup of a process, if it is there.
#[must_use]
pub fn cgroup_of(pid: u32, proc_root: &Path) -> Option<String> {
    cgroup_in(&cgroups_text(pid, proc_root)?)
}

/// The kernel's text on the cgroups of a process or thread, in all hierarchies.
pub(crate) fn cgroups_text(number: u32, proc_root: &Path) -> Option<String> {
    text_of(number, "cgroup", proc_root)
}

fn text_of(number: u32, name: &str, proc_root: &Path) -> Option<String> {
    let file = File::open(proc_root.join(number.to_string()).join(name)).ok()?;
    let mut text = Vec::new();
    file.take(PROC_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Number, controllers and path of each hierarchy in such a text.
pub(crate) fn cgroup_lines(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        path.starts_with('/').then_some((number, controllers, path))
    })
}

fn cgroup_in(text: &str) -> Option<String> {
    let paths = || cgroup_lines(text).map(|(number, _, path)| (number, path));
    let unified = paths().find(|(number, _)| *number == "0");
    // Where both kinds are mounted, the unified one may be empty.
    let telling = unified.filter(|(_, path)| *path != "/");
    let old = || paths().find(|(number, path)| *number != "0" && *path != "/");
    let (_, path) = telling.or_else(old).or(unified).or_else(|| paths().next())?;
    (path.len() <= CGROUP_BYTES).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::super::scratch::Scratch;
    use super::*;

    /// Does the kernel tell our own user and process of a socket pair?
    #[test]
    fn of_a_unix_socket() {
        let scratch = Scratch::new();
        let pid = std::process::id();
        fs::create_dir(scratch.path(&pid.to_string())).unwrap();
        fs::write(scratch.path(&format!("{pid}/cgroup")), "0::/system.slice/db.service\n").unwrap();
        let (one, _other) = UnixStream::pair().unwrap();
        let who = of_unix(&one, &scratch.path("")).unwrap();
        assert_eq!(who.pid, Some(pid));
        assert_eq!(who.uid, Some(rustix::process::getuid().as_raw()));
        assert_eq!(who.gid, Some(rustix::process::getgid().as_raw()));
        let mut groups: Vec<u32> =
            rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        groups.sort_unstable();
        assert_eq!(who.groups, Some(groups.clone()));
        let mut told = groups_of(pid, Path::new(PROC)).unwrap();
        told.sort_unstable();
        assert_eq!(told, groups);
        assert_eq!(who.cgroup.as_deref(), Some("/system.slice/db.service"));
        assert_eq!(who.address, None);
        fs::remove_dir_all(scratch.path(&pid.to_string())).unwrap();
        assert_eq!(of_unix(&one, &scratch.path("")).unwrap().cgroup, None);
    }

    /// Not a test: the process that `a_peer_that_has_ended` starts.
    #[test]
    fn connects_and_ends() {
        if let Some(socket) = std::env::var_os("PATERNOSTER_TEST_PEER") {
            std::mem::forget(UnixStream::connect(socket).unwrap());
        }
    }

    /// Is the cgroup of a process that has another's number not taken for the peer's, and that of
    /// a peer which lives? The peer has connected and ended, and its number has another cgroup.
    #[test]
    fn a_peer_that_has_ended() {
        let scratch = Scratch::new();
        let listener = UnixListener::bind(scratch.path("s")).unwrap();
        let mut peer = std::process::Command::new(std::env::current_exe().unwrap());
        peer.args(["--exact", "host::peer::tests::connects_and_ends"]);
        let output = peer.env("PATERNOSTER_TEST_PEER", scratch.path("s")).output().unwrap();
        assert!(output.status.success());
        let (socket, _) = listener.accept().unwrap();
        let pid = credentials(&socket).unwrap()[0];
        let tell = |pid: u32| {
            fs::create_dir(scratch.path(&pid.to_string())).unwrap();
            fs::write(scratch.path(&format!("{pid}/cgroup")), "0::/another\n").unwrap();
        };
        tell(pid);
        let who = of_unix(&socket, &scratch.path("")).unwrap();
        let knows = process(&socket).is_ok_and(|process| !lives(&process))
            || process(&socket).is_err_and(|e| e.raw_os_error() != Some(libc::ENOPROTOOPT));
        assert_eq!((who.pid, who.cgroup.is_none()), (Some(pid), knows));
        let _ours = UnixStream::connect(scratch.path("s")).unwrap();
        let (socket, _) = listener.accept().unwrap();
        tell(std::process::id());
        let who = of_unix(&socket, &scratch.path("")).unwrap();
        assert_eq!(who.cgroup.as_deref(), Some("/another"));
    }

    /// Is a peer of TCP its address, in its plain form?
    #[test]
    fn of_tcp_sockets() {
        let who = of_tcp("[::ffff:10.0.0.3]:4000".parse().unwrap());
        assert_eq!(who.address, Some("10.0.0.3".parse().unwrap()));
        assert_eq!((who.uid, who.pid, who.cgroup), (None, None, None));
    }

    /// Is an origin one user, one address, or one network of 64 bits?
    #[test]
    fn origins() {
        let of = |at: &str| Origin::of(&of_tcp(at.parse().unwrap())).to_string();
        assert_eq!(of("10.0.0.3:4000"), "10.0.0.3");
        assert_eq!(of("[2001:db8:1:2:3:4:5:6]:4000"), "2001:db8:1:2::/64");
        let who = Identity { uid: Some(7), ..Identity::default() };
        assert_eq!(Origin::of(&who).to_string(), "uid 7");
        assert_eq!(Origin::of(&Identity::default()).to_string(), "unknown");
    }

    /// Is the right line taken, of the unified hierarchy and of the old ones?
    #[test]
    fn lines_of_cgroups() {
        let is = |text: &str| cgroup_in(text).unwrap_or_default();
        assert_eq!(is("0::/a/b\n"), "/a/b");
        assert_eq!(is("4:memory:/m\n1:name=systemd:/s\n0::/\n"), "/m");
        assert_eq!(is("4:memory:/m\n0::/u\n"), "/u");
        assert_eq!(is("0::/\n"), "/");
        assert_eq!(is("4:cpu:/\n3:memory:/\n"), "/");
        assert_eq!(is("0::/with:colon\n"), "/with:colon");
        for text in ["", "0:", "0::relative\n", "\u{fffd}"] {
            assert_eq!(cgroup_in(text), None, "{text}");
        }
        assert_eq!(cgroup_in(&format!("0::/{}\n", "x".repeat(CGROUP_BYTES))), None);
    }
}
