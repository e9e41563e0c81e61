// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracer: a run's events as the records that blktrace would have made of them.
//!
//! ```text
//! RequestQueue ──Event, Note──▶ Tracer ──Record, payload──▶ Sink: files, btt, blkparse, …
//! ```
//!
//! Client number n is process [`PID_FIRST`] + n, or the [given process](Tracer::call), under its
//! own name; its events are those of processor n modulo the number of processors, including
//! completions. Before its first event comes a note with its name, before everything the wall clock
//! (the epoch: runs are in virtual time). Elevators' notes become messages.
//!
//! **No two records have the same time.** In virtual time much happens at one instant; a machine's
//! clock goes on meanwhile, and tools rely on it (merging by time, intervals of at least 1 ns). A
//! record comes at least 1 ns after the one before it:
//!
//! ```text
//! events     Q 1000   G 1000   I 1000   D 1000   C 9000
//! records    Q 1000   G 1001   I 1002   D 1003   C 9000
//! ```
//!
//! A process's flush is a write of no sectors with the flush flag; the command that the device gets
//! for it, and for others, has only that flag: `FW` and `FN`, as in kernels since 2.6.37.
//!
//! Invariants: I1 times go up; I2 every event gives one record, of the same sector and length.
//!
//! Source: TRACE-8, TRACE-13, TRACE-14, TRACE-19, TRACE-26.

use paternoster_core::{Action, ClientId, Event, Flags, Nanos, Note, Observer, Op};

use super::record::{Categories, Code, DeviceNumber, Record};
use super::words::{self, MESSAGE_MAX};

/// The process number of the first client; events without a client have 0.
pub const PID_FIRST: u32 = 1000;
/// Bytes of a process's name, with at least one zero at the end.
const NAME_BYTES: usize = 16;

/// Takes records in order of time.
pub trait Sink {
    /// One record with its payload.
    fn record(&mut self, record: &Record, payload: &[u8]);
}

/// Takes nothing.
impl Sink for () {
    fn record(&mut self, _: &Record, _: &[u8]) {}
}

/// What a trace describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// The device's number.
    pub device: DeviceNumber,
    /// How many processors the processes run on; at least 1.
    pub cpus: u32,
    /// The elevator's name.
    pub elevator: String,
    /// The clients' names, by index; others are called `client N`.
    pub clients: Vec<String>,
}

/// Makes records of a run.
#[derive(Debug)]
pub struct Tracer<S> {
    sink: S,
    traced: Traced,
    last: Option<Nanos>,
    /// By index of the client: whether its name was written.
    named: Vec<bool>,
    /// By index of the client: the process number that it was called by, 0 for none.
    pids: Vec<u32>,
    words: String,
}

impl<S: Sink> Tracer<S> {
    /// A tracer of `traced` that gives its records to `sink`.
    pub fn new(traced: Traced, sink: S) -> Tracer<S> {
        let named = vec![false; traced.clients.len()];
        let words = String::with_capacity(MESSAGE_MAX);
        Tracer { sink, traced, last: None, named, pids: Vec::new(), words }
    }

    /// From now on client number `index` is the process `pid` of this name; `pid` 0 means its
    /// default number.
    pub fn call(&mut self, index: u32, pid: u32, name: &str) {
        let place = index as usize;
        let clients = &mut self.traced.clients;
        while clients.len() <= place {
            clients.push(format!("client {}", clients.len()));
        }
        name.clone_into(&mut clients[place]);
        let most = clients.len();
        self.pids.resize(most.max(self.pids.len()), 0);
        self.pids[place] = pid;
        self.named.resize(most.max(self.named.len()), false);
        self.named[place] = false;
    }

    /// What has taken the records.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The same, at the end.
    pub fn into_sink(self) -> S {
        self.sink
    }

    fn cpu(&self, client: ClientId) -> u32 {
        if client.is_nobody() { 0 } else { client.index() % self.traced.cpus.max(1) }
    }

