// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pace: when a job's next I/O may start, by `rate`, `rate_iops` and their kin.
//!
//! Each direction has a schedule that begins with the job. An I/O may start when the bytes issued
//! before it would have taken that long at the rate; a late job catches up as fast as it can:
//!
//! ```text
//! rate=400k, blocks of 4k      0  10  20  30 ms ...       I/O number k at k * 4k / 400k
//! device stalls till 25 ms     0  (10) 25 25 30 ms
//! rate_iops=100, bs=4k-16k     as rate=400k: the smallest block is the measure, as in fio
//! rate_process=poisson         0, then gaps of -ln(u) / iops: 46.9 9.5 6.2 21.2 ms at 50 iops
//! ```
//!
//! A mixed job draws a direction for each I/O. If that one would have to wait and the other one
//! less, the other one goes ([`Pace::waits`]); the next I/O is drawn anew:
//!
//! ```text
//! rate_iops=50, (reads), 5 ms each    draws  r r r w r r w w w r w
//!                                     fio    r w w w r w w w w r w    at 0 5 10 15 20 25 ... ms
//! ```
//!
//! `thinktime` counts as time that passes, so that a job catches up after it; with
//! `rate_ignore_thinktime` the schedule moves on by the pause ([`Pace::thought`]).
//!
//! `rate_min` and `rate_iops_min` are checked once per `rate_cycle`, from two seconds after the
//! start (measured on fio 3.33; the job then fails with EIO): see [`MinimumRate`].
//!
//! Invariants: I1 the time of a direction's next I/O never goes back; I2 only the order of calls
//! and their times decide.
//!
//! Source: FIO-63, FIO-64, FIO-93; the Poisson gaps equal fio's (generators 15, 17, 18).

use paternoster_core::Nanos;

use crate::direction::Direction;

use super::job::{Job, Kind};
use super::random::{Choice, Seeds, Taus88};
use super::value::{self, MILLISECOND, Reader};

/// Nanoseconds in a second.
const SECOND: u128 = 1_000_000_000;
/// How long a job has to settle before its minimum rate is checked.
const SETTLING: Nanos = Nanos::from_secs(2);
/// How many values a 32-bit draw can have.
const DRAWS: f64 = 4_294_967_296.0;

/// The options other than `rate` and `rate_iops` themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateRules {
    /// `rate_min`, bytes per second: reads, writes, trims.
    pub min: [Option<u64>; 3],
    /// `rate_iops_min`, I/Os per second: reads, writes, trims.
    pub iops_min: [Option<u64>; 3],
    /// `rate_process=poisson`.
    pub poisson: bool,
    /// `rate_ignore_thinktime`.
    pub ignore_thinktime: bool,
    /// `rate_cycle`: how long each least rate is measured.
    pub cycle: Nanos,
}

impl Default for RateRules {
    fn default() -> RateRules {
        RateRules {
            min: [None; 3],
            iops_min: [None; 3],
            poisson: false,
            ignore_thinktime: false,
            cycle: Nanos::from_millis(1000),
        }
    }
}

impl RateRules {
    /// Whether there is a least rate.
    #[must_use]
    pub fn has_minimum(&self) -> bool {
        self.min.iter().chain(&self.iops_min).any(Option::is_some)
    }

