// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storms: everything that may happen, at random, with everything counted again after each step.
//! BFQ-198, BFQ-G13, scenario 18.
//! Few slots and many processes, so that queues merge and part all the time, processes come and go
//! and change groups and classes, turns end for every reason, and the device refuses some requests.

use alloc::vec;

use proptest::prelude::*;

use super::super::entity::delta;
use super::*;

/// One thing that happens. Numbers choose among what exists.
#[derive(Debug, Clone, Copy)]
enum Step {
    Read { who: u8, place: u8, near: u8, sectors: u8 },
    Write { who: u8, place: u8, sync: bool },
    Pick,
    End { which: u8 },
    Refuse { which: u8 },
    Withdraw { which: u8 },
    Pass { us: u32 },
    Move { who: u8, group: u8 },
    Change { who: u8, class: u8, level: u8 },
    Leave { who: u8 },
    Come,
    Set { which: u8, value: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = any::<u8>;
    let step = prop_oneof![
        8 => (number(), number(), number(), 1..=200u8)
            .prop_map(|(who, place, near, sectors)| Step::Read { who, place, near, sectors }),
        3 => (number(), number(), any::<bool>())
            .prop_map(|(who, place, sync)| Step::Write { who, place, sync }),
        10 => Just(Step::Pick),
        8 => number().prop_map(|which| Step::End { which }),
        1 => number().prop_map(|which| Step::Refuse { which }),
        1 => number().prop_map(|which| Step::Withdraw { which }),
        5 => prop_oneof![0..2000u32, 0..20_000u32, 0..3_000_000u32]
            .prop_map(|us| Step::Pass { us }),
        1 => (number(), number()).prop_map(|(who, group)| Step::Move { who, group }),
        1 => (number(), number(), 0..8u8)
            .prop_map(|(who, class, level)| Step::Change { who, class, level }),
        1 => number().prop_map(|who| Step::Leave { who }),
        1 => Just(Step::Come),
        1 => (number(), number()).prop_map(|(which, value)| Step::Set { which, value }),
    ];
    prop::collection::vec(step, 1..250)
}

/// The state of a storm.
struct Storm {
    bench: Bench,
    clients: Vec<ClientId>,
    groups: Vec<GroupId>,
    waiting: Vec<RequestId>,
    inside: Vec<RequestId>,
    sent: u32,
    ended: u32,
}

impl Storm {
    fn new(version: Version, facts: DeviceFacts) -> Storm {
        let mut bench = Bench::new(version, facts);
        bench.set("low_latency", 1);
        bench.set("stable_merging", u64::from(version.late_mechanisms));
        let root = bench.view.root();
        let groups = Vec::from([root, bench.group(100), bench.group(700)]);
        let mut storm = Storm {
            bench,
            clients: Vec::new(),
            groups,
            waiting: Vec::new(),
            inside: Vec::new(),
            sent: 0,
            ended: 0,
        };
        (0..6).for_each(|_| storm.step(Step::Come));
        storm
    }

    fn client(&self, who: u8) -> Option<ClientId> {
        let place = usize::from(who) % self.clients.len().max(1);
        self.clients.get(place).copied()
    }

    fn send(&mut self, client: ClientId, op: Op, flags: Flags, at: (u64, u32)) {
        if self.sent - self.ended < 60 {
            self.sent += 1;
            let bio = Bio::new(client, op, at.0, at.1).flags(flags);
            self.bench.bfq.bio_comes(&mut self.bench.view, &bio);
            let id = self.bench.ask(client, op, flags, at);
            self.waiting.push(id);
        }
    }

    fn pick(&mut self) -> bool {
        let Ok(id) = self.bench.pick() else { return false };
        self.waiting.retain(|&other| other != id);
        self.inside.push(id);
        true
    }

    fn end(&mut self, which: usize) {
        if !self.inside.is_empty() {
            let id = self.inside.remove(which % self.inside.len());
            self.ended += 1;
            self.bench.end(id);
        }
    }

