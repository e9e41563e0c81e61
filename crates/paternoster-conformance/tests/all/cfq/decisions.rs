// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each decision and the message that reports it.
//!
//! ```text
//! decision             message                          no message
//! SliceUsed            @sel slice used over=…           it is not used up
//! MayDispatch          dispatch_insert                  @nodisp …, or @maydisp disp=4 max=4
//! Preempts             @pre RULE over cfqN              it waits for its turn
//! Arm                  arm_idle: 8000000                @noarm …, Not idling. …
//! ```
//!
//! A decision that is logged only if it is a yes counts only if either side says yes: that no slice
//! was found used up at each of 100 000 requests would make a fine percentage of nothing.

use paternoster_core::{Class, Nanos, Preemption, RequestId};
use paternoster_schedulers::conformance::cfq::{Choice, Decision, tree};

use super::log::Name;
use super::message::{Exit, Message, Rule};
use super::oracle::{BEFORE, CHOSEN, CLOCK, DRIFT, EDGE, Oracle, PAUSE, PAUSED, UNEXPLAINED};

/// No time is compared.
const NO_EDGE: i64 = i64::MAX;

/// Why a decision that compares two times may differ when they are this far apart.
const fn edge(apart: i64, close: i64) -> &'static str {
    if apart.saturating_abs() <= close { EDGE } else { UNEXPLAINED }
}

/// Our tree of a recorded class (0 best effort, 1 real time, 2 idle) and kind (in our order).
fn tree_told(class: u32, kind: u32) -> Option<usize> {
    let class = match class {
        0 => Class::BestEffort,
        1 => Class::Realtime,
        _ => Class::Idle,
    };
    tree(class, kind)
}

/// Our name of a recorded rule.
const fn preemption(rule: Rule) -> Preemption {
    match rule {
        Rule::ActiveIdleClass => Preemption::OverIdleClass,
        Rule::SyncOverAsync => Preemption::SyncOverAsync,
        Rule::Realtime => Preemption::Realtime,
        Rule::SliceUsed => Preemption::SliceUsed,
        Rule::NoidleTreeEmpty => Preemption::NextInTurn,
        Rule::NotShouldIdle => Preemption::NotIdledFor,
        Rule::Close => Preemption::Close,
    }
}

impl Oracle {
    /// The recorded choice.
    pub(super) fn decide(&mut self, decision: Decision, ours: Option<i64>) -> Option<i64> {
        match decision {
            Decision::Key { queue, now, tree } => self.key(queue, now, tree, ours),
            Decision::Average => self.average(ours),
            Decision::SliceLength { queue } => self.slice_length(queue, ours),
            Decision::TimedOut { queue } => self.timed_out(queue, ours),
            Decision::Residual { queue } => self.residual(queue, ours),
            Decision::Used { queue } => self.used(queue, ours),
            Decision::VirtualTime => self.virtual_time(ours),
            Decision::GoesOn => self.goes_on(ours),
            Decision::Kind => self.kind(ours),
            Decision::WorkloadTime => self.workload_time(ours),
            Decision::Turn => self.turn(ours),
            Decision::BusyAgain => self.exit("busy again", ours, Exit::ExpireWaitBusy, NO_EDGE),
            Decision::SliceUsed { left } => self.exit("used up", ours, Exit::SliceUsed, left),
            Decision::Cooperator => self.cooperator(ours),
            Decision::WaitsForTimer => self.exit("timer", ours, Exit::KeepTimer, NO_EDGE),
            Decision::WaitsForFlight => self.exit("in flight", ours, Exit::KeepDispatched, NO_EDGE),
            Decision::WaitsForGroup => self.waits_for_group(ours),
            Decision::Most => self.most(ours),
            Decision::MayDispatch => self.may_dispatch(ours),
            Decision::Aged { oldest } => self.aged(oldest, ours),
            Decision::Request { waiting } => self.request(waiting, ours),
            Decision::IdleWindow { before } => self.idle_window(before, ours),
            Decision::Arm { left, mean } => self.arm(left, mean, ours),
            Decision::Preempts => self.preempts(ours),
            _ => self.told_if_yes(decision, ours),
        }
    }

