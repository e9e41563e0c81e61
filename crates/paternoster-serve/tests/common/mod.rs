// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of a whole server share: a server of their own, in this process, and a client that
//! may say anything.
#![allow(dead_code, reason = "not every program of tests needs all of it")]

pub(crate) mod client;
pub(crate) mod contended;
pub(crate) mod disk;
pub(crate) mod emulated;
pub(crate) mod flood;
pub(crate) mod secure;
pub(crate) mod watch;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use paternoster_core::Nanos;
use paternoster_serve::config::{
    Address, Caps, Config, Device, Direct, Engine, Level, Listen, Rule, Server as ServerConfig,
    ServiceClass, Tenant, TlsMode, Volume, Who,
};
use paternoster_serve::device::Backend;
use paternoster_serve::device::faulty::{Effect, Fault, Faulty, Often, Which};
use paternoster_serve::handover::Takeover;
use paternoster_serve::host::activation::Inherited;
use paternoster_serve::host::listen;
use paternoster_serve::server::{Options, Server, Wrap};

#[allow(unused_imports, reason = "not every program of tests speaks for itself")]
pub(crate) use client::Client;

/// Says that the test that is running looks at nothing, and why: a line that `./test` collects.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {why}");
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A folder of a test, removed at its end.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf, bool);

impl Folder {
    /// In memory where there is a place for that, so that files are served at once.
    pub(crate) fn in_memory(name: &str) -> Folder {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        Folder::below(&base, name)
    }

    /// On a disk, as far as temporary files are.
    pub(crate) fn on_disk(name: &str) -> Folder {
        Folder::below(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
    }

    fn below(base: &Path, name: &str) -> Folder {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("paternoster-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path, true)
    }

    /// One that another process made, and will remove.
    pub(crate) fn of_another(path: &Path) -> Folder {
        Folder(path.to_owned(), false)
    }

    /// A file below it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new file of zeroes.
    pub(crate) fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).expect("a file").set_len(bytes).expect("room");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.1 {
            let _gone = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A device of these files, all of it served, under `scheduler`.
pub(crate) fn device(scheduler: &str, files: &[(&str, &Path)]) -> Device {
    Device {
        name: "dev".into(),
        scheduler: scheduler.into(),
        attributes: Vec::new(),
        depth: None,
        // The audit of test builds looks at every place there is: few, then.
        memory: 4 << 20,
        direct: Direct::Auto,
        engine: Engine::Auto,
        delay_bound: None,
        volumes: files.iter().map(|(name, path)| volume(name, path)).collect(),
    }
}

/// A volume of a whole file.
pub(crate) fn volume(name: &str, path: &Path) -> Volume {
    Volume::new(name, path)
}

/// A tenant of this weight.
pub(crate) fn tenant(name: &str, weight: u32) -> Tenant {
    Tenant {
        name: name.into(),
        group: None,
        weight,
        class: ServiceClass::Kernel(paternoster_core::Class::BestEffort),
        level: 4,
        caps: Caps::default(),
        floor: None,
    }
}

/// A client belongs to the tenant that has the name of its export.
pub(crate) fn by_export() -> Vec<Rule> {
    vec![Rule { who: Who::default(), tenant: "$export".into() }]
}

/// A configuration of one device, served at a socket in `folder`.
pub(crate) fn config(folder: &Folder, device: Device) -> Config {
    Config {
        server: ServerConfig {
            listen: vec![Listen {
                at: Address::Unix { path: folder.path("nbd.sock"), mode: 0o600 },
                tls: TlsMode::Off,
            }],
            connections: 64,
            drain_timeout: Nanos::from_secs(20),
            // Thousands of clients come and go.
            log_level: Level::Warning,
            ..ServerConfig::default()
        },
        devices: vec![device],
        groups: Vec::new(),
        tenants: Vec::new(),
        rules: by_export(),
    }
}

/// Opens and starts a server.
pub(crate) fn start(config: Config) -> Server {
    start_with(config, Options::default())
}

/// Opens and starts a server otherwise than by default.
pub(crate) fn start_with(config: Config, options: Options) -> Server {
    let sockets = listen::open(&config.server, &mut Inherited::default(), None).expect("sockets");
    Server::start(config, options, sockets).expect("a server")
}

/// A server that takes over from the one at the control socket of its configuration.
pub(crate) fn take_over(config: Config) -> Server {
    let control = config.server.control.clone().expect("it has one");
    let takeover = Takeover::ask(&control).map(Arc::new).expect("it is there");
    let (server, from) = (&config.server, Some(&*takeover));
    let sockets = listen::open_with(server, &mut Inherited::default(), None, from);
    let options = Options { takeover: Some(takeover), ..Options::default() };
    Server::start(config, options, sockets.expect("sockets")).expect("a server")
}

/// Starts a server whose backends are wrapped by `wrap`.
pub(crate) fn start_behind(config: Config, wrap: Wrap) -> Server {
    start_with(config, Options { wrap: Some(wrap), ..Options::default() })
}

/// A backend with one fault.
pub(crate) fn with_fault(
    inner: Box<dyn Backend>,
    which: Which,
    often: Often,
    effect: Effect,
) -> Box<dyn Backend> {
    Box::new(Faulty::new(inner, &[Fault { which, often, effect }], 1))
}

/// A device that takes 20 ms for everything: what is asked of it is under way for a while.
pub(crate) fn slow(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    with_fault(inner, Which::All, Often::Every(1), Effect::Late(Nanos::from_millis(20)))
}

/// Ends a server as an administrator does.
pub(crate) fn end(server: &Server) {
    server.stop();
    server.wait().expect("it ends in good order");
}

/// Bytes of which no two stretches are alike: each 251 bytes another value, in a circle of 256.
pub(crate) fn uneven(length: u64) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at / 251 % 256).unwrap_or(0)).collect()
}
