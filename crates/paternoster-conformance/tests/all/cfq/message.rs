// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the scheduler says in a log.
//!
//! ```text
//! cfq109S @ins pos=4216328 n=8 sd=0 sh=00000000 tt=23780/32 q=0,1
//!         │                    │    │           │           └ waiting: async, sync
//!         │                    │    │           └ think time: mean, weight of samples
//!         │                    │    └ seek history: a mark for each of the last 32 requests
//!         │                    └ sectors from where the last one ended
//!         └ a message that was added to that kernel; those without @ are its own
//! ```
//!
//! Source: the README next to the logs, section 1; the logs.

use super::log::{Extent, number};

/// A message of the scheduler. Times and spans are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Alloced,
    PutQueue,
    MergingWith,
    /// This process moves from the first queue to the second.
    Merging {
        to: u32,
    },
    BreakingApart,
    InsertRequest,
    AddToTree,
    DelFromTree,
    Key {
        key: i64,
        relative: i64,
        offset: i64,
        busy: i64,
        class: u32,
        kind: u32,
        front: bool,
    },
    Inserted {
        at: Extent,
        distance: u64,
        history: u32,
        think: u64,
        samples: u64,
        queued: [u32; 2],
    },
    IdleWindow(bool),
    Preempts {
        rule: Rule,
        over: u32,
    },
    Preempt,
    Expired {
        timed_out: bool,
    },
    SliceLength {
        slice: u64,
        busy: u64,
        expect: u64,
        group: u64,
    },
    SetSlice(u64),
    Left(i64),
    Served {
        vdisktime: u64,
        least: u64,
    },
    Used {
        slice: u64,
        dispatched: u64,
        charge: u64,
        sectors: u64,
    },
    DelGroup,
    WorkloadSlice(u64),
    Workload {
        class: u32,
        kind: u32,
        count: u64,
        average: u64,
        busy: u64,
        group: u64,
    },
    SetActive {
        class: u32,
        kind: u32,
    },
    Fifo,
    Select(Exit),
    DeepSeeky,
    Refused(Refusal),
    MayDispatch {
        dispatched: u64,
        max: u64,
    },
    DispatchInsert,
    Dispatched,
    Activate {
        in_driver: u32,
    },
    Deactivate,
    Complete,
    DelayedSync,
    HardwareTag {
        tag: i64,
        depth: u64,
        samples: u64,
    },
    WillBusyWait,
    CompletionExpires,
    MayArm {
        idle_window: bool,
        hw_tag: i64,
        count: u64,
        left: i64,
    },
    Arm {
        span: u64,
        group: bool,
    },
    NotArmed,
    NotIdling,
    ThinksTooLong,
    ScheduleDispatch,
    TimerFired,
    MergeScheduled {
        with: u32,
        refs: u32,
        others: u32,
    },
}

/// Why a queue preempted the active one (CFQ-62, in its order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    ActiveIdleClass,
    SyncOverAsync,
    Realtime,
    SliceUsed,
    NoidleTreeEmpty,
    NotShouldIdle,
    Close,
}

/// Which way out of the selection of a queue (CFQ-60).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exit {
    KeepTimer,
    KeepDispatched,
    KeepGroup,
    ExpireEnd,
    ExpireWaitBusy,
    SliceUsed,
    Cooperator(u32),
}

/// Why the selected queue may not dispatch now (CFQ-61).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    AsyncInFlight,
    SyncInFlight,
    UsedSoon,
}

/// The pid in `cfq285`.
fn queue_pid(text: &str) -> Option<u32> {
    number(text.strip_prefix("cfq")?)
}

/// The values of `a=1 b=2 …`, whatever separates names and values.
struct Fields<'a>(&'a str);

impl Fields<'_> {
    fn text(&self, field: &str) -> Option<&str> {
        self.0.split([' ']).find_map(|word| word.strip_prefix(field)?.strip_prefix(['=', ':']))
    }

    fn get<T: std::str::FromStr>(&self, field: &str) -> Option<T> {
        number(self.text(field)?)
    }

    fn pair<T: std::str::FromStr>(&self, field: &str, between: char) -> Option<(T, T)> {
        let (one, two) = self.text(field)?.split_once(between)?;
        number(one).zip(number(two))
    }
}

impl Message {
    /// Reads a message, without the name of its queue.
    pub(super) fn read(text: &str) -> Option<Message> {
        let simple = match text {
            "alloced" => Message::Alloced,
            "put_queue" => Message::PutQueue,
            "breaking apart cfqq" => Message::BreakingApart,
            "insert_request" => Message::InsertRequest,
            "add_to_rr" => Message::AddToTree,
            "del_from_rr" => Message::DelFromTree,
            "del_from_rr group" => Message::DelGroup,
            "preempt" => Message::Preempt,
            "dispatch_insert" => Message::DispatchInsert,
            "dispatched a request" => Message::Dispatched,
            "will busy wait" => Message::WillBusyWait,
            "schedule dispatch" => Message::ScheduleDispatch,
            "idle timer fired" => Message::TimerFired,
            "@compl expire" => Message::CompletionExpires,
            "@sel deep seeky: idle_window cleared" => Message::DeepSeeky,
            "idle=0" => Message::IdleWindow(false),
            "idle=1" => Message::IdleWindow(true),
            "slice expired t=0" => Message::Expired { timed_out: false },
            "slice expired t=1" => Message::Expired { timed_out: true },
            _ => return read_fields(text),
        };
        Some(simple)
    }
}