    /// Decisions reported by one message if they are a yes.
    fn told_if_yes(&mut self, decision: Decision, ours: Option<i64>) -> Option<i64> {
        let (class, theirs, edge) = match decision {
            Decision::DeepIsSlow => ("deep queue is slow", self.has(&Message::DeepSeeky), NO_EDGE),
            Decision::Late => ("sync request was late", self.has(&Message::DelayedSync), NO_EDGE),
            Decision::WaitBusy { left } => {
                ("slice goes on until busy", self.has(&Message::WillBusyWait), left)
            }
            Decision::EndsWithCompletion { left } => {
                ("slice ends with a completion", self.has(&Message::CompletionExpires), left)
            }
            Decision::EndsWithDispatch => ("slice ends with a dispatch", self.expires(), NO_EDGE),
            Decision::EndsWithTimer => ("slice ends with the timer", self.expires(), NO_EDGE),
            _ => ("idling is considered", self.may_arm().is_some(), NO_EDGE),
        };
        self.flag(class, ours, theirs, edge)
    }

    /// Whether a slice ends in the rest of this call.
    fn expires(&self) -> bool {
        self.see(|message| matches!(message, Message::Expired { .. }).then_some(())).is_some()
    }

    /// What was left of the slice when idling was considered.
    fn may_arm(&self) -> Option<i64> {
        self.see(|message| match *message {
            Message::MayArm { left, .. } => Some(left),
            _ => None,
        })
    }

    /// A yes or no.
    fn flag(
        &mut self,
        class: &'static str,
        ours: Option<i64>,
        theirs: bool,
        apart: i64,
    ) -> Option<i64> {
        let agreed = ours == theirs.number();
        if theirs || !agreed {
            let text = format!("ours {ours:?}, recorded {theirs}, {apart} ns from the edge");
            self.compare(class, agreed, edge(apart, CLOCK), &text);
        }
        theirs.number()
    }

    /// A value that is computed without the clock.
    fn exact(
        &mut self,
        class: &'static str,
        ours: Option<i64>,
        theirs: Option<i64>,
    ) -> Option<i64> {
        let text = format!("ours {ours:?}, recorded {theirs:?}");
        self.compare(class, ours == theirs, UNEXPLAINED, &text);
        theirs.or(ours)
    }

    /// A value from the clock.
    fn clock(
        &mut self,
        class: &'static str,
        ours: Option<i64>,
        theirs: Option<i64>,
    ) -> Option<i64> {
        let apart = ours.zip(theirs).map_or(i64::MAX, |(ours, theirs)| (ours - theirs).abs());
        let cause = if apart <= PAUSE { PAUSED } else { UNEXPLAINED };
        let text = format!("ours {ours:?}, recorded {theirs:?}");
        self.compare(class, apart <= CLOCK, cause, &text);
        theirs.or(ours)
    }

    /// A key matches if it is equal, or as far from our present as theirs from theirs.
    fn key(&mut self, queue: u32, now: Nanos, tree: usize, ours: Option<i64>) -> Option<i64> {
        let name = self.name(queue);
        let theirs = self.take(|told, message| match *message {
            Message::Key { key, relative, class, kind, .. } if told == name => {
                Some((key, relative, tree_told(class, kind)))
            }
            _ => None,
        });
        let relative = ours.zip(now.number()).map(|(ours, now)| ours - now);
        let same = theirs.is_some_and(|(key, their_relative, their_tree)| {
            Some(tree) == their_tree && (ours == Some(key) || relative == Some(their_relative))
        });
        let text = format!("{name:?} {tree}: ours {ours:?} ({relative:?}), recorded {theirs:?}");
        self.compare("key", same, UNEXPLAINED, &text);
        theirs.map(|(key, ..)| key).or(ours)
    }

    /// Logged together with the length of a slice; not in all places where it is updated.
    fn average(&mut self, ours: Option<i64>) -> Option<i64> {
        let theirs = self.see(|message| match message {
            Message::SliceLength { busy, .. } => busy.number(),
            _ => None,
        });
        if theirs.is_none() { ours } else { self.exact("average of busy queues", ours, theirs) }
    }

    /// Without `low_latency` only the length is logged, and only when the clock starts.
    fn slice_length(&mut self, queue: u32, ours: Option<i64>) -> Option<i64> {
        let name = self.name(queue);
        let computed = self.take(|told, message| match message {
            Message::SliceLength { slice, .. } if told == name => slice.number(),
            _ => None,
        });
        let set = self.take(|told, message| match message {
            Message::SetSlice(slice) if told == name => slice.number(),
            _ => None,
        });
        match computed.or(set) {
            None => ours,
            theirs => self.exact("slice length", ours, theirs),
        }
    }

