// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster startup` as a user meets it: times that can be computed by hand, what others do to
//! them, forms, refusals.
//!
//! The device `millisecond.toml` takes 32 commands at a time and a millisecond for each; submitting
//! costs a nanosecond.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

const DEVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/millisecond.toml");

fn output(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["startup", "-q"]).args(options).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(options: &[&str]) -> String {
    let output = output(options);
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The results: one for each device and scheduler.
fn results(options: &[&str]) -> Vec<Value> {
    let text = text(&[options, &["--output-format", "json"]].concat());
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    crate::results::conforms(&document);
    assert!(document["version"].is_string());
    document["results"].as_array_mut().map(std::mem::take).expect("results")
}

fn millis(time: &Value) -> f64 {
    time.as_f64().unwrap_or_else(|| panic!("a time, not {time}")) / 1e6
}

/// Does a start take its time, whatever the scheduler? xterm waits for 183 reads of 1 ms, in 7
/// legs: before each but the first of a leg it thinks for 0.46 ms, between two legs 2 ms pass. 183
/// + (183 - 7) * 0.46 + 6 * 2 = 275.96 ms; what is read ahead goes with the others.
///
/// Under paternoster it is a command of its own after 15 of the reads, 1 ms each: 290.96 ms.
#[test]
fn a_start_alone_takes_its_time() {
    for scheduler in paternoster_schedulers::ALL.iter().map(|entry| entry.name) {
        let xterm = ["--profile", "xterm", "--repeat", "2", "--device", DEVICE];
        let alone = ["--readers", "0", "--writers", "0", "--scheduler", scheduler];
        let found = results(&[&xterm[..], &alone].concat());
        for start in found[0]["starts"].as_array().expect("starts") {
            let (time, alone) = (millis(&start["time_ns"]), millis(&start["alone_ns"]));
            let expected = if scheduler == "paternoster" { 290.96 } else { 275.96 };
            assert!((time - expected).abs() < 0.02, "{scheduler}: {time}");
            assert_eq!(time, alone, "{scheduler}");
        }
    }
}

/// Do others slow it down as they should, on a device with one server of 1 ms? Alone, a start takes
/// as long as above, plus one more request of read-ahead after 18 of the reads: 275.96 + 18 =
/// 293.96 ms.
///
/// A reader that always has a request is served between any two of the program's, which therefore
/// come every 2 ms (thinking takes less), or every 3 ms after a pause of 2. Read-ahead is merged
/// with the read that still waits. That is 176 * 2 + 6 * 3 = 370 ms, plus 1 ms for the first read
/// and what is left of the other's request when it comes. The first read of a leg need not wait, so
/// its read-ahead comes after the other's request: at most 7 times 2 ms. The other reader has the
/// time that 183 requests leave.
#[test]
fn others_are_in_the_way() {
    let device = std::fs::read_to_string(DEVICE).unwrap().replace("value = 32, s", "value = 1, s");
    let file = std::env::temp_dir().join(format!("paternoster-one-{}.toml", std::process::id()));
    std::fs::write(&file, device).unwrap();
    let xterm = ["--profile", "xterm", "--repeat", "3", "--device", file.to_str().unwrap()];
    let one = ["--readers", "0", "--writers", "0", "--random-readers", "1", "--scheduler", "noop"];
    let found = results(&[&xterm[..], &one].concat());
    std::fs::remove_file(&file).unwrap();
    for start in found[0]["starts"].as_array().expect("starts") {
        let (time, alone) = (millis(&start["time_ns"]), millis(&start["alone_ns"]));
        assert!((alone - 293.96).abs() < 0.02, "{alone}");
        assert!((371.0..386.0).contains(&time), "{time}");
        let blocks = start["others_read_bytes"].as_f64().expect("a number") / 4096.0;
        let left = time - 183.0;
        assert!((left - 8.0..=left + 1.0).contains(&blocks), "{blocks} in {time} ms");
        assert_eq!(start["others_written_bytes"], 0);
    }
}

const HDD: [&str; 6] = ["--profile", "xterm", "--device", "hdd-7200", "--set", "hz=250"];

/// Does the scheduler matter? With buffered writers that fill the memory noop serves 128 requests
/// of write-back before each read; cfq serves reads first. And is a start given up that takes too
/// long?
#[test]
fn schedulers_differ() {
    let runs = ["--repeat", "1", "--limit", "20", "--scheduler", "noop", "--scheduler", "cfq"];
    let found = results(&[&HDD[..], &runs].concat());
    let [noop, cfq] = &found[..] else { panic!("two results, not {found:?}") };
    assert_eq!(noop["starts"][0]["time_ns"], Value::Null);
    assert_eq!(
        (&noop["summary"]["given_up"], &noop["summary"]["median_ns"]),
        (&1.into(), &Value::Null)
    );
    let (time, alone) =
        (millis(&cfq["starts"][0]["time_ns"]), millis(&cfq["starts"][0]["alone_ns"]));
    assert!(time > 3.0 * alone && time < 20_000.0, "{time}, alone {alone}");
    let rate = |result: &Value, way: &str| {
        result["summary"][format!("others_{way}_bytes_per_second")].as_f64().expect("a number")
    };
    assert!(rate(noop, "written") > 10.0 * rate(cfq, "written"));
    assert!(rate(cfq, "read") > 10.0 * rate(noop, "read"));
    let table = text(&[&HDD[..], &runs].concat());
    let row = table.lines().find(|line| line.trim_start().starts_with("noop")).expect("a row");
    assert!(row.contains("> 20.0 s"), "{table}");
}

/// Is every start the same for the same seed, and different for another; and is start number 1 of
/// seed 0 start number 0 of seed 1?
#[test]
fn starts_follow_the_seed() {
    let times = |seed: &str| {
        let readers = ["--readers", "1", "--writers", "1", "--warmup", "1", "--repeat", "2"];
        let found =
            results(&[&HDD[..], &readers, &["--scheduler", "cfq", "--seed", seed]].concat());
        let starts = found[0]["starts"].as_array().expect("starts").clone();
        starts
            .iter()
            .map(|start| (start["seed"].clone(), start["time_ns"].clone()))
            .collect::<Vec<_>>()
    };
    let (first, second) = (times("0"), times("1"));
    assert_eq!(first, times("0"));
    assert_eq!(first[1], second[0]);
    assert_ne!(first[0].1, first[1].1);
}

/// Are the summary's figures those of its starts?
#[test]
fn summaries_are_made_of_starts() {
    let readers = ["--readers", "3", "--writers", "0", "--repeat", "3", "--scheduler", "deadline"];
    let found = results(&[&HDD[..], &readers].concat());
    let result = &found[0];
    let starts = result["starts"].as_array().expect("starts");
    let mut times: Vec<f64> = starts.iter().map(|start| millis(&start["time_ns"])).collect();
    let read: f64 = starts.iter().map(|s| s["others_read_bytes"].as_f64().unwrap()).sum();
    let rate = read / (times.iter().sum::<f64>() / 1e3);
    times.sort_by(f64::total_cmp);
    let summary = &result["summary"];
    let told = ["min_ns", "median_ns", "max_ns"].map(|name| millis(&summary[name]));
    assert_eq!(told.to_vec(), times);
    let found = summary["others_read_bytes_per_second"].as_f64().unwrap();
    assert!((found / rate - 1.0).abs() < 1e-9, "{found}, not {rate}");
    let alone = millis(&summary["alone_median_ns"]);
    assert!((summary["by_alone"].as_f64().unwrap() - times[1] / alone).abs() < 1e-9);
}

/// Does the table have a row for each scheduler, below a heading for each device that says what
/// started?
#[test]
fn tables_say_what_started() {
    let text = text(&[
        "--profile",
        "libreoffice",
        "--readers",
        "1",
        "--writers",
        "0",
        "--repeat",
        "2",
        "--warmup",
        "500ms",
        "--device",
        "ssd-870evo",
        "--device",
        DEVICE,
        "--scheduler",
        "noop",
        "--scheduler",
        "kyber",
    ]);
    let heads: Vec<&str> = text.lines().filter(|line| line.contains(" on ")).collect();
    assert_eq!(
        heads,
        [
            "libreoffice on ssd-870evo beside 1 sequential reader (500 ms before)",
            "libreoffice on millisecond beside 1 sequential reader (500 ms before)"
        ]
    );
    assert!(text.contains("1268 requests, 48.6 MB, 343 at random, 630 waited for; 2 starts"));
    let rows = |name: &str| text.lines().filter(|line| line.trim_start().starts_with(name)).count();
    assert_eq!((rows("noop "), rows("kyber ")), (2, 2), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()));
}

