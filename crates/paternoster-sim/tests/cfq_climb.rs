// SPDX-License-Identifier: MIT OR Apache-2.0
//! CFQ-53: does `slice_idle` climb to where a device moves most?
//!
//! Kara's idea from seed 001, on models of the two devices that it was about: an array that several
//! readers keep busier than one, and a disk that they only make seek. Readers go on where they
//! were, 128 KiB at a time, the next request 20 us behind each end, in files of 1 GiB side by side.
//! (All over the disk, four of them complete fewer than the 100 requests a second that the climber
//! wants to see before it judges.) A window of the climber is 1 s.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paternoster::{
    Bio, ClientId, ClientSpec, Device, Limits, Nanos, Op, Output, RequestQueue, elevators,
};
use paternoster_sim::model::Model;
use paternoster_sim::{Simulated, catalog};

const SECTORS: u32 = 256;
const FILE: u64 = 1 << 21;
const THINK: Nanos = Nanos::from_micros(20);

/// Readers of a device under cfq.
struct Readers {
    device: Simulated<Box<dyn Model>>,
    queue: RequestQueue,
    clients: Vec<(ClientId, u64)>,
    due: BinaryHeap<Reverse<(Nanos, usize)>>,
}

impl Readers {
    fn new(device: &str, elevator: &str, count: usize) -> Readers {
        let description = catalog::by_name(device).expect("a device of ours").expect("sound");
        let device = Simulated::new(description.model());
        let elevator = elevators::by_name(elevator).expect("an elevator of ours");
        let facts = device.facts();
        let mut queue = RequestQueue::unobserved(facts, Limits::default(), elevator);
        let clients: Vec<(ClientId, u64)> = (0..count)
            .map(|number| (queue.attach(ClientSpec::new()).expect("room"), number as u64 * FILE))
            .collect();
        let due = (0..count).map(|number| Reverse((Nanos::ZERO, number))).collect();
        Readers { device, queue, clients, due }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.queue.set_attribute(self.device.now(), name, value).expect("an attribute of cfq");
    }

    fn slice_idle(&self) -> u64 {
        let mut shown = String::new();
        self.queue.show_attribute("slice_idle", &mut shown).expect("an attribute of cfq");
        shown.parse().expect("a number")
    }

    /// Until `end`.
    fn run(&mut self, end: Nanos) {
        while self.device.now() < end {
            let now = self.device.now();
            self.submit_what_is_due(now);
            let until = self.issue(now);
            let next = self.due.peek().map(|Reverse((at, _))| *at);
            let until = [until, next, Some(end)].into_iter().flatten().min();
            if let Some(done) = self.device.wait(until) {
                self.queue.complete(done.at, done.tag, done.outcome).expect("a command of ours");
            }
        }
    }

    fn submit_what_is_due(&mut self, now: Nanos) {
        while let Some(&Reverse((at, number))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            let (client, sector) = &mut self.clients[number];
            let bio = Bio::new(*client, Op::Read, *sector, SECTORS).cookie(number as u64);
            *sector += u64::from(SECTORS);
            self.queue.submit(now, bio).expect("a free request");
        }
    }

    /// Until when nothing more is to be had.
    fn issue(&mut self, now: Nanos) -> Option<Nanos> {
        loop {
            match self.queue.next(now) {
                Output::Issue(command) => self.device.submit(command).expect("room"),
                Output::Done(cookie, _) => {
                    let number = usize::try_from(cookie).expect("a reader's number");
                    self.due.push(Reverse((now + THINK, number)));
                }
                Output::Wake(_) => {}
                Output::Wait { until, .. } => return until,
            }
        }
    }
}

/// What `slice_idle` was at the end of each of twenty windows, from `start` ms on.
fn climb(device: &str, preset: &str, readers: usize, start: &str) -> [u64; 20] {
    let mut run = Readers::new(device, preset, readers);
    run.set("slice_idle", start);
    run.set("slice_idle_tuning", "1");
    let mut window = 0;
    [(); 20].map(|()| {
        window += 1;
        run.run(Nanos::from_secs(window));
        run.slice_idle()
    })
}

/// Given an array with eight sequential readers and 8 ms, is slice_idle at most 1 ms within twenty
/// windows, and does it stay there? Given a single disk with four and 0, at least 4? (It looks at
/// the other end of a plateau from time to time.)
#[test]
fn cfq_53_slice_idle_climbs() {
    for preset in ["cfq", "cfq-3.6", "cfq-4.19"] {
        let array = climb("array-eva", preset, 8, "8");
        assert!(array.iter().skip_while(|&&idle| idle > 1).all(|&idle| idle <= 1), "{array:?}");
        assert!(array[19] <= 1, "{preset}: {array:?}");
        let disk = climb("hdd-7200", preset, 4, "0");
        assert!(disk[19] >= 4, "{preset}: {disk:?}");
    }
}
