// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals: being asked to stop, and asking others.
//!
//! A handler may do next to nothing, so it writes a byte into a socket, and a thread that waits at
//! the other end does the rest. The first signal asks for an end in good order; the second one for
//! an end at once. Each of them reaches a waiting thread once. SIGHUP asks for the configuration to
//! be read again.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// Receives SIGTERM and SIGINT once made; they no longer end the process.
#[derive(Debug)]
pub struct StopSignals {
    heard: UnixStream,
}

impl StopSignals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system's error.
    pub fn hear() -> io::Result<StopSignals> {
        let (heard, tell) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        Ok(StopSignals { heard })
    }

    /// Waits for the next one.
    pub fn wait(&mut self) {
        // The other end is never closed, and its handler writes whole bytes.
        let _byte = self.heard.read_exact(&mut [0]);
    }
}

/// Receives SIGHUP once made, and makes SIGUSR1 and SIGUSR2 harmless; they no longer end the
/// process.
#[derive(Debug)]
pub struct ReloadSignals {
    heard: UnixStream,
}

impl ReloadSignals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system's error.
    pub fn hear() -> io::Result<ReloadSignals> {
        let (heard, tell) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGHUP, tell)?;
        for signal in [SIGUSR1, SIGUSR2] {
            // Never read. Not ignored: a child would inherit that.
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(ReloadSignals { heard })
    }

    /// Waits for the next one; several that came meanwhile are one.
    pub fn wait(&mut self) {
        // The other end is never closed.
        let _bytes = self.heard.read(&mut [0; 64]);
    }
}

/// A child process, by a handle that never means another one.
#[derive(Debug)]
pub struct Supervised {
    pidfd: OwnedFd,
}

impl Supervised {
    /// Of a child that has not been waited for.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(child: &Child) -> io::Result<Supervised> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Supervised { pidfd: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Asks it to end (SIGTERM). It may have ended.
    pub fn ask_to_end(&self) {
        let _asked = pidfd_send_signal(&self.pidfd, Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Does a signal reach the thread that waits for it, instead of ending the process?
    #[test]
    fn signals_are_heard() {
        let mut signals = StopSignals::hear().unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        signals.wait();
        signal_hook::low_level::raise(SIGINT).unwrap();
        signals.wait();
    }

    /// Does SIGHUP reach the thread that waits, and do SIGUSR1 and SIGUSR2 end nothing?
    #[test]
    fn reloads_are_heard() {
        let mut signals = ReloadSignals::hear().unwrap();
        for signal in [SIGUSR1, SIGUSR2, SIGHUP] {
            signal_hook::low_level::raise(signal).unwrap();
        }
        signals.wait();
    }

    /// Is a child asked to end, and nothing else after it has ended?
    #[test]
    fn supervised_are_asked_to_end() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let supervised = Supervised::of(&child).unwrap();
        supervised.ask_to_end();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM));
        supervised.ask_to_end();
    }
}
