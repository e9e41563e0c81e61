// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics: sees every step of a live loop's queue, and can tell which client got how much of
//! the device.
//!
//! ```text
//! RequestQueue ──Event──▶ Statistics ─┬─▶ a tally for each client: device time, commands, sectors
//!                                     ├─▶ what is in the device, since when it has been busy
//!                                     └─▶ a blktrace, from `start_trace` to `stop_trace`
//! ```
//!
//! A tally belongs to an index. When a client has gone, [`Stats::forget`] gives the tally away,
//! and when one comes, [`Stats::name`] begins a new one.
//!
//! How many requests wait is no matter of events (a change of elevator inserts them again, a flush
//! may end without a command): the queue itself counts them, see [`Stats::waiting`].
//!
//! Invariants: I1 without a trace nothing is allocated but names; I2 the tallies together are what
//! the device was charged for.

#[cfg(feature = "instruments")]
mod trace;
#[cfg(not(feature = "instruments"))]
#[path = "stats/without_traces.rs"]
mod trace;

use std::io;
use std::path::{Path, PathBuf};

use paternoster_core::{Action, ClientId, Event, Limits, Nanos, Note, Observer, Op};

pub use trace::DeviceNumber;
pub use trace::TraceEnding;
use trace::{Begin, Trace};

/// The largest file of a trace, unless said otherwise: 1 GiB.
pub const TRACE_BYTES_MAX: u64 = 1 << 30;
/// In traces, clients without a process number are numbered from here on; Linux numbers its
/// processes below.
const NUMBERS_FIRST: u32 = 1 << 22;

/// The result of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceSummary {
    /// Events and messages that are in the file.
    pub events: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Events and messages that the disk was too slow for.
    pub dropped: u64,
    /// It ended by itself, because the file had reached its bound.
    pub full: bool,
}

/// What a client got of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Device time of what has ended.
    pub served: Nanos,
    /// Commands that went to the device.
    pub commands: u64,
    /// Sectors of these commands.
    pub sectors: u64,
}

/// The client that has an index.
#[derive(Debug, Clone, Default)]
struct Who {
    pid: u32,
    name: String,
}

/// The observer of a live loop's queue.
#[derive(Debug)]
pub struct Stats {
    /// By index of the client; the last one belongs to none.
    tallies: Vec<Tally>,
    who: Vec<Who>,
    in_all: Tally,
    /// Commands in the device, flushes apart.
    in_device: u32,
    flushes_in_device: u32,
    /// Device busy up to `busy_since`, or up to now if nothing is in it.
    busy: Nanos,
    busy_since: Nanos,
    trace: Option<Box<Trace>>,
    trace_bytes_max: u64,
}

