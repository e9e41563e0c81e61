// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulers that fail, with a loop in simulated time.
//!
//! ```text
//! drawn: flaw, when ─▶ a FIFO that does wrong from its n-th opportunity on ─▶ loop
//! clients write and read in steps of 10 ms ─▶ every request is answered, once, without an error
//! ```

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::channel;

use paternoster_core::elevator::{Elevator, Fault, Pick, Place, Position, Traits};
use paternoster_core::{
    Bio, ClientSpec, DeviceFacts, Nanos, Op, Outcome, Output, QueueView, RequestId, RequestQueue,
};
use paternoster_sim::chance::Chance;
use paternoster_sim::schedulers;
use serde_json::Value;

use crate::control::order::{Asked, Order};
use crate::device_loop::rig::{READ, Rig, WRITE};
use crate::watchdog::{self, PATIENCE};

/// What it does wrong, and the words that report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// Forgets a request; and counts it all the same.
    Loses,
    LosesAndLies,
    NeverDispatches,
    DispatchesTwice,
    /// Sets a timer and idles, again and again; sets it to tomorrow; sets none.
    Idles,
    IdlesTillTomorrow,
    IdlesWithoutTimer,
    AwaitsNothing,
    /// Never serves one as long as there are others.
    Starves,
    PanicsInPick,
    PanicsInInsert,
    PanicsInCompleted,
    KeepsInDrain,
}

const FLAWS: [(Flaw, &str); 12] = [
    (Flaw::Loses, "requests wait, and "),
    (Flaw::LosesAndLies, "says that nothing waits, and "),
    (Flaw::NeverDispatches, "says that nothing waits, and "),
    (Flaw::DispatchesTwice, "dispatched a request that it does not hold"),
    (Flaw::Idles, "keeps the device idle for "),
    (Flaw::IdlesTillTomorrow, "keeps the device idle for "),
    (Flaw::IdlesWithoutTimer, "idles without a timer while "),
    (Flaw::AwaitsNothing, "awaits the end of nothing while "),
    (Flaw::PanicsInPick, "panicked: planted"),
    (Flaw::PanicsInInsert, "panicked: planted"),
    (Flaw::PanicsInCompleted, "panicked: planted"),
    (Flaw::KeepsInDrain, ""),
];

thread_local! {
    /// What the next scheduler that is made does wrong, and when.
    static NEXT: Cell<(Flaw, u32)> = const { Cell::new((Flaw::None, 0)) };
}

#[derive(Debug)]
struct Bad {
    flaw: Flaw,
    left: u32,
    waiting: Vec<RequestId>,
    lost: u32,
    last: Option<RequestId>,
    kept: Option<RequestId>,
}

impl Bad {
    /// Whether it does wrong now: from an opportunity on.
    fn does(&mut self, flaw: Flaw) -> bool {
        if self.flaw != flaw {
            return false;
        }
        let now = self.left == 0;
        self.left = self.left.saturating_sub(1);
        now
    }
}