/// Are profiles listed with their sources?
#[test]
fn profiles_have_sources() {
    let text = text(&["--list"]);
    for name in ["gnome-terminal", "lxterminal", "libreoffice", "xterm"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{text}");
    }
    assert!(text.contains("S suite") && text.contains("20 December 2017"), "{text}");
}

/// Is what cannot be done refused, with what would be right?
#[test]
fn refusals() {
    for (options, words) in [
        (&["--profile", "emacs"][..], "gnome-terminal, lxterminal, libreoffice, xterm"),
        (&["--limit", "0"], "it takes some time"),
        (&["--warmup", "2h"], "--warmup 7200 s: at most 3600 s"),
        (&["--repeat", "0"], "1..=10000"),
        (&["--file-size", "1g", "--device", "flash-card-2010"], "of a device of 4294967296"),
        (&["--scheduler", "cfq:no=1"], "for cfq:no=1"),
    ] {
        let output = output(options);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{options:?}");
        assert!(message.contains(words), "{options:?}: {message}");
    }
    // A device that fails.
    let output = output(&["--repeat", "1", "--device", DEVICE, "--fault", "error count=1 op=read"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed with errno 5"));
}

/// Can a start be drawn, one line for each scheduler and seed?
#[test]
fn starts_can_be_drawn() {
    let file = std::env::temp_dir().join(format!("paternoster-start-{}.svg", std::process::id()));
    let plot = format!("queue-depth={}", file.display());
    let two = ["--scheduler", "noop", "--scheduler", "mq-deadline", "--repeat", "2"];
    text(&[&["--profile", "xterm", "--device", DEVICE, "--plot", &plot][..], &two].concat());
    let drawn = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(drawn.contains("start of xterm") && drawn.contains("mq-deadline, seed 1"), "{drawn}");
}
