// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rivals: two servers over one name space of files, which start, reload, stop, and are killed.
//!
//! ```text
//! server 0   /file0 (writes)   /soft1 (reads)      claimed and opened by production's calls
//! server 1   /hard0 (shared)                       ◀── the model says whether it may
//! ```
//!
//! Volumes of drawn configurations overlap: by the same path, a symbolic link, a hard link. A call
//! on paths may fail in the middle. There are no clients: a served file is one that is claimed and
//! open.
//!
//! Laws: N1 a server gets its files if and only if the other one allows it, at once when that one
//! has gone, and a refusal names a path and the other server; N4 a served file is locked: a call
//! that fails may cost a server its start, and never leaves a file open without its lock; N3
//! (`names`).

use paternoster_sim::chance::Chance;

use super::engine::open_file;
use super::house::Own;
use super::medium::Medium;
use super::names::Names;
use super::plan::{Plan, pick};
use super::{Bug, asked, config, plant};
use crate::config::{Device, Volume};
use crate::device::claim::{ClaimError, Claims};
use crate::device::files::File;

/// Cases each day, and steps of one.
const CASES: u64 = 300;
const STEPS: u64 = 40;
const FILES: usize = 2;
const SERVERS: usize = 2;

/// A volume: all of a file under one of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Drawn {
    file: usize,
    path: usize,
    readonly: bool,
    share: bool,
}

impl Drawn {
    /// Whether one server may have both.
    const fn lives_with(self, other: Drawn) -> bool {
        self.file != other.file || (self.readonly && other.readonly) || (self.share && other.share)
    }
}

/// Whether a file is written to by these volumes, and whether all of them share it.
fn uses(volumes: &[Drawn], file: usize) -> Option<(bool, bool)> {
    let of_it = volumes.iter().filter(|volume| volume.file == file);
    let each = of_it.map(|volume| (!volume.readonly, volume.share));
    each.reduce(|one, other| (one.0 || other.0, one.1 && other.1))
}

/// A server that runs.
struct Running {
    own: Own,
    claims: Claims,
    volumes: Vec<Drawn>,
    /// Closed before the claims are given back, as in production.
    files: Vec<File>,
}

struct Yard {
    plan: Plan,
    medium: Medium,
    names: Names,
    servers: [Option<Running>; SERVERS],
}

impl Yard {
    fn new(seed: u64) -> Yard {
        let mut plan = Plan::draw(seed);
        plan.bytes = plan.bytes.max(16 * plan.block);
        plan.files = vec![0, plan.block * 8];
        plan.volumes.truncate(1);
        plan.volumes[0].file = 0;
        let (medium, names) = (Medium::new(&plan, Chance::new(seed, 2)), Names::new(&plan));
        Yard { plan, medium, names, servers: [const { None }; SERVERS] }
    }

    fn device(&self, volumes: &[Drawn]) -> Device {
        let mut device = config(&self.plan).1;
        let volume = |(number, drawn): (usize, &Drawn)| Volume {
            readonly: drawn.readonly,
            share: drawn.share,
            ..Volume::new(format!("v{number}"), Names::path(drawn.file, drawn.path))
        };
        device.volumes = volumes.iter().enumerate().map(volume).collect();
        device
    }

    /// Whether a server may have these, which has `has` by now; which file another one refuses.
    fn may(&self, server: usize, volumes: &[Drawn], has: &[Drawn]) -> Result<(), Option<usize>> {
        let apart =
            |place: usize, one: &Drawn| volumes[..place].iter().all(|other| one.lives_with(*other));
        if !volumes.iter().enumerate().all(|(place, one)| apart(place, one)) {
            return Err(None);
        }
        let others = || self.servers.iter().enumerate().filter(|(it, _)| *it != server);
        for file in 0..FILES {
            let Some(wanted) = uses(volumes, file).filter(|it| uses(has, file) != Some(*it)) else {
                continue;
            };
            let theirs = others().filter_map(|(_, it)| uses(&it.as_ref()?.volumes, file));
            if !theirs.into_iter().all(|it| (!it.0 || wanted.1) && (!wanted.0 || it.1)) {
                return Err(Some(file));
            }
        }
        Ok(())
    }

    /// Claims and opens, as a start or a reload does.
    fn take(&self, own: &Own, volumes: &[Drawn], has: Option<&Claims>) -> Result<Running, String> {
        let device = self.device(volumes);
        let devices = std::slice::from_ref(&device);
        let told = |error: ClaimError| error.to_string();
        let claims = match has {
            Some(has) => has.more(devices, false),
            None => Claims::take_of(&own.system, devices, false),
        };
        let claims = claims.map_err(told)?;
        let open = |volume: &Volume| open_file(&self.plan, &own.system, &device, volume);
        let files = device.volumes.iter().map(open).collect::<Result<Vec<File>, _>>();
        let files = files.map_err(|error| error.to_string())?;
        claims.confirm().map_err(told)?;
        Ok(Running { own: own.clone(), claims, volumes: volumes.to_vec(), files })
    }

