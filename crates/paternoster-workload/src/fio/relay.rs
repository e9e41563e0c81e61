// SPDX-License-Identifier: MIT OR Apache-2.0
//! Relay: the clones of a job that hand over to each other, one after the other and back.
//!
//! A starting program is seldom one process: a script calls it, it asks a server and waits for the
//! answer, and so on. Each *leg* is a number of I/Os of one runner; the next one's begins when they
//! are complete, after a pause:
//!
//! ```text
//! legs           xterm 376        Xorg 1        xterm 124          pause 2 ms
//!
//! xterm          ##########                     #######
//! Xorg                        ##
//!                           2 ms            2 ms
//! ```
//!
//! fio has nothing like it and no option for it: `startup` is made of it. A runner never has I/Os
//! of two legs in flight.
//!
//! Invariants: I1 at any time one runner may issue, or none during a pause; I2 a runner that leaves
//! (after an error, or at the end of its time) is skipped, so that no other waits for it.
//!
//! Source: recorded start-ups (`builtin/startup/profile.rs`), in which no two processes take turns
//! within one leg.

use paternoster_core::Nanos;

/// A number of I/Os of one runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// Which clone of the job, from 0.
    pub runner: u32,
    /// Number of I/Os.
    pub ios: u64,
    /// From the end of the leg before until this one begins.
    pub pause: Nanos,
}

/// A runner of one of the relays of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runner {
    relay: usize,
    number: u32,
}

/// Whether a runner may issue an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baton {
    /// It is this runner's turn.
    Here,
    /// It will be, when the pause is over.
    Coming(Nanos),
    /// Other runners come first.
    Away,
}

#[derive(Debug, Clone)]
struct Relay {
    legs: Vec<Leg>,
    /// The current leg, and its I/Os that are not complete.
    leg: usize,
    left: u64,
    /// When it may begin.
    begins: Nanos,
    /// Runners that have left.
    gone: Vec<u32>,
}

impl Relay {
    fn runner(&self) -> Option<u32> {
        self.legs.get(self.leg).map(|leg| leg.runner)
    }

    /// Goes on to the next leg of a runner that is still there.
    fn hand_over(&mut self, now: Nanos) {
        loop {
            self.leg += 1;
            let Some(leg) = self.legs.get(self.leg) else { return };
            (self.left, self.begins) = (leg.ios, now + leg.pause);
            if leg.ios > 0 && !self.gone.contains(&leg.runner) {
                return;
            }
        }
    }
}

/// All relays of a run.
#[derive(Debug, Clone, Default)]
pub struct Relays {
    relays: Vec<Relay>,
    changes: u64,
}

impl Relays {
    /// The relay over these legs, for [`Relays::runner`].
    pub fn add(&mut self, legs: &[Leg]) -> usize {
        let left = legs.first().map_or(0, |leg| leg.ios);
        let (legs, gone) = (legs.to_vec(), Vec::new());
        self.relays.push(Relay { legs, leg: 0, left, begins: Nanos::ZERO, gone });
        self.relays.len() - 1
    }

    /// Clone `number` of the job that has this relay.
    #[must_use]
    pub const fn runner(relay: usize, number: u32) -> Runner {
        Runner { relay, number }
    }

    /// Whether the runner may issue an I/O.
    #[must_use]
    pub fn baton(&self, runner: Runner, now: Nanos) -> Baton {
        let relay = &self.relays[runner.relay];
        if relay.runner() != Some(runner.number) {
            Baton::Away
        } else if now < relay.begins {
            Baton::Coming(relay.begins)
        } else {
            Baton::Here
        }
    }

    /// This many I/Os of the runner have been completed since its last report.
    pub fn completed(&mut self, runner: Runner, ios: u64, now: Nanos) {
        let relay = &mut self.relays[runner.relay];
        if relay.runner() == Some(runner.number) && ios > 0 {
            relay.left = relay.left.saturating_sub(ios);
            if relay.left == 0 {
                relay.hand_over(now);
                self.changes += 1;
            }
        }
    }

    /// The runner has ended.
    pub fn leave(&mut self, runner: Runner, now: Nanos) {
        let relay = &mut self.relays[runner.relay];
        relay.gone.push(runner.number);
        if relay.runner() == Some(runner.number) {
            relay.hand_over(now);
            self.changes += 1;
        }
    }

    /// Counts the handovers: a runner that was refused asks again when it has grown.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Nanos = Nanos::from_millis(2);

    fn legs(course: &[(u32, u64)]) -> Vec<Leg> {
        course.iter().map(|&(runner, ios)| Leg { runner, ios, pause: PAUSE }).collect()
    }

    fn relay(course: &[(u32, u64)]) -> (Relays, [Runner; 3]) {
        let mut relays = Relays::default();
        let relay = relays.add(&legs(course));
        (relays, [0, 1, 2].map(|number| Relays::runner(relay, number)))
    }

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Does the baton go from one to the other and back, after a pause each time?
    #[test]
    fn the_baton_goes_round() {
        let (mut relays, [a, b, _]) = relay(&[(0, 2), (1, 1), (0, 1)]);
        assert_eq!((relays.baton(a, ms(0)), relays.baton(b, ms(0))), (Baton::Here, Baton::Away));
        relays.completed(a, 1, ms(5));
        assert_eq!((relays.baton(a, ms(5)), relays.changes()), (Baton::Here, 0));
        relays.completed(a, 1, ms(10));
        assert_eq!(relays.baton(a, ms(10)), Baton::Away);
        assert_eq!(relays.baton(b, ms(10)), Baton::Coming(ms(12)));
        assert_eq!(relays.baton(b, ms(12)), Baton::Here);
        relays.completed(b, 1, ms(20));
        assert_eq!(relays.baton(a, ms(22)), Baton::Here);
        relays.completed(a, 1, ms(30));
        let nobody = [a, b].map(|runner| relays.baton(runner, ms(40)));
        assert_eq!((nobody, relays.changes()), ([Baton::Away; 2], 3));
    }

    /// Is a runner that leaves skipped, before and during its leg?
    #[test]
    fn who_leaves_is_passed_over() {
        let (mut relays, [a, b, c]) = relay(&[(0, 5), (1, 5), (0, 5), (2, 5)]);
        relays.leave(b, ms(1));
        assert_eq!(relays.baton(a, ms(1)), Baton::Here);
        relays.leave(a, ms(3));
        assert_eq!(relays.baton(c, ms(3)), Baton::Coming(ms(5)));
        // It was reported late, when others had the baton already.
        relays.completed(a, 3, ms(6));
        assert_eq!(relays.baton(c, ms(6)), Baton::Here);
    }
}
