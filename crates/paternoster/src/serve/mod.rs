// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster serve`: a block server for real clients.
//!
//! ```text
//! file or flags ─▶ Config ─▶ sockets ─▶ pidfile ─▶ Server (devices, then less privileges)
//!                                                     │   └─ command (--run) with $uri
//!                                    SIGHUP: the file is read again
//!                 first signal, or the command's end ─┴─▶ stop ─▶ everything removed
//! ```

mod arguments;
mod command;
mod simple;
mod tell;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use paternoster_frame::Failure;
use paternoster_serve::config::{Address, Config, Level, Listen, TlsMode};
use paternoster_serve::device::claim;
use paternoster_serve::device::content;
use paternoster_serve::device::in_use::in_use;
use paternoster_serve::handover::Takeover;
use paternoster_serve::host::activation::Inherited;
use paternoster_serve::host::allocator;
use paternoster_serve::host::listen::{self, Place};
use paternoster_serve::host::notify::Notify;
use paternoster_serve::host::pidfile::Pidfile;
use paternoster_serve::host::private_folder::PrivateFolder;
use paternoster_serve::host::privileges::Account;
use paternoster_serve::host::sandbox::{Sandbox, missing_image_folders};
use paternoster_serve::host::signals::{ReloadSignals, StopSignals, Supervised};
use paternoster_serve::log;
use paternoster_serve::reload::Source;
use paternoster_serve::server::{Options, Server};

pub(crate) use arguments::ServeOptions;
pub(crate) use command::verdict;

/// The exit status after a second signal: as a shell reports SIGINT.
const AT_ONCE: i32 = 130;

/// Serves until a signal, or the end of a command.
pub(crate) fn serve(options: &ServeOptions) -> Result<(), Failure> {
    allocator::give_back_what_is_large();
    // Before any file of ours can have got an inherited socket's number.
    let mut inherited = Inherited::take().map_err(Failure::Request)?;
    let (mut config, folder) = configuration(options, &inherited)?;
    refuse_missing_folders(options, &config)?;
    let control = if options.take_over { Some(control_of(options, &config)?) } else { None };
    if !options.force {
        refuse_what_is_in_use(&config)?;
        // Checked before any socket exists; the start itself refuses what came meanwhile. A server
        // that takes over gets its images from the server that has them open.
        let asked = if control.is_none() { claim::ask(&config.devices) } else { Ok(()) };
        asked.map_err(|error| Failure::Request(error.to_string()))?;
    }
    let left_out = leave_out(options, &mut config)?;
    if options.check {
        paternoster_frame::print(&tell::check(&config))?;
        return refuse_what_is_missing(&config, left_out);
    }
    let account = Account::of(&config.server).map_err(Failure::Request)?;
    if let (Some(account), Some(folder)) = (&account, &folder) {
        account.give(folder.path())?;
    }
    let takeover = control.map(|at| Takeover::ask(&at).map(Arc::new)).transpose();
    let takeover = takeover.map_err(|why| Failure::Job(format!("--take-over: {why}")))?;
    let signals = StopSignals::hear()?;
    let reloads = ReloadSignals::hear()?;
    let (owner, from) = (account.as_ref(), takeover.as_deref());
    let sockets = listen::open_with(&config.server, &mut inherited, owner, from);
    let sockets = sockets.map_err(Failure::Job)?;
    let places = sockets.iter().map(|socket| Ok((socket.place()?, socket.tls)));
    let places: Vec<(Place, TlsMode)> = places.collect::<std::io::Result<_>>()?;
    let taken = |at: &Path| takeover.as_ref().and_then(|takeover| takeover.pidfile(at));
    let pidfile = config.server.pidfile.as_deref();
    let pidfile = pidfile.map(|at| taken(at).map_or_else(|| Pidfile::write(at), Ok));
    let pidfile = pidfile.transpose().map_err(Failure::Job)?.map(Arc::new);
    let started = Options {
        verbose: config.server.verbose,
        decisions: options.decisions.clone(),
        force: options.force,
        sandbox: sandbox(options, &config, folder.as_ref()),
        source: source(options),
        notify: Notify::of_environment().or_else(|| takeover.as_ref()?.notify()),
        pidfile: pidfile.clone(),
        takeover,
        ..Options::default()
    };
    let server = Server::start(config.clone(), started, sockets).map_err(Failure::Job)?;
    let server = Arc::new(server);
    log::announce(Level::Warning, &tell::notes(&left_out, &server));
    log::announce(Level::Info, &tell::started(&config, &places, &server));
    reload_on_signals(reloads, Arc::downgrade(&server));

    let done = match &options.run {
        None => {
            stop_on_signals(signals, Arc::clone(&server), None, folder.as_ref());
            Ok(())
        }
        Some(line) => run(line, &config, &places, |supervised| {
            stop_on_signals(signals, Arc::clone(&server), Some(supervised), folder.as_ref());
        })
        .inspect(|()| server.stop())
        .inspect_err(|_| server.stop()),
    };
    let ended = server.wait();
    done?;
    ended.map_err(Failure::Job)
}

