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
//! A plug that was recorded is closed again from one of its I/Os to the next one of the process,
//! unless that one follows an end within the same plug, which would never come. In a closed loop
//! the next one may have come before; then the plug opens. So it opens at the latest when the last
//! of its I/Os to come has come.
//!
//! Gaps under `timed` are differences of scaled times, not scaled differences, so that roundings
//! do not add up.

use paternoster_core::Nanos;

use super::dependence::{Follows, infer};
use super::recording::Recording;

/// No I/O follows.
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
    /// The name, as users write it.
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
    /// The recorded speed.
    pub const AS_RECORDED: Speed = Speed(1_000_000);

    /// This many millionths, if within the limits.
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
    /// The followers of its arrival, and of its end.
    on_arrival: u32,
    on_end: u32,
    /// The I/O that its plug stays closed for.
    held_for: u32,
}

impl Step {
    const ALONE: Step =
        Step { gap: Nanos::ZERO, on_arrival: NOBODY, on_end: NOBODY, held_for: NOBODY };
}

/// When each I/O of one recording comes.
#[derive(Debug, Clone)]
pub struct Schedule {
    steps: Vec<Step>,
    /// I/Os that follow nothing, in the order of the recording.
    first: Vec<u32>,
}

impl Schedule {
    /// The schedule of a recording, replayed in this manner.
    #[must_use]
    pub fn new(recording: &Recording, manner: Manner, speed: Speed) -> Schedule {
        match manner {
            Manner::Timed => Schedule::timed(recording, speed),
            Manner::Think => Schedule::dependent(recording, speed, |think| speed.scale(think)),
            Manner::Asap => Schedule::dependent(recording, speed, |_| Nanos::ZERO),
        }
    }

    fn alone(recording: &Recording) -> Schedule {
        Schedule { steps: vec![Step::ALONE; recording.ios().len()], first: Vec::new() }
    }

    fn timed(recording: &Recording, speed: Speed) -> Schedule {
        let mut schedule = Schedule::alone(recording);
        let mut before: Option<(u32, Nanos)> = None;
        for (io, number) in recording.ios().iter().zip(0u32..) {
            let at = speed.scale(io.at());
            let since = before.map_or(Nanos::ZERO, |(_, at)| at);
            schedule.steps[number as usize].gap = at - since;
            match before {
                Some((last, _)) => schedule.steps[last as usize].on_arrival = number,
                None => schedule.first.push(number),
            }
            before = Some((number, at));
        }
        schedule.hold(recording, |_, _| false);
        schedule
    }

    fn dependent(recording: &Recording, speed: Speed, gap_of: impl Fn(Nanos) -> Nanos) -> Schedule {
        let mut schedule = Schedule::alone(recording);
        let links = infer(recording);
        for (link, number) in links.iter().zip(0u32..) {
            let gap = match *link {
                Follows::Nothing(at) => {
                    schedule.first.push(number);
                    speed.scale(at)
                }
                Follows::Arrival { io, gap } => {
                    schedule.steps[io as usize].on_arrival = number;
                    gap_of(gap)
                }
                Follows::End { io, think } => {
                    schedule.steps[io as usize].on_end = number;
                    gap_of(think)
                }
            };
            schedule.steps[number as usize].gap = gap;
        }
        schedule.hold(
            recording,
            |io, first| matches!(links[io as usize], Follows::End { io, .. } if io >= first),
        );
        schedule
    }

    /// Notes which plugs stay closed for which I/O. `never_comes` says of an I/O and the first of
    /// its plug whether it waits for the plug to open.
    fn hold(&mut self, recording: &Recording, never_comes: impl Fn(u32, u32) -> bool) {
        // By process: its last I/O, and the first one of the plug that is closed for the next.
        let mut plugs: Vec<Option<(u32, u32)>> = vec![None; recording.processes().len()];
        for (io, number) in recording.ios().iter().zip(0u32..) {
            let plug = &mut plugs[io.process()];
            let closed = plug.filter(|&(_, first)| !never_comes(number, first));
            if let Some((last, _)) = closed {
                self.steps[last as usize].held_for = number;
            }
            let first = closed.map_or(number, |(_, first)| first);
            *plug = io.is_held().then_some((number, first));
        }
    }

    /// I/Os that follow nothing, and when they come.
    pub(super) fn first(&self) -> impl Iterator<Item = (Nanos, u32)> + '_ {
        self.first.iter().map(|&io| (self.steps[io as usize].gap, io))
    }

    /// What follows the arrival of `io`, and how long after.
    pub(super) fn on_arrival(&self, io: u32) -> Option<(Nanos, u32)> {
        self.follower(self.steps[io as usize].on_arrival)
    }

    /// What follows the end of `io`, and how long after.
    pub(super) fn on_end(&self, io: u32) -> Option<(Nanos, u32)> {
        self.follower(self.steps[io as usize].on_end)
    }

    fn follower(&self, io: u32) -> Option<(Nanos, u32)> {
        (io != NOBODY).then(|| (self.steps[io as usize].gap, io))
    }

    /// The next I/O of its process, if the plug under which `io` comes stays closed for that.
    pub(super) fn held_for(&self, io: u32) -> Option<u32> {
        let next = self.steps[io as usize].held_for;
        (next != NOBODY).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{Flags, Op};

    use super::super::recording::Arrival;
    use super::*;

    /// Is a plug not closed for an I/O that waits for the end of one under the same plug? Numbers 0
    /// and 1 are under one plug, as are 1 and 2, but 2 came after the end of 0 (as under an old
    /// kernel's plug, which others open): in a closed loop it does so again.
    #[test]
    fn plugs_do_not_wait_for_themselves() {
        let mut recording = Recording::default();
        for at in [0, 10, 100] {
            let at = Nanos::from_micros(at);
            let (op, flags) = (Op::Read, Flags::NONE);
            let arrival = Arrival { at, pid: 1, op, flags, sector: at.0, sectors: 8 };
            recording.push(&arrival).unwrap();
        }
        recording.set_completed(0, Nanos::from_micros(50));
        recording.set_held(0);
        recording.set_held(1);
        let held = |manner| {
            let schedule = Schedule::new(&recording, manner, Speed::AS_RECORDED);
            [0, 1, 2].map(|io| schedule.held_for(io))
        };
        assert_eq!(held(Manner::Timed), [Some(1), Some(2), None]);
        assert_eq!(held(Manner::Think), [Some(1), None, None]);
    }

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
