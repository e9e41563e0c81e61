// SPDX-License-Identifier: MIT OR Apache-2.0
//! Engine: a recording, a request queue and a device, until every I/O has ended.
//!
//! The loop is that of `run/mod.rs` with I/Os instead of processes, and the same order at one
//! instant: completions, timers of the queue, arrivals in the order of the recording, then whatever
//! the queue says.
//!
//! ```text
//!        ┌──── due I/Os: submit; followers of their arrival get a time ────────────────────┐
//!        ▼                                                                                 │
//!   queue.next ──Issue──▶ device         Done ──▶ followers of the end get a time          │
//!        │ Wait until t                  Wake ──▶ the process submits what waits           │
//!        ▼                                                                                 │
//!   device.wait(min(t, first time)) ──completion──▶ queue ─────────────────────────────────┘
//! ```
//!
//! An I/O has come when its time has, also if its process sleeps for want of a request: its latency
//! counts from there.
//!
//! # Invariants
//! I1  Every I/O comes once and ends once.
//! I2  Everything follows from the recording, the device and the elevator: no chance, no clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use paternoster_core::{
    BuildError, ClientSpec, Completion, Device, Elevator, Limits, Nanos, Observer, Outcome,
    Output as Said, RequestQueue, Status, Waiting,
};

use super::fit::Mapping;
use super::recording::Recording;
use super::schedule::Schedule;
use super::seat::{EINVAL, Entering, Parts, Seat, Taken};
use crate::meter::{DeviceMeter, Meter};
use crate::observed::{AnyObserver, Queue};
use crate::run::Progress;

/// Steps of the loop between two calls for progress.
const PROGRESS_EVERY: u64 = 1 << 14;
/// An I/O has not come, or not ended.
const NEVER: Nanos = Nanos::MAX;

/// What to replay, when, and where to.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// The I/Os.
    pub recording: &'a Recording,
    /// When they come.
    pub schedule: &'a Schedule,
    /// Where the I/Os lie on the device.
    pub mapping: &'a Mapping,
}

/// What became of a replay. Times count from its beginning.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// When each I/O came.
    pub came: Vec<Nanos>,
    /// When each ended.
    pub ended: Vec<Nanos>,
    /// Device time of each process.
    pub served: Vec<Nanos>,
    /// Sums of the device.
    pub device: DeviceMeter,
    /// I/Os that failed, and the errno of the first one.
    pub failed: (u64, i32),
    /// How often a process slept for want of a request.
    pub sleeps: u64,
}

/// A replay could not begin, or not go on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The device reports what no queue can work with.
    #[error("there can be no queue in front of this device: {0}")]
    Queue(#[from] BuildError),
    /// Nothing is in flight and I/Os are left; a bug, unless it was told to end.
    #[error("at {at} nothing is under way, the queue says {why}, and {left} I/Os have not ended")]
    Stuck {
        /// The time.
        at: Nanos,
        /// The queue's last reason for waiting.
        why: String,
        /// Number of I/Os left.
        left: u64,
    },
}

/// The capacities of a replay's queue.
#[must_use]
pub fn limits(recording: &Recording, depth: u32) -> Limits {
    let count = |many: usize| u32::try_from(many).unwrap_or(u32::MAX);
    Limits {
        // Room for nr_requests of up to 256 a pool, and for a deep device's tags.
        requests: (3 * 256).max(2 * depth.min(10_240)),
        bios: count(recording.ios().len()).clamp(1024, 1 << 16),
        // There is a client also where nothing was recorded.
        clients: count(recording.processes().len()).max(1),
        ..Limits::default()
    }
}

