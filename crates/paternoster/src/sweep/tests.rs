// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps: names of rows, parts, resumption, errors as rows.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use paternoster_core::elevator::{Elevator, Pick, Place, Position, Traits};
use paternoster_core::{QueueView, RequestId};
use paternoster_sim::schedulers;

use super::*;

const JOB: &str = "[a]\nrw=randread\nbs=4k\nsize=256k\ndirect=1\n";

fn row(cells: Value) -> Row {
    cells.as_object().expect("a map").clone()
}

fn done(rows: &[Row]) -> Vec<Row> {
    let done = |row| run_row(&Call::default(), row).expect("nothing stops it");
    rows.iter().map(done).collect()
}

/// Is a row named by what it requests: do defaults written out, empty cells, its cost and the type
/// of a seed change nothing?
#[test]
fn a_row_is_named_by_what_it_asks() {
    let same = [
        row(json!({"job": JOB})),
        row(json!({"job": JOB, "seed": 0.0, "trace": null, "set": "", "cost": 5})),
        row(json!({"job": JOB, "seed": "0", "device": "ssd-870evo", "scheduler": "mq-deadline"})),
    ];
    let names: BTreeSet<String> = row_names(&same).into_iter().collect();
    assert_eq!(names.len(), 1);
    assert_ne!(plan::name(&row(json!({"job": JOB, "seed": 1}))), plan::name(&same[0]));
    // Seeds up to the largest keep every digit.
    let last = row(json!({"job": JOB, "seed": u64::MAX}));
    assert_eq!(plan::asked(&last).0["seed"], json!(u64::MAX));
}

/// Is each row in one part, and no part costlier than another by more than the costliest row?
#[test]
fn parts_are_even_and_apart() {
    let rows: Vec<Row> =
        (0..100).map(|place| row(json!({"job": JOB, "cost": place % 13}))).collect();
    let parts: Vec<Vec<usize>> =
        (1..=7).map(|part| part_of(&rows, part, 7).expect("there is one")).collect();
    let mut all: Vec<usize> = parts.concat();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    let sums = parts.iter().map(|part| part.iter().map(|place| place % 13).sum::<usize>());
    let sums: Vec<usize> = sums.collect();
    assert!(sums.iter().max().unwrap() - sums.iter().min().unwrap() <= 12, "{sums:?}");
    for (part, parts) in [(0, 7), (8, 7), (1, 0)] {
        assert!(part_of(&rows, part, parts).is_err());
    }
}

/// Is a mistake a row's error, with the other rows run, and does an equal row give equal results?
/// 256 KiB in requests of 4 KiB are 64.
#[test]
fn a_failing_row_is_a_row() {
    let rows = [
        row(json!({"job": JOB, "device": "null"})),
        row(json!({"job": JOB, "device": "nothing"})),
        row(json!({"job": "/no.fio"})),
        row(json!({"trace": "/no.trace"})),
        row(json!({})),
        row(json!({"job": JOB, "seed": -1})),
        row(json!({"job": JOB, "sha256": "0"})),
        row(json!({"job": JOB, "device": "null", "sha256": plan::hash(JOB.as_bytes())})),
        row(json!({"job": JOB, "trace": "/no.trace"})),
        row(json!({"job": JOB, "window": "0:1"})),
        row(json!({"trace": "/no.trace", "runtime": "1s"})),
    ];
    let found = done(&rows);
    let errors: Vec<Option<&str>> =
        found.iter().map(|row| row.get("error").and_then(Value::as_str)).collect();
    let wrong: Vec<bool> = errors.iter().map(Option::is_some).collect();
    assert_eq!(
        wrong,
        [false, true, true, true, true, true, true, false, true, true, true],
        "{errors:?}"
    );
    let of_window = "RequestError: window 0:1: the row has a job, which takes none";
    assert_eq!(errors[9], Some(of_window));
    assert!(errors[1].unwrap().starts_with("RequestError: there is no device `nothing`"));
    assert_eq!(errors[5], Some("RequestError: seed of a plan's row is no uint64: -1"));
    assert_eq!((&found[0]["ios"], &found[0]["bytes"]), (&json!(64), &json!(64 * 4096)));
    assert_eq!(found[0]["digest"], found[7]["digest"]);
}

/// A FIFO that panics when it is asked for the tenth time.
#[derive(Debug, Default)]
struct Panics {
    waiting: VecDeque<RequestId>,
    picks: u32,
}

impl Elevator for Panics {
    fn traits(&self) -> Traits {
        Traits::mq("panics")
    }
    fn attach(&mut self, _: &mut QueueView) {}
    fn insert(&mut self, _: &mut QueueView, id: RequestId, _: Position) {
        self.waiting.push_back(id);
    }
    fn pick(&mut self, scene: &mut QueueView) -> Pick {
        self.picks += 1;
        assert!(self.picks < 10, "pick {}", self.picks);
        self.drain(scene).map_or(Pick::Nothing, |id| Pick::Dispatch(id, Place::Tail))
    }
    fn removed(&mut self, _: &mut QueueView, id: RequestId) {
        self.waiting.retain(|waits| *waits != id);
    }
    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        self.waiting.pop_front()
    }
    fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).expect("few")
    }
}

