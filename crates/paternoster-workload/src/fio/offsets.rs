// SPDX-License-Identifier: MIT OR Apache-2.0
//! Offsets: the I/Os of one clone of a job, in order: file, direction, offset and length.
//!
//! ```text
//! region of 256 blocks, 4k each
//! rw=randread        15 189 215 120 102 216 ...   216: 215 was used, the next free block is taken
//! rw=randread:4      15 16 17 18 189 190 191 192 215 ...
//! rw=read:4k         0 2 4 6 ...                  4k are added after each I/O
//! rw=read:-8k        0 254 253 252 ...            back over the beginning: from the end
//! rw=rw              r0 r1 r2 w0 r3 r4 w1 ...     each direction has its own position
//! nrfiles=3          a0 b0 c0 a1 b1 c1 ...        so has each file; draws are shared by them
//! ```
//!
//! For each I/O the file is chosen first, then the direction, then the place. If the file has none
//! left, it is at its end and all three are chosen anew; when all files are, the pass ends.
//!
//! A *pass* is what the job's size asks for; `loops` are several. A pass that has made its bytes
//! leaves everything as it is, and the next goes on from there. When a region is used up (map full,
//! end reached) all is begun anew: map, positions, and every generator. That happens between two
//! passes if the first one ended early by it, in the midst of a later pass, and also of the first
//! if `io_size` is beyond the region:
//!
//! ```text
//! loops=2               0 2 3 1 | 0 2 3 1     the fifth draw finds the map full: all begins anew
//! loops=2 norandommap   0 2 3 1 | 1 3 1 2     nothing is ever used up
//! rw=rw loops=2         ... r28 w34 | w35     neither direction was at its end
//! time_based            0 2 3 1 | 3 1 2 0     a draw is lost, and only the map is cleared
//! ```
//!
//! [`Offsets::replay`] begins the pass of a further loop. A time_based pass on one file has no end;
//! on several it ends when all of them are at theirs, and [`Offsets::restart`] begins another.
//!
//! A trimwrite job counts its blocks once, not for trim and write, so that it covers its size.
//!
//! Invariants: I1 each piece lies in the region of its file and is not empty; I2 with a map no
//! block is random twice in a pass; I3 no call allocates.
//!
//! Source: spec `fio.md` 3.1 to 3.3 and 4.3; `tests/all/fio_real.rs` compares with fio 3.33.

mod file;
mod lfsr;
mod mix;
mod name_hash;
pub(in crate::fio) mod skew;
mod zones;

use crate::direction::Direction;

use super::file_choice::FileChoice;
use super::job::{Job, Kind};
use super::random::{Choice, Seeds, Taus88};
use file::{FileOffsets, Shared};
use mix::Mix;

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// In which of the clone's files, from 0.
    pub file: usize,
    /// What it does.
    pub direction: Direction,
    /// Where, in bytes of the file.
    pub offset: u64,
    /// How long, in bytes.
    pub bytes: u64,
}

/// The region of a clone in one of its files.
#[derive(Debug, Clone, Copy)]
pub struct Extent<'a> {
    /// The file's name with its directory; it seeds skewed distributions.
    pub file: &'a str,
    /// Where the region begins, in bytes of the file.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
}

/// The I/Os of one clone of a job.
#[derive(Debug, Clone)]
pub struct Offsets {
    kind: Kind,
    rwmixread: u64,
    number_ios: u64,
    /// Bytes of a pass.
    pass_bytes: u64,
    /// A pass is larger than the region.
    wraps: bool,
    seeds: Seeds,
    mix_generator: Taus88,
    shared: Shared,
    choice: FileChoice,
    files: Vec<FileOffsets>,

    mix: Mix,
    /// The second half of a trimwrite.
    pending: Option<Piece>,
    issued_bytes: u64,
    issued_in_pass: u64,
    issued: u64,
    /// The pass began where an earlier one stopped.
    carried: bool,
    /// The pass ended before its bytes were made.
    used_up: bool,
    finished: bool,
}

impl Offsets {
    /// The I/Os of the clone that is thread number `thread` of the run, from 1, on one file: the
    /// first of the job's first clone.
    ///
    /// The region is `region_bytes` from `region_start` on; a pass is `io_bytes` long. `entropy`
    /// counts only for jobs with `randrepeat=0`.
    #[must_use]
    pub fn new(
        job: &Job,
        thread: u32,
        region_start: u64,
        region_bytes: u64,
        io_bytes: u64,
        entropy: u64,
    ) -> Offsets {
        let name = job.file_names(0).into_iter().next().unwrap_or_default();
        let extent = Extent { file: &name, start: region_start, bytes: region_bytes };
        Offsets::over(job, thread, &[extent], io_bytes, entropy)
    }

