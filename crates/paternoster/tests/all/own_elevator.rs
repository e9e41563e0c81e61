// SPDX-License-Identifier: MIT OR Apache-2.0
//! Your own elevator, as in `docs/own-elevator.md`, in the whole program.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The program `examples/elevator.rs`, which cargo builds next to the program itself.
fn lottery(arguments: &[&str]) -> Output {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_paternoster"));
    let example = program.with_file_name("examples").join("elevator");
    assert!(example.exists(), "cargo build -p paternoster --example elevator makes it");
    let mut command = Command::new(example);
    command.current_dir(ROOT).args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn told(arguments: &[&str]) -> String {
    let output = lottery(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

/// Do the list, torture's laws and the check of a server's arguments accept the name? The runs of
/// `guarantees`, which accepts it in the same way, are too long for an everyday test.
#[test]
fn it_goes_through_the_program() {
    assert!(told(&["schedulers"]).contains("lottery"));
    let only = ["--scheduler", "lottery"];
    told(&[&["torture", "--cases", "1"], &only[..]].concat());
    let image = concat!(env!("CARGO_TARGET_TMPDIR"), "/own-elevator.img");
    std::fs::File::create(image).and_then(|file| file.set_len(16 << 20)).expect("a sparse file");
    let served = ["serve", image, "--check"];
    assert!(told(&[&served, &only[..]].concat()).contains("lottery"));
}

/// Do two readers whose groups weigh 300 and 100 get what their tickets say? The disk takes one
/// command, so each draw is among about 32 and 32 requests: 3 of 4. It does more than 60 a second,
/// so of 1,200 draws chance moves the part by 0.0125 (a standard deviation); four are allowed.
#[test]
fn tickets_are_shares() {
    let common = "--rw=randread --bs=4k --size=64m --direct=1 --ioengine=libaio --iodepth=32 \
                  --runtime=20 --time_based";
    let jobs = format!(
        "--device hdd-7200-no-ncq --scheduler lottery --output-format json \
         --name=large --cgroup_weight=300 --cgroup=large {common} \
         --name=small --cgroup_weight=100 --cgroup=small {common}"
    );
    let arguments = ["run", "-q"].into_iter().chain(jobs.split_whitespace()).collect::<Vec<_>>();
    let report: Value = serde_json::from_str(&told(&arguments)).expect("JSON");
    let done = |job: usize| report["jobs"][job]["read"]["total_ios"].as_f64().unwrap();
    let part = done(0) / (done(0) + done(1));
    assert!((0.70..0.80).contains(&part), "{part}");
}
