// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration: what the administrator wrote, checked, in the server's own terms.
//!
//! Everything in here is plain data, from a TOML file or the command line.
//!
//! ```text
//! file ──document──▶ server, devices, sharing ──▶ Config ──settle──▶ Config, sound
//! flags ─────────────words, quantity────────────▶   │                (or a Complaint: where, why)
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;

use paternoster_core::near;
use paternoster_core::{Class, Nanos};
use serde::{Deserialize, Serialize};

mod check;
mod devices;
mod document;
mod file;
pub(crate) mod flat;
pub(crate) mod fuse;
pub mod limits;
mod log;
mod overlap;
pub mod quantity;
pub mod rights;
pub mod rules;
mod server;
mod settle;
mod sharing;
mod tree;
mod words;

pub use file::ConfigError;
pub use log::{Level, LogFormat};
pub use rights::Rights;
pub use settle::Complaint;
pub(crate) use words::DEFAULT_SCHEDULER;

/// A whole server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Sockets, limits, the user it runs as.
    pub server: Server,
    /// Devices, each with its own queue and thread.
    pub devices: Vec<Device>,
    /// Groups of tenants, parents before children.
    pub groups: Vec<Group>,
    /// Tenants.
    pub tenants: Vec<Tenant>,
    /// Which client belongs to which tenant; the first that matches wins.
    pub rules: Vec<Rule>,
}

/// Sockets, limits, the user it runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Sockets at which clients connect.
    pub listen: Vec<Listen>,
    /// Certificates, if any listener wants them.
    pub tls: Option<Tls>,
    /// Volumes as files, for any process.
    pub fuse: Option<Fuse>,
    /// The unix socket for orders.
    pub control: Option<PathBuf>,
    /// Permission bits of the control socket; `None`: 0600.
    pub control_mode: Option<u32>,
    /// Clients of it that may give orders, the others may ask; `None`: root and the server's user.
    pub control_orders: Option<Vec<Who>>,
    /// Address of the metrics and health endpoint; TLS if not on loopback.
    pub metrics: Option<SocketAddr>,
    /// Written once the sockets are open.
    pub pidfile: Option<PathBuf>,
    /// The user that the server becomes once everything is open; and the group, if not that user's
    /// own.
    pub user: Option<String>,
    /// The group it becomes.
    pub group: Option<String>,
    /// Connections at a time, of all volumes.
    pub connections: u32,
    /// Bytes of data under way for one connection at most.
    pub connection_memory: u64,
    /// A client must have chosen its export by then.
    pub handshake_timeout: Nanos,
    /// A client that takes no answer for this long is disconnected.
    pub stall_timeout: Nanos,
    /// At a stop: how long connections may take to finish their requests.
    pub drain_timeout: Nanos,
    /// At a stop: how long a device may take for what is under way once that time is over, and
    /// for its last flush.
    pub device_timeout: Nanos,
    /// TCP without TLS beyond loopback.
    pub insecure: bool,
    /// The program gives up what a server does not need.
    pub sandbox: bool,
    /// Folders from which a reload can add images, if there is a sandbox.
    pub image_folders: Vec<PathBuf>,
    /// The folder that traces are written in, if there is a sandbox.
    pub traces: PathBuf,
    /// Log requests on standard error.
    pub verbose: bool,
    /// The least urgent level that is logged there.
    pub log_level: Level,
    /// Format of the log's lines.
    pub log_format: LogFormat,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: Vec::new(),
            tls: None,
            fuse: None,
            control: None,
            control_mode: None,
            control_orders: None,
            metrics: None,
            pidfile: None,
            user: None,
            group: None,
            connections: 4096,
            connection_memory: 16 << 20,
            handshake_timeout: Nanos::from_secs(10),
            stall_timeout: Nanos::from_secs(60),
            drain_timeout: Nanos::from_secs(10),
            device_timeout: Nanos::from_secs(30),
            insecure: false,
            sandbox: true,
            image_folders: Vec::new(),
            traces: PathBuf::from("/var/tmp"),
            verbose: false,
            log_level: Level::Info,
            log_format: LogFormat::Text,
        }
    }
}

