// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does a disk keep its promises, whatever the operations, the faults and the power cuts?
//!
//! Operations, pauses, power cuts and episodes are drawn, on devices of every model; failures are
//! shrunk. Each step checks the answers: each end is reported once, in order of ending, not before
//! its submit, with content as `promises` says.

use std::collections::BTreeMap;

use paternoster_disk::{Device, Disk, Done, Id, Nanos, Next, Op};
use proptest::prelude::*;

use crate::promises::{Promises, SECTORS};

/// Of every model, with and without cache, forced unit access, and a queueable flush.
const DEVICES: [&str; 8] = [
    "ssd-870evo",
    "hdd-7200",
    "hdd-7200-no-ncq",
    "nvme-kc3000",
    "ssd-pm883",
    "flash-card-2010",
    "array-eva",
    "null",
];

/// Two commands of at most 4 KiB at a time: longer operations go in pieces.
const NARROW: &str = r#"
name = "narrow"
model = "linear"
summary = "two commands of 4 KiB at a time"
valid = "in this test"
[facts]
capacity = { value = "1 MiB", source = "assumed" }
depth = { value = 2, source = "assumed" }
write_cache = { value = true, source = "assumed" }
fua = { value = FUA, source = "assumed" }
max_sectors_kb = { value = 4, source = "assumed" }
[linear]
servers = { value = 2, source = "assumed" }
base = { value = "100 us", source = "assumed" }
rate = { value = "10 us/KiB", source = "assumed" }
"#;

