// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is durable when the power goes: FLUSH-16 and FLUSH-17, over random streams.
//!
//! The model knows of each write only whether it has ended in the cache, is drained by the flush in
//! the device, or is durable:
//!
//! ```text
//! write ends ─▶ cached ─ a flush starts ─▶ drained by it ─ it ends well ─▶ durable
//!       └─ with FUA ───────────────────────────────────────────────────────▶
//! ```
//!
//! The power may go at any time, and takes all that is not durable. What was promised by then: a
//! FUA write that has ended is durable. Once a flush has ended, or the data of a preflushed write
//! have gone to the device, so is every write that had ended before it came.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use paternoster_core::{Limits, Outcome, Stage, Status};
use proptest::prelude::*;

/// One thing that happens. Numbers choose among what there is.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write,
    Fua,
    Preflush,
    Both,
    Flush,
    Read,
    /// The queue is asked until it waits.
    Pull,
    /// A command ends well, if it is not one that fails.
    End(u8),
    Fail(u8),
    Refuse(u8),
    Pass(u16),
    Cancel(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Write),
        3 => Just(Step::Fua),
        3 => Just(Step::Preflush),
        3 => Just(Step::Both),
        4 => Just(Step::Flush),
        1 => Just(Step::Read),
        10 => Just(Step::Pull),
        12 => any::<u8>().prop_map(Step::End),
        1 => any::<u8>().prop_map(Step::Fail),
        2 => any::<u8>().prop_map(Step::Refuse),
        3 => any::<u16>().prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Cancel),
    ];
    prop::collection::vec(step, 1..120)
}

