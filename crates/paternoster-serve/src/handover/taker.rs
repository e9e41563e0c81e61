// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taker: the side of the new process, which takes over.
//!
//! ```text
//! ask ─▶ inventory ─▶ (all is opened) ─▶ ready ─▶ connections ─▶ have ─▶ (go) ─▶ mine
//! ```
//!
//! What the other process sends is checked like any untrusted input: kinds in their order, the
//! right number of descriptors for each kind, bounded counts, bounded bytes. If this process ends
//! before `mine`, nothing has changed: until then paths and locks belong to the other process.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use paternoster_core::Nanos;
use serde_json::Value;

use super::channel::{Channel, Frame};
use super::record::{self, ConnectionState, HandedConnection, parsed};
use super::{
    BYTES_MOST, CONNECTIONS_MOST, OPENING, THINGS_MOST, VERSION, WORD, next, printable, told,
};
use crate::device::claim::Claims;
use crate::device::handed::Handed;
use crate::device::system::{System, kernel};
use crate::host::notify::Notify;
use crate::host::ours::Ours;
use crate::host::peer;
use crate::host::pidfile::Pidfile;
use crate::locked::locked;

/// How long to wait for the other process to end once its connection has ended.
const DEATH: Duration = Duration::from_secs(5);

/// What a running server gives, and the channel to it.
#[derive(Debug)]
pub struct Takeover {
    other: Channel,
    /// By kind and name: sockets and the pidfile.
    sockets: Mutex<Vec<(u8, String, OwnedFd)>>,
    pub(crate) claims: Claims,
    pub(crate) files: Arc<Handed>,
    pub(crate) ours: Ours,
    inventory: record::Inventory,
}

/// Everything that came with the connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub tenants: Vec<record::TenantState>,
    pub connections: Vec<HandedConnection<OwnedFd>>,
}

impl Takeover {
    /// Asks the server at this control socket, and receives its inventory.
    ///
    /// # Errors
    /// The server is not there, refuses, or does not support it.
    pub fn ask(control: &Path) -> Result<Takeover, String> {
        let at = |error: &dyn std::fmt::Display| format!("{}: {error}", control.display());
        let stream = UnixStream::connect(control).map_err(|error| at(&error))?;
        ask_in_words(&stream).map_err(|why| at(&why))?;
        let other = Channel::new(stream).map_err(|error| at(&error))?;
        Takeover::hear(other).map_err(|why| at(&why))
    }

    /// Receives a server's inventory.
    pub(super) fn hear(other: Channel) -> Result<Takeover, String> {
        let by = Instant::now() + OPENING;
        let (ours, files) = (Ours::not_yet(), Arc::<Handed>::default());
        let (mut sockets, mut claims) = (Vec::new(), Vec::new());
        for _ in 0..THINGS_MOST {
            let Frame { kind, payload, mut fds } = next(&other, Some(by))?;
            let count = fds.len();
            match kind {
                record::LISTENER | record::CONTROL | record::METRICS | record::PIDFILE => {
                    let record::At { at } = parsed(kind, &payload)?;
                    let (1, Some(socket)) = (count, fds.pop()) else {
                        return Err(many(kind, count));
                    };
                    sockets.push((kind, at, socket));
                }
                record::CLAIM if count != 0 => {
                    let record::ClaimState { writes, shared, alone } = parsed(kind, &payload)?;
                    let files = fds.into_iter().map(kernel::handle).collect();
                    claims.push((files, [writes, shared, alone]));
                }
                record::FILE if count != 0 => {
                    let record::FileState { lost } = parsed(kind, &payload)?;
                    files.add(fds, lost);
                }
                record::INVENTORY if count == 0 => {
                    let inventory = parsed(kind, &payload)?;
                    let (sockets, claims) =
                        (Mutex::new(sockets), Claims::taken(&System::default(), claims, &ours));
                    return Ok(Takeover { other, sockets, claims, files, ours, inventory });
                }
                _ => return Err(many(kind, count)),
            }
        }
        Err(format!("more than {THINGS_MOST} things"))
    }

    /// Receives everything that a server would send on this stream, whatever it is, and takes
    /// nothing over.
    ///
    /// # Errors
    /// What is wrong with the record.
    pub fn only_hear(stream: UnixStream) -> Result<(), String> {
        let takeover = Takeover::hear(Channel::new(stream).map_err(told)?)?;
        hear_connections(&takeover.other).map(drop)
    }

    /// The process that has served so far.
    pub const fn pid(&self) -> u32 {
        self.inventory.pid
    }

    /// A listening socket, by its name in a configuration.
    pub fn listener(&self, at: &str) -> Option<OwnedFd> {
        self.take(record::LISTENER, at)
    }

    pub(crate) fn control(&self, at: &Path) -> Option<OwnedFd> {
        self.take(record::CONTROL, &at.display().to_string())
    }

    pub(crate) fn metrics(&self, at: &str) -> Option<OwnedFd> {
        self.take(record::METRICS, at)
    }

    /// The pidfile at this path, held by the other process as long as that serves.
    pub fn pidfile(&self, at: &Path) -> Option<Pidfile> {
        let file = self.take(record::PIDFILE, &at.display().to_string())?;
        Some(Pidfile::taken(at, file, &self.ours))
    }