    fn step(&mut self, step: Step) {
        let client = match step {
            Step::Read { who, .. }
            | Step::Write { who, .. }
            | Step::Move { who, .. }
            | Step::Change { who, .. }
            | Step::Leave { who } => match self.client(who) {
                Some(client) => client,
                None => return,
            },
            _ => ClientId::NOBODY,
        };
        let bench = &mut self.bench;
        match step {
            Step::Read { place, near, sectors, .. } => {
                let sector = FAR * (1 + u64::from(place % 3)) + u64::from(near) * 97;
                self.send(client, Op::Read, Flags::NONE, (sector, sectors.into()));
            }
            Step::Write { place, sync, .. } => {
                let flags = if sync { Flags::SYNC } else { Flags::NONE };
                let sector = FAR * (1 + u64::from(place % 5));
                self.send(client, Op::Write, flags, (sector, 8));
            }
            Step::Pick => drop(self.pick()),
            Step::End { which } => self.end(which.into()),
            Step::Refuse { which } if !self.inside.is_empty() => {
                let id = self.inside.remove(usize::from(which) % self.inside.len());
                bench.bfq.requeued(&mut bench.view, id);
                bench.view.set_stage(id, Stage::Waiting);
                bench.bfq.insert(&mut bench.view, id, Position::Head);
                bench.audit();
                self.waiting.push(id);
            }
            Step::Withdraw { which } if !self.waiting.is_empty() => {
                let id = self.waiting.remove(usize::from(which) % self.waiting.len());
                self.ended += 1;
                bench.withdraw(id);
            }
            Step::Pass { us } => bench.later_us(us.into()),
            Step::Move { group, .. } => {
                let group = self.groups[usize::from(group) % self.groups.len()];
                bench.view.move_client(client, group);
                bench.bfq.client_changed(&mut bench.view, client);
                bench.audit();
            }
            Step::Change { class, level, .. } => {
                let classes = [Class::BestEffort, Class::Realtime, Class::Idle];
                let class = classes[usize::from(class) % 3];
                bench.view.set_priority(client, Priority { class, level });
                bench.bfq.client_changed(&mut bench.view, client);
                bench.audit();
            }
            Step::Leave { .. } => self.leaves(client),
            Step::Come if self.clients.len() < 20 => self.clients.push(bench.client()),
            Step::Set { which, value } => {
                let switches = ["low_latency", "queue_merging", "position_update", "wakers"];
                let name = switches[usize::from(which) % switches.len()];
                bench.set(name, u64::from(value % 2));
            }
            _ => {}
        }
        self.bench.notes();
    }

    /// A process goes when nothing of it is left.
    fn leaves(&mut self, client: ClientId) {
        let bench = &mut self.bench;
        if bench.bfq.contexts.at(client).requests == 0 {
            bench.bfq.client_detached(&mut bench.view, client);
            bench.audit();
            bench.view.remove_client(client);
            self.clients.retain(|&other| other != client);
        }
    }