/// Where to ask the running server.
fn control_of(options: &ServeOptions, config: &Config) -> Result<PathBuf, Failure> {
    let Some(file) = options.configuration() else {
        let why = "--take-over: a configuration must be named: that of the server that runs";
        return Err(Failure::Request(why.to_owned()));
    };
    config.server.control.clone().ok_or_else(|| {
        Failure::Request(format!(
            "--take-over: {} has no `control` of `[server]`: the server that runs is asked there",
            file.display()
        ))
    })
}

/// The privileges that the program gives up. Not with a command: that must be started.
fn sandbox(
    options: &ServeOptions,
    config: &Config,
    private: Option<&PrivateFolder>,
) -> Option<Sandbox> {
    if options.run.is_some() || !config.server.sandbox {
        return None;
    }
    let above = |path: &Path| match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    // A reload reads the file again, and `ctl save` replaces it.
    let configuration: Vec<PathBuf> =
        options.configuration().map(|path| above(path)).into_iter().collect();
    Some(Sandbox {
        reads: configuration.clone(),
        replaces: configuration,
        removes: private.map(|folder| above(folder.path())).into_iter().collect(),
    })
}

/// A mount needs a folder. (Reading a configuration looks at no other file.)
fn refuse_missing_folders(options: &ServeOptions, config: &Config) -> Result<(), Failure> {
    let Some(fuse) = &config.server.fuse else { return Ok(()) };
    fuse.look().map_err(|complaint| {
        let file = options.configuration().map(|file| format!("{}: ", file.display()));
        Failure::Request(format!("{}{complaint}", file.unwrap_or_default()))
    })
}

/// Volumes that are plainly not raw disks are not served, and reported. A file named by hand is
/// meant, so it is refused. A configuration is restarted unattended, and its other volumes belong
/// to others: what one client has written to its disk must not keep these from their clients.
fn leave_out(options: &ServeOptions, config: &mut Config) -> Result<Vec<String>, Failure> {
    let left_out = if options.configuration().is_none() {
        content::look(&config.devices).map(|()| Vec::new())
    } else {
        content::leave_out(&mut config.devices)
    };
    let left_out = left_out.map_err(|error| Failure::Request(error.to_string()))?;
    Ok(left_out.iter().map(|why| format!("left out: {why}")).collect())
}

/// What would keep the server from starting, or was left out: missing disks, folders and
/// certificates, all of them.
fn refuse_what_is_missing(config: &Config, left_out: Vec<String>) -> Result<(), Failure> {
    let mut missing = left_out;
    missing.extend(missing_image_folders(config));
    missing.extend(content::missing(&config.devices).iter().map(ToString::to_string));
    missing.extend(missing_folders(config));
    missing.extend(config.server.tls.as_ref().and_then(|tls| tls.look().err()));
    if missing.is_empty() { Ok(()) } else { Err(Failure::Request(missing.join("\n"))) }
}

/// What the server would make in missing folders. A service manager makes one directly below /run
/// when it starts the server (`RuntimeDirectory=`).
fn missing_folders(config: &Config) -> Vec<String> {
    let server = &config.server;
    let sockets = server.listen.iter().filter_map(|listen| match &listen.at {
        Address::Unix { path, .. } => Some(("server.listen", path)),
        _ => None,
    });
    let made = sockets
        .chain(server.control.iter().map(|path| ("server.control", path)))
        .chain(server.pidfile.iter().map(|path| ("server.pidfile", path)));
    let missing = made.filter_map(|(key, path)| {
        let folder = path.parent().filter(|folder| *folder != Path::new(""))?;
        let (path, shown) = (path.display(), folder.display());
        let is_there = folder.is_dir() || folder.parent() == Some(Path::new("/run"));
        (!is_there).then(|| format!("`{key}`: {path}: there is no folder {shown}"))
    });
    missing.collect()
}

/// No other program may write to what clients write to: a file system would be lost.
fn refuse_what_is_in_use(config: &Config) -> Result<(), Failure> {
    let volumes = config.devices.iter().flat_map(|device| &device.volumes);
    for volume in volumes.filter(|volume| !volume.readonly) {
        // If it cannot be checked, opening it gives the better message.
        let used = in_use(&volume.path).unwrap_or_default();
        if !used.is_empty() {
            return Err(Failure::Request(format!(
                "{} is in use: {}; serve it read-only, or with --force",
                volume.path.display(),
                used.join("; ")
            )));
        }
    }
    Ok(())
}