    /// The rules of a job with these directions: one value counts for all of them, so that a
    /// minimum rate may be given for a direction that the job lacks.
    #[must_use]
    pub fn of_used(mut self, kind: Kind) -> RateRules {
        for (way, used) in kind.uses().into_iter().enumerate() {
            if !used {
                (self.min[way], self.iops_min[way]) = (None, None);
            }
        }
        self
    }

    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "rate_min" => rates(&mut self.min, text, read)?,
            "rate_iops_min" => rates(&mut self.iops_min, text, read)?,
            "rate_process" => {
                self.poisson = match text {
                    "linear" => false,
                    "poisson" => true,
                    _ => return Err(format!("`{text}` is neither linear nor poisson")),
                }
            }
            "rate_ignore_thinktime" => self.ignore_thinktime = value::boolean(text)?,
            "rate_cycle" => {
                self.cycle = read.time(text, MILLISECOND)?;
                if self.cycle == Nanos::ZERO {
                    return Err("a cycle of no time cannot be measured".to_owned());
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `reads,writes,trims` per second; 0 is no limit.
pub(super) fn rates(
    rates: &mut [Option<u64>; 3],
    text: &str,
    read: &mut Reader<'_>,
) -> Result<(), String> {
    for (rate, text) in rates.iter_mut().zip(value::triple(text)?) {
        if let Some(text) = text {
            *rate = Some(read.size(text)?).filter(|rate| *rate > 0);
        }
    }
    Ok(())
}

/// The schedule of one direction.
#[derive(Debug, Clone)]
struct Schedule {
    /// Bytes per second; `None` is no limit.
    rate: Option<u64>,
    /// With a Poisson process: its generator, and I/Os of the smallest block per second.
    poisson: Option<(Taus88, f64)>,
    issued: u64,
    /// Time of the next I/O since the start, in nanoseconds; only the Poisson process keeps it.
    next: f64,
}

/// The schedules of one clone.
#[derive(Debug, Clone)]
pub struct Pace {
    schedules: [Schedule; 3],
    ignore_thinktime: bool,
    began: Nanos,
}

impl Pace {
    /// The schedules of a clone with these seeds.
    #[must_use]
    pub fn new(job: &Job, seeds: &Seeds) -> Pace {
        let schedules = Direction::ALL.map(|direction| {
            let (rate, per_second) = rate_of(job, direction);
            let choice = match direction {
                Direction::Read => Choice::PoissonRead,
                Direction::Write => Choice::PoissonWrite,
                Direction::Trim => Choice::PoissonTrim,
            };
            let poisson = job.pacing.rates.poisson.then(|| (seeds.generator(choice), per_second));
            Schedule { rate, poisson, issued: 0, next: 0.0 }
        });
        Pace { schedules, ignore_thinktime: job.pacing.rates.ignore_thinktime, began: Nanos::ZERO }
    }

    /// The job begins.
    pub fn start(&mut self, now: Nanos) {
        self.began = now;
    }

    /// The job has other rates from now on: its schedules restart.
    pub fn change(&mut self, now: Nanos, job: &Job) {
        for direction in Direction::ALL {
            let schedule = &mut self.schedules[direction as usize];
            let (rate, per_second) = rate_of(job, direction);
            (schedule.rate, schedule.issued, schedule.next) = (rate, 0, 0.0);
            if let Some((_, of_process)) = &mut schedule.poisson {
                *of_process = per_second;
            }
        }
        self.began = now;
    }

    /// When the next I/O of this direction may start; in the past if the job is late.
    #[must_use]
    pub fn due(&self, direction: Direction) -> Nanos {
        let schedule = &self.schedules[direction as usize];
        let Some(rate) = schedule.rate else { return self.began };
        if schedule.poisson.is_some() {
            return self.began + Nanos(whole(schedule.next));
        }
        let nanos = u128::from(schedule.issued) * SECOND / u128::from(rate);
        self.began + Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How long the next read, and the next write, would have to wait from now on.
    #[must_use]
    pub fn waits(&self, now: Nanos) -> [Nanos; 2] {
        [Direction::Read, Direction::Write].map(|way| self.due(way).max(now) - now)
    }

    /// An I/O of `bytes` was issued.
    pub fn issued(&mut self, direction: Direction, bytes: u64) {
        let schedule = &mut self.schedules[direction as usize];
        schedule.issued = schedule.issued.saturating_add(bytes);
        if schedule.rate.is_none() {
            return;
        }
        if let Some((generator, per_second)) = &mut schedule.poisson {
            // 0 would be an infinite gap; it is drawn once in 2^32 times.
            let uniform = f64::from(generator.next_u32().max(1)) / DRAWS;
            schedule.next += -libm::log(uniform) * 1e9 / *per_second;
        }
    }

    /// The job has thought for this long.
    pub fn thought(&mut self, pause: Nanos) {
        if self.ignore_thinktime {
            self.began += pause;
        }
    }
}

/// Bytes per second in a direction, `None` is no limit; and I/Os of the smallest block per second.
fn rate_of(job: &Job, direction: Direction) -> (Option<u64>, f64) {
    let way = direction as usize;
    let least = job.blocks.block_size[way].0.max(1);
    let by_ios = job.pacing.rate_iops[way].map(|iops| iops.saturating_mul(least));
    let rate = job.pacing.rate[way].into_iter().chain(by_ios).min().filter(|rate| *rate > 0);
    (rate, as_double(rate.unwrap_or(0)) / as_double(least))
}

/// The rate that a job did not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow {
    /// The direction.
    pub direction: Direction,
    /// Whether I/Os are meant, not bytes.
    pub in_ios: bool,
    /// The required rate, per second.
    pub asked: u64,
    /// What the last cycle had, per second.
    pub had: u64,
}

/// Watches a job's least rates.
#[derive(Debug, Clone)]
pub struct MinimumRate {
    rules: RateRules,
    settled: Nanos,
    cycle_began: Nanos,
    bytes: [u64; 3],
    ios: [u64; 3],
}

impl MinimumRate {
    /// A watch over a job that begins at `now`; `None` if it has no least rate.
    #[must_use]
    pub fn new(rules: &RateRules, now: Nanos) -> Option<MinimumRate> {
        let watch = MinimumRate {
            rules: *rules,
            settled: now + SETTLING,
            cycle_began: now + SETTLING,
            bytes: [0; 3],
            ios: [0; 3],
        };
        rules.has_minimum().then_some(watch)
    }

    /// When the next cycle ends: [`MinimumRate::check`] has a result then.
    #[must_use]
    pub fn next_check(&self) -> Nanos {
        self.cycle_began + self.rules.cycle
    }

    /// An I/O has completed.
    pub fn completed(&mut self, now: Nanos, direction: Direction, bytes: u64) {
        if now >= self.settled {
            self.bytes[direction as usize] += bytes;
            self.ios[direction as usize] += 1;
        }
    }

    /// Checks, at the end of a cycle, whether the minimum rates were kept.
    ///
    /// # Errors
    /// The first direction that was too slow.
    pub fn check(&mut self, now: Nanos) -> Result<(), TooSlow> {
        if now < self.next_check() {
            return Ok(());
        }
        let span = u128::from((now - self.cycle_began).0);
        let per_second =
            |amount: u64| u64::try_from(u128::from(amount) * SECOND / span).unwrap_or(u64::MAX);
        for direction in Direction::ALL {
            let way = direction as usize;
            let asked = [
                (false, self.rules.min[way], per_second(self.bytes[way])),
                (true, self.rules.iops_min[way], per_second(self.ios[way])),
            ];
            for (in_ios, asked, had) in asked {
                if let Some(asked) = asked.filter(|asked| had < *asked) {
                    return Err(TooSlow { direction, in_ios, asked, had });
                }
            }
        }
        self.cycle_began = now;
        (self.bytes, self.ios) = ([0; 3], [0; 3]);
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate; 53 bits are enough")]
const fn as_double(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive and cut to nanoseconds; the cast saturates"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(change: impl Fn(&mut Job)) -> Pace {
        let mut job = Job::default();
        change(&mut job);
        Pace::new(&job, &Seeds::new(None, true, false, 1, 0))
    }

    /// Does a rate that changes restart, whether the job was early or late? 100 a second until
    /// 35 ms, 10 a second from there; then none.
    #[test]
    fn a_change_begins_anew() {
        let mut job = Job::default();
        job.pacing.rate_iops = [Some(100); 3];
        let mut pace = Pace::new(&job, &Seeds::new(None, true, false, 1, 0));
        assert_eq!(starts(&mut pace, 4), [0, 10_000, 20_000, 30_000]);
        job.pacing.rate_iops = [Some(10); 3];
        pace.change(Nanos::from_millis(35), &job);
        assert_eq!(starts(&mut pace, 3), [35_000, 135_000, 235_000]);
        job.pacing.rate_iops = [None; 3];
        pace.change(Nanos::from_millis(300), &job);
        assert_eq!(starts(&mut pace, 2), [300_000, 300_000]);
    }

    /// When the first I/Os of 4k reads start, in microseconds, if nothing holds them up.
    fn starts(pace: &mut Pace, count: usize) -> Vec<u64> {
        let mut starts = Vec::new();
        for _ in 0..count {
            starts.push(pace.due(Direction::Read).as_micros());
            pace.issued(Direction::Read, 4096);
        }
        starts
    }

    /// Are linear schedules those of the module docs, by bytes and by I/Os of the smallest block?
    #[test]
    fn linear_schedules() {
        let mut bytes = pace(|job| job.pacing.rate = [Some(400 << 10), None, None]);
        assert_eq!(starts(&mut bytes, 4), [0, 10_000, 20_000, 30_000]);
        let mut ios = pace(|job| {
            job.pacing.rate_iops = [Some(100); 3];
            job.blocks.block_size[0] = (4096, 16_384);
        });
        ios.issued(Direction::Read, 16_384);
        assert_eq!(ios.due(Direction::Read), Nanos::from_millis(40));
        assert_eq!(bytes.due(Direction::Write), Nanos::ZERO);
    }

    /// Are the Poisson times those of fio? The log of a job with 50 I/Os per second had 47024 57064
    /// 62710 83943 159052 us, each about 100 us later than these; its writes 31.4 33.4 35.4 ms.
    #[test]
    fn poisson_times_equal_fio() {
        let mut reads = pace(|job| {
            job.pacing.rate_iops = [Some(50); 3];
            job.pacing.rates.poisson = true;
        });
        let mut writes = reads.clone();
        assert_eq!(starts(&mut reads, 6), [0, 46_905, 56_422, 62_613, 83_843, 158_932]);
        let mut times = Vec::new();
        for _ in 0..3 {
            writes.issued(Direction::Write, 4096);
            times.push(writes.due(Direction::Write).as_micros());
        }
        assert_eq!(times, [31_429, 33_398, 35_448]);
    }

    /// Does think time delay the schedule only if the job says so? After three I/Os at ten per
    /// second and 300 ms of thinking, the fourth is due at 300 ms, or at 600.
    #[test]
    fn thoughts_are_caught_up_with() {
        for (ignore, due) in [(false, 300), (true, 600)] {
            let mut pace = pace(|job| {
                job.pacing.rate_iops = [Some(10); 3];
                job.pacing.rates.ignore_thinktime = ignore;
            });
            pace.start(Nanos::ZERO);
            starts(&mut pace, 3);
            pace.thought(Nanos::from_millis(300));
            assert_eq!(pace.due(Direction::Read), Nanos::from_millis(due));
        }
    }

    /// Is a slow job detected at the end of the first cycle after two seconds, and a fast one not?
    #[test]
    fn least_rates_are_watched() {
        let rules = RateRules {
            iops_min: [Some(100), None, None],
            cycle: Nanos::from_millis(500),
            ..RateRules::default()
        };
        let run = |gap_ms: u64| {
            let mut watch = MinimumRate::new(&rules, Nanos::ZERO).unwrap();
            for n in 1..1000 {
                let now = Nanos::from_millis(n * gap_ms);
                watch.completed(now, Direction::Read, 4096);
                if let Err(slow) = watch.check(now) {
                    return Some((now, slow.had));
                }
            }
            None
        };
        // 50 I/Os in 500 ms are 100 per second; and one at each end makes 51.
        assert_eq!(run(10), None);
        // Every 20 ms: 26 of them from 2000 to 2500 ms are 52 per second.
        assert_eq!(run(20), Some((Nanos::from_millis(2500), 52)));
        assert!(MinimumRate::new(&RateRules::default(), Nanos::ZERO).is_none());
    }
}
