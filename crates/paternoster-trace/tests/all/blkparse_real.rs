// SPDX-License-Identifier: MIT OR Apache-2.0
//! The installed blkparse compared with ours: is the text of generated traces the same, byte for
//! byte?
//!
//! A trace is written by [`PerCpu`] and read by both, with many options. It is made so that the
//! tool does not print random memory contents: payloads exist where they are shown, and where times
//! are followed, a request goes through all its steps. Without the tool the test says so and
//! passes. A seed is in every message.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use paternoster_core::Nanos;
use paternoster_trace::Entry;
use paternoster_trace::blkparse::{Formats, Inputs, Options, Several, Text};
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, PerCpu, Record};
use paternoster_trace::filter::{Mask, Window};

use crate::common::golden::{self, assert_same, merged, text, without_files};
use crate::common::skipped;

/// Numbers from a seed: xorshift.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % limit
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).unwrap()]
    }
}

/// A step to be written: when, and what.
type Step = (u64, Record, Vec<u8>);

const NAMES: [&str; 9] =
    ["fio", "fio", "kworker/0:1", "kworker/10:1", "kworker/2:1", "002.9", "a b", "00", "x9"];

fn data(draw: &mut Draw) -> Categories {
    let mut categories = Categories::FS
        | draw.one_of(&[
            Categories::READ,
            Categories::WRITE,
            Categories::WRITE | Categories::DISCARD,
        ]);
    for flag in
        [Categories::SYNC, Categories::META, Categories::AHEAD, Categories::FUA, Categories::FLUSH]
    {
        if draw.below(4) == 0 {
            categories |= flag;
        }
    }
    categories
}

fn device(draw: &mut Draw) -> DeviceNumber {
    let (major, minor) = draw.one_of(&[(8, 0), (8, 64), (253, 0), (9, 1), (259, 1_048_575)]);
    DeviceNumber::new(major, minor)
}

fn category_of(code: Code) -> Categories {
    match code {
        Code::REQUEUE => Categories::REQUEUE,
        Code::ISSUE => Categories::ISSUE,
        Code::COMPLETE => Categories::COMPLETE,
        Code::SPLIT | Code::BOUNCE => Categories(0),
        _ => Categories::QUEUE,
    }
}

/// A request that goes all its steps, with a front merge or a requeue now and then.
fn request(draw: &mut Draw, number: u64, steps: &mut Vec<Step>) {
    let categories = data(draw);
    let mut sector = 1000 * (number + 1) + draw.below(900);
    let mut bytes = u32::try_from(draw.below(9) * 512).unwrap();
    let (device, mut at) = (device(draw), 1 + draw.below(50_000_000));
    let mut codes = vec![Code::QUEUE, Code::GET, Code::INSERT];
    if bytes > 0 && draw.below(3) == 0 {
        codes.push(Code::FRONT_MERGE);
    }
    codes.push(Code::ISSUE);
    if draw.below(4) == 0 {
        codes.extend([Code::REQUEUE, Code::ISSUE]);
    }
    codes.push(Code::COMPLETE);
    for code in codes {
        let error = if code == Code::COMPLETE { draw.one_of(&[0, 0, 5, 65531]) } else { 0 };
        let mut length = bytes;
        if code == Code::FRONT_MERGE {
            length = 512 * u32::try_from(1 + draw.below(8)).unwrap();
            sector -= u64::from(length / 512);
            bytes += length;
        }
        let record = Record {
            sector,
            bytes: length,
            code,
            categories: categories | category_of(code),
            pid: u32::try_from(100 + draw.below(12)).unwrap(),
            device,
            cpu: u32::try_from(draw.below(4)).unwrap(),
            error,
            ..Record::default()
        };
        steps.push((at, record, Vec::new()));
        at += 1 + draw.below(5_000_000);
    }
}

/// Something else that happens: messages, plugs, splits, remaps, commands.
fn other(draw: &mut Draw, steps: &mut Vec<Step>) {
    let code = draw.one_of(&[
        Code::BACK_MERGE,
        Code::SLEEP,
        Code::PLUG,
        Code::UNPLUG,
        Code::UNPLUG_TIMER,
        Code::SPLIT,
        Code::BOUNCE,
        Code::REMAP,
        Code::QUEUE,
        Code::INSERT,
        Code::ISSUE,
        Code::COMPLETE,
        Code::REQUEUE,
    ]);
    let mut record = Record {
        sector: draw.below(1 << 40),
        bytes: u32::try_from(draw.below(3) * draw.below(1 << 20)).unwrap(),
        code,
        categories: data(draw) | category_of(code),
        pid: u32::try_from(98 + draw.below(14)).unwrap(),
        device: device(draw),
        cpu: u32::try_from(draw.below(4)).unwrap(),
        ..Record::default()
    };
    let mut payload = Vec::new();
    match code {
        Code::UNPLUG | Code::UNPLUG_TIMER | Code::SPLIT => {
            payload.extend(draw.below(1 << 34).to_be_bytes());
        }
        Code::REMAP => {
            payload.extend(record.device.0.to_be_bytes());
            payload.extend(device(draw).0.to_be_bytes());
            payload.extend(draw.below(1 << 40).to_be_bytes());
        }
        Code::QUEUE | Code::INSERT | Code::ISSUE | Code::COMPLETE | Code::REQUEUE => {
            record.categories = Categories::PASSTHROUGH
                | draw.one_of(&[Categories::READ, Categories::WRITE])
                | category_of(code);
            payload = (0..draw.below(7)).map(|_| draw.one_of(&[0, 0, 1, 0x2a])).collect();
        }
        _ if draw.below(6) == 0 => {
            record.categories = Categories::NOTIFY;
            (record.code, record.bytes) = (Code::NOTE_MESSAGE, 0);
            payload = b"cfq100S / 50% \\n done".to_vec();
        }
        _ => {}
    }
    steps.push((draw.below(70_000_000), record, payload));
}