    fn step(&mut self, chance: &mut Chance) -> Result<(), String> {
        let server = usize::from(chance.once_in(2));
        match (self.servers[server].take(), chance.below(6)) {
            (Some(running), 0) => {
                self.names.kill(running.own.server);
                drop(running);
            }
            (Some(Running { claims, files, .. }), 1 | 2) => {
                drop(files);
                drop(claims);
            }
            (running, _) => self.ask(server, running, chance)?,
        }
        self.names.is_sound()?;
        self.is_locked()
    }

    /// A start, or a reload.
    fn ask(
        &mut self,
        server: usize,
        running: Option<Running>,
        chance: &mut Chance,
    ) -> Result<(), String> {
        let drawn = |chance: &mut Chance| Drawn {
            file: pick(chance, &[0, 1]),
            path: pick(chance, &[0, 1, 2]),
            readonly: chance.once_in(2),
            share: chance.once_in(2),
        };
        let volumes: Vec<Drawn> = (0..=chance.below(2)).map(|_| drawn(chance)).collect();
        let has = running.as_ref().map_or(&[][..], |it| &it.volumes);
        let may = self.may(server, &volumes, has);
        let fails = chance.once_in(4);
        let own = match &running {
            Some(running) => running.own.clone(),
            None => Own::new(&self.plan, &self.medium, &self.names),
        };
        if fails {
            let errnos = [libc::EMFILE, libc::EIO, libc::ENOMEM];
            let errno = rustix::io::Errno::from_raw_os_error(pick(chance, &errnos));
            self.names.fail(chance.below(8), errno);
        }
        let taken = self.take(&own, &volumes, running.as_ref().map(|it| &it.claims));
        let has_failed = fails && self.names.forgive();
        let words = format!("server {} and {volumes:?}, of {may:?}", own.server);
        self.servers[server] = match (taken, may) {
            (Ok(mut next), Ok(())) => {
                if let Some(running) = running {
                    let gone = self.device(&running.volumes);
                    let gone: Vec<&Volume> = gone.volumes.iter().collect();
                    let held = next.claims.keep(&[self.device(&volumes)], &gone);
                    drop(running.files);
                    drop(held);
                }
                Some(next)
            }
            (Ok(_), Err(_)) => return Err(format!("N1: it may not: {words}")),
            (Err(why), Ok(())) if !has_failed => return Err(format!("N1: {why}: {words}")),
            (Err(why), Err(Some(_))) if !has_failed => {
                let mut paths = volumes.iter().map(|it| Names::path(it.file, it.path));
                let is_path = paths.any(|it| why.contains(&it.display().to_string()));
                let other = self.servers[1 - server].as_ref().expect("it refuses");
                if !is_path || !why.contains(&format!("server {} has", other.own.server)) {
                    return Err(format!("N1: path and holder are told as: {why}: {words}"));
                }
                running
            }
            (Err(_), _) => running,
        };
        Ok(())
    }

    /// N4: by a third server that asks.
    fn is_locked(&self) -> Result<(), String> {
        for file in 0..FILES {
            let one = Drawn { file, path: 0, readonly: false, share: false };
            let other = Own::new(&self.plan, &self.medium, &self.names);
            let taken = Claims::take_of(&other.system, &[self.device(&[one])], false);
            let may = self.may(SERVERS, &[one], &[]);
            if taken.is_ok() != may.is_ok() {
                return Err(format!("N4: file {file}: {may:?}, but {:?}", taken.err()));
            }
        }
        Ok(())
    }
}

/// A case; which law it breaks.
fn judge(seed: u64) -> Result<(), String> {
    let (mut yard, chance) = (Yard::new(seed), &mut Chance::new(seed, 1));
    for step in 0..STEPS {
        yard.step(chance).map_err(|why| format!("seed {seed}, step {step}: {why}"))?;
    }
    for running in yard.servers.iter_mut().filter_map(Option::take) {
        drop(running.files);
        drop(running.claims);
    }
    yard.names.is_sound()?;
    yard.is_locked().map_err(|why| format!("seed {seed}, at the end: {why}"))
}

/// Do two servers, whatever their configurations and however they end, never both have an image
/// that only one may have? Does a refusal name the image and the server that has it, and does the
/// other one get it as soon as that server has gone?
#[test]
fn two_servers_share_as_configured() {
    let seed = asked("PATERNOSTER_STREAM_SEED").unwrap_or(1);
    for seed in seed..seed + CASES {
        judge(seed).unwrap_or_else(|why| panic!("{why}; again: PATERNOSTER_STREAM_SEED={seed}"));
    }
}

/// Is a server that takes no locks (finding 3 of a review) found?
#[test]
fn a_second_owner_of_a_name_is_found() {
    plant(Some(Bug::LocksNothing));
    let found = (1..CASES).find_map(|seed| judge(seed).err());
    plant(None);
    assert!(found.as_ref().is_some_and(|why| why.contains("N4")), "{found:?}");
}