    fn timed_out(&mut self, queue: u32, ours: Option<i64>) -> Option<i64> {
        let name = self.name(queue);
        let theirs = self.take(|told, message| match message {
            Message::Expired { timed_out } if told == name => timed_out.number(),
            _ => None,
        });
        self.exact("expiry: account kept", ours, theirs)
    }

    fn residual(&mut self, queue: u32, ours: Option<i64>) -> Option<i64> {
        let name = self.name(queue);
        let theirs = self.take(|told, message| match message {
            Message::Left(left) if told == name => Some(*left),
            _ => None,
        });
        self.clock("expiry: residual", ours, theirs)
    }

    fn used(&mut self, queue: u32, ours: Option<i64>) -> Option<i64> {
        let name = self.name(queue);
        let theirs = self.take(|told, message| match message {
            Message::Used { slice, .. } if told == name => slice.number(),
            _ => None,
        });
        self.clock("expiry: time used", ours, theirs)
    }

    fn virtual_time(&mut self, ours: Option<i64>) -> Option<i64> {
        let theirs = self.take(|_, message| match message {
            Message::Served { vdisktime, .. } => vdisktime.number(),
            _ => None,
        });
        let from_before = std::mem::take(&mut self.goes_on_from_before);
        let cause = if from_before { BEFORE } else { UNEXPLAINED };
        let text = format!("ours {ours:?}, recorded {theirs:?}");
        self.compare("expiry: virtual time", ours == theirs, cause, &text);
        theirs.or(ours)
    }

    /// A workload goes on if no other begins.
    fn goes_on(&mut self, ours: Option<i64>) -> Option<i64> {
        let begins = |message: &Message| matches!(message, Message::Workload { .. }).then_some(());
        let theirs = self.see(begins).is_none();
        let same = ours == theirs.number();
        self.workload_went_on = theirs && !same;
        if self.before.busy > 1 || !same {
            let left = self.before.workload_left;
            let text = format!("ours {ours:?}, recorded {theirs}, {left} ns left");
            self.compare("workload: goes on", same, edge(left, DRIFT), &text);
        }
        theirs.number()
    }

    fn kind(&mut self, ours: Option<i64>) -> Option<i64> {
        let theirs = self.take(|_, message| match message {
            Message::Workload { kind, .. } => kind.number(),
            _ => None,
        });
        if self.before.busy > 1 || ours != theirs {
            return self.exact("workload: kind", ours, theirs);
        }
        ours
    }

    fn workload_time(&mut self, ours: Option<i64>) -> Option<i64> {
        let theirs = self.take(|_, message| match message {
            Message::WorkloadSlice(time) => time.number(),
            _ => None,
        });
        self.exact("workload: time", ours, theirs)
    }

    fn turn(&mut self, ours: Option<i64>) -> Option<i64> {
        let name = self.take(|name, message| match message {
            Message::SetActive { .. } => name,
            _ => None,
        });
        let theirs = name.and_then(|name| self.queue(name, ours)).number();
        if self.before.busy > 1 || ours != theirs {
            let text = format!("ours {ours:?}, recorded {theirs:?} {name:?}");
            self.compare("turn: queue", ours == theirs, UNEXPLAINED, &text);
        }
        theirs
    }

    /// One way out of the selection of a queue. Together they are one decision of the call.
    fn exit(&mut self, way: &str, ours: Option<i64>, exit: Exit, apart: i64) -> Option<i64> {
        let theirs = self.has(&Message::Select(exit));
        self.exit_taken |= theirs;
        if ours != theirs.number() {
            let text = format!("{way}: ours {ours:?}, recorded {theirs}");
            self.exit_differs(edge(apart, CLOCK), &text);
        }
        theirs.number()
    }

    fn exit_differs(&mut self, cause: &'static str, text: &str) {
        if !std::mem::replace(&mut self.exit_differed, true) {
            self.differ("selection: keep, wait, leave", cause, text);
        }
    }

    fn cooperator(&mut self, ours: Option<i64>) -> Option<i64> {
        let pid = self.take(|_, message| match message {
            Message::Select(Exit::Cooperator(pid)) => Some(*pid),
            _ => None,
        });
        self.exit_taken |= pid.is_some();
        let called = |pid| self.queue(Name { pid, sync: true }, ours);
        let theirs = pid.and_then(called).number();
        if ours != theirs {
            let text = format!("cooperator: ours {ours:?}, recorded {theirs:?}");
            self.exit_differs(UNEXPLAINED, &text);
        }
        theirs
    }

