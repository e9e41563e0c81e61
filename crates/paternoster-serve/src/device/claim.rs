// SPDX-License-Identifier: MIT OR Apache-2.0
//! Claim: an image has one owner, among the volumes of a server and among the programs of a
//! machine.
//!
//! ```text
//! volumes ──identity──▶ things, ranges ──▶ two volumes on the same bytes?      refused
//!                           │
//!                           └──lock──▶ another program on the same thing?       refused
//!                                      held until the claims are dropped
//! ```
//!
//! Each thing is locked once, however many volumes are on it: for writing if any of them writes,
//! and shared only if all of them are. What a loop device shows whole is locked with it. Of the
//! disk of a partition, and of the file of a loop with an offset, one only asks: other parts of
//! them are others' business.
//!
//! Invariants: I1 nothing is opened for writing before it is claimed; I2 the opened file is the
//! claimed one (`confirm`); I3 asking whether a claim would succeed changes nothing.
//!
//! `locks`: the locks held on a thing, for all its uses together.
//!
//! `share = true` of a volume lets others that also share it write at the same time. `force`
//! refuses nothing: it takes the locks it can get, and reports what it would have refused.

mod locks;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::identity::{Cover, Places, Span, Thing, thing};
use super::lock::{self, Refusal, Use};
use super::system::{Handle, System};
use crate::config::{Device, Volume};
use crate::host::ours::Ours;
pub use locks::Claim;
use locks::{Beside, Going, Held, Locks};

/// Something belongs to another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Two volumes are on the same bytes.
    #[error(
        "volumes `{first}` ({}) and `{second}` ({}) are on the same {what}: give them `start` and \
         `length` apart, make both `readonly = true`, or both `share = true` if their clients know \
         of each other", first_path.display(), second_path.display()
    )]
    Overlap {
        /// The name of the one.
        first: String,
        /// Path of the first volume.
        first_path: PathBuf,
        /// The name of the other.
        second: String,
        /// Path of the second volume.
        second_path: PathBuf,
        /// The bytes that both would use, in words.
        what: String,
    },
    /// Another program has it.
    #[error(
        "{} is in use: {what}; end that first, serve it beside that with `share = true` in its \
         volume (if that shares it, too), or with --force", path.display()
    )]
    Taken {
        /// The file or device.
        path: PathBuf,
        /// Which process has it, and how.
        what: String,
    },
    /// It could not be opened to be locked, although a second attempt, to use it, might succeed.
    #[error("{}: opening it to lock it: {error}", path.display())]
    Unlocked {
        /// The file or device.
        path: PathBuf,
        /// The system's error.
        error: Errno,
    },
    /// A name means something else than it did a moment ago.
    #[error("{}: it was replaced while it was being opened", path.display())]
    Replaced {
        /// The file or device.
        path: PathBuf,
    },
}

/// Everything that is claimed, until it is dropped.
#[derive(Debug, Default)]
pub struct Claims {
    /// The thing that each volume's path led to.
    volumes: Vec<(PathBuf, Option<Thing>)>,
    /// The claims, which hold the locks.
    held: Vec<Claim>,
    /// What has locks of volumes that go, as long as their files are open.
    going: Vec<Going>,
    /// Notes for the administrator.
    pub notes: Vec<String>,
    ours: Ours,
    /// The system in which the files are.
    system: System,
}

/// A volume and everything below it.
struct Owned<'a> {
    volume: &'a Volume,
    spans: Vec<Span>,
}

impl Claims {
    /// Claims what these devices' volumes are on. Missing files are left to the code that opens
    /// them.
    ///
    /// # Errors
    /// [`ClaimError`]: which two volumes are on the same bytes, or which process has it already.
    pub fn take(devices: &[Device], force: bool) -> Result<Claims, ClaimError> {
        Claims::take_of(&System::default(), devices, force)
    }

