// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dependence: what each I/O of a recording waited for, inferred from the times alone.
//!
//! A trace says when I/Os came, not why. To know when a process would come on a faster disk one
//! must infer that: most often an I/O comes because another one of the process has ended, after a
//! moment of computing ("think time").
//!
//! # The rule
//! For an arrival at time t of a process whose arrival before it was at time t':
//!
//! 1. If I/Os of the same process have ended after t' and not after t, it *follows the end* of the
//!    latest of them, at c (of several that ended at once, the one that arrived last): think
//!    time t - c.
//! 2. Otherwise it *follows the arrival* before it, as one burst: gap t - t'.
//! 3. A process's first I/O follows nothing: it comes at its recorded time.
//!
//! ```text
//! a  |=========|                    |=====|           depth 1: each follows an end
//!              c╌╌think╌╌╮          c╌╌╮
//! b                      |==========|  |===| d
//!
//! a  |================|                               depth 3: a, b, c are a burst,
//! b  ╰gap|==================|                         d follows the end of a,
//! c      ╰gap|=============================|          e that of b
//! d                   c╌╌╌|===========|
//! e                         c╌╌╌|=========|
//! ```
//!
//! So an I/O that came while k others of its process were in flight comes with k in flight again,
//! as long as they end in the order of the recording.
//!
//! # Invariants
//! I1  Every I/O follows at most one thing, which lies before it; no end and no arrival is followed
//!     by more than one I/O. (The spans t' to t of a process do not overlap.)
//! I2  On a device on which everything takes as long as it was recorded, everything comes when it
//!     was recorded: by induction over time, c + (t - c) = t and t' + (t - t') = t.
//!
//! # Where it is wrong
//! * What follows a completion in another context: a process that is woken by another one, a thread
//!   pool, write-back threads (their writes follow memory's state, not their own last write's end).
//!   They are taken for processes that wait for themselves.
//! * Waiting for something else (a timer, the network, a lock) is taken for think time, and does
//!   not shrink when the device is faster.
//! * Chance: an I/O that came independently, with another one just ended, follows that.
//! * Nothing follows the ends of I/Os that are missing in the trace.
//! * A process begins when it began in the recording, even if it waited for another one to end.

use paternoster_core::Nanos;

use super::recording::{RecordedIo, Recording};

/// What an I/O follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// Nothing: it comes this long after the beginning.
    Nothing(Nanos),
    /// It comes this long after the arrival of I/O number `io`.
    Arrival {
        /// The I/O before it of the same process.
        io: u32,
        /// Time between the two arrivals.
        gap: Nanos,
    },
    /// It comes this long after the end of I/O number `io`.
    End {
        /// The I/O of the same process that it follows.
        io: u32,
        /// Think time.
        think: Nanos,
    },
}

/// What is known so far of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    arrival: Option<u32>,
    end: Option<u32>,
}

/// What every I/O follows, in the order of the recording.
#[must_use]
pub fn infer(recording: &Recording) -> Vec<Follows> {
    let ios = recording.ios();
    let ends = ends(ios);
    let mut next_end = ends.iter().copied().peekable();
    let mut known = vec![Known::default(); recording.processes().len()];
    let mut follows = Vec::with_capacity(ios.len());
    for (io, number) in ios.iter().zip(0u32..) {
        // Of what ends at its own arrival only what came before can be followed.
        let before = |end: &u32| ended(ios, *end) <= io.at() && *end < number;
        while let Some(end) = next_end.next_if(before) {
            known[ios[end as usize].process()].end = Some(end);
        }
        let process = &mut known[io.process()];
        follows.push(rule(ios, io, *process));
        process.arrival = Some(number);
    }
    follows
}

fn rule(ios: &[RecordedIo], io: &RecordedIo, process: Known) -> Follows {
    let Some(arrival) = process.arrival else { return Follows::Nothing(io.at()) };
    let last = ios[arrival as usize].at();
    match process.end {
        Some(end) if ended(ios, end) > last => {
            Follows::End { io: end, think: io.at() - ended(ios, end) }
        }
        _ => Follows::Arrival { io: arrival, gap: io.at() - last },
    }
}

fn ended(ios: &[RecordedIo], io: u32) -> Nanos {
    ios[io as usize].completed().unwrap_or(Nanos::MAX)
}

/// All I/Os whose end is known, in the order of their ends.
fn ends(ios: &[RecordedIo]) -> Vec<u32> {
    let known = ios.iter().zip(0u32..).filter(|(io, _)| io.completed().is_some());
    let mut ends: Vec<u32> = known.map(|(_, number)| number).collect();
    ends.sort_unstable_by_key(|&number| (ended(ios, number), number));
    ends
}

#[cfg(test)]
mod tests {
    use paternoster_core::{Flags, Op};
    use proptest::prelude::*;

    use super::super::recording::Arrival;
    use super::*;