pub(crate) fn devices() -> Vec<Device> {
    let named = DEVICES.iter().map(|name| Device::named(name).unwrap());
    let narrow = ["true", "false"].map(|fua| {
        let text = NARROW.replace("FUA", fua);
        Device::parse("narrow.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    });
    named.chain(narrow).collect()
}

const EPISODES: [&str; 10] = [
    "error every=5",
    "error op=flush probability=0.5",
    "error op=write every=3 errno=28",
    "delay every=2 time=3ms",
    "stall every=7 time=20ms",
    "refuse every=3",
    "refuse to=5ms",
    "slow factor=7 every=2",
    "throttle rate=1MiB op=write",
    "torn",
];

#[derive(Debug, Clone)]
enum Step {
    Write {
        first: u64,
        sectors: u64,
        fua: bool,
    },
    Read {
        first: u64,
        sectors: u64,
    },
    Flush,
    /// This many ns pass without a call.
    Pass(u64),
    /// Everything that has ended is fetched.
    Ask,
    /// The next end is awaited.
    Wait,
    Crash(u64),
    Episode(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place =
        (0..SECTORS - 1).prop_flat_map(|first| (Just(first), 1..=(SECTORS - first).min(20)));
    let step = prop_oneof![
        6 => (place.clone(), any::<bool>()).prop_map(|((first, sectors), fua)| Step::Write {
            first,
            sectors,
            fua,
        }),
        2 => place.prop_map(|(first, sectors)| Step::Read { first, sectors }),
        2 => Just(Step::Flush),
        2 => (0u64..3_000_000).prop_map(Step::Pass),
        2 => Just(Step::Ask),
        4 => Just(Step::Wait),
        1 => any::<u64>().prop_map(Step::Crash),
        1 => (0..EPISODES.len()).prop_map(Step::Episode),
    ];
    prop::collection::vec(step, 1..80)
}

/// An operation under way, as the caller knows it: the step of its submit, and the number of a
/// write.
#[derive(Debug, Clone, Copy)]
struct Asked {
    step: u64,
    number: u64,
    at: Nanos,
}

struct World {
    disk: Disk,
    now: Nanos,
    promises: Promises,
    asked: BTreeMap<Id, Asked>,
    torn: bool,
    last_end: Nanos,
    last_id: Option<Id>,
}

impl World {
    fn new(device: &Device, seed: u64) -> World {
        World {
            disk: Disk::new(device, seed),
            now: Nanos::ZERO,
            promises: Promises::new(device.has_volatile_cache()),
            asked: BTreeMap::new(),
            torn: false,
            last_end: Nanos::ZERO,
            last_id: None,
        }
    }

    fn asked(&mut self, id: Id, number: u64) -> Result<(), String> {
        let step = self.promises.step();
        if self.last_id.is_some_and(|last| id <= last) {
            return Err(format!("{id:?} is not new"));
        }
        self.last_id = Some(id);
        self.asked.insert(id, Asked { step, number, at: self.now });
        Ok(())
    }

    fn told(&mut self, done: &Done) -> Result<(), String> {
        let Some(asked) = self.asked.remove(&done.id) else {
            return Err(format!("told twice, or never asked: {done:?}"));
        };
        if done.at < asked.at || done.submitted != asked.at || done.at > self.now {
            return Err(format!("at {}: {done:?} of {asked:?}", self.now));
        }
        if done.at < self.last_end {
            return Err(format!("{done:?} after one that ended at {}", self.last_end));
        }
        self.last_end = done.at;
        let well = done.result.is_ok();
        match done.op {
            Op::Write | Op::WriteFua => {
                self.promises.write_told(asked.number, well, done.op == Op::WriteFua);
            }
            Op::Flush if well => self.promises.flush_told(asked.step),
            Op::Read if well => {
                self.promises.judge_read(asked.step, done.offset / 512, self.disk.data())?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The first sectors of an image.
    fn bytes(image: &paternoster_disk::Image) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(SECTORS * 512).unwrap()];
        image.read(0, &mut bytes);
        bytes
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Write { first, sectors, fua } => {
                let number = self.promises.step();
                let data = number.to_le_bytes().repeat(usize::try_from(sectors * 64).unwrap());
                self.promises.submitted(number, first, first + sectors, self.torn);
                let id = self.disk.write(self.now, first * 512, &data, fua).unwrap();
                self.asked(id, number)?;
            }
            Step::Read { first, sectors } => {
                let id = self.disk.submit(self.now, Op::Read, first * 512, sectors * 512);
                self.asked(id.unwrap(), 0)?;
            }
            Step::Flush => {
                let id = self.disk.submit(self.now, Op::Flush, 0, 0).unwrap();
                self.asked(id, 0)?;
            }
            Step::Pass(time) => self.now += Nanos(time),
            Step::Ask => while self.ask()?.is_none() {},
            Step::Wait => self.wait()?,
            Step::Crash(seed) => {
                for other in 0..4 {
                    let image = self.disk.image_if_crashed(self.now, seed ^ other);
                    self.promises.judge_crash(&World::bytes(&image))?;
                }
                let image = self.disk.crash(self.now, seed);
                let bytes = World::bytes(&image);
                self.promises.judge_crash(&bytes)?;
                self.promises.crashed(&bytes);
                self.asked.clear();
            }
            Step::Episode(place) => {
                self.disk.episode(EPISODES[place]).unwrap();
                self.torn |= EPISODES[place] == "torn";
            }
        }
        Ok(())
    }

    /// Calls `next` once; returns its answer if nothing has ended.
    fn ask(&mut self) -> Result<Option<Next>, String> {
        match self.disk.next(self.now) {
            Next::Done(done) => self.told(&done).map(|()| None),
            next => Ok(Some(next)),
        }
    }

    fn wait(&mut self) -> Result<(), String> {
        loop {
            match self.ask()? {
                None => return Ok(()),
                Some(Next::Wait(at)) if at > self.now => self.now = at,
                Some(Next::Idle) if self.asked.is_empty() => return Ok(()),
                next => return Err(format!("{next:?} at {} with {:?}", self.now, self.asked)),
            }
        }
    }

    fn end(&mut self) -> Result<(), String> {
        while !self.asked.is_empty() {
            self.wait()?;
        }
        if self.disk.under_way() != 0 {
            return Err("something is under way that nobody asked for".to_owned());
        }
        self.take(&Step::Crash(self.now.0))
    }
}

fn run(device: &Device, seed: u64, steps: &[Step]) -> Result<u64, String> {
    let mut world = World::new(device, seed);
    for step in steps {
        world.take(step)?;
    }
    world.end()?;
    Ok(world.disk.digest())
}

/// When an operation ended, and how.
type End = (Nanos, Result<(), i32>);

/// The ends of a write and reads, one after the other, under a rule; whether the write survives a
/// power cut; and the digest.
fn told(seed: u64, rule: &str, reads: u64, cut: u64) -> ((Vec<End>, bool), u64) {
    let mut disk = Disk::new(&Device::named("ssd-870evo").unwrap(), seed);
    disk.episode(rule).unwrap();
    disk.write(Nanos::ZERO, 0, &[7; 512], false).unwrap();
    let mut ends = Vec::new();
    for place in 0..=reads {
        let done = disk.wait().unwrap();
        ends.push((done.at, done.result));
        if place < reads {
            disk.submit(disk.now(), Op::Read, place * 512, 512).unwrap();
        }
    }
    let image = disk.crash(disk.now(), cut);
    ((ends, World::bytes(&image)[0] == 7), disk.digest())
}

/// Rules that make some operations fail, or late.
fn rules() -> impl Strategy<Value = String> {
    let errors =
        (1..4, 1..6).prop_map(|(errno, every)| format!("error errno={errno} every={every}"));
    let delays =
        (1..4, 1..6).prop_map(|(time, every)| format!("delay time={time}ms every={every}"));
    prop_oneof![2 => errors, 1 => delays]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Is every promise kept, and does a repeated run give the same?
    #[test]
    fn promises_are_kept(device in prop::sample::select(devices()), seed: u64, steps in steps()) {
        let digest = run(&device, seed, &steps);
        prop_assert!(digest.is_ok(), "{}: {}", device.name(), digest.unwrap_err());
        prop_assert_eq!(digest, run(&device, seed, &steps));
    }

    /// Do two runs have equal digests if, and only if, they had the same ends and a power cut left
    /// the same?
    #[test]
    fn a_digest_stands_for_what_is_told(
        seed: u64,
        one in rules(),
        other in rules(),
        reads in 0..12u64,
        cuts: [u64; 2],
    ) {
        let (one, other) = (told(seed, &one, reads, cuts[0]), told(seed, &other, reads, cuts[1]));
        prop_assert_eq!(one.0 == other.0, one.1 == other.1, "{:?} and {:?}", one, other);
    }
}
