// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reload: the configuration file, read again by a server that goes on serving.
//!
//! ```text
//! SIGHUP, ctl reload ─▶ read ─▶ what a reload can change, beside what it cannot ─▶ sound?
//!     ─▶ certificates ─▶ each desk: is there room, what do attributes become      (nothing changes
//!     ─▶ each desk takes it, then the lobby                                        until here)
//! ```
//!
//! What can be changed: groups, tenants, rules, schedulers, attributes, timeouts, certificates.
//! Everything else is told by its key and holds from the next start on.
//!
//! Invariants: I1 a file with a mistake changes nothing; I2 a reload never ends the server; I3 what
//! it does not change it names.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::json;

use crate::config::flat::{Change, changes};
use crate::config::{Config, Device};
use crate::control::order::Answer;
use crate::desk::inbox::Slot;
use crate::desk::reload::{Reload, Seen, Step};
use crate::desk::{Letter, attributes};
use crate::device::content;
use crate::locked::locked;
use crate::wire;

/// How long a desk may take for an answer: it has its rounds to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the lobby is told.
#[derive(Debug)]
pub(crate) enum Word {
    /// It closes.
    End,
    /// Another configuration, and the certificates that were read with it.
    Changed(Arc<Config>, Option<Arc<ServerConfig>>, Sender<()>),
}

/// Where a configuration is read again, and what the command line says beside it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// Instead of the file's.
    pub pidfile: Option<PathBuf>,
    /// Requests are told, whatever the file says.
    pub verbose: bool,
}

impl Source {
    /// This file, and nothing beside it.
    #[must_use]
    pub fn new(file: &Path) -> Source {
        Source { file: file.to_owned(), pidfile: None, verbose: false }
    }

    /// Reads it.
    ///
    /// # Errors
    /// The line, what is wrong there, and what would be right.
    pub fn read(&self) -> Result<Config, crate::config::ConfigError> {
        let mut config = Config::load(&self.file)?;
        config.server.verbose |= self.verbose;
        config.server.pidfile = self.pidfile.clone().or(config.server.pidfile);
        Ok(config)
    }
}

/// What takes over another configuration.
#[derive(Debug)]
pub(crate) struct Keeper {
    source: Option<Source>,
    /// What holds, as it was asked for.
    running: Mutex<Config>,
    /// By device, in the order of the configuration.
    desks: Vec<Slot<Letter>>,
    lobby: Slot<Word>,
}

/// What came of a reload.
struct Taken {
    changed: Vec<String>,
    later: Vec<String>,
    notes: Vec<String>,
}

impl Keeper {
    pub(crate) const fn new(
        source: Option<Source>,
        running: Config,
        desks: Vec<Slot<Letter>>,
        lobby: Slot<Word>,
    ) -> Keeper {
        Keeper { source, running: Mutex::new(running), desks, lobby }
    }

    /// Reads the file again and takes it over; tells the log, too.
    pub(crate) fn reload(&self) -> Answer {
        match self.read_again() {
            Ok(taken) => {
                let Taken { changed, later, notes } = taken;
                let same = changed.is_empty() && later.is_empty();
                let same = same.then(|| "nothing is different in it".to_owned());
                let starts = later.iter().map(|key| format!("{key} (from the next start on)"));
                let told = changed.iter().chain(&notes).chain(&same).cloned().chain(starts);
                told.for_each(|line| crate::log::tell(format_args!("paternoster: reload: {line}")));
                Ok(json!({ "ok": true, "changed": changed, "later": later, "notes": notes }))
            }
            Err(why) => {
                crate::log::tell(format_args!("paternoster: reload: nothing was changed: {why}"));
                Err(format!("nothing was changed: {why}"))
            }
        }
    }

