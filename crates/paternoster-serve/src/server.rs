// SPDX-License-Identifier: MIT OR Apache-2.0
//! Server: loops, negotiation, control and metrics, put together and taken apart.
//!
//! ```text
//! start    claims, devices, memory, certificates, control      as the user that starts it
//!          then it becomes the user that it is to be, and gives up what it does not need
//!          threads: one a device, the negotiation, control, metrics
//! stop     files go, negotiation closes, loops let connections finish, devices are flushed
//! ```
//!
//! Invariant: a server that was asked to stop has written and flushed what it acknowledged.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::ServerConfig;

use crate::config::{Config, Device, Identity, Level};
use crate::control::Certified;
use crate::control::http::{HttpServer, HttpSocket};
use crate::control::order::{Answer, Order};
use crate::control::server::{self as control, Access, ControlServer, ControlSocket};
use crate::device::Backend;
use crate::device::claim::Claims;
use crate::device::content;
use crate::device::handed::Handed;
use crate::device::system::System;
use crate::device_loop::handover;
use crate::device_loop::inbox::{Slot, inbox};
use crate::device_loop::{DeviceLoop, DeviceLoopHandle, Message, Opened, seats};
use crate::export_table::ExportTable;
use crate::fuse;
use crate::fuse::front::File;
use crate::fuse::helper::Helper;
use crate::fuse::mounted::Mounted;
use crate::handover::giver::{Giver, Left};
use crate::handover::taker::Connections;
use crate::handover::{Takeover, record};
use crate::host::descriptors;
use crate::host::listen::Socket;
use crate::host::notify::{Heart, Notify};
use crate::host::pidfile::Pidfile;
use crate::host::privileges::Account;
use crate::host::sandbox::{Sandbox, missing_image_folders, not_bounded};
use crate::locked::locked;
use crate::log::Entry;
use crate::negotiation::{Negotiation, wants_tls};
use crate::reload::{self, Keeper, Source, Word};
use crate::{vital, wire};

/// How long the end waits for the log's last lines: what they are written to may take none.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Puts something in front of a backend.
pub type Wrap = fn(Box<dyn Backend>) -> Box<dyn Backend>;

/// Options of the start that are not configuration.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Requests are logged on standard error.
    pub verbose: bool,
    /// Each loop's decisions are recorded, in `PREFIX.DEVICE.decisions`.
    pub decisions: Option<std::path::PathBuf>,
    /// Serves files also if others have them in use.
    pub force: bool,
    /// Where the configuration is read again; `None`: it was written otherwise.
    pub source: Option<Source>,
    /// The rights that the process gives up for good before the first client connects; `None`:
    /// none, as when the process does something else, too.
    pub sandbox: Option<Sandbox>,
    /// A service manager that wants messages.
    pub notify: Option<Notify>,
    /// Put in front of each device's backend: faults, for tests.
    pub wrap: Option<Wrap>,
    /// A running server, whose place this one takes.
    pub takeover: Option<Arc<Takeover>>,
    /// Holds the process's number; another process may take it over.
    pub pidfile: Option<Arc<Pidfile>>,
    /// The system in which the files are.
    pub system: System,
}

