// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reload: the configuration file, read again by a server that goes on serving.
//!
//! ```text
//! SIGHUP, ctl reload ─▶ read ─▶ what a reload can change, and what it cannot ─▶ sound?
//!     ─▶ certificates ─▶ each loop: is there room, what do attributes become      (nothing changes
//!     ─▶ each loop takes it, then the negotiation                                      until here)
//! ```
//!
//! What can be changed: volumes on devices that are there, groups, tenants, rules, schedulers,
//! attributes, timeouts, certificates. Everything else is reported by its key and takes effect at
//! the next start.
//!
//! `ordered`: what was changed live and not saved is given up, and named.
//!
//! Invariants: I1 a file with a mistake changes nothing; I2 a reload never ends the server; I3 what
//! it does not change it names; I4 "nothing is different" is said of file and server, not of two
//! files.

mod ordered;

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::json;

use crate::config::flat::{Change, changes};
use crate::config::{Config, Device, Level, LogFormat, Volume};
use crate::control::Certified;
use crate::control::order::{Answer, Order, Settings};
use crate::device::claim::Claims;
use crate::device::system::System;
use crate::device::{self, NewFile, content};
use crate::device_loop::inbox::{Slot, unanswered};
use crate::device_loop::reload::{Reload, Seen, Step, Take, Taken};
use crate::device_loop::volumes::{Coming, Going};
use crate::device_loop::{DeviceLoopHandle, Message, attributes};
use crate::export_table::ExportTable;
use crate::host::notify::Notify;
use crate::host::sandbox;
use crate::locked::locked;
use crate::log::Entry;
use crate::negotiation::{Pause, Sockets};
use crate::{save, wire};

/// How long a loop may take for an answer: it has its rounds to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// The message to the negotiation.
#[derive(Debug)]
pub(crate) enum Word {
    /// The server ends.
    End,
    /// What are the listening sockets?
    Sockets(Sender<Sockets>),
    /// Another process takes over.
    Pause(Pause),
    /// Something else holds.
    Changed(Changed),
}

/// What applies to new clients from now on.
#[derive(Debug)]
pub(crate) struct Changed {
    pub config: Arc<Config>,
    pub export_table: ExportTable,
    pub tls: Option<Arc<ServerConfig>>,
    /// Told when it does.
    pub heard: Sender<()>,
}

/// Where to read the configuration again, and what the command line adds to it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file.
    pub file: PathBuf,
    /// Instead of the file's.
    pub pidfile: Option<PathBuf>,
    /// Requests are logged, whatever the file says.
    pub verbose: bool,
    /// What the log tells and how, instead of the file's.
    pub log: (Option<Level>, Option<LogFormat>),
}

impl Source {
    /// This file, with nothing added.
    #[must_use]
    pub fn new(file: &Path) -> Source {
        Source { file: file.to_owned(), pidfile: None, verbose: false, log: (None, None) }
    }

    /// Reads it.
    ///
    /// # Errors
    /// The line, what is wrong there, and what would be right.
    pub fn read(&self) -> Result<Config, crate::config::ConfigError> {
        let mut config = Config::load(&self.file)?;
        let server = &mut config.server;
        server.verbose |= self.verbose;
        server.log_level = self.log.0.unwrap_or(server.log_level);
        server.log_format = self.log.1.unwrap_or(server.log_format);
        config.server.pidfile = self.pidfile.clone().or(config.server.pidfile);
        Ok(config)
    }
}

/// Takes over new configurations.
#[derive(Debug)]
pub(crate) struct Keeper {
    source: Option<Source>,
    /// Serves files also if others have them in use.
    force: bool,
    running: Mutex<Running>,
    /// By device, in the order of the configuration.
    device_loops: Vec<(DeviceLoopHandle, Slot<Message>)>,
    negotiation: Slot<Word>,
    notify: Option<Notify>,
    metrics: Option<Certified>,
}

/// The configuration in force.
#[derive(Debug)]
pub(crate) struct Running {
    /// The configuration as requested.
    pub config: Config,
    /// What its volumes are on; given back when nothing writes any more.
    pub claims: Claims,
}

/// The result of a reload.
struct Report {
    changed: Vec<String>,
    later: Vec<String>,
    notes: Vec<String>,
}