    /// The same of these names.
    pub(crate) fn take_of(
        system: &System,
        devices: &[Device],
        force: bool,
    ) -> Result<Claims, ClaimError> {
        let mut claims = Claims { system: system.clone(), ..Claims::default() };
        let places = Places::of(system);
        let all = owned(devices, &places);
        claims.objection(apart(&all), force)?;
        claims.note(devices, &all);
        claims.lock_all(&all, force, &places)?;
        Ok(claims)
    }

    /// Claims what these devices' volumes are on, in addition to what is claimed already.
    ///
    /// # Errors
    /// As [`Claims::take`]; then what was claimed before is claimed still.
    pub(crate) fn more(&self, devices: &[Device], force: bool) -> Result<Claims, ClaimError> {
        let (ours, system) = (self.ours.clone(), self.system.clone());
        let places = Places::of(&system);
        let mut more = Claims { held: self.held.clone(), ours, system, ..Claims::default() };
        more.going.clone_from(&self.going);
        let all = owned(devices, &places);
        more.note(devices, &all);
        more.objection(apart(&all), force)?;
        more.lock_all(&all, force, &places)?;
        Ok(more)
    }

    /// From now on only these devices' volumes are served: the claims of others are handed out, by
    /// the name of the volume.
    pub(crate) fn keep(&mut self, devices: &[Device], gone: &[&Volume]) -> Vec<Vec<Claim>> {
        let places = Places::of(&self.system);
        let of = |volume: &Volume| {
            let thing = places.thing(&volume.path);
            let spans = thing.map(|it| places.spans(it, &volume.path, 0, u64::MAX));
            spans.unwrap_or_default()
        };
        let all = owned(devices, &places);
        let out = gone.iter().map(|volume| {
            let (spans, wanted) = (of(volume), use_of(volume));
            let its = |claim: &&Claim| spans.iter().any(|span| span.thing == claim.thing());
            self.held.iter().filter(its).map(|claim| claim.beside(wanted)).collect()
        });
        let out: Vec<Vec<Claim>> = out.collect();
        let kept = things(&all);
        let (stays, goes): (_, Vec<Claim>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|claim| kept.iter().any(|(span, _)| span.thing == claim.thing()));
        self.held = stays;
        self.going.retain(Going::is_held);
        for claim in &goes {
            if !self.going.iter().any(|going| going.is_of(claim)) {
                self.going.push(Going::new(claim));
            }
        }
        out
    }

