// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps: names of rows, parts, resumption, errors as rows.

use std::collections::BTreeSet;

use super::*;

const JOB: &str = "[a]\nrw=randread\nbs=4k\nsize=256k\ndirect=1\n";

fn row(cells: Value) -> Row {
    cells.as_object().expect("a map").clone()
}

fn done(rows: &[Row]) -> Vec<Row> {
    let done = run_rows(&Call::default(), rows).expect("nothing stops it");
    done.as_array().expect("a list").iter().cloned().map(row).collect()
}

/// Is a row named by what it asks: defaults written out, empty cells, its cost and the type of a
/// seed change nothing?
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
    // Seeds up to the last are kept to the digit.
    let last = row(json!({"job": JOB, "seed": u64::MAX}));
    assert_eq!(plan::asked(&last).0["seed"], json!(u64::MAX));
}

/// Is each row in one part, and no part dearer than another by more than the dearest row?
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

/// Is what is wrong a row's error, with the other rows done, and does an equal row give equal
/// results? 256 KiB in requests of 4 KiB are 64.
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
    ];
    let found = done(&rows);
    let errors: Vec<Option<&str>> =
        found.iter().map(|row| row.get("error").and_then(Value::as_str)).collect();
    let wrong: Vec<bool> = errors.iter().map(Option::is_some).collect();
    assert_eq!(wrong, [false, true, true, true, true, true, true, false]);
    assert!(errors[1].unwrap().starts_with("RequestError: there is no device `nothing`"));
    assert_eq!(errors[5], Some("RequestError: seed of a plan's row is no uint64: -1"));
    assert_eq!((&found[0]["ios"], &found[0]["bytes"]), (&json!(64), &json!(64 * 4096)));
    assert_eq!(found[0]["digest"], found[7]["digest"]);
}

/// Does a sweep that is done again do nothing, one that lost a file do its rows, and do parts make
/// the whole?
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
        form: Form::Csv,
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