    /// All requests end and all processes go.
    fn calm_down(&mut self) {
        while self.sent > self.ended {
            if !self.pick() {
                self.end(0);
                self.bench.later(1);
            }
        }
        for client in self.clients.clone() {
            self.leaves(client);
        }
        assert!(self.clients.is_empty());
        // An async queue whose last request was withdrawn in its turn.
        assert!(!self.pick());
    }
}

proptest! {
    /// BFQ-198, scenario 18: whatever comes, do all counts agree, does every reference lead
    /// somewhere, and is nothing left when all have gone except the async queues that their groups
    /// keep?
    #[test]
    fn bfq_scenario_18_storm(steps in steps(), later in any::<bool>(), kind in 0..4u8) {
        let version = if later { LINUX_6_18 } else { LINUX_4_19 };
        let facts = [disk(1), disk(32), flash(1), flash(32)][usize::from(kind)];
        let mut storm = Storm::new(version, facts);
        for step in steps {
            storm.step(step);
        }
        storm.calm_down();
        let bfq = &storm.bench.bfq;
        let kept = bfq.groups.all_shared().count();
        // Queues without references are remembered for what they are ahead (`departed`).
        let referred = bfq.queues.iter().filter(|(_, queue)| queue.refs > 0).count();
        prop_assert_eq!(referred, kept);
        let busy = bfq.schedule.symmetry.busy();
        prop_assert_eq!((bfq.queues.waiting(), bfq.device.in_driver(), busy), (0, 0, 0));
    }
}

/// BFQ-198 in a storm that is always the same: at each step, is at most one queue in service, and
/// are the counters the sums that the rule says?
#[test]
fn bfq_198_counters_are_sums() {
    for version in [LINUX_4_19, LINUX_6_18] {
        let mut storm = Storm::new(version, disk(32));
        for turn in 0..3000u32 {
            let byte =
                |by: u32| u8::try_from(turn.wrapping_mul(2_654_435_761) >> by & 255).unwrap();
            let step = match byte(8) % 8 {
                0..=2 => Step::Read { who: byte(0), place: byte(16), near: byte(24), sectors: 8 },
                3 => Step::Write { who: byte(0), place: byte(16), sync: byte(24) % 2 == 0 },
                4 | 5 => Step::Pick,
                6 => Step::End { which: byte(0) },
                _ => Step::Pass { us: u32::from(byte(0)) * 20 },
            };
            storm.step(step);
            let bfq = &storm.bench.bfq;
            let queues = || bfq.queues.iter().map(|(_, queue)| queue);
            assert_eq!(bfq.device.in_driver(), queues().map(|queue| queue.in_flight).sum::<u32>());
            assert_eq!(bfq.queues.waiting(), queues().map(|queue| queue.lane.len()).sum::<u32>());
            assert_eq!(
                bfq.schedule.symmetry.busy() as usize,
                queues().filter(|queue| queue.is_busy).count()
            );
            let raised = queues().filter(|queue| queue.is_busy && queue.raising.is_raised());
            assert_eq!(bfq.schedule.symmetry.raised() as usize, raised.count());
        }
    }
}

/// G13: are readers charged the sum of their sectors, and background writes three times theirs? All
/// are in one group, alone in the root: its virtual time is what they were charged divided by its
/// weight.
#[test]
fn bfq_g13_charges_add_up() {
    for (op, factor) in [(Op::Read, 1), (Op::Write, 3)] {
        each(flash(32), |mut bench| {
            let group = bench.group(100);
            let clients = [(); 3].map(|()| bench.member(group));
            let (mut sectors, mut requests) = (0, 0);
            for turn in 0..500u32 {
                let client = clients[(turn % 3) as usize];
                let size = 8 + turn * 7 % 100;
                bench.ask(client, op, Flags::NONE, (FAR + u64::from(turn) * 200, size));
                let id = loop {
                    match bench.pick() {
                        Ok(id) => break id,
                        Err(_) => bench.later(1),
                    }
                };
                sectors += u64::from(bench.view.request(id).sectors());
                requests += 1;
                bench.end(id);
            }
            let entity = bench.bfq.schedule.groups[group.index() as usize].entity;
            let vtime = bench.bfq.schedule.vtime_of(entity.expect("it is in the root"));
            let expected = delta(factor * sectors, 100);
            // Each charge is rounded down.
            assert!(vtime <= expected && vtime + requests >= expected, "{vtime} {expected}");
        });
    }
}

/// G13: is no queue charged less for its time than for its sectors?
#[test]
fn bfq_g13_time_is_no_discount() {
    each(disk(1), |mut bench| {
        for service in [8, 5000, 16_384, 20_000] {
            let client = bench.client();
            bench.read(client, FAR);
            bench.read(client, FAR + 800);
            bench.bfq.begin_turn(&mut bench.view);
            bench.marks(client, 32);
            let queue = bench.number(client);
            bench.bfq.schedule.serve(queue, service);
            let start = bench.entity(client).start;
            bench.later(15);
            bench.expire(client, Expiry::Preempted);
            assert!(bench.entity(client).start - start >= delta(service, 40), "{service}");
            while !bench.queue(client).is_empty() {
                match bench.pick() {
                    Ok(id) => bench.end(id),
                    Err(_) => bench.later(1),
                }
            }
            bench.later(30);
            bench.bfq.client_detached(&mut bench.view, client);
        }
    });
}