    /// Notes what each volume's path means.
    fn note(&mut self, devices: &[Device], all: &[Owned<'_>]) {
        // Not by its path: of two volumes with the same path, one may not have been found.
        let thing = |volume: &Volume| {
            let of_it = all.iter().find(|one| std::ptr::eq(one.volume, volume));
            of_it.map(|one| one.spans[0].thing)
        };
        let each = volumes_of(devices).map(|volume| (volume.path.clone(), thing(volume)));
        self.volumes = each.collect();
    }

    fn lock_all(
        &mut self,
        all: &[Owned<'_>],
        force: bool,
        places: &Places,
    ) -> Result<(), ClaimError> {
        for (span, wanted) in things(all) {
            if let Some(claim) = self.held.iter_mut().find(|claim| claim.thing() == span.thing) {
                let (taken, locks) = (claim.becomes(wanted, force), Arc::clone(claim.locks()));
                let taken = self.told(&span, taken);
                self.objection(taken, force)?;
                self.lock_beside(&locks, &span, wanted, force, places)?;
                continue;
            }
            if let Some(locks) = self.going.iter().find_map(|going| going.find(span.thing)) {
                let (claim, taken) = Claim::more(span.thing, wanted, &locks, force);
                self.held.push(claim);
                let taken = self.told(&span, taken);
                self.objection(taken, force)?;
                self.lock_beside(&locks, &span, wanted, force, places)?;
                continue;
            }
            match self.lock(&span, wanted, force, places) {
                Ok(claim) => self.held.push(claim),
                Err(refused) => self.objection(Err(refused), force)?,
            }
        }
        for (span, wanted) in parts(all) {
            self.objection(ask_one(places, &span, wanted), force)?;
        }
        Ok(())
    }

    /// What another process has claimed, as open files with their locks; whether it is written to
    /// and shared, and whether the last of the files is open exclusively in addition to the others.
    /// Given back at the end only if it is ours by then.
    pub(crate) fn taken(
        system: &System,
        all: Vec<(Vec<Handle>, [bool; 3])>,
        ours: &Ours,
    ) -> Claims {
        let claim = |(files, [writes, shared, is_alone]): (Vec<Handle>, [bool; 3])| {
            let (thing, wanted) = (thing(&files.first()?.stat().ok()?)?, Use { writes, shared });
            let mut held = files.into_iter().map(|file| Held(file, ours.clone()));
            let own = held.next();
            let mut rest: Vec<Held> = held.collect();
            let (alone, disk) = (if is_alone { rest.pop() } else { None }, rest.pop());
            Some(Claim::new(thing, wanted, own, Beside { alone, disk }))
        };
        let held = all.into_iter().filter_map(claim).collect();
        Claims { held, ours: ours.clone(), system: system.clone(), ..Claims::default() }
    }

    /// The same, of what is claimed here. Locks are of the open file: they go with it.
    pub(crate) fn to_hand_over(&self) -> std::io::Result<Vec<(Vec<Handle>, [bool; 3])>> {
        let each = self.held.iter().filter_map(|claim| {
            let fds = match claim.locks().clones() {
                Ok(fds) if fds.is_empty() => return None,
                Ok(fds) => fds,
                Err(error) => return Some(Err(error)),
            };
            let wanted = claim.locks().wanted()?;
            let is_alone = claim.locks().beside().alone.is_some();
            Some(Ok((fds, [wanted.writes, wanted.shared, is_alone])))
        });
        each.collect()
    }

    /// Another process has the locks from now on: they are not given back here.
    pub(crate) fn leave(&self) {
        self.ours.set(false);
    }

    /// Whether every name still means what was claimed.
    ///
    /// # Errors
    /// [`ClaimError::Replaced`].
    pub fn confirm(&self) -> Result<(), ClaimError> {
        let places = Places::of(&self.system);
        let same = |path: &Path| places.thing(path);
        // It did not exist a moment ago, and now does: it is not claimed.
        let as_before = |path: &Path, it: Option<Thing>| it.is_some() && same(path) == it;
        let replaced = self.volumes.iter().find(|(path, thing)| !as_before(path, *thing));
        replaced.map_or(Ok(()), |(path, _)| Err(ClaimError::Replaced { path: path.clone() }))
    }

    /// The system in which the claimed files are.
    pub(crate) const fn system(&self) -> &System {
        &self.system
    }

    /// With force an objection is but a note.
    fn objection(&mut self, said: Result<(), ClaimError>, force: bool) -> Result<(), ClaimError> {
        match said {
            Err(ClaimError::Taken { path, what }) if force => {
                self.notes.push(format!("{} is in use: {what}; --force uses it", path.display()));
                Ok(())
            }
            Err(overlap @ ClaimError::Overlap { .. }) if force => {
                self.notes.push(format!("{overlap} (--force serves both)"));
                Ok(())
            }
            said => said,
        }
    }

    /// Takes the locks of one thing.
    fn lock(
        &mut self,
        span: &Span,
        wanted: Use,
        force: bool,
        places: &Places,
    ) -> Result<Claim, ClaimError> {
        let mut beside = Beside::default();
        if is_alone(span, wanted, force) {
            // The kernel's own word comes first: it says where it is mounted.
            beside.alone = open(places, span, true)?.map(|fd| Held(fd, self.ours.clone()));
        }
        let Some(fd) = open(places, span, false)? else {
            return Ok(Claim::new(span.thing, wanted, None, Beside::default()));
        };
        let taken = self.told(span, lock::take(&*fd, wanted));
        let held = Some(Held(fd, self.ours.clone()));
        let claim = Claim::new(span.thing, wanted, held, beside);
        self.objection(taken, force)?;
        self.lock_beside(&Arc::clone(claim.locks()), span, wanted, force, places)?;
        Ok(claim)
    }

    /// Takes what a block device that is written to has in addition to its locks, if still missing.
    fn lock_beside(
        &mut self,
        locks: &Arc<Locks>,
        span: &Span,
        wanted: Use,
        force: bool,
        places: &Places,
    ) -> Result<(), ClaimError> {
        if is_alone(span, wanted, force) && locks.beside().alone.is_none() {
            let alone = open(places, span, true)?.map(|fd| Held(fd, self.ours.clone()));
            locks.beside().alone = alone;
        }
        let has_disk = !wanted.writes || locks.beside().disk.is_some();
        if !matches!(span.thing, Thing::Block(_)) || has_disk {
            return Ok(());
        }
        // udev's convention is of whole disks.
        let above = places.spans(span.thing, &span.path, 0, u64::MAX);
        let is_disk = |span: &&Span| match span.thing {
            Thing::Block(number) => span.cover != Cover::Somewhere && places.is_disk(number),
            Thing::File(..) => false,
        };
        if let Some(disk) = above.iter().find(is_disk)
            && let Some(fd) = open(places, disk, false)?
        {
            let taken = self.told(disk, lock::take_disk(&*fd));
            locks.beside().disk = Some(Held(fd, self.ours.clone()));
            self.objection(taken, force)?;
        }
        Ok(())
    }

    /// What cannot be locked is used all the same, and reported.
    fn told(&mut self, span: &Span, taken: Result<(), Refusal>) -> Result<(), ClaimError> {
        match taken {
            Ok(()) => Ok(()),
            Err(Refusal::Taken(what)) => Err(ClaimError::Taken { path: span.path.clone(), what }),
            Err(Refusal::Unable(error)) => {
                let path = span.path.display();
                self.notes.push(format!(
                    "{path}: it cannot be locked here ({error}): nobody notices other programs \
                     that write to it"
                ));
                Ok(())
            }
        }
    }
}

/// Asks what [`Claims::take`] would say, and takes nothing.
///
/// # Errors
/// As there.
pub fn ask(devices: &[Device]) -> Result<(), ClaimError> {
    let places = &Places::default();
    let all = owned(devices, places);
    apart(&all)?;
    let mut asked = things(&all).into_iter().chain(parts(&all));
    asked.try_for_each(|(span, wanted)| ask_one(places, &span, wanted))
}

fn ask_one(places: &Places, span: &Span, wanted: Use) -> Result<(), ClaimError> {
    let Some(fd) = open(places, span, false)? else { return Ok(()) };
    match lock::ask(&*fd, wanted) {
        Err(Refusal::Taken(what)) => Err(ClaimError::Taken { path: span.path.clone(), what }),
        Ok(()) | Err(Refusal::Unable(_)) => Ok(()),
    }
}

/// How a volume uses what it is on.
const fn use_of(volume: &Volume) -> Use {
    Use { writes: !volume.readonly, shared: volume.share }
}

/// Whether a thing is opened for this server alone.
const fn is_alone(span: &Span, wanted: Use, force: bool) -> bool {
    matches!(span.thing, Thing::Block(_)) && wanted.writes && !wanted.shared && !force
}

fn volumes_of(devices: &[Device]) -> impl Iterator<Item = &Volume> {
    devices.iter().flat_map(|device| &device.volumes)
}

fn owned<'a>(devices: &'a [Device], places: &Places) -> Vec<Owned<'a>> {
    let owned = volumes_of(devices).filter_map(|volume| {
        let thing = places.thing(&volume.path)?;
        let end = volume.length.map_or(u64::MAX, |length| volume.start.saturating_add(length));
        let spans = places.spans(thing, &volume.path, volume.start, end);
        Some(Owned { volume, spans })
    });
    owned.collect()
}