impl Options {
    /// Files of another process.
    pub(crate) fn handed_files(&self) -> Option<Arc<Handed>> {
        self.takeover.as_ref().map(|takeover| Arc::clone(&takeover.files))
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    handles: Vec<DeviceLoopHandle>,
    notes: Vec<String>,
    metrics: Option<SocketAddr>,
    stop_asked: Sender<()>,
    keeper: Arc<Keeper>,
    notify: Option<Notify>,
    left: Arc<Left>,
    running: Mutex<Option<Running>>,
}

/// What has to be taken apart at the end.
#[derive(Debug)]
struct Running {
    stop: Receiver<()>,
    door: Slot<Word>,
    negotiation: JoinHandle<()>,
    device_loops: Vec<JoinHandle<()>>,
    control: Option<ControlServer>,
    http: Option<HttpServer>,
    folder: Option<Mounted>,
}

impl Server {
    /// Opens everything, becomes the user that the configuration names, and serves.
    ///
    /// # Errors
    /// What cannot be opened, and why.
    pub fn start(config: Config, options: Options, sockets: Vec<Socket>) -> Result<Server, String> {
        let mut config = config;
        config.server.verbose |= options.verbose;
        crate::log::configure(&config.server);
        let asked = config.server.clone();
        let tls = match &config.server.tls {
            Some(tls) => Some(wire::server_config(tls)?),
            None if wants_tls(&sockets) => {
                return Err("TLS is asked for, but no certificate is configured".to_owned());
            }
            None => None,
        };
        let left_out = content::leave_out(&mut config.devices).map_err(told)?;
        let account = Account::of(&config.server)?;
        let takeover = options.takeover.clone();
        let claims = match &takeover {
            Some(takeover) => takeover.claims.more(&config.devices, options.force),
            None => Claims::take_of(&options.system, &config.devices, options.force),
        };
        let mut claims = claims.map_err(told)?;
        let (mut export_table, mut device_loops) = (ExportTable::default(), Vec::new());
        let mut notes: Vec<String> =
            left_out.iter().map(|why| format!("left out: {why}")).collect();
        notes.append(&mut claims.notes);
        let sandbox = options.sandbox.as_ref();
        // What has to be looked at elsewhere is open; no thread is there yet.
        notes.extend(sandbox.iter().flat_map(|_| missing_image_folders(&config)));
        let helper = helper_of(&config, sandbox.is_some(), account.is_some(), &mut notes)?;
        let unmounts = config.server.fuse.is_some() && helper.is_none();
        let decisions = options.decisions.as_deref();
        let bounded = sandbox.filter(|_| !unmounts);
        notes.extend(bounded.and_then(|it| it.bound_files(&config, decisions)));
        let (mut files, mut slots) = (Vec::new(), Vec::new());
        for device in &config.devices {
            let mut opened = DeviceLoop::open(&config, device, &options)?;
            files.extend(files_of(&opened, device));
            slots.push((opened.handle.clone(), opened.slot.clone()));
            export_table.add(std::mem::take(&mut opened.exports), &opened.slot);
            notes.append(&mut opened.notes);
            device_loops.push(opened);
        }
        claims.confirm().map_err(told)?;
        let handles: Vec<DeviceLoopHandle> =
            device_loops.iter().map(|device_loop| device_loop.handle.clone()).collect();
        let (stop_asked, stop) = channel();
        let (door, messages) = inbox().map_err(told)?;
        let asked = Config { server: asked, ..config.clone() };
        let running = reload::Running { config: asked, claims };
        let source = options.source.clone();
        let doors = Doors::open(&config, tls.clone(), takeover.as_deref())?;
        let certified = doors.certified();
        let (pairs, wants) = (slots.clone(), door.clone());
        let keeper = Keeper::new(source, options.force, running, slots, wants, certified);
        let keeper = keeper.tells(options.notify.clone());
        let keeper = Arc::new(keeper);
        let left = Arc::<Left>::default();
        let giver = Giver {
            device_loops: pairs,
            negotiation: door.clone(),
            keeper: Arc::clone(&keeper),
            stop: stop_asked.clone(),
            notify: options.notify.clone(),
            sockets: doors.again().map_err(told)?,
            pidfile: options.pidfile.clone(),
            control: doors.control.as_ref().map(ControlSocket::ours),
            left: Arc::clone(&left),
            busy: Mutex::default(),
        };
        let shown = config.server.fuse.as_ref();
        let mut arrived = None;
        let folder = match (shown, &takeover) {
            (None, _) => None,
            (Some(settings), None) => Some(fuse::show(&config, settings, files, helper)?),
            (Some(settings), Some(takeover)) => {
                // No two can have the folder: the giver unmounts before its successor mounts.
                arrived = Some(takeover.commit()?);
                takeover.wait_for_unmount();
                let shown = fuse::show(&config, settings, files, helper);
                shown.inspect_err(|why| notes.push(format!("no files are shown: {why}"))).ok()
            }
        };
        if let Some(account) = account {
            account.assume()?;
        }
        notes.extend(fit_connections(&mut config));
        // Clients wait in the listeners' queues still.
        notes.extend(sandbox.and_then(|it| it.bound_calls(unmounts)));
        let config = Arc::new(config);
        let negotiation =
            Negotiation::new(Arc::clone(&config), export_table, sockets, tls, messages)
                .map_err(told)?;
        let pulses = device_loops.iter().map(|opened| opened.device_loop.pulse());
        let heart = options.notify.as_ref().and_then(|notify| Heart::new(notify, pulses));
        let negotiation = negotiation.with_heart(heart);
        if let Some(takeover) = &takeover {
            let arrived = arrived.map_or_else(|| takeover.commit(), Ok)?;
            let notify = options.notify.as_ref();
            notes.extend(took_over(takeover, arrived, &negotiation, &giver, notify));
        }
        let device_loops = device_loops
            .into_iter()
            .map(|opened| {
                thread(format!("loop {}", opened.handle.device), move || opened.device_loop.run())
            })
            .collect::<Result<_, _>>()?;
        // Clients that come again and again cost the negotiation much, and those that are served
        // nothing.
        let negotiation = vital::spawn_behind("negotiation".to_owned(), move || negotiation.run())
            .map_err(|error| no_thread(&error))?;
        let host = Host { stop: stop_asked.clone(), keeper: Arc::clone(&keeper), giver };
        let (control, http) = doors.start(&config, &handles, &left, host)?;
        let metrics = http.as_ref().map(HttpServer::local_addr);
        let running = Running { stop, door, negotiation, device_loops, control, http, folder };
        let running = Mutex::new(Some(running));
        let notify = options.notify.inspect(|notify| notify.ready(&keeper.status()));
        Ok(Server { handles, notes, metrics, stop_asked, keeper, notify, left, running })
    }

