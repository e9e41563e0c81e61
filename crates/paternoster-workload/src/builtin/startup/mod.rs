// SPDX-License-Identifier: MIT OR Apache-2.0
//! startup: a program starts while others read and write.
//!
//! What users notice of a scheduler is how long a program takes to start on a busy disk. The
//! program is a chain of reads, each of which waits for the one before (and some of which have
//! others read ahead with them); the other processes always have work:
//!
//! ```text
//! others    ############################################################    readers, writers
//! program              |##  # ### #  ## # ## ###  #|
//!           0        warmup        start-up time       the others end with the program
//! ```
//!
//! [`profile`] describes what a program reads, as data with its source; `script.rs` draws the exact
//! requests of one start from it, given a seed. The same start is done once with the others and
//! once alone, and the two are compared.
//!
//! The others are sequential readers and writers with a file each, in calls of 128 KiB, buffered or
//! direct, and random readers, direct, of 4 KiB. Buffered writers fill memory up to its dirty limit
//! within the warm-up; from then on the flusher writes as fast as the device takes it, and is the
//! client that the program competes with.
//!
//! Source: the S suite's `comm_startup_lat`, from its publications; LOAD-10, BFQ-S5; seed 004.

pub mod profile;
mod script;
mod watch;

use paternoster_core::{DeviceFacts, Nanos};

use super::job;
use crate::direction::Direction;
use crate::fio::job::{Engine, Job};
use crate::fio::random::Taus88;
use crate::fio::relay::Leg;
use crate::fio::value::Amount;
use crate::run::RunResult;

pub use profile::Profile;
pub use watch::StartWatch;

/// Where a program's files lie: this much of the device, at its beginning, and a quarter at most.
const AREA: u64 = 16 << 30;
const AREA_MIN: u64 = 1 << 20;
/// Files of the others, unless said: enough for the time of a start on a disk, on flash.
const FILE_ROTATIONAL: u64 = 2 << 30;
const FILE_FLASH: u64 = 16 << 30;
/// Bytes of a call of sequential and of random readers.
const CALL: u64 = 128 << 10;
const RANDOM_CALL: u64 = 4 << 10;
/// A start begins within this after the warm-up, as the seed has it.
const JITTER: Nanos = Nanos::from_millis(100);

/// A program and the other processes.
#[derive(Debug, Clone)]
pub struct Startup {
    /// The program that starts.
    pub profile: &'static Profile,
    /// Sequential readers.
    pub readers: u32,
    /// Sequential writers.
    pub writers: u32,
    /// Random readers.
    pub random_readers: u32,
    /// Sequential readers and writers bypass the page cache.
    pub direct: bool,
    /// How long the other jobs run before.
    pub warmup: Nanos,
    /// A start that takes longer is given up.
    pub limit: Nanos,
    /// Bytes of each file of the others.
    pub file_size: Option<u64>,
}

impl Startup {
    /// The start of `profile` with five readers and five writers, after three seconds; given up
    /// after two minutes.
    #[must_use]
    pub const fn new(profile: &'static Profile) -> Startup {
        Startup {
            profile,
            readers: 5,
            writers: 5,
            random_readers: 0,
            direct: false,
            warmup: Nanos::from_secs(3),
            limit: Nanos::from_secs(120),
            file_size: None,
        }
    }

    /// How many others there are.
    #[must_use]
    pub const fn others(&self) -> u32 {
        self.readers.saturating_add(self.writers).saturating_add(self.random_readers)
    }

    /// The jobs of one start on a device, and the observer of their run.
    #[must_use]
    pub fn beside_others(&self, facts: &DeviceFacts, seed: u64) -> (Vec<Job>, StartWatch) {
        let (mut jobs, watch) = self.alone(facts, seed);
        let file = self.file_bytes(facts);
        let kinds = [
            (self.readers, "reader", Direction::Read, false),
            (self.writers, "writer", Direction::Write, false),
            (self.random_readers, "random-reader", Direction::Read, true),
        ];
        for (clones, name, direction, random) in kinds.into_iter().filter(|kind| kind.0 > 0) {
            let mut other = job(name, direction, random, if random { RANDOM_CALL } else { CALL });
            other.clones.numjobs = clones;
            other.region.size = Some(Amount::Bytes(file));
            other.cache.direct = Some(self.direct || random);
            other.random.randrepeat = false;
            // They end with the program; this only says that they do not end by themselves.
            other.ours.background = true;
            (other.time.time_based, other.time.runtime) =
                (true, Some(self.warmup + self.limit + self.limit));
            jobs.push(other);
        }
        (jobs, watch)
    }

