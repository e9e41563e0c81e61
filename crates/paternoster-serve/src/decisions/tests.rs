// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of records: a random loop makes random calls on a recorded queue; another queue repeats
//! them from the record.
//!
//! The loop attaches and detaches, adds and removes groups, changes weights, attributes and
//! elevators, submits bios of all kinds, completes, fails, refuses and cancels, and now and then
//! uses a handle that has gone. The device accepts every command.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use paternoster_core::{
    Bio, Class, ClientId, ClientSpec, Command, DeviceFacts, Flags, GroupId, GroupSpec, Limits,
    Nanos, NoObserver, Op, Outcome, Output, Priority, Tag, Ticket,
};
use proptest::prelude::*;

use super::block::BlockWriter;
use super::*;
use crate::recorded_queue::RecordedQueue;
use crate::stats::Stats;

/// A sink whose bytes can be had afterwards.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kept {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

const LIMITS: Limits = Limits { requests: 24, bios: 40, clients: 5, groups: 4, notes: 64 };

fn facts(queueable: bool) -> DeviceFacts {
    DeviceFacts {
        capacity: 1 << 20,
        depth: 4,
        write_cache: true,
        fua: queueable,
        flush_queueable: queueable,
        rotational: queueable,
        ..DeviceFacts::default()
    }
}

/// A loop whose actions are drawn from numbers.
struct DeviceLoop {
    recorded_queue: RecordedQueue<Stats>,
    now: Nanos,
    clients: Vec<ClientId>,
    groups: Vec<GroupId>,
    /// In the device, and some that were.
    tags: Vec<Tag>,
    tickets: Vec<Ticket>,
    cookie: u64,
    dispatched: Vec<Dispatch>,
}

/// Picks one of several values, old or new.
fn one_of<T: Copy>(all: &[T], which: u32) -> Option<T> {
    (!all.is_empty()).then(|| all[which as usize % all.len()])
}

fn dispatch_of(at: Nanos, command: &Command) -> Dispatch {
    let Command { op, sector, sectors, flags, client, .. } = *command;
    let client = (!client.is_nobody()).then(|| client.index());
    Dispatch { at, op, sector, sectors, flags, client }
}

impl DeviceLoop {
    fn new(elevator: &str, facts: DeviceFacts, sink: &Kept) -> DeviceLoop {
        let elevator = paternoster_schedulers::by_name(elevator).unwrap();
        let mut recorded_queue =
            RecordedQueue::new(facts, LIMITS, elevator, Stats::new(&LIMITS)).unwrap();
        recorded_queue.record(Box::new(sink.clone())).unwrap();
        DeviceLoop {
            recorded_queue,
            now: Nanos::ZERO,
            clients: Vec::new(),
            groups: Vec::new(),
            tags: Vec::new(),
            tickets: Vec::new(),
            cookie: 0,
            dispatched: Vec::new(),
        }
    }

    /// Asks until there is nothing to do, a few times too often.
    fn dispatch(&mut self) {
        for _ in 0..200 {
            match self.recorded_queue.next(self.now) {
                Output::Issue(command) => {
                    self.dispatched.push(dispatch_of(self.now, &command));
                    self.tags.push(command.tag);
                }
                Output::Wait { .. } => break,
                _ => {}
            }
        }
        let _the_same = self.recorded_queue.next(self.now);
        let _and_again = self.recorded_queue.next(self.now);
    }

