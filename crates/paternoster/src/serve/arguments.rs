// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of `paternoster serve`.

use std::path::PathBuf;

use clap::Args;
use paternoster_serve::config::{Level, LogFormat};

/// Serve files and block devices as NBD disks whose clients share them fairly
#[derive(Debug, Args)]
#[command(
    after_help = "A path that ends in .toml is a configuration; see docs/serve. Anything else \
is a file or block device with data: each is an export named after its file, the first one also \
the default export, all of them in one queue.

Without --socket, --listen, --fuse or inherited sockets the server listens in $XDG_RUNTIME_DIR, \
or in a private folder, and says where. The first SIGTERM or SIGINT ends it in good order, the \
second one at once.

--run starts a command in a shell that has $uri, $nbd, $unixsocket, $port, $exportname and $file \
in its environment, serves until it ends, and ends as it did.

Examples:
  paternoster serve /etc/paternoster/serve.toml
  paternoster serve /etc/paternoster/serve.toml --check
  paternoster serve /etc/paternoster/serve.toml --take-over
  paternoster serve disk.img --run 'nbdinfo $uri'
  paternoster serve disk.img --scheduler bfq:slice_idle=0 --depth 8 --socket /run/disk.sock
  paternoster serve disk.img --fuse /mnt/disks --run 'fio job.fio --filename=$file'
  paternoster serve a.img b.img --listen tcp:127.0.0.1:10809 --readonly
  paternoster serve disk.img --tenant db=300 --rule 'uid=1000 tenant=db' --control /run/ctl.sock
  paternoster serve disk.img --listen 'tcp:*:10809' --tls-cert chain.pem --tls-key key.pem

Exit status: 0 ended in good order, 1 it could not serve, 2 the request was wrong, or (--check) a \
disk, a folder or a certificate is missing; with --run the command's."
)]
pub(crate) struct ServeOptions {
    /// A configuration, or files and block devices
    #[arg(value_name = "CONFIG.toml|PATH", required = true)]
    pub(super) paths: Vec<PathBuf>,

    /// A unix socket for clients, of mode 0600; may be given several times
    #[arg(long, short = 'U', value_name = "PATH")]
    pub(super) socket: Vec<PathBuf>,

    /// Where to listen for clients: tcp:ADDRESS:PORT, unix:PATH, inherited:3; may be given several
    /// times
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Vec<String>,

    /// Volumes as files of this folder: each process that uses one is a client of its own
    #[arg(long, value_name = "FOLDER")]
    pub(super) fuse: Option<PathBuf>,

    /// Where cgroups are (/sys/fs/cgroup): their weights apply to processes that use the files
    #[arg(long, value_name = "FOLDER", requires = "fuse")]
    pub(super) cgroups: Option<PathBuf>,

    /// Let other users than the server's own use the files
    #[arg(long, requires = "fuse")]
    pub(super) allow_other: bool,

    /// The scheduler (see `paternoster schedulers`), with attributes [default: bfq]
    #[arg(long, value_name = "NAME[:ATTRIBUTE=VALUE,…]")]
    pub(super) scheduler: Option<String>,

    /// Commands in the device at a time [default: the device's preference]
    #[arg(long, value_name = "N")]
    pub(super) depth: Option<u32>,

    /// How commands are executed: auto, io_uring, threads, model:NAME [default: auto]
    #[arg(long, value_name = "ENGINE")]
    pub(super) engine: Option<String>,

    /// Whether to bypass the page cache: auto, yes, no [default: auto]
    #[arg(long, value_name = "WHETHER")]
    pub(super) direct: Option<String>,

    /// Nothing may be written
    #[arg(long, short = 'r')]
    pub(super) readonly: bool,

    /// Only these clients may open them: `uid=1000`, `address=10.0.0.0/8`, `anyone`
    #[arg(long, value_name = "CLIENT")]
    pub(super) allow: Vec<String>,

    /// They are raw disks, even if they look like an image of a format (qcow2, vmdk) or a text
    #[arg(long)]
    pub(super) raw: bool,

    /// The export's name instead of the file's; once for each path, in their order
    #[arg(long, value_name = "EXPORT")]
    pub(super) name: Vec<String>,

