// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both: how many I/Os each process of a case made, by the installed fio in real time on an
//! emulated device, and by ours in virtual time on the same model.
//!
//! ```text
//! fio    paternoster emulate slow.toml --mount DIR --run 'fio …'      real time, on DIR/slow
//! ours   paternoster run … --device slow.toml --scheduler noop        virtual time
//! ```
//!
//! fio runs in real time (`chrt`) where it may, as the emulation does: then a busy machine makes an
//! I/O longer by tenths of a millisecond, not by milliseconds. A job that burns CPU while it waits
//! (`thinktime_spin`, a flow without `flow_sleep`) would keep all others from it, and runs usually.
//!
//! During each run another fio of the same kind thinks 10 ms after each of its I/Os, which cost
//! nothing. If it made less than 97 % of those that there was time for, the machine was too busy.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::draw::Case;

const PROGRAM: &str = env!("CARGO_BIN_EXE_paternoster");
/// Seconds that fio has for a case; each ends after four.
const SECONDS: u32 = 40;
/// What fio answers on a machine that was too busy.
pub(crate) const BUSY: &str = "the machine was too busy";
/// The job that tells: a hundred I/Os a second.
const NOISE: &str = "fio --name=noise --ioengine=null --size=1t --time_based --runtime=2500ms \
                     --thinktime=10ms --output-format=json --output=noise.json";

/// One process: its section, how it ended, its reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) failed: bool,
    pub(crate) ios: [u64; 2],
}

/// All processes, or why nothing was run.
pub(crate) type Answer = Result<Vec<Process>, String>;

/// What we make of a case.
pub(crate) fn ours(case: &Case, folder: &Path) -> Answer {
    write(case, folder);
    let mut command = Command::new(PROGRAM);
    command.args(["run", "-q", "case.fio", "--device", "slow.toml", "--scheduler", "noop"]);
    command.args(["--output-format=json", "--output=ours.json"]);
    answer(command.current_dir(folder), &folder.join("ours.json"))
}

/// What the installed fio makes of it.
pub(crate) fn theirs(case: &Case, folder: &Path) -> Answer {
    write(case, folder);
    let real_time = Command::new("chrt").args(["-r", "1", "true"]).output();
    let real_time = real_time.is_ok_and(|output| output.status.success());
    let chrt = if real_time && !case.burns() { "chrt -r 1 " } else { "" };
    let fio = format!("{chrt}timeout -k 1 {SECONDS} fio case.fio");
    let mut noise = Command::new("sh");
    let mut noise = noise
        .args(["-c", &format!("exec {chrt}{NOISE}")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell starts");
    let mut command = Command::new(PROGRAM);
    command.args(["emulate", "slow.toml", "--mount", "mount", "--size", "32m", "--run"]);
    command.arg(format!("{fio} --output-format=json --output=theirs.json"));
    let answer = answer(command.current_dir(folder), &folder.join("theirs.json"));
    let _ended = noise.wait();
    let told = processes(&folder.join("noise.json"));
    // 2.5 s of 10 ms, 97 % of them.
    let quiet = told.is_some_and(|all| all.iter().any(|noise| noise.ios[0] >= 243));
    if quiet { answer } else { Err(BUSY.to_owned()) }
}

fn write(case: &Case, folder: &Path) {
    fs::create_dir_all(folder.join("mount")).expect("a mount point");
    fs::write(folder.join("slow.toml"), case.device()).expect("a device");
    fs::write(folder.join("case.fio"), case.jobs("mount/slow")).expect("a job file");
}

/// Also fio itself may say that a signal has killed one of its processes, and nothing of it in its
/// results or exit status if there are others.
fn answer(command: &mut Command, result: &Path) -> Answer {
    let _absent = fs::remove_file(result);
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = [&output.stderr[..], &output.stdout[..]].concat();
    let text = String::from_utf8_lossy(&text);
    match text.lines().find(|line| line.contains("got signal=")) {
        Some(line) => Err(line.to_owned()),
        None => processes(result).ok_or_else(|| why(&text)),
    }
}

/// The processes of fio's JSON. What stands before it are notes.
fn processes(result: &Path) -> Option<Vec<Process>> {
    let text = fs::read_to_string(result).ok()?;
    let json: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let jobs = json.get("jobs")?.as_array()?;
    let process = |job: &Value| {
        let count = |way: &str| job.get(way)?.get("total_ios")?.as_u64();
        Some(Process {
            name: job.get("jobname")?.as_str()?.to_owned(),
            failed: job.get("error")?.as_i64()? != 0,
            ios: [count("read")?, count("write")?],
        })
    };
    jobs.iter().map(process).collect()
}

fn why(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.take(3).collect::<Vec<_>>().join(" / ")
}