    fn bio(&self, client: ClientId, a: u32, b: u32) -> Bio {
        let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::Discard, Op::Flush][a as usize % 6];
        let flags = [
            Flags::NONE,
            Flags::NONE,
            Flags::SYNC,
            Flags::FUA,
            Flags::PREFLUSH | Flags::FUA,
            Flags::NOMERGE,
        ][b as usize % 6];
        if op == Op::Flush {
            return Bio::flush(client).cookie(self.cookie);
        }
        // Now and then beyond the end, or too large.
        let sector = u64::from(a / 6 % 1024) * 8 + u64::from(b % 64 / 63) * (1 << 20);
        let sectors = if a.is_multiple_of(97) { 5000 } else { 8 };
        let flags = if op == Op::Write { flags } else { Flags::NONE };
        let mut bio = Bio::new(client, op, sector, sectors).flags(flags).cookie(self.cookie);
        if b.is_multiple_of(11) {
            bio.priority = Some(Priority { class: Class::Realtime, level: 1 });
        }
        bio
    }

    fn submit(&mut self, a: u32, b: u32) {
        let Some(client) = one_of(&self.clients, b / 6) else { return };
        self.cookie += 3;
        if let Ok(ticket) = self.recorded_queue.submit(self.now, self.bio(client, a, b)) {
            self.tickets.push(ticket);
        }
    }

    fn complete(&mut self, a: u32, b: u32) {
        let Some(tag) = one_of(&self.tags, a) else { return };
        if !b.is_multiple_of(8) {
            self.tags.retain(|&other| other != tag);
        }
        let outcome = match b % 5 {
            0 => Outcome::failed(libc::EIO),
            1 => Outcome::OK.served(Nanos(u64::from(b))),
            _ => Outcome::OK,
        };
        let _stale = if b.is_multiple_of(13) {
            self.recorded_queue.requeue(self.now, tag)
        } else {
            self.recorded_queue.complete(self.now, tag, outcome)
        };
    }

    fn arrange(&mut self, a: u32, b: u32) {
        let (client, group) = (one_of(&self.clients, b), one_of(&self.groups, b / 7));
        match (a % 12, client, group) {
            (0..=2, _, None) => self.attach(ClientSpec::new().pid(b).weight(b % 900)),
            (0..=2, _, Some(group)) => self.attach(ClientSpec::new().group(group)),
            (3, Some(client), _) => {
                let _stale = self.recorded_queue.detach(self.now, client);
            }
            (4, _, group) => {
                let spec = GroupSpec::new().weight(b);
                let spec =
                    group.filter(|_| b.is_multiple_of(2)).map_or(spec, |group| spec.parent(group));
                self.groups.extend(self.recorded_queue.add_group(self.now, spec));
            }
            (5, _, Some(group)) => {
                let _in_use = self.recorded_queue.remove_group(self.now, group);
            }
            (6, _, Some(group)) => {
                let _stale = self.recorded_queue.set_group_weight(self.now, group, b % 1000);
            }
            (7, Some(client), Some(group)) => {
                let _gone = self.recorded_queue.move_client(self.now, client, group);
            }
            (8, Some(client), _) => {
                let level = u8::try_from(b % 9).unwrap();
                let priority = Priority { class: Class::BestEffort, level };
                let _stale = self.recorded_queue.set_priority(self.now, client, priority, b % 1000);
            }
            (9, Some(client), _) if b.is_multiple_of(2) => {
                let _stale = self.recorded_queue.plug(self.now, client);
            }
            (9, Some(client), _) => {
                let _stale = self.recorded_queue.unplug(self.now, client);
            }
            (10, ..) => {
                let (name, text) = ATTRIBUTES[b as usize % ATTRIBUTES.len()];
                let _refused = self.recorded_queue.set_attribute(self.now, name, text);
            }
            (11, ..) if b.is_multiple_of(3) => {
                let name = paternoster_schedulers::ALL
                    [b as usize / 3 % paternoster_schedulers::ALL.len()]
                .name;
                self.recorded_queue.change_elevator(self.now, name).unwrap();
            }
            (11, ..) if b % 3 == 1 => {
                let _how_many = self.recorded_queue.dispatch_all(self.now);
            }
            _ => self.cancel(b),
        }
    }

    fn attach(&mut self, spec: ClientSpec) {
        self.clients.extend(self.recorded_queue.attach(self.now, spec));
    }

    fn cancel(&mut self, which: u32) {
        if let Some(ticket) = one_of(&self.tickets, which) {
            let _too_late = self.recorded_queue.cancel(self.now, ticket);
        }
    }

    fn act(&mut self, (kind, a, b): (u8, u32, u32)) {
        self.now += Nanos([0, 0, 700, 90_000, 5_000_000][b as usize % 5]);
        match kind % 8 {
            0..=2 => self.submit(a, b),
            3 | 4 => self.complete(a, b),
            5 => self.arrange(a, b),
            _ => self.dispatch(),
        }
    }
}

const ATTRIBUTES: [(&str, &str); 7] = [
    ("nr_requests", "8"),
    ("nomerges", "2"),
    ("iosched/slice_idle", "0"),
    ("hz", "250"),
    ("rules", "mq"),
    ("queue_depth", "1"),
    ("nothing", "x"),
];

type Acts = Vec<(u8, u32, u32)>;