/// Is an elevator's panic an error of its row with its message, on any device, with the other rows
/// run as they are alone; is such a row predicted; and does `sweep` end with status 1 and do
/// nothing the second time?
#[test]
fn a_panic_is_an_error_of_its_row() {
    schedulers::lend("panics", Arc::new(|| Box::<Panics>::default())).expect("the name is free");
    let ask = |scheduler: &str, device: &str| {
        row(json!({"job": JOB, "scheduler": scheduler, "device": device}))
    };
    let good = [ask("noop", "null"), ask("bfq", "ssd-870evo"), ask("none", "hdd-7200")];
    let bad = [ask("panics", "null"), ask("panics", "ssd-870evo"), ask("panics", "hdd-7200")];
    let mixed: Vec<Row> = good.iter().zip(&bad).flat_map(|two| [two.1, two.0]).cloned().collect();
    let found = done(&mixed);
    let timeless = |row: &Row| {
        let mut row = row.clone();
        row.remove("cost_ns");
        row
    };
    for (two, alone) in found.chunks(2).zip(done(&good)) {
        let error = two[0]["error"].as_str().expect("it failed");
        assert!(
            error.starts_with("Error: a bug, ")
                && error.contains("panic: pick 10 (")
                && error.contains(file!()),
            "{error}"
        );
        assert!(!two[0].contains_key("digest") && !alone.contains_key("error"));
        assert_eq!(timeless(&two[1]), timeless(&alone));
    }
    let costs = predict(&Call::default(), &mixed).expect("nothing stops it");
    assert!(costs.iter().all(|cost| cost.is_finite() && *cost > 0.0), "{costs:?}");

    let folder = std::env::temp_dir().join(format!("paternoster-panics-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    let plan = folder.join("plan.csv");
    files::write(&plan, &plan::PLAN, &mixed).expect("written");
    let options = SweepOptions {
        plan,
        out: Some(folder.join("out")),
        part: "1/1".to_owned(),
        chunk: 0.0,
        format: Format::Csv,
        predict: None,
    };
    assert!(matches!(sweep(&options), Err(Failure::Status(1))));
    assert_eq!(super::done(&folder.join("out")).expect("read").len(), 6);
    assert!(matches!(sweep(&options), Ok(())));
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// Does a repeated sweep do nothing, one that lost a file run its rows, and do parts make up the
/// whole?
#[test]
fn a_sweep_goes_on() {
    let folder = std::env::temp_dir().join(format!("paternoster-sweep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    let plan_file = folder.join("plan.csv");
    let rows: Vec<Row> = (0..6).map(|seed| row(json!({"job": JOB, "seed": seed}))).collect();
    files::write(&plan_file, &plan::PLAN, &rows).expect("written");
    let out = folder.join("out");
    let options = |part: &str| SweepOptions {
        plan: plan_file.clone(),
        out: Some(out.clone()),
        part: part.to_owned(),
        chunk: 0.0,
        format: Format::Csv,
        predict: None,
    };
    let files = || std::fs::read_dir(&out).expect("a folder").count();
    sweep(&options("2/2")).expect("done");
    assert_eq!(files(), 3);
    sweep(&options("1/1")).expect("done");
    assert_eq!((files(), super::done(&out).expect("read").len()), (6, 6));
    let lost = std::fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(lost).expect("it is there");
    sweep(&options("1/1")).expect("done");
    let names: BTreeSet<String> = super::done(&out).expect("read").into_iter().collect();
    assert_eq!(names, row_names(&rows).into_iter().collect());
    assert!(matches!(sweep(&options("x")), Err(Failure::Request(m)) if m.contains("17/200")));
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// Is a row predicted from what its device does in its time, or from what its job makes, and from
/// its scheduler? A disk answers few requests in a second; a job of 64 requests makes no more.
#[test]
fn costs_follow_requests_and_schedulers() {
    let job = JOB.replace("size=256k", "size=1g");
    let ask = |device: &str, scheduler: &str, runtime: &str| {
        row(json!({"job": job, "device": device, "scheduler": scheduler, "runtime": runtime}))
    };
    let rows = [
        ask("hdd-7200", "none", "1s"),
        ask("nvme-pm9a3", "none", "1s"),
        ask("nvme-pm9a3", "bfq", "1s"),
        ask("nvme-pm9a3", "none", "2s"),
        row(json!({"job": "/no.fio"})),
    ];
    let costs = predict(&Call::default(), &rows).expect("nothing stops it");
    assert!(costs[0] < costs[1] && costs[1] < costs[2], "{costs:?}");
    let average = costs[..4].iter().sum::<f64>() / 4.0;
    assert!((costs[4] - average).abs() < 1.0, "{costs:?}");
    let small = row(json!({"job": JOB, "device": "nvme-pm9a3", "scheduler": "none",
                           "runtime": "1s"}));
    let small = predict(&Call::default(), &[small]).expect("it is right")[0];
    // Twice the time is twice the requests; the rest of a row stays.
    let twice = costs[3] - costs[1];
    let once = predict(&Call::default(), &[ask("nvme-pm9a3", "none", "1us")]).expect("it is right");
    assert!((costs[1] - once[0] - twice).abs() < twice / 100.0, "{costs:?} {once:?}");
    let each = (small - once[0]) / 64.0;
    assert!((600.0..1200.0).contains(&each), "{small} {once:?}");
}

/// Are the text columns of plans and results those that the tables of every command have as text?
#[test]
fn texts_are_those_of_the_plan() {
    let texts = plan::columns().filter(|(_, kind)| *kind == paternoster_frame::cells::Kind::Text);
    let texts: BTreeSet<&str> = texts.map(|(name, _)| name).collect();
    assert_eq!(texts, BTreeSet::from(paternoster_frame::cells::TEXTS));
}
