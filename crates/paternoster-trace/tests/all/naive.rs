// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow, latency and depth of random journeys: do the bounded records equal naive sums over a list,
//! and does a trace of a run give what the run does?
//!
//! A journey is a bio that is submitted, issued and, mostly, completed. Each has a place of its
//! own, so that it is clear which completion belongs to which; shared places are covered by the
//! records' own tests.

use paternoster_core::{Action, Event, Flags, Nanos, Observer, Op};
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Record};
use paternoster_trace::record::{
    Amount, BUCKETS_MAX, Devices, FlowRecord, FromTrace, LATENCY_BUCKETS_MAX, LatencyRecord, Stage,
    Way,
};
use paternoster_trace::{Entry, Kind, Recorder, Run, draw};
use proptest::prelude::*;

use crate::common::clients;

/// A bio and its request.
#[derive(Debug, Clone)]
struct Journey {
    queued: u64,
    /// From there to the issue, and on to the completion, if it ever comes.
    waits: u64,
    takes: Option<u64>,
    write: bool,
    sectors: u32,
    client: usize,
}

fn journeys(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Journey>> {
    let time = || prop_oneof![0..2_000u64, 0..50_000_000u64, 0..20_000_000_000u64];
    let journey = (time(), time(), prop::option::weighted(0.9, time()), any::<bool>());
    let journey = (journey, prop_oneof![Just(0), 1..2_000u32], 0..4usize);
    let journey = journey.prop_map(|((queued, waits, takes, write), sectors, client)| {
        // A flush is no read.
        let write = write || sectors == 0;
        Journey { queued, waits, takes, write, sectors, client }
    });
    prop::collection::vec(journey, count)
}

/// All events in order of time; at one instant completions come last, so that none is before its
/// issue.
fn events(journeys: &[Journey]) -> Vec<Event> {
    let clients = clients();
    let mut events = Vec::new();
    for (nth, journey) in (0_u64..).zip(journeys) {
        let issued = journey.queued + journey.waits;
        let steps = [
            (Some(journey.queued), Action::Queue),
            (Some(issued), Action::Issue),
            (journey.takes.map(|takes| issued + takes), Action::Complete),
        ];
        for (at, action) in steps {
            let Some(at) = at else { continue };
            let op = if journey.write { Op::Write } else { Op::Read };
            events.push(Event {
                at: Nanos(at),
                sequence: 0,
                action,
                client: clients[journey.client],
                op,
                flags: Flags::default(),
                sector: nth * 4_096,
                sectors: journey.sectors,
                error: 0,
                served: Nanos::ZERO,
            });
        }
    }
    events.sort_by_key(|event| (event.at, event.action == Action::Complete));
    events
}

fn recorder() -> Recorder {
    let mut recorder = Recorder::default();
    Kind::ALL.iter().for_each(|kind| kind.record(&mut recorder));
    recorder
}

fn recorded(events: &[Event]) -> Recorder {
    let mut recorder = recorder();
    events.iter().for_each(|event| recorder.event(event));
    recorder
}

/// What counts at this letter between two times, the second not included: bytes and requests, of
/// reads and of writes.
fn amounts(events: &[Event], action: Action, from: u64, to: u64) -> [Amount; 2] {
    [Op::Read, Op::Write].map(|op| {
        let own = events.iter().filter(|event| {
            event.action == action
                && event.op == op
                && event.sectors > 0
                && (from..to).contains(&event.at.0)
        });
        let sectors: Vec<u64> = own.map(|event| u64::from(event.sectors)).collect();
        Amount { bytes: sectors.iter().sum::<u64>() * 512, count: sectors.len() as u64 }
    })
}

fn check_flow(record: &FlowRecord, events: &[Event], action: Action) -> Result<(), TestCaseError> {
    prop_assert!(record.buckets().len() as u64 <= BUCKETS_MAX);
    prop_assert_eq!(record.total(), amounts(events, action, 0, u64::MAX));
    for (nth, bucket) in (0..).zip(record.buckets()) {
        let from = nth * record.width().0;
        prop_assert_eq!(bucket, amounts(events, action, from, from + record.width().0));
    }
    Ok(())
}

/// The latencies that ended between two times, of one way and direction.
fn latencies(journeys: &[Journey], way: Way, write: bool, from: u64, to: u64) -> Vec<u64> {
    let own = journeys.iter().filter(|journey| journey.write == write && journey.sectors > 0);
    own.filter_map(|journey| {
        let takes = journey.takes?;
        let end = journey.queued + journey.waits + takes;
        let whole = if way == Way::Whole { journey.waits } else { 0 };
        (from..to).contains(&end).then_some(takes + whole)
    })
    .collect()
}

fn check_latency(record: &LatencyRecord, journeys: &[Journey]) -> Result<(), TestCaseError> {
    prop_assert!(record.buckets().len() as u64 <= LATENCY_BUCKETS_MAX);
    let width = record.width().0;
    for way in Way::ALL {
        for write in [false, true] {
            for (nth, bucket) in (0..).zip(record.buckets()) {
                let (from, own) = (nth * width, bucket.of(way, write));
                let naive = latencies(journeys, way, write, from, from + width);
                let sum = naive.iter().copied().map(u128::from).sum::<u128>();
                prop_assert_eq!((own.count(), own.sum()), (naive.len() as u64, sum));
                let ends = (naive.iter().min().copied(), naive.iter().max().copied());
                let ends = (ends.0.unwrap_or(0), ends.1.unwrap_or(0));
                prop_assert_eq!((own.least().0, own.most().0), ends);
            }
            let all = latencies(journeys, way, write, 0, u64::MAX);
            prop_assert_eq!(record.total(way, write).count(), all.len() as u64);
        }
    }
    Ok(())
}

/// The same as a block trace, which ends each request as process 0.
fn as_trace(events: &[Event]) -> Vec<Record> {
    let record = |event: &Event| {
        let (code, pid) = match event.action {
            Action::Queue => (Code::QUEUE, 100 + event.client.index()),
            Action::Issue => (Code::ISSUE, 100 + event.client.index()),
            _ => (Code::COMPLETE, 0),
        };
        let categories = if event.op == Op::Read { Categories::READ } else { Categories::WRITE };
        let (at, sector, bytes) = (event.at, event.sector, event.sectors * 512);
        let device = DeviceNumber::new(8, 0);
        Record { at, code, pid, categories, sector, bytes, device, ..Record::default() }
    };
    events.iter().map(record).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Does every bucket hold what was completed in it; in a stream without completions, what was
    /// issued; and what was submitted if there is nothing else?
    #[test]
    fn flow_equals_naive(journeys in journeys(1..80)) {
        let all = events(&journeys);
        for (stage, last) in [
            (Stage::Complete, Action::Complete),
            (Stage::Issue, Action::Issue),
            (Stage::Queue, Action::Queue),
        ] {
            let known = |event: &&Event| match last {
                Action::Complete => true,
                Action::Issue => event.action != Action::Complete,
                _ => event.action == Action::Queue,
            };
            let events: Vec<Event> = all.iter().filter(known).copied().collect();
            let mut record = recorded(&events).flow.expect("asked for");
            let there = |event: &Event| event.action == last && event.sectors > 0;
            if !events.iter().any(there) {
                continue;
            }
            prop_assert_eq!(record.stage(), stage);
            check_flow(&record, &events, last)?;
            record.halve();
            check_flow(&record, &events, last)?;
        }
    }

    /// Has every bucket the latencies that ended in it: number, sum, least and most?
    #[test]
    fn latency_equals_naive(journeys in journeys(0..60)) {
        let mut record = recorded(&events(&journeys)).latency.expect("asked for");
        check_latency(&record, &journeys)?;
        record.halve();
        check_latency(&record, &journeys)?;
    }

    /// Is iowatcher's mean depth, of what is found after each issue, that of a naive count?
    #[test]
    fn depth_at_issues_equals_naive(journeys in journeys(0..80)) {
        let events = events(&journeys);
        let (mut depth, mut sum, mut count) = (0_u128, 0_u128, 0_u64);
        for event in &events {
            match event.action {
                Action::Issue => {
                    depth += 1;
                    sum += depth;
                    count += 1;
                }
                Action::Complete => depth -= 1,
                _ => {}
            }
        }
        let record = recorded(&events).depth.expect("asked for");
        prop_assert_eq!(record.at_issues(), (sum, count));
    }

    /// Does a trace of a run have what the run itself has, and draw the same lines?
    #[test]
    fn a_trace_tells_what_the_run_tells(journeys in journeys(0..80)) {
        let events = events(&journeys);
        let run = recorded(&events);
        let mut trace = FromTrace::new(recorder(), Devices::All);
        for record in as_trace(&events) {
            trace.entry(&Entry { record, payload: &[] });
        }
        let (trace, names) = trace.finish(|_| None);
        prop_assert!(names.iter().all(|name| name.starts_with("pid 10")));
        prop_assert_eq!(&trace.depth, &run.depth);
        prop_assert_eq!(&trace.flow, &run.flow);
        prop_assert_eq!(&trace.latency, &run.latency);
        let both = [run, trace].map(|recorder| {
            let runs = [Run { label: "a".to_owned(), clients: names.clone(), recorder }];
            let lines = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Access);
            lines.map(|kind| draw(kind, "b", &runs)).collect::<Vec<String>>()
        });
        prop_assert_eq!(&both[0], &both[1]);
    }
}
