// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of both sides in one form: the kind, the queue, the numbers.
//!
//! ```text
//! bfq3445S expire (1, slow 0, num_disp 0, short_ttime 1)     Expiry, of 3445: 1 0 0 1
//! ```
//!
//! Linux's messages on references, addresses and allocations are left out: they decide nothing. The
//! request that is dispatched, for which Linux has no message, becomes a word here.

use paternoster_schedulers::conformance::bfq::ProbePoint;
use paternoster_trace::ftrace::{BfqMessage, Partner, QueueName};

/// A word has at most this many numbers.
const MOST: usize = 5;

/// Kinds of words, by what they decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Request,
    Depth,
    Arrival,
    Joins,
    Leaves,
    Busy,
    Turn,
    Begins,
    Looks,
    GoesOn,
    MayEnd,
    Chosen,
    Nobody,
    Served,
    Slow,
    Expiry,
    Account,
    Bounds,
    Nature,
    Asks,
    NextChanged,
    FinishOf,
    Times,
    NothingObserved,
    Observed,
    MaxBudget,
    Raised,
    Pending,
    Aged,
    Sought,
    ToMerge,
    Merges,
    Merged,
    Woken,
}

/// A message in a form that both sides share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) kind: Kind,
    pub(super) queue: Option<QueueName>,
    /// Another queue that it names.
    other: Option<QueueName>,
    numbers: [i64; MOST],
    count: usize,
}

/// Virtual times wrap; their numbers are compared, not ordered.
const fn bits(value: u64) -> i64 {
    value.cast_signed()
}

impl Word {
    fn new<const N: usize>(kind: Kind, queue: Option<QueueName>, values: [i64; N]) -> Word {
        let mut numbers = [0; MOST];
        numbers[..N].copy_from_slice(&values);
        Word { kind, queue, other: None, numbers, count: N }
    }

    /// A request goes.
    pub(super) fn request(sector: u64, sectors: u32) -> Word {
        Word::new(Kind::Request, None, [bits(sector), sectors.into()])
    }

    /// At an allocation: queues that are raised, and how many requests there may be.
    pub(super) fn depth(raised: u32, depth: u32) -> Word {
        Word::new(Kind::Depth, None, [raised.into(), depth.into()])
    }

    /// The queue whose turn it is.
    pub(super) fn turn(queue: QueueName) -> Word {
        Word::new(Kind::Turn, Some(queue), [])
    }

    /// The message's numbers.
    pub(super) fn numbers(&self) -> &[i64] {
        &self.numbers[..self.count]
    }

    /// Whether two words differ only in what depends on the tick: how long a queue has been raised,
    /// and whether the time of a turn is over.
    pub(super) fn is_a_tick_from(&self, other: &Word) -> bool {
        let mut like_other = *self;
        match self.kind {
            Kind::Raised => like_other.numbers[0] = other.numbers[0],
            Kind::MayEnd => like_other.numbers[2] = other.numbers[2],
            _ => {}
        }
        like_other == *other
    }

    pub(super) fn text(&self) -> String {
        let name = |queue: Option<QueueName>| queue.map_or_else(String::new, |it| it.to_string());
        let (queue, other) = (name(self.queue), name(self.other));
        format!("{:?} {queue} {:?} {other}", self.kind, self.numbers())
    }

    /// Our own messages.
    pub(super) fn ours(
        queue: Option<QueueName>,
        other: Option<QueueName>,
        said: ProbePoint,
    ) -> Word {
        let word = |kind| Word::new(kind, queue, []);
        let one = |kind, a| Word::new(kind, queue, [a]);
        let two = |kind, a, b| Word::new(kind, queue, [a, b]);
        let three = |kind, a, b, c| Word::new(kind, queue, [a, b, c]);
        let word = match said {
            ProbePoint::Arrives { sync } => one(Kind::Arrival, sync.into()),
            ProbePoint::Joins => word(Kind::Joins),
            ProbePoint::Leaves => word(Kind::Leaves),
            ProbePoint::Asked { busy } => one(Kind::Busy, busy.into()),
            ProbePoint::Begins { budget } => one(Kind::Begins, bits(budget)),
            ProbePoint::Looks => word(Kind::Looks),
            ProbePoint::GoesOn => word(Kind::GoesOn),
            ProbePoint::MayEnd { waits, third_left, over } => {
                three(Kind::MayEnd, waits.into(), third_left.into(), over.into())
            }
            ProbePoint::Returned => word(Kind::Chosen),
            ProbePoint::Nobody => word(Kind::Nobody),
            ProbePoint::Served { sectors } => one(Kind::Served, bits(sectors)),
            ProbePoint::Slow { slow } => one(Kind::Slow, slow.into()),
            ProbePoint::Expired { why, slow, in_flight, short } => {
                let numbers = [why as i64, slow.into(), in_flight.into(), short.into()];
                Word::new(Kind::Expiry, queue, numbers)
            }
            ProbePoint::Account { budget, service } => {
                two(Kind::Account, bits(budget), bits(budget) - bits(service))
            }
            ProbePoint::Bounds { most, least } => two(Kind::Bounds, bits(most), bits(least)),
            ProbePoint::Nature { sync, seeky } => two(Kind::Nature, sync.into(), seeky.into()),
            ProbePoint::Asks { head, budget } => two(Kind::Asks, head.into(), bits(budget)),
            ProbePoint::NextChanged { budget } => one(Kind::NextChanged, bits(budget)),
            ProbePoint::FinishOf { service, weight } => {
                two(Kind::FinishOf, bits(service), weight.into())
            }
            ProbePoint::Times { start, finish } => {
                three(Kind::Times, bits(start), bits(finish), bits(finish.wrapping_sub(start)))
            }
            ProbePoint::NothingObserved => word(Kind::NothingObserved),
            ProbePoint::Observed { samples, sequential, sectors } => {
                three(Kind::Observed, samples.into(), sequential.into(), bits(sectors))
            }
            ProbePoint::MaxBudget { budget } => one(Kind::MaxBudget, bits(budget)),
            ProbePoint::Raised { elapsed, lasts, coefficient, weight, original } => {
                let [elapsed, lasts] = [elapsed, lasts].map(|time| bits(time.as_millis()));
                let weights = [coefficient, weight, original].map(i64::from);
                let numbers = [elapsed, lasts, weights[0], weights[1], weights[2]];
                Word::new(Kind::Raised, queue, numbers)
            }
            ProbePoint::Pending => word(Kind::Pending),
            ProbePoint::Aged => word(Kind::Aged),
            ProbePoint::Sought { sector, .. } => one(Kind::Sought, bits(sector)),
            ProbePoint::ToMerge { .. } => word(Kind::ToMerge),
            ProbePoint::Merges { .. } => word(Kind::Merges),
            ProbePoint::Merged { raised } => one(Kind::Merged, raised.into()),
            ProbePoint::Woken { .. } => word(Kind::Woken),
        };
        Word { other, ..word }
    }