/// Whether no two volumes are on the same bytes, except readers and volumes marked `share`.
fn apart(all: &[Owned<'_>]) -> Result<(), ClaimError> {
    for (place, second) in all.iter().enumerate() {
        for first in &all[..place] {
            let (one, other) = (first.volume, second.volume);
            if (one.readonly && other.readonly) || (one.share && other.share) {
                continue;
            }
            let met = first.spans.iter().find(|one| second.spans.iter().any(|it| one.meets(it)));
            let Some(met) = met else { continue };
            let what = match met.thing {
                Thing::File(..) => format!("file ({})", met.path.display()),
                Thing::Block(_) => format!("device ({})", met.path.display()),
            };
            return Err(ClaimError::Overlap {
                first: one.name.clone(),
                first_path: one.path.clone(),
                second: other.name.clone(),
                second_path: other.path.clone(),
                what,
            });
        }
    }
    Ok(())
}

/// The things to lock, each once, with the use that all its volumes make of it together.
fn things(all: &[Owned<'_>]) -> Vec<(Span, Use)> {
    let mut things: Vec<(Span, Use)> = Vec::new();
    for one in all {
        let volume = one.volume;
        for span in one.spans.iter().filter(|span| span.cover == Cover::Whole) {
            let wanted = use_of(volume);
            match things.iter_mut().find(|(known, _)| known.thing == span.thing) {
                Some((_, known)) => *known = known.and(wanted),
                None => things.push((span.clone(), wanted)),
            }
        }
    }
    things
}

/// Disks of which the volumes use a part: does another program have the whole disk? Not what is
/// locked: these locks would be found.
fn parts(all: &[Owned<'_>]) -> Vec<(Span, Use)> {
    let is_whole = |thing: Thing| {
        let mut spans = all.iter().flat_map(|one| &one.spans);
        spans.any(|span| span.cover == Cover::Whole && span.thing == thing)
    };
    let mut parts = Vec::new();
    for one in all {
        let wanted = use_of(one.volume);
        let of_it = one.spans.iter().filter(|span| span.cover == Cover::Part);
        parts.extend(of_it.filter(|span| !is_whole(span.thing)).map(|it| (it.clone(), wanted)));
    }
    parts
}

/// Whether opening it to use it will fail, too. After an error that passes (too many open files,
/// too little memory, a signal) that would succeed, and the image would be served without a lock.
const fn is_lasting(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ACCESS
            | Errno::PERM
            | Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::NXIO
            | Errno::NODEV
            | Errno::NOMEDIUM
            | Errno::ROFS
    )
}

/// Opens a thing to lock it: `None` where that is not allowed or it has gone. Then opening it to
/// use it fails as well, with a better message.
fn open(places: &Places, span: &Span, alone: bool) -> Result<Option<Handle>, ClaimError> {
    let path = &span.path;
    let block = matches!(span.thing, Thing::Block(_));
    // What has become a pipe in the meantime is not waited for.
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if block && alone {
        flags |= OFlags::EXCL;
    }
    let file = match places.system.open(path, flags) {
        Ok(file) => file,
        Err(Errno::BUSY) => {
            let what = "the kernel has it mounted, or another program has it for itself (O_EXCL)";
            return Err(ClaimError::Taken { path: path.clone(), what: what.to_owned() });
        }
        Err(errno) if is_lasting(errno) => return Ok(None),
        Err(error) => return Err(ClaimError::Unlocked { path: path.clone(), error }),
    };
    match file.stat() {
        Ok(found) if thing(&found) == Some(span.thing) => Ok(Some(file)),
        _ => Err(ClaimError::Replaced { path: path.clone() }),
    }
}