/// Replays on `device` under `elevator`. `prepare` sets the queue's attributes before anything is
/// submitted; `observer` sees every event and is returned; `progress` is called now and then, and
/// says whether to go on.
///
/// # Errors
/// [`ReplayError`], also if `progress` ends it, and those of `prepare`.
pub fn replay<O: Observer + 'static, E: From<ReplayError>>(
    what: Replay<'_>,
    device: &mut dyn Device,
    elevator: Box<dyn Elevator>,
    observer: O,
    prepare: impl FnOnce(&mut Queue) -> Result<(), E>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Replayed, O, Queue), E> {
    let facts = device.facts();
    let limits = limits(what.recording, facts.depth);
    let observers = (Meter::new(limits.clients), AnyObserver::new(observer));
    let mut queue = RequestQueue::builder(facts, elevator)
        .limits(limits)
        .observer(observers)
        .build()
        .map_err(ReplayError::Queue)?;
    prepare(&mut queue)?;
    let mut engine = Engine::new(what, queue, device.now());
    engine.go(device, progress)?;
    let now = device.now();
    let (replayed, mut queue) = engine.result(now);
    let observer = queue.observer_mut().1.take().expect("I1: it is what was given");
    Ok((replayed, observer, queue))
}

#[derive(Debug)]
struct Engine<'a> {
    what: Replay<'a>,
    queue: Queue,
    seats: Vec<Seat>,
    parts: Parts,
    timers: BinaryHeap<Reverse<(Nanos, u32)>>,
    came: Vec<Nanos>,
    ended: Vec<Nanos>,
    began: Nanos,
    /// I/Os, and processes with I/Os, that have not ended.
    left: u64,
    processes_left: u32,
    requests: u64,
    failed: (u64, i32),
    sleeps: u64,
}

impl<'a> Engine<'a> {
    fn new(what: Replay<'a>, mut queue: Queue, began: Nanos) -> Self {
        let processes = what.recording.processes();
        let seats: Vec<Seat> = processes
            .iter()
            .map(|process| {
                let client = queue.attach(began, ClientSpec::new().pid(process.pid));
                Seat::new(client.expect("limits has a place for every process"), process.ios)
            })
            .collect();
        let count = what.recording.ios().len();
        let timers = what.schedule.first().map(|(at, io)| Reverse((began + at, io))).collect();
        Engine {
            what,
            queue,
            processes_left: u32::try_from(seats.len()).unwrap_or(u32::MAX),
            seats,
            parts: Parts::default(),
            timers,
            came: vec![NEVER; count],
            ended: vec![NEVER; count],
            began,
            left: count as u64,
            requests: 0,
            failed: (0, 0),
            sleeps: 0,
        }
    }