impl Server {
    /// Whether each request is logged on standard error.
    #[must_use]
    pub const fn tells_requests(&self) -> bool {
        self.verbose || matches!(self.log_level, Level::Debug)
    }

    /// Whether clients under TLS show certificates.
    #[must_use]
    pub fn shows_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some())
    }
}

/// A socket that clients come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address that it listens at.
    pub at: Address,
    /// Whether they must, may, or cannot use TLS.
    pub tls: TlsMode,
}

/// The address of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A unix socket and its mode (default 0600).
    Unix {
        /// Path of the socket.
        path: PathBuf,
        /// Permission bits of the socket.
        mode: u32,
    },
    /// TCP.
    Tcp(SocketAddr),
    /// Inherited, already listening (socket activation).
    Inherited(i32),
}

/// Whether clients use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// TLS is not offered.
    #[default]
    Off,
    /// A client that asks for it gets it.
    Offered,
    /// A client that does not ask gets nothing.
    Required,
}

/// Certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The server's chain, PEM.
    pub certificate: PathBuf,
    /// The certificate's key, PEM.
    pub key: PathBuf,
    /// The authority that signs clients' certificates; if there is one, clients must show a
    /// certificate.
    pub client_authority: Option<PathBuf>,
}

impl Tls {
    /// Whether certificates and key are there and belong together.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub fn look(&self) -> Result<(), String> {
        crate::wire::server_config(self).map(drop)
    }
}

/// Volumes as files of a folder (FUSE), each process that uses them a client of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fuse {
    /// The folder that is mounted on; it is there.
    pub mount: PathBuf,
    /// Where cgroups are (`/sys/fs/cgroup`, or a hierarchy of version 1); with it a process has
    /// the weights of its cgroups, without they do not count.
    pub cgroups: Option<PathBuf>,
    /// Users whose ionice may be realtime; of others it counts as best effort of level 0.
    pub realtime: Vec<u32>,
    /// Users besides the server's own may open the files.
    pub allow_other: bool,
    /// Processes that are told apart at a time, of each volume; 0: all are one client.
    pub processes: u32,
}

impl Fuse {
    /// A folder, with all defaults: root may be realtime, 1024 processes are told apart.
    #[must_use]
    pub fn new(mount: PathBuf) -> Fuse {
        Fuse { mount, cgroups: None, realtime: vec![0], allow_other: false, processes: 1024 }
    }
}

/// A device: one queue, one thread, one scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The device's name.
    pub name: String,
    /// Scheduler, and attributes in the order they are set.
    pub scheduler: String,
    /// Attributes of queue and scheduler, in the order they are set.
    pub attributes: Vec<(String, String)>,
    /// Commands it is given at a time; `None`: what the backend likes.
    pub depth: Option<u32>,
    /// Bytes for data under way, of all its connections.
    pub memory: u64,
    /// Whether the page cache is bypassed (O_DIRECT).
    pub direct: Direct,
    /// How commands are carried out.
    pub engine: Engine,
    /// Bound on the time that requests wait in the queue.
    pub delay_bound: Option<Nanos>,
    /// Volumes on this device.
    pub volumes: Vec<Volume>,
}

/// Whether the page cache is bypassed (O_DIRECT).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direct {
    /// Where the file supports it, except files in memory.
    #[default]
    Auto,
    /// Always: a file that does not support it is refused.
    Yes,
    /// Never.
    No,
}

/// How commands are carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Engine {
    /// io_uring where the kernel allows it, else threads; files in memory at once.
    #[default]
    Auto,
    /// io_uring or not at all.
    Uring,
    /// Plain threads.
    Threads,
    /// The file has the data; a model of this name or file says how long commands take.
    Model(String),
}