impl Keeper {
    pub(crate) const fn new(
        source: Option<Source>,
        force: bool,
        running: Running,
        device_loops: Vec<(DeviceLoopHandle, Slot<Message>)>,
        negotiation: Slot<Word>,
        metrics: Option<Certified>,
    ) -> Keeper {
        let notify = None;
        Keeper {
            source,
            force,
            running: Mutex::new(running),
            device_loops,
            negotiation,
            notify,
            metrics,
        }
    }

    /// A service manager is notified of reloads.
    pub(crate) fn tells(self, notify: Option<Notify>) -> Keeper {
        Keeper { notify, ..self }
    }

    /// What is served, for a service manager.
    pub(crate) fn status(&self) -> String {
        let running = locked(&self.running);
        let devices = &running.config.devices;
        let volumes: usize = devices.iter().map(|device| device.volumes.len()).sum();
        format!("serving {volumes} volumes of {} devices", devices.len())
    }

    /// Does something while nothing else is changed: no reload, no `ctl save`.
    pub(crate) fn hold<T>(&self, what: impl FnOnce(&Config, &Claims) -> T) -> T {
        let running = locked(&self.running);
        what(&running.config, &running.claims)
    }

    /// What is claimed and not served is given back.
    pub(crate) fn keep_what_is_served(&self) {
        let mut running = locked(&self.running);
        let devices = running.config.devices.clone();
        let _given_back = running.claims.keep(&devices, &[]);
    }

    /// Nothing is served any more: others may have the images.
    pub(crate) fn give_back(&self) {
        locked(&self.running).claims = Claims::default();
    }

    /// Reads the file again and takes it over; tells the log, too.
    pub(crate) fn reload(&self) -> Answer {
        let Some(notify) = &self.notify else { return self.reload_and_tell() };
        notify.reloading();
        let answer = self.reload_and_tell();
        let why = answer.as_ref().err().map_or(String::new(), |why| format!("; reload: {why}"));
        notify.ready(&(self.status() + &why));
        answer
    }

    fn reload_and_tell(&self) -> Answer {
        match self.read_again() {
            Ok(report) => {
                let Report { changed, later, notes } = report;
                let same = changed.is_empty() && later.is_empty();
                let same = same.then(|| "nothing is different in it".to_owned());
                let starts = later.iter().map(|key| format!("{key} (from the next start on)"));
                let told = changed.iter().chain(&notes).chain(&same).cloned().chain(starts);
                let entry = Entry::new(Level::Info, "reload");
                told.for_each(|line| entry.tell(format_args!("reload: {line}")));
                Ok(json!({ "ok": true, "changed": changed, "later": later, "notes": notes }))
            }
            Err(why) => {
                let entry = Entry::new(Level::Error, "reload");
                entry.tell(format_args!("reload: nothing was changed: {why}"));
                Err(format!("nothing was changed: {why}"))
            }
        }
    }