    fn read_again(&self) -> Result<Taken, String> {
        let Some(source) = &self.source else {
            return Err("the server was started without a configuration file".to_owned());
        };
        // One at a time.
        let mut running = locked(&self.running);
        let mut asked = source.read().map_err(|error| error.to_string())?;
        let left_out = content::leave_out(&mut asked.devices).map_err(|error| error.to_string())?;
        let (now, later): (Vec<Change>, Vec<Change>) =
            changes(&running, &asked).into_iter().partition(can_change);
        let merged = merged(&running, asked).settle().map_err(|complaint| {
            let file = source.file.display();
            format!("{file}: beside what holds until the next start: {complaint}")
        })?;
        let merged = Arc::new(merged);
        let tls = merged.server.tls.as_ref().map(wire::server_config).transpose()?;
        let seen = self.ask_all(&merged, |_, answer| Step::Look(answer))?;
        let each = merged.devices.iter().zip(seen);
        let tried =
            each.map(|(device, seen)| tried(device, seen)).collect::<Result<Vec<_>, _>>()?;
        // Nothing was changed so far, and nothing is refused from here on.
        let mut tried = tried.into_iter();
        let held = self.ask_all(&merged, |_, answer| Step::Take {
            attributes: tried.next().unwrap_or_default(),
            answer,
        })?;
        let named = tls.is_some().then(|| "server.tls: the certificates were read".to_owned());
        let (heard, hears) = channel();
        // A lobby that has ended lets nobody in. One that hears late lets in by the old
        // certificates until then.
        let _ended = self.lobby.put(Word::Changed(Arc::clone(&merged), tls, heard));
        let _late = hears.recv_timeout(PATIENCE);
        let held = merged.devices.iter().zip(held);
        let held = held.flat_map(|(device, keys)| {
            keys.into_iter().map(|key| format!("device.{}.{key}", device.name))
        });
        let later = later.iter().map(ToString::to_string).chain(held).collect();
        let changed = now.iter().map(ToString::to_string).chain(named).collect();
        running.clone_from(&merged);
        let notes = left_out.iter().map(|why| format!("left out: {why}")).collect();
        Ok(Taken { changed, later, notes })
    }

    /// Asks every desk something, all at once; what they answer, in the order of the devices.
    fn ask_all<T>(
        &self,
        config: &Arc<Config>,
        mut step: impl FnMut(usize, Sender<Result<T, String>>) -> Step,
    ) -> Result<Vec<T>, String> {
        let name = |device: usize| format!("device {}", config.devices[device].name);
        let mut waiting: Vec<Receiver<Result<T, String>>> = Vec::new();
        for (device, desk) in self.desks.iter().enumerate() {
            let (answer, answers) = channel();
            let reload = Reload { config: Arc::clone(config), device, step: step(device, answer) };
            desk.put(Letter::Reload(Box::new(reload)))
                .map_err(|_| format!("{}: its thread has ended", name(device)))?;
            waiting.push(answers);
        }
        let late = |_| Err(format!("no answer within {} s", PATIENCE.as_secs()));
        let answers = waiting.iter().map(|answers| answers.recv_timeout(PATIENCE));
        let answers = answers.enumerate().map(|(device, answer)| {
            answer.unwrap_or_else(late).map_err(|why| format!("{}: {why}", name(device)))
        });
        answers.collect()
    }
}

fn tried(device: &Device, seen: Seen) -> Result<Vec<(String, String)>, String> {
    attributes(device, seen).map_err(|why| format!("device {}: {why}", device.name))
}

/// Whether a running server can change this.
fn can_change(change: &Change) -> bool {
    let key: Vec<&str> = change.key.iter().map(String::as_str).collect();
    match key[..] {
        ["group" | "tenant" | "rule", ..] => true,
        ["server", key] => {
            // That there are certificates at all is the listeners' business.
            let both = change.values.0.is_some() && change.values.1.is_some();
            match key {
                "connection-memory"
                | "handshake-timeout"
                | "stall-timeout"
                | "drain-timeout"
                | "device-timeout"
                | "verbose"
                | "tls.client-authority" => true,
                _ => key.starts_with("tls.") && both,
            }
        }
        ["device", _, key] => {
            key == "scheduler" || key == "delay-bound" || key.starts_with("attributes.")
        }
        _ => false,
    }
}

/// What holds from now on: of `asked` what can be changed, of `running` the rest.
fn merged(running: &Config, asked: Config) -> Config {
    let mut merged = Config { devices: Vec::new(), server: running.server.clone(), ..asked };
    let (server, new) = (&mut merged.server, asked.server);
    if let (Some(tls), Some(new)) = (&mut server.tls, new.tls) {
        *tls = new;
    }
    server.connection_memory = new.connection_memory;
    server.handshake_timeout = new.handshake_timeout;
    server.stall_timeout = new.stall_timeout;
    server.drain_timeout = new.drain_timeout;
    server.device_timeout = new.device_timeout;
    server.verbose = new.verbose;
    for old in &running.devices {
        let new = asked.devices.iter().find(|new| new.name == old.name);
        let mut device = old.clone();
        if let Some(new) = new {
            device.scheduler.clone_from(&new.scheduler);
            device.attributes.clone_from(&new.attributes);
            device.delay_bound = new.delay_bound;
        }
        merged.devices.push(device);
    }
    merged
}