impl Elevator for Bad {
    fn traits(&self) -> Traits {
        Traits::mq("bad")
    }
    fn attach(&mut self, view: &mut QueueView) {
        self.waiting = Vec::with_capacity(view.request_slots() as usize);
    }
    fn insert(&mut self, _: &mut QueueView, request: RequestId, _: Position) {
        assert!(!self.does(Flaw::PanicsInInsert), "planted");
        if self.lost == 0 && (self.does(Flaw::Loses) || self.does(Flaw::LosesAndLies)) {
            self.lost = 1;
            return;
        }
        if self.kept.is_none() && self.does(Flaw::Starves) {
            self.kept = Some(request);
        }
        self.waiting.push(request);
    }
    fn pick(&mut self, view: &mut QueueView) -> Pick {
        if self.waiting.is_empty() {
            return Pick::Nothing;
        }
        assert!(!self.does(Flaw::PanicsInPick), "planted");
        if self.does(Flaw::NeverDispatches) {
            return Pick::Nothing;
        }
        if self.does(Flaw::Idles) {
            view.set_timer(view.now() + Nanos::from_millis(8));
            return Pick::Idle;
        }
        if self.does(Flaw::IdlesTillTomorrow) {
            view.set_timer(view.now() + Nanos::from_secs(86_400));
            return Pick::Idle;
        }
        if self.does(Flaw::IdlesWithoutTimer) {
            return Pick::Idle;
        }
        if view.in_device().requests == 0 && self.does(Flaw::AwaitsNothing) {
            return Pick::Await;
        }
        if let Some(last) = self.last
            && self.does(Flaw::DispatchesTwice)
        {
            return Pick::Dispatch(last, Place::Tail);
        }
        let wanted = self.waiting.iter().position(|id| Some(*id) != self.kept);
        let Some(place) = wanted else {
            // Alone it cannot be kept: that would be found out at once.
            self.kept = None;
            return self.pick(view);
        };
        let id = self.waiting.remove(place);
        self.last = Some(id);
        Pick::Dispatch(id, Place::Tail)
    }
    fn completed(&mut self, _: &mut QueueView, _: RequestId, _: Nanos) {
        assert!(!self.does(Flaw::PanicsInCompleted), "planted");
    }
    fn absorbed(&mut self, view: &mut QueueView, _: RequestId, gone: RequestId) {
        self.removed(view, gone);
    }
    fn removed(&mut self, _: &mut QueueView, request: RequestId) {
        self.waiting.retain(|other| *other != request);
    }
    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        if self.flaw == Flaw::KeepsInDrain { None } else { self.waiting.pop() }
    }
    fn explain(&self, _: &QueueView, _: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("it is bad")
    }
    fn waiting(&self) -> u32 {
        let lies = if self.flaw == Flaw::LosesAndLies { self.lost } else { 0 };
        u32::try_from(self.waiting.len()).unwrap() + lies
    }
    fn audit(&self, _: &QueueView) -> Result<(), Fault> {
        Ok(())
    }
}

/// Clients before a loop whose scheduler does wrong; what the loop says of it.
fn serve(flaw: Flaw, after: u32, seed: u64) -> (u64, String) {
    let told = format!("{flaw:?} after {after}, seed {seed}");
    NEXT.set((flaw, after));
    let mut rig = Rig::new("bad", |_| ());
    let mut clients = [rig.connect("a"), rig.connect("b")];
    let mut chance = Chance::new(seed, 0);
    let mut asked: [BTreeSet<u64>; 2] = Default::default();
    let (mut now, mut since) = (Nanos::ZERO, None);
    let (mut rounds, mut answered) = (0, 0);
    // Until it is found out, and then some more; what is owed is waited for.
    let mut more = 20;
    while more > 0 || asked.iter().any(|asked| !asked.is_empty()) {
        rounds += 1;
        assert!(rounds < 3_000, "{told}: it is not found out, or does not answer {asked:?}");
        let failed = rig.device_loop.policy.failures() != 0;
        let is_over = flaw == Flaw::None && rounds > 200;
        more -= u32::from((failed || is_over || flaw == Flaw::KeepsInDrain) && more > 0);
        for (client, asked) in clients.iter_mut().zip(&mut asked) {
            while more > 0 && asked.len() < 6 {
                let at = chance.below(1 << 20) * 4096;
                let cookie = match chance.once_in(2) {
                    true => client.send(READ, at, 4096, &[]),
                    false => client.send(WRITE, at, 4096, &[7; 4096]),
                };
                asked.insert(cookie);
            }
        }
        let passes = Nanos::from_millis(10);
        now += passes;
        rig.turn(passes);
        if flaw == Flaw::KeepsInDrain && more == 10 {
            let it = &mut rig.device_loop;
            crate::device_loop::policy::change(it.time.now, &mut it.recorded_queue, "noop")
                .unwrap();
        }
        let before = answered;
        for (client, asked) in clients.iter_mut().zip(&mut asked) {
            for (cookie, errno) in client.answers() {
                assert_eq!(errno, 0, "{told}");
                assert!(asked.remove(&cookie), "{told}: {cookie} is answered twice");
                answered += 1;
            }
        }
        // Nothing stalls for a second.
        let still = since.get_or_insert(now);
        if answered != before {
            *still = now;
        }
        assert!(now - *still < Nanos::from_secs(1), "{told}: it stands still");
    }
    let name = rig.device_loop.recorded_queue.queue().elevator_name();
    let snapshot = rig.device_loop.snapshot();
    assert_eq!(snapshot.scheduler, name);
    assert_eq!(
        rig.device_loop.policy.ordered(name),
        if flaw == Flaw::KeepsInDrain { "noop" } else { "bad" }
    );
    (rig.device_loop.policy.failures(), format!("{name}: {}", snapshot.scheduler_failed))
}

