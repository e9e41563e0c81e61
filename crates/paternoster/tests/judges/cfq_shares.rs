// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of a disk each client gets under cfq: levels, classes, groups.
//!
//! Sequential readers of 128 KiB on `lab-disk` (one server; 100 us + 128 KiB / 150 MB/s = 973.8 us,
//! 8 ms more for the first after another's). Shares are of device time. The vector of levels is
//! compared with a small model of the rules that is independent of the library: a list of readers,
//! keys by rule 1.5, slices by rule 3.1.

use std::process::{Command, Stdio};

use serde_json::Value;

const PRESETS: [&str; 3] = ["cfq", "cfq-3.6", "cfq-4.19"];
const MS: i64 = 1_000_000;

/// Runs a job file of one section; the device time of each process, in nanoseconds.
fn device_times(scheduler: &str, jobs: &str) -> Vec<i64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["run", "-", "--device", "lab-disk", "--scheduler", scheduler]);
    command.args(["--output-format", "json", "-q"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, jobs.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let processes = &report["paternoster"]["sections"][0]["processes"];
    let time = |process: &Value| process["device_time_ns"].as_i64().expect("a number");
    processes.as_array().expect("processes").iter().map(time).collect()
}

/// Sequential readers that run for this many seconds; each with its own additional lines.
fn readers(seconds: u32, own: &[String]) -> String {
    let mut jobs =
        format!("[global]\nrw=read\nbs=128k\nsize=900m\ndirect=1\ntime_based\nruntime={seconds}\n");
    for (place, lines) in own.iter().enumerate() {
        jobs += &format!("[r{place}]\nfilename=f{place}\n{lines}\n");
    }
    jobs
}

/// A reader of the model.
#[derive(Clone, Copy)]
struct Reader {
    level: i64,
    key: i64,
    residual: i64,
    waits: bool,
    device_time: i64,
}

impl Reader {
    /// CFQ-6: 180 ms at level 0 to 40 ms at level 7.
    fn slice(&self) -> i64 {
        (100 + 20 * (4 - self.level)) * MS
    }

    /// Rule 1.5, with this many busy.
    fn stand(&mut self, now: i64, busy: i64) {
        self.key = now + (busy - 1) * (180 * MS - self.slice()) - self.residual;
        self.residual = 0;
        self.waits = true;
    }
}

/// The device time of sequential readers of depth 1 at these levels, from the rules alone.
fn model(levels: &[i64], seconds: i64, low_latency: bool) -> Vec<i64> {
    // 131,072 bytes at 150 MB/s after 100 us; 20 us until the next submission.
    let (service, seek, think) = (100_000 + 873_813, 8 * MS, 20_000);
    let mut readers: Vec<Reader> = Vec::new();
    for (before, &level) in levels.iter().enumerate() {
        let mut reader = Reader { level, key: 0, residual: 0, waits: false, device_time: 0 };
        reader.stand(0, i64::try_from(before).expect("a few"));
        readers.push(reader);
    }
    let mut now = 0;
    let mut returning: Option<usize> = None;
    while now < seconds * 1000 * MS {
        let waiting = (0..readers.len()).filter(|&place| readers[place].waits);
        let chosen = waiting.min_by_key(|&place| readers[place].key).expect("somebody waits");
        // The queue that had the device comes back 20 us later, among all the others.
        if let Some(back) = returning.filter(|&back| back != chosen) {
            let busy = i64::try_from(readers.len() - 1).expect("a few");
            readers[back].stand(now + think, busy);
        }
        let reader = &mut readers[chosen];
        let mut slice = reader.slice();
        let busy = i64::try_from(levels.len()).expect("a few");
        if low_latency && busy > 3 {
            // CFQ-14: shared within 300 ms, at least twice slice_idle in proportion.
            slice = (slice * 300 / (100 * busy)).max(slice.min(2 * 8 * slice / 100));
        }
        now += seek + service;
        reader.device_time += seek + service;
        let end = now + slice;
        while now < end {
            now += think + service;
            reader.device_time += service;
        }
        reader.residual = end - now;
        reader.waits = false;
        returning = Some(chosen);
    }
    readers.iter().map(|reader| reader.device_time).collect()
}

/// With eight readers at levels 0 to 7, does device time fall with the level, and is the whole
/// vector what the rules alone give? Within 3 %, with and without low_latency.
#[test]
fn levels_share_as_the_model_of_the_rules() {
    let own: Vec<String> = (0..8).map(|level| format!("prioclass=2\nprio={level}")).collect();
    let jobs = readers(40, &own);
    let levels: Vec<i64> = (0..8).collect();
    for preset in PRESETS {
        for low_latency in [false, true] {
            let scheduler = format!("{preset}:low_latency={}", u8::from(low_latency));
            let found = device_times(&scheduler, &jobs);
            let expected = model(&levels, 40, low_latency);
            println!("{scheduler}: {found:?}\n  by the rules alone: {expected:?}");
            assert!(found.windows(2).all(|pair| pair[0] > pair[1]), "{scheduler}: {found:?}");
            for (level, (ours, theirs)) in found.iter().zip(&expected).enumerate() {
                let off = (ours - theirs).abs();
                assert!(off * 100 <= 3 * theirs, "{scheduler}, level {level}: {ours}, {theirs}");
            }
        }
    }
}

/// Level 0 with level 7 alone: (180 + 9) / (40 + 9) = 3.9 : 1 including the first request of each
/// slice, which comes before its clock starts.
#[test]
fn level_0_beside_level_7() {
    let own = [0, 7].map(|level| format!("prioclass=2\nprio={level}"));
    for preset in PRESETS {
        let found = device_times(preset, &readers(30, &own));
        let tenths = found[0] * 10 / found[1];
        assert!((35..=45).contains(&tenths), "{preset}: {found:?}");
    }
}

/// Does a best-effort reader get one request for each slice of a real-time reader, and no more
/// (CFQ-17)? A reader of depth 1 has nothing waiting at the end of its slice. A slice of RT level 4
/// is 100 ms; with two seeks that leaves about 8 requests of 9 ms a second, or 8 % of 30 s.
#[test]
fn a_real_time_reader_leaves_the_end_of_each_slice() {
    let own = ["prioclass=1\nprio=4".to_owned(), "prioclass=2\nprio=4".to_owned()];
    for preset in PRESETS {
        let found = device_times(preset, &readers(30, &own));
        let (all, of_be) = (found[0] + found[1], found[1]);
        assert!(of_be > 0 && of_be * 100 <= 9 * all, "{preset}: {found:?}");
    }
}

/// Does the idle class get what the real-time class leaves best effort, and no more (CFQ-18)?
#[test]
fn the_idle_class_gets_what_is_left() {
    let own = ["prioclass=2\nprio=4".to_owned(), "prioclass=3".to_owned()];
    for preset in PRESETS {
        let found = device_times(preset, &readers(30, &own));
        assert!(found[1] * 100 <= 9 * (found[0] + found[1]), "{preset}: {found:?}");
    }
}

/// Do groups of weights 1000 and 500 share 2 : 1 over 30 s, within 10 % (CFQ-45)?
#[test]
fn cfq_45_groups_share_by_weight() {
    let own = [1000, 500].map(|weight| format!("cgroup=g{weight}\ncgroup_weight={weight}"));
    for preset in PRESETS {
        let found = device_times(preset, &readers(30, &own));
        let hundredths = found[0] * 100 / found[1];
        println!("{preset}: {found:?}");
        assert!((180..=220).contains(&hundredths), "{preset}: {found:?}");
    }
}
