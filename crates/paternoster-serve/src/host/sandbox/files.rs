// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files and ports, by Landlock (Linux 5.13; each later version of it bounds more).
//!
//! | what | may be |
//! |---|---|
//! | images | read and, unless read-only, written; asked as devices |
//! | what is in the folders of images | as images, also if it is made later |
//! | models, folders of certificates and of the configuration, `/proc`, `/sys` | read |
//! | folders of sockets and pidfile | a socket made, files removed |
//! | the configuration's folder | files made, written, replaced |
//! | folder of decisions, folder of traces | files made and written |
//! | the port of metrics | listened at |
//!
//! Everything else on every file system, and each other TCP port, is refused; so are signals to
//! processes outside, and their abstract sockets (unless the service manager has one).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};

use super::Sandbox;
use crate::config::{Address, Config, Engine};

/// The version whose rights are taken away, as far as the kernel has it.
const VERSION: ABI = ABI::V6;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const IMAGE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | IoctlDev});
const WRITTEN: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});
const SOCKETS: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeSock | RemoveFile | RemoveDir});
const MADE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{MakeReg | WriteFile | Truncate});
/// Another file is made next to one, and renamed over it.
const REPLACED: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | MakeReg | WriteFile | RemoveFile});

/// How far the access to files is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bounded {
    /// As far as this program needs.
    All,
    /// As far as the kernel supports it.
    Partly,
    /// It is not bounded.
    No,
}

impl Bounded {
    pub(super) fn missing(self) -> Option<String> {
        match self {
            Bounded::All => None,
            Bounded::Partly => {
                Some("sandbox: this kernel bounds files, but not all of it (Linux 6.12 does)")
            }
            Bounded::No => Some("sandbox: this kernel does not bound files (no Landlock)"),
        }
        .map(str::to_owned)
    }
}

/// Paths, and what may be done below them.
pub(super) fn allowed(
    sandbox: &Sandbox,
    config: &Config,
    decisions: Option<&Path>,
) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let server = &config.server;
    let folder = |path: &Path| match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut all: Vec<(PathBuf, BitFlags<AccessFs>)> = Vec::new();
    for path in ["/proc", "/sys"] {
        all.push((path.into(), READ));
    }
    // Where cgroups are, if elsewhere.
    let cgroups = server.fuse.as_ref().and_then(|fuse| fuse.cgroups.as_ref());
    all.extend(cgroups.map(|path| (path.clone(), READ)));
    all.extend(sandbox.reads.iter().map(|path| (path.clone(), READ)));
    all.extend(sandbox.replaces.iter().map(|path| (path.clone(), REPLACED)));
    if let Some(tls) = &server.tls {
        let paths = [Some(&tls.certificate), Some(&tls.key), tls.client_authority.as_ref()];
        for path in paths.into_iter().flatten() {
            all.push((folder(path), READ));
            // If it is a link, as certbot makes them, the next certificate will be next to the file
            // that it points to now.
            all.extend(std::fs::canonicalize(path).map(|real| (folder(&real), READ)));
        }
    }
    let sockets = server.listen.iter().filter_map(|listen| match &listen.at {
        Address::Unix { path, .. } => Some(path),
        _ => None,
    });
    let removed = sockets.chain(&server.control).chain(&server.pidfile);
    all.extend(removed.map(|path| (folder(path), SOCKETS)));
    all.extend(sandbox.removes.iter().map(|path| (path.clone(), SOCKETS)));
    for device in &config.devices {
        if let Engine::Model(model) = &device.engine {
            all.push((model.into(), READ));
        }
        let right = |readonly| if readonly { IMAGE } else { WRITTEN };
        let volumes = device.volumes.iter();
        all.extend(volumes.map(|volume| (volume.path.clone(), right(volume.readonly))));
    }
    all.extend(server.image_folders.iter().map(|folder| (folder.clone(), WRITTEN)));
    all.extend(decisions.map(|prefix| (folder(prefix), MADE)));
    all.push((server.traces.clone(), MADE));
    all
}

/// Bounds this thread and all threads that it starts.
pub(super) fn bound(allowed: &[(PathBuf, BitFlags<AccessFs>)], config: &Config) -> Bounded {
    match try_to_bound(allowed, config) {
        Ok(status) => match status.ruleset {
            RulesetStatus::FullyEnforced => Bounded::All,
            RulesetStatus::PartiallyEnforced => Bounded::Partly,
            RulesetStatus::NotEnforced => Bounded::No,
        },
        Err(_) => Bounded::No,
    }
}

fn try_to_bound(
    allowed: &[(PathBuf, BitFlags<AccessFs>)],
    config: &Config,
) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::Signal)?;
    // A service manager may be told by an abstract socket that all is well.
    let notify = std::env::var_os("NOTIFY_SOCKET");
    if !notify.as_deref().map(OsStr::as_bytes).is_some_and(|name| name.starts_with(b"@")) {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    let mut ruleset = ruleset.create()?;
    for (path, rights) in allowed {
        // What is not there cannot be opened either.
        let Ok(open) = PathFd::new(path) else { continue };
        let of_files = AccessFs::from_file(VERSION);
        let rights = if path.is_dir() { *rights } else { *rights & of_files };
        ruleset = ruleset.add_rule(PathBeneath::new(open, rights))?;
    }
    if let Some(metrics) = config.server.metrics {
        ruleset = ruleset.add_rule(NetPort::new(metrics.port(), AccessNet::BindTcp))?;
    }
    ruleset.restrict_self()
}