    /// The same on several files, in the job's order; a pass is `io_bytes` over all of them.
    #[must_use]
    pub fn over(
        job: &Job,
        thread: u32,
        extents: &[Extent<'_>],
        io_bytes: u64,
        entropy: u64,
    ) -> Offsets {
        let seeds = Seeds::of(job, thread, entropy);
        let pass_bytes = if job.time_based { u64::MAX } else { io_bytes };
        let region = extents.iter().fold(0_u64, |sum, extent| sum.saturating_add(extent.bytes));
        // On several files the end of one is for the choice of files to know.
        let endless = job.time_based && extents.len() <= 1;
        let choice = FileChoice::new(job, extents.len(), &seeds);
        let reuses = choice.reuses_files() || job.time_based;
        let shared = Shared::new(job, &seeds, endless, reuses);
        let files =
            extents.iter().map(|extent| FileOffsets::new(job, thread, extent, &shared, &seeds));
        let files: Vec<FileOffsets> = files.collect();
        Offsets {
            kind: job.rw.kind,
            rwmixread: u64::from(job.rwmixread),
            // With time_based only the time counts, in fio too.
            number_ios: job.number_ios.filter(|_| !job.time_based).unwrap_or(u64::MAX),
            pass_bytes,
            wraps: !job.time_based && pass_bytes > region,
            mix_generator: seeds.generator(Choice::Mix),
            shared,
            choice,
            files,
            seeds,
            mix: Mix::default(),
            pending: None,
            issued_bytes: 0,
            issued_in_pass: 0,
            issued: 0,
            carried: false,
            used_up: false,
            finished: false,
        }
    }

    /// The next I/O; `None` at the end of the pass.
    #[allow(clippy::should_implement_trait, reason = "after None a pass may follow: no iterator")]
    pub fn next(&mut self) -> Option<Piece> {
        if self.issued >= self.number_ios {
            self.finished = true;
            return None;
        }
        let piece = self.piece();
        if piece.is_some() {
            self.issued += 1;
            self.issued_in_pass += 1;
        } else if self.issued_in_pass == 0 {
            // A pass without any I/O: the region is too small, and no other pass will do better.
            self.finished = true;
        }
        piece
    }

    /// The file of a sync that is due: the one whose turn it is, which this takes (measured: with
    /// two files and fsync=4, `a b a b S(a) b a b a S(b) a b ...`).
    pub fn sync_file(&mut self) -> Option<usize> {
        self.choice.choose()
    }

    /// Whether the pass has bytes and I/Os left. At the very end of the files it may say so in
    /// vain.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.issued < self.number_ios && self.issued_bytes < self.pass_bytes
    }

    /// Begins a pass of a time_based job: the generators go on.
    pub fn restart(&mut self) {
        self.clear_regions();
        self.issued_bytes = 0;
        self.issued_in_pass = 0;
    }

    /// Begins a pass of a job with loops. Everything goes on from where it is, unless the last one
    /// ended early: then all begins again.
    pub fn replay(&mut self) {
        self.carried = true;
        if core::mem::take(&mut self.used_up) {
            self.rewind();
        }
        self.finished = false;
        self.issued = 0;
        self.issued_bytes = 0;
        self.issued_in_pass = 0;
        self.pending = None;
    }

    /// Whether a further [`Offsets::restart`] would be in vain: `number_ios` were made, or the
    /// region has no room for a block.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    fn clear_regions(&mut self) {
        self.files.iter_mut().for_each(FileOffsets::clear);
        self.choice.restart();
        self.pending = None;
    }

    fn rewind(&mut self) {
        self.carried = false;
        self.clear_regions();
        self.choice.replay(&self.seeds);
        self.shared.replay(&self.seeds);
        self.mix_generator = self.seeds.generator(Choice::Mix);
    }

    fn piece(&mut self) -> Option<Piece> {
        if let Some(write) = self.pending.take() {
            return Some(write);
        }
        if self.issued_bytes >= self.pass_bytes {
            return None;
        }
        let piece = match self.on_some_file() {
            Some(found) => found,
            // Once more from the beginning.
            None if self.wraps || self.carried => {
                self.rewind();
                self.on_some_file()?
            }
            None => {
                self.used_up = true;
                return None;
            }
        };
        self.issued_bytes = self.issued_bytes.saturating_add(piece.bytes);
        if self.kind == Kind::TrimWrite {
            self.pending = Some(Piece { direction: Direction::Write, ..piece });
        }
        Some(piece)
    }

    /// The next I/O of the file that is chosen, over the ends of files; `None` when all are at
    /// theirs.
    fn on_some_file(&mut self) -> Option<Piece> {
        // A file that begins anew may still have no room for a block: then no other draw helps.
        let mut begun_anew = 0;
        loop {
            let file = self.choice.choose()?;
            let direction = self.direction();
            if let Some((offset, bytes)) = self.files[file].next(&mut self.shared, direction) {
                self.mix.issued(direction);
                return Some(Piece { file, direction, offset, bytes });
            }
            self.choice.at_end(file);
            if self.choice.reuses_files() {
                self.files[file].clear();
                begun_anew += 1;
                if begun_anew > 2 * self.files.len() {
                    return None;
                }
            }
        }
    }

    fn direction(&mut self) -> Direction {
        match self.kind {
            Kind::ReadOnly => Direction::Read,
            Kind::WriteOnly => Direction::Write,
            Kind::TrimOnly | Kind::TrimWrite => Direction::Trim,
            Kind::ReadWrite => self.mix.next(&mut self.mix_generator, self.rwmixread),
        }
    }
}

#[cfg(test)]
mod tests;