    fn take(&self, kind: u8, at: &str) -> Option<OwnedFd> {
        let mut all = locked(&self.sockets);
        let place = all.iter().position(|(of, called, _)| (*of, &**called) == (kind, at))?;
        Some(all.swap_remove(place).2)
    }

    /// The service manager of the other process.
    pub fn notify(&self) -> Option<Notify> {
        let at = self.inventory.notify.as_deref()?;
        Notify::new(at.as_ref(), self.inventory.watchdog.map(Nanos))
    }

    /// Everything is open here: takes the connections. From here on this process serves.
    ///
    /// # Errors
    /// Why the other process goes on serving.
    pub(crate) fn commit(&self) -> Result<Connections, String> {
        self.say(record::READY).map_err(told)?;
        let connections = hear_connections(&self.other)?;
        self.say(record::HAVE).map_err(told)?;
        // The other process may still refuse. In any case it does not know yet that this one
        // serves.
        match next(&self.other, None) {
            Ok(frame) if frame.kind == record::GO => {
                // If this does not reach it, it has died: it waits only for this message.
                let said = self.say(record::MINE);
                if said.is_err() && !self.has_ended() {
                    return Err("the other process is there, and does not hear".to_owned());
                }
            }
            Ok(frame) => return Err(format!("it said {} where go is next", frame.kind)),
            Err(_) if self.has_ended() => {}
            Err(why) => return Err(why),
        }
        self.ours.set(true);
        Ok(connections)
    }

    /// Waits until the other process has unmounted its folder.
    pub(crate) fn wait_for_unmount(&self) {
        let by = Instant::now() + WORD;
        // Its end will do as well; and if the folder is still mounted, mounting will fail with an
        // error.
        let _unmounted = self.other.receive(Some(by));
    }

    fn say(&self, kind: u8) -> io::Result<()> {
        self.other.send(kind, b"null", &[], Instant::now() + WORD)
    }

    /// Whether the other process has ended, or does at once.
    fn has_ended(&self) -> bool {
        let by = Instant::now() + DEATH;
        loop {
            if peer::has_ended(self.other.stream(), self.inventory.pid) {
                return true;
            }
            if Instant::now() > by {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Receives connections until the other side says that these are all.
pub(super) fn hear_connections(other: &Channel) -> Result<Connections, String> {
    let mut all = Connections::default();
    // Until the other process's loops are quiet: if that takes too long, it says so itself.
    let by = Instant::now() + OPENING;
    let mut bytes = 0;
    loop {
        let Frame { kind, payload, mut fds } = next(other, Some(by))?;
        let count = fds.len();
        match (kind, count) {
            (record::TENANT, 0) if all.tenants.len() < THINGS_MOST => {
                all.tenants.push(parsed(kind, &payload)?);
            }
            (record::CONNECTION, 1) if all.connections.len() < CONNECTIONS_MOST => {
                let state = parsed::<ConnectionState>(kind, &payload)?.checked()?;
                let Some(socket) = fds.pop() else { return Err(many(kind, count)) };
                let (input, output, behind) = (Vec::new(), Vec::new(), Vec::new());
                all.connections.push(HandedConnection { socket, state, input, output, behind });
            }
            (record::INPUT | record::OUTPUT | record::BEHIND, 0) => {
                bytes += payload.len();
                let Some(connection) = all.connections.last_mut().filter(|_| bytes <= BYTES_MOST)
                else {
                    return Err(format!("{bytes} bytes of no connection, or too many"));
                };
                match kind {
                    record::INPUT => connection.input.extend(payload),
                    record::OUTPUT => connection.output.extend(payload),
                    _ => connection.behind.extend(payload),
                }
            }
            (record::CONNECTIONS, 0) => {
                let record::Connections { connections } = parsed(kind, &payload)?;
                if usize::try_from(connections) != Ok(all.connections.len()) {
                    let came = all.connections.len();
                    return Err(format!("{came} connections came of {connections}"));
                }
                return Ok(all);
            }
            _ => return Err(many(kind, count)),
        }
    }
}

/// Asks in the control socket's protocol; the answer is one line.
fn ask_in_words(stream: &UnixStream) -> Result<(), String> {
    stream.set_read_timeout(Some(WORD)).map_err(told)?;
    let order = format!("{{\"do\":\"handover\",\"version\":{VERSION}}}\n");
    let mut writer = stream;
    writer.write_all(order.as_bytes()).map_err(told)?;
    // Byte by byte, because after the line come records with descriptors.
    let mut line = Vec::new();
    let mut one = BufReader::with_capacity(1, stream);
    while line.last() != Some(&b'\n') && line.len() < 4096 {
        match one.fill_buf().map_err(told)?.first() {
            Some(byte) => line.push(*byte),
            None => return Err("it hung up".to_owned()),
        }
        one.consume(1);
    }
    let answer: Value = serde_json::from_slice(&line).map_err(told)?;
    match answer.get("error").and_then(Value::as_str) {
        Some(why) => Err(printable(why)),
        None if answer.get("version") == Some(&Value::from(VERSION)) => Ok(()),
        None => Err(format!("it speaks another version than {VERSION}")),
    }
}

fn many(kind: u8, fds: usize) -> String {
    format!("a record of kind {kind} with {fds} descriptors has no place here")
}
