// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls: the lines of a log put together as the scheduler was entered.
//!
//! A scheduler is entered in few ways, and each leaves its lines:
//!
//! ```text
//! Q  rq_pos_tree_lookup, scheduling merge …, M    a bio: may it join a request?      Bio
//! limit_depth, G                                  a request is allocated             Allocate
//! P, U                                            a task collects, and lets go       Plug
//! new_ioprio, allocated, get_request, I,
//!    add_request, add to busy, calc_finish …      the request enters a queue         Insert
//! dispatch requests: N busy queues,
//!    select_queue, expire, bfqq_served …          the driver asks for one            Dispatch
//! D                                               the driver starts one              Issue
//! C  put_queue, expire …, schedule dispatch       one has ended                      Complete
//! bfq_bfqq_is_slow, expire (0 …                   the idle timer                     Timer
//! del from busy, exit_bfqq, put_queue             a process has gone                 Exit
//! ```
//!
//! # What is found in the logs
//! Seven recordings of Linux 6.18 on two processors were studied, 359 837 lines.
//!
//! *The lock.* bfq says everything except `limit_depth` under one lock per device, as it does `I`
//! and the `M` of a merge with a waiting request. So the words of one call are together, apart from
//! events and limits of the other processor in between. Whenever another speaker's words under the
//! lock begin, they begin with the first words of a call, or go on with a `Q` or `C`: 37 923
//! changes of speaker and no exception. That ends a call, as do the next first words of the same
//! speaker; a call has no last words of its own, except for `no queue returned`. Up to 23 lines of
//! others come between the first and the last line of a call.
//!
//! *Before the lock.* `Q`, `C` and `limit_depth` are printed before the lock is taken, and others
//! may have their whole call in between: up to 441 us pass between a `C` and bfq's words about it,
//! 49 us after a `Q`. A bio of which bfq says nothing leaves a lone `Q`. Here such a line waits
//! until its speaker goes on.
//!
//! *Who speaks.* A task by its pid, wherever it runs; an interrupt by its processor, because it
//! runs on behalf of whatever task it interrupted. Completions are soft interrupts (`s` in the
//! flags), the idle timer is a hard one (`h`).
//!
//! *A dispatch and its D.* The driver prints `D` when it starts a request, after the call that
//! chose it, and often after a second call that chose none: `bfqq_served`, `dispatch requests` …
//! `no queue returned`, `D`. Every call has exactly one outcome, `returned this queue` or `no queue
//! returned`. The service that belongs to the choice is the first `bfqq_served` after `returned
//! this queue`; one before it is charged for time (BFQ-66), in an expiry. If the device is full,
//! the request waits in the driver's own list, and another speaker, most often a `kworker`, starts
//! it after a completion. In the log with the deep queue, on a disk with four tags, 451 of 477
//! requests are started so late, by up to 17.6 ms; in the other logs a `D` comes within 81 us. Two
//! requests that wait there may be started in either order.
//!
//! So a `D` belongs to its own speaker's first choice after which no request has ended; if there is
//! none, to the oldest choice with the same number of sectors. If several choices have that many,
//! the link is not [`sure`](Issued::sure), and neither are the links of the other choices: 9 of 18
//! 064 in these logs. Where bfq itself says which request is next (`check_fifo`), the links agree.
//!
//! # Numbers of calls
//! ```text
//!                          insert   dispatch (chose none)   complete   timer   exit
//! disk_2seq_ll0              2326       7254         4928       2326       0      2
//! disk_coop_ll0               346        349            3        346       1      2
//! disk_seq_rand_ll0           744       1494          750        744       0      2
//! disk_shallow_deep_ll0       477        552           75        477       0      2
//! disk_starter_ll1            669        831          162        669       0      4
//! ssd_5equal_rand_ll0        8246       8380          134       8246       0      5
//! ssd_5groups_rand_ll0       5256       8543         3287       5256       0      5
//! all                      18 064     27 403         9339     18 064       1     22
//! ```
//!
//! # What holds
//! I1  Every record belongs to exactly one call, and a call's records are in the order of lines.
//! I2  Calls come in the order of [`Call::line`], in which the scheduler was entered.
//! I3  What is held back is bounded: [`HELD_MAX`] calls of at most [`RECORDS_MAX`] records.
//!
//! A call is held back until it cannot grow any more, a choice until its `D`; later calls wait with
//! it. A log of another scheduler, or without one, is cut in the same way, without its words.
//!
//! Source: the recordings; BFQ-28 to BFQ-34, BFQ-41 to BFQ-62 (what is decided in a call).

use super::bfq::QueueName;
use super::line::{Context, Device, Record};
use super::reader::{Entry, Error};

mod cut;
mod link;

use cut::Cutter;

/// Calls that are held back at most. Then all are let go as they are, without links.
pub const HELD_MAX: usize = 1 << 14;
/// Records of one call at most; what follows is a call of its own.
pub const RECORDS_MAX: usize = 1 << 10;

