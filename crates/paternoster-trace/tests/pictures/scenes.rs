// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenes: made-up machines whose traces are drawn in tests, the same on every machine.
//!
//! A scene is a device that serves one request after the other while up to some depth of them wait,
//! and processes that each read a stream or at random, or write.

use paternoster_core::Nanos;
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Record};
use paternoster_trace::record::{Devices, FromTrace};
use paternoster_trace::{Entry, Kind, Recorder, Run};

/// Whole numbers that look random: a linear congruential generator, its upper half.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// What happens in a picture.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) label: String,
    pub(crate) processes: u32,
    pub(crate) requests: u32,
    pub(crate) devices: u32,
    /// Every third process writes.
    pub(crate) writes: bool,
    /// How long a request takes, about, in microseconds.
    pub(crate) service_us: u64,
    pub(crate) name: String,
}

impl Scene {
    pub(crate) fn new(label: &str, processes: u32, requests: u32) -> Scene {
        let (devices, writes, service_us) = (1, true, 400);
        let (label, name) = (label.to_owned(), "worker".to_owned());
        Scene { label, processes, requests, devices, writes, service_us, name }
    }

    /// Its trace, with a note for each process.
    pub(crate) fn trace(&self) -> Vec<(Record, Vec<u8>)> {
        let mut dice = Dice(u64::from(self.processes) * 31 + self.service_us);
        let mut trace = Vec::new();
        for nth in 0..self.processes {
            let (code, pid, categories) = (Code::NOTE_PROCESS, 100 + nth, Categories::NOTIFY);
            let name =
                if nth % 3 == 0 { self.name.clone() } else { format!("{}-{nth}", self.name) };
            trace.push((Record { code, pid, categories, ..Record::default() }, name.into_bytes()));
        }
        let mut next = vec![0_u64; self.processes as usize];
        let (mut at, mut free) = (0_u64, 0_u64);
        let mut steps = Vec::new();
        for _ in 0..self.requests {
            at += dice.below(self.service_us * 1_500);
            // Some processes do far more than others.
            let nth = dice.below(u64::from(self.processes)) * dice.below(100) / 99;
            let nth = u32::try_from(nth.min(u64::from(self.processes) - 1)).unwrap();
            let write = self.writes && nth % 3 == 2;
            let stream = nth % 2 == 0;
            let begin = u64::from(nth) * 2_000_000;
            let sector = if stream { begin + next[nth as usize] } else { dice.below(400_000_000) };
            next[nth as usize] += 256;
            let issued = at.max(free) + dice.below(20_000);
            let takes =
                self.service_us * (500 + dice.below(1_000)) + dice.below(60) / 59 * 40_000_000;
            free = issued + takes / 3;
            let categories = if write { Categories::WRITE } else { Categories::READ };
            let device = DeviceNumber::new(8, 16 * (nth % self.devices));
            let (pid, bytes) = (100 + nth, if stream { 131_072 } else { 4_096 });
            let base = Record { pid, device, categories, sector, bytes, ..Record::default() };
            steps.push(Record { at: Nanos(at), code: Code::QUEUE, ..base });
            steps.push(Record { at: Nanos(issued), code: Code::ISSUE, ..base });
            steps.push(Record { at: Nanos(issued + takes), code: Code::COMPLETE, pid: 0, ..base });
        }
        steps.sort_by_key(|record| record.at);
        trace.extend(steps.into_iter().map(|record| (record, Vec::new())));
        trace
    }

    /// Everything that pictures need of it.
    pub(crate) fn run(&self) -> Run {
        let mut recorder = Recorder::default();
        Kind::ALL.iter().for_each(|kind| kind.record(&mut recorder));
        let mut reader = FromTrace::new(recorder, Devices::All);
        for (record, payload) in self.trace() {
            reader.entry(&Entry { record, payload: &payload });
        }
        let (recorder, clients) = reader.finish(|_| None);
        Run { label: self.label.clone(), clients, recorder }
    }
}