    fn read_again(&self) -> Result<Report, String> {
        let Some(source) = &self.source else {
            return Err("the server was started without a configuration file".to_owned());
        };
        // A start may read from a pipe; a server that runs cannot wait for what writes to one.
        if std::fs::metadata(&source.file).is_ok_and(|file| file.file_type().is_fifo()) {
            return Err(format!("{}: it is a pipe; a reload reads a file", source.file.display()));
        }
        // One at a time.
        let mut running = locked(&self.running);
        let asked = source.read().map_err(|error| error.to_string())?;
        let before = self.live(&running.config)?;
        let changes = changes(&running.config, &asked);
        let (now, later): (Vec<Change>, Vec<Change>) =
            changes.into_iter().partition(|change| can_change(change, &running.config, &asked));
        let mut merged = merged(&running.config, asked);
        let notes = leave_out(&running.config, &mut merged);
        let merged = merged.settle().map_err(|complaint| {
            let file = source.file.display();
            format!("{file}: beside what holds until the next start: {complaint}")
        })?;
        let merged = Arc::new(merged);
        let tls = merged.server.tls.as_ref().map(wire::server_config).transpose()?;
        let mut claims = running.claims.more(&merged.devices, self.force).map_err(not_open)?;
        let files = opened(claims.system(), &running.config, &merged)?;
        claims.confirm().map_err(told)?;
        let seen = self.ask_all(&merged, |device, answer| {
            let files = files[device].iter().map(|(_, file)| file.clone()).collect();
            Step::Look { files, answer }
        })?;
        let each = merged.devices.iter().zip(files).zip(seen);
        let takes = each.map(|((device, files), seen)| take(device, files, seen));
        let mut takes = takes.collect::<Result<Vec<Take>, _>>()?;
        // Nothing was changed so far, and nothing is refused from here on.
        let gone = differing(&merged, &running.config);
        let all: Vec<&Volume> = gone.iter().map(|(_, volume)| *volume).collect();
        let held = claims.keep(&merged.devices, &all);
        for ((device, volume), held) in gone.into_iter().zip(held) {
            takes[device].going.push(Going { name: volume.name.clone(), held });
        }
        let mut takes = takes.into_iter();
        let taken = self.ask_all(&merged, |_, answer| {
            Step::Take(Box::new(takes.next().unwrap_or_default()), answer)
        })?;
        let mut export_table = ExportTable::default();
        let mut held = Vec::new();
        let device_loops = self.device_loops.iter().zip(&merged.devices).zip(taken);
        for (((handle, slot), device), Taken { later, exports }) in device_loops {
            handle.has_volumes(exports.iter().map(|facts| facts.name.clone()).collect());
            export_table.add(exports, slot);
            held.extend(later.iter().map(|key| format!("device.{}.{key}", device.name)));
        }
        let named = tls.is_some().then(|| "server.tls: the certificates were read".to_owned());
        if let (Some(metrics), Some(tls)) = (&self.metrics, &tls) {
            metrics.renew(Arc::clone(tls));
        }
        let (heard, hears) = channel();
        // A negotiation that has ended accepts no clients. One that gets the message late accepts
        // as before until then.
        let changed = Changed { config: Arc::clone(&merged), export_table, tls, heard };
        let _ended = self.negotiation.put(Word::Changed(changed));
        let _late = hears.recv_timeout(PATIENCE);
        crate::log::configure(&merged.server);
        // A loop that does not tell has taken it all the same.
        let behind = self.live(&merged).unwrap_or_else(|_| Config::clone(&merged));
        let changed = ordered::lines(&now, &running, &before, &behind);
        let changed = changed.into_iter().chain(named).collect();
        running.config.clone_from(&merged);
        running.claims = claims;
        let later = later.iter().map(ToString::to_string).chain(held).collect();
        Ok(Report { changed, later, notes })
    }

    /// Writes what was ordered of tenants, schedulers and attributes into the file.
    pub(crate) fn save(&self) -> Answer {
        let Some(source) = &self.source else {
            return Err("the server was started without a configuration file".to_owned());
        };
        let mut running = locked(&self.running);
        let live = self.live(&running.config)?;
        let changes = changes(&running.config, &live);
        if !changes.is_empty() {
            save::save(&source.file, &each(&changes, &live))?;
        }
        running.config = live;
        let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
        for line in &told {
            Entry::new(Level::Info, "save").tell(format_args!("saved: {line}"));
        }
        Ok(json!({ "ok": true, "changed": told, "file": source.file.display().to_string() }))
    }

    /// Asks every loop something, all at once; what they answer, in the order of the devices.
    fn ask_all<T>(
        &self,
        config: &Arc<Config>,
        mut step: impl FnMut(usize, Sender<Result<T, String>>) -> Step,
    ) -> Result<Vec<T>, String> {
        let name = |device: usize| format!("device {}", config.devices[device].name);
        let mut waiting: Vec<Receiver<Result<T, String>>> = Vec::new();
        for (device, (_, device_loop)) in self.device_loops.iter().enumerate() {
            let (answer, answers) = channel();
            let reload = Reload { config: Arc::clone(config), device, step: step(device, answer) };
            device_loop
                .put(Message::Reload(Box::new(reload)))
                .map_err(|_| format!("{}: its thread has ended", name(device)))?;
            waiting.push(answers);
        }
        let late = |why| Err(unanswered(why, PATIENCE));
        let answers = waiting.iter().map(|answers| answers.recv_timeout(PATIENCE));
        let answers = answers.enumerate().map(|(device, answer)| {
            answer.unwrap_or_else(late).map_err(|why| format!("{}: {why}", name(device)))
        });
        answers.collect()
    }
}

/// The changes, with a tenant's section that was added shown as its keys.
fn each(changes: &[Change], live: &Config) -> Vec<Change> {
    let mut all = Vec::new();
    for change in changes {
        match (&change.key[..], live.tenants.iter().find(|it| change.key.last() == Some(&it.name)))
        {
            ([kind, name], Some(tenant)) if kind == "tenant" => {
                let key = vec![kind.clone(), name.clone(), "weight".to_owned()];
                all.push(Change { key, values: (None, Some(tenant.weight.to_string())) });
            }
            _ => all.push(change.clone()),
        }
    }
    all
}