    /// Handles of the server's loops.
    pub fn device_loops(&self) -> &[DeviceLoopHandle] {
        &self.handles
    }

    /// Notes for the user that started it: what the server does otherwise than the configuration
    /// suggests.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Address of the metrics endpoint, if any.
    pub const fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Asks it to end in good order: no new clients, and present ones may finish.
    pub fn stop(&self) {
        // It has ended already.
        let _ended = self.stop_asked.send(());
    }

    /// Reads its configuration file again, and applies what can be changed while it serves: returns
    /// what was changed, and what takes effect at the next start. Both are logged, too.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn reload(&self) -> Answer {
        self.keeper.reload()
    }

    /// Writes the changes that were ordered into the configuration file.
    ///
    /// # Errors
    /// Why the file is as it was.
    pub fn save(&self) -> Answer {
        self.keeper.save()
    }

    /// Waits until it was asked to end, and has.
    ///
    /// # Errors
    /// The errors at the end.
    pub fn wait(&self) -> Result<(), String> {
        let running = locked(&self.running).take();
        let Some(running) = running else { return Ok(()) };
        let _asked = running.stop.recv();
        if !self.left.is() {
            self.notify.as_ref().inspect(|notify| notify.stopping());
            Entry::new(Level::Info, "stop").tell(format_args!("stopping: no clients are let in"));
        }
        let ended = running.end(&self.handles, &self.left);
        self.keeper.give_back();
        match &ended {
            Ok(()) => Entry::new(Level::Info, "end").tell(format_args!("stopped in good order")),
            Err(why) => Entry::new(Level::Error, "end").tell(format_args!("stopped: {why}")),
        }
        crate::log::settle(LAST_LINES);
        ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _result = self.wait();
    }
}