    /// The time of the next record, which is at or after `at`.
    fn stamp(&mut self, at: Nanos) -> Nanos {
        let at = self.last.map_or(at, |last| at.max(Nanos(last.0.saturating_add(1))));
        self.last = Some(at);
        at
    }

    /// A note that is no event of the device.
    fn aside(&mut self, at: Nanos, code: Code, (pid, cpu): (u32, u32), payload: &[u8]) {
        let (device, categories) = (self.traced.device, Categories::NOTIFY);
        let record = Record { at, code, categories, pid, device, cpu, ..Record::default() };
        self.sink.record(&record, payload);
    }

    /// Writes the wall clock before everything else.
    fn begin(&mut self, at: Nanos) {
        if self.last.is_none() {
            self.aside(at, Code::NOTE_TIMESTAMP, (0, 0), &[0; 8]);
        }
    }

    /// Writes the name of the client, if that was not done yet.
    fn introduce(&mut self, at: Nanos, client: ClientId) {
        if client.is_nobody() {
            return;
        }
        let place = client.index() as usize;
        if self.named.len() <= place {
            self.named.resize(place + 1, false);
        }
        if !core::mem::replace(&mut self.named[place], true) {
            let unknown = format!("client {place}");
            let name = self.traced.clients.get(place).unwrap_or(&unknown);
            let mut payload = [0; NAME_BYTES];
            let length = name.len().min(NAME_BYTES - 1);
            payload[..length].copy_from_slice(&name.as_bytes()[..length]);
            let who = (pid(&self.pids, client), self.cpu(client));
            self.aside(at, Code::NOTE_PROCESS, who, &payload);
        }
    }
}

/// The process number of a client: its given one in `called`, or one of ours.
fn pid(called: &[u32], client: ClientId) -> u32 {
    match called.get(client.index() as usize) {
        _ if client.is_nobody() => 0,
        Some(&pid) if pid != 0 => pid,
        _ => PID_FIRST.saturating_add(client.index()),
    }
}

/// The code of an action, and its category.
const fn coded(action: Action) -> (Code, Categories) {
    match action {
        Action::Queue => (Code::QUEUE, Categories::QUEUE),
        Action::Get => (Code::GET, Categories::QUEUE),
        Action::Insert => (Code::INSERT, Categories::QUEUE),
        Action::Issue => (Code::ISSUE, Categories::ISSUE),
        Action::Complete => (Code::COMPLETE, Categories::COMPLETE),
        Action::BackMerge => (Code::BACK_MERGE, Categories::QUEUE),
        Action::FrontMerge => (Code::FRONT_MERGE, Categories::QUEUE),
        Action::Plug => (Code::PLUG, Categories::QUEUE),
        Action::Unplug => (Code::UNPLUG, Categories::QUEUE),
        Action::UnplugTimer => (Code::UNPLUG_TIMER, Categories::QUEUE),
        Action::Sleep => (Code::SLEEP, Categories::QUEUE),
        Action::Requeue => (Code::REQUEUE, Categories::REQUEUE),
        Action::Split => (Code::SPLIT, Categories::QUEUE),
    }
}

/// What an I/O is, as categories.
fn categories(op: Op, flags: Flags) -> Categories {
    let mut set = match op {
        Op::Read => Categories::READ,
        Op::Write => Categories::WRITE,
        Op::Discard => Categories::WRITE | Categories::DISCARD,
        _ => Categories::WRITE | Categories::FLUSH,
    };
    for (flag, category) in [
        (Flags::SYNC, Categories::SYNC),
        (Flags::META, Categories::META),
        (Flags::AHEAD, Categories::AHEAD),
        (Flags::FUA, Categories::FUA),
        (Flags::PREFLUSH, Categories::FLUSH),
    ] {
        if flags.contains(flag) {
            set |= category;
        }
    }
    set
}