    fn go(
        &mut self,
        device: &mut dyn Device,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), ReplayError> {
        let mut steps = 0u64;
        while self.left > 0 {
            let now = device.now();
            while let Some(&Reverse((at, io))) = self.timers.peek()
                && at <= now
            {
                self.timers.pop();
                self.arrive(now, io);
            }
            let (until, why) = self.serve(now, device);
            let timer = self.timers.peek().map(|Reverse((at, _))| *at);
            if timer.is_some_and(|timer| timer <= now) {
                continue;
            }
            if self.left == 0 {
                break;
            }
            let wake = [until, timer].into_iter().flatten().min();
            match device.wait(wake) {
                Some(completion) => {
                    self.complete(completion);
                    // What ends at the same instant comes before anything else.
                    let at = device.now();
                    while let Some(completion) = device.wait(Some(at)) {
                        self.complete(completion);
                    }
                }
                None if wake.is_none() => {
                    return Err(ReplayError::Stuck {
                        at: now,
                        why: format!("{why:?}"),
                        left: self.left,
                    });
                }
                None => {}
            }
            steps += 1;
            if steps.is_multiple_of(PROGRESS_EVERY) {
                let all = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
                let ended = (all - self.processes_left, all);
                if progress(Progress { now, requests: self.requests, ended }).is_break() {
                    let why = "it was told to end".to_owned();
                    return Err(ReplayError::Stuck { at: now, why, left: self.left });
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, completion: Completion) {
        self.requests += 1;
        // A device that names a tag twice is broken; its second word is ignored.
        let _stale = self.queue.complete(completion.at, completion.tag, completion.outcome);
    }

    /// Everything that the queue wants done now; then until when it waits, and why.
    fn serve(&mut self, now: Nanos, device: &mut dyn Device) -> (Option<Nanos>, Waiting) {
        loop {
            match self.queue.next(now) {
                Said::Issue(command) => {
                    if device.submit(command).is_err() {
                        let _stale = self.queue.requeue(now, command.tag);
                    }
                }
                Said::Done(cookie, outcome) => self.bio_ended(now, cookie, outcome),
                // Clients were attached in the order of the processes and none has left.
                Said::Wake(client) => self.wake(now, client.index()),
                Said::Wait { until, why } => return (until, why),
            }
        }
    }

    fn arrive(&mut self, now: Nanos, number: u32) {
        let io = &self.what.recording.ios()[number as usize];
        self.came[number as usize] = now;
        if let Some((gap, follower)) = self.what.schedule.on_arrival(number) {
            self.timers.push(Reverse((now + gap, follower)));
        }
        let has_not_come = |next: u32| self.came[next as usize] == NEVER;
        let entering = Entering {
            io: number,
            op: io.op(),
            flags: io.flags(),
            sector: self.what.mapping.place(io),
            left: io.sectors(),
            held: self.what.schedule.held_for(number).is_some_and(has_not_come),
        };
        let seat = &mut self.seats[io.process()];
        let taken = seat.submit(now, entering, &mut self.parts, &mut self.queue);
        self.taken(now, number, taken);
    }

    fn wake(&mut self, now: Nanos, process: u32) {
        while let Some(entering) = self.seats[process as usize].next_awake() {
            let seat = &mut self.seats[process as usize];
            let taken = seat.push(now, entering, &mut self.parts, &mut self.queue);
            self.taken(now, entering.io, taken);
            if taken == Taken::Busy {
                return;
            }
        }
    }

    fn taken(&mut self, now: Nanos, number: u32, taken: Taken) {
        match taken {
            Taken::Whole => {}
            Taken::Busy => self.sleeps += 1,
            Taken::Refused(errno) => self.end(now, number, errno),
        }
    }

    fn bio_ended(&mut self, now: Nanos, cookie: u64, outcome: Outcome) {
        let Ok(number) = u32::try_from(cookie) else { return };
        let error = match outcome.status {
            Status::Ok => 0,
            Status::Failed(errno) => errno,
            Status::Cancelled => EINVAL,
        };
        if let Some(error) = self.parts.ended(number, error) {
            self.end(now, number, error);
        }
    }

    /// An I/O has ended; one that follows its end at once comes now, the others later.
    fn end(&mut self, now: Nanos, number: u32, errno: i32) {
        debug_assert_eq!(self.ended[number as usize], NEVER, "I1: it ends once");
        self.ended[number as usize] = now;
        self.left -= 1;
        if errno != 0 {
            let (count, first) = self.failed;
            self.failed = (count + 1, if count == 0 { errno } else { first });
        }
        let seat = &mut self.seats[self.what.recording.ios()[number as usize].process()];
        seat.left -= 1;
        self.processes_left -= u32::from(seat.left == 0);
        match self.what.schedule.on_end(number) {
            Some((Nanos::ZERO, follower)) => self.arrive(now, follower),
            Some((gap, follower)) => self.timers.push(Reverse((now + gap, follower))),
            None => {}
        }
    }

    fn result(self, now: Nanos) -> (Replayed, Queue) {
        let Engine { mut came, mut ended, began, queue, seats, failed, sleeps, .. } = self;
        for time in came.iter_mut().chain(&mut ended) {
            *time = *time - began;
        }
        let meter = &queue.observer().0;
        let served = seats.iter().map(|seat| meter.client(seat.client.index()).served).collect();
        let device = meter.device(now);
        (Replayed { came, ended, served, device, failed, sleeps }, queue)
    }
}
