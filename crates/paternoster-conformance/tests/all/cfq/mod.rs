// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our decisions compared with those of a real CFQ.
//!
//! Linux 4.19.1 ran on modelled devices with its scheduler logging each decision. Here the same
//! requests come to our `cfq-4.19` at the same times, merge as they did, and are picked and end as
//! they did; at each point where CFQ decides, our choice is compared with the recorded one, and the
//! recorded one is carried out (*forced history*, see `probe_points.rs` of the library's cfq).
//!
//! ```text
//! log.rs      a line            27.987297 lg-109 m N cfq109S idle=0  (message.rs: idle=0)
//! calls.rs    a call            an insertion, with all that was decided in it
//! replay.rs   its repetition    the same call made on our Cfq, in the world that the log describes
//! oracle.rs   a decision        ours compared, the recorded one returned (decisions.rs)
//! beside.rs   observations, not decisions: seek history, think time, the device's depth
//! tally.rs    the account       by class of decision, with the causes of differences
//! setup.rs    what the log omits: the device, attributes, classes, groups
//! plain.rs    the recordings under noop and deadline
//! ```
//!
//! Only a choice between two or more counts: not a request where only one waits, nor a refusal to
//! do what no scheduler would have done. The account is in `docs/schedulers/cfq-against-linux.md`;
//! run the test with `--nocapture` to see it.
//!
//! Source: the recordings' README; `docs/rules/cfq.md`.

mod beside;
mod calls;
mod decisions;
mod log;
mod message;
mod oracle;
mod plain;
mod replay;
mod setup;
mod tally;

use std::collections::BTreeMap;

use paternoster_conformance::{Folder, results};
use paternoster_core::testing::{Probe, World};
use paternoster_schedulers::by_name;

use calls::Calls;
use log::{Line, class_of};
use setup::Setup;
use tally::Tally;

/// Classes that are equal without exception: computed from what is logged exactly.
const EXACT: [&str; 20] = [
    "age comes first",
    "average of busy queues",
    "deep queue is slow",
    "hw_tag",
    "idle window changes",
    "idling is considered",
    "in the driver",
    "key",
    "may dispatch",
    "merge: processes",
    "preemption",
    "queue of a request",
    "queues made, merged, split",
    "request within a queue",
    "seek history",
    "slice length",
    "turn: queue",
    "waiting in the queue",
    "workload: kind",
    "workload: time",
];

/// A log's name and its text.
fn logs() -> impl Iterator<Item = (String, String)> {
    Folder::Cfq.names().into_iter().map(|name| {
        let text = Folder::Cfq.log(&name);
        (name, text)
    })
}

fn lines(text: &str) -> impl Iterator<Item = Line> {
    text.lines().map(|line| Line::parse(line).unwrap_or_else(|wrong| panic!("{wrong}")))
}

fn is_cfq(text: &str) -> bool {
    text.contains(" m N cfq")
}

/// Is every line of every log understood, and do calls balance? 1 385 227 lines; what is inserted
/// was made, what is issued was inserted and picked, what ends was issued.
#[test]
fn every_line_is_understood() {
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    for (name, text) in logs() {
        lines(&text).for_each(|line| *classes.entry(class_of(&line)).or_default() += 1);
        if is_cfq(&text) {
            let oddities = Calls::cut(lines(&text)).oddities;
            assert!(oddities.is_empty(), "{name}: {oddities:?}");
        }
    }
    println!("{classes:#?}");
    let all: u64 = classes.values().sum();
    assert_eq!(all, 1_385_227, "lines");
}

/// Do we decide as Linux 4.19.1 did? Keys and slice lengths exactly, 99 % of the dispatches, 98 %
/// of each other kind of decision, and no difference without a known cause. 730,965 decisions are
/// compared: without its hook none would be.
#[test]
fn decisions_are_those_of_linux() {
    let results = serde_json::from_str(&results()).expect("JSON");
    let mut all = Tally::default();
    for (name, text) in logs().filter(|(_, text)| is_cfq(text)) {
        let calls = Calls::cut(lines(&text));
        let setup = Setup::of(&name, &calls.steps, &results);
        all.add(&replay::Replay::run(&name, setup, &calls.steps));
    }
    println!("{}", all.report());
    assert_eq!(all.decided(), 730_965);
    for (class, count) in &all.0 {
        let least = match *class {
            class if EXACT.contains(&class) => 100.0,
            "dispatch" | "no dispatch" => 99.0,
            _ => 98.0,
        };
        assert!(all.percent(class) >= least, "{class}: {count:?}");
        assert!(!count.causes.contains_key(oracle::UNEXPLAINED), "{class}: {count:?}");
    }
}

/// Do noop and deadline, in the recordings made with them, pick what Linux picked? 4,993 times of
/// 4,993.
#[test]
fn dispatches_of_noop_and_deadline_are_those_of_linux() {
    let mut all = Tally::default();
    for (name, text) in logs().filter(|(_, text)| !is_cfq(text)) {
        let scheduler = if name.contains("noop") { "noop" } else { "deadline" };
        let elevator = by_name(scheduler).expect("a scheduler");
        let mut probe = Probe::new(World::default(), elevator);
        setup::set_deadline(&name, &mut probe);
        let tally = plain::Plain::run(&name, probe, lines(&text));
        println!("{name}\n{}", tally.report());
        all.add(&tally);
    }
    assert_eq!(all.decided(), 4993);
    for (class, count) in &all.0 {
        assert!(count.same == count.decided, "{class}: {count:?}");
    }
}
