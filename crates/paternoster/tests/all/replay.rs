// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster replay` as a user meets it: a kernel's traces, small traces made here, and
//! refusals.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use paternoster_core::Nanos;
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Record};
use serde_json::Value;

use crate::common::skipped;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/kernel-traces");
const LOOP_DISK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loop_disk.toml");

fn paternoster(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("replay").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

/// What the program writes to its standard output.
fn told(arguments: &[&str]) -> String {
    let output = paternoster(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    let text = told(&[arguments, &["-q", "--output-format=json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// Its message when it refuses; nothing was printed.
fn refusal(arguments: &[&str]) -> String {
    let output = paternoster(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn own_file(name: &str, bytes: &[u8]) -> String {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    path.to_str().expect("a path").to_owned()
}

/// A trace under construction.
#[derive(Default)]
struct Trace(Vec<u8>);

impl Trace {
    /// An event of process 100 on 8,0: code, time (us), sectors.
    fn event(&mut self, code: Code, us: u64, what: Categories, sectors: (u64, u32)) -> &mut Trace {
        self.event_on(DeviceNumber::new(8, 0), 100, code, us, what, sectors)
    }

    fn event_on(
        &mut self,
        device: DeviceNumber,
        pid: u32,
        code: Code,
        us: u64,
        what: Categories,
        (sector, sectors): (u64, u32),
    ) -> &mut Trace {
        let (at, bytes) = (Nanos::from_micros(us), sectors * 512);
        let categories = what | Categories::FS;
        let record =
            Record { at, sector, bytes, code, categories, pid, device, ..Record::default() };
        self.0.extend(record.encode(0));
        self
    }

    /// A read from its arrival to its end.
    fn read(&mut self, us: u64, took: u64, sectors: (u64, u32)) -> &mut Trace {
        self.event(Code::QUEUE, us, Categories::READ, sectors);
        self.event(Code::ISSUE, us + 10, Categories::READ, sectors);
        self.event(Code::COMPLETE, us + took, Categories::READ, sectors)
    }

    fn name(&mut self, pid: u32, name: &str) -> &mut Trace {
        let (code, categories) = (Code::NOTE_PROCESS, Categories::NOTIFY);
        let record = Record { code, categories, pid, ..Record::default() };
        let mut payload = [0; 16];
        payload[..name.len()].copy_from_slice(name.as_bytes());
        self.0.extend(record.encode(16));
        self.0.extend(payload);
        self
    }

    fn file(&self, name: &str) -> String {
        own_file(name, &self.0)
    }
}

/// Ten reads of 4 KiB, one after the other, of a process with a name.
fn ten_reads() -> Trace {
    let mut trace = Trace::default();
    trace.name(100, "fio");
    for nth in 0..10 {
        trace.read(nth * 1000, 400, (nth * 1000, 8));
    }
    trace
}

fn rate(of: &Value) -> f64 {
    of["all"]["bytes_per_second"].as_f64().expect("a rate")
}

/// Does a replay of a kernel's traces, on a model of the lab's device on which they were recorded,
/// give what was recorded?
///
/// Eight readers of 128 KiB. A request costs the model 0.1 + 128 KiB / 150 MB/s = 0.974 ms, 8 ms
/// more where it does not continue the last; the emulation itself, which the model leaves out, 0.06
/// ms at least (btt: D2C 1.0346 at least) and 0.105 ms in the mean under bfq: (1594 * 1.2493 - 34 *
/// 8) / 1594 = 1.0787 ms.
///
/// * none: every request seeks, 8.974 ms: 227 in 2.037 s, where the recording has 2.065 s. 0.06 to
///   0.2 ms of 9 are 1 to 2 %; allowed 3 %.
/// * bfq: 0.06 to 0.2 ms of 1.3 ms (2.070 s for 1594) are 5 to 15 %, and on a faster device bfq
///   makes more or fewer seeks; allowed is 0 to 17 % more than recorded.
/// * bfq on the same model with 0.105 ms added to each request: allowed 3 % either way.
/// * The recording of bfq replayed under none: like the recording of none, again within 3 %.
#[test]
fn a_kernels_traces_are_replayed() {
    let [bfq, none] = ["bfq", "none"].map(|kind| format!("{RECORDED}/seq8_{kind}/seq8_{kind}"));
    if !Path::new(&format!("{bfq}.blktrace.0")).exists() {
        return skipped(&format!("no recording {bfq}.blktrace.0"));
    }
    let text = std::fs::read_to_string(LOOP_DISK).expect("the device file");
    let with_own_time =
        text.replace("\"100 us\"", "\"205 us\"").replace("loop-disk", "loop-disk-205us");
    assert!(text.len() < with_own_time.len());
    let with_own_time = own_file("loop_disk_own_time.toml", with_own_time.as_bytes());
    let schedulers = ["--scheduler=none", "--scheduler=bfq:low_latency=0"];
    let on = ["--device", LOOP_DISK, "--device", &with_own_time];
    let replays = |trace: &str, manner: &str| {
        let all = [&[trace, "--manner", manner][..], &schedulers, &on].concat();
        println!("{}", told(&[&all[..], &["-q", "--processes=1"]].concat()));
        let told = json(&all);
        let ios = &told["recorded"]["all"]["ios"];
        for replay in told["replays"].as_array().expect("replays") {
            assert_eq!(&replay["all"]["ios"], ios);
            assert_eq!(&replay["all"]["timed_ios"], ios, "all have ended");
        }
        let rates = [0, 1, 2, 3].map(|nth| rate(&told["replays"][nth]));
        (rate(&told["recorded"]), rates)
    };
    // 1594 and 227 of 128 KiB in 2.070 and 2.065 s, as blkparse's last lines say.
    let (under_bfq, [as_none, as_bfq, _, as_bfq_with_own_time]) = replays(&bfq, "think");
    assert!((under_bfq / (1594.0 * 131_072.0 / 2.070_405_948) - 1.0).abs() < 1e-6);
    let (under_none, [none_as_none, ..]) = replays(&none, "think");
    assert!((under_none / (227.0 * 131_072.0 / 2.065_167_313) - 1.0).abs() < 1e-6);
    let more = |rate: f64, recorded: f64| 100.0 * (rate / recorded - 1.0);
    println!("none {:+.2} %", more(none_as_none, under_none));
    println!("bfq {:+.2} %", more(as_bfq, under_bfq));
    println!("bfq with the emulation's time {:+.2} %", more(as_bfq_with_own_time, under_bfq));
    println!("recorded under bfq, replayed under none {:+.2} %", more(as_none, under_none));
    assert!(more(none_as_none, under_none).abs() < 3.0);
    assert!((0.0..17.0).contains(&more(as_bfq, under_bfq)));
    assert!(more(as_bfq_with_own_time, under_bfq).abs() < 3.0);
    assert!(more(as_none, under_none).abs() < 3.0);
    for trace in [&bfq, &none] {
        let _all_ended = replays(trace, "timed");
    }
}

/// Do the tables line up, with the recording first? Ten reads, each 400 us, one a millisecond: 9.4
/// ms, 1063.8 IOPS; on `null`, where each takes 10 us, with 600 us of thinking between: 9 * 600 +
/// 10 * 10 = 5.5 ms.
#[test]
fn tables_line_up() {
    let trace = ten_reads().file("replay-table.bin");
    let text = told(&[&trace, "--device=null", "--scheduler=noop", "--scheduler=kyber", "-q"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("device 8,0: 10 I/Os of 1 process"), "{text}");
    assert!(lines[1].starts_with("replayed on null, think:"), "{text}");
    let words = |start: &str| -> Vec<&str> {
        let line = lines.iter().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {text}")).split_whitespace().collect()
    };
    assert_eq!(words("as recorded"), ["as", "recorded", "noop", "kyber"]);
    assert_eq!(words("length"), ["length", "9.4", "ms", "5.5", "ms", "5.5", "ms"]);
    assert_eq!(words("IOPS"), ["IOPS", "1.1k", "1.8k", "1.8k"]);
    assert_eq!(words("mean"), ["mean", "400", "us", "10.0", "us", "10.0", "us"]);
    assert_eq!(words("device busy"), ["device", "busy", "41.5", "%", "1.8", "%", "1.8", "%"]);
    let column = |line: &str| lines.iter().find(|l| l.contains(line)).map(|l| l.chars().count());
    assert_eq!(column("IOPS    "), column("max    "), "{text}");
    assert!(text.contains("fio (100)  as recorded"), "{text}");
}

/// Is the device with the most bytes replayed, without remappers, or another one on request? And is
/// the list of existing ones shown?
#[test]
fn one_device_is_chosen() {
    let mut trace = ten_reads();
    let [small, remapper] = [DeviceNumber::new(8, 16), DeviceNumber::new(253, 0)];
    let (read, sectors) = (Categories::READ, (0, 8));
    trace.event_on(small, 7, Code::QUEUE, 20_000, read, sectors);
    trace.event_on(small, 7, Code::COMPLETE, 20_100, read, sectors);
    for nth in 0..100 {
        trace.event_on(remapper, 7, Code::QUEUE, 30_000 + nth, read, (nth * 8, 8));
    }
    let file = trace.file("replay-devices.bin");
    let output = paternoster(&[&file, "--device=null"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("replayed is device 8,0; others: 8,16 (--from-device)"), "{said}");
    assert!(said.contains("100 arrivals at remappers are left out"), "{said}");
    let told = json(&[&file, "--device=null", "--from-device=8,16"]);
    assert_eq!(
        (&told["from_device"], &told["recorded"]["all"]["ios"]),
        (&"8,16".into(), &1.into())
    );
    let said = refusal(&[&file, "--from-device=253,0"]);
    assert!(said.contains("no I/O arrives at `253,0`; there are 8,0, 8,16"), "{said}");
    let mut only = Trace::default();
    only.event_on(remapper, 7, Code::QUEUE, 0, read, sectors);
    let said = refusal(&[&only.file("replay-remapper.bin")]);
    assert!(said.contains("at remappers (md, device-mapper) only"), "{said}");
}

/// Are the arrivals of a window replayed with their ends, even those after it? 2 to 4.2 ms holds
/// those of 2, 3 and 4 ms; the last one ends at 4.4 ms.
#[test]
fn a_window_is_a_part() {
    let file = ten_reads().file("replay-window.bin");
    let told = json(&[&file, "--device=null", "--window", "0.002:0.0042"]);
    let recorded = &told["recorded"]["all"];
    assert_eq!((&recorded["ios"], &recorded["timed_ios"]), (&3.into(), &3.into()));
    assert_eq!(recorded["length_ns"], 2_400_000);
    let said = refusal(&[&file, "--window=1:"]);
    assert!(said.contains("no I/O arrives in the window"), "{said}");
}

/// Is a merged trace the same from standard input, and as files per processor?
#[test]
fn a_trace_has_three_forms() {
    let bytes = ten_reads().0;
    let file = own_file("replay-form.bin", &bytes);
    let form = ["--device=null", "--output-format=csv", "-q"];
    let from_file = told(&[&[file.as_str()][..], &form].concat());
    let mut piped = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    piped.args(["replay", "-"]).args(form).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut piped = piped.spawn().expect("the program starts");
    piped.stdin.take().expect("a pipe").write_all(&bytes).expect("it reads");
    let from_pipe = piped.wait_with_output().expect("it ends").stdout;
    assert_eq!(from_file, String::from_utf8_lossy(&from_pipe));
    let first = own_file("replay-form.blktrace.0", &bytes);
    own_file("replay-form.blktrace.1", b"");
    assert_eq!(from_file, told(&[&[first.as_str()][..], &form].concat()));
    let prefix = first.trim_end_matches(".blktrace.0");
    assert_eq!(from_file, told(&[&[prefix][..], &form].concat()));
    // A line of names, then all, reads, writes and the process, recorded and replayed.
    assert_eq!(from_file.lines().count(), 1 + 2 * 4);
    let columns = |line: &str| line.split(',').count();
    let head = from_file.lines().next().map(columns);
    // "8,0" is quoted and has a comma.
    let row = from_file.lines().last().map(columns);
    assert_eq!(head, row);
}

/// Are flushes, discards and writes replayed as what they are? On a disk with a cache: three
/// commands and one flush.
#[test]
fn every_operation_is_replayed() {
    let mut trace = Trace::default();
    let (write, sync) = (Categories::WRITE, Categories::SYNC);
    let flush = write | Categories::FLUSH | sync;
    let discard = write | Categories::DISCARD;
    for (us, what, sectors) in [(0, write, (8, 8)), (1000, discard, (64, 64))] {
        trace.event(Code::QUEUE, us, what, sectors);
        trace.event(Code::COMPLETE, us + 100, what, sectors);
    }
    trace.event(Code::QUEUE, 2000, flush, (0, 0));
    trace.event(Code::ISSUE, 2010, Categories::FLUSH, (u64::MAX, 0));
    trace.event(Code::COMPLETE, 9000, Categories::FLUSH, (u64::MAX, 0));
    trace.event(Code::QUEUE, 9100, Categories::READ | sync, (8, 8));
    trace.event(Code::COMPLETE, 9200, Categories::READ | sync, (8, 8));
    let file = trace.file("replay-operations.bin");
    let told = json(&[&file, "--device=hdd-7200", "--scheduler=mq-deadline"]);
    let counts = |of: &Value| ["all", "reads", "writes"].map(|group| of[group]["ios"].clone());
    for of in [&told["recorded"], &told["replays"][0]] {
        assert_eq!(counts(of), [4, 1, 1].map(Value::from));
        assert_eq!(of["all"]["timed_ios"], 4);
    }
    // The flush alone took 7 ms.
    assert_eq!(told["recorded"]["all"]["max_ns"], 7_000_000);
}

/// Is a trace without ends replayed at its times, and a closed loop refused?
#[test]
fn without_ends_only_times_are_known() {
    let mut trace = Trace::default();
    for nth in 0..5 {
        trace.event(Code::QUEUE, nth * 1000, Categories::READ, (nth * 80, 8));
    }
    let file = trace.file("replay-arrivals.bin");
    let told = json(&[&file, "--device=null"]);
    assert_eq!(told["manner"], "timed");
    assert_eq!(told["recorded"]["all"]["mean_ns"], Value::Null);
    assert_eq!(told["replays"][0]["all"]["timed_ios"], 5);
    let said = refusal(&[&file, "--manner=think"]);
    assert!(said.contains("does not tell when I/Os ended") && said.contains("timed"), "{said}");
}

/// Does a note say that a device falls behind, with numbers, and only for an open loop? Ten reads
/// of 4 KiB in 9 ms on a disk where each takes ten or more.
#[test]
fn falling_behind_is_said() {
    let file = ten_reads().file("replay-behind.bin");
    let on = [file.as_str(), "--device", LOOP_DISK, "--scheduler=none"];
    let text = told(&[&on[..], &["--manner=timed", "-q"]].concat());
    let words: Vec<&str> = text.split_whitespace().collect();
    let said = words.join(" ");
    assert!(said.contains("none falls behind: I/Os come faster than they end."), "{text}");
    assert!(said.contains("(recorded: 1), and it took another"), "{text}");
    assert!(!told(&[&on[..], &["-q"]].concat()).contains("falls behind"));
    // Ten times slower there is time for each: 8.13 ms of 10.
    let slower = told(&[&on[..], &["--manner=timed", "--speed=0.1", "-q"]].concat());
    assert!(!slower.contains("falls behind"), "{slower}");
    assert!(slower.contains("0.1 times as fast"), "{slower}");
}

/// What lies beyond the end of the device: moved and counted, or refused with numbers. 1 GiB are
/// 2,097,152 sectors.
#[test]
fn sectors_beyond_the_end() {
    let mut trace = ten_reads();
    trace.read(20_000, 100, (3_000_000, 8));
    let file = trace.file("replay-beyond.bin");
    let on = [file.as_str(), "--device", LOOP_DISK];
    for fit in ["--fit=wrap", "--fit=scale"] {
        let output = paternoster(&[&on[..], &[fit]].concat());
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        let moved = if fit == "--fit=wrap" { "1 of 11 I/Os moved" } else { "of 11 I/Os moved" };
        assert!(said.contains("loop-disk is smaller than what was recorded"), "{said}");
        assert!(said.contains(moved), "{said}");
    }
    let said = refusal(&[&on[..], &["--fit=fail"]].concat());
    let right = "1 of 11 I/Os reach beyond the device's 2097152 sectors, the first one to sector \
                 3000008; see --fit wrap";
    assert!(said.contains(right), "{said}");
}

/// Does an I/O that fails end the program with status 1 and its errno, after the table?
#[test]
fn failures_are_told() {
    let file = ten_reads().file("replay-failing.bin");
    let output = paternoster(&[&file, "--device=null", "--fault=error count=2 errno=61", "-q"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("2 I/Os failed, the first with errno 61"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("as recorded"));
}

/// Are mistakes in a request reported, with what would be right, and nothing run?
#[test]
fn wrong_requests_are_refused() {
    let trace = ten_reads().file("replay-sound.bin");
    let empty = own_file("replay-empty.bin", b"");
    let garbage = own_file("replay-garbage.bin", &[7; 4096]);
    let mut notes = Trace::default();
    notes.name(1, "a").event(Code::COMPLETE, 5, Categories::READ, (0, 8));
    let notes = notes.file("replay-notes.bin");
    for (arguments, words) in [
        (&["no/such/trace"][..], &["no/such/trace: there is no such file", "trace.blktrace.0"][..]),
        (&[&empty], &["replay-empty.bin: the trace is empty"]),
        (&[&garbage], &["replay-garbage.bin: no known format begins with", "blktrace"]),
        (&[&notes], &["no I/O arrives in it (Q events)"]),
        (&[env!("CARGO_TARGET_TMPDIR")], &["this is a folder"]),
        (&[&trace, "--manner=fast"], &["timed", "think", "asap"]),
        (&[&trace, "--fit=cut"], &["wrap", "scale", "fail"]),
        (&[&trace, "--speed=0"], &["--speed 0: a number from 0.1 to 1000"]),
        (&[&trace, "--speed=quick"], &["--speed quick"]),
        (&[&trace, "--window=soon"], &["--window soon: `soon` is no time in seconds"]),
        (&[&trace, "--window=5:1"], &["ends before it has begun"]),
        (&[&trace, "--host=memory=1g"], &["--host means nothing to a replay", "page cache"]),
        (&[&trace, "--submit-cost=3us"], &["--submit-cost means nothing"]),
        (&[&trace, "--scheduler=cfg"], &["there is no scheduler `cfg`"]),
        (&[&trace, "--set=nr_requests=10000"], &["nr_requests=10000"]),
        (&[&trace, "--plot=colours=a.svg"], &["there is no picture `colours`"]),
    ] {
        let said = refusal(arguments);
        for word in words {
            assert!(said.contains(word), "{arguments:?}: {said}");
        }
    }
}

/// Are pictures drawn of all replays, with the names of the processes?
#[test]
fn replays_have_pictures() {
    let file = ten_reads().file("replay-plotted.bin");
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-access.svg");
    let plot = format!("--plot=access={}", picture.display());
    told(&[&file, "--device=null", "--scheduler=noop", "--scheduler=bfq", &plot, "-q"]);
    let text = std::fs::read_to_string(picture).expect("the picture was written");
    let document = roxmltree::Document::parse(&text).expect("well-formed");
    let texts: Vec<&str> = document.descendants().filter_map(|part| part.text()).collect();
    assert!(texts.contains(&"noop") && texts.contains(&"bfq"), "{texts:?}");
}

/// Is the scheduler that a kernel recorded under the one whose replay is nearest, and does the
/// document's difference follow from its rates? bfq with `low_latency=0` ran; none and cfq did not.
#[test]
fn the_recorded_scheduler_is_nearest() {
    let trace = format!("{RECORDED}/seq8_bfq/seq8_bfq");
    if !Path::new(&format!("{trace}.blktrace.0")).exists() {
        return skipped("the kernel's trace seq8_bfq is not here");
    }
    let ran = "bfq:low_latency=0";
    let arguments = [&trace, "--device", LOOP_DISK, "--scheduler", "none", "--scheduler", ran];
    let arguments = [&arguments[..], &["--scheduler", "cfq"]].concat();
    let text = told(&arguments);
    assert!(text.contains(&format!("nearest to the recording is {ran} (IOPS +7.7 %")), "{text}");
    assert!(text.contains("this model is like the device."), "{text}");
    let document = json(&arguments);
    for replay in document["replays"].as_array().expect("replays") {
        let rate = |of: &Value| of["all"]["iops"].as_f64().expect("a rate");
        let off = (rate(replay) / rate(&document["recorded"]) - 1.0) * 100.0;
        let said = replay["likeness"]["iops_percent"].as_f64().expect("a difference");
        assert!((off - said).abs() < 1e-9, "{off} {said}");
    }
}