impl Running {
    fn end(mut self, handles: &[DeviceLoopHandle], left: &Left) -> Result<(), String> {
        // First, so that no process asks for more; processes that still have a file open get errors
        // from now on.
        if let Some(Err(used)) = self.folder.take().map(Mounted::end) {
            crate::log::tell(format_args!("paternoster: {used}"));
        }
        if left.is() {
            left.unmounted();
            // A client that comes from now on comes to the other process.
            self.close_doors();
        }
        let _ended = self.door.put(Word::End);
        self.negotiation.join().map_err(|_| "the negotiation ended with a panic")?;
        // Loops that were given away end by themselves.
        let asked = if left.is() { &[] } else { handles };
        let asking: Vec<_> = asked
            .iter()
            .cloned()
            .map(|handle| std::thread::spawn(move || handle.ask(Order::Stop)))
            .collect();
        let mut result = Ok(());
        for (asking, handle) in asking.into_iter().zip(handles) {
            let why = match asking.join() {
                Ok(Ok(_)) => continue,
                Ok(Err(why)) => why,
                Err(_) => "who asked it to end had a panic".to_owned(),
            };
            result = Err(format!("device {} did not end as it should: {why}", handle.device));
        }
        for device_loop in self.device_loops {
            device_loop.join().map_err(|_| "a device's thread ended with a panic")?;
        }
        if let Some(control) = self.control {
            control.stop();
        }
        if let Some(http) = self.http {
            http.stop();
        }
        result
    }

    fn close_doors(&mut self) {
        self.control.take().into_iter().for_each(ControlServer::stop);
        self.http.take().into_iter().for_each(HttpServer::stop);
    }
}

/// Everything is this process's from now on: clients are let in as they are; what to tell.
fn took_over(
    takeover: &Takeover,
    arrived: Connections,
    negotiation: &Negotiation,
    giver: &Giver,
    notify: Option<&Notify>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(Err(error)) = giver.pidfile.as_ref().map(|pidfile| pidfile.fill()) {
        notes.push(format!("the pidfile could not be written: {error}"));
    }
    notify.inspect(|notify| notify.is_ours());
    giver.keeper.keep_what_is_served();
    let count = arrived.connections.len();
    for connection in arrived.connections {
        negotiation.take_over(connection);
    }
    for (_, device_loop) in &giver.device_loops {
        // After the clients: their tenants exist then.
        let tenants = Box::new(handover::HandoverMessage::Tenants(arrived.tenants.clone()));
        let _ended = device_loop.put(Message::Handover(handover::Post(tenants)));
    }
    Entry::new(Level::Info, "handover")
        .tell(format_args!("taken over from process {}: {count} connections", takeover.pid()));
    notes
}

/// The sockets of control and metrics, open: nothing answers there before the server serves.
struct Doors {
    control: Option<ControlSocket>,
    http: Option<HttpSocket>,
    /// Their names, for another process.
    called: [String; 2],
}

impl Doors {
    fn open(
        config: &Config,
        tls: Option<Arc<ServerConfig>>,
        takeover: Option<&Takeover>,
    ) -> Result<Doors, String> {
        let (control, metrics) = (config.server.control.as_deref(), config.server.metrics);
        let called = [
            control.map(|path| path.display().to_string()).unwrap_or_default(),
            metrics.map(|at| at.to_string()).unwrap_or_default(),
        ];
        let control = control.map(|path| {
            let taken = takeover.and_then(|it| Some((it.control(path)?, &it.ours)));
            let socket = match taken {
                Some((socket, ours)) => ControlSocket::taken(path, socket, ours),
                None => ControlSocket::listen(path, &Access::of(&config.server)),
            };
            socket.map_err(|error| format!("control socket {}: {error}", path.display()))
        });
        let http = metrics.map(|at| {
            let taken = takeover.and_then(|it| it.metrics(&at.to_string()));
            let socket = HttpSocket::with(at, tls, taken);
            socket.map_err(|error| format!("metrics on {at}: {error}"))
        });
        Ok(Doors { control: control.transpose()?, http: http.transpose()?, called })
    }

