// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generator: the common source of work for all threads of sysbench.
//!
//! Any thread without work asks for the next request. So the place in a sequential test, the count
//! of requests and the pending syncs are shared by all threads; only the turns of a mixed test are
//! a thread's own.
//!
//! # Bursts of fsync
//! Before making a request, the generator checks whether it is time to make data safe: something
//! was written since the last time, and the requests made so far are a multiple of
//! `--file-fsync-freq`. If so, it hands out an fsync instead, of one file; the count does not move,
//! so the next thread to ask gets an fsync too, of the next file, until every file has had one:
//!
//! ```text
//! 3 files, an fsync each 2 requests, writes only; an fsync takes as long as two writes
//!
//! handed out    w  w  S0 S1 S2 w  w  S0 S1 …      made    1  2  2  2  2  3  4  4  4
//!
//! thread a      w  S0 S0 S2 S2 S0 S0 S2 …         both are in an fsync at the same time, and
//! thread b      w  S1 S1 w  w  S1 S1 w  …         writes go on during the last one of a burst
//! ```
//!
//! With sysbench's defaults, 128 files and an fsync each 100 requests, there are more fsyncs than
//! requests, and most are of files that nothing was written to. To a drive they are flushes, back
//! to back from as many threads as there are.
//!
//! Data count as not safe as soon as a write was handed out, and as safe as soon as the last fsync
//! of a burst was.
//!
//! # Which request
//! ```text
//! random        a place in all files together, uniform, down to a whole block
//! sequential    block after block through file 0, 1, …, and again from file 0
//! mixed         of its thread: a read if (reads + 1) / (writes + 1) < ratio, else a write
//!               ratio 1.5:  r w r w r r w r w r r w r w r …     3 to 2 in the long run
//! ```
//!
//! With a rate (`--rate`) the requests have times at which they may begin, those of a Poisson
//! process. A thread that gets one waits for it.
//!
//! # Invariants
//! I1  Between two writes there are as many fsyncs as files, of file 0, 1, … in turn, or none.
//! I2  Only the order in which threads ask decides.
//!
//! Source: LOAD-6 to LOAD-8.

use paternoster_core::Nanos;

use crate::direction::Direction;
use crate::fio::offsets::Piece;
use crate::fio::random::Taus88;
use crate::fio::syncs::SyncKind;
use crate::fio::work::{NextIo, Task, Work};

/// Keeps the draws of times apart from those of places, which have the same seed.
const ARRIVALS: u64 = 0x6172_7269_7665;
/// What one 32-bit draw is a part of.
const DRAWS: f64 = 4_294_967_296.0;

/// `--file-test-mode`: what is done, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Sequential writes to new files.
    SequentialWrite,
    /// Sequential writes to existing files.
    SequentialRewrite,
    /// Sequential reads.
    SequentialRead,
    /// Random reads.
    RandomRead,
    /// Random writes.
    RandomWrite,
    /// Random reads and writes, by a ratio.
    RandomReadWrite,
}

impl Mode {
    /// All, in the order of sysbench's manual.
    pub const ALL: [Mode; 6] = [
        Mode::SequentialWrite,
        Mode::SequentialRewrite,
        Mode::SequentialRead,
        Mode::RandomRead,
        Mode::RandomWrite,
        Mode::RandomReadWrite,
    ];

    /// The mode's name, as in the option.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::SequentialWrite => "seqwr",
            Mode::SequentialRewrite => "seqrewr",
            Mode::SequentialRead => "seqrd",
            Mode::RandomRead => "rndrd",
            Mode::RandomWrite => "rndwr",
            Mode::RandomReadWrite => "rndrw",
        }
    }

    /// Whether places are random.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Mode::RandomRead | Mode::RandomWrite | Mode::RandomReadWrite)
    }

    /// Whether anything is written.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Mode::SequentialRead | Mode::RandomRead)
    }
}

/// What the requests are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The operation and the order of offsets.
    pub mode: Mode,
    /// Number of files.
    pub files: u32,
    /// Bytes of each: a multiple of the block, at least one.
    pub file_bytes: u64,
    /// Bytes of a request.
    pub block: u64,
    /// Bytes of a sequential request at most: some blocks.
    pub sequential: u64,
    /// Reads by writes of a mixed test.
    pub ratio: f64,
    /// An fsync of each file after this many requests; 0 is never.
    pub sync_every: u64,
    /// Most events, fsyncs included; `None`: no limit.
    pub events: Option<u64>,
    /// This many a second, on average.
    pub rate: Option<u64>,
    /// What its syncs are.
    pub sync: SyncKind,
}

