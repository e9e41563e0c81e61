// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random streams of events: the bounded records equal naive ones, and every picture of them is
//! valid XML.
//!
//! The naive record keeps every event. Streams are longer and wider than the bounds, so that
//! buckets and cells are put together on the way.

use paternoster_core::{Action, Event, Flags, Nanos, Observer, Op};
use paternoster_trace::record::{self, AccessRecord, BUCKETS_MAX, CELLS_MAX, DepthRecord};
use paternoster_trace::{Kind, Recorder, Run, draw};
use proptest::prelude::*;

use crate::common::clients;

/// A step of time in ns, what happens, which client, which sector.
type Step = (u64, u8, usize, u64);

/// The stream of these steps; nothing completes that was not issued.
fn events(steps: &[Step]) -> Vec<Event> {
    let clients = clients();
    let (mut at, mut depth) = (Nanos::ZERO, 0);
    let mut events = Vec::new();
    for &(pause, what, client, sector) in steps {
        at += Nanos(pause);
        let action = match what {
            0..=3 => Action::Issue,
            4..=6 if depth > 0 => Action::Complete,
            7 if depth > 0 => Action::Requeue,
            _ => Action::Queue,
        };
        depth += match action {
            Action::Issue => 1,
            Action::Complete | Action::Requeue => -1,
            _ => 0,
        };
        let op = if sector % 3 == 0 { Op::Write } else { Op::Read };
        let (client, flags, served) = (clients[client], Flags::default(), Nanos::ZERO);
        let sectors = 8;
        events.push(Event {
            at,
            sequence: 0,
            action,
            client,
            op,
            flags,
            sector,
            sectors,
            error: 0,
            served,
        });
    }
    events
}

/// Pauses from nothing to seconds: buckets double many times.
fn steps(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![Just(0), 0..2_000u64, 0..10_000_000u64, 0..3_000_000_000u64];
    let sector = prop_oneof![0..64u64, 0..1u64 << 34];
    prop::collection::vec((pause, 0..9u8, 0..4usize, sector), count)
}

/// Each change of depth, from the first event on: when, and to how many.
fn curve(events: &[Event]) -> Vec<(Nanos, u32)> {
    let mut depth = 0;
    let mut curve = vec![(Nanos::ZERO, 0)];
    for event in events {
        match event.action {
            Action::Issue => depth += 1,
            Action::Complete | Action::Requeue => depth -= 1,
            _ => continue,
        }
        curve.push((event.at, depth));
    }
    curve
}

/// Area and maximum of the curve between two times, the second not included.
fn between(curve: &[(Nanos, u32)], from: Nanos, to: Nanos) -> (u128, u32) {
    let mut sum = (0, 0);
    for (nth, &(at, depth)) in curve.iter().enumerate() {
        let until = curve.get(nth + 1).map_or(at, |next| next.0);
        let (begin, end) = (at.max(from), until.min(to));
        if begin < end {
            sum.0 += u128::from((end - begin).0) * u128::from(depth);
        }
        // A depth counts also if it lasts no time.
        if begin < end || (from <= at && at < to) {
            sum.1 = sum.1.max(depth);
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Has every bucket the area and the maximum of the whole curve there, within the bound?
    #[test]
    fn depth_equals_naive(steps in steps(0..400)) {
        let events = events(&steps);
        let mut record = DepthRecord::default();
        events.iter().filter_map(record::Step::of).for_each(|step| record.step(&step));
        let curve = curve(&events);
        prop_assert!(record.buckets().len() as u64 <= BUCKETS_MAX);
        prop_assert_eq!(record.end(), curve[curve.len() - 1].0);
        let width = record.width();
        for (nth, bucket) in (0..).zip(record.buckets()) {
            let from = Nanos(nth * width.0);
            prop_assert_eq!((bucket.area, bucket.max), between(&curve, from, from + width));
        }
    }

    /// Are buckets that are put together later the same as those that were wide at once?
    #[test]
    fn halving_keeps_sums(steps in steps(0..100)) {
        let mut record = DepthRecord::default();
        events(&steps).iter().filter_map(record::Step::of).for_each(|step| record.step(&step));
        let before = (record.area(), record.max(), record.width());
        record.halve();
        let width = before.2 + before.2;
        prop_assert_eq!((record.area(), record.max(), record.width()), (before.0, before.1, width));
    }

    /// Is every picture of a random run sound, with title and description?
    #[test]
    fn pictures_are_sound(steps in steps(0..200), runs in 0..6usize, label in ".{0,120}") {
        let mut recorder = Recorder::default();
        Kind::ALL.iter().for_each(|kind| kind.record(&mut recorder));
        events(&steps).iter().for_each(|event| recorder.event(event));
        let run = Run { label: label.clone(), clients: vec![label.clone()], recorder };
        let runs = vec![run; runs];
        for kind in Kind::ALL {
            let text = draw(kind, &label, &runs);
            let parsed = roxmltree::Document::parse(&text).expect("well-formed");
            let root = parsed.root_element();
            let inside = |name| root.children().any(|part| part.has_tag_name(name));
            prop_assert!(inside("title") && inside("desc"));
            // No number was divided by nothing or left its range.
            prop_assert!(!text.contains("NaN") && !text.contains("922337203685477580"));
            prop_assert_eq!(text, draw(kind, &label, &runs));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Are there as many accesses as issues, for each client and direction, within the bound and
    /// within the run, also if cells had to be merged?
    #[test]
    fn access_equals_naive(steps in steps(20_000..60_000)) {
        let events = events(&steps);
        let mut record = AccessRecord::default();
        events.iter().filter_map(record::Step::of).for_each(|step| record.step(&step));
        let issues: Vec<&Event> =
            events.iter().filter(|event| event.action == Action::Issue).collect();
        prop_assert!(record.accesses().count() <= CELLS_MAX);
        prop_assert_eq!(record.count(), issues.len() as u64);
        for client in clients() {
            for write in [false, true] {
                let own = |event: &&&Event| {
                    event.client.index() == client.index() && (event.op != Op::Read) == write
                };
                let own: Vec<&Event> = issues.iter().filter(own).copied().collect();
                let of = record.accesses();
                let of = of.filter(|cell| cell.client == client.index() && cell.write == write);
                let kept: Vec<_> = of.collect();
                let sum: u64 = kept.iter().map(|cell| cell.count).sum();
                prop_assert_eq!(sum, own.len() as u64);
                // The place of each cell is that of an access that was there.
                for cell in kept.iter().take(20) {
                    let there = |event: &&Event| event.at == cell.at && event.sector == cell.sector;
                    prop_assert!(own.iter().any(there));
                }
            }
        }
    }
}
