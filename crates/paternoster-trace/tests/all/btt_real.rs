// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real btt, if it is installed: generated traces analysed by both, equal byte for byte.
//!
//! Orderly traces are as a kernel writes them: several devices, one of them mapped onto others,
//! processes, merges before and after, requeues, plugs, sleeps, lost completions. Wild ones are
//! events in any order, with bios on top of each other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use paternoster_trace::Source;
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Ordered, Record};
use paternoster_trace::btt::{Analysis, Memory, Options, STANDARD_OUTPUT};

use crate::common::random::Random;
use crate::common::skipped;

/// A trace under construction.
#[derive(Default)]
struct Trace {
    events: Vec<(u64, Record, Vec<u8>)>,
}

/// Which process does what where.
#[derive(Clone, Copy)]
struct Who {
    pid: u32,
    device: DeviceNumber,
    write: bool,
}

impl Trace {
    fn add(
        &mut self,
        at: u64,
        code: Code,
        who: Who,
        (sector, sectors): (u64, u64),
        payload: &[u8],
    ) {
        let direction = if who.write { Categories::WRITE } else { Categories::READ };
        let record = Record {
            at: paternoster_core::Nanos(at),
            sector,
            bytes: u32::try_from(sectors * 512).unwrap(),
            code,
            categories: Categories::FS | direction,
            pid: who.pid,
            device: who.device,
            sequence: 1,
            ..Record::default()
        };
        self.events.push((at, record, payload.to_vec()));
    }

    fn note(&mut self, at: u64, code: Code, (pid, device): (u32, DeviceNumber), text: &str) {
        let (at, categories) = (paternoster_core::Nanos(at), Categories::NOTIFY);
        let record = Record { at, code, categories, pid, device, ..Record::default() };
        // A kernel's names fill 16 bytes; its messages are as long as they are.
        let mut payload = text.as_bytes().to_vec();
        if code == Code::NOTE_PROCESS {
            payload.resize(16, 0);
        }
        self.events.push((at.0, record, payload));
    }

    fn unplug(&mut self, at: u64, who: Who, requests: u64, timer: bool) {
        let code = if timer { Code::UNPLUG_TIMER } else { Code::UNPLUG };
        self.add(at, code, who, (0, 0), &requests.to_be_bytes());
    }

    fn remap(&mut self, at: u64, who: Who, extent: (u64, u64), from: (DeviceNumber, u64)) {
        let numbers = [from.0.0.to_be_bytes(), who.device.0.to_be_bytes()].concat();
        self.add(at, Code::REMAP, who, extent, &[&numbers[..], &from.1.to_be_bytes()].concat());
    }

    /// The bytes of a merged trace.
    fn bytes(mut self) -> Vec<u8> {
        self.events.sort_by_key(|event| event.0);
        let encode = |(_, record, payload): &(u64, Record, Vec<u8>)| {
            [&record.encode(u16::try_from(payload.len()).unwrap())[..], payload].concat()
        };
        self.events.iter().flat_map(encode).collect()
    }
}

const PHYSICAL: [DeviceNumber; 3] =
    [DeviceNumber::new(8, 0), DeviceNumber::new(7, 2), DeviceNumber::new(259, 1)];
const MAPPED: DeviceNumber = DeviceNumber::new(253, 0);
const NAMES: [&str; 5] = ["fio", "kworker/0:1", "fio", "a long name 15c", "dd"];

/// Names for some processes; how many processes there are.
fn processes(random: &mut Random, trace: &mut Trace) -> u32 {
    let count = 1 + u32::try_from(random.below(5)).unwrap();
    for pid in 0..count {
        if random.one_in(4) {
            continue;
        }
        let name = NAMES[usize::try_from(random.below(5)).unwrap()];
        trace.note(0, Code::NOTE_PROCESS, (100 + pid, DeviceNumber(0)), name);
    }
    count
}

/// Events as a kernel writes them.
fn orderly(seed: u64) -> Vec<u8> {
    let (mut random, mut trace) = (Random::new(seed), Trace::default());
    let pids = processes(&mut random, &mut trace);
    let devices = 1 + random.below(3);
    let scale = [100, 3000, 100_000, 40_000_000][usize::try_from(random.below(4)).unwrap()];
    let mut at = 0;
    // Requests lie in places of their own, so that bios do not overlap; streams go on in theirs.
    for request in 0..random.below(400) {
        at += random.below(scale) * random.below(3);
        let who = Who {
            pid: 100 + u32::try_from(random.below(pids.into())).unwrap(),
            device: PHYSICAL[usize::try_from(random.below(devices)).unwrap()],
            write: random.one_in(3),
        };
        let stream = random.one_in(2);
        let place = if stream { request } else { (request * 7919 + 13) % 100_003 };
        one_request(&mut random, &mut trace, (at, scale), who, 16_384 * place + u64::from(!stream));
        if random.one_in(20) {
            let text = format!("message {request} of 100%");
            trace.note(at, Code::NOTE_MESSAGE, (0, who.device), &text);
        }
    }
    trace.bytes()
}