/// Volumes of `new` that are not, just so, in `old`; with the place of their device.
pub(crate) fn differing<'a>(old: &Config, new: &'a Config) -> Vec<(usize, &'a Volume)> {
    let mut all = Vec::new();
    for (place, device) in new.devices.iter().enumerate() {
        let known = old.devices.iter().find(|known| known.name == device.name);
        let is_known = |volume: &Volume| {
            let same = |known: &Volume| {
                // A volume's description, and which clients may open it from now on, change nothing
                // for clients that have it open.
                let (description, rights) = (volume.description.clone(), volume.rights.clone());
                Volume { description, rights, ..known.clone() } == *volume
            };
            known.is_some_and(|known| known.volumes.iter().any(same))
        };
        all.extend(device.volumes.iter().filter(|it| !is_known(it)).map(|it| (place, it)));
    }
    all
}

/// Leaves out those that come and are plainly no raw disk; why.
fn leave_out(running: &Config, merged: &mut Config) -> Vec<String> {
    let mut alone = Vec::new();
    for (place, volume) in differing(running, merged) {
        let volumes = vec![volume.clone()];
        alone.push((place, Device { volumes, ..merged.devices[place].clone() }));
    }
    let mut notes = Vec::new();
    for (place, device) in alone {
        if let Err(why) = content::look(std::slice::from_ref(&device)) {
            notes.push(format!("left out: {why}"));
            merged.devices[place].volumes.retain(|volume| volume.name != device.volumes[0].name);
        }
    }
    notes
}

/// The files of those that come, by device.
fn opened(
    system: &System,
    running: &Config,
    merged: &Config,
) -> Result<Vec<Vec<(Volume, NewFile)>>, String> {
    let mut files: Vec<Vec<(Volume, NewFile)>> = merged.devices.iter().map(|_| vec![]).collect();
    for (place, volume) in differing(running, merged) {
        let file =
            device::open::open_one(system, &merged.devices[place], volume).map_err(not_open)?;
        files[place].push((volume.clone(), file));
    }
    Ok(files)
}

/// What a loop takes: its attributes, and the places of its new volumes.
pub(crate) fn take(
    device: &Device,
    files: Vec<(Volume, NewFile)>,
    seen: Seen,
) -> Result<Take, String> {
    let named = |why| format!("device {}: {why}", device.name);
    let attributes = attributes(device, seen.facts, seen.limits).map_err(named)?;
    let mut line = seen.line;
    let mut coming = Vec::new();
    for (volume, file) in files {
        let place = line.lay(&volume, 0, file.facts()).map_err(named)?;
        coming.push(Coming { place, file });
    }
    Ok(Take { attributes, going: Vec::new(), coming, line })
}

/// Whether a running server can change this.
fn can_change(change: &Change, running: &Config, asked: &Config) -> bool {
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
                | "log-level"
                | "log-format"
                | "tls.client-authority" => true,
                _ => key.starts_with("tls.") && both,
            }
        }
        ["device", _, key] => {
            key == "scheduler" || key == "delay-bound" || key.starts_with("attributes.")
        }
        ["volume", name, ..] => {
            let on = |config: &Config| {
                let mut devices = config.devices.iter();
                let on = devices.find(|device| device.volumes.iter().any(|it| it.name == name));
                on.map(|device| device.name.clone())
            };
            let both = |device: &String| [running, asked].map(|it| has(it, device)) == [true; 2];
            running.server.fuse.is_none() && [running, asked].map(on).iter().flatten().all(both)
        }
        _ => false,
    }
}

fn has(config: &Config, device: &str) -> bool {
    config.devices.iter().any(|known| known.name == device)
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
    server.log_level = new.log_level;
    server.log_format = new.log_format;
    let files = server.fuse.is_some();
    for old in &running.devices {
        let new = asked.devices.iter().find(|new| new.name == old.name);
        let mut device = old.clone();
        if let Some(new) = new {
            device.scheduler.clone_from(&new.scheduler);
            device.attributes.clone_from(&new.attributes);
            device.delay_bound = new.delay_bound;
            if !files {
                device.volumes.clone_from(&new.volumes);
            }
        }
        merged.devices.push(device);
    }
    merged
}

/// Why a file is not open; in a sandbox that may be why.
#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn not_open(error: impl std::fmt::Display) -> String {
    let why = error.to_string();
    let hint = if why.contains("Permission denied") { sandbox::hint() } else { "" };
    why + hint
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