/// A volume: what clients see as one disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The export's name.
    pub name: String,
    /// File or block device.
    pub path: PathBuf,
    /// First byte of it.
    pub start: u64,
    /// Length in bytes; `None`: to the end of the file.
    pub length: Option<u64>,
    /// Writes are refused.
    pub readonly: bool,
    /// Other volumes marked `share` may write to the same bytes.
    pub share: bool,
    /// It is a raw disk, whatever it looks like.
    pub raw: bool,
    /// A description for people.
    pub description: String,
    /// Which clients may open it, and how.
    pub rights: Rights,
}

impl Volume {
    /// All of a file or block device, for one owner.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Volume {
        Volume {
            name: name.into(),
            path: path.into(),
            start: 0,
            length: None,
            readonly: false,
            share: false,
            raw: false,
            description: String::new(),
            rights: Rights::default(),
        }
    }
}

/// A group of tenants that share one weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The tenant's name.
    pub name: String,
    /// The group above, if not the root.
    pub parent: Option<String>,
    /// Share relative to its siblings.
    pub weight: u32,
    /// Limits.
    pub caps: Caps,
    /// Least part of what the siblings share, in thousandths.
    pub floor: Option<u16>,
}

/// A tenant: a customer, all of whose connections share one weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// The group's name.
    pub name: String,
    /// The group it is in, if not the root.
    pub group: Option<String>,
    /// Share relative to its siblings.
    pub weight: u32,
    /// Scheduling class.
    pub class: ServiceClass,
    /// Level within the class, 0 (most) to 7.
    pub level: u8,
    /// Limits.
    pub caps: Caps,
    /// Least part of what the siblings share, in thousandths.
    pub floor: Option<u16>,
}

/// The class of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceClass {
    /// A class of the kernel: real time, best effort or idle.
    Kernel(Class),
    /// Whatever the others leave, and never less than this many thousandths.
    Background {
        /// Least part, in thousandths.
        minimum: u16,
    },
}

/// The most that a client gets, even on an idle device. 0: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caps {
    /// Bytes a second.
    pub bytes: u64,
    /// Requests a second.
    pub requests: u64,
}

/// Which clients are meant, and which tenant they belong to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Conditions; all that are given must match.
    pub who: Who,
    /// The tenant's name; `$export`, `$uid`, `$gid`, `$pid`, `$cgroup`, `$address` and
    /// `$certificate` are replaced by the client's values. A tenant of a name that is not
    /// configured has weight 100.
    pub tenant: String,
}

/// What a rule, or a right, asks of a client. Texts are patterns with `*` and `?`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Who {
    /// Export name.
    pub export: Option<String>,
    /// Peer's user, of a unix socket.
    pub uid: Option<u32>,
    /// Peer's group, its own or one of the others that it is in.
    pub gid: Option<u32>,
    /// Peer's process.
    pub pid: Option<u32>,
    /// Peer's cgroup.
    pub cgroup: Option<String>,
    /// Peer's address, `10.0.0.0/8`: address and prefix length.
    pub address: Option<(std::net::IpAddr, u8)>,
    /// The name in the client's certificate.
    pub certificate: Option<String>,
}

/// What the server knows of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The export it chose.
    pub export: String,
    /// Peer's user, of a unix socket.
    pub uid: Option<u32>,
    /// Peer's group, of a unix socket.
    pub gid: Option<u32>,
    /// The peer's other groups; `None`: not known.
    pub groups: Option<Vec<u32>>,
    /// Peer's process, of a unix socket.
    pub pid: Option<u32>,
    /// Peer's cgroup.
    pub cgroup: Option<String>,
    /// Peer's address, of TCP.
    pub address: Option<std::net::IpAddr>,
    /// The name in its certificate.
    pub certificate: Option<String>,
    /// The listener asks clients for certificates, so the name in one selects the volume.
    pub is_asked_for_name: bool,
}
