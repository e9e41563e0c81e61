// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster versus-kernel`: what it refuses, and what explains a large difference from the
//! kernel. It runs for real in `tests/real_time/versus_kernel.rs`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::versus_kernel::{FOLDER, Folder, program};

/// Is everything missing reported at once, one line each, before anything is touched?
#[test]
fn all_that_is_missing_is_said() {
    let folder = Folder::new("missing");
    let output = program(&folder, &[]).env("PATH", "/nowhere").output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    for tool in ["fio: apt-get install fio", "losetup: apt-get install util-linux", "umount: "] {
        let of_tool = format!("paternoster: versus-kernel needs {tool}");
        assert_eq!(lines.iter().filter(|line| line.starts_with(&of_tool)).count(), 1, "{said}");
    }
}

/// Is a wrong request refused with what would be right?
#[test]
fn wrong_requests_are_refused() {
    let folder = Folder::new("wrong");
    for (more, expected) in [
        (&["--schedulers", "cfq"][..], "the kernel's are none, mq-deadline, kyber, bfq"),
        (&["--runtime", "0"], "a run takes some time"),
        (&["--kernel-attributes", "slice_idle"], "is not ATTRIBUTE=VALUE"),
        (&["--depth", "2"], "4..=127"),
        (&["--beside", "paternoster:quantum=8"], "quantum"),
    ] {
        let output = program(&folder, more).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{more:?}: {said}");
    }
}

/// Does the page of drawn jobs show the collected results?
#[test]
fn the_page_of_drawn_jobs_is_made_of_the_results() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let results = format!("{docs}versus-kernel-drawn.tsv");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    let output =
        command.args(["versus-kernel", "--results", &results]).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(format!("{docs}versus-kernel-drawn.md")).expect("the page");
    let table = page.split("<!-- table -->\n\n").nth(1).expect("where the table begins");
    let table = table.split("\n<!-- end of table -->").next().expect("where it ends");
    assert_eq!(
        table,
        String::from_utf8_lossy(&output.stdout),
        "`paternoster versus-kernel --results`"
    );
}

/// Does a process that slept for a tag dispatch what it has before its next I/O exists?
///
/// Two streams keep four requests each outstanding on a disk of four tags, so they take turns by
/// the request, and each seeks: 1 ms, 8 ms, and 65,536 bytes at 100 MB/s are 9.655 ms, 6.79 MB/s
/// for both. A next I/O that is there at once merges into the first: 12.4 MB/s. The kernel gives
/// two such streams 3.24 MB/s each where ours should have 3.23 (seed 20 of the drawn jobs).
#[test]
fn a_call_that_slept_takes_its_time() {
    let folder = Folder::new("slept");
    let stream = "rw=read\nbs=64k\niodepth=4\nsize=64m\nruntime=3\ntime_based\n";
    let jobs = format!("[global]\nioengine=libaio\ndirect=1\n{stream}[a]\n[b]\n");
    let both = rate(&folder, &jobs, "none");
    assert!((both / 6.79 - 1.0).abs() < 0.02, "{both} MB/s");
}

/// MB/s of all readers together, in virtual time.
fn together(folder: &Folder, jobs: &str, idle: &str) -> f64 {
    rate(folder, jobs, &format!("bfq:low_latency=0,slice_idle={idle}"))
}

/// MB/s of all processes together on the slow disk, in virtual time.
fn rate(folder: &Folder, jobs: &str, scheduler: &str) -> f64 {
    let file = folder.file("stall.fio");
    fs::write(&file, jobs).expect("a job file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", &file, "-q", "--output-format", "json", "--scheduler", scheduler]);
    command.args(["--device", &format!("{FOLDER}/slow-disk.toml"), "--set", "hz=250"]);
    let output = command.output().expect("it starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let jobs = report["jobs"].as_array().expect("jobs").iter();
    jobs.map(|job| job["read"]["bw_bytes"].as_f64().expect("a number") / 1e6).sum()
}

/// Why does the kernel's bfq on a busy machine reach a third of ours with two sequential readers?
///
/// Because a reader that once comes later than the 8 ms for which bfq waits loses its turn with
/// most of its budget, and a reader that comes back in time to such a budget takes the turn back:
/// from then on the two take it from each other with each request, and each request is a seek. Ours
/// does the same if one of two readers pauses for 12 ms every 300 reads. With turns of 124 ms and
/// 65 reads of 64 KiB (1.66 ms each) two readers do some 36 MB/s; with a seek for each read, 64 KiB
/// in 9.66 ms, 6.8 MB/s. A wait of 20 ms is longer than the pause, and little is lost.
#[test]
fn one_pause_makes_two_readers_take_turns_by_request() {
    let folder = Folder::new("stall");
    let jobs = |pause: &str| {
        format!(
            "[global]\nrw=read\nbs=64k\nsize=512m\ndirect=1\ntime_based\nramp_time=1\nruntime=5\n\
             [near]\n[far]\n{pause}"
        )
    };
    let pause = jobs("thinktime=12ms\nthinktime_blocks=300\n");
    let [steady, paused, patient] =
        [(jobs(""), "8"), (pause.clone(), "8"), (pause, "20")].map(|(jobs, idle)| {
            let found = together(&folder, &jobs, idle);
            println!("slice_idle={idle}: {found:.1} MB/s");
            found
        });
    assert!(steady > 34.0, "{steady}");
    assert!(paused < steady / 2.5, "{paused} of {steady}");
    assert!(patient > steady * 0.9, "{patient} of {steady}");
}