    fn certified(&self) -> Option<Certified> {
        self.http.as_ref().and_then(HttpSocket::certified)
    }

    /// Both once more: kind, what it is called, and it.
    fn again(&self) -> io::Result<Vec<(u8, String, OwnedFd)>> {
        let [control, metrics] = &self.called;
        let mut all = Vec::new();
        if let Some(socket) = &self.control {
            all.push((record::CONTROL, control.clone(), socket.again()?));
        }
        if let Some(socket) = &self.http {
            all.push((record::METRICS, metrics.clone(), socket.again()?));
        }
        Ok(all)
    }

    fn start(
        self,
        config: &Config,
        handles: &[DeviceLoopHandle],
        left: &Left,
        host: Host,
    ) -> Result<(Option<ControlServer>, Option<HttpServer>), String> {
        let paused = || Arc::clone(&left.paused);
        let access = Access::of(&config.server);
        let http = self.http.map(|it| HttpServer::behind(it, handles.to_vec(), paused()));
        let control = self
            .control
            .map(|it| ControlServer::behind(it, access, handles.to_vec(), host, paused()));
        Ok((control.transpose().map_err(told)?, http.transpose().map_err(told)?))
    }
}

/// What the control socket asks of the server itself.
struct Host {
    stop: Sender<()>,
    keeper: Arc<Keeper>,
    giver: Giver,
}

impl control::Host for Host {
    fn stop(&self) {
        // It has ended already.
        let _ended = self.stop.send(());
    }

    fn reload(&self) -> Answer {
        self.keeper.reload()
    }

    fn save(&self) -> Answer {
        self.keeper.save()
    }

    fn hand_over(&self, to: UnixStream, who: &Identity) -> Result<(), String> {
        self.giver.give(to, who)
    }
}

/// No more connections than files may be open; returns what to say if they are fewer than wanted.
fn fit_connections(config: &mut Config) -> Option<String> {
    let wanted = config.server.connections;
    let (seats, limit) = descriptors::make_room(seats::in_all(wanted));
    let fit = seats::connections_of(seats).max(1).min(wanted);
    config.server.connections = fit;
    (fit < wanted).then(|| {
        format!(
            "{fit} connections at a time instead of {wanted}: no more than {limit} files may be \
             open (ulimit -n)"
        )
    })
}

/// The helper that mounts and unmounts the folder of files, if the configuration needs one.
///
/// # Errors
/// Without it a server that becomes another user could not take the folder away.
fn helper_of(
    config: &Config,
    sandbox: bool,
    other_user: bool,
    notes: &mut Vec<String>,
) -> Result<Option<Helper>, String> {
    let Some(settings) = &config.server.fuse else { return Ok(None) };
    let started = if sandbox {
        Helper::start(settings).inspect_err(|why| notes.push(not_bounded(why)))
    } else {
        Err("only a sandbox has a helper that unmounts, and with --run there is none".to_owned())
    };
    match started {
        Err(why) if other_user => Err(format!(
            "a server that becomes another user cannot take its files away at the end: {why}; \
             leave out `user` or [server.fuse]"
        )),
        started => Ok(started.ok()),
    }
}

/// The volumes of a loop, as files.
fn files_of(opened: &Opened, device: &Device) -> impl Iterator<Item = File> {
    // An export is a volume of the device, in its place.
    (0..).zip(opened.exports.iter().zip(&device.volumes)).map(|(place, (facts, volume))| File {
        name: facts.name.clone(),
        size: facts.size,
        readonly: facts.readonly,
        rights: volume.rights.clone(),
        place,
        slot: opened.slot.clone(),
    })
}

fn thread(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    vital::spawn(name, run).map_err(|error| no_thread(&error))
}

fn no_thread(error: &io::Error) -> String {
    format!("no thread could be started: {error}")
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