impl Stats {
    /// A statistics of a queue with these limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Stats {
        let clients = limits.clients.max(1) as usize;
        Stats {
            tallies: vec![Tally::default(); clients + 1],
            who: vec![Who::default(); clients],
            in_all: Tally::default(),
            in_device: 0,
            flushes_in_device: 0,
            busy: Nanos::ZERO,
            busy_since: Nanos::ZERO,
            trace: None,
            trace_bytes_max: TRACE_BYTES_MAX,
        }
    }

    /// Traces end by themselves before their files are larger than `bytes`.
    #[must_use]
    pub const fn trace_bytes_max(mut self, bytes: u64) -> Stats {
        self.trace_bytes_max = bytes;
        self
    }

    /// A new client has index `index`: process `pid` (0: unknown), called `name` in traces. Its
    /// tally begins at zero.
    pub fn name(&mut self, index: u32, pid: u32, name: &str) {
        self.forget(index);
        if let Some(who) = self.who.get_mut(index as usize) {
            who.pid = if pid == 0 { NUMBERS_FIRST + index } else { pid };
            name.clone_into(&mut who.name);
            if let Some(trace) = &mut self.trace {
                trace.call(index, who.pid, name);
            }
        }
    }

    /// Gives a client another name.
    pub fn rename(&mut self, index: u32, name: &str) {
        if let Some(who) = self.who.get_mut(index as usize) {
            name.clone_into(&mut who.name);
        }
    }

    /// The client of index `index` has gone; returns what it got. Best called when its last request
    /// has ended: what ends later is counted in [`Stats::in_all`] only.
    pub fn forget(&mut self, index: u32) -> Tally {
        let place = index as usize;
        self.tallies.get_mut(place).map(std::mem::take).unwrap_or_default()
    }

    /// What the client of index `index` got.
    #[must_use]
    pub fn tally(&self, index: u32) -> Tally {
        self.tallies.get(index as usize).copied().unwrap_or_default()
    }

    /// Device time of the client of index `index`.
    #[must_use]
    pub fn served(&self, index: u32) -> Nanos {
        self.tally(index).served
    }

    /// What all clients together got since the start.
    #[must_use]
    pub const fn in_all(&self) -> Tally {
        self.in_all
    }

    /// How long at least one command was in the device, up to `now`.
    #[must_use]
    pub fn busy(&self, now: Nanos) -> Nanos {
        let running = if self.in_device() == 0 { Nanos::ZERO } else { now - self.busy_since };
        self.busy + running
    }

    /// Commands in the device.
    #[must_use]
    pub const fn in_device(&self) -> u32 {
        self.in_device + self.flushes_in_device
    }

    /// Requests that wait, of those that the queue has [allocated][1]; a flush is in no pool.
    ///
    /// [1]: paternoster_core::RequestQueue::allocated
    #[must_use]
    pub const fn waiting(&self, allocated: (u32, u32)) -> u32 {
        (allocated.0 + allocated.1).saturating_sub(self.in_device)
    }

    /// Begins a blktrace of the device in `PREFIX.blktrace.0`. `now` is the loop's time and
    /// `wall_clock` the seconds and nanoseconds since 1970 at that moment; `names` are beside
    /// those that [`Stats::name`] knows, and before them.
    ///
    /// # Errors
    /// There is a trace already; or the file cannot be made, with its name.
    pub fn start_trace(
        &mut self,
        prefix: &Path,
        now: Nanos,
        wall_clock: (u64, u32),
        device: DeviceNumber,
        elevator: &str,
        names: &[(u32, String)],
    ) -> io::Result<()> {
        if self.is_tracing() {
            let told = "a trace is being written already; stop it first";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, told));
        }
        let bytes_max = self.trace_bytes_max;
        let begin = Begin { prefix, now, wall_clock, device, elevator, bytes_max };
        let mut trace = Box::new(Trace::start(&begin)?);
        for (index, name) in names {
            let who = self.who.get_mut(*index as usize);
            if let Some(who) = who {
                name.clone_into(&mut who.name);
            }
        }
        for (index, who) in (0u32..).zip(&self.who) {
            let pid = if who.pid == 0 { NUMBERS_FIRST + index } else { who.pid };
            if who.name.is_empty() {
                trace.call(index, pid, &format!("client {index}"));
            } else {
                trace.call(index, pid, &who.name);
            }
        }
        self.trace = Some(trace);
        Ok(())
    }

    /// Whether a trace is being written. A trace that has ended by itself is not running.
    #[must_use]
    pub fn is_tracing(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.is_writing())
    }

    /// Ends the trace, without waiting for the disk; `None` if there is none. Also tells of one
    /// that has ended by itself, once.
    pub fn end_trace(&mut self) -> Option<TraceEnding> {
        self.trace.take().and_then(|trace| trace.finish())
    }

    /// Ends the trace and waits for the disk, which [`Stats::end_trace`] does not.
    ///
    /// # Errors
    /// There is no trace; or the file, and what writing it failed with.
    pub fn stop_trace(&mut self) -> io::Result<TraceSummary> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "no trace is being written");
        self.end_trace().ok_or_else(none)?.wait()
    }

    fn tally_of(&mut self, client: ClientId) -> &mut Tally {
        let nobody = self.tallies.len() - 1;
        let place = (client.index() as usize).min(nobody);
        &mut self.tallies[place]
    }

    fn enters(&mut self, event: &Event) {
        if self.in_device() == 0 {
            self.busy_since = event.at;
        }
        if event.op == Op::Flush {
            self.flushes_in_device += 1;
        } else {
            self.in_device += 1;
        }
        self.in_all.commands += 1;
        self.in_all.sectors += u64::from(event.sectors);
        let tally = self.tally_of(event.client);
        tally.commands += 1;
        tally.sectors += u64::from(event.sectors);
    }

    fn leaves(&mut self, event: &Event) {
        if event.op == Op::Flush {
            self.flushes_in_device = self.flushes_in_device.saturating_sub(1);
        } else {
            self.in_device = self.in_device.saturating_sub(1);
        }
        if self.in_device() == 0 {
            self.busy += event.at - self.busy_since;
        }
        self.in_all.served += event.served;
        self.tally_of(event.client).served += event.served;
    }
}

impl Observer for Stats {
    #[inline]
    fn event(&mut self, event: &Event) {
        match event.action {
            Action::Issue => self.enters(event),
            // What is refused has no device time, and comes again.
            Action::Complete | Action::Requeue => self.leaves(event),
            _ => {}
        }
        if let Some(trace) = &mut self.trace {
            trace.event(event);
        }
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        if let Some(trace) = &mut self.trace {
            trace.note(at, sequence, note);
        }
    }
}

/// Where a trace of this prefix is, for the answer to the order.
#[must_use]
pub fn trace_file(prefix: &Path) -> PathBuf {
    file_name(prefix, 0)
}

/// The file of a processor.
fn file_name(prefix: &Path, cpu: u32) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".blktrace.{cpu}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