/// Writes the files of a trace into `folder`, in which no two events are at one instant.
fn write(seed: u64, folder: &Path, name: &str) {
    write_rounded(seed, folder, name, None);
}

/// Writes the files of a trace, with times rounded down so that many events are at one instant.
fn write_rounded(seed: u64, folder: &Path, name: &str, grain: Option<u64>) {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut steps = Vec::new();
    for number in 0..25 + draw.below(20) {
        request(&mut draw, number, &mut steps);
    }
    for _ in 0..60 {
        other(&mut draw, &mut steps);
    }
    steps.sort_by_key(|step| step.0);
    match grain {
        Some(grain) => steps.iter_mut().for_each(|step| step.0 -= step.0 % grain),
        None => steps.dedup_by_key(|step| step.0),
    }
    let mut trace = PerCpu::new(|cpu| File::create(folder.join(format!("{name}.blktrace.{cpu}"))));
    let note =
        |code, pid| Record { code, categories: Categories::NOTIFY, pid, ..Record::default() };
    let clock = [1_271_420_000_u32.to_le_bytes(), 123_456_789_u32.to_le_bytes()].concat();
    let record = note(Code::NOTE_TIMESTAMP, 0);
    trace.record(&Entry { record, payload: &clock }).unwrap();
    for (pid, name) in (100..).zip(NAMES) {
        let record = note(Code::NOTE_PROCESS, pid);
        trace.record(&Entry { record, payload: name.as_bytes() }).unwrap();
    }
    for (at, mut record, payload) in steps {
        record.at = Nanos(7_000_000_000 + at);
        trace.record(&Entry { record, payload: &payload }).unwrap();
    }
    trace.finish().unwrap();
}

/// The options of both.
fn options(name: &str, args: &[&str]) -> Options {
    let mut options = Options { utc_offset_s: 0, ..Options::of_file(name) };
    let mut formats = Formats::default();
    let mut mask: Option<Mask> = None;
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        match arg {
            "-t" => options.elapsed = true,
            "-q" => options.quiet = true,
            "-s" => options.programs = true,
            "-h" => options.by_name = true,
            "-O" => options.silent = true,
            "-v" => {}
            _ => {
                let value = args.next().unwrap();
                match arg {
                    "-f" => formats.set_all(value).unwrap(),
                    "-F" => formats.set_one(value).unwrap(),
                    "-w" => options.window = Some(Window::parse(value).unwrap()),
                    "-A" => mask = Some(Mask::parse_hex(value).unwrap()),
                    "-a" => {
                        let added = Mask::parse(value).unwrap();
                        mask = Some(mask.map_or(added, |mask| mask | added));
                    }
                    _ => panic!("{arg}"),
                }
            }
        }
    }
    (options.formats, options.mask) = (formats, mask.unwrap_or_default());
    options
}

/// The arguments for both.
const ARGS: [&[&str]; 26] = [
    &[],
    &["-t"],
    &["-q", "-v"],
    &["-s", "-t"],
    &["-s", "-h"],
    &["-s", "-h", "-t"],
    &["-O", "-s"],
    &["-q", "-f", "%5T.%9t %-2a|%3d|%c %C %e %M:%m %n %N %p %P %s %S %z\\n"],
    &["-q", "-f", "%8a|%8c|%8C|%8d|%8D|%8e|%8M|%8m|%8n|%8N|%8p|%8P|%8s|%8S|%8t|%8T|%18z|%8%|\\n"],
    &["-q", "-f", "%-8a|%-8c|%-8C|%-8d|%-8D|%-8e|%-8n|%-8N|%-8p|%-8s|%-8S|%12t|%-8T|%-18z|\\n"],
    &["-q", "-f", "a\\tb\\r%x|%8x|%1 a|%--5a|%\\n\\n"],
    &["-F", "U,%a %U|%9U\\n", "-F", "X,%S / %12U\\n", "-F", "A,%D %M %m %U\\n"],
    &["-t", "-F", "D,%a %u|%8u|%-8u|\\n", "-F", "P,plug %C\\n", "-a", "fs"],
    &["-q", "-F", "C,%S %e\\n", "-f", "ALL %a\\n"],
    &["-a", "read"],
    &["-a", "write", "-s", "-t"],
    &["-a", "issue", "-a", "complete", "-t"],
    &["-a", "notify", "-s"],
    &["-a", "pc"],
    &["-A", "0x80"],
    &["-A", "8040", "-s"],
    &["-w", "0.02"],
    &["-w", "0.0101:0.0333", "-s"],
    &["-w", "0.05:60", "-a", "complete"],
    &["-w", "5:6", "-s"],
    &["-w", "1e-2", "-f", "%T %t %a\\n"],
];

