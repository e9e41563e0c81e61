// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giver: the side of the process that has served so far.
//!
//! ```text
//! inventory ─▶ (ready) ─▶ reloads wait, sockets pause, loops leave ─▶ connections
//!     ─▶ (have) ─▶ go ─▶ (mine) ─▶ verdict: gone ─▶ the server ends
//! anything else ─▶ verdict: resume
//! ```
//!
//! Invariants: I1 every way out but `mine` ends in resume, that of a panic, too: a verdict that
//! never comes is one; I2 one handover at a time.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::channel::{Channel, RECORD_MOST};
use super::{BYTES_MOST, CONNECTIONS_MOST, OPENING, WORD, next, record, told};
use crate::config::{Identity, Level};
use crate::device::system::OpenFile;
use crate::device_loop::handover::{HandoverMessage, Leave, Leaving, Post, Verdict};
use crate::device_loop::inbox::Slot;
use crate::device_loop::{DeviceLoopHandle, Message};
use crate::host::notify::Notify;
use crate::host::ours::Ours;
use crate::host::pidfile::Pidfile;
use crate::locked::locked;
use crate::log::Entry;
use crate::negotiation::Pause;
use crate::reload::{Keeper, Word};

/// How long a thread of this process may take for an answer.
const THREAD: Duration = Duration::from_secs(10);

/// A record without descriptors.
const NONE: &[OwnedFd] = &[];

/// What a server needs to give itself away.
#[derive(Debug)]
pub(crate) struct Giver {
    pub device_loops: Vec<(DeviceLoopHandle, Slot<Message>)>,
    pub negotiation: Slot<Word>,
    pub keeper: Arc<Keeper>,
    pub stop: Sender<()>,
    pub notify: Option<Notify>,
    /// Sockets of control and metrics: kind, what they are called, and they.
    pub sockets: Vec<(u8, String, OwnedFd)>,
    pub pidfile: Option<Arc<Pidfile>>,
    /// Whether the control socket's path is removed here.
    pub control: Option<Ours>,
    pub left: Arc<Left>,
    pub busy: Mutex<()>,
}

/// What a server knows of having been given away.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Doors let no client in.
    pub paused: Arc<AtomicBool>,
    /// Another process serves, and hears of what it waits for.
    to: Mutex<Option<Channel>>,
    is: AtomicBool,
}

impl Left {
    /// Whether another process serves.
    pub(crate) fn is(&self) -> bool {
        self.is.load(Ordering::SeqCst)
    }

    /// The folder of files is free.
    pub(crate) fn unmounted(&self) {
        if let Some(to) = locked(&self.to).as_ref() {
            // It looks itself after a while.
            let _gone = to.send(record::UNMOUNTED, &[], &[], Instant::now() + WORD);
        }
    }
}

/// The state that is given, frozen until a verdict.
struct Frozen {
    verdicts: Vec<Sender<Verdict>>,
    device_loops: Vec<Leaving>,
    shaking: u32,
}

impl Giver {
    /// Gives everything to the process at the other end, which has been granted it.
    ///
    /// # Errors
    /// Why not; this server goes on.
    pub(crate) fn give(&self, stream: UnixStream, who: &Identity) -> Result<(), String> {
        let Ok(_alone) = self.busy.try_lock() else {
            return Err("another process is taking over just now".to_owned());
        };
        let pid = who.pid.unwrap_or(0);
        let other = Channel::new(stream).map_err(told)?;
        let given = self.give_to(&other);
        match given {
            Ok(words) => {
                Entry::new(Level::Info, "handover")
                    .tell(format_args!("handed over to process {pid}: {words}"));
                if let Some(notify) = &self.notify {
                    notify.is_now(pid);
                }
                *locked(&self.left.to) = Some(other);
                // It has ended already.
                let _ended = self.stop.send(());
                Ok(())
            }
            Err(why) => {
                let said = serde_json::json!({ "why": why }).to_string();
                let by = Instant::now() + Duration::from_secs(1);
                let _gone = other.send(record::REFUSED, said.as_bytes(), &[], by);
                Entry::new(Level::Warning, "handover").tell(format_args!(
                    "not handed over to process {pid}: {why}; this one goes on"
                ));
                Err(why)
            }
        }
    }