    /// The same start without the others.
    #[must_use]
    pub fn alone(&self, facts: &DeviceFacts, seed: u64) -> (Vec<Job>, StartWatch) {
        let Profile { name, processes, legs, .. } = self.profile;
        let mut random = Taus88::new(seed);
        let begins = self.warmup + Nanos(random.below(JITTER.0));
        let count = u32::try_from(processes.len()).unwrap_or(u32::MAX);
        let mut program = job(name, Direction::Read, true, RANDOM_CALL);
        program.clones.numjobs = count;
        program.recorded = script::draw(self.profile, area(facts), &mut random)
            .into_iter()
            .map(std::sync::Arc::new)
            .collect();
        program.ours.relay = legs
            .iter()
            .map(|leg| Leg { runner: leg.process, ios: leg.requests.into(), pause: profile::PAUSE })
            .collect();
        // One at a time, and what is read ahead with it.
        (program.cache.direct, program.queue.engine) = (Some(true), Engine::Async);
        (program.queue.iodepth, program.queue.iodepth_low) = (1 + script::AHEAD, 1 + script::AHEAD);
        program.time.start_delay = (begins, begins);
        program.time.runtime = Some(self.limit);
        (vec![program], StartWatch::new(count, begins))
    }

    /// Bytes of each file of the others: as given, or as much as there is room for.
    fn file_bytes(&self, facts: &DeviceFacts) -> u64 {
        let wish = if facts.rotational { FILE_ROTATIONAL } else { FILE_FLASH };
        let room = (facts.capacity * 512).saturating_sub(area(facts));
        let each = room / u64::from(self.others().max(1));
        self.file_size.unwrap_or(wish.min(each & !(AREA_MIN - 1)).max(CALL))
    }

    /// The result of the start.
    #[must_use]
    pub fn outcome(&self, result: &RunResult, watch: &StartWatch) -> Start {
        let program = result.together(|job| job == 0);
        let ios = program.as_ref().map_or(0, |all| all.ios());
        let own = result.processes.iter().filter(|process| process.job == 0);
        let time = own.map(|process| process.statistics.runtime()).max().unwrap_or(Nanos::ZERO);
        Start {
            time: (ios == self.profile.requests()).then_some(time),
            watched: time,
            others: watch.others(),
            merges: watch.merges(),
        }
    }
}

/// Bytes in which a program's files lie.
fn area(facts: &DeviceFacts) -> u64 {
    AREA.min((facts.capacity * 512 / 4) & !(AREA_MIN - 1)).max(AREA_MIN)
}

/// The result of one start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// From its beginning to the end of its last process; `None` if it was given up.
    pub time: Option<Nanos>,
    /// The same, or until it was given up.
    pub watched: Nanos,
    /// Bytes that the device has read and written for others meanwhile.
    pub others: [u64; 2],
    /// How often one of its processes came to share a scheduler queue with another process, or
    /// another one with it.
    pub merges: u64,
}

impl Start {
    /// Bytes per second that the device has read and written for others.
    #[must_use]
    pub fn others_per_second(starts: &[Start]) -> [f64; 2] {
        let time = starts.iter().fold(Nanos::ZERO, |sum, start| sum + start.watched);
        [0, 1].map(|way| {
            let bytes: u64 = starts.iter().map(|start| start.others[way]).sum();
            #[expect(clippy::cast_precision_loss, reason = "printed figures")]
            let bytes = bytes as f64;
            super::per_second(bytes, time)
        })
    }
}

/// The least, middle and greatest of some times. A start that was given up counts as longer than
/// all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The shortest.
    pub least: Option<Nanos>,
    /// Half are not longer; of an even number the mean of both in the middle.
    pub median: Option<Nanos>,
    /// The longest.
    pub greatest: Option<Nanos>,
}