impl Work for Rules {
    fn begin(&self, clones: u32, seed: u64) -> Box<dyn NextIo> {
        Box::new(Generator::new(*self, clones, seed))
    }
}

/// Gives the threads their requests, in order.
#[derive(Debug, Clone)]
pub struct Generator {
    rules: Rules,
    places: Taus88,
    arrivals: Taus88,
    /// Reads and writes that were made.
    made: u64,
    /// Requests and fsyncs handed out so far.
    handed: u64,
    /// Something was written since the last burst.
    dirty: bool,
    /// The file of the next fsync.
    sync_file: u32,
    /// The file of the next sequential request, and where in it.
    at: (u32, u64),
    /// By thread: reads and writes of a mixed test.
    mixed: Vec<[u64; 2]>,
    /// When the next request may begin, in ns since the start.
    arrival: f64,
}

impl Generator {
    /// A generator for this many threads; `seed` determines where random requests are.
    #[must_use]
    pub fn new(rules: Rules, threads: u32, seed: u64) -> Generator {
        Generator {
            rules,
            places: Taus88::new(seed),
            arrivals: Taus88::new(seed ^ ARRIVALS),
            made: 0,
            handed: 0,
            dirty: false,
            sync_file: 0,
            at: (0, 0),
            mixed: vec![[0; 2]; threads as usize],
            arrival: 0.0,
        }
    }

    /// The file whose fsync is due.
    fn sync(&mut self) -> Option<usize> {
        let Rules { sync_every, files, .. } = self.rules;
        if sync_every == 0 || !self.dirty || !self.made.is_multiple_of(sync_every) {
            return None;
        }
        let file = self.sync_file;
        self.sync_file = (file + 1) % files;
        self.dirty = self.sync_file > 0;
        Some(file as usize)
    }

    fn io(&mut self, thread: u32) -> Piece {
        self.made += 1;
        let direction = self.direction(thread);
        self.dirty |= direction == Direction::Write;
        let (file, offset, bytes) =
            if self.rules.mode.is_random() { self.random_place() } else { self.next_place() };
        Piece { file: file as usize, direction, offset, bytes }
    }

    fn direction(&mut self, thread: u32) -> Direction {
        match self.rules.mode {
            Mode::SequentialRead | Mode::RandomRead => return Direction::Read,
            Mode::RandomReadWrite => {}
            _ => return Direction::Write,
        }
        let [reads, writes] = &mut self.mixed[thread as usize];
        if as_double(*reads + 1) / as_double(*writes + 1) < self.rules.ratio {
            *reads += 1;
            Direction::Read
        } else {
            *writes += 1;
            Direction::Write
        }
    }

    fn random_place(&mut self) -> (u32, u64, u64) {
        let Rules { files, file_bytes, block, .. } = self.rules;
        let blocks = file_bytes / block;
        let drawn = self.places.below(blocks * u64::from(files));
        let file = u32::try_from(drawn / blocks).unwrap_or(files - 1);
        (file, drawn % blocks * block, block)
    }

    fn next_place(&mut self) -> (u32, u64, u64) {
        let Rules { files, file_bytes, sequential, .. } = self.rules;
        let (file, offset) = self.at;
        let bytes = sequential.min(file_bytes - offset);
        let end = offset + bytes;
        self.at = if end < file_bytes { (file, end) } else { ((file + 1) % files, 0) };
        (file, offset, bytes)
    }

    fn arrival(&mut self) -> Nanos {
        let Some(rate) = self.rules.rate else { return Nanos::ZERO };
        // 0 would be an infinite gap; it is drawn once in 2^32 times.
        let uniform = f64::from(self.arrivals.next_u32().max(1)) / DRAWS;
        self.arrival += -libm::log(uniform) * 1e9 / as_double(rate);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let arrival = self.arrival as u64;
        Nanos(arrival)
    }
}

