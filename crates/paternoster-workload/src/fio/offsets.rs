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
//! left, it is at its end and all three are chosen again; when all files are, the pass ends.
//!
//! A *pass* goes on until the region is used up (map full, end reached). Then everything starts
//! over: map, positions, and every generator. The job as a whole issues at most `loops` times its
//! size (or `io_size`, or `number_ios`), and then ends even in the middle of a pass. There are
//! `loops` passes; with an `io_size`, further passes begin as long as at least a largest block of
//! it is left:
//!
//! ```text
//! 16k in blocks of 4k            |: a pass begins
//! io_size=20k                    0 4 8 12 | 0            20k are made
//! io_size=19k                    0 4 8 12                3k are left: no block
//! loops=2                        0 4 8 12 | 0 4 8 12
//! loops=2 io_size=12k            0 4 8 12 | 0 4          24k
//! loops=2 io_size=20k            0 4 8 12 | 0 4 8 12     two passes, and 20k are made
//! loops=3 number_ios=3           0 4 8 12 | 0 4 8 12 | 0
//! loops=2 norandommap            8 0 8 4 12 0 4 8        nothing is ever used up: one pass
//! time_based                     0 8 12 4 | 12 4 8 0     only the map is cleared
//! loops=2 offset=50%             8 12 16 20 | 12 16 20   of 16k; then of the 24k that the file has
//! ```
//!
//! [`Offsets::next_pass`] begins a further pass. A time_based pass on one file has no end; on
//! several it ends when all of them are at theirs, and [`Offsets::restart`] begins another.
//!
//! For a trimwrite job only the writes count, except for whether an `io_size` needs another pass,
//! and for `number_ios`: that many trims and as many writes are made by the end of the first pass,
//! of whichever file, and twice as many by the end of each further one.
//!
//! With a `randseed` the generators go on from pass to pass; without one, and with `allrandrepeat`,
//! they start over.
//!
//! Invariants: I1 each piece lies in the region of its file and is not empty; I2 with a map no
//! block is random twice in a pass; I3 no call allocates.
//!
//! Source: FIO-30 to FIO-35, FIO-41 to FIO-47, FIO-94, FIO-95; `tests/all/fio_real.rs` compares
//! with fio 3.33.

mod file;
mod lfsr;
mod mix;
mod name_hash;
pub(in crate::fio) mod skew;
mod zones;

use paternoster_core::Nanos;

use crate::direction::Direction;

use super::file_choice::FileChoice;
use super::job::{Job, Kind};
use super::random::{Choice, Seeds, Taus88};
use super::value::Amount;
use file::{FileOffsets, Shared};
use mix::Mix;

/// How often files start over for one I/O. A skewed draw of a place may well be beyond its file a
/// few times in a row.
const RESTARTS_MAX: u32 = 4096;

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// In which of the clone's files, from 0.
    pub file: usize,
    /// The direction.
    pub direction: Direction,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// The region of a clone in one of its files.
#[derive(Debug, Clone, Copy)]
pub struct Extent<'a> {
    /// The file's name with its directory; it seeds skewed distributions.
    pub file: &'a str,
    /// Where the region begins, in bytes of the file.
    pub start: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// How far from its start an I/O that begins in it may reach; its end if that is less.
    pub room: u64,
    /// Where it begins from the second pass on; its end stays.
    pub later: u64,
}

/// The I/Os of one clone of a job.
#[derive(Debug, Clone)]
pub struct Offsets {
    kind: Kind,
    rwmixread: u64,
    /// I/Os and bytes of all passes together.
    ios_most: u64,
    bytes_most: u64,
    /// With an `io_size` in bytes: passes are begun until this many bytes are made, except for less
    /// than a largest block.
    wanted: Option<u64>,
    largest_block: u64,
    passes_left: u64,
    seeds: Seeds,
    mix_generator: Taus88,
    shared: Shared,
    choice: FileChoice,
    files: Vec<FileOffsets>,

