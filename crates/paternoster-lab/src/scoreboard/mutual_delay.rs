// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutual delay: how much a request of one client delays another, at the least, whatever a
//! scheduler does; for two random readers that ask for one thing at a time.
//!
//! ```text
//! alone   s1    s2    s3    s4    s5 ...  s16|      a reader of small pieces
//! with    s1    s2    s3 [    L    ]  s4 ... s16|   and one large read, sent at an instant of the
//!                        ^ sent here        ├──┤    third one's time
//!                                           delay
//! ```
//!
//! The future is played for each instant, two microseconds apart, and the least delay counts: a
//! scheduler that knew everything would choose that one. The mean over drawn places is what a large
//! read costs the small reader. Requests follow each other, so that delays add up: of a second the
//! small reader has what its own requests take, and these delays:
//!
//! ```text
//! rate_s / alone_s  +  rate_l * delay  <=  1
//! ```
//!
//! # Where it stops being valid
//! On what rotates: there several requests of one in a row cost the other a single way.
//!
//! Source: own; a clairvoyant scheduler on the model itself.

use paternoster_core::{ClientId, Command, Device, Flags, Nanos, Op, Tag};
use paternoster_frame::Failure;
use paternoster_frame::target::Target;
use paternoster_sim::chance::Chance;
use paternoster_workload::fio::job::Job;

use super::cell::as_f64;
use super::owed;

/// Places that are drawn.
const ROUNDS: u64 = 48;
/// Small reads in a future, and the one in whose time the large one is sent.
const READS: usize = 14;
const BESIDE: usize = 3;
/// Instants are this far apart.
const STEP: Nanos = Nanos::from_micros(2);

/// One future: the first sectors of the small reads, and of the large one.
struct Future<'a> {
    target: &'a Target,
    seed: u64,
    small: &'a [u64],
    small_sectors: u32,
    large: (u64, u32),
}

impl Future<'_> {
    /// When each small read is sent, and when the last one has ended; with the large one sent at an
    /// instant.
    fn play(&self, sent: Option<Nanos>) -> Result<Vec<Nanos>, Failure> {
        let mut device = self.target.model(&[], self.seed)?;
        let read = |slot, (sector, sectors)| Command {
            tag: Tag::of_slot(slot),
            op: Op::Read,
            sector,
            sectors,
            flags: Flags::NONE,
            client: ClientId::NOBODY,
        };
        let refused = |_| Failure::Job("a drive refuses the second of two reads".to_owned());
        let (mut instants, mut sent) = (Vec::new(), sent);
        for &sector in self.small {
            let mut small_ended = false;
            instants.push(device.now());
            device.submit(read(0, (sector, self.small_sectors))).map_err(refused)?;
            while !small_ended {
                let ended = device.wait(sent);
                small_ended = ended.is_some_and(|ended| ended.tag.index() == 0);
                if ended.is_none() && sent.take().is_some() {
                    device.submit(read(1, self.large)).map_err(refused)?;
                }
            }
            // The time that the host takes; something large may end in it.
            let next = device.now() + self.target.submit_cost;
            while device.now() < next {
                let until = sent.map_or(next, |sent| sent.min(next));
                if device.wait(Some(until)).is_none() && sent.is_some_and(|sent| sent <= until) {
                    sent = None;
                    device.submit(read(1, self.large)).map_err(refused)?;
                }
            }
        }
        instants.push(device.now());
        Ok(instants)
    }
}

