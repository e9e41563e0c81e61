// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rig of the benches: a queue kept full, so that each turn takes one request all the way
//! through.
//!
//! One turn: the oldest command in the device ends, its bios come back, each is submitted anew at a
//! random place, and the queue is asked until it waits. It counts bios, which are what a client
//! sees. A bio comes back from the client that it was submitted for, or, if clients *roam*, from
//! any of them; where the queue then keeps the device free on purpose, time goes on until it does
//! no longer.

use std::collections::VecDeque;

use paternoster_core::{
    Bio, ClientId, ClientSpec, DeviceFacts, Limits, Nanos, Op, Outcome, Output, RequestQueue, Tag,
};

/// What the queue is kept full with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) clients: u32,
    /// Bios of all of them.
    pub(crate) waiting: u32,
    /// Bios that continue their client's last one, in 256.
    pub(crate) sequential: u64,
    /// Whether no two of 16 clients weigh the same.
    pub(crate) weighted: bool,
    /// Whether each bio is any client's.
    pub(crate) roaming: bool,
}

impl Load {
    /// Sixteen clients with eight bios each, at random places.
    pub(crate) const fn sixteen() -> Load {
        Load { clients: 16, waiting: 128, sequential: 0, weighted: false, roaming: false }
    }
}

/// With weights: sixteen different ones in turn.
fn spec(nth: u32, load: Load) -> ClientSpec {
    if load.weighted { ClientSpec::new().weight(50 + 25 * (nth % 16)) } else { ClientSpec::new() }
}

/// A queue under constant load.
#[derive(Debug)]
pub(crate) struct Rig {
    queue: RequestQueue,
    in_device: VecDeque<Tag>,
    clients: Vec<ClientId>,
    now: Nanos,
    random: u64,
    streams: Vec<u64>,
    load: Load,
    /// When the queue would go on by itself.
    until: Option<Nanos>,
}

impl Rig {
    /// A device that takes 32 commands.
    pub(crate) fn new(scheduler: &str, load: Load) -> Rig {
        let Load { clients, waiting, .. } = load;
        let facts = DeviceFacts { depth: 32, ..DeviceFacts::default() };
        // Twice what waits, in each of two pools up to its hard stop.
        let nominal = (2 * waiting).clamp(256, 10_240);
        let requests = 3 * nominal;
        let limits = Limits { requests, bios: 2 * nominal + 1536, clients, ..Limits::default() };
        let elevator = paternoster_schedulers::by_name(scheduler).expect("a scheduler of ours");
        let mut queue =
            RequestQueue::builder(facts, elevator).limits(limits).build().expect("its limits work");
        let nominal = nominal.to_string();
        queue.set_attribute(Nanos::ZERO, "nr_requests", &nominal).expect("there is room");
        if matches!(scheduler, "bfq" | "paternoster") {
            // With so many weights a client's share of the requests is less than it has here.
            queue.set_attribute(Nanos::ZERO, "iosched/tag_shares", "0").expect("it has that");
        }
        let clients: Vec<ClientId> = (0..clients)
            .map(|nth| queue.attach(Nanos::ZERO, spec(nth, load)).expect("there is room"))
            .collect();
        let mut rig = Rig {
            queue,
            in_device: VecDeque::with_capacity(64),
            streams: vec![0; clients.len()],
            clients,
            now: Nanos::ZERO,
            random: 88_172_645_463_325_252,
            load,
            until: None,
        };
        for nth in 0..waiting {
            rig.submit(u64::from(nth) % rig.clients.len() as u64);
        }
        rig.drive();
        rig
    }

    /// Sets an attribute of the scheduler.
    #[allow(dead_code, reason = "not every user of the rig sets one")]
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let path = format!("iosched/{name}");
        self.queue.set_attribute(self.now, &path, value).expect("the scheduler has that");
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
        let sector = if draw & 0xff < self.load.sequential {
            self.streams[place]
        } else {
            (draw >> 16) % (1 << 27) * 8
        };
        self.streams[place] = sector + 8;
        let bio = Bio::new(self.clients[place], Op::Read, sector, 8).cookie(client);
        self.queue.submit(self.now, bio).expect("the rig stays within the pools");
    }

    /// Asks until the queue waits; a bio that has ended is submitted again. Returns how many have
    /// ended.
    fn drive(&mut self) -> u64 {
        let mut ended = 0;
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => self.in_device.push_back(command.tag),
                Output::Done(cookie, _) => {
                    ended += 1;
                    let any = self.load.roaming.then(|| self.draw() % u64::from(self.load.clients));
                    self.submit(any.unwrap_or(cookie));
                }
                Output::Wake(_) => {}
                Output::Wait { until, .. } => {
                    self.until = until;
                    return ended;
                }
            }
        }
    }

    /// Turns until `bios` have come back.
    pub(crate) fn turn(&mut self, bios: u64) {
        let mut ended = 0;
        while ended < bios {
            self.now += Nanos::from_micros(10);
            while self.in_device.is_empty() {
                self.now = self.until.expect("who keeps the device free says until when");
                ended += self.drive();
            }
            let tag = self.in_device.pop_front().expect("it is not empty");
            let outcome = Outcome::OK;
            self.queue.complete(self.now, tag, outcome).expect("the rig ends each once");
            ended += self.drive();
        }
    }
}