impl<S: Sink> Observer for Tracer<S> {
    fn event(&mut self, event: &Event) {
        self.begin(event.at);
        self.introduce(event.at, event.client);
        let (code, category) = coded(event.action);
        let plug = matches!(event.action, Action::Plug | Action::Unplug | Action::UnplugTimer);
        let command = matches!(event.action, Action::Issue | Action::Requeue | Action::Complete);
        let io = match event.op {
            _ if plug => Categories::default(),
            Op::Flush if command => Categories::FLUSH,
            op => categories(op, event.flags),
        };
        let record = Record {
            at: self.stamp(event.at),
            sector: if plug { 0 } else { event.sector },
            bytes: if plug { 0 } else { event.sectors.saturating_mul(512) },
            code,
            categories: io | category | Categories::FS,
            pid: pid(&self.pids, event.client),
            device: self.traced.device,
            cpu: self.cpu(event.client),
            sequence: 0,
            error: u16::try_from(event.error.unsigned_abs()).unwrap_or(u16::MAX),
        };
        let count = u64::from(event.sectors).to_be_bytes();
        let counts = plug && event.action != Action::Plug;
        self.sink.record(&record, if counts { &count } else { &[] });
    }

    fn note(&mut self, at: Nanos, _: u64, note: &Note) {
        self.begin(at);
        let at = self.stamp(at);
        let elevator = &self.traced.elevator;
        let pid = |client| pid(&self.pids, client);
        let written = words::write(&mut self.words, elevator, at, note, &pid);
        debug_assert!(written.is_ok(), "a string takes everything");
        let payload = &self.words.as_bytes()[..self.words.len().min(MESSAGE_MAX)];
        let (device, categories) = (self.traced.device, Categories::NOTIFY);
        let code = Code::NOTE_MESSAGE;
        let record = Record { at, code, categories, device, ..Record::default() };
        self.sink.record(&record, payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::{Bio, ClientSpec, DeviceFacts, Outcome, Output, RequestQueue};
    use paternoster_schedulers::Noop;

    #[derive(Default)]
    struct Kept(Vec<(Record, Vec<u8>)>);

    impl Sink for Kept {
        fn record(&mut self, record: &Record, payload: &[u8]) {
            self.0.push((*record, payload.to_vec()));
        }
    }

    /// Does a read become name, Q, G, I, D and C, in times that go up, of the same sectors?
    #[test]
    fn a_read_becomes_its_records() {
        let traced = Traced {
            device: DeviceNumber::new(8, 0),
            cpus: 2,
            elevator: "noop".to_owned(),
            clients: vec!["reader".to_owned()],
        };
        let tracer = Tracer::new(traced, Kept::default());
        let facts = DeviceFacts { capacity: 1 << 20, ..DeviceFacts::default() };
        let mut queue = RequestQueue::builder(facts, Box::new(Noop::new()))
            .observer(tracer)
            .build()
            .expect("its limits work");
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        let now = Nanos::from_micros(1);
        queue.submit(now, Bio::new(client, Op::Read, 64, 8)).unwrap();
        let mut issued = None;
        let mut ask = now;
        while issued.is_none() {
            match queue.next(ask) {
                Output::Issue(command) => issued = Some(command),
                Output::Wait { until: Some(until), .. } => ask = until,
                _ => {}
            }
        }
        queue.complete(Nanos::from_millis(9), issued.unwrap().tag, Outcome::OK).unwrap();
        let kept = &queue.observer_mut().sink_mut().0;
        let name = kept.iter().find(|(record, _)| record.is_note_of(Code::NOTE_PROCESS)).unwrap();
        assert_eq!((name.0.pid, &name.1[..]), (1000, &b"reader\0\0\0\0\0\0\0\0\0\0"[..]));
        let events: Vec<&Record> =
            kept.iter().map(|(record, _)| record).filter(|record| !record.is_note()).collect();
        let ios: Vec<Code> = events.iter().filter(|r| r.bytes > 0).map(|r| r.code).collect();
        let way = [Code::QUEUE, Code::GET, Code::INSERT, Code::ISSUE, Code::COMPLETE];
        assert_eq!(ios, way);
        assert!(events.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert!(events.iter().all(|r| r.bytes == 0 || (r.sector, r.bytes) == (64, 4096)));
        assert_eq!(events.last().unwrap().at, Nanos::from_millis(9));
    }
}