impl NextIo for Generator {
    /// `None` after the last event.
    fn next(&mut self, thread: u32) -> Option<(Task, Nanos)> {
        if self.rules.events.is_some_and(|most| self.handed >= most) {
            return None;
        }
        self.handed += 1;
        let task = match self.sync() {
            Some(file) => Task::Sync(self.rules.sync, file),
            None => Task::Io(self.io(thread)),
        };
        Some((task, self.arrival()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
const fn as_double(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(mode: Mode) -> Rules {
        Rules {
            mode,
            files: 3,
            file_bytes: 4 << 14,
            block: 1 << 14,
            sequential: 1 << 14,
            ratio: 1.5,
            sync_every: 2,
            events: None,
            rate: None,
            sync: SyncKind::Fsync,
        }
    }

    /// What comes next, in the letters of the module docs.
    fn letter(generator: &mut Generator, thread: u32) -> String {
        match generator.next(thread).expect("there is no end").0 {
            Task::Io(Piece { direction: Direction::Read, .. }) => "r".to_owned(),
            Task::Io(_) => "w".to_owned(),
            Task::Sync(_, file) => format!("S{file}"),
        }
    }

    /// Is the order handed out the one in the drawing?
    #[test]
    fn fsyncs_come_in_bursts() {
        let mut generator = Generator::new(plain(Mode::RandomWrite), 2, 1);
        let (mut handed, mut made) = (Vec::new(), Vec::new());
        for _ in 0..9 {
            handed.push(letter(&mut generator, 0));
            made.push(generator.made);
        }
        assert_eq!(handed.join(" "), "w w S0 S1 S2 w w S0 S1");
        assert_eq!(made, [1, 2, 2, 2, 2, 3, 4, 4, 4]);
    }

    /// Do two threads get what the drawing says? A thread asks when it is done; an fsync takes two
    /// steps, a write one; if both are at the same step a is first.
    #[test]
    fn threads_share_a_burst() {
        let mut generator = Generator::new(plain(Mode::RandomWrite), 2, 1);
        let mut lines = [String::new(), String::new()];
        let mut doing: [(String, u32); 2] = Default::default();
        for _ in 0..8 {
            for (thread, (letters, left)) in (0..).zip(&mut doing) {
                if *left == 0 {
                    *letters = letter(&mut generator, thread);
                    *left = if letters == "w" { 1 } else { 2 };
                }
                *left -= 1;
                lines[thread as usize].push_str(&format!("{letters:<3}"));
            }
        }
        assert_eq!(lines[0].trim_end(), "w  S0 S0 S2 S2 S0 S0 S2");
        assert_eq!(lines[1].trim_end(), "w  S1 S1 w  w  S1 S1 w");
    }

    /// Do turns of a mixed test follow the ratio, for each thread separately? The line above, and
    /// the same for a second thread that asks between any two.
    #[test]
    fn mixed_turns_are_a_threads_own() {
        let rules = Rules { sync_every: 0, ..plain(Mode::RandomReadWrite) };
        let mut generator = Generator::new(rules, 2, 1);
        let mut lines = [String::new(), String::new()];
        for _ in 0..15 {
            for thread in [0, 1] {
                lines[thread as usize] += &(letter(&mut generator, thread) + " ");
            }
        }
        assert_eq!(lines[0].trim_end(), "r w r w r r w r w r r w r w r");
        assert_eq!(lines[0], lines[1]);
        let many = (0..1000).filter(|_| letter(&mut generator, 0) == "r").count();
        assert!((599..=601).contains(&many), "{many} reads of 1000");
    }

    /// Do sequential requests go through all files and begin again, the last of a file short if it
    /// must be? Files of 4 blocks, requests of up to 3.
    #[test]
    fn sequential_requests_go_through_all_files() {
        let rules = Rules { sequential: 3 << 14, ..plain(Mode::SequentialRead) };
        let mut generator = Generator::new(rules, 1, 1);
        let mut places = Vec::new();
        for _ in 0..8 {
            let Some((Task::Io(piece), _)) = generator.next(0) else { panic!("an I/O") };
            places.push((piece.file, piece.offset >> 14, piece.bytes >> 14));
        }
        let rounds = [(0, 0, 3), (0, 3, 1), (1, 0, 3), (1, 3, 1), (2, 0, 3), (2, 3, 1)];
        assert_eq!(places[..6], rounds);
        assert_eq!(places[6..], rounds[..2]);
    }

    /// Is there an end that also counts fsyncs; do reads cause no fsync; and do times have the rate
    /// on average? 1000 a second: the last of 4000 at about 4 s (deviation 16 ms * 4).
    #[test]
    fn ends_and_rates() {
        let rules = Rules { events: Some(4), ..plain(Mode::RandomWrite) };
        let mut generator = Generator::new(rules, 1, 1);
        let handed: Vec<_> = std::iter::from_fn(|| generator.next(0)).collect();
        assert_eq!(handed.len(), 4);
        assert_eq!(handed[3].0, Task::Sync(SyncKind::Fsync, 1));
        let mut reads = Generator::new(plain(Mode::RandomRead), 1, 1);
        assert!((0..100).all(|_| letter(&mut reads, 0) == "r"));
        let paced = Rules { rate: Some(1000), ..plain(Mode::RandomWrite) };
        let mut generator = Generator::new(paced, 1, 1);
        let times: Vec<Nanos> = (0..4000).filter_map(|_| generator.next(0)).map(|n| n.1).collect();
        assert!(times.is_sorted());
        let last = times[3999].as_millis();
        assert!((3750..4250).contains(&last), "{last} ms");
    }

    /// Are random places uniform? 12 blocks, 12,000 draws: 1000 each, with a deviation of 30.
    #[test]
    fn places_are_uniform() {
        let rules = Rules { sync_every: 0, ..plain(Mode::RandomRead) };
        let mut generator = Generator::new(rules, 1, 7);
        let mut counts = [0_u32; 12];
        for _ in 0..12_000 {
            let Some((Task::Io(piece), _)) = generator.next(0) else { panic!("an I/O") };
            counts[piece.file * 4 + usize::try_from(piece.offset >> 14).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (850..=1150).contains(count)), "{counts:?}");
    }

    /// The rule of fsyncs in its simplest form: the whole order handed out, by `s` and `i`, from
    /// the directions alone.
    fn naive(directions: &[Direction], files: usize, every: usize) -> Vec<Option<usize>> {
        let (mut order, mut written) = (Vec::new(), 0);
        for (made, direction) in directions.iter().enumerate() {
            if every > 0 && made > 0 && made % every == 0 && written > 0 {
                order.extend((0..files).map(Some));
                written = 0;
            }
            order.push(None);
            written += usize::from(*direction == Direction::Write);
        }
        order
    }

    proptest! {
        /// Whichever threads ask in whatever order: do fsyncs come where the plain rule has them,
        /// do reads and writes of each thread follow its own ratio, and are all places whole blocks
        /// of the files?
        #[test]
        fn equals_naive_model(
            threads in prop::collection::vec(0_u32..5, 1..400),
            (mode, files, blocks) in (0_usize..6, 1_u32..6, 1_u64..9),
            (sync_every, ratio, seed) in (0_u64..12, 0.0_f64..4.0, 0_u64..1000),
            merged in 1_u64..4,
        ) {
            let (mode, block) = (Mode::ALL[mode], 4096);
            let (file_bytes, sequential) = (blocks * block, merged * block);
            let (events, rate) = (None, None);
            let sync = SyncKind::Fsync;
            let rules = Rules {
                mode, files, file_bytes, block, sequential, ratio, sync_every, events, rate, sync,
            };
            let mut generator = Generator::new(rules, 5, seed);
            let (mut order, mut directions) = (Vec::new(), Vec::new());
            let mut counts = [[0_u32; 2]; 5];
            for thread in threads {
                let (request, at) = generator.next(thread).expect("there is no end");
                prop_assert_eq!(at, Nanos::ZERO);
                match request {
                    Task::Sync(_, file) => order.push(Some(file)),
                    Task::Io(piece) => {
                        order.push(None);
                        directions.push(piece.direction);
                        prop_assert!(piece.file < files as usize && piece.bytes > 0);
                        prop_assert!(piece.offset + piece.bytes <= file_bytes);
                        prop_assert!(piece.offset % block == 0 && piece.bytes % block == 0);
                        let [reads, writes] = &mut counts[thread as usize];
                        let read = match mode {
                            Mode::RandomReadWrite => {
                                f64::from(*reads + 1) / f64::from(*writes + 1) < ratio
                            }
                            mode => !mode.writes(),
                        };
                        prop_assert_eq!(read, piece.direction == Direction::Read);
                        *(if read { reads } else { writes }) += 1;
                    }
                }
            }
            // A burst at the very end may be cut, and a due one may not have begun.
            let model = naive(&directions, files as usize, sync_every.try_into().unwrap());
            let common = model.len().min(order.len());
            prop_assert_eq!(&model[..common], &order[..common]);
            let rest = &order[common..];
            prop_assert!(rest.iter().zip(0..).all(|(file, place)| *file == Some(place)));
            prop_assert!(rest.len() <= files as usize);
        }
    }
}