fn folder(seed: u64) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("paternoster-{}-{seed}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn installed() -> bool {
    let found = Command::new("blkparse").arg("-V").output().is_ok();
    if !found {
        skipped("blkparse is not installed (Debian package blktrace)");
    }
    found
}

fn run(folder: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("blkparse");
    command.args(args).current_dir(folder).env("TZ", "UTC").env("LC_ALL", "C");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    without_files(&output.stdout).to_vec()
}

/// Is the text the same under all options, for 25 traces?
#[test]
fn generated_traces() {
    if !installed() {
        return;
    }
    for seed in 1..=25 {
        let folder = folder(seed);
        write(seed, &folder, "t");
        for args in ARGS {
            let real = run(&folder, &[&["-i", "t"], args].concat());
            let ours = text(merged(&folder, "t"), options("t", args));
            assert_same(&format!("seed {seed} {args:?}"), &ours, &real);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Do events of one instant come in the tool's order, whichever processors they are of?
#[test]
fn events_of_one_instant() {
    if !installed() {
        return;
    }
    for seed in 300..=340 {
        let folder = folder(seed);
        write_rounded(seed, &folder, "t", Some(500_000));
        let real = run(&folder, &["-i", "t", "-q"]);
        let ours = text(merged(&folder, "t"), options("t", &["-q"]));
        assert_same(&format!("seed {seed}"), &ours, &real);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Is the text of a stream the same, with a summary for each device?
#[test]
fn generated_streams() {
    if !installed() {
        return;
    }
    for seed in 100..=110 {
        let folder = folder(seed);
        write(seed, &folder, "t");
        run(&folder, &["-i", "t", "-O", "-d", "t.bin"]);
        for args in [&[][..], &["-s"], &["-t"]] {
            let mut command = Command::new("blkparse");
            command.args(["-i", "-"]).args(args).current_dir(&folder).env("TZ", "UTC");
            command.stdin(File::open(folder.join("t.bin")).unwrap());
            let real = command.output().unwrap().stdout;
            let file = File::open(folder.join("t.bin")).unwrap();
            let source = paternoster_trace::blktrace::Ordered::new("t.bin", file);
            let options = Options { inputs: Inputs::Devices, ..options("", args) };
            let ours = text(source, options);
            assert_same(&format!("seed {seed} {args:?}"), &ours, &real);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Are two traces side by side the same, with times from the first event of both, one table of
/// processes and a part of the summary for each?
#[test]
fn several_inputs() {
    if !installed() {
        return;
    }
    for seed in 200..=205 {
        let folder = folder(seed);
        write(seed, &folder, "a");
        write(seed + 1000, &folder, "b");
        for args in [&[][..], &["-s", "-t"], &["-s", "-h", "-w", "0.01:0.04"]] {
            let real = run(&folder, &[&["-i", "a", "-i", "b"], args].concat());
            let inputs = Inputs::Named(vec!["a".to_owned(), "b".to_owned()]);
            let mut ours = Vec::new();
            let mut text = Text::new(Options { inputs, ..options("", args) }, &mut ours);
            let mut traces = Several::new(["a", "b"].map(|name| merged(&folder, name)));
            while let Some((input, entry)) = traces.next() {
                text.record_of(input, &entry).unwrap();
            }
            text.finish().unwrap();
            drop(text);
            assert_eq!(traces.problems().shown(), []);
            assert_same(&format!("seed {seed} {args:?}"), &ours, &real);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Are the golden cases the same that are only kept as a script?
#[test]
fn scripted_cases() {
    let Some(script) = golden::data("btt-golden").map(|folder| folder.join("gen.py")) else {
        return;
    };
    if !installed() {
        return;
    }
    if Command::new("python3").arg("-V").output().is_err() {
        return skipped("python3 is not installed");
    }
    for case in ["dm", "mixed"] {
        let folder = folder(if case == "dm" { 1 << 32 } else { 1 << 33 });
        let mut python = Command::new("python3");
        assert!(python.arg(&script).args([case]).arg(&folder).status().unwrap().success());
        for args in [&[][..], &["-t", "-q"], &["-s", "-q"], &["-s", "-h", "-t"]] {
            let real = run(&folder, &[&["-i", case], args].concat());
            let ours = text(merged(&folder, case), options(case, args));
            assert_same(&format!("{case} {args:?}"), &ours, &real);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
