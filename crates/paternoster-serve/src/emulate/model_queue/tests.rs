// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests in line, by hand and at random, before models that count.

use std::sync::{Arc, Mutex};

use paternoster_core::{Outcome, Refused};
use paternoster_sim::catalog;
use proptest::prelude::*;

use super::*;

/// What a model was given, and the most that were in it.
#[derive(Debug, Default)]
struct Seen {
    commands: Vec<(Nanos, Op, u64, u32, bool)>,
    inside: u32,
    most: u32,
}

/// Each command takes 1 ms, or as long as its sectors' number says; it counts.
#[derive(Debug)]
struct Counting {
    facts: DeviceFacts,
    by_size: bool,
    under_way: Vec<(Nanos, Tag)>,
    seen: Arc<Mutex<Seen>>,
    /// Whether the device refuses everything.
    stubborn: bool,
    /// Fails what begins at this sector.
    broken: Option<u64>,
    failing: Vec<Tag>,
}

impl Model for Counting {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Result<(), Refused> {
        let mut seen = self.seen.lock().unwrap();
        if self.stubborn || seen.inside >= self.facts.depth {
            return Err(Refused);
        }
        let Command { op, sector, sectors, flags, tag, .. } = *command;
        seen.commands.push((now, op, sector, sectors, flags.contains(Flags::FUA)));
        seen.inside += 1;
        seen.most = seen.most.max(seen.inside);
        let time = if self.by_size { u64::from(sectors) } else { 1_000 };
        self.under_way.push((now + Nanos::from_micros(time), tag));
        self.under_way.sort_by_key(|(at, _)| *at);
        if self.broken == Some(sector) {
            self.failing.push(tag);
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.under_way.first().map(|(at, _)| *at)
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        let (at, tag) = *self.under_way.first().filter(|(at, _)| *at <= now)?;
        self.under_way.remove(0);
        self.seen.lock().unwrap().inside -= 1;
        let failed = self.failing.iter().position(|failing| *failing == tag);
        let failed = failed.map(|place| self.failing.swap_remove(place)).is_some();
        let outcome = if failed { Outcome::failed(libc::EIO) } else { Outcome::OK };
        Some(Completion { tag, at, outcome })
    }
}

struct Rig {
    line: ModelQueue<u32>,
    seen: Arc<Mutex<Seen>>,
    ended: Vec<Ended<u32>>,
}

impl Rig {
    fn new(facts: DeviceFacts, change: impl FnOnce(&mut Counting)) -> Rig {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut model = Counting {
            facts,
            by_size: false,
            under_way: Vec::new(),
            seen: Arc::clone(&seen),
            stubborn: false,
            broken: None,
            failing: Vec::new(),
        };
        change(&mut model);
        Rig { line: ModelQueue::new(Box::new(model)), seen, ended: Vec::new() }
    }

    fn ask(&mut self, us: u64, kind: Kind, offset: u64, length: u64, token: u32) {
        let io = Io { kind, offset, length, lasting: false };
        self.line.ask(Nanos::from_micros(us), io, token, &mut self.ended).unwrap();
    }

    /// Until nothing happens any more: token, set time in us, error.
    fn run(mut self) -> Vec<(u32, u64, i32)> {
        self.line.live(Nanos::from_secs(3_600), &mut self.ended);
        assert!(self.line.is_idle());
        let told = |ended: &Ended<u32>| (ended.token, ended.set.as_micros(), ended.error);
        self.ended.iter().map(told).collect()
    }