fn read_fields(text: &str) -> Option<Message> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let fields = Fields(text);
    let message = match first {
        "@sel" => Message::Select(exit(rest)?),
        "@nodisp" => Message::Refused(refusal(rest)?),
        "@pre" => {
            let (rule, over) = rest.split_once(" over ")?;
            Message::Preempts { rule: preemption(rule)?, over: queue_pid(over)? }
        }
        "@ins" => inserted(&fields)?,
        "@arm?" => Message::MayArm {
            idle_window: fields.get::<u8>("iw")? == 1,
            hw_tag: fields.get("hw")?,
            count: fields.get("cnt")?,
            left: fields.get("left")?,
        },
        "@noarm" => Message::NotArmed,
        "@maydisp" => {
            Message::MayDispatch { dispatched: fields.get("disp")?, max: fields.get("max")? }
        }
        "@delayed_sync" => Message::DelayedSync,
        "@wl" => workload(&fields)?,
        "@merge" => Message::MergeScheduled {
            with: queue_pid(rest.strip_prefix("sched with ")?.split(' ').next()?)?,
            refs: fields.get("refs")?,
            others: fields.get("newrefs")?,
        },
        "@merging" => Message::Merging { to: queue_pid(rest.split(' ').nth(2)?)? },
        "merging" => Message::MergingWith,
        "Not" if rest.starts_with("idling. st->count") => Message::NotIdling,
        "Not" if rest.starts_with("idling. think_time") => Message::ThinksTooLong,
        "set_active" => {
            Message::SetActive { class: fields.get("wl_class")?, kind: fields.get("wl_type")? }
        }
        "served:" => Message::Served { vdisktime: fields.get("vt")?, least: fields.get("min_vt")? },
        "workload" => Message::WorkloadSlice(number(rest.strip_prefix("slice:")?)?),
        "activate" => Message::Activate { in_driver: fields.get("drv")? },
        "deactivate" => Message::Deactivate,
        "complete" => Message::Complete,
        "arm_idle:" => {
            let (span, group) = rest.split_once(" group_idle: ")?;
            Message::Arm { span: number(span)?, group: group == "1" }
        }
        _ => return read_assigned(&fields),
    };
    Some(message)
}

/// Messages that begin with a field.
fn read_assigned(fields: &Fields<'_>) -> Option<Message> {
    let first = fields.0.split_once('=')?.0;
    let message = match first {
        "@key" => Message::Key {
            key: fields.get("@key")?,
            relative: fields.get("rel")?,
            offset: fields.get("off")?,
            busy: fields.get("nq")?,
            class: fields.get("cl")?,
            kind: fields.get("ty")?,
            front: fields.get::<u8>("fr")? == 1,
        },
        "@slice" => Message::SliceLength {
            slice: fields.get("@slice")?,
            busy: fields.get("iq")?,
            expect: fields.get("exp")?,
            group: fields.get("gs")?,
        },
        "@hw_tag" => Message::HardwareTag {
            tag: fields.get("@hw_tag")?,
            depth: fields.get("est")?,
            samples: fields.get("samples")?,
        },
        "set_slice" => Message::SetSlice(fields.get("set_slice")?),
        "resid" => Message::Left(fields.get("resid")?),
        "sl_used" => Message::Used {
            slice: fields.get("sl_used")?,
            dispatched: fields.get("disp")?,
            charge: fields.get("charge")?,
            sectors: fields.get("sect")?,
        },
        "fifo" => Message::Fifo,
        _ => return None,
    };
    Some(message)
}

fn inserted(fields: &Fields<'_>) -> Option<Message> {
    let (think, samples) = fields.pair("tt", '/')?;
    let (waiting_async, waiting_sync) = fields.pair("q", ',')?;
    Some(Message::Inserted {
        at: Extent { sector: fields.get("pos")?, sectors: fields.get("n")? },
        distance: fields.get("sd")?,
        history: u32::from_str_radix(fields.text("sh")?, 16).ok()?,
        think,
        samples,
        queued: [waiting_async, waiting_sync],
    })
}

fn workload(fields: &Fields<'_>) -> Option<Message> {
    Some(Message::Workload {
        class: fields.get("cl")?,
        kind: fields.get("ty")?,
        count: fields.get("cnt")?,
        average: fields.get("avg")?,
        busy: fields.get("busy")?,
        group: fields.get("gs")?,
    })
}

fn preemption(rule: &str) -> Option<Rule> {
    Some(match rule {
        "active-idle-class" => Rule::ActiveIdleClass,
        "sync-over-async" => Rule::SyncOverAsync,
        "rt" => Rule::Realtime,
        "slice-used" => Rule::SliceUsed,
        "noidle-tree-empty" => Rule::NoidleTreeEmpty,
        "not-should-idle" => Rule::NotShouldIdle,
        "close" => Rule::Close,
        _ => return None,
    })
}

fn exit(text: &str) -> Option<Exit> {
    Some(match text {
        "keep: idle timer" => Exit::KeepTimer,
        "keep: group idle" => Exit::KeepGroup,
        "expire: end of select" => Exit::ExpireEnd,
        "expire: wait_busy" => Exit::ExpireWaitBusy,
        _ if text.starts_with("keep: dispatched=") => Exit::KeepDispatched,
        _ if text.starts_with("slice used over=") => Exit::SliceUsed,
        _ => Exit::Cooperator(queue_pid(text.strip_prefix("coop -> ")?)?),
    })
}

fn refusal(text: &str) -> Option<Refusal> {
    Some(match text.split(' ').next()? {
        "async" => Refusal::AsyncInFlight,
        "sync" => Refusal::SyncInFlight,
        "used_soon" => Refusal::UsedSoon,
        _ => return None,
    })
}
