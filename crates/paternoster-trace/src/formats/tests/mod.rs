// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats by their published lines: every field where it belongs, every format recognised,
//! every mistake named.

mod lines;
mod mistakes;
mod written;

use paternoster_core::Nanos;

use super::*;
use crate::blktrace::{Categories as C, Code, DeviceNumber, Record};
use crate::source::{Problems, Source};

/// The beginning of a trace in each format that has lines.
const SAMPLES: [(Format, &str); 18] = [
    (Format::Blkparse, "  8,64   1        5     0.000022000    78  Q   W 4992 + 8 [kjournald]\n"),
    (
        Format::Ftrace,
        "  fio-2917  [002] d..1  1234.567890: block_rq_issue: 8,0 RS 4096 () 123456 + 8 [fio]\n",
    ),
    (Format::Iolog, "fio version 3 iolog\n17 f.dat add\n149 f.dat write 0 65536\n"),
    (
        Format::Biosnoop,
        "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)\n\
         0.000004    supervise      1950    xvda1     W 13092560   4096      0.74\n",
    ),
    (Format::Msr, "128166372003061629,hm,0,Read,9748688896,4096,46528\n"),
    (Format::Spc, "0,303567,3584,w,0.000000\n"),
    (Format::Alibaba, "419,W,8792731648,16384,1577808144360767\n"),
    (Format::Tencent, "1538323200,12910952,128,0,1063\n"),
    (
        Format::Systor,
        "Timestamp,Response,IOType,LUN,Offset,Size\n\
         1455592200.008817,0.000364,R,2,1025007616,4096\n",
    ),
    (Format::K5, "1157,3.828359000,W,7155568640,4096\n"),
    (Format::CloudPhysics, "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n"),
    (Format::Mqsim, "938513000 4 264719034 16 0\n938828000 3 197570570 16 0\n"),
    (Format::Disksim, "0.000000\t0\t4583176\t4\t0\n46.004000\t0\t4583180\t4\t0\n"),
    (Format::Validation, "W Hit    4583176   4    663.00000  45422.00000\n"),
    (Format::Fiu, "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n"),
    (
        Format::Startup,
        "xterm-31657 \t   0     8   113314048  Rand    -427336      0        RM   4.666589 START\n",
    ),
    (Format::Blocks, "42932745\n42932746\n"),
    (
        Format::Blkreplay,
        "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n\
         \u{20}     0.000000000 ;     37766853 ;   64 ; W ; 0.0 ; 0.0\n",
    ),
];

/// All records of a trace, including the names of processes, and its problems.
struct Read {
    records: Vec<Record>,
    processes: Vec<(u32, String)>,
    devices: Vec<Option<String>>,
    problems: Problems,
}

fn read_as(format: Option<Format>, bytes: &[u8]) -> Read {
    let mut source = open("t", bytes, format).unwrap();
    let (mut records, mut processes, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(entry) = source.next() {
        let record = entry.record;
        if record.is_note() {
            assert_eq!((record.code, entry.payload.len()), (Code::NOTE_PROCESS, 16));
            let name = String::from_utf8_lossy(entry.payload);
            processes.push((record.pid, name.trim_end_matches('\0').to_owned()));
            continue;
        }
        records.push(record);
        devices.push(source.device_name(record.device).map(str::to_owned));
    }
    Read { records, processes, devices, problems: source.problems().clone() }
}

fn read(text: &str) -> Read {
    let found = read_as(None, text.as_bytes());
    assert_eq!(found.problems.count(), 0, "{:?}", found.problems.shown());
    found
}

/// What a record should be: its I/O has the trace's place.
fn record(
    code: Code,
    at_ns: u64,
    kind: C,
    (sector, bytes): (u64, u32),
    device: (u32, u32),
) -> Record {
    let category = match code {
        Code::ISSUE => C::ISSUE,
        Code::COMPLETE => C::COMPLETE,
        _ => C::QUEUE,
    };
    Record {
        at: Nanos(at_ns),
        sector,
        bytes,
        code,
        categories: kind | C::FS | category,
        device: DeviceNumber::new(device.0, device.1),
        ..Record::default()
    }
}

/// The records as they should be, each without its number and process.
fn assert_records(found: &Read, expected: &[Record]) {
    let plain = |record: &Record| Record { sequence: 0, pid: 0, ..*record };
    let plain: Vec<Record> = found.records.iter().map(plain).collect();
    assert_eq!(plain, expected);
    let sequence: Vec<u32> = found.records.iter().map(|record| record.sequence).collect();
    assert!((1..).zip(sequence).all(|(expected, found)| expected == found));
}

/// Is each sample recognised as its format and read whole?
#[test]
fn samples_are_recognised() {
    for (format, text) in SAMPLES {
        assert_eq!(recognise(text.as_bytes()), Some(format), "{}", format.name());
        let crlf = text.replace('\n', "\r\n");
        assert_eq!(recognise(crlf.as_bytes()), Some(format), "{}", format.name());
        assert_eq!(recognise(text.trim_end().as_bytes()), Some(format), "{}", format.name());
        let found = read(text);
        assert!(!found.records.is_empty(), "{}", format.name());
    }
    for format in [Format::Blktrace, Format::Vscsi] {
        assert!(SAMPLES.iter().all(|(other, _)| *other != format));
    }
    assert_eq!(SAMPLES.len() + 2, Format::ALL.len());
}

/// Is each sample read by its own format only? `recognise.rs` lists each exception.
#[test]
fn samples_are_of_one_format() {
    for (format, text) in SAMPLES {
        let line = text.lines().next_back().unwrap();
        for other in Format::ALL {
            let found = read_as(Some(other), line.as_bytes());
            let alike = matches!((format, other), (Format::Mqsim, Format::Disksim));
            // A line of a log is none without the log's heading.
            let own = format == other && format != Format::Iolog;
            let read = !found.records.is_empty();
            assert_eq!(read, own || alike, "{} as {}", format.name(), other.name());
        }
    }
}

/// Do formats have different names, by which they are found, and descriptions?
#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(Format::by_name(format.name()), Some(format));
        assert!(format.description().len() > 20);
    }
    assert_eq!(Format::by_name("MSR"), None);
}