    mix: Mix,
    /// How long the next read, and the next write, has to wait for its rate.
    waits: [Nanos; 2],
    issued_bytes: u64,
    issued_in_pass: u64,
    issued: u64,
    /// Of a trimwrite job: bytes of writes, writes in this pass, and how many I/Os there may be by
    /// its end.
    written_bytes: u64,
    writes_in_pass: u64,
    trims_and_writes_most: u64,
    /// A pass draws what the first one did.
    repeats: bool,
    /// The first pass goes on until the runtime is over.
    never_ends: bool,
    finished: bool,
}

impl Offsets {
    /// The I/Os of the clone that is thread number `thread` of the run, from 1, on one file: the
    /// first of the job's first clone.
    ///
    /// The region is `region_bytes` from `region_start` on; `io_bytes` are made, times `loops`.
    /// `entropy` counts only for jobs with `randrepeat=0`.
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
        let extent = Extent {
            file: &name,
            start: region_start,
            bytes: region_bytes,
            room: 0,
            later: region_start,
        };
        Offsets::over(job, thread, &[extent], io_bytes, entropy)
    }

    /// The same on several files, in the job's order; `io_bytes` over all of them.
    #[must_use]
    pub fn over(
        job: &Job,
        thread: u32,
        extents: &[Extent<'_>],
        io_bytes: u64,
        entropy: u64,
    ) -> Offsets {
        let seeds = Seeds::of(job, thread, entropy);
        // With time_based only the time counts, in fio too.
        let counted = |most: u64| if job.time.time_based { u64::MAX } else { most };
        let times = job.region.loops.max(1);
        // On several files the end of one is for the choice of files to know.
        let endless = job.time.time_based && extents.len() <= 1;
        let ios_most = counted(job.region.number_ios.unwrap_or(u64::MAX).saturating_mul(times));
        let choice = FileChoice::new(job, extents.len(), &seeds);
        let reuses = choice.reuses_files() || job.time.time_based;
        let shared = Shared::new(job, &seeds, endless, reuses);
        let files =
            extents.iter().map(|extent| FileOffsets::new(job, thread, extent, &shared, &seeds));
        let files: Vec<FileOffsets> = files.collect();
        Offsets {
            kind: job.order.rw.kind,
            rwmixread: u64::from(job.order.rwmixread),
            ios_most,
            bytes_most: counted(io_bytes.saturating_mul(times)),
            wanted: job
                .region
                .io_size
                .filter(|wanted| matches!(wanted, Amount::Bytes(_)))
                .map(|_| io_bytes),
            largest_block: job.blocks.block_size.iter().map(|(_, most)| *most).max().unwrap_or(1),
            passes_left: job.region.loops.saturating_sub(1),
            mix_generator: seeds.generator(Choice::Mix),
            shared,
            choice,
            files,
            seeds,
            mix: Mix::default(),
            waits: [Nanos::ZERO; 2],
            issued_bytes: 0,
            issued_in_pass: 0,
            issued: 0,
            written_bytes: 0,
            writes_in_pass: 0,
            trims_and_writes_most: ios_most.saturating_mul(2),
            repeats: job.random.allrandrepeat
                || (job.random.randrepeat && job.random.randseed.is_none()),
            never_ends: endless || (job.time.time_based && job.order.rw.random),
            finished: false,
        }
    }

    /// The next I/O; `None` at the end of the pass.
    #[allow(clippy::should_implement_trait, reason = "after None a pass may follow: no iterator")]
    pub fn next(&mut self) -> Option<Piece> {
        if !self.has_more() {
            self.finished = true;
            return None;
        }
        let piece = self.on_some_file();
        if let Some(piece) = &piece {
            self.issued += 1;
            self.issued_in_pass += 1;
            self.issued_bytes = self.issued_bytes.saturating_add(piece.bytes);
            if piece.direction == Direction::Write {
                self.writes_in_pass += 1;
                self.written_bytes = self.written_bytes.saturating_add(piece.bytes);
            }
        } else if self.issued_in_pass == 0 {
            // A pass without any I/O: the region is too small, and no other pass will do better.
            self.finished = true;
        }
        piece
    }

    /// Says how long a read and a write would have to wait for their rates if they were the next
    /// I/O: of a mixed job, the one that waits less goes before the one that was drawn.
    pub fn paced(&mut self, waits: [Nanos; 2]) {
        self.waits = waits;
    }

    /// The file of a due sync: the one whose turn it is, which this takes (measured: with two files
    /// and fsync=4, `a b a b S(a) b a b a S(b) a b ...`).
    pub fn sync_file(&mut self) -> Option<usize> {
        self.choice.choose()
    }

    /// A sync was made: the next I/O marks the map, whatever could not be made before.
    pub fn synced(&mut self) {
        self.shared.unmarked = false;
    }

    /// Whether the job has bytes and I/Os left. At the very end of the files it may wrongly say so.
    #[must_use]
    pub fn has_more(&self) -> bool {
        if self.kind == Kind::TrimWrite {
            // Each write follows its trim; where it never can, the trims do not go on for ever.
            let trims = self.issued_in_pass - self.writes_in_pass;
            let lost = trims > self.writes_in_pass + 2 * self.files.len() as u64;
            let most = (self.trims_and_writes_most, self.bytes_most);
            return !lost && self.issued < most.0 && self.written_bytes < most.1;
        }
        self.issued < self.ios_most && self.issued_bytes < self.bytes_most
    }

    /// Begins a pass of a time_based job: the generators go on.
    pub fn restart(&mut self) {
        self.clear_regions();
        self.issued_bytes = 0;
        self.written_bytes = 0;
        self.issued_in_pass = 0;
        self.writes_in_pass = 0;
    }

    /// Begins a further pass, if there is one to be made: all begins again. Of several `loops` that
    /// have nothing left to do one is begun.
    pub fn next_pass(&mut self) -> bool {
        if self.issued_in_pass == 0 {
            return false;
        }
        if self.passes_left > 0 {
            self.passes_left -= 1;
        } else {
            let left = self.wanted.unwrap_or(0).saturating_sub(self.issued_bytes);
            if !self.has_more() || left == 0 || left < self.largest_block {
                return false;
            }
        }
        self.rewind();
        self.issued_in_pass = 0;
        self.writes_in_pass = 0;
        self.trims_and_writes_most = self.trims_and_writes_most.saturating_mul(2);
        true
    }

    /// Whether a further [`Offsets::restart`] would be useless: `number_ios` were made, or the
    /// region has no room for a block.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether it has one pass that goes on until the runtime is over: with time_based, on one file
    /// or at random. In sequence over several files a pass ends with the last of them.
    #[must_use]
    pub fn never_ends(&self) -> bool {
        self.never_ends
    }

    fn clear_regions(&mut self) {
        self.files.iter_mut().for_each(FileOffsets::clear);
        self.choice.restart();
    }

    fn rewind(&mut self) {
        self.clear_regions();
        self.files.iter_mut().for_each(FileOffsets::go_to_later_start);
        self.mix.next_pass();
        self.shared.zone_done = 0;
        if self.repeats {
            self.choice.replay(&self.seeds);
            self.shared.replay(&self.seeds);
            self.mix_generator = self.seeds.generator(Choice::Mix);
        }
    }

    /// The next I/O of the chosen file, continuing over the ends of files; `None` when all are at
    /// theirs.
    fn on_some_file(&mut self) -> Option<Piece> {
        // A restarted file may still have no room for a block: then no other draw helps.
        let mut begun_anew = 0;
        loop {
            let file = self.choice.choose()?;
            let direction = self.direction(file);
            if let Some((offset, bytes)) = self.files[file].next(&mut self.shared, direction) {
                self.mix.issued(direction);
                return Some(Piece { file, direction, offset, bytes });
            }
            self.choice.at_end(file);
            if self.choice.reuses_files() {
                self.files[file].start_over();
                begun_anew += 1;
                if begun_anew > RESTARTS_MAX {
                    return None;
                }
            }
        }
    }

    fn direction(&mut self, file: usize) -> Direction {
        match self.kind {
            Kind::ReadOnly => Direction::Read,
            Kind::WriteOnly => Direction::Write,
            Kind::TrimOnly => Direction::Trim,
            Kind::TrimWrite => self.files[file].trim_or_write(self.shared.pattern.random),
            Kind::ReadWrite => {
                let drawn = self.mix.next(&mut self.mix_generator, self.rwmixread);
                self.mix.paced(drawn, self.waits)
            }
        }
    }
}

#[cfg(test)]
mod tests;