/// The queue's settings: elevator, FUA, queueable, hold, insert, drain, elide, delay.
type Settings = (&'static str, bool, bool, &'static str, &'static str, bool, bool, bool);

fn settings() -> impl Strategy<Value = Settings> {
    let elevators: Vec<&'static str> =
        paternoster_schedulers::ALL.iter().map(|entry| entry.name).collect();
    (
        prop::sample::select(elevators),
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(vec!["off", "unqueueable", "writes"]),
        prop::sample::select(vec!["tail", "head"]),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
}

/// How far a bio has come, as a number that must not fall: it waits for a preflush, has data in
/// flight, waits for a postflush.
fn progress(stage: Stage, data_ended: bool) -> u8 {
    match stage {
        Stage::Flushing if data_ended => 2,
        Stage::Flushing | Stage::Throttled => 0,
        _ => 1,
    }
}

/// What the model keeps of a bio that has not been handed back.
#[derive(Debug)]
struct Live {
    ticket: Ticket,
    op: Op,
    flags: Flags,
    /// The writes that had been handed back when it came.
    promised: BTreeSet<u64>,
    data_ended: bool,
    far: u8,
}

struct Power {
    rig: Rig,
    client: ClientId,
    next: u64,
    live: BTreeMap<u64, Live>,
    /// Writes that were handed back well.
    handed_back: BTreeSet<u64>,
    cached: BTreeSet<u64>,
    drained: BTreeSet<u64>,
    durable: BTreeSet<u64>,
    /// How many in `rig.done` have been checked.
    seen: usize,
}

impl Power {
    fn new(settings: Settings) -> Power {
        let (elevator, fua, flush_queueable, hold, insert, drain, elide, delay) = settings;
        let facts = DeviceFacts { fua, flush_queueable, depth: 6, ..cached() };
        let elevator = paternoster_schedulers::by_name(elevator).expect("it is listed");
        let mut rig = Rig::with(facts, Limits::default(), elevator);
        let switch = |on| if on { "1" } else { "0" };
        rig.set("flush_hold", hold);
        rig.set("flush_insert", insert);
        rig.set("flush_drain", switch(drain));
        rig.set("flush_elide", switch(elide));
        rig.set("flush_delay", if delay { "700" } else { "0" });
        let client = rig.client();
        let (live, none) = (BTreeMap::new(), BTreeSet::new);
        let (handed_back, cached, drained, durable) = (none(), none(), none(), none());
        Power { rig, client, next: 1, live, handed_back, cached, drained, durable, seen: 0 }
    }

    fn submit(&mut self, op: Op, flags: Flags) {
        let cookie = self.next;
        self.next += 1;
        let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (cookie * 64, 8) };
        let bio = Bio::new(self.client, op, sector, sectors).flags(flags).cookie(cookie);
        // `Busy` does not matter here: the bio never came.
        if let Ok(ticket) = self.rig.try_submit(bio) {
            let promised = self.handed_back.clone();
            let live = Live { ticket, op, flags, promised, data_ended: false, far: 0 };
            self.live.insert(cookie, live);
        }
    }

    fn lost<'a>(&self, promised: impl IntoIterator<Item = &'a u64>) -> Option<u64> {
        promised.into_iter().find(|write| !self.durable.contains(write)).copied()
    }

    /// The queue is asked; commands go to the device.
    fn pull(&mut self) -> Result<(), TestCaseError> {
        for command in self.rig.pull() {
            if command.op == Op::Flush {
                self.drained.append(&mut self.cached);
            }
            let cookies: Vec<u64> = self.rig.queue.cookies(command.tag).collect();
            for cookie in cookies {
                let live = &self.live[&cookie];
                if live.flags.contains(Flags::PREFLUSH) {
                    let lost = self.lost(&live.promised);
                    prop_assert_eq!(lost, None, "the data of {} go out before it is safe", cookie);
                }
            }
        }
        while let Some(&(cookie, status)) = self.rig.done.get(self.seen) {
            self.seen += 1;
            let live = self.live.remove(&cookie);
            prop_assert!(live.is_some(), "{cookie} ends twice");
            let Some(live) = live else { continue };
            if status != Status::Ok {
                continue;
            }
            let lost = if live.op == Op::Flush { self.lost(&live.promised) } else { None };
            prop_assert_eq!(lost, None, "{} has ended, a flush", cookie);
            if live.op == Op::Write {
                let kept = !live.flags.contains(Flags::FUA) || self.durable.contains(&cookie);
                prop_assert!(kept, "{cookie} has ended, a FUA write");
                self.handed_back.insert(cookie);
            }
        }
        Ok(())
    }

    fn end(&mut self, which: u8, outcome: Outcome) {
        if self.rig.inside.is_empty() {
            return;
        }
        let place = usize::from(which) % self.rig.inside.len();
        let command = self.rig.inside.remove(place).expect("it is in the device");
        let cookies: Vec<u64> = self.rig.queue.cookies(command.tag).collect();
        let good = outcome.status == Status::Ok;
        for cookie in &cookies {
            self.live.get_mut(cookie).expect("it has not ended").data_ended = true;
        }
        match command.op {
            Op::Flush if good => self.durable.append(&mut self.drained),
            Op::Flush => self.cached.append(&mut self.drained),
            Op::Write if good && command.flags.contains(Flags::FUA) => self.durable.extend(cookies),
            Op::Write if good => self.cached.extend(cookies),
            _ => {}
        }
        self.rig.queue.complete(self.rig.now, command.tag, outcome).expect("it is in the device");
    }

    fn refuse(&mut self, which: u8) {
        if self.rig.inside.is_empty() {
            return;
        }
        let place = usize::from(which) % self.rig.inside.len();
        let command = self.rig.inside.remove(place).expect("it is in the device");
        if command.op == Op::Flush {
            // It drained nothing.
            self.cached.append(&mut self.drained);
        }
        self.rig.queue.requeue(self.rig.now, command.tag).expect("it is in the device");
    }

    fn cancel(&mut self, which: u8) {
        let live: Vec<Ticket> = self.live.values().map(|live| live.ticket).collect();
        if let Some(&ticket) = live.get(usize::from(which) % live.len().max(1)) {
            // Being too late is fine.
            let _withdrawn = self.rig.queue.cancel(self.rig.now, ticket);
        }
    }

    fn carry_out(&mut self, step: Step) -> Result<(), TestCaseError> {
        let both = Flags::PREFLUSH | Flags::FUA;
        match step {
            Step::Write => self.submit(Op::Write, Flags::NONE),
            Step::Fua => self.submit(Op::Write, Flags::FUA),
            Step::Preflush => self.submit(Op::Write, Flags::PREFLUSH),
            Step::Both => self.submit(Op::Write, both),
            Step::Flush => self.submit(Op::Flush, Flags::NONE),
            Step::Read => self.submit(Op::Read, Flags::NONE),
            Step::Pull => self.pull()?,
            Step::End(which) => self.end(which, Outcome::OK),
            Step::Fail(which) => self.end(which, Outcome::failed(5)),
            Step::Refuse(which) => self.refuse(which),
            Step::Pass(us) => self.rig.now += paternoster_core::Nanos::from_micros(us.into()),
            Step::Cancel(which) => self.cancel(which),
        }
        self.look()
    }

    /// FLUSH-17: the audit checks that each sequenced request is in one place; and none goes back.
    fn look(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.rig.queue.audit(), Ok(()));
        for (cookie, live) in &mut self.live {
            let Some(request) = self.rig.queue.request_with(live.ticket) else { continue };
            let far = progress(request.stage(), live.data_ended);
            prop_assert!(far >= live.far, "{cookie} goes back from {} to {far}", live.far);
            live.far = far;
        }
        Ok(())
    }

    /// Everything ends.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..1000 {
            self.pull()?;
            if self.rig.inside.is_empty() {
                match self.rig.until {
                    Some(until) => self.rig.now = until,
                    None => break,
                }
            }
            self.end(0, Outcome::OK);
            self.look()?;
        }
        prop_assert!(self.live.is_empty(), "these never end: {:?}", self.live);
        Ok(())
    }
}