/// Is a trace recognised that has some foreign lines, and a text that is none refused?
#[test]
fn some_lines_may_be_wrong() {
    let mixed = "# from somewhere\n\nhello\n0,1,512,r,0.5\n0,2,512,R,0.25\ncut,of\n0,3,512,W,1\n";
    assert_eq!(recognise(mixed.as_bytes()), Some(Format::Spc));
    // What fio logs of rates is no trace, although Tencent's lines have the same shape.
    let rates = "1000, 84, 0, 0, 0\n2000, 85, 0, 0, 0\n";
    assert_eq!(recognise(rates.as_bytes()), None);
    assert_eq!(read_as(Some(Format::Tencent), rates.as_bytes()).problems.count(), 0);
    for text in ["hello", "hello\n1,2,3\n", "<html>", "0,1,512,r,0.5\na\nb\n", "\0\0\0\0", ""] {
        assert_eq!(recognise(text.as_bytes()), None, "{text}");
    }
}

/// Is a DiskSim trace distinguished from MQSim's although some of its lines could be either's?
#[test]
fn disksim_is_told_from_mqsim() {
    let disksim = "0 0 100 8 1\n10 0 200 8 0\n10.5 0 300 8 1\n";
    assert_eq!(recognise(disksim.as_bytes()), Some(Format::Disksim));
    let whole = "0 0 100 8 1\n10 0 200 8 0\n";
    assert_eq!(recognise(whole.as_bytes()), Some(Format::Mqsim));
    // 10 ms, if it is named.
    let named = read_as(Some(Format::Disksim), whole.as_bytes());
    assert_eq!(named.records[1].at, Nanos::from_millis(10));
}

/// Does an unknown trace get a message with its beginning and what can be read?
#[test]
fn an_unknown_trace_gets_a_message() {
    let told = |head: &[u8]| open("x.bin", head, None).err().unwrap().to_string();
    let message = |text: &str| told(text.as_bytes());
    let zip = message("PK\u{3}\u{4}zip");
    let begin = "x.bin: no known format begins with `PK\u{b7}\u{b7}zip`; what can be read: \
                 blktrace, blkparse, ftrace, vscsi, iolog,";
    assert!(zip.starts_with(begin) && zip.ends_with("blkreplay"), "{zip}");
    assert_eq!(message(""), "x.bin: the trace is empty");
    assert_eq!(
        message("BZh91AY"),
        "x.bin: the trace is packed; `bzip2 -dc` unpacks it to a pipe, and `-` reads one"
    );
    let bpftrace = "Attaching 4 probes...\n\
                    TIME(ms)     DISK COMM             PID    LAT(ms)\n\
                    611          nvme0n1 bash          4179        10\n";
    assert!(message(bpftrace).contains("bpftrace"), "{}", message(bpftrace));
}
