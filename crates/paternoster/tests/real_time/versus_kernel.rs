// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster versus-kernel` with the kernel's schedulers, for real: is the machine restored,
//! whatever happens; does the table have every row?
//!
//! Figures of the kernel must only exist. But a loop device must be seen during the moment in which
//! it exists, and its queue must be as it was before, with nothing else changing it: on a slow
//! machine, or together with other tests, these can fail. Without root, FUSE, loop devices or fio
//! they say so and pass. What needs none of that is in `tests/all/versus_kernel.rs`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::skipped;
use crate::common::versus_kernel::{Folder, program};

/// As long as anything here may take on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a real run is possible; one line if not.
fn machine_can() -> bool {
    let fio = Command::new("fio").arg("--version").output();
    let files = ["/dev/fuse", "/dev/loop-control", "/sys/block/loop0/queue/scheduler"];
    let missing = files.into_iter().find(|file| !Path::new(file).exists());
    let schedulers = fs::read_to_string(files[2]).unwrap_or_default();
    let weights = Path::new("/sys/fs/cgroup/blkio/blkio.bfq.io_serviced").exists();
    let why = match missing {
        _ if !rustix::process::geteuid().is_root() => "root",
        _ if fio.is_err() => "fio",
        Some(file) => file,
        None if !schedulers.contains("bfq") => "the kernel's bfq",
        None if !weights => "cgroup v1 with blkio.bfq",
        None => return true,
    };
    skipped(&format!("{why} is missing"));
    false
}

/// What the program of process `pid` may have changed on this machine.
fn left_behind(pid: u32) -> Vec<String> {
    let own = format!("paternoster-versus-{pid}");
    let group = format!("paternoster-{pid}-");
    let mut left = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    left.extend(mounts.lines().filter(|line| line.contains(&own)).map(str::to_owned));
    for (name, _) in loops() {
        if backing(&name).contains(&own) {
            left.push(format!("{name} is attached"));
        }
    }
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    left.extend(names("/sys/fs/cgroup/blkio").into_iter().filter(|name| name.starts_with(&group)));
    let temp = std::env::temp_dir();
    left.extend(names(temp.to_str().expect("UTF-8")).into_iter().filter(|name| *name == own));
    for process in names("/proc") {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains(&own) {
            left.push(format!("process {process} runs"));
        }
    }
    left
}

fn backing(name: &str) -> String {
    fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default()
}

/// Each loop device, with its queue's values. Not `rotational`: the kernel resets that whenever a
/// file is attached, and it stays as it was when the file goes.
fn loops() -> Vec<(String, Vec<String>)> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut all: Vec<(String, Vec<String>)> = names
        .filter(|name| name.starts_with("loop"))
        .map(|name| {
            let says = ["scheduler", "nr_requests"].map(|file| {
                fs::read_to_string(format!("/sys/block/{name}/queue/{file}")).unwrap_or_default()
            });
            (name, says.to_vec())
        })
        .collect();
    all.sort();
    all
}

/// Asserts that nothing is left of process `pid`, and that the queue of its loop device has its
/// former values again. Other loop devices may be in use meanwhile.
fn assert_as_before(before: &[(String, Vec<String>)], used: &str, pid: u32) {
    assert_eq!(left_behind(pid), Vec::<String>::new());
    if !backing(used).is_empty() {
        return skipped(&format!("{used} is somebody else's already: its queue is not compared"));
    }
    let of = |all: &[(String, Vec<String>)]| {
        all.iter().find(|(name, _)| name == used).map(|(_, says)| says.clone())
    };
    if let Some(before) = of(before) {
        assert_eq!(Some(before), of(&loops()), "{used}");
    }
}