    /// What the model was given: time in us, operation, first sector, sectors, FUA.
    fn commands(&self) -> Vec<(u64, Op, u64, u32, bool)> {
        let seen = self.seen.lock().unwrap();
        seen.commands.iter().map(|&(at, op, a, n, fua)| (at.as_micros(), op, a, n, fua)).collect()
    }
}

fn facts(depth: u32) -> DeviceFacts {
    DeviceFacts { depth, max_sectors: 1280, ..DeviceFacts::default() }
}

/// Is 1 MiB cut as the essay says, and ended with its last piece?
#[test]
fn large_ios_are_cut() {
    let mut rig = Rig::new(facts(8), |model| model.by_size = true);
    rig.ask(0, Kind::Read, 0, 1 << 20, 1);
    let expected = [(0, Op::Read, 0, 1280, false), (0, Op::Read, 1280, 768, false)];
    assert_eq!(rig.commands(), expected);
    // 1280 and 768 sectors at the same time, a us each.
    assert_eq!(rig.run(), [(1, 1_280, 0)]);
}

/// Does a request that does not begin and end on sectors become the sectors that it touches? Bytes
/// 1000 to 1099 are in sectors 1 and 2.
#[test]
fn ragged_ios_touch_whole_sectors() {
    let mut rig = Rig::new(facts(8), |_| ());
    rig.ask(0, Kind::Write, 1_000, 100, 1);
    rig.ask(0, Kind::Write, 511, 1, 2);
    assert_eq!(rig.commands(), [(0, Op::Write, 1, 2, false), (0, Op::Write, 0, 1, false)]);
}

/// Does what the model cannot take wait in order, and begin when another ends? Depth 2, three of
/// 1 ms asked at 0, 0 and 0.4: the third begins at 1 and ends at 2, 1.6 after it was asked.
#[test]
fn who_is_too_many_waits() {
    let mut rig = Rig::new(facts(2), |_| ());
    rig.ask(0, Kind::Read, 0, 512, 1);
    rig.ask(0, Kind::Read, 0, 512, 2);
    rig.ask(400, Kind::Read, 4096, 512, 3);
    assert_eq!(rig.commands().len(), 2);
    assert_eq!(rig.line.next_event(), Some(Nanos::from_millis(1)));
    let seen = Arc::clone(&rig.seen);
    assert_eq!(rig.run(), [(1, 1_000, 0), (2, 1_000, 0), (3, 1_600, 0)]);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.most, seen.commands[2].0), (2, Nanos::from_millis(1)));
}

/// If the model thread comes late, does that change nothing for the model? Two requests of 1 ms at
/// depth 1, handled only after 50 ms, end at 1 and 2.
#[test]
fn lateness_is_not_the_models() {
    let mut rig = Rig::new(facts(1), |_| ());
    rig.ask(0, Kind::Read, 0, 512, 1);
    rig.ask(0, Kind::Read, 0, 512, 2);
    rig.line.live(Nanos::from_millis(50), &mut rig.ended);
    let at: Vec<u64> = rig.ended.iter().map(|ended| ended.at.as_millis()).collect();
    assert_eq!(at, [1, 2]);
}

/// Does time never step back for a model? A request from before its last event begins at that
/// event.
#[test]
fn time_does_not_step_back() {
    let mut rig = Rig::new(facts(8), |_| ());
    rig.ask(0, Kind::Read, 0, 512, 1);
    rig.line.live(Nanos::from_millis(1), &mut rig.ended);
    rig.ask(990, Kind::Read, 0, 512, 2);
    assert_eq!(rig.commands()[1].0, 1_000);
    // 10 us of waiting, 1 ms of service.
    assert_eq!(rig.run()[1], (2, 1_010, 0));
}

/// How is a write made durable: with FUA where there is FUA, with a flush after it where there is
/// only a cache, by itself where there is none?
#[test]
fn writes_last() {
    let commands = |write_cache, fua| {
        let mut rig = Rig::new(DeviceFacts { write_cache, fua, ..facts(8) }, |_| ());
        let io = Io { kind: Kind::Write, offset: 0, length: 1 << 20, lasting: true };
        rig.line.ask(Nanos::ZERO, io, 1, &mut rig.ended).unwrap();
        rig.line.live(Nanos::from_secs(1), &mut rig.ended);
        assert_eq!(rig.ended.len(), 1);
        (rig.commands(), rig.ended[0].set.as_millis())
    };
    let pieces = |fua| [(0, Op::Write, 0, 1280, fua), (0, Op::Write, 1280, 768, fua)];
    assert_eq!(commands(false, false), (pieces(false).to_vec(), 1));
    assert_eq!(commands(true, true), (pieces(true).to_vec(), 1));
    // The flush begins when both pieces have ended, after 1 ms, and takes one more.
    let flush = (1_000, Op::Flush, 0, 0, false);
    assert_eq!(commands(true, false), ([&pieces(false)[..], &[flush]].concat(), 2));
}