/// A request of several bios, from its first one to its completion.
fn one_request(
    random: &mut Random,
    trace: &mut Trace,
    (mut at, scale): (u64, u64),
    who: Who,
    sector: u64,
) {
    let sectors = [1, 8, 8, 256, 1032][usize::try_from(random.below(5)).unwrap()];
    let bios = [1, 1, 2, 5, 9][usize::try_from(random.below(5)).unwrap()];
    let (backwards, mapped) = (random.one_in(3), random.one_in(5));
    let mut step = |random: &mut Random| {
        at += random.below(scale);
        at
    };
    let plugged = random.one_in(2);
    for bio in 0..bios {
        let start = sector + sectors * if backwards { bios - 1 - bio } else { bio };
        let extent = (start, sectors);
        if mapped {
            let upper = Who { device: MAPPED, ..who };
            trace.add(step(random), Code::QUEUE, upper, (start + 777, sectors), &[]);
            trace.remap(step(random), who, extent, (MAPPED, start + 777));
        }
        trace.add(step(random), Code::QUEUE, who, extent, &[]);
        if bio > 0 {
            let code = if backwards { Code::FRONT_MERGE } else { Code::BACK_MERGE };
            trace.add(step(random), code, who, extent, &[]);
            continue;
        }
        if random.one_in(10) {
            trace.add(step(random), Code::SLEEP, who, extent, &[]);
        }
        trace.add(step(random), Code::GET, who, extent, &[]);
        if plugged {
            trace.add(step(random), Code::PLUG, who, (0, 0), &[]);
        }
        if !random.one_in(10) {
            trace.add(step(random), Code::INSERT, who, extent, &[]);
        }
    }
    if plugged && !random.one_in(10) {
        let timer = random.one_in(5);
        trace.unplug(step(random), who, random.below(150), timer);
    }
    let whole = (sector, sectors * bios);
    trace.add(step(random), Code::ISSUE, who, whole, &[]);
    while random.one_in(12) {
        trace.add(step(random), Code::REQUEUE, who, whole, &[]);
        trace.add(step(random), Code::ISSUE, who, whole, &[]);
    }
    if random.one_in(30) {
        return;
    }
    let completer = Who { pid: if random.one_in(2) { 0 } else { who.pid }, ..who };
    trace.add(step(random), Code::COMPLETE, completer, whole, &[]);
    if mapped {
        for bio in 0..bios {
            let (upper, done) = (sector + sectors * bio + 777, step(random));
            let completer = Who { device: MAPPED, ..completer };
            trace.add(done, Code::COMPLETE, completer, (upper, sectors), &[]);
        }
    }
}

/// Events in any order.
fn wild(seed: u64) -> Vec<u8> {
    let (mut random, mut trace) = (Random::new(seed), Trace::default());
    let pids = processes(&mut random, &mut trace);
    let space = [64, 1000, 1 << 30][usize::try_from(random.below(3)).unwrap()];
    let scale = [100, 100_000, 40_000_000][usize::try_from(random.below(3)).unwrap()];
    let mut at = 0;
    for _ in 0..random.below(600) {
        at += random.below(scale);
        let who = Who {
            pid: 100 + u32::try_from(random.below(pids.into())).unwrap(),
            device: [PHYSICAL[0], PHYSICAL[1], MAPPED][usize::try_from(random.below(3)).unwrap()],
            write: random.one_in(2),
        };
        let sectors = [0, 8, 8, 16, 1, 256, 2000][usize::try_from(random.below(7)).unwrap()];
        let extent = (random.below(space) * 8, sectors);
        match random.below(20) {
            0 => trace.add(at, Code::PLUG, who, (0, 0), &[]),
            1 => trace.unplug(at, who, random.below(40), random.one_in(3)),
            2 => trace.note(at, Code::NOTE_MESSAGE, (0, who.device), "a message"),
            3 => trace.remap(at, who, extent, (MAPPED, random.below(space) * 8)),
            code => {
                const CODES: [Code; 16] = [
                    Code::QUEUE,
                    Code::QUEUE,
                    Code::QUEUE,
                    Code::QUEUE,
                    Code::GET,
                    Code::GET,
                    Code::INSERT,
                    Code::INSERT,
                    Code::BACK_MERGE,
                    Code::FRONT_MERGE,
                    Code::ISSUE,
                    Code::ISSUE,
                    Code::COMPLETE,
                    Code::COMPLETE,
                    Code::SLEEP,
                    Code::REQUEUE,
                ];
                trace.add(at, CODES[usize::try_from(code - 4).unwrap()], who, extent, &[]);
            }
        }
    }
    trace.bytes()
}