/// Waits until the program of this process has a loop device in the wanted state, or has ended;
/// returns the device's name.
fn wait_for_loop(child: &mut Child, until: &dyn Fn(&str) -> bool) -> Option<String> {
    let own = format!("paternoster-versus-{}/", child.id());
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let found = loops().into_iter().find(|(name, _)| backing(name).contains(&own));
        if let Some((name, _)) = found.filter(|(name, _)| until(name)) {
            return Some(name);
        }
        if child.try_wait().expect("a child").is_some() {
            return None;
        }
        sleep(Duration::from_millis(2));
    }
    None
}

/// Runs the program to its end, and asserts that everything is as it was.
fn run(mut command: Command) -> Output {
    let before = loops();
    let mut child = command.spawn().expect("the program starts");
    let (pid, used) = (child.id(), wait_for_loop(&mut child, &|_| true));
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_as_before(&before, &used.unwrap_or_else(|| panic!("no loop device: {said}")), pid);
    output
}

/// Does a short job run for real under all schedulers on both sides, and under one that the kernel
/// lacks, and is the machine restored?
#[test]
fn a_job_is_run_on_both_sides() {
    if !machine_can() {
        return;
    }
    let folder = Folder::new("real");
    let document = folder.file("told.json");
    let output = run(program(&folder, &["--json", &document, "--beside", "paternoster"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let table = String::from_utf8_lossy(&output.stdout);
    for word in
        ["jobs", "plain", "heavy", "none", "mq-deadline", "kyber", "bfq", "rates are within"]
    {
        assert!(table.contains(word), "{word}: {table}");
    }
    let text = fs::read_to_string(&document).expect("the document");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let rows = document["tables"][0]["rows"].as_array().expect("rows");
    // Two processes under four schedulers of both, and one of ours.
    assert_eq!(rows.len(), 10, "{document:#}");
    for side in ["kernel", "ours"] {
        let rates = rows.iter().filter_map(|row| row[side]["bytes_per_second"].as_f64());
        let rates: Vec<f64> = rates.filter(|rate| *rate > 0.0).collect();
        assert_eq!(rates.len(), if side == "kernel" { 8 } else { 10 }, "{side}: {document:#}");
    }
    assert_eq!(document["tags"], 8);
    assert!(document["emulation_ns"]["commands"].as_u64().expect("a number") > 0);
}

/// Is the machine restored after a fio that fails, and is this reported, with exit status 1?
#[test]
fn a_failing_fio_leaves_nothing() {
    if !machine_can() {
        return;
    }
    let folder = Folder::new("failing");
    let fake = folder.0.join("fio");
    fs::write(&fake, "#!/bin/sh\necho no good\nexit 3\n").expect("a script");
    let made = Command::new("chmod").arg("755").arg(&fake).status();
    assert!(made.is_ok_and(|status| status.success()));
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = program(&folder, &["--schedulers", "bfq"]);
    command.env("PATH", format!("{}:{path}", folder.0.display()));
    let output = run(command);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("exit status: 3: no good"), "{said}");
}

/// Is the machine restored after Ctrl-C in the middle of a run under bfq, with cgroups?
#[test]
fn ctrl_c_leaves_nothing() {
    if !machine_can() {
        return;
    }
    let folder = Folder::new("interrupt");
    let before = loops();
    let mut command = program(&folder, &["--schedulers", "bfq", "--runtime", "300"]);
    let mut child = command.spawn().expect("the program starts");
    let pid = child.id();
    let group = format!("/sys/fs/cgroup/blkio/paternoster-{pid}-heavy");
    // Once a process is in the cgroup, fio is running.
    let under_way = |_: &str| {
        let tasks = fs::read_to_string(Path::new(&group).join("cgroup.procs"));
        tasks.is_ok_and(|tasks| !tasks.is_empty())
    };
    let used = wait_for_loop(&mut child, &under_way).expect("it runs");
    let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let interrupt = rustix::process::Signal::INT;
    rustix::process::kill_process(process.expect("a pid"), interrupt).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped"), "{output:?}");
    assert_as_before(&before, &used, pid);
}