/// What a loop did, and its record.
fn recorded(elevator: &str, queueable: bool, acts: &Acts) -> (Vec<Dispatch>, RecordState, Vec<u8>) {
    let sink = Kept::default();
    let mut device_loop = DeviceLoop::new(elevator, facts(queueable), &sink);
    device_loop.attach(ClientSpec::new().pid(77));
    device_loop.attach(ClientSpec::new().weight(300));
    for &act in acts {
        device_loop.act(act);
    }
    device_loop.dispatch();
    let state = device_loop.recorded_queue.finish_record().unwrap().unwrap();
    (device_loop.dispatched, state, sink.bytes())
}

/// The dispatch order of a replay.
fn replayed(bytes: &[u8]) -> (Result<Replayed, ReplayError>, Vec<Dispatch>) {
    let mut order = Vec::new();
    let mut keep = |step, _: &mut NoObserver| {
        if let Step::Dispatched(dispatch) = step {
            order.push(dispatch);
        }
    };
    let result = replay_with(bytes, |_| NoObserver, &mut keep);
    (result, order)
}

fn acts() -> impl Strategy<Value = Acts> {
    prop::collection::vec((any::<u8>(), any::<u32>(), any::<u32>()), 1..400)
}

fn elevator() -> impl Strategy<Value = &'static str> {
    (0..paternoster_schedulers::ALL.len()).prop_map(|place| paternoster_schedulers::ALL[place].name)
}

/// A fixed record of some length.
fn example() -> Vec<u8> {
    let mut state = 12_345_u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let acts = (0..300).map(|_| (u8::try_from(draw() & 0xff).unwrap(), draw(), draw())).collect();
    recorded("bfq", true, &acts).2
}