    /// A recording of (process, arrival, end) in microseconds; an end of 0 is not known.
    fn recording(ios: &[(u32, u64, u64)]) -> Recording {
        let mut recording = Recording::default();
        for &(pid, at, end) in ios {
            let at = Nanos::from_micros(at);
            let (op, flags) = (Op::Read, Flags::NONE);
            let io = recording.push(&Arrival { at, pid, op, flags, sector: 0, sectors: 8 });
            if end > 0 {
                recording.set_completed(io.unwrap(), Nanos::from_micros(end));
            }
        }
        recording
    }

    const fn after(io: u32, us: u64) -> Follows {
        Follows::Arrival { io, gap: Nanos::from_micros(us) }
    }

    const fn end_of(io: u32, us: u64) -> Follows {
        Follows::End { io, think: Nanos::from_micros(us) }
    }

    const fn at(us: u64) -> Follows {
        Follows::Nothing(Nanos::from_micros(us))
    }

    /// Does a process with one I/O at a time follow its own ends, whatever others do?
    /// 100 - 90 = 10, 250 - 190 = 60; the other one: 120 - 95 = 25.
    #[test]
    fn one_at_a_time_follows_ends() {
        let found = infer(&recording(&[
            (1, 0, 90),
            (2, 5, 95),
            (1, 100, 190),
            (2, 120, 200),
            (1, 250, 300),
        ]));
        assert_eq!(found, [at(0), at(5), end_of(0, 10), end_of(1, 25), end_of(2, 60)]);
    }

    /// Is the process of depth 3 above a burst whose successors follow ends? Ends of a at 160, b
    /// at 220; d comes at 200, 40 after a's, e at 260, 40 after b's.
    #[test]
    fn depth_three() {
        let found = infer(&recording(&[
            (1, 0, 160),
            (1, 30, 220),
            (1, 70, 380),
            (1, 200, 320),
            (1, 260, 360),
        ]));
        assert_eq!(found, [at(0), after(0, 30), after(1, 40), end_of(0, 40), end_of(1, 40)]);
    }

    /// Of several ends since the last arrival, is the latest followed, and an end before the last
    /// arrival not again?
    #[test]
    fn the_latest_end_counts_once() {
        let found =
            infer(&recording(&[(1, 0, 50), (1, 1, 70), (1, 2, 60), (1, 100, 900), (1, 110, 900)]));
        assert_eq!(found, [at(0), after(0, 1), after(1, 1), end_of(1, 30), after(3, 10)]);
    }

    /// At one instant ends come before arrivals: does an arrival follow an end at its own time with
    /// a think time of nothing, and its successor at the same time the arrival? And an I/O that
    /// takes no time at all: not itself.
    #[test]
    fn ends_come_first_at_one_instant() {
        let found = infer(&recording(&[(1, 0, 40), (1, 40, 80), (1, 40, 90), (1, 100, 100)]));
        assert_eq!(found, [at(0), end_of(0, 0), after(1, 0), end_of(2, 10)]);
        let found = infer(&recording(&[(1, 0, 20), (1, 30, 30), (1, 35, 90)]));
        assert_eq!(found, [at(0), end_of(0, 10), after(1, 5)]);
    }

    /// Where ends are missing, do I/Os follow arrivals instead?
    #[test]
    fn unknown_ends_are_not_followed() {
        let found = infer(&recording(&[(1, 10, 0), (1, 40, 0), (1, 90, 95)]));
        // Times count from the first arrival.
        assert_eq!(found, [at(0), after(0, 30), after(1, 50)]);
    }

    proptest! {
        /// I1: does no I/O have two followers, and does each come after what it follows? I2: do the
        /// links give back the recorded times?
        #[test]
        fn links_are_a_forest_that_gives_the_times_back(
            ios in prop::collection::vec((0_u32..3, 0_u64..12, 0_u64..40), 1..60),
        ) {
            let mut now = 0;
            let ios: Vec<(u32, u64, u64)> = ios
                .into_iter()
                .map(|(pid, step, took)| {
                    now += step;
                    (pid, now, if took == 0 { 0 } else { now + took - 1 })
                })
                .collect();
            let recording = recording(&ios);
            let mut followed = Vec::new();
            for (place, link) in infer(&recording).into_iter().enumerate() {
                let io = &recording.ios()[place];
                let other = |number: u32| &recording.ios()[number as usize];
                let comes = match link {
                    Follows::Nothing(at) => at,
                    Follows::Arrival { io, gap } => other(io).at() + gap,
                    Follows::End { io, think } => other(io).completed().unwrap() + think,
                };
                prop_assert_eq!(comes, io.at());
                let (whom, kind) = match link {
                    Follows::Nothing(_) => continue,
                    Follows::Arrival { io, .. } => (io, 'a'),
                    Follows::End { io, .. } => (io, 'e'),
                };
                prop_assert!((whom as usize) < place);
                prop_assert_eq!(other(whom).process(), io.process());
                prop_assert!(!followed.contains(&(whom, kind)), "{} {} twice", whom, kind);
                followed.push((whom, kind));
            }
        }
    }
}