/// What a random read of so many bytes takes by itself, and the least delay, in the mean, that a
/// read of `other` bytes means for a reader of `own` bytes; seconds.
pub(super) fn delay(target: &Target, own: u64, other: u64) -> Result<(f64, f64), Failure> {
    let sectors = |bytes: u64| u32::try_from(bytes / 512).unwrap_or(u32::MAX);
    let capacity = target.facts.capacity * 512;
    let (mut alone, mut delays) = (Nanos::ZERO, 0.0);
    for seed in 1..=ROUNDS {
        let mut chance = Chance::new(seed, 0);
        let mut place = |bytes: u64| chance.below(capacity / bytes) * bytes / 512;
        let small: Vec<u64> = (0..READS).map(|_| place(own)).collect();
        let large = (place(other), sectors(other));
        let future = Future { target, seed, small: &small, small_sectors: sectors(own), large };
        let plain = future.play(None)?;
        alone += plain[READS];
        let mut least = f64::INFINITY;
        let mut sent = plain[BESIDE];
        while sent < plain[BESIDE + 1] {
            let with = future.play(Some(sent))?;
            least = least.min(as_f64(with[READS].0) - as_f64(plain[READS].0));
            sent += STEP;
        }
        delays += least;
    }
    let rounds = as_f64(ROUNDS);
    let reads = as_f64(u64::try_from(READS).unwrap_or(1));
    Ok((as_f64(alone.0) / rounds / reads / 1e9, delays / rounds / 1e9))
}

/// The least delays that two random readers of flash mean for each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Delay {
    /// Jobs.
    pub(super) own: usize,
    pub(super) other: usize,
    /// What a request of the one takes alone, and the delay by one of the other, in seconds.
    pub(super) alone: f64,
    pub(super) seconds: f64,
}

/// The delays of a workload, if they are known: two readers that ask for one thing at a time.
pub(super) fn delays(jobs: &[Job], target: &Target) -> Result<Vec<Delay>, Failure> {
    let is_plain = |job: &Job| {
        let (least, most) = job.blocks.block_size[0];
        let reads = matches!(job.order.rw_text, "read" | "randread") && least == most;
        let at_once = job.think.thinktime == Nanos::ZERO && job.priority.cgroup.is_none();
        reads && at_once && job.clones.numjobs == 1 && owed::depth(job) == 1
    };
    let parallel = !target.facts.rotational && target.facts.depth > 1;
    if !parallel || jobs.len() != 2 || !jobs.iter().all(is_plain) {
        return Ok(Vec::new());
    }
    let bytes = |job: usize| jobs[job].blocks.block_size[0].0;
    let between = |(own, other): (usize, usize)| {
        let (alone, seconds) = delay(target, bytes(own), bytes(other))?;
        Ok(Delay { own, other, alone, seconds })
    };
    [(0, 1), (1, 0)].into_iter().map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_frame::target::Real;

    fn drive(name: &str) -> Target {
        Target::find(name, Real::Refused, 0).expect("it is there")
    }

    /// Is the delay that of the docs' example? Of an 870 EVO a read of 4 KiB takes 17.5 us in the
    /// controller, 46 on a die, 3.4 on a channel, 3 + 7.3 on the link, and 3 pass until the next:
    /// 80 us, of which the link is free for 70. One of 128 KiB has it for 3 + 234 us: 167 more,
    /// wherever it begins. Less if one of its eight pieces comes 46 us later, from a die that was
    /// busy: 7 * 29.3 - 70 = 135.
    #[test]
    fn a_large_read_delays_a_small_one() {
        let (alone, seconds) = delay(&drive("ssd-870evo"), 4096, 128 << 10).expect("it reads");
        assert!((79e-6..82e-6).contains(&alone), "{alone}");
        assert!((135e-6..175e-6).contains(&seconds), "{seconds}");
        // One of 4 KiB needs the link for 10 us, which it finds free.
        let (_, small) = delay(&drive("ssd-870evo"), 4096, 4096).expect("it reads");
        assert!(small < 1e-6, "{small}");
    }

    /// Where are delays known? Not on a disk, not of a load that writes.
    #[test]
    fn delays_are_known_of_two_readers_of_flash() {
        use super::super::cell::{self, Times};
        let of = |name: &str, load: &str| {
            let (target, workload) = (drive(name), super::super::workloads::by_name(load)[0]);
            let times = Times::of(&target.facts, &workload);
            let jobs = cell::jobs(&workload, &target.facts, times).expect("jobs");
            delays(&jobs, &target).expect("delays").len()
        };
        let found = [("ssd-870evo", "W1-8"), ("hdd-7200", "W1-8"), ("ssd-870evo", "W25-2")];
        assert_eq!(found.map(|(name, load)| of(name, load)), [2, 0, 0]);
    }
}