    /// Hands over to the other process; returns what was given, in words.
    fn give_to(&self, other: &Channel) -> Result<String, String> {
        self.tell_inventory(other)?;
        expect(other, record::READY, Some(Instant::now() + OPENING))?;
        // A reload, or a `ctl save`, waits.
        self.keeper.hold(|config, claims| {
            let patience = config.server.drain_timeout;
            self.left.paused.store(true, Ordering::SeqCst);
            let begun = Instant::now();
            let done = self.freeze(patience).and_then(|frozen| {
                self.tell_connections(other, &frozen)?;
                expect(other, record::HAVE, Some(Instant::now() + WORD))?;
                send(other, record::GO, &(), NONE)?;
                // The other side may have sent it, however late it is; a closed channel means that
                // it has not.
                expect(other, record::MINE, None)?;
                claims.leave();
                self.pidfile.iter().for_each(|pidfile| pidfile.leave());
                self.control.iter().for_each(|path| path.set(false));
                self.left.is.store(true, Ordering::SeqCst);
                let paused = begun.elapsed().as_millis();
                for verdict in &frozen.verdicts {
                    let _ended = verdict.send(Verdict::Gone);
                }
                Ok(words(&frozen, paused))
            });
            if done.is_err() {
                // Threads that wait for a verdict learn that none comes.
                self.left.paused.store(false, Ordering::SeqCst);
            }
            done
        })
    }

    fn tell_inventory(&self, other: &Channel) -> Result<(), String> {
        let (answer, answers) = channel();
        self.negotiation
            .put(Word::Sockets(answer))
            .map_err(|_| "the negotiation has ended".to_owned())?;
        let listeners = heard(&answers, THREAD)??;
        for (at, socket) in &listeners {
            send(other, record::LISTENER, &record::At { at: at.clone() }, &[socket])?;
        }
        for (kind, at, socket) in &self.sockets {
            send(other, *kind, &record::At { at: at.clone() }, &[socket])?;
        }
        if let Some(pidfile) = &self.pidfile {
            let at = pidfile.path().display().to_string();
            send(other, record::PIDFILE, &record::At { at }, &[&pidfile.as_fd()])?;
        }
        let claims = self.keeper.hold(|_, claims| claims.to_hand_over().map_err(told))?;
        for (files, [writes, shared, alone]) in claims {
            let fds: Vec<OwnedFd> = files.into_iter().filter_map(OpenFile::descriptor).collect();
            send(other, record::CLAIM, &record::ClaimState { writes, shared, alone }, &fds)?;
        }
        for (_, device_loop) in &self.device_loops {
            let (answer, answers) = channel();
            let message = Message::Handover(Post(Box::new(HandoverMessage::Files(answer))));
            device_loop.put(message).map_err(|_| "a device's thread has ended".to_owned())?;
            for file in heard(&answers, THREAD)?? {
                let fds = file.descriptors();
                if !fds.is_empty() {
                    send(other, record::FILE, &record::FileState { lost: file.lost }, &fds)?;
                }
            }
        }
        let (notify, watchdog) = self.notify.as_ref().map(Notify::told_at).unwrap_or_default();
        let inventory = record::Inventory { pid: std::process::id(), notify, watchdog };
        send(other, record::INVENTORY, &inventory, NONE)
    }