fn many() -> ProptestConfig {
    let asked = std::env::var("PATERNOSTER_SEQUENCES").ok().and_then(|text| text.parse().ok());
    let cases = asked.unwrap_or(3000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(many())]

    /// If the power goes at any time, does what was promised exist, for all interleavings,
    /// settings, refusals and failures?
    #[test]
    fn flush_16_what_was_promised_survives(settings in settings(), steps in steps()) {
        let mut power = Power::new(settings);
        for step in steps {
            power.carry_out(step)?;
        }
        power.finish()?;
    }

    /// Is every sequenced request either in the pending list, or in the running list, or in flight
    /// with its data (the audit's flush I2, after each step), and does its sequence only go
    /// forward? The same driver, with sequences only.
    #[test]
    fn flush_17_lists_are_disjoint_and_sequences_go_forward(
        settings in settings(),
        steps in steps(),
    ) {
        let mut power = Power::new(settings);
        for step in steps {
            let sequences = !matches!(step, Step::Write | Step::Read);
            power.carry_out(if sequences { step } else { Step::Both })?;
        }
        power.finish()?;
    }
}

/// Does the model notice a planted bug? In some of 400 sequences, the same for each bug.
#[cfg(feature = "planted-bugs")]
#[test]
fn flush_16_notices_planted_bugs() {
    use paternoster_core::planted::Bug;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let report = |bug: Option<Bug>| -> Vec<String> {
        let mut runner = TestRunner::deterministic();
        let mut draw = || {
            let sequence = (settings(), steps()).new_tree(&mut runner);
            sequence.expect("nothing is filtered out").current()
        };
        let mut run = || -> Result<(), TestCaseError> {
            let (settings, steps) = draw();
            let mut power = Power::new(settings);
            if let Some(bug) = bug {
                power.rig.queue.plant(bug, 0);
            }
            steps.into_iter().try_for_each(|step| power.carry_out(step))?;
            power.finish()
        };
        (0..400).filter_map(|_| run().err()).map(|fault| fault.to_string()).collect()
    };
    assert_eq!(report(None), [""; 0]);
    for bug in [Bug::ElidedFlush, Bug::EarlyPostflush, Bug::SharedTooLate, Bug::LostRestart] {
        let faults = report(Some(bug));
        println!("{bug:?}: {} of 400, first: {:?}", faults.len(), faults.first());
        assert!(faults.len() >= 3, "{bug:?}");
    }
}