/// One entry into the scheduler, or an event by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What was called, and the outcome.
    pub kind: CallKind,
    /// The line with which the scheduler was entered: its first words under the lock, or the first
    /// line of a call that has none. No two calls have the same.
    pub line: u64,
    /// When that line was printed, in nanoseconds.
    pub entered_ns: u64,
    /// When the first line was printed: that of `Q` or `C`, which may be earlier.
    pub at_ns: u64,
    /// The processor of the first line.
    pub cpu: u32,
    /// The task that ran there.
    pub pid: u32,
    /// Name of the task.
    pub task: String,
    /// Whether that task called, or an interrupt.
    pub context: Context,
    /// The device that it is about.
    pub device: Device,
    /// The lines of the call.
    pub records: Vec<Record>,
}

/// How a bio joined a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Merge {
    /// After the last one.
    Back,
    /// Before it.
    Front,
}

/// The charge of a dispatch call for the request that it chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Service {
    /// The queue that the request came from: the one in service, or one that was let in between.
    pub queue: QueueName,
    /// Sectors charged.
    pub sectors: u64,
}

/// The start of a request that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Issued {
    /// The line of its `D`.
    pub line: u64,
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// Its first sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Whether no other choice could be meant.
    pub sure: bool,
}

/// The kinds of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallKind {
    /// A bio was submitted.
    Bio {
        /// Its first sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
        /// How it joined a request, if it did.
        merged: Option<Merge>,
    },
    /// A request was allocated.
    Allocate {
        /// Its first sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// A task collects requests, or lets them go.
    Plug,
    /// A request entered the scheduler.
    Insert {
        /// The queue that it entered.
        queue: Option<QueueName>,
        /// Address of the request.
        request: Option<u64>,
        /// Its first sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// The driver asked for a request.
    Dispatch {
        /// Queues that had something to do.
        busy: u32,
        /// The choice; `None` if nothing was chosen.
        served: Option<Service>,
        /// When the choice was started; `None` if the log does not say.
        issued: Option<Issued>,
    },
    /// The driver started a request.
    Issue {
        /// Its first sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
        /// [`Call::line`] of the dispatch that chose it.
        dispatch: Option<u64>,
    },
    /// The driver gave a request back unserved.
    Requeue {
        /// Its first sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// A request has ended.
    Complete {
        /// The queue that it was of.
        queue: Option<QueueName>,
        /// Its first sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
        /// 0 or an errno, as printed.
        error: i32,
    },
    /// An interrupt that no completion explains: the idle timer.
    Timer,
    /// A process left its queue.
    Exit {
        /// The queue.
        queue: Option<QueueName>,
    },
    /// The kernel lost lines of this processor; what went on there is cut off. There is no record
    /// and no device, and the time is that of the line before.
    Lost {
        /// Number of events, if the kernel knows it.
        events: Option<u64>,
    },
    /// Anything else.
    Other,
}

impl CallKind {
    /// The call's name, for counting.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            CallKind::Bio { .. } => "bio",
            CallKind::Allocate { .. } => "allocate",
            CallKind::Plug => "plug",
            CallKind::Insert { .. } => "insert",
            CallKind::Dispatch { .. } => "dispatch",
            CallKind::Issue { .. } => "issue",
            CallKind::Requeue { .. } => "requeue",
            CallKind::Complete { .. } => "complete",
            CallKind::Timer => "timer",
            CallKind::Exit { .. } => "exit",
            CallKind::Lost { .. } => "lost",
            CallKind::Other => "other",
        }
    }
}

/// The calls of a log; an iterator. Errors of the reader are handed on before the calls that are
/// held back, and the line that they name is left out.
///
/// ```no_run
/// use std::{fs::File, io::BufReader};
/// use paternoster_trace::ftrace::{CallKind, Calls, Reader};
///
/// let log = BufReader::new(File::open("log")?);
/// for call in Calls::new(Reader::new(log)) {
///     let call = call?;
///     if let CallKind::Dispatch { served: Some(served), .. } = &call.kind {
///         println!("{} ns: {} gets {} sectors", call.at_ns, served.queue, served.sectors);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Calls<I> {
    entries: I,
    cutter: Cutter,
}

impl<I: Iterator<Item = Result<Entry, Error>>> Calls<I> {
    /// The calls of these entries: a [`Reader`](super::Reader), most often.
    pub fn new(entries: I) -> Calls<I> {
        Calls { entries, cutter: Cutter::default() }
    }
}

impl<I: Iterator<Item = Result<Entry, Error>>> Iterator for Calls<I> {
    type Item = Result<Call, Error>;

    fn next(&mut self) -> Option<Result<Call, Error>> {
        loop {
            if let Some(call) = self.cutter.pop() {
                return Some(Ok(call));
            }
            match self.entries.next() {
                Some(Ok(Entry::Record(record))) => self.cutter.record(record),
                Some(Ok(Entry::Lost { line, cpu, events })) => {
                    self.cutter.lost(line, cpu, events);
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.cutter.let_all_go();
                    return self.cutter.pop().map(Ok);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
