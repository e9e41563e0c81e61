// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is compared besides decisions: what we know after a call, with what the kernel logged.
//!
//! Only the think time is forced: it is taken over so that one clock reading does not count as
//! seven differences.

use paternoster_core::RequestId;
use paternoster_core::testing::Probe;
use paternoster_schedulers::Cfq;
use paternoster_schedulers::conformance::cfq::CfqProbe;
use paternoster_schedulers::conformance::cfq::SeenQueue;

use super::calls::Step;
use super::log::Name;
use super::message::Message;
use super::oracle::{self, CLOCK, FIRST_THOUGHT, PAUSE, PAUSED, UNEXPLAINED};

/// Weight of the first sample of a think time.
const FIRST_SAMPLE: u64 = 32;

fn check(class: &'static str, same: bool, text: &str) {
    oracle::with(|oracle| oracle.compare(class, same, UNEXPLAINED, text));
}

fn told<T>(step: &Step, of: impl Fn(&Message) -> Option<T>) -> Option<T> {
    step.said.iter().find_map(|said| of(&said.message))
}

/// The queue that a request was inserted into, by its name in the log.
pub(super) fn queue_of_request(step: &Step, cfq: &Probe<Cfq>, queue: u32, renamed: bool) {
    let named = step.said.iter().find(|said| said.message == Message::InsertRequest);
    let Some(name) = named.and_then(|said| said.queue) else { return };
    let known = oracle::with(|oracle| oracle.name(queue));
    let same = known.is_none() || known == Some(name) || renamed;
    check("queue of a request", same, &format!("{queue} is {known:?}, recorded {name:?}"));
    oracle::with(|oracle| oracle.rename(queue, name, |known| cfq.is_live(known)));
}

/// The seek history and the number of waiting requests after an insertion.
pub(super) fn learned(step: &Step, queue: SeenQueue) {
    let told = told(step, |message| match *message {
        Message::Inserted { history, queued, .. } => Some((history, queued)),
        _ => None,
    });
    let Some((history, queued)) = told else { return };
    let (ours, waiting) = (queue.seeks, queue.waiting);
    let text = format!("ours {ours:08x}, recorded {history:08x}");
    check("seek history", ours == history, &text);
    let text = format!("ours {waiting}, recorded {queued:?}");
    check("waiting in the queue", waiting == queued[0] + queued[1], &text);
}

/// The think time of the process after its insertion of a sync request.
pub(super) fn thought(step: &Step, cfq: &mut Probe<Cfq>, request: RequestId) {
    let told = told(step, |message| match *message {
        Message::Inserted { think, samples, .. } if samples > 0 => Some((think, samples)),
        _ => None,
    });
    let Some((think, samples)) = told else { return };
    let (ours, our_samples) = cfq.think_time(request);
    cfq.set_think_time(request, think, samples);
    let apart = i64::try_from(ours.abs_diff(think)).unwrap_or(i64::MAX);
    let same = our_samples == samples && apart <= CLOCK;
    let cause = match samples {
        FIRST_SAMPLE => FIRST_THOUGHT,
        _ if apart <= PAUSE => PAUSED,
        _ => UNEXPLAINED,
    };
    let text = format!("ours {ours}/{our_samples}, recorded {think}/{samples}");
    oracle::with(|oracle| oracle.compare("think time", same, cause, &text));
}

/// The depth that the device is taken to have after a completion.
pub(super) fn depth(step: &Step, cfq: &Probe<Cfq>) {
    let told = told(step, |message| match *message {
        Message::HardwareTag { tag, depth, .. } => Some((tag, depth)),
        _ => None,
    });
    let Some(theirs) = told else { return };
    let (queues, most) = cfq.depth();
    let ours = (queues.map_or(-1, i64::from), u64::from(most));
    check("hw_tag", ours == theirs, &format!("ours {ours:?}, recorded {theirs:?}"));
}

/// How many requests are in the driver after one has gone there.
pub(super) fn in_driver(step: &Step, cfq: &Probe<Cfq>) {
    let told = told(step, |message| match *message {
        Message::Activate { in_driver } => Some(in_driver),
        _ => None,
    });
    let ours = cfq.in_driver();
    let text = format!("ours {ours}, recorded {told:?}");
    check("in the driver", told == Some(ours), &text);
}

/// Before a merge is scheduled: how many processes are on each side.
pub(super) fn merge(step: &Step, cfq: &Probe<Cfq>) {
    let told = told(step, |message| match *message {
        Message::MergeScheduled { with, refs, others } => Some((with, [refs, others])),
        _ => None,
    });
    let (Some((with, theirs)), Some(active)) = (told, cfq.active()) else { return };
    let name = Name { pid: with, sync: true };
    let other = oracle::with(|oracle| oracle.queue(name, None)).unwrap_or(active);
    let ours = [active, other].map(|queue| cfq.queue(queue).processes);
    let text = format!("ours {ours:?}, recorded {theirs:?}");
    check("merge: processes", ours == theirs, &text);
}

/// How a request comes to its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// The same as the one before.
    Same,
    /// To a queue that was made for it.
    New,
    /// To the queue that its process's own was merged into.
    Merged,
    /// To one made because its process leaves a shared one.
    Parted,
    /// To a queue that was shared, as its last process.
    Alone,
}

impl Coming {
    fn told(step: &Step) -> Coming {
        let has = |wanted: &Message| step.said.iter().any(|said| said.message == *wanted);
        match (has(&Message::BreakingApart), has(&Message::Alloced), has(&Message::MergingWith)) {
            (true, true, _) => Coming::Parted,
            (true, false, _) => Coming::Alone,
            (false, true, _) => Coming::New,
            (false, false, true) => Coming::Merged,
            _ => Coming::Same,
        }
    }

    /// From what its process had before, and what the request got.
    fn seen(before: Option<(u32, SeenQueue)>, queue: u32, after: SeenQueue) -> Coming {
        match before {
            None if after.allocated == 1 => Coming::New,
            None => Coming::Same,
            Some((old, before)) if old == queue => {
                let alone = before.is_shared && !after.is_shared;
                if alone { Coming::Alone } else { Coming::Same }
            }
            Some((_, before)) if before.merge_into == Some(queue) => Coming::Merged,
            Some(_) => Coming::Parted,
        }
    }
}

/// How a request came to its queue. Returns whether that has another name from now on.
pub(super) fn coming(
    step: &Step,
    cfq: &Probe<Cfq>,
    before: Option<(u32, SeenQueue)>,
    queue: u32,
) -> bool {
    let ours = Coming::seen(before, queue, cfq.queue(queue));
    let theirs = Coming::told(step);
    let merged_to = told(step, |message| match *message {
        Message::Merging { to } => Some(to),
        _ => None,
    });
    if ours != Coming::Same || theirs != Coming::Same {
        let target = oracle::with(|oracle| oracle.name(queue)).map(|name| name.pid);
        let same = ours == theirs && (merged_to.is_none() || target == merged_to);
        let text = format!("ours {ours:?} {target:?}, recorded {theirs:?} {merged_to:?}");
        check("queues made, merged, split", same, &text);
    }
    matches!(theirs, Coming::New | Coming::Parted | Coming::Alone)
}