/// Some options, and the equivalent arguments for the real one.
fn options(seed: u64) -> (Options, Vec<String>) {
    let mut random = Random::new(!seed);
    let (mut options, mut arguments) = (Options::default(), Vec::new());
    let mut name = |letter: &str, name: &str, place: &mut Option<String>| {
        if random.one_in(2) {
            *place = Some(name.to_owned());
            arguments.extend([letter.to_owned(), name.to_owned()]);
        }
    };
    name("-o", "out", &mut options.output);
    name("-s", "seek", &mut options.seeks);
    name("-m", "sps", &mut options.seeks_per_second);
    name("-B", "bno", &mut options.blocks);
    name("-q", "q2c", &mut options.q2c);
    name("-l", "d2c", &mut options.d2c);
    name("-z", "q2d", &mut options.q2d);
    name("-Q", "aqd", &mut options.depth);
    name("-u", "unplug", &mut options.unplugs);
    name("-p", "perio", &mut options.per_io);
    name("-I", "iostat", &mut options.iostat);
    let mut flag = |arguments: &mut Vec<String>, words: &[&str]| {
        let set = random.one_in(2);
        if set {
            arguments.extend(words.iter().map(|&word| word.to_owned()));
        }
        set
    };
    options.all = flag(&mut arguments, &["-A"]);
    options.easy = flag(&mut arguments, &["-X"]);
    options.live = flag(&mut arguments, &["-Z"]);
    options.absolute_seeks = flag(&mut arguments, &["-a"]);
    options.per_io_trees = flag(&mut arguments, &["-P", "pit"]);
    if flag(&mut arguments, &["-L", "0.5"]) {
        options.periodic = Some(0.5);
    }
    if flag(&mut arguments, &["-d", "0.01"]) {
        options.range_delta = 0.01;
    }
    if flag(&mut arguments, &["-t", "0.001", "-T", "1.5"]) {
        (options.start, options.end) = (Some(0.001), Some(1.5));
    }
    (options, arguments)
}

/// Standard output and files of the real one; `None` if it died.
fn real(folder: &Path, trace: &[u8], arguments: &[String]) -> Option<BTreeMap<String, Vec<u8>>> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder.join("side")).unwrap();
    fs::write(folder.join("trace.bin"), trace).unwrap();
    let mut command = Command::new("btt");
    command.args(["-i", "../trace.bin"]).args(arguments).current_dir(folder.join("side"));
    let done = command.output().unwrap();
    if !done.status.success() {
        return None;
    }
    let mut files = BTreeMap::from([(STANDARD_OUTPUT.to_owned(), done.stdout)]);
    for file in fs::read_dir(folder.join("side")).unwrap().map(|file| file.unwrap()) {
        files.insert(file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap());
    }
    fs::remove_dir_all(folder).unwrap();
    Some(files)
}

/// Standard output and files of ours.
fn ours(trace: &[u8], options: Options) -> BTreeMap<String, Vec<u8>> {
    let (mut source, mut files) = (Ordered::new("trace", trace), Memory::default());
    let mut analysis = Analysis::new(options, &mut files);
    while let Some(entry) = source.next() {
        analysis.record(&entry);
    }
    analysis.finish().unwrap();
    files.0.entry(STANDARD_OUTPUT.to_owned()).or_default();
    files.0
}

/// Compares ours with the real one, with a trace for each seed.
fn compare(kind: &str, trace: fn(u64) -> Vec<u8>, seeds: u64) {
    if Command::new("btt").arg("-V").output().is_err() {
        return skipped("btt is not installed (Debian package blktrace)");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("btt-{kind}"));
    let (mut equal, mut files) = (0, 0);
    for seed in 0..seeds {
        let (trace, (options, arguments)) = (trace(seed), options(seed));
        let words = arguments.join(" ");
        let Some(theirs) = real(&folder, &trace, &arguments) else {
            println!("{kind} seed {seed}: the real btt died, with {words}");
            continue;
        };
        let ours = ours(&trace, options);
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{kind} seed {seed}, {words}: ours, theirs");
        for (name, theirs) in &theirs {
            let [ours, theirs] = [&ours[name], theirs].map(|text| String::from_utf8_lossy(text));
            let different = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
            assert_eq!(different, None, "{kind} seed {seed}, {words}: {name}: ours, theirs");
            assert!(ours == theirs, "{kind} seed {seed}, {words}: {name} has another end");
            files += 1;
        }
        equal += 1;
    }
    println!("{kind}: {equal} of {seeds} traces equal, {files} files");
    assert!(equal > seeds / 2, "the real btt died too often to say anything");
}

/// Are reports and side files of orderly traces those of the real tool?
#[test]
fn orderly_traces_are_equal() {
    compare("orderly", orderly, 60);
}

/// And those of traces that no kernel writes?
#[test]
fn wild_traces_are_equal() {
    compare("wild", wild, 60);
}