    /// Memory for data in flight [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<String>,

    /// A tenant and its weight, 1 to 10000; may be given several times
    #[arg(long, value_name = "NAME=WEIGHT")]
    pub(super) tenant: Vec<String>,

    /// Which tenant a client belongs to: conditions (export, uid, pid, cgroup, address,
    /// certificate) and the tenant; may be given several times, the first that matches wins
    #[arg(long, value_name = "'uid=1000 tenant=NAME'")]
    pub(super) rule: Vec<String>,

    /// A unix socket for `paternoster ctl` and `paternoster top`
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,

    /// Address of the metrics and health endpoints (HTTP); beyond loopback under TLS
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) metrics: Option<String>,

    /// User to switch to once everything is open
    #[arg(long, value_name = "USER")]
    pub(super) user: Option<String>,

    /// The server's certificates, PEM; TCP then requires TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,

    /// The key of the first certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,

    /// Authorities that sign clients' certificates, PEM; clients must show one then
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_ca: Option<PathBuf>,

    /// Allow TCP without TLS beyond loopback
    #[arg(long)]
    pub(super) insecure: bool,

    /// Keep privileges that a server does not need: programs, other files and sockets (--run keeps
    /// them, too)
    #[arg(long)]
    pub(super) no_sandbox: bool,

    /// A file that holds the process number while the server serves
    #[arg(long, short = 'P', value_name = "FILE")]
    pub(super) pidfile: Option<PathBuf>,

    /// Log every request on standard error
    #[arg(long, short)]
    pub(super) verbose: bool,

    /// What is logged on standard error: error, warning, info, debug (each request)
    #[arg(long, value_name = "LEVEL", value_parser = str::parse::<Level>)]
    pub(super) log_level: Option<Level>,

    /// Log format: text, or json (an object a line)
    #[arg(long, value_name = "FORMAT", value_parser = str::parse::<LogFormat>)]
    pub(super) log_format: Option<LogFormat>,

    /// Serve devices in use: mounted, used as swap, with partitions, open in another program or
    /// server, or listed twice
    #[arg(long)]
    pub(super) force: bool,

    /// Record the decisions of each device in PREFIX.DEVICE.decisions, for replay --decisions
    #[arg(long, value_name = "PREFIX")]
    pub(super) decisions: Option<PathBuf>,

    /// Serve as long as this command runs
    #[arg(long, value_name = "COMMAND")]
    pub(super) run: Option<String>,

    /// Take over from the server that runs with this configuration: its clients do not notice
    #[arg(long, conflicts_with_all = ["check", "run", "decisions"])]
    pub(super) take_over: bool,

    /// Say what would be served and what is missing for it, and serve nothing
    #[arg(long)]
    pub(super) check: bool,
}

impl ServeOptions {
    /// The configuration file, if one was named.
    pub(super) fn configuration(&self) -> Option<&PathBuf> {
        let is_toml = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "toml");
        self.paths.iter().find(is_toml)
    }

    /// The first given option that belongs in a configuration file.
    pub(super) fn belongs_into_file(&self) -> Option<&'static str> {
        [
            ("--socket", !self.socket.is_empty()),
            ("--listen", !self.listen.is_empty()),
            ("--fuse", self.fuse.is_some()),
            ("--scheduler", self.scheduler.is_some()),
            ("--depth", self.depth.is_some()),
            ("--engine", self.engine.is_some()),
            ("--direct", self.direct.is_some()),
            ("--readonly", self.readonly),
            ("--allow", !self.allow.is_empty()),
            ("--raw", self.raw),
            ("--name", !self.name.is_empty()),
            ("--memory", self.memory.is_some()),
            ("--tenant", !self.tenant.is_empty()),
            ("--rule", !self.rule.is_empty()),
            ("--control", self.control.is_some()),
            ("--metrics", self.metrics.is_some()),
            ("--user", self.user.is_some()),
            ("--tls-cert", self.tls_cert.is_some()),
            ("--insecure", self.insecure),
            ("--no-sandbox", self.no_sandbox),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
    }
}
