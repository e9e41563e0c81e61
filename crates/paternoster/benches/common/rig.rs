// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rig of the benches: a queue kept full, so that each turn is one request's whole way.
//!
//! One turn: the oldest command in the device ends, its bios come back, each is submitted anew at
//! a random place, and the queue is asked until it waits. Counted are bios, which is what a
//! client sees.

use std::collections::VecDeque;

use paternoster::{
    Bio, ClientId, ClientSpec, DeviceFacts, Limits, Nanos, Op, Outcome, Output, RequestQueue, Tag,
    elevators,
};

/// A queue under constant load.
#[derive(Debug)]
pub(crate) struct Rig {
    queue: RequestQueue,
    in_device: VecDeque<Tag>,
    clients: Vec<ClientId>,
    now: Nanos,
    random: u64,
    streams: Vec<u64>,
    /// Bios that continue their client's last one, in 256.
    sequential: u64,
}

impl Rig {
    /// `clients` clients with `waiting` bios between them, on a device that takes 32 commands.
    pub(crate) fn new(scheduler: &str, clients: u32, waiting: u32, sequential: u64) -> Rig {
        let facts = DeviceFacts { depth: 32, ..DeviceFacts::default() };
        // Twice what waits, in each of two pools up to its hard stop.
        let nominal = (2 * waiting).clamp(256, 10_240);
        let requests = 3 * nominal;
        let limits = Limits { requests, bios: 2 * nominal + 1536, clients, ..Limits::default() };
        let elevator = elevators::by_name(scheduler).expect("a scheduler of ours");
        let mut queue = RequestQueue::unobserved(facts, limits, elevator);
        let nominal = nominal.to_string();
        queue.set_attribute(Nanos::ZERO, "nr_requests", &nominal).expect("there is room");
        let clients: Vec<ClientId> =
            (0..clients).map(|_| queue.attach(ClientSpec::new()).expect("there is room")).collect();
        let mut rig = Rig {
            queue,
            in_device: VecDeque::with_capacity(64),
            streams: vec![0; clients.len()],
            clients,
            now: Nanos::ZERO,
            random: 88_172_645_463_325_252,
            sequential,
        };
        for nth in 0..waiting {
            rig.submit(u64::from(nth) % rig.clients.len() as u64);
        }
        rig.drive();
        rig
    }

    /// xorshift64 (Marsaglia 2003): cheap enough not to be measured.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn submit(&mut self, client: u64) {
        let draw = self.draw();
        let place = usize::try_from(client).expect("a small number");
        let sector = if draw & 0xff < self.sequential {
            self.streams[place]
        } else {
            (draw >> 16) % (1 << 27) * 8
        };
        self.streams[place] = sector + 8;
        let bio = Bio::new(self.clients[place], Op::Read, sector, 8).cookie(client);
        self.queue.submit(self.now, bio).expect("the rig stays within the pools");
    }

    /// Asks until the queue waits; what comes back is submitted anew. Returns how many bios came
    /// back.
    fn drive(&mut self) -> u64 {
        let mut ended = 0;
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => self.in_device.push_back(command.tag),
                Output::Done(cookie, _) => {
                    ended += 1;
                    self.submit(cookie);
                }
                Output::Wake(_) => {}
                Output::Wait { .. } => return ended,
            }
        }
    }

    /// Turns until `bios` have come back.
    pub(crate) fn turn(&mut self, bios: u64) {
        let mut ended = 0;
        while ended < bios {
            self.now += Nanos::from_micros(10);
            let tag = self.in_device.pop_front().expect("the device is never empty");
            let outcome = Outcome::OK;
            self.queue.complete(self.now, tag, outcome).expect("the rig ends each once");
            ended += self.drive();
        }
    }
}