/// Where the payload of the only block of calls begins, and its length.
fn payload(record: &[u8]) -> (usize, usize) {
    let length = |at: usize| u32::from_le_bytes(record[at + 1..at + 5].try_into().unwrap());
    let calls = 8 + block::HEAD + length(8) as usize;
    assert_eq!(record[calls], 2, "the second block is one of calls");
    (calls + block::HEAD, length(calls) as usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Is a recorded run repeated with the identical dispatch order, whatever the loop did?
    #[test]
    fn a_record_gives_the_identical_dispatch_order(
        (elevator, queueable, acts) in (elevator(), any::<bool>(), acts())
    ) {
        let (dispatched, state, bytes) = recorded(elevator, queueable, &acts);
        let (result, order) = replayed(&bytes);
        let result = result.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(result.end, End::Complete);
        prop_assert_eq!(result.calls, state.calls);
        prop_assert_eq!(result.commands, dispatched.len() as u64);
        prop_assert_eq!(order, dispatched);
    }

    /// Is one changed byte noticed, anywhere?
    #[test]
    fn a_changed_byte_is_noticed(place in any::<prop::sample::Index>(), by in 1u8..) {
        let mut bytes = example();
        let at = place.index(bytes.len());
        bytes[at] ^= by;
        match replayed(&bytes).0 {
            Err(_) => {}
            // A length that reaches beyond the end of the file.
            Ok(replayed) => prop_assert!(matches!(replayed.end, End::BrokenOff(_))),
        }
    }

    /// Does a record whose end is missing report that, and is the rest as it was?
    #[test]
    fn a_record_without_its_end_is_repeated_so_far(place in any::<prop::sample::Index>()) {
        let bytes = example();
        let cut = place.index(bytes.len());
        match replayed(&bytes[..cut]).0 {
            Err(ReplayError::File(_)) => prop_assert!(cut < payload(&bytes).0),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
            Ok(replayed) => prop_assert!(matches!(replayed.end, End::BrokenOff(_))),
        }
    }

    /// Do calls that were never made, in sound blocks, only ever give an error?
    #[test]
    fn garbage_in_sound_blocks_is_harmless(
        (at, by, garbage) in (any::<prop::sample::Index>(), 1u8.., any::<Vec<u8>>())
    ) {
        let bytes = example();
        let (begin, length) = payload(&bytes);
        let mut calls = bytes[begin..begin + length].to_vec();
        let at = at.index(length);
        calls[at] ^= by;
        for calls in [calls, garbage] {
            let header = Header {
                program: "0".to_owned(),
                elevator: "bfq".to_owned(),
                facts: facts(true),
                limits: LIMITS,
            };
            let mut file = Vec::new();
            let mut writer = BlockWriter::new(&mut file, &header).unwrap();
            writer.calls(&calls).unwrap();
            let _whatever = replayed(&file);
        }
    }
}

/// Does a difference name the call, its place and time, the recorded answer and the new one?
#[test]
fn a_difference_is_told() {
    let header = Header {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        elevator: "noop".to_owned(),
        facts: facts(true),
        limits: LIMITS,
    };
    let mut file = Vec::new();
    let mut writer = BlockWriter::new(&mut file, &header).unwrap();
    // At 5 ns `next` answered to wake no client: code 4 with bit 7, a step of 5 is 10, no client is
    // 0.
    writer.calls(&[4 | 0x80, 10, 0]).unwrap();
    let error = replay(&file[..]).unwrap_err();
    // Magic 8; a head of 13; texts of 1 + version and 1 + 4; numbers of 3, 1, 2, 2; 4 flags; 5
    // limits; a head of 13.
    let byte = 8 + 13 + (1 + header.program.len()) + 5 + 8 + 4 + 5 + 13;
    let told = "next: recorded was `wake client nobody`, now came `wait (Empty)`";
    assert_eq!(error.to_string(), format!("call 0 (byte {byte}, at 5 ns), {told}"));
}

/// Are a foreign file, another version and an unknown scheduler refused with their names?
#[test]
fn what_is_no_record_is_refused() {
    let told = |bytes: &[u8]| replay(bytes).unwrap_err().to_string();
    assert_eq!(told(b"[Unit]\n"), "it is no record of decisions, which begins with `PATERND`");
    let version = "it is a record of version 9; this program reads version 1";
    assert_eq!(told(b"PATERND\x09"), version);
    let (program, elevator) = ("1".to_owned(), "anticipatory".to_owned());
    let header = Header { program, elevator, facts: facts(true), limits: LIMITS };
    let mut file = Vec::new();
    BlockWriter::new(&mut file, &header).unwrap();
    let elevator = "its scheduler `anticipatory` is none that this program has";
    assert_eq!(told(&file), elevator);
    let limits = Limits { requests: u32::MAX, ..LIMITS };
    let mut file = Vec::new();
    BlockWriter::new(&mut file, &Header { limits, ..header }).unwrap();
    let large = "the number of requests of the queue is 4294967295; a record allows 1048576";
    assert_eq!(told(&file), large);
}

/// Is a record refused that would begin in the middle, or a second one?
#[test]
fn a_record_begins_with_its_queue() {
    let elevator = || paternoster_schedulers::by_name("noop").unwrap();
    let mut recorded_queue =
        RecordedQueue::new(facts(true), LIMITS, elevator(), NoObserver).unwrap();
    assert!(matches!(recorded_queue.next(Nanos::ZERO), Output::Wait { .. }));
    let begun = recorded_queue.record(Box::new(io::sink())).unwrap_err();
    let told = "calls have been made already; a record begins with its queue";
    assert_eq!(begun.to_string(), told);
    let mut recorded_queue =
        RecordedQueue::new(facts(true), LIMITS, elevator(), NoObserver).unwrap();
    recorded_queue.record(Box::new(io::sink())).unwrap();
    assert!(matches!(recorded_queue.record(Box::new(io::sink())), Err(RecordError::Already)));
}

/// Makes `count` calls that are answered differently each time.
fn many_calls(recorded_queue: &mut RecordedQueue<NoObserver>, count: u64, apart: Nanos) {
    for at in 0..count {
        assert!(matches!(recorded_queue.next(Nanos(at * apart.0)), Output::Wait { .. }));
    }
}

/// Does a record end with a mark before it is too large, while serving goes on?
#[test]
fn a_full_record_is_cut() {
    let sink = Kept::default();
    let elevator = paternoster_schedulers::by_name("noop").unwrap();
    let mut recorded_queue = RecordedQueue::new(facts(true), LIMITS, elevator, NoObserver).unwrap();
    recorded_queue.record_at_most(Box::new(sink.clone()), 10_000).unwrap();
    many_calls(&mut recorded_queue, 100_000, Nanos(1000));
    let state = recorded_queue.finish_record().unwrap().unwrap();
    assert_eq!(state.cut, Some(Cut::Full));
    // A call is at least 4 bytes: code, a step of 1000 ns in two, reason.
    assert!(sink.bytes().len() <= 10_000 && state.calls > 2000, "{state:?}");
    let replayed = replay(&sink.bytes()[..]).unwrap();
    assert_eq!((replayed.end, replayed.calls), (End::Cut(Cut::Full), state.calls));
}

/// Writes only when it is let.
struct Stuck(Receiver<()>, Kept);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Let go of for good when the other side has gone.
        let _gone = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Does the loop not wait for a disk that hangs, and is what the disk has taken in the end a sound
/// record?
#[test]
fn a_slow_disk_cuts_the_record() {
    let (let_go, stuck) = channel();
    let sink = Kept::default();
    let elevator = paternoster_schedulers::by_name("noop").unwrap();
    let mut recorded_queue = RecordedQueue::new(facts(true), LIMITS, elevator, NoObserver).unwrap();
    recorded_queue.record(Box::new(Stuck(stuck, sink.clone()))).unwrap();
    // More than 4 MiB at 8 bytes: steps of 2^40 ns take six.
    many_calls(&mut recorded_queue, 600_000, Nanos(1 << 40));
    assert_eq!(recorded_queue.recorded().unwrap().cut, Some(Cut::Slow));
    drop(let_go);
    let state = recorded_queue.finish_record().unwrap().unwrap();
    let replayed = replay(&sink.bytes()[..]).unwrap();
    assert_eq!((replayed.end, replayed.calls), (End::Cut(Cut::Slow), state.calls));
}

/// Is a failing disk reported at the end, and does serving go on?
#[test]
fn a_failing_disk_is_told_of() {
    struct Failing;
    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let elevator = paternoster_schedulers::by_name("noop").unwrap();
    let mut recorded_queue = RecordedQueue::new(facts(true), LIMITS, elevator, NoObserver).unwrap();
    recorded_queue.record(Box::new(Failing)).unwrap();
    many_calls(&mut recorded_queue, 100, Nanos(1000));
    assert_eq!(recorded_queue.finish_record().unwrap_err().kind(), io::ErrorKind::StorageFull);
}

/// Bytes of a record for each of many random reads of 4 KiB, of 2 clients at `depth` together on
/// a device that takes 100 us and up to 31 us more.
fn bytes_per_request(elevator: &str, depth: u32) -> f64 {
    const REQUESTS: u32 = 1000;
    let facts = DeviceFacts { depth: 32, ..DeviceFacts::default() };
    let elevator = paternoster_schedulers::by_name(elevator).unwrap();
    let mut recorded_queue =
        RecordedQueue::new(facts, Limits::default(), elevator, NoObserver).unwrap();
    let sink = Kept::default();
    recorded_queue.record(Box::new(sink.clone())).unwrap();
    let clients = [(); 2].map(|()| recorded_queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap());
    let (mut now, mut number, mut inside) = (Nanos(0), 0u32, Vec::new());
    let mut free: Vec<u32> = (0..depth).collect();
    while number < REQUESTS {
        // The cookie is the slot of the request, as a loop has it.
        while let Some(slot) = free.pop() {
            let sector = u64::from(number.wrapping_mul(2_654_435_761) >> 4) * 8;
            let bio = Bio::new(clients[slot as usize % 2], Op::Read, sector, 8);
            recorded_queue.submit(now, bio.cookie(slot.into())).unwrap();
            number += 1;
        }
        let until = loop {
            match recorded_queue.next(now) {
                Output::Issue(command) => {
                    inside.push((now.0 + 100_000 + command.sector % 31_001, command.tag));
                }
                Output::Done(cookie, _) => free.push(u32::try_from(cookie).unwrap()),
                Output::Wait { until, .. } => break until,
                Output::Wake(_) => {}
            }
        };
        inside.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        match inside.last() {
            Some(&(at, tag)) if until.is_none_or(|until| at <= until.0) => {
                inside.pop();
                now = Nanos(at);
                recorded_queue.complete(now, tag, Outcome::OK).unwrap();
            }
            _ => now = until.unwrap_or(now).max(now),
        }
    }
    recorded_queue.finish_record().unwrap();
    let bytes = sink.bytes();
    replay(&bytes[..]).unwrap();
    bytes.len() as f64 / f64::from(number)
}

/// How large is a record? What `docs/serve/recording.md` says: below 50 bytes for a request.
#[test]
fn a_request_takes_few_bytes() {
    for elevator in ["noop", "mq-deadline", "kyber", "bfq"] {
        for depth in [1, 32] {
            let bytes = bytes_per_request(elevator, depth);
            println!("{elevator}, {depth} under way: {bytes:.1} bytes for a request");
            assert!(bytes < 50.0, "{elevator}, depth {depth}: {bytes}");
        }
    }
}
