// SPDX-License-Identifier: MIT OR Apache-2.0
//! Activation: sockets that were open before the program was.
//!
//! A service manager may open a service's sockets itself and start the service when a client
//! connects. It leaves them at file descriptors 3, 4, … and says so in the environment:
//!
//! ```text
//! LISTEN_PID=4711    the process it is meant for; others inherited the variable
//! LISTEN_FDS=2       how many: 3 and 4
//! ```
//!
//! A configuration names them `inherited:3` and `inherited:4`.
//! Source: sd_listen_fds(3), the protocol in its section "Notes".

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;

use crate::config::limits::LISTENERS;

/// The first of them.
const FIRST: i32 = 3;
/// The variables that announce them.
pub const VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// They are taken once: a file descriptor has one owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Sockets that were inherited and are not in use yet.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<Option<OwnedFd>>,
}

impl Inherited {
    /// What this process inherited; nothing the second time.
    ///
    /// # Errors
    /// What is wrong with the environment.
    pub fn take() -> Result<Inherited, String> {
        let variable = |name| std::env::var(name).ok();
        let count = promised(
            variable("LISTEN_PID").as_deref(),
            variable("LISTEN_FDS").as_deref(),
            std::process::id(),
        )?;
        if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
            return Ok(Inherited::default());
        }
        let sockets = (FIRST..FIRST + count).map(take).map(|socket| socket.map(Some));
        Ok(Inherited { sockets: sockets.collect::<Result<_, _>>()? })
    }

    /// Number of sockets passed.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.sockets.len()
    }

    /// The socket of that number, for once.
    ///
    /// # Errors
    /// No socket of this number was passed.
    pub fn socket(&mut self, number: i32) -> Result<OwnedFd, String> {
        let there = self.sockets.len();
        let place = usize::try_from(number - FIRST).ok();
        let socket = place.and_then(|place| self.sockets.get_mut(place)).and_then(Option::take);
        socket.ok_or_else(|| {
            format!(
                "inherited:{number}: {there} sockets were inherited (LISTEN_PID and LISTEN_FDS \
                 say which, from 3 up; each can be used once)"
            )
        })
    }
}

/// How many sockets the environment promises to this process.
fn promised(pid: Option<&str>, count: Option<&str>, own: u32) -> Result<i32, String> {
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(0) };
    let Ok(pid) = pid.parse::<u32>() else {
        return Err(format!("LISTEN_PID={pid}: the id of the process that is meant"));
    };
    if pid != own {
        return Ok(0);
    }
    let most = i32::try_from(LISTENERS).unwrap_or(i32::MAX);
    let sound = count.parse().ok().filter(|count| (0..=most).contains(count));
    sound.ok_or_else(|| format!("LISTEN_FDS={count}: a whole number from 0 to {most}"))
}

fn take(number: i32) -> Result<OwnedFd, String> {
    let wrong = |why: String| format!("inherited:{number}: {why}");
    // SAFETY: `fcntl` with F_GETFD touches no memory; it tells whether the number is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(wrong("LISTEN_FDS promises it, but nothing is open there".to_owned()));
    }
    // SAFETY: it is open, the environment says that it is ours, and `TAKEN` lets one caller pass,
    // before this process has opened anything that could have got the number.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(socket.as_fd(), FdFlags::CLOEXEC)
        .map_err(|error| wrong(error.to_string()))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do sockets belong to the process that is named, and to no other?
    #[test]
    fn for_whom_and_how_many() {
        assert_eq!(promised(Some("7"), Some("2"), 7), Ok(2));
        assert_eq!(promised(Some("7"), Some("2"), 8), Ok(0));
        assert_eq!(promised(None, Some("2"), 7), Ok(0));
        assert_eq!(promised(Some("7"), None, 7), Ok(0));
        for count in ["-1", "65", "two", ""] {
            let refusal = promised(Some("7"), Some(count), 7).unwrap_err();
            assert!(refusal.ends_with("a whole number from 0 to 64"), "{refusal}");
        }
        assert!(promised(Some("x"), Some("1"), 7).unwrap_err().contains("LISTEN_PID=x"));
    }

    /// Is what was not inherited reported?
    #[test]
    fn nothing_inherited() {
        let refusal = Inherited::default().socket(3).unwrap_err();
        assert!(refusal.starts_with("inherited:3: 0 sockets were inherited"), "{refusal}");
        assert!(Inherited::default().socket(-5).is_err());
    }
}
