// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lender: a backend, and the memory that it has been lent.
//!
//! ```text
//! part ──Loan──▶ lent[slot] ─Piece─▶ backend        nobody else can reach the block now
//! part ◀──Loan── lent[slot] ◀─────── finished
//! ```
//!
//! A kernel, or a thread, writes to the memory of a job until it has ended. So a block that a job
//! is given goes from its owner to the lender, which has it until the backend has reported the
//! job, and nobody can look at it meanwhile:
//!
//! ```
//! # use paternoster::Nanos;
//! # use paternoster_serve::device::{Job, arena::Arena, lender::{Lender, Loan}};
//! # fn lends(arena: &mut Arena, lender: &mut Lender, job: Job<'static>) {
//! let mut block = arena.take(4096).unwrap();
//! block.bytes_mut().fill(0);
//! let mut loans = vec![Loan { whose: 0, length: 4096, block }];
//! let taken = lender.submit(Nanos::ZERO, job, &mut loans);
//! // Behind its end:
//! while lender.ended(&mut loans).is_some() {}
//! loans.iter().for_each(|loan| println!("{:?}", loan.block.bytes()));
//! # }
//! ```
//!
//! It cannot be looked at by its owner of before:
//!
//! ```compile_fail,E0382
//! # use paternoster::Nanos;
//! # use paternoster_serve::device::{Job, arena::Arena, lender::{Lender, Loan}};
//! # fn lends(arena: &mut Arena, lender: &mut Lender, job: Job<'static>) {
//! let block = arena.take(4096).unwrap();
//! let mut loans = vec![Loan { whose: 0, length: 4096, block }];
//! let taken = lender.submit(Nanos::ZERO, job, &mut loans);
//! block.bytes();
//! # }
//! ```
//!
//! Nor can it be kept by a reference to its bytes:
//!
//! ```compile_fail,E0505
//! # use paternoster::Nanos;
//! # use paternoster_serve::device::{Job, arena::Arena, lender::{Lender, Loan}};
//! # fn lends(arena: &mut Arena, lender: &mut Lender, job: Job<'static>) {
//! let block = arena.take(4096).unwrap();
//! let bytes = block.bytes();
//! let mut loans = vec![Loan { whose: 0, length: 4096, block }];
//! let taken = lender.submit(Nanos::ZERO, job, &mut loans);
//! assert_eq!(bytes[0], 0);
//! # }
//! ```
//!
//! # Invariants
//! I1  What is in `lent` is of a job that the backend took and has not reported.
//! I2  The backend goes before the memory that it was told of.

use std::sync::Arc;

use paternoster::Nanos;

use super::arena::{Arena, Block, Region};
use super::{Backend, Extent, Finished, Full, Job, Piece};

/// A block on its way to a backend, or back.
#[derive(Debug)]
pub struct Loan {
    /// Which part gets it back: a number of the caller's.
    pub whose: u32,
    /// How many of its bytes, from the first on, the job moves.
    pub length: u32,
    /// The block.
    pub block: Block,
}

/// Two lists change places with their memory, so that no loan is moved and nothing allocated.
/// (`std::mem::swap` of them is a call, at four times the price.)
fn exchange(one: &mut Vec<Loan>, other: &mut Vec<Loan>) {
    let kept = std::mem::take(other);
    *other = std::mem::replace(one, kept);
}

/// A backend that has the memory of its jobs while it does them.
pub struct Lender {
    /// First, so that it has gone before the region (I2).
    backend: Box<dyn Backend>,
    /// By slot (I1).
    lent: Vec<Vec<Loan>>,
    finished: Vec<Finished>,
    /// How many of these were told.
    told: usize,
    /// Kept to be used again.
    pieces: Vec<Piece>,
    _registered: Arc<Region>,
}

impl std::fmt::Debug for Lender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lender").field("backend", &self.backend.describe()).finish_non_exhaustive()
    }
}

impl Lender {
    /// Tells the backend that blocks will come from this arena.
    #[must_use]
    pub fn new(mut backend: Box<dyn Backend>, arena: &Arena) -> Lender {
        let region = arena.region();
        // SAFETY: the region stays for as long as the lender has it, and it outlives the backend
        // there, whatever becomes of the arena.
        unsafe { backend.register(region.whole()) };
        let depth = backend.facts().depth as usize;
        Lender {
            backend,
            lent: (0..depth).map(|_| Vec::new()).collect(),
            finished: Vec::with_capacity(depth),
            told: 0,
            pieces: Vec::new(),
            _registered: region,
        }
    }

    /// The backend, to be asked.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Gives it a job whose pieces are these loans, and the loans with it. They come back by
    /// [`Lender::ended`].
    ///
    /// # Errors
    /// [`Full`]; the job was not taken, and the loans are still there.
    pub fn submit(
        &mut self,
        now: Nanos,
        job: Job<'static>,
        loans: &mut Vec<Loan>,
    ) -> Result<(), Full> {
        let lent = self.lent.get_mut(job.slot as usize).filter(|lent| lent.is_empty());
        let lent = lent.ok_or(Full)?;
        self.pieces.clear();
        for loan in loans.iter_mut() {
            self.pieces.push(loan.block.piece(loan.length as usize));
        }
        // SAFETY: the pieces are of the blocks in `loans`, and a block is the only way to its
        // bytes. If the job is taken they go to `lent`, which nothing reads, and leave it when the
        // backend has reported the job. Should the lender be dropped before, they are never given
        // back, and then their memory is never unmapped.
        unsafe { self.backend.submit(now, Job { pieces: &self.pieces, ..job }) }?;
        exchange(lent, loans);
        Ok(())
    }

    /// Hands over what was submitted.
    pub fn kick(&mut self) {
        self.backend.kick();
    }

    /// Asks the backend what has ended by now; whether anything has that was not told yet.
    pub fn reap(&mut self, now: Nanos) -> bool {
        self.backend.reap(now, &mut self.finished);
        self.told < self.finished.len()
    }

    /// The next job that has ended; its loans are added to `back`.
    pub fn ended(&mut self, back: &mut Vec<Loan>) -> Option<Finished> {
        let Some(&ended) = self.finished.get(self.told) else {
            self.finished.clear();
            self.told = 0;
            return None;
        };
        self.told += 1;
        if let Some(lent) = self.lent.get_mut(ended.slot as usize) {
            if back.is_empty() {
                exchange(back, lent);
            } else {
                back.append(lent);
            }
        }
        Some(ended)
    }

    /// Runs of hole and data; see [`Backend::extents`].
    ///
    /// # Errors
    /// What the system said.
    pub fn extents(
        &mut self,
        file: u16,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> std::io::Result<()> {
        self.backend.extents(file, offset, length, each)
    }
}