    /// Linux's message; `None` for one that decides nothing.
    pub(super) fn recorded(queue: Option<QueueName>, message: &BfqMessage) -> Option<Word> {
        use BfqMessage as M;
        let word = |kind| Word::new(kind, queue, []);
        let one = |kind, a| Word::new(kind, queue, [a]);
        let two = |kind, a, b| Word::new(kind, queue, [a, b]);
        let three = |kind, a, b, c| Word::new(kind, queue, [a, b, c]);
        let about = |kind, other| Word { other: Some(other), ..word(kind) };
        Some(match *message {
            M::LimitDepth { raised_busy, depth, .. } => Word::depth(raised_busy, depth),
            M::AddRequest { sync } => one(Kind::Arrival, sync.into()),
            M::AddToBusy => word(Kind::Joins),
            M::DelFromBusy => word(Kind::Leaves),
            M::DispatchRequests { busy } => one(Kind::Busy, busy.into()),
            M::SetInService { budget } => one(Kind::Begins, bits(budget)),
            M::CheckingNew => word(Kind::Looks),
            M::AlreadyInService => word(Kind::GoesOn),
            M::MayBudgetTimeout { wait_request, left, timeout } => {
                three(Kind::MayEnd, wait_request.into(), left.into(), timeout.into())
            }
            M::ReturnedThis => word(Kind::Chosen),
            M::NoneReturned => word(Kind::Nobody),
            M::Served { sectors } => one(Kind::Served, bits(sectors)),
            M::IsSlow { slow } => one(Kind::Slow, slow.into()),
            M::Expire { reason, slow, dispatched, short_think_time } => {
                let why = reason.number().into();
                let numbers = [why, slow.into(), dispatched.into(), short_think_time.into()];
                Word::new(Kind::Expiry, queue, numbers)
            }
            M::RecalcLast { budget, left } => two(Kind::Account, bits(budget), left),
            M::RecalcBounds { max_budget, min_budget } => {
                two(Kind::Bounds, bits(max_budget), bits(min_budget))
            }
            M::RecalcKind { sync, seeky } => two(Kind::Nature, sync.into(), seeky.into()),
            M::NewBudget { head, budget } => two(Kind::Asks, bits(head), bits(budget)),
            M::NextRequest { budget } => one(Kind::NextChanged, bits(budget)),
            M::FinishOf { service, weight } => two(Kind::FinishOf, bits(service), weight.into()),
            M::Finish { start, finish, delta } => {
                three(Kind::Times, bits(start), bits(finish), bits(delta))
            }
            M::RateNotUpdated { .. } => word(Kind::NothingObserved),
            M::RateReset { samples, sequential, sectors } => {
                three(Kind::Observed, samples.into(), sequential.into(), bits(sectors))
            }
            M::MaxBudget { budget } => one(Kind::MaxBudget, bits(budget)),
            M::Raising { elapsed_ms, duration_ms, coefficient, weight, original_weight } => {
                let weights = [coefficient, weight, original_weight].map(i64::from);
                let [elapsed, lasts] = [elapsed_ms, duration_ms].map(bits);
                let numbers = [elapsed, lasts, weights[0], weights[1], weights[2]];
                Word::new(Kind::Raised, queue, numbers)
            }
            M::PendingPriority => word(Kind::Pending),
            M::CheckFifo { .. } => word(Kind::Aged),
            M::PositionLookup { sector, found } => {
                Word { other: found.map(named), ..one(Kind::Sought, bits(sector)) }
            }
            M::ScheduleMerge { with } => about(Kind::ToMerge, named(with)),
            M::Merge { with } => about(Kind::Merges, named(with)),
            M::Merged { raised_busy } => one(Kind::Merged, raised_busy.into()),
            M::TentativeWaker { waker } => about(Kind::Woken, waker),
            M::NewPriority { .. }
            | M::Allocated
            | M::GetRequest { .. }
            | M::PutQueue { .. }
            | M::GetEntity { .. }
            | M::ExitQueue { .. }
            | M::ScheduleDispatch
            | M::Unknown(_) => return None,
        })
    }
}

fn named(partner: Partner) -> QueueName {
    match partner {
        Partner::Process(pid) => QueueName::Process { pid, sync: true },
        Partner::Shared => QueueName::Shared { sync: true },
    }
}