    /// The last way to stay; otherwise the queue is left.
    fn waits_for_group(&mut self, ours: Option<i64>) -> Option<i64> {
        let waits = self.exit("group idle", ours, Exit::KeepGroup, NO_EDGE);
        self.exit_taken |= self.has(&Message::Select(Exit::ExpireEnd));
        waits
    }

    /// Logged for async queues, and where the limit is reached. With `low_latency` it is one more
    /// for each 100 ms since a second before the scheduler was chosen, at a time that is not
    /// recorded.
    fn most(&mut self, ours: Option<i64>) -> Option<i64> {
        let theirs = self.see(|message| match message {
            Message::MayDispatch { max, .. } => max.number(),
            _ => None,
        });
        let Some(most) = theirs else { return ours };
        let by_one = ours.is_some_and(|ours| ours.abs_diff(most) == 1);
        let cause = if by_one { CHOSEN } else { UNEXPLAINED };
        let text = format!("ours {ours:?}, recorded {most}");
        self.compare("in flight at most", ours == theirs, cause, &text);
        theirs
    }

    /// Counted where the kernel says that it has checked, or where we differ.
    fn may_dispatch(&mut self, ours: Option<i64>) -> Option<i64> {
        let asked = self.take(|_, message| match message {
            Message::Refused(_) | Message::MayDispatch { .. } => Some(()),
            _ => None,
        });
        let theirs = self.has(&Message::DispatchInsert);
        let same = ours == theirs.number();
        if asked.is_some() || !same {
            let text = format!("ours {ours:?}, recorded {theirs}");
            self.compare("may dispatch", same, UNEXPLAINED, &text);
        }
        theirs.number()
    }

    fn aged(&mut self, oldest: Option<RequestId>, ours: Option<i64>) -> Option<i64> {
        let theirs = self.has(&Message::Fifo);
        if theirs || ours.is_some() {
            let text = format!("ours {ours:?}, recorded {theirs}");
            self.compare("age comes first", ours.is_some() == theirs, UNEXPLAINED, &text);
        }
        oldest.filter(|_| theirs).number()
    }

    fn request(&mut self, waiting: u32, ours: Option<i64>) -> Option<i64> {
        let theirs = self.before.picked.number();
        if waiting > 1 || ours != theirs {
            let text = format!("ours {ours:?}, recorded {theirs:?}, of {waiting}");
            self.compare("request within a queue", ours == theirs, UNEXPLAINED, &text);
        }
        theirs.or(ours)
    }

    /// Logged only if it changes.
    fn idle_window(&mut self, before: bool, ours: Option<i64>) -> Option<i64> {
        let changed = self.take(|_, message| match message {
            Message::IdleWindow(window) => Some(*window),
            _ => None,
        });
        let theirs = changed.unwrap_or(before).number();
        if changed.is_some() || ours != theirs {
            return self.exact("idle window changes", ours, theirs);
        }
        theirs
    }

    fn arm(&mut self, left: i64, mean: i64, ours: Option<i64>) -> Option<i64> {
        let their_left = self.may_arm();
        self.take(|_, message| matches!(message, Message::MayArm { .. }).then_some(()));
        let theirs = self.take(|_, message| match message {
            Message::Arm { span, .. } => span.number(),
            _ => None,
        });
        if their_left.is_some() {
            self.clock("left of a slice", Some(left), their_left);
        }
        let text = format!("ours {ours:?}, recorded {theirs:?}, {left} left of {mean} ns");
        self.compare("arming", ours == theirs, edge(left - mean, CLOCK), &text);
        theirs
    }

    fn preempts(&mut self, ours: Option<i64>) -> Option<i64> {
        let rule = self.take(|_, message| match message {
            Message::Preempts { rule, .. } => Some(*rule),
            _ => None,
        });
        let theirs = rule.map(preemption);
        let our_rule = Option::<Preemption>::chosen(ours);
        let text = format!("ours {our_rule:?}, recorded {theirs:?}");
        self.compare("preemption", our_rule == theirs, UNEXPLAINED, &text);
        theirs.number()
    }
}
