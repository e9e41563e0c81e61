// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of a thing, for all uses of it together.
//!
//! ```text
//! a server that writes, a reload that only reads, clients of the volume as it was
//!
//! claims     reads      reads, writes      ──▶   locks of reads, writes
//! these go              ✝                  ──▶   locks of reads: the rest is given back
//! ```
//!
//! The kernel keeps one set of locks for an open file, and further requests change that set. So
//! each claim states its use, and what no claim needs any more is released: a refused reload keeps
//! no lock, and a reload that serves fewer volumes admits others.
//!
//! A block device has two more, each a file description of its own so that it can be released
//! alone: an exclusive opening, for a use that writes and does not share; and the lock of its disk,
//! for a use that writes.
//!
//! Invariant: the locks of a file are those of its claims' uses, unless another process has the
//! open file, too (a handover): then nothing is released here.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::super::identity::Thing;
use super::super::lock::{self, Refusal, Use};
use super::super::system::{Handle, OpenFile};
use crate::host::ours::Ours;
use crate::locked::locked;

/// An open file with locks, given back when it goes.
#[derive(Debug)]
pub(super) struct Held(pub(super) Handle, pub(super) Ours);

impl Drop for Held {
    fn drop(&mut self) {
        // Unlocking a descriptor that another process shares would unlock it for that process, too.
        if self.1.is() {
            lock::give_back(&*self.0);
        }
    }
}

/// What a block device that is written to has in addition to its locks.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The descriptor that is open exclusively.
    pub alone: Option<Held>,
    /// The disk's descriptor, with its lock.
    pub disk: Option<Held>,
}

/// The open files of a thing: itself, where it can be locked, and additional ones.
#[derive(Debug)]
pub(super) struct Locks {
    held: Option<Held>,
    beside: Mutex<Beside>,
    uses: Mutex<Vec<Use>>,
}

impl Locks {
    /// The descriptor that has the lock.
    fn file(&self) -> Option<&dyn OpenFile> {
        self.held.as_ref().map(|held| &*held.0)
    }

    /// The open descriptors, for another process; the locked one comes first.
    pub(super) fn clones(&self) -> std::io::Result<Vec<Handle>> {
        let beside = locked(&self.beside);
        let all = [&self.held, &beside.disk, &beside.alone];
        all.into_iter().flatten().map(|held| held.0.share()).collect()
    }

    /// Additional open files.
    pub(super) fn beside(&self) -> MutexGuard<'_, Beside> {
        locked(&self.beside)
    }

    /// The union of all uses.
    pub(super) fn wanted(&self) -> Option<Use> {
        all(&locked(&self.uses))
    }

    /// One use less or another one: what the rest does not need is given back.
    fn change(&self, from: Option<Use>, to: Option<Use>) {
        self.change_in(&mut locked(&self.uses), from, to);
    }

    /// The same with the uses locked, so that no other claim changes them meanwhile.
    fn change_in(&self, uses: &mut Vec<Use>, from: Option<Use>, to: Option<Use>) {
        if let Some(place) = from.and_then(|from| uses.iter().position(|it| *it == from)) {
            uses.swap_remove(place);
        }
        uses.extend(to);
        if let (Some(rest), Some(Held(file, ours))) = (all(uses), &self.held)
            && ours.is()
        {
            lock::give_back_all_but(&**file, rest);
            let mut beside = self.beside();
            if !rest.writes || rest.shared {
                beside.alone = None;
            }
            if !rest.writes {
                beside.disk = None;
            }
        }
    }
}

/// Several uses at once.
fn all(uses: &[Use]) -> Option<Use> {
    uses.iter().copied().reduce(Use::and)
}

/// One use of a thing. Dropping it releases its locks, except those that other claims need.
#[derive(Debug)]
pub struct Claim {
    thing: Thing,
    wanted: Use,
    locks: Arc<Locks>,
}

impl Claim {
    /// A claim on a thing for this use, with the lock that was taken.
    pub(super) fn new(thing: Thing, wanted: Use, held: Option<Held>, beside: Beside) -> Claim {
        let (beside, uses) = (Mutex::new(beside), Mutex::new(vec![wanted]));
        Claim { thing, wanted, locks: Arc::new(Locks { held, beside, uses }) }
    }

    /// A further use of what is locked; returns what conflicts with it.
    pub(super) fn more(
        thing: Thing,
        wanted: Use,
        locks: &Arc<Locks>,
        force: bool,
    ) -> (Claim, Result<(), Refusal>) {
        let mut claim = Claim { thing, wanted: Use::LEAST, locks: Arc::clone(locks) };
        claim.locks.change(None, Some(Use::LEAST));
        let taken = claim.ask_for(wanted, force);
        (claim, taken)
    }

    pub(super) const fn thing(&self) -> Thing {
        self.thing
    }

    pub(super) const fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// A second claim on the same thing, for the use `wanted`.
    pub(super) fn beside(&self, wanted: Use) -> Claim {
        self.locks.change(None, Some(wanted));
        Claim { thing: self.thing, wanted, locks: Arc::clone(&self.locks) }
    }

    /// Sets this use. If that asks for more than before, an error says what conflicts with it;
    /// `force` sets it nevertheless.
    pub(super) fn becomes(&mut self, wanted: Use, force: bool) -> Result<(), Refusal> {
        if self.wanted == wanted { Ok(()) } else { self.ask_for(wanted, force) }
    }

    fn ask_for(&mut self, wanted: Use, force: bool) -> Result<(), Refusal> {
        let locks = Arc::clone(&self.locks);
        // Held over both: a claim being dropped would release what is taken and not recorded yet.
        let mut uses = locked(&locks.uses);
        let taken = locks.file().map_or(Ok(()), |file| lock::take(file, wanted));
        let is_refused = matches!(taken, Err(Refusal::Taken(_))) && !force;
        let now = if is_refused { self.wanted } else { wanted };
        locks.change_in(&mut uses, Some(self.wanted), Some(now));
        self.wanted = now;
        taken
    }
}

impl Clone for Claim {
    fn clone(&self) -> Claim {
        self.beside(self.wanted)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.locks.change(Some(self.wanted), None);
    }
}

/// Locks of a thing that is no longer served, while others hold claims of it.
#[derive(Debug, Clone)]
pub(super) struct Going {
    thing: Thing,
    locks: Weak<Locks>,
}

impl Going {
    pub(super) fn new(claim: &Claim) -> Going {
        Going { thing: claim.thing, locks: Arc::downgrade(&claim.locks) }
    }

    /// Whether it is of the same locks.
    pub(super) fn is_of(&self, claim: &Claim) -> bool {
        std::ptr::eq(self.locks.as_ptr(), Arc::as_ptr(&claim.locks))
    }

    pub(super) fn is_held(&self) -> bool {
        self.locks.strong_count() != 0
    }

    /// The locks, if there is a claim of them still.
    pub(super) fn find(&self, thing: Thing) -> Option<Arc<Locks>> {
        if self.thing == thing { self.locks.upgrade() } else { None }
    }
}
