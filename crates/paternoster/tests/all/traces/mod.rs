// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do blktrace's own programs, and fio, read the traces that we write; and does our output on them
//! equal theirs?
//!
//! Every scheduler runs a mixture of everything: streams through the page cache, random reads four
//! at a time, commits with flushes, direct writes, on a disk that refuses a command now and then.
//! Its trace goes to Debian's blkparse and btt, and to ours: each output must be equal, byte for
//! byte. Where those programs are not installed a test says so and passes.

mod capture;
mod folder;
mod processors;
mod refused;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use folder::Folder;
use serde_json::Value;

use crate::common::skipped;

const PROGRAM: &str = env!("CARGO_BIN_EXE_paternoster");

const MIXTURE: &str = "[global]\nsize=16m\nruntime=1\ntime_based\n\
    [streams]\nrw=read\nbs=64k\nnumjobs=2\n\
    [jumps]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth=4\n\
    [commits]\nrw=write\nbs=8k\nfsync=4\n\
    [rewrite]\nrw=randwrite\nbs=16k\ndirect=1\n";

/// btt's options for all that it can write.
const EVERYTHING: [&str; 27] = [
    "-A", "-X", "-o", "out", "-s", "seek", "-m", "sps", "-l", "d2c", "-q", "q2c", "-z", "q2d",
    "-Q", "aqd", "-B", "bno", "-u", "unplug", "-L", "1", "-I", "iostat", "-S", "1", "-Z",
];

/// Runs a program in a folder; its standard output. It has to succeed.
pub(crate) fn run(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).env("TZ", "UTC");
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {message}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a judge is available; says so if not.
pub(crate) fn is_here(judge: &str, question: &str) -> bool {
    let mut command = Command::new(judge);
    let here = command.arg(question).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !here {
        skipped(&format!("{judge} is not installed"));
    }
    here
}

/// The trace of the mixture under a scheduler, as `t` in the folder.
fn trace(folder: &Folder, scheduler: &str) -> String {
    std::fs::write(folder.path().join("mixture.fio"), MIXTURE).expect("a job file");
    let fault = "refuse every=50";
    let options = ["run", "mixture.fio", "--device=hdd-7200", "--fault", fault, "--trace=t", "-q"];
    let scheduler = ["--scheduler", scheduler, "--output-format=json"];
    run(PROGRAM, folder.path(), &[&options[..], &scheduler].concat())
}

/// What blkparse prints, without the lines about the files that it opened.
fn blkparse(folder: &Folder, options: &[&str]) -> String {
    let text = run("blkparse", folder.path(), &[&["-i", "t"][..], options].concat());
    let lines = text.lines().filter(|line| !line.starts_with("Input file"));
    lines.map(|line| format!("{line}\n")).collect()
}

fn ours(folder: &Folder, form: &str, options: &[&str]) -> String {
    let all = [&["analyze", "t", "--format", form, "--"][..], options].concat();
    run(PROGRAM, folder.path(), &all)
}

/// Panics at the first line in which two texts differ.
fn assert_equal(what: &str, ours: &str, theirs: &str) {
    let pairs = ours.lines().zip(theirs.lines());
    if let Some((place, (own, other))) = pairs.enumerate().find(|(_, (own, other))| own != other) {
        panic!("{what}, line {}:\nours   {own}\ntheirs {other}", place + 1);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{what}");
    assert_eq!(ours, theirs, "{what}");
}

/// Does blkparse read the trace of every scheduler without a complaint, and print what we print,
/// with elapsed times and programs too?
#[test]
fn blkparse_prints_what_we_print() {
    if !is_here("blkparse", "-V") {
        return;
    }
    for elevator in paternoster_schedulers::ALL {
        let folder = Folder::new(&format!("blkparse-{}", elevator.name));
        trace(&folder, elevator.name);
        for options in [&[][..], &["-t", "-q"], &["-s", "-h"], &["-a", "issue", "-q"]] {
            let what = format!("{} blkparse {options:?}", elevator.name);
            let theirs = blkparse(&folder, options);
            assert!(theirs.lines().count() > 20, "{what}");
            assert_equal(&what, &ours(&folder, "blkparse", options), &theirs);
        }
    }
}

/// Does btt find what we find, in its report and in every file that it can write?
#[test]
fn btt_finds_what_we_find() {
    if !is_here("btt", "-V") || !is_here("blkparse", "-V") {
        return;
    }
    for elevator in paternoster_schedulers::ALL {
        let folder = Folder::new(&format!("btt-{}", elevator.name));
        trace(&folder, elevator.name);
        blkparse(&folder, &["-d", "t.bin", "-O"]);
        let theirs = run("btt", folder.path(), &["-i", "t.bin"]);
        let what = format!("{} btt", elevator.name);
        assert!(theirs.contains("I2D") == (elevator.name != "none"), "{what}: {theirs}");
        assert_equal(&what, &ours(&folder, "btt", &[]), &theirs);
        let [own, other] = ["own", "other"].map(|name| folder.sub(name));
        run("btt", &other, &[&["-i", "../t.bin"][..], &EVERYTHING].concat());
        let words = ["analyze", "../t", "--format=btt", "--"];
        run(PROGRAM, &own, &[&words[..], &EVERYTHING].concat());
        let [own, other] = [own, other].map(|path| files(&path));
        let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&own), names(&other), "{what}");
        assert!(own.len() > 20, "{:?}", names(&own));
        for (name, text) in &own {
            assert_equal(&format!("{what}: {name}"), text, &other[name]);
        }
    }
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let entries = entries.map(|entry| entry.expect("an entry"));
    let text = |path| String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned();
    entries.map(|e| (e.file_name().to_string_lossy().into_owned(), text(e.path()))).collect()
}

