// SPDX-License-Identifier: MIT OR Apache-2.0
//! bfq's messages in a log, as values.
//!
//! ```text
//! bfq3445S may_budget_timeout: wait_request 0 left 1 timeout 0     about the queue of 3445
//! │  └ pid └ sync        bfqSHARED-S …     about a queue that several processes share
//! └ bfq dispatch requests: 2 busy queues   about the device
//! ```
//!
//! Every form that a kernel 6.18 printed in the recordings has a variant here, with its numbers; a
//! [`BfqMessage`] prints as the kernel wrote it. Everything else, including a known form with a
//! number that does not fit, is [`BfqMessage::Unknown`] with its text: another kernel's words are
//! no error.
//!
//! Units: budgets and services in sectors of 512 bytes; virtual times as in bfq, service shifted
//! left by 22 and divided by weight; addresses are hashed by the kernel and only identify things.
//!
//! Source: the recordings and their README; TRACE-26; `docs/rules/bfq.md`, whose rules are named
//! where they give the meaning of a number.

use core::fmt;

use super::line::whole;

mod read;

/// A queue of bfq, by its name in messages. Names are not unique: all shared queues have the same
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueName {
    /// The queue of a process.
    Process {
        /// Its process; 0 for the queues of asynchronous requests, which have no owner.
        pid: u32,
        /// Whether it is for synchronous requests.
        sync: bool,
    },
    /// A queue that several processes share because theirs were merged.
    Shared {
        /// Whether it is for synchronous requests.
        sync: bool,
    },
}

/// A queue by its process alone, as some messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partner {
    /// The queue of this process.
    Process(u32),
    /// A shared queue: printed as -1, or as 2^64 - 1.
    Shared,
}

/// Why a queue's turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExpireReason {
    /// 0: the device idled for it without success.
    TooIdle,
    /// 1: its time was up.
    BudgetTimeout,
    /// 2: its next request does not fit into the rest of the budget.
    BudgetExhausted,
    /// 3: it is empty and not worth waiting for.
    NoMoreRequests,
    /// 4: another queue took over.
    Preempted,
}

impl ExpireReason {
    /// Every reason, by its number.
    pub const ALL: [ExpireReason; 5] = [
        ExpireReason::TooIdle,
        ExpireReason::BudgetTimeout,
        ExpireReason::BudgetExhausted,
        ExpireReason::NoMoreRequests,
        ExpireReason::Preempted,
    ];

    /// The number that is printed.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ExpireReason::TooIdle => "too idle",
            ExpireReason::BudgetTimeout => "budget timeout",
            ExpireReason::BudgetExhausted => "budget exhausted",
            ExpireReason::NoMoreRequests => "no more requests",
            ExpireReason::Preempted => "preempted",
        }
    }
}

