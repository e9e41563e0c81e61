// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notify: messages to a service manager, and the sign of life that it waits for.
//!
//! ```text
//! NOTIFY_SOCKET=/run/systemd/notify (or @name, an abstract socket)   datagrams of KEY=VALUE lines
//! start    READY=1, STATUS=serving 3 volumes of 1 devices
//! reload   RELOADING=1, MONOTONIC_USEC=…        then READY=1, STATUS=…
//! stop     STOPPING=1
//!
//! WATCHDOG_USEC=30000000     WATCHDOG=1 three times in that time:
//! loop ─▶ turn ─▶ turn ─▶ …  each counts its turns (Pulse)
//! negotiation ─▶ round ─▶ round    has each of them turned since the last sign? then WATCHDOG=1
//! ```
//!
//! The sign comes from the negotiation's own loop, and only if the loop of every device has gone
//! round since the one before: a thread that hangs, whichever it is, is a server that gives no
//! sign. A device that hangs is not that: its loop goes round, and says so (`/healthz`); to start
//! the server again would mend nothing.
//!
//! Invariant: to tell something never fails and never waits; a manager that is not there hears
//! nothing.
//!
//! Source: sd_notify(3), its protocol in "Notes"; sd_watchdog_enabled(3).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paternoster_core::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The variables by which a manager says what it wants to hear; not for our children.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];
/// Signs of life in the manager's time.
const SIGNS: u64 = 3;

/// A manager that wants messages.
#[derive(Debug, Clone)]
pub struct Notify {
    socket: Arc<UnixDatagram>,
    to: SocketAddr,
    watchdog: Option<Nanos>,
}

impl Notify {
    /// As the environment says; `None`: no manager wants messages.
    #[must_use]
    pub fn of_environment() -> Option<Notify> {
        let to = std::env::var_os(VARIABLES[0])?;
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_other = number(VARIABLES[2]).is_some_and(|pid| pid != u64::from(std::process::id()));
        let micros = number(VARIABLES[1]).filter(|_| !is_other);
        Notify::new(&to, micros.map(|micros| Nanos(micros.saturating_mul(1000))))
    }

    /// At this socket, which is not looked at yet; with a sign of life within that time.
    #[must_use]
    pub fn new(to: &OsStr, watchdog: Option<Nanos>) -> Option<Notify> {
        let to = match to.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            [b'/', ..] => SocketAddr::from_pathname(to),
            // Another kind of socket, which a manager of virtual machines may have.
            _ => return None,
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        let watchdog = watchdog.filter(|&time| time != Nanos::ZERO);
        Some(Notify { socket: Arc::new(socket), to: to.ok()?, watchdog })
    }

    fn tell(&self, words: &str) {
        // One that has gone, or does not keep up, learns it otherwise.
        let _unheard = self.socket.send_to_addr(words.as_bytes(), &self.to);
    }