/// The requested configuration; and a private folder for the socket, if there is no better place.
fn configuration(
    options: &ServeOptions,
    inherited: &Inherited,
) -> Result<(Config, Option<PrivateFolder>), Failure> {
    let Some(file) = options.configuration() else {
        let (fallback, folder) = fallback(options, inherited)?;
        return Ok((simple::config(options, &fallback)?, folder));
    };
    let shown = file.display();
    if options.paths.len() > 1 {
        let message = format!("{shown} is a configuration and stands alone; its paths are in it");
        return Err(Failure::Request(message));
    }
    if let Some(option) = options.belongs_into_file() {
        return Err(Failure::Request(format!("{option} belongs into {shown}")));
    }
    let source = source(options).unwrap_or_else(|| Source::new(file));
    Ok((source.read()?, None))
}

/// Where a configuration is read from, and read again.
fn source(options: &ServeOptions) -> Option<Source> {
    let file = options.configuration()?;
    let (pidfile, verbose) = (options.pidfile.clone(), options.verbose);
    let log = (options.log_level, options.log_format);
    Some(Source { pidfile, verbose, log, ..Source::new(file) })
}

/// Where the server listens by default: at sockets that it inherited, or at one of its own.
fn fallback(
    options: &ServeOptions,
    inherited: &Inherited,
) -> Result<(Vec<Listen>, Option<PrivateFolder>), Failure> {
    if !options.socket.is_empty() || !options.listen.is_empty() {
        return Ok((Vec::new(), None));
    }
    let certified = options.tls_cert.is_some();
    let at = |path: &Path, name: &str| -> Result<Vec<Listen>, Failure> {
        let text = format!("unix:{}", path.join(name).display());
        let at: Address = text.parse().map_err(|why| Failure::Request(format!("{text}: {why}")))?;
        Ok(vec![Listen::new(at, certified)])
    };
    if inherited.count() > 0 {
        let numbers = (3..).take(inherited.count());
        let all = numbers.map(|number| Listen::new(Address::Inherited(number), certified));
        return Ok((all.collect(), None));
    }
    if options.fuse.is_some() {
        // Clients use the files.
        return Ok((Vec::new(), None));
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.filter(|path| options.run.is_none() && path.is_absolute() && path.is_dir());
    if let Some(path) = own {
        return Ok((at(&path, "paternoster.sock")?, None));
    }
    let folder = PrivateFolder::new("paternoster").map_err(Failure::Job)?;
    Ok((at(folder.path(), "nbd.sock")?, Some(folder)))
}

/// Runs the command; its exit status becomes ours.
fn run(
    line: &str,
    config: &Config,
    places: &[(Place, TlsMode)],
    started: impl FnOnce(Supervised),
) -> Result<(), Failure> {
    let volume = config.devices.iter().flat_map(|device| &device.volumes).next();
    let file = volume.zip(config.server.fuse.as_ref());
    let file = file.map(|(volume, fuse)| tell::file(fuse, volume));
    let Some(volume) = volume.filter(|_| !places.is_empty() || file.is_some()) else {
        return Err(Failure::Request("--run: nothing is served".to_owned()));
    };
    let socket = places.first().map(|(place, tls)| (place, *tls));
    let mut child = command::shell(line, socket, &volume.name, file.as_deref()).spawn()?;
    started(Supervised::of(&child)?);
    verdict(child.wait()?)
}

/// SIGHUP reads the configuration again, as long as the server exists; the log reports the result.
fn reload_on_signals(mut signals: ReloadSignals, server: Weak<Server>) {
    std::thread::spawn(move || {
        loop {
            signals.wait();
            let Some(server) = server.upgrade() else { return };
            let _told = server.reload();
        }
    });
}

/// The first signal asks the command to end, or else the server; the second ends everything at
/// once. The next server replaces what is left then, except a private folder.
fn stop_on_signals(
    mut signals: StopSignals,
    server: Arc<Server>,
    command: Option<Supervised>,
    folder: Option<&PrivateFolder>,
) {
    let folder = folder.map(|folder| folder.path().to_owned());
    std::thread::spawn(move || {
        signals.wait();
        match &command {
            Some(command) => command.ask_to_end(),
            None => server.stop(),
        }
        // It would keep the sockets open otherwise.
        drop(server);
        signals.wait();
        if let Some(folder) = folder {
            let _gone = std::fs::remove_dir_all(folder);
        }
        std::process::exit(AT_ONCE);
    });
}