fn lend() {
    let make = || {
        let (flaw, left) = NEXT.get();
        let (waiting, lost, last, kept) = (Vec::new(), 0, None, None);
        Box::new(Bad { flaw, left, waiting, lost, last, kept }) as Box<dyn Elevator>
    };
    schedulers::lend("bad", Arc::new(make)).unwrap();
}

/// Does a loop whose scheduler fails, in any of twelve ways and whenever, answer every request
/// once, stall for less than a second, go on under bfq, and say which law was broken? And is a
/// sound one left alone?
#[test]
fn a_scheduler_that_fails_is_replaced() {
    lend();
    let seed = 29;
    eprintln!("seed {seed}");
    let mut chance = Chance::new(seed, 1);
    for (flaw, law) in FLAWS {
        for case in 0..2 {
            let after = u32::try_from(chance.below(60)).unwrap();
            let (failures, said) = serve(flaw, after, seed + case);
            if flaw == Flaw::KeepsInDrain {
                // It was replaced, and the requests it kept were handed over.
                assert_eq!((failures, &*said), (0, "noop: "));
                continue;
            }
            assert_eq!(failures, 1, "{flaw:?}");
            // The slot may be another request's by then, which it has on its list still.
            let told = said.contains(law)
                || flaw == Flaw::DispatchesTwice && said.contains(" requests wait, and ");
            assert!(said.starts_with("bfq: bad ") && told, "{flaw:?}: {said}");
        }
    }
    assert_eq!(serve(Flaw::None, 0, seed), (0, "bad: ".to_owned()));
}

/// Is a request that is passed over for ever found out once it has waited for half a minute, and
/// served next? One command at a time, of 10 ms: 3,000 go meanwhile, where 16 would be many.
#[test]
fn a_starved_request_is_served() {
    lend();
    NEXT.set((Flaw::Starves, 0));
    let (elevator, verdict) = watchdog::by_name("bad").unwrap();
    let verdict = verdict.unwrap();
    let facts = DeviceFacts { depth: 1, ..DeviceFacts::default() };
    let mut queue = RequestQueue::builder(facts, elevator).build().expect("its limits work");
    let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
    // Apart, so that they are not merged.
    let bio = |place: u64| Bio::new(client, Op::Read, place << 10, 8).cookie(place);
    let (mut now, mut count, mut in_device) = (Nanos::ZERO, 3, None);
    queue.set_attribute(now, "nr_requests", "64").unwrap();
    for place in 0..count {
        queue.submit(now, bio(place)).unwrap();
    }
    // The request picked when the failure is found goes to the device, and after it the oldest one.
    let mut behind = Vec::new();
    while behind.len() < 2 {
        match queue.next(now) {
            Output::Issue(command) => {
                in_device = Some(command.tag);
                if verdict.why().is_some() {
                    behind.push(command.sector);
                }
            }
            Output::Done(..) => {
                queue.submit(now, bio(count)).unwrap();
                count += 1;
            }
            Output::Wake(_) => {}
            Output::Wait { .. } => {
                now += Nanos::from_millis(10);
                queue.complete(now, in_device.take().unwrap(), Outcome::OK).unwrap();
            }
        }
    }
    let why = verdict.why().unwrap();
    assert!(why.starts_with("lets a request wait for 30"), "{why}");
    assert!(now >= PATIENCE && now < PATIENCE + Nanos::from_millis(500), "{now}");
    assert_eq!(behind[1], 0, "the first one of all");
}

/// I2: does another scheduler begin with `nr_requests` as at a start, so that `ctl save` has
/// nothing to write that was not ordered, and a reload nothing to give up?
#[test]
fn another_scheduler_begins_as_at_a_start() {
    let mut rig = Rig::new("bfq", |_| ());
    for name in ["mq-deadline", "kyber", "none", "noop", "cfq", "paternoster", "bfq"] {
        for order in [Order::Scheduler { name: name.to_owned() }, Order::Settings] {
            let (answer, answered) = channel();
            rig.device_loop.execute(Asked { order, answer });
            let said = answered.recv().expect("an answer").expect("it is done");
            if let Some(attributes) = said.get("attributes").and_then(Value::as_array) {
                let names: Vec<&Value> = attributes.iter().map(|one| &one[0]).collect();
                assert_eq!(serde_json::json!(names), said["of_the_start"], "{name}: {said}");
            }
        }
    }
}
