// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the library allocate once it is warm? It promises not to: capacities are fixed when a queue
//! is made.
//!
//! A global allocator counts allocations of the thread under test. Eight clients send 100,000 bios,
//! many of which are merged, through each elevator and back, observed and not. Pools run full on
//! the way, so that sleeping and waking are part of it. Two of them order the device's cache
//! (flushes, FUA, preflushed writes), so that sequences, writers and the throttle are, too.
//!
//! Debug builds run the audit after every call, which allocates: there this test only says that it
//! did nothing. `./test` runs it with `--release`. It is alone in its process because each process
//! has one allocator.

#[path = "../common/slices/mod.rs"]
mod slices;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use paternoster_core::elevator::Elevator;
use paternoster_core::{
    Bio, ClientId, ClientSpec, DeviceFacts, Event, Flags, Limits, Nanos, NoObserver, Note,
    Observer, Op, Outcome, Output, RequestQueue, Tag, Waiting,
};

const BIOS: u64 = 100_000;
const WARM_UP: u64 = 5_000;

thread_local! {
    /// Allocations of this thread while it counts; `None` while it does not.
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The system's allocator, counting.
struct Counting;

fn count() {
    // A thread that ends has no counter any more, and nothing to count.
    let _counted = COUNTED.try_with(|counted| counted.set(counted.get().map(|count| count + 1)));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only an initialised
// thread-local cell, which neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what it sees, and keeps nothing.
#[derive(Debug, Default)]
struct Tally(u64);

impl Observer for Tally {
    fn event(&mut self, _: &Event) {
        self.0 += 1;
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {
        self.0 += 1;
    }
}

/// A caller that keeps the device full and its clients busy, in fixed memory.
struct Caller<O: Observer> {
    queue: RequestQueue<O>,
    clients: [ClientId; 8],
    asleep: [bool; 8],
    /// Bios of each client so far.
    own: [u64; 8],
    inside: [Option<Tag>; 4],
    now: Nanos,
    sent: u64,
    ended: u64,
    slept: u64,
    merged: u64,
    flushes: u64,
    /// Waits because of debts.
    owed: u64,
}

impl<O: Observer> Caller<O> {
    fn new(elevator: Box<dyn Elevator>, observer: O) -> Caller<O> {
        let facts = DeviceFacts {
            depth: 4,
            rotational: true,
            write_cache: true,
            flush_queueable: false,
            ..DeviceFacts::default()
        };
        let limits = Limits { requests: 48, bios: 128, clients: 8, groups: 2, notes: 64 };
        let mut queue = RequestQueue::builder(facts, elevator)
            .limits(limits)
            .observer(observer)
            .build()
            .expect("its limits work");
        let attach =
            |_| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there are eight places");
        let clients = [0; 8].map(attach);
        Caller {
            queue,
            clients,
            asleep: [false; 8],
            own: [0; 8],
            inside: [None; 4],
            now: Nanos::ZERO,
            sent: 0,
            ended: 0,
            slept: 0,
            merged: 0,
            flushes: 0,
            owed: 0,
        }
    }

    /// The next bio: two of three continue their client's last, so that they merge.
    fn bio(&self, client: usize) -> Bio {
        let op = if client < 5 { Op::Read } else { Op::Write };
        let number = self.own[client];
        let jump = (number / 3).wrapping_mul(7919) % 1000;
        let sector = (client as u64) * 10_000_000 + jump * 64 + (number % 3) * 8;
        let bio = Bio::new(self.clients[client], op, sector, 8);
        let bio = match (client, number % 4) {
            (6, 1) => Bio::flush(self.clients[client]),
            (7, 1) => bio.flags(Flags::FUA),
            (7, 3) => bio.flags(Flags::FUA | Flags::PREFLUSH),
            _ => bio,
        };
        bio.cookie(self.sent)
    }

    /// Its next bio; the same one again if it had to sleep.
    fn send(&mut self, client: usize) {
        let bio = self.bio(client);
        self.sent += 1;
        if self.queue.submit(self.now, bio).is_ok() {
            self.own[client] += 1;
        } else {
            self.slept += 1;
            self.asleep[client] = true;
        }
    }

    fn pump(&mut self) {
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => {
                    self.merged += u64::from(command.sectors > 8);
                    self.flushes += u64::from(command.op == Op::Flush);
                    self.inside[command.tag.index() as usize] = Some(command.tag);
                }
                Output::Done(..) => self.ended += 1,
                Output::Wake(id) => {
                    let same = |client: &ClientId| *client == id;
                    let client = self.clients.iter().position(same).expect("it is one of them");
                    self.asleep[client] = false;
                    if client >= 6 {
                        // A client that waits for its turn in a round finds its tag taken.
                        self.send(client);
                    }
                }
                Output::Wait { until, why } => {
                    self.owed += u64::from(why == Waiting::Throttled);
                    let later = self.now + Nanos::from_micros(100);
                    self.now =
                        if self.queue.in_device() > 0 { later } else { until.unwrap_or(later) };
                    return;
                }
            }
        }
    }

    /// Runs until this many more bios have ended.
    fn run(&mut self, bios: u64) {
        let goal = self.ended + bios;
        let mut round = 0;
        while self.ended < goal {
            round += 1;
            for client in (0..8).filter(|&client| round % 8 != client as u64) {
                if self.asleep[client] {
                    continue;
                }
                let id = self.clients[client];
                let plugged = self.sent.is_multiple_of(3) && self.queue.plug(self.now, id).is_ok();
                self.send(client);
                if plugged {
                    self.queue.unplug(self.now, id).expect("the client is here");
                }
            }
            self.pump();
            let slot = usize::try_from(round % 4).unwrap_or(0);
            if let Some(tag) = self.inside[slot].take() {
                self.queue.complete(self.now, tag, Outcome::OK).expect("it is in the device");
            }
            self.pump();
        }
    }
}

/// Allocations of `BIOS` bios after the warm-up.
fn allocations<O: Observer>(elevator: Box<dyn Elevator>, observer: O) -> u64 {
    let name = elevator.traits().name;
    let mut caller = Caller::new(elevator, observer);
    caller.run(WARM_UP);
    COUNTED.set(Some(0));
    caller.run(BIOS);
    let counted = COUNTED.take().unwrap_or(0);
    let Caller { sent, ended, slept, merged, flushes, owed, .. } = caller;
    println!("{name}: {sent} sent, {ended} ended, {slept} slept, {merged} merged commands");
    println!("{name}: {flushes} flushes, {owed} waits for debts");
    assert!(slept > 100 && merged > 1000, "{name}: no pool ran full, or nothing was merged");
    // bfq-4.19 raises the readers so far that clients that flush are throttled most of the time.
    assert!(flushes >= 5, "{name}: hardly a flush");
    counted
}

/// Is the count of allocations zero, for each elevator, observed or not?
#[test]
fn nothing_is_allocated_once_warm() {
    if cfg!(debug_assertions) {
        eprintln!(
            "skipped: nothing_is_allocated_once_warm: debug builds audit, and allocate for it"
        );
        return;
    }
    let mut makes: Vec<fn() -> Box<dyn Elevator>> =
        paternoster_schedulers::ALL.iter().map(|e| e.make).collect();
    makes.push(|| Box::new(slices::Slices::new()));
    for make in makes {
        let name = make().traits().name;
        assert_eq!(allocations(make(), NoObserver), 0, "{name}, unobserved");
        assert_eq!(allocations(make(), Tally::default()), 0, "{name}, observed");
    }
}

/// Does the counter count?
#[test]
fn the_counter_counts() {
    COUNTED.set(Some(0));
    let kept = std::hint::black_box(Box::new(7));
    assert_eq!(COUNTED.take(), Some(1));
    drop(kept);
}