/// A message of bfq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BfqMessage {
    /// How many tags a request that is to be allocated may see (BFQ-35).
    LimitDepth {
        /// Busy queues whose weight is raised.
        raised_busy: u32,
        /// Whether the request is synchronous.
        sync: bool,
        /// The limit.
        depth: u32,
    },
    /// A queue gets a level and the weight that goes with it (BFQ-19).
    NewPriority {
        /// 0 to 7.
        level: u32,
        /// 10 to 80.
        weight: u32,
    },
    /// The queue was made.
    Allocated,
    /// A request gets its queue.
    GetRequest {
        /// Address of the request.
        request: u64,
        /// Address of the queue.
        queue: u64,
        /// References to the queue.
        references: u32,
    },
    /// A reference to the queue is dropped.
    PutQueue {
        /// Address of the queue.
        queue: u64,
        /// References before.
        references: u32,
    },
    /// The queue gets a reference from the tree that it enters.
    GetEntity {
        /// Address of the queue.
        queue: u64,
        /// References after.
        references: u32,
    },
    /// A process leaves its queue.
    ExitQueue {
        /// Address of the queue.
        queue: u64,
        /// References to it.
        references: u32,
    },
    /// A request enters the queue.
    AddRequest {
        /// Whether it is synchronous.
        sync: bool,
    },
    /// The queue has something to do from now on.
    AddToBusy,
    /// The queue has nothing to do any more.
    DelFromBusy,
    /// A queue is sought whose next request is at a sector, or nearby (BFQ-125).
    PositionLookup {
        /// The sector.
        sector: u64,
        /// The queue that is exactly there.
        found: Option<Partner>,
    },
    /// The driver asks for a request. The first message of a dispatch call.
    DispatchRequests {
        /// Queues that have something to do.
        busy: u32,
    },
    /// The queue's turn begins.
    SetInService {
        /// Sectors that it may be served.
        budget: u64,
    },
    /// The queue was in service already when one was to be selected.
    AlreadyInService,
    /// The queue was just put in service, and is looked at.
    CheckingNew,
    /// This queue is served now, in its turn or injected into that of another.
    ReturnedThis,
    /// None is served now.
    NoneReturned,
    /// Whether the turn may end because its time is up (BFQ-45).
    MayBudgetTimeout {
        /// Whether the queue is being waited for.
        wait_request: bool,
        /// Whether at least a third of the budget is left.
        left: bool,
        /// Whether the time is up.
        timeout: bool,
    },
    /// The queue is charged: for a request, or for time that it took (BFQ-66).
    Served {
        /// Service charged, in sectors.
        sectors: u64,
    },
    /// Whether the queue was found slow (BFQ-64); only said of turns of 1 ms or more.
    IsSlow {
        /// Whether it was.
        slow: bool,
    },
    /// The queue's turn ends.
    Expire {
        /// The reason.
        reason: ExpireReason,
        /// Whether it was slow.
        slow: bool,
        /// The queue's requests in the device.
        dispatched: u32,
        /// Whether its process thinks for a short time only.
        short_think_time: bool,
    },
    /// What the turn had and has left; the first of three lines before a new budget.
    RecalcLast {
        /// The budget of the turn.
        budget: u64,
        /// Budget that is left.
        left: i64,
    },
    /// The bounds of the new budget; the second of three lines.
    RecalcBounds {
        /// The most that the queue could get so far.
        max_budget: u64,
        /// The least that any queue gets.
        min_budget: u64,
    },
    /// The kind of the queue; the last of three lines.
    RecalcKind {
        /// Whether it is for synchronous requests.
        sync: bool,
        /// Whether its requests are far apart (BFQ-85).
        seeky: bool,
    },
    /// The budget of the queue's next turn.
    NewBudget {
        /// Sectors of the queue's next request, 0 if it has none.
        head: u64,
        /// The budget.
        budget: u64,
    },
    /// The queue's next request changed, and with it the budget (BFQ-49).
    NextRequest {
        /// The budget.
        budget: u64,
    },
    /// A virtual finish is computed from this much service.
    FinishOf {
        /// Service received, or the budget to come.
        service: u64,
        /// The weight that it is divided by.
        weight: u32,
    },
    /// The virtual times that came of it.
    Finish {
        /// Start.
        start: u64,
        /// Finish.
        finish: u64,
        /// Finish less start.
        delta: u64,
    },
    /// The rate of the device is not updated: too few samples, or too short (BFQ-77).
    RateNotUpdated {
        /// Number of samples.
        samples: u32,
    },
    /// A new interval of the rate begins (BFQ-75).
    RateReset {
        /// Dispatches in it so far.
        samples: u32,
        /// Number of sequential samples.
        sequential: u32,
        /// Sum of the samples' sectors.
        sectors: u64,
    },
    /// The most a queue may be served in a turn, from the rate (BFQ-79).
    MaxBudget {
        /// The new one.
        budget: u64,
    },
    /// The queue is served while its weight is raised (BFQ-103).
    Raising {
        /// Milliseconds since the period began.
        elapsed_ms: u64,
        /// Milliseconds that it lasts.
        duration_ms: u64,
        /// What the weight was multiplied by when it was served.
        coefficient: u32,
        /// The weight.
        weight: u32,
        /// The weight without raising.
        original_weight: u32,
    },
    /// A change of weight waits although weight was looked at (BFQ-105).
    PendingPriority,
    /// The queue's oldest request was looked at and is overdue (BFQ-39).
    CheckFifo {
        /// Address of the request.
        request: u64,
    },
    /// The queue is to be merged into another (BFQ-128).
    ScheduleMerge {
        /// Into which.
        with: Partner,
    },
    /// A process of the queue changes to that other (BFQ-130).
    Merge {
        /// The other queue.
        with: Partner,
    },
    /// The queue took over a process.
    Merged {
        /// Busy queues whose weight is raised.
        raised_busy: u32,
    },
    /// The queue may be woken up by another (BFQ-167).
    TentativeWaker {
        /// The queue that wakes this one.
        waker: QueueName,
    },
    /// The driver is to ask again.
    ScheduleDispatch,
    /// Anything else, unchanged.
    Unknown(String),
}

impl BfqMessage {
    /// Reads a message without the name of its queue.
    #[must_use]
    pub fn read(text: &str) -> BfqMessage {
        read::message(text).unwrap_or_else(|| BfqMessage::Unknown(text.to_owned()))
    }
}

impl QueueName {
    /// Reads `bfq3445S` or `bfqSHARED-S`; `None` for everything else.
    #[must_use]
    pub fn read(text: &str) -> Option<QueueName> {
        let text = text.strip_prefix("bfq")?;
        let (text, sync) = match text.strip_suffix('S') {
            Some(text) => (text, true),
            None => (text.strip_suffix('A')?, false),
        };
        match text {
            "SHARED-" => Some(QueueName::Shared { sync }),
            "" => None,
            _ => Some(QueueName::Process { pid: whole(text)?, sync }),
        }
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |sync: bool| if sync { 'S' } else { 'A' };
        match *self {
            QueueName::Process { pid, sync } => write!(f, "bfq{pid}{}", letter(sync)),
            QueueName::Shared { sync } => write!(f, "bfqSHARED-{}", letter(sync)),
        }
    }
}

/// As the kernel wrote it, without the name of the queue.
impl fmt::Display for BfqMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        read::write(self, f)
    }
}