    /// The server is ready; with its state, in a sentence.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// It reads its configuration again, and will be ready when it has.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        let status = "STATUS=reading the configuration again";
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n{status}"));
    }

    /// Another process is the service from now on.
    pub(crate) fn is_now(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}\nSTATUS=process {pid} has taken over"));
    }

    /// This process is the service from now on.
    pub(crate) fn is_ours(&self) {
        self.is_now(std::process::id());
    }

    /// Where the manager is, as [`Notify::new`] has it, and within how many nanoseconds it wants
    /// a sign of life.
    pub(crate) fn told_at(&self) -> (Option<String>, Option<u64>) {
        let path = self.to.as_pathname().and_then(|path| path.to_str()).map(str::to_owned);
        let name = self.to.as_abstract_name().and_then(|name| str::from_utf8(name).ok());
        let at = path.or_else(|| name.map(|name| format!("@{name}")));
        (at, self.watchdog.map(|time| time.0))
    }

    /// Tells the manager that the server is stopping.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping: clients finish what they have asked for");
    }
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A loop's turns, counted by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Counts one more round of the loop. Only one thread counts.
    #[inline]
    pub(crate) fn turned(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn turns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sends the signs of life to the service manager.
#[derive(Debug)]
pub(crate) struct Heart {
    notify: Notify,
    every: Nanos,
    next: Nanos,
    /// Loops, and what each had counted at the last sign.
    loops: Vec<(Pulse, u64)>,
}

impl Heart {
    /// For a manager that waits for signs of the loops of these.
    pub(crate) fn new(notify: &Notify, pulses: impl Iterator<Item = Pulse>) -> Option<Heart> {
        let every = Nanos(notify.watchdog?.0 / SIGNS);
        // A loop that has not begun to go round has not hung.
        let loops = pulses.map(|pulse| (pulse, u64::MAX)).collect();
        Some(Heart { notify: notify.clone(), every, next: Nanos::ZERO, loops })
    }

    /// In how many milliseconds it wants to beat.
    pub(crate) fn next_in(&self, now: Nanos) -> i64 {
        i64::try_from(self.next.0.saturating_sub(now.0) / 1_000_000).unwrap_or(i64::MAX - 1) + 1
    }

    /// The negotiation has gone round: a sign, if it is time for one and all others have, too.
    pub(crate) fn beat(&mut self, now: Nanos) {
        if now < self.next {
            return;
        }
        if self.loops.iter().any(|(pulse, last)| pulse.turns() == *last) {
            // Soon again, not at once.
            self.next = now + Nanos(self.every.0 / 10);
            return;
        }
        for (pulse, last) in &mut self.loops {
            *last = pulse.turns();
        }
        self.next = now + self.every;
        self.notify.tell("WATCHDOG=1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    fn heard(manager: &UnixDatagram) -> Option<String> {
        let mut buffer = [0; 512];
        let read = manager.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..read].to_vec()).expect("text"))
    }

    /// Does a server give a sign when all loops have gone round, and none while one of them hangs,
    /// however often the negotiation goes round? A sign each second of a watchdog of three.
    #[test]
    fn a_loop_that_hangs_is_no_sign_of_life() {
        let scratch = Scratch::new();
        let at = scratch.path("manager");
        let manager = UnixDatagram::bind(&at).unwrap();
        manager.set_nonblocking(true).unwrap();
        let notify = Notify::new(at.as_os_str(), Some(Nanos::from_secs(3))).unwrap();
        let (one, other) = (Pulse::default(), Pulse::default());
        let mut heart = Heart::new(&notify, [one.clone(), other.clone()].into_iter()).unwrap();
        let mut signs = |from: u64, to: u64, hangs: bool| {
            let mut count = 0;
            for ms in (from..to).step_by(50) {
                one.turned();
                if !hangs {
                    other.turned();
                }
                heart.beat(Nanos::from_millis(ms));
                count += usize::from(heard(&manager).is_some_and(|told| told == "WATCHDOG=1"));
            }
            count
        };
        assert_eq!(signs(0, 10_000, false), 10);
        // It has gone round since the sign at 9 s.
        assert_eq!(signs(10_000, 20_000, true), 1);
        assert_eq!(signs(20_000, 30_000, false), 10);
    }

    /// Does a manager get messages at an abstract socket, too; is an invalid name, or a socket
    /// without listener, harmless; and is there a sign of life only for one that waits for it?
    #[test]
    fn where_managers_are() {
        let name = format!("paternoster-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let notify = Notify::new(format!("@{name}").as_ref(), None).unwrap();
        notify.ready("serving\n2 volumes");
        assert_eq!(heard(&manager).unwrap(), "READY=1\nSTATUS=serving 2 volumes");
        notify.reloading();
        let told = heard(&manager).unwrap();
        let micros = told.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
        assert!(told.starts_with("RELOADING=1\n") && micros.parse::<u64>().unwrap() > 0, "{told}");
        notify.stopping();
        assert!(heard(&manager).unwrap().starts_with("STOPPING=1\n"));
        assert!(Heart::new(&notify, std::iter::empty()).is_none());
        assert!(Notify::new("vsock:2:1".as_ref(), None).is_none());
        Notify::new("/nowhere/at/all".as_ref(), None).unwrap().ready("heard by nobody");
    }
}