    /// Nothing is read or done any more, until the verdict; in this order no client falls between
    /// the negotiation and its loop.
    fn freeze(&self, patience: paternoster_core::Nanos) -> Result<Frozen, String> {
        let (paused, pauses) = channel();
        let (verdict, waits) = channel();
        let mut frozen = Frozen { verdicts: vec![verdict], device_loops: Vec::new(), shaking: 0 };
        let pause = Pause { paused, verdict: waits, until: None };
        self.negotiation
            .put(Word::Pause(pause))
            .map_err(|_| "the negotiation has ended".to_owned())?;
        frozen.shaking = heard(&pauses, THREAD)?;
        let mut waiting: Vec<Receiver<Result<Leaving, String>>> = Vec::new();
        for (_, device_loop) in &self.device_loops {
            let (answer, answers) = channel();
            let (verdict, waits) = channel();
            let leave = Leave { patience, by: None, answer, verdict: waits };
            let message = Message::Handover(Post(Box::new(HandoverMessage::Leave(leave))));
            device_loop.put(message).map_err(|_| "a device's thread has ended".to_owned())?;
            frozen.verdicts.push(verdict);
            waiting.push(answers);
        }
        for (answers, (handle, _)) in waiting.iter().zip(&self.device_loops) {
            let leaving = heard(answers, THREAD + Duration::from_nanos(patience.0))?;
            let named = |why| format!("device {}: {why}", handle.device);
            frozen.device_loops.push(leaving.map_err(named)?);
        }
        Ok(frozen)
    }

    fn tell_connections(&self, other: &Channel, frozen: &Frozen) -> Result<(), String> {
        let connections =
            || frozen.device_loops.iter().flat_map(|device_loop| &device_loop.connections);
        let bytes = connections().map(|it| it.input.len() + it.output.len() + it.behind.len());
        let (count, bytes) = (connections().count(), bytes.sum::<usize>());
        if count > CONNECTIONS_MOST || bytes > BYTES_MOST {
            return Err(format!(
                "{count} connections with {bytes} bytes: \
                 at most {CONNECTIONS_MOST} and {BYTES_MOST}"
            ));
        }
        let by = Instant::now() + WORD;
        for state in frozen.device_loops.iter().flat_map(|device_loop| &device_loop.tenants) {
            send_by(other, record::TENANT, state, NONE, by)?;
        }
        for connection in connections() {
            send_by(other, record::CONNECTION, &connection.state, &[&*connection.socket], by)?;
            for (kind, bytes) in [
                (record::INPUT, &connection.input),
                (record::OUTPUT, &connection.output),
                (record::BEHIND, &connection.behind),
            ] {
                for piece in bytes.chunks(RECORD_MOST) {
                    other.send(kind, piece, &[], by).map_err(told)?;
                }
            }
        }
        let connections = u64::try_from(count).unwrap_or(u64::MAX);
        send_by(other, record::CONNECTIONS, &record::Connections { connections }, NONE, by)
    }
}

fn words(frozen: &Frozen, paused: u128) -> String {
    let given: usize =
        frozen.device_loops.iter().map(|device_loop| device_loop.connections.len()).sum();
    let stay = |which: usize| {
        frozen.device_loops.iter().map(|device_loop| device_loop.stay[which]).sum::<u32>()
    };
    let mut words = format!("{given} connections, which waited for {paused} ms");
    let told = [
        (stay(0), "under TLS must reconnect"),
        (stay(1), "processes on files must open them again"),
        (frozen.shaking, "were shaking hands and must reconnect"),
    ];
    for (count, what) in told.into_iter().filter(|(count, _)| *count != 0) {
        words += &format!("; {count} {what}");
    }
    words
}

fn heard<T>(answers: &Receiver<T>, patience: Duration) -> Result<T, String> {
    let late = |_| format!("no answer of a thread within {} s", patience.as_secs());
    answers.recv_timeout(patience).map_err(late)
}

fn send(
    other: &Channel,
    kind: u8,
    payload: &impl serde::Serialize,
    fds: &[impl AsFd],
) -> Result<(), String> {
    send_by(other, kind, payload, fds, Instant::now() + WORD)
}

fn send_by(
    other: &Channel,
    kind: u8,
    payload: &impl serde::Serialize,
    fds: &[impl AsFd],
    by: Instant,
) -> Result<(), String> {
    let payload = serde_json::to_vec(payload).map_err(told)?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    other.send(kind, &payload, &fds, by).map_err(told)
}

/// Waits for a word of the other side.
fn expect(other: &Channel, kind: u8, by: Option<Instant>) -> Result<(), String> {
    let frame = next(other, by)?;
    if frame.kind != kind || !frame.fds.is_empty() {
        return Err(format!("it said {} where {kind} is next", frame.kind));
    }
    Ok(())
}
