// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedule: when each I/O of a recording comes again.
//!
//! ```text
//! timed   each at its recorded time, whatever the device does                  open loop
//! think   each as long after what it followed as in the recording              closed loop
//! asap    each at once after what it followed: the recorded depth, no pauses   closed loop
//! ```
//!
//! All three are one list of links: an I/O comes a `gap` after the arrival or the end of another
//! one. Timed is the list in which every I/O follows the arrival of the one before it, of whatever
//! process; the others take theirs from `dependence.rs`. A speed divides all gaps, and the times
//! at which processes begin. Under asap, too, a process begins when it began in the recording.
//!
//! Gaps under `timed` are differences of scaled times, not scaled differences, so that roundings
//! do not add up.

use paternoster::Nanos;

use super::dependence::{Follows, infer};
use super::recording::Recording;

/// Nobody follows.
const NOBODY: u32 = u32::MAX;

/// When I/Os come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// At their recorded times: open loop.
    Timed,
    /// After what they followed, and the think time: closed loop.
    Think,
    /// After what they followed, at once.
    Asap,
}

impl Manner {
    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Manner::Timed => "timed",
            Manner::Think => "think",
            Manner::Asap => "asap",
        }
    }

    /// Whether it needs to know when I/Os ended.
    #[must_use]
    pub const fn needs_ends(self) -> bool {
        !matches!(self, Manner::Timed)
    }
}

/// How much faster than recorded time passes, in millionths: at least a tenth, at most 1000 times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed(u64);

impl Default for Speed {
    fn default() -> Speed {
        Speed::AS_RECORDED
    }
}

impl Speed {
    /// As it was.
    pub const AS_RECORDED: Speed = Speed(1_000_000);

    /// So many millionths, if that is within the limits.
    #[must_use]
    pub const fn millionths(millionths: u64) -> Option<Speed> {
        match millionths {
            100_000..=1_000_000_000 => Some(Speed(millionths)),
            _ => None,
        }
    }

    /// As a number: 1 is as recorded.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 10^9")]
    pub fn factor(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// A recorded time at this speed, rounded down.
    #[must_use]
    pub fn scale(self, time: Nanos) -> Nanos {
        if self == Speed::AS_RECORDED {
            return time;
        }
        let scaled = u128::from(time.0) * 1_000_000 / u128::from(self.0);
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

#[derive(Debug, Clone, Copy)]
struct Step {
    /// Since what it follows.
    gap: Nanos,
    /// Who follows its arrival, and its end.
    on_arrival: u32,
    on_end: u32,
}

/// When each I/O of one recording comes.
#[derive(Debug, Clone)]
pub struct Schedule {
    steps: Vec<Step>,
    /// Those that follow nothing, in the order of the recording.
    first: Vec<u32>,
    manner: Manner,
}

impl Schedule {
    /// The schedule of a recording in one of the manners.
    #[must_use]
    pub fn new(recording: &Recording, manner: Manner, speed: Speed) -> Schedule {
        match manner {
            Manner::Timed => Schedule::timed(recording, speed),
            Manner::Think => Schedule::dependent(recording, manner, |gap| speed.scale(gap), speed),
            Manner::Asap => Schedule::dependent(recording, manner, |_| Nanos::ZERO, speed),
        }
    }

    fn timed(recording: &Recording, speed: Speed) -> Schedule {
        let mut before = Nanos::ZERO;
        let numbered = recording.ios().iter().zip(1u32..);
        let mut steps: Vec<Step> = numbered
            .map(|(io, next)| {
                let at = speed.scale(io.at());
                let gap = at - before;
                before = at;
                Step { gap, on_arrival: next, on_end: NOBODY }
            })
            .collect();
        if let Some(last) = steps.last_mut() {
            last.on_arrival = NOBODY;
        }
        let first = if steps.is_empty() { Vec::new() } else { vec![0] };
        Schedule { steps, first, manner: Manner::Timed }
    }

    fn dependent(
        recording: &Recording,
        manner: Manner,
        gap_of: impl Fn(Nanos) -> Nanos,
        speed: Speed,
    ) -> Schedule {
        let nothing = Step { gap: Nanos::ZERO, on_arrival: NOBODY, on_end: NOBODY };
        let mut steps = vec![nothing; recording.ios().len()];
        let mut first = Vec::new();
        for (link, number) in infer(recording).into_iter().zip(0u32..) {
            let gap = match link {
                Follows::Nothing(at) => {
                    first.push(number);
                    speed.scale(at)
                }
                Follows::Arrival { io, gap } => {
                    steps[io as usize].on_arrival = number;
                    gap_of(gap)
                }
                Follows::End { io, think } => {
                    steps[io as usize].on_end = number;
                    gap_of(think)
                }
            };
            steps[number as usize].gap = gap;
        }
        Schedule { steps, first, manner }
    }

    /// Those that follow nothing, and when they come.
    pub(super) fn first(&self) -> impl Iterator<Item = (Nanos, u32)> + '_ {
        self.first.iter().map(|&io| (self.steps[io as usize].gap, io))
    }

    /// Who follows the arrival of `io`, and how long after.
    pub(super) fn on_arrival(&self, io: u32) -> Option<(Nanos, u32)> {
        self.follower(self.steps[io as usize].on_arrival)
    }

    /// Who follows the end of `io`, and how long after.
    pub(super) fn on_end(&self, io: u32) -> Option<(Nanos, u32)> {
        self.follower(self.steps[io as usize].on_end)
    }

    fn follower(&self, io: u32) -> Option<(Nanos, u32)> {
        (io != NOBODY).then(|| (self.steps[io as usize].gap, io))
    }

    /// Whether the plug under which `io` comes stays closed for the next one of its process. Where
    /// that waits for an end it does not: it could be the end of `io` itself, which the plug
    /// holds back.
    pub(super) fn holds(&self, recording: &Recording, io: u32) -> bool {
        let certain = self.manner == Manner::Timed || self.steps[io as usize].on_arrival != NOBODY;
        certain && recording.ios()[io as usize].is_held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a speed divide, and is the limit kept? 100 ns at 3 times: 33.3.
    #[test]
    fn speeds_divide() {
        let three = Speed::millionths(3_000_000).unwrap();
        assert_eq!(three.scale(Nanos(100)), Nanos(33));
        assert_eq!(Speed::default().scale(Nanos::MAX), Nanos::MAX);
        assert_eq!(Speed::millionths(99_999), None);
        assert_eq!(Speed::millionths(1_000_000_001), None);
    }
}
