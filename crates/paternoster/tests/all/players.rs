// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players: jobs with a frame in every period, whose figures can be computed by hand; and the
//! example of `docs/workloads.md`.
//!
//! The device `millisecond.toml` takes 32 commands at a time and a millisecond for each; submitting
//! costs a nanosecond.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const DEVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/millisecond.toml");

fn output(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.current_dir(ROOT).args(["run", "-q"]).args(options).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn run(options: &[&str]) -> Value {
    let output = output(&[&["--device", DEVICE, "--output-format", "json"], options].concat());
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Virtual time of the run in ms, rounded.
fn time_ms(report: &Value) -> u64 {
    let time = report["paternoster"]["virtual_time_ns"].as_u64().expect("a number");
    (time + 500_000) / 1_000_000
}

/// Total, late, unread, worst lateness in ms, longest in ms (rounded) of the first process.
fn frames(report: &Value) -> [u64; 5] {
    let frames = &report["paternoster"]["sections"][0]["processes"][0]["frames"];
    let number = |name: &str| frames[name].as_u64().unwrap_or_else(|| panic!("{name}: {frames}"));
    let millis = |name: &str| (number(name) + 500_000) / 1_000_000;
    let times = [millis("worst_lateness_ns"), millis("longest_ns")];
    [number("total"), number("late"), number("unread"), times[0], times[1]]
}

const FILM: [&str; 5] =
    ["--direct=1", "--name=a", "--rw=read", "--size=64k", "--frame_period=40ms"];

/// Is a frame read in each period, and nothing else, under every scheduler? 16 blocks, four to a
/// frame: the last of four frames is due at 120 ms. One by one it takes 4 ms, at depth 4 one.
#[test]
fn a_frame_is_read_in_each_period() {
    for scheduler in paternoster_schedulers::ALL.iter().map(|entry| entry.name) {
        let film = [&FILM[..], &["--frame_size=16k", "--scheduler", scheduler]].concat();
        let report = run(&film);
        assert_eq!((time_ms(&report), frames(&report)), (124, [4, 0, 0, 0, 4]), "{scheduler}");
        let report = run(&[&film[..], &["--ioengine=libaio", "--iodepth=4"]].concat());
        assert_eq!((time_ms(&report), frames(&report)), (121, [4, 0, 0, 0, 1]), "{scheduler}");
    }
}

/// Does a late frame move no other? Frames of one read every 10 ms, of which the third (due at 20
/// ms) takes 51 ms: complete at 71, 41 too late. Those due at 30, 40, 50, 60 follow at once, at 72
/// to 75 ms, and are 32, 23, 14, 5 ms too late; the one due at 70 is complete at 76, in time. The
/// tenth is due at 90 ms.
#[test]
fn a_late_frame_moves_no_other() {
    let report = run(&[
        "--direct=1",
        "--name=a",
        "--rw=read",
        "--size=40k",
        "--frame_period=10ms",
        "--fault",
        "delay every=3 count=1 time=50ms",
    ]);
    assert_eq!((time_ms(&report), frames(&report)), (91, [10, 5, 0, 41, 51]));
}

/// Is a job that hangs late, although it reads only one frame? The first takes 10,001 ms, the
/// runtime is over at 200: deadlines at 20, 30 … 190 ms have passed by then, 18 of them.
#[test]
fn who_reads_nothing_is_late() {
    let report = run(&[
        "--direct=1",
        "--name=a",
        "--rw=read",
        "--size=4m",
        "--frame_period=10ms",
        "--runtime=200ms",
        "--fault",
        "delay count=1 time=10s",
    ]);
    assert_eq!(frames(&report), [19, 19, 18, 9991, 10_001]);
}

/// Do deadline, preroll, runtime and ramp mean what they say? Four blocks of 1 ms in a frame may
/// take 3 ms, so each is 1 ms late. Two frames of preroll end at 8 ms, the other two are due at 8
/// and 48. In 400 ms 10 frames are due, of which a ramp of 200 ms leaves 5.
#[test]
fn frames_have_their_options() {
    let film = [&FILM[..], &["--frame_size=16k"]].concat();
    let report = run(&[&film[..], &["--frame_deadline=3ms"]].concat());
    assert_eq!((time_ms(&report), frames(&report)), (124, [4, 4, 0, 1, 4]));
    let report = run(&[&film[..], &["--frame_preroll=2"]].concat());
    assert_eq!((time_ms(&report), frames(&report)), (52, [2, 0, 0, 0, 4]));
    let endless = [&film[..], &["--time_based=1", "--runtime=400ms"]].concat();
    assert_eq!(frames(&run(&endless))[0], 10);
    let ramp = [&film[..], &["--time_based=1", "--ramp_time=200ms", "--runtime=200ms"]].concat();
    assert_eq!(frames(&run(&ramp))[..2], [5, 0]);
}

/// Can a job record, and play through the page cache? A frame of four written blocks takes 4 ms;
/// one that is in memory next to nothing.
#[test]
fn writers_and_buffered_jobs_have_frames_too() {
    let report = run(&[&FILM[..], &["--frame_size=16k", "--rw=write"]].concat());
    assert_eq!((time_ms(&report), frames(&report)), (124, [4, 0, 0, 0, 4]));
    let options = ["--direct=0", "--pre_read=1", "--invalidate=0", "--frame_size=16k"];
    let report = run(&[&FILM[..], &options].concat());
    assert_eq!((time_ms(&report), frames(&report)), (120, [4, 0, 0, 0, 0]));
}

/// Are clones reported together with `group_reporting`, and terse lines as long as before?
#[test]
fn players_are_told_in_every_form() {
    let clones = [&FILM[..], &["--numjobs=3", "--group_reporting=1", "--device", DEVICE]].concat();
    let told = |form: &str| {
        let output = output(&[&clones[..], &["--output-format", form]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    // 16 frames of one read in each of three.
    assert!(told("normal").contains(
        "  frames       : total=48, late=0 (0.00%), unread=0, worst=0.000msec late, longest=1.000"
    ));
    assert_eq!(told("terse").lines().next().map(|line| line.split(';').count()), Some(130));
    let table = told("table");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let frames: Vec<_> = rows.filter(|words| words.contains(&"frames")).collect();
    assert_eq!(frames, [["a.0", "frames", "16"], ["a.1", "frames", "16"], ["a.2", "frames", "16"]]);
}

/// Are bad values and bad combinations refused, with the place and the remedy?
#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("--frame_period=40", "command line:4: 40 us is out of range: it must be from 100 us"),
        ("--frame_period=40x", "`x` in `40x` is no unit of time"),
        ("--frame_period", "`frame_period` needs a value"),
        ("--frame_size=4k", "job `a` has frames but no period: write frame_period=40ms"),
    ];
    for (option, words) in cases {
        let output = output(&["--name=a", "--rw=read", "--size=1m", option]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(message.contains(words), "{option}: {message}");
    }
    for option in ["--rate=1m", "--thinktime=1ms", "--flow=1", "--ioengine=cpuio"] {
        let output = output(&[&FILM[..], &[option]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(message.contains("job `a` is a player: frame_period says when it issues"));
    }
}

/// Does the example show what `docs/workloads.md` says? With ten readers on one disk no frame is in
/// time under noop; under cfq some are, and in the class real time all.
#[test]
fn the_example_works() {
    let late = |options: &[&str]| {
        let example = ["docs/examples/player.fio", "--device", "hdd-7200", "--set", "hz=1000"];
        let output = output(&[&example[..], &["--output-format", "json"], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let [total, late, ..] = frames(&serde_json::from_slice(&output.stdout).expect("JSON"));
        assert!((480..=500).contains(&total), "{total}");
        late * 100 / total
    };
    assert_eq!(late(&["--scheduler", "noop"]), 100);
    assert!((50..95).contains(&late(&["--scheduler", "cfq"])));
    // The readers name no class, and remain best effort.
    let realtime = std::fs::read_to_string(format!("{ROOT}/docs/examples/player.fio")).unwrap();
    let realtime = realtime.replace("[film]", "[film]\nprioclass=1");
    let file = std::env::temp_dir().join(format!("paternoster-film-{}.fio", std::process::id()));
    std::fs::write(&file, realtime).unwrap();
    let options = ["--device", "hdd-7200", "--set", "hz=1000", "--scheduler", "cfq"];
    let run =
        output(&[&[file.to_str().unwrap()], &options[..], &["--output-format", "json"]].concat());
    std::fs::remove_file(&file).unwrap();
    assert_eq!(frames(&serde_json::from_slice(&run.stdout).expect("JSON"))[1], 0);
}