/// Does fio replay our trace, with as many reads and writes as it has?
#[test]
fn fio_replays_our_trace() {
    if !is_here("fio", "--version") || !is_here("blkparse", "-V") {
        return;
    }
    let folder = Folder::new("fio");
    trace(&folder, "bfq");
    blkparse(&folder, &["-d", "t.bin", "-O"]);
    let options = [
        "--name=replay",
        "--ioengine=null",
        "--read_iolog=t.bin",
        "--replay_redirect=file",
        "--replay_no_stall=1",
        "--filesize=500g",
        "--output-format=json",
        "--output=fio.json",
    ];
    run("fio", folder.path(), &options);
    let text = std::fs::read_to_string(folder.path().join("fio.json")).expect("fio's report");
    let json = text.find('{').map_or("", |at| &text[at..]);
    let fio: Value = serde_json::from_str(json).expect("JSON");
    let found = analysis(&folder);
    let device = &found["devices"][0];
    let with_data = |direction: &str| device[direction]["queued"].as_u64().expect("a count");
    let fio = |direction: &str| fio["jobs"][0][direction]["total_ios"].as_u64().expect("a count");
    // A request without data is a flush, and to fio a sync.
    let syncs = device["flush_D2C"]["count"].as_u64().expect("a count");
    assert!(fio("read") > 50 && fio("write") > 20 && syncs > 0);
    assert_eq!(fio("read"), with_data("read"));
    assert_eq!(fio("write"), with_data("write"));
}

fn analysis(folder: &Folder) -> Value {
    let text = run(PROGRAM, folder.path(), &["analyze", "t", "--format", "json"]);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    document["traces"][0].clone()
}

/// Does the analysis of a trace agree with the run's own measurements: I/Os, and the mean latency
/// of direct ones? Both count from submission to completion; the jobs end by themselves, so nothing
/// is in flight at the end.
#[test]
fn a_trace_says_what_the_run_measured() {
    let jobs = "[global]\nsize=16m\ndirect=1\nnumber_ios=200\nioengine=libaio\niodepth=4\n\
        [jumps]\nrw=randread\nbs=4k\n[rewrite]\nrw=randwrite\nbs=16k\n";
    for scheduler in ["noop", "mq-deadline", "cfq", "bfq"] {
        let folder = Folder::new(&format!("same-{scheduler}"));
        std::fs::write(folder.path().join("jobs.fio"), jobs).expect("a job file");
        let options = ["run", "jobs.fio", "--device=hdd-7200", "--trace=t", "-q"];
        let more = ["--scheduler", scheduler, "--output-format=json"];
        let ran = run(PROGRAM, folder.path(), &[&options[..], &more].concat());
        let ran: Value = serde_json::from_str(&ran).expect("JSON");
        let found = analysis(&folder);
        let processes = found["devices"][0]["processes"].as_array().expect("processes");
        for (name, way) in [("jumps", "read"), ("rewrite", "write")] {
            let jobs = ran["jobs"].as_array().expect("jobs");
            let job = &jobs.iter().find(|job| job["jobname"] == name).expect("a job")[way];
            let process = processes.iter().find(|p| p["name"] == name).expect("a process");
            assert_eq!(process["completed"], job["total_ios"], "{scheduler} {name}");
            let of_run = job["lat_ns"]["mean"].as_f64().expect("a mean");
            let mean = process["Q2C"]["mean_ns"].as_f64().expect("a mean");
            let off = (mean - of_run).abs() / of_run;
            assert!(off < 0.01, "{scheduler} {name}: {mean} ns, the run says {of_run}");
        }
    }
}

/// Are several runs kept apart, each under its own name?
#[test]
fn several_runs_have_files_of_their_own() {
    let folder = Folder::new("several");
    let jobs = ["run", "--name=a", "--rw=read", "--size=64k", "--trace=t", "-q"];
    let schedulers = ["--scheduler=cfq:slice_idle=0", "--scheduler=noop"];
    run(PROGRAM, folder.path(), &[&jobs[..], &schedulers].concat());
    for name in ["t.cfq-slice_idle=0", "t.noop"] {
        for cpu in 0..4 {
            let file = folder.path().join(format!("{name}.blktrace.{cpu}"));
            assert!(file.is_file(), "{}", file.display());
        }
        assert!(run(PROGRAM, folder.path(), &["analyze", name]).contains("device 8,0"));
    }
}

/// Does every command with runs write a trace?
#[test]
fn every_command_traces() {
    let folder = Folder::new("commands");
    for (name, words) in [
        ("tiotest", "tiotest -t 2 -f 1 -r 10"),
        ("disktest", "disktest -K 2 -T 1 -r /dev/sda"),
        ("startup", "startup --profile xterm --readers 1 --writers 0 --repeat 1"),
        ("sysbench", "sysbench fileio --file-test-mode=rndrd --file-total-size=2m --time=1 run"),
        ("dd", "dd if=a of=/dev/null bs=64k count=10"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let more = ["--trace", name, "--device=hdd-7200", "-q"];
        let (command, rest) = words.split_at(1);
        let known = run(PROGRAM, folder.path(), &[command[0], "--help"]);
        if name == "dd" && !known.contains("if=") {
            continue;
        }
        run(PROGRAM, folder.path(), &[command, &more, rest].concat());
        let text = run(PROGRAM, folder.path(), &["analyze", name]);
        assert!(text.contains("device 8,0"), "{name}: {text}");
    }
}