impl Summary {
    /// The summary of these starts.
    #[must_use]
    pub fn of(starts: &[Start]) -> Summary {
        let mut times: Vec<Option<Nanos>> = starts.iter().map(|start| start.time).collect();
        times.sort_by_key(|time| time.unwrap_or(Nanos::MAX));
        let middle = |place: usize| times.get(place).copied().flatten();
        let (low, high) = (times.len().saturating_sub(1) / 2, times.len() / 2);
        let median = middle(low).zip(middle(high)).map(|(low, high)| Nanos(low.0.midpoint(high.0)));
        let greatest = times.last().copied().flatten();
        Summary { least: times.first().copied().flatten(), median, greatest }
    }
}

#[cfg(test)]
mod tests {
    use super::profile::PROFILES;
    use super::*;

    /// Is every profile sound: does a leg have a jump, no more jumps and batches ahead than
    /// requests that are waited for, at least 4 KiB for each, in whole pages, and an existing
    /// process? Are the published sums met?
    #[test]
    fn profiles_are_sound() {
        for profile in PROFILES {
            for leg in profile.legs {
                assert!((1..=leg.requests).contains(&leg.random), "{} {leg:?}", profile.name);
                assert!(leg.kib >= 4 * leg.requests && leg.kib.is_multiple_of(4), "{leg:?}");
                assert!(leg.waited_for() >= leg.random, "{leg:?}");
                assert!(leg.waited_for() >= leg.ahead.div_ceil(script::AHEAD), "{leg:?}");
                assert!((leg.process as usize) < profile.processes.len(), "{leg:?}");
            }
            let runners = profile.legs.windows(2).all(|pair| pair[0].process != pair[1].process);
            assert!(runners, "{}: a leg is as long as its process goes on", profile.name);
            assert!(profile.large_kib.is_multiple_of(4) && !profile.source.is_empty());
        }
        // Without two requests and 48 KiB of a journal.
        let sums = |name: &str| {
            let profile = profile::by_name(name).expect("it is there");
            [profile.requests(), profile.bytes(), profile.random(), profile.waited_for()]
        };
        // Of 2781 in all 1928 are ahead, of 1268 638, of 718 535.
        assert_eq!(sums("gnome-terminal"), [2779, 21_053_440 - (48 << 10), 404 - 2, 2779 - 1928]);
        assert_eq!(sums("libreoffice"), [1268, 48_623_616, 343, 630]);
        assert_eq!(sums("xterm"), [718, 6_180_864, 109, 183]);
    }

    /// Are the medians of odd and even numbers right, and are starts given up the longest?
    #[test]
    fn summaries_count_what_was_given_up() {
        let start = |time: Option<u64>| Start {
            time: time.map(Nanos::from_secs),
            watched: Nanos::from_secs(time.unwrap_or(120)),
            others: [8_000_000, 0],
            merges: 0,
        };
        let of = |times: &[Option<u64>]| {
            let starts: Vec<Start> = times.iter().map(|time| start(*time)).collect();
            let Summary { least, median, greatest } = Summary::of(&starts);
            [least, median, greatest].map(|time| time.map(Nanos::as_millis))
        };
        assert_eq!(of(&[Some(3), Some(1), Some(2)]), [Some(1000), Some(2000), Some(3000)]);
        assert_eq!(of(&[Some(4), Some(1)]), [Some(1000), Some(2500), Some(4000)]);
        assert_eq!(of(&[None, Some(1), Some(2)]), [Some(1000), Some(2000), None]);
        assert_eq!(of(&[None, Some(1)]), [Some(1000), None, None]);
        assert_eq!(of(&[]), [None; 3]);
        // 16 MB in 4 s.
        let [read, written] = Start::others_per_second(&[start(Some(1)), start(Some(3))]);
        assert!((read - 4e6).abs() < 1e-6 && written == 0.0);
    }

    /// Do the files fit on small devices, and leave the program a quarter?
    #[test]
    fn files_fit() {
        let startup = Startup::new(&PROFILES[0]);
        for capacity in [4u64 << 30, 300_000_000_000, 8 << 40] {
            let facts = DeviceFacts { capacity: capacity / 512, ..DeviceFacts::default() };
            for seed in 0..3 {
                let (jobs, _) = startup.beside_others(&facts, seed);
                let placement = crate::layout::Placement::Near;
                let layout = crate::layout::plan(&jobs, facts.capacity * 512, placement, seed);
                assert!(layout.is_ok(), "{capacity}: {layout:?}");
            }
        }
    }
}