/// Is a model's error reported once, for the whole I/O?
#[test]
fn errors_are_told() {
    let mut rig = Rig::new(facts(8), |model| model.broken = Some(1280));
    rig.ask(0, Kind::Read, 0, 1 << 20, 1);
    rig.ask(0, Kind::Read, 0, 512, 2);
    assert_eq!(rig.run(), [(1, 1_000, libc::EIO), (2, 1_000, 0)]);
}

/// Does no request wait for ever for a model that takes nothing?
#[test]
fn a_stubborn_model_is_an_error() {
    let mut rig = Rig::new(facts(8), |model| model.stubborn = true);
    rig.ask(7, Kind::Flush, 0, 0, 1);
    assert_eq!(rig.run(), [(1, 0, libc::EIO)]);
}

/// Does a flush that the device cannot queue have the device to itself, for as long as it takes? On
/// the drive of seed 1.7 it takes 3.2 ms after the write, which is programmed first; the next read
/// begins after it.
#[test]
fn a_flush_is_alone() {
    let model = catalog::by_name("ssd-870evo").unwrap().unwrap().model();
    let mut line = ModelQueue::new(model);
    let mut ended = Vec::new();
    let mut ask = |kind, token| {
        let length = if kind == Kind::Flush { 0 } else { 4096 };
        let io = Io { kind, offset: 0, length, lasting: false };
        line.ask(Nanos::ZERO, io, token, &mut ended).unwrap();
    };
    ask(Kind::Write, 1);
    ask(Kind::Flush, 2);
    ask(Kind::Read, 3);
    line.live(Nanos::from_secs(1), &mut ended);
    let order: Vec<u32> = ended.iter().map(|ended| ended.token).collect();
    assert_eq!(order, [1, 2, 3]);
    let (write, flush, read) = (ended[0].at, ended[1].at, ended[2].at);
    assert!(flush - write >= Nanos::from_micros(3_200), "{}", flush - write);
    assert!(read > flush);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Does everything end once, within the depth, its pieces whole and in the order of asking?
    #[test]
    fn nothing_is_lost(
        depth in 1..5u32,
        asked in prop::collection::vec(
            (0..3_000u64, 0..4usize, 0..1u64 << 22, 1..1u64 << 21), 1..40)
    ) {
        let mut rig = Rig::new(facts(depth), |model| model.by_size = true);
        let (mut now, mut pieces) = (0, Vec::new());
        for (token, &(wait, kind, offset, length)) in (0u32..).zip(&asked) {
            now += wait;
            let kind = [Kind::Read, Kind::Write, Kind::Discard, Kind::Flush][kind];
            rig.ask(now, kind, offset, length, token);
            let (mut at, end) = (offset / 512, (offset + length).div_ceil(512));
            while kind != Kind::Flush && at < end {
                let most = if kind == Kind::Discard { u64::MAX } else { 1280 };
                let sectors = (end - at).min(most);
                pieces.push((at, sectors));
                at += sectors;
            }
            if kind == Kind::Flush {
                pieces.push((0, 0));
            }
        }
        let seen = Arc::clone(&rig.seen);
        let mut tokens: Vec<u32> = rig.run().iter().map(|(token, ..)| *token).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, (0u32..).take(asked.len()).collect::<Vec<_>>());
        let seen = seen.lock().unwrap();
        prop_assert!(seen.most <= depth);
        let given: Vec<(u64, u64)> =
            seen.commands.iter().map(|&(_, _, at, sectors, _)| (at, u64::from(sectors))).collect();
        prop_assert_eq!(given, pieces);
        prop_assert!(seen.commands.is_sorted_by_key(|command| command.0));
    }
}
