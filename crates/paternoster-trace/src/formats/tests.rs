// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats by their published lines: every field where it belongs, every format told from the
//! others, every mistake named.

use paternoster_core::Nanos;

use super::*;
use crate::blktrace::{Categories as C, Code, DeviceNumber, Record};
use crate::source::{Problems, Source};

/// The beginning of a trace in each format that has lines.
const SAMPLES: [(Format, &str); 17] = [
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
];

/// All records of a trace, the names of processes with them, and what was wrong.
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

/// What a record should be: the place of its I/O is that of the trace.
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

/// Is each sample read by its own format only? Each exception is told in `recognise.rs`.
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

/// Have formats different names, by which they are found, and words to say?
#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(Format::by_name(format.name()), Some(format));
        assert!(format.description().len() > 20);
    }
    assert_eq!(Format::by_name("MSR"), None);
}

/// Is a trace recognised that has some lines of another hand, and a text that is none refused?
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

/// Is a DiskSim trace told from MQSim's although some of its lines could be either's?
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
    assert!(zip.starts_with(begin) && zip.ends_with("blocks"), "{zip}");
    assert_eq!(message(""), "x.bin: the trace is empty");
    assert_eq!(
        told(&[0x1f, 0x8b, 8]),
        "x.bin: the trace is packed; `gzip -dc` unpacks it to a pipe, and `-` reads one"
    );
    let bpftrace = "Attaching 4 probes...\n\
                    TIME(ms)     DISK COMM             PID    LAT(ms)\n\
                    611          nvme0n1 bash          4179        10\n";
    assert!(message(bpftrace).contains("bpftrace"), "{}", message(bpftrace));
}

/// MSR: are arrival, response, host and disk where they belong?
#[test]
fn msr_lines_are_read() {
    let found = read(
        "128166372003061629,hm,0,Read,9748688896,4096,46528\n\
         128166372013061629,hm,1,Write,8192,512,100\n",
    );
    // 9748688896 / 512 = 19040408; 46528 * 100 ns = 4.6528 ms; 10_000_000 * 100 ns later: 1 s.
    let (read, write) = ((19_040_408, 4096), (16, 512));
    let second = 1_000_000_000;
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, read, (240, 0)),
            record(Code::ISSUE, 0, C::READ, read, (240, 0)),
            record(Code::COMPLETE, 4_652_800, C::READ, read, (240, 0)),
            record(Code::QUEUE, second, C::WRITE, write, (240, 1)),
            record(Code::ISSUE, second, C::WRITE, write, (240, 1)),
            record(Code::COMPLETE, second + 10_000, C::WRITE, write, (240, 1)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("hm_0"));
    assert_eq!(found.devices[5].as_deref(), Some("hm_1"));
}

/// SPC: are blanks and further fields no matter, and lines put in order?
#[test]
fn spc_lines_are_read() {
    let found =
        read("0,303567,3584,w,0.000000\n2, 20941264 ,8192,R , 0.551706, x\n1,8,512,r,0.026214\n");
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (303_567, 3584), (240, 0)),
            record(Code::QUEUE, 26_214_000, C::READ, (8, 512), (240, 2)),
            record(Code::QUEUE, 551_706_000, C::READ, (20_941_264, 8192), (240, 1)),
        ],
    );
    let names: Vec<&str> = found.devices.iter().flatten().map(String::as_str).collect();
    assert_eq!(names, ["asu0", "asu1", "asu2"]);
}

/// Alibaba: microseconds, bytes?
#[test]
fn alibaba_lines_are_read() {
    let found = read("419,W,8792731648,16384,1577808144360767\n725,R,4096,4096,1577808144360867\n");
    // 8792731648 / 512 = 17173304; 100 us later.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (17_173_304, 16_384), (240, 0)),
            record(Code::QUEUE, 100_000, C::READ, (8, 4096), (240, 1)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("device419"));
}

/// Tencent: sectors, and the lines of one second spread?
#[test]
fn tencent_lines_are_read() {
    let found = read(
        "1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n\
         1538323201,1904106400,384,1,1360\n",
    );
    // 128 * 512 = 65536; two in a second: half a second each; 384 * 512 = 196608.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, (12_910_952, 65_536), (240, 0)),
            record(Code::QUEUE, 500_000_000, C::WRITE, (6_338_688, 4096), (240, 1)),
            record(Code::QUEUE, 1_000_000_000, C::WRITE, (1_904_106_400, 196_608), (240, 2)),
        ],
    );
    assert_eq!(found.devices[2].as_deref(), Some("volume1360"));
}

/// SYSTOR: is a line without a type passed over, one without a response only an arrival?
#[test]
fn systor_lines_are_read() {
    let found = read(
        "Timestamp,Response,IOType,LUN,Offset,Size\n\
         1455592200.008817000,0.000364,R,2,1025007616,4096\n\
         1455592200.008818,0.000001,,2,0,0\n\
         1455592200.009817,,W,0,512,512\n",
    );
    // 1025007616 / 512 = 2001968.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, (2_001_968, 4096), (240, 0)),
            record(Code::ISSUE, 0, C::READ, (2_001_968, 4096), (240, 0)),
            record(Code::COMPLETE, 364_000, C::READ, (2_001_968, 4096), (240, 0)),
            record(Code::QUEUE, 1_000_000, C::WRITE, (1, 512), (240, 1)),
        ],
    );
    assert_eq!(found.devices[3].as_deref(), Some("lun0"));
}

/// K5: seconds, bytes?
#[test]
fn k5_lines_are_read() {
    let found = read("1157,3.828359000,W,7155568640,4096\n1157,3.828360000,R,1024,512\n");
    // 7155568640 / 512 = 13975720.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (13_975_720, 4096), (240, 0)),
            record(Code::QUEUE, 1000, C::READ, (2, 512), (240, 0)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("volume1157"));
}

/// iolog: do both versions give the same, with waits, syncs and trims?
#[test]
fn iologs_are_read() {
    let two = "fio version 2 iolog\nf.dat add\nf.dat open\nf.dat read 0 4096\n\
               f.dat wait 300000 0\nf.dat wait 99 0\nf.dat write 8192 4096\nf.dat sync 0 0\n\
               g.dat trim 65536 65536\nf.dat close\n";
    let three = "fio version 3 iolog\n17 f.dat add\n147 f.dat open\n149 f.dat read 0 4096\n\
                 300149 f.dat write 8192 4096\n300149 f.dat datasync 0 0\n\
                 300149 g.dat trim 65536 65536\n400000 f.dat close\n";
    // 300000 us later; a wait of 99 us is none. 8192 / 512 = 16, 65536 / 512 = 128.
    let later = 300_000_000;
    let expected = [
        record(Code::QUEUE, 0, C::READ, (0, 4096), (240, 0)),
        record(Code::QUEUE, later, C::WRITE, (16, 4096), (240, 0)),
        record(Code::QUEUE, later, C::FLUSH, (0, 0), (240, 0)),
        record(Code::QUEUE, later, C::DISCARD | C::WRITE, (128, 65_536), (240, 1)),
    ];
    for text in [two, three] {
        let found = read(text);
        assert_records(&found, &expected);
        assert_eq!(found.devices[3].as_deref(), Some("g.dat"));
    }
}

/// vscsi: do both versions give what the text does, and the second one responses?
#[test]
fn vscsi_records_are_read() {
    let mut one = Vec::new();
    let mut two = Vec::new();
    for (serial, (command, lbn, us)) in
        (1_u32..).zip([(0x2a_u16, 42_932_745_u64, 10_u64), (0x12, 0, 11), (0x28, 8, 20)])
    {
        let fields = [&serial.to_le_bytes()[..], &512_u32.to_le_bytes(), &1_u32.to_le_bytes()];
        one.extend(fields.concat());
        one.extend([command.to_le_bytes(), 0x100_u16.to_le_bytes()].concat());
        one.extend([lbn.to_le_bytes(), us.to_le_bytes()].concat());
        two.extend([command.to_le_bytes(), 0x200_u16.to_le_bytes()].concat());
        two.extend(fields.concat());
        two.extend([lbn.to_le_bytes(), us.to_le_bytes(), 5_u64.to_le_bytes()].concat());
    }
    let (write, read) = ((42_932_745, 512), (8, 512));
    let queued = [
        record(Code::QUEUE, 0, C::WRITE, write, (240, 0)),
        record(Code::QUEUE, 10_000, C::READ, read, (240, 0)),
    ];
    assert_eq!((one.len(), two.len()), (96, 120));
    assert_eq!(recognise(&one), Some(Format::Vscsi));
    assert_records(&read_as(None, &one), &queued);
    let answered = [
        queued[0],
        record(Code::ISSUE, 0, C::WRITE, write, (240, 0)),
        record(Code::COMPLETE, 5000, C::WRITE, write, (240, 0)),
        queued[1],
        record(Code::ISSUE, 10_000, C::READ, read, (240, 0)),
        record(Code::COMPLETE, 15_000, C::READ, read, (240, 0)),
    ];
    assert_eq!(recognise(&two), Some(Format::Vscsi));
    assert_records(&read_as(None, &two), &answered);
    // A record of another version is passed over, and the end of a cut one told.
    one[32 + 15] = 9;
    one.pop();
    let found = read_as(Some(Format::Vscsi), &one);
    assert_eq!(found.records.len(), 1);
    let told: Vec<String> = found.problems.shown().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "t:byte 32: this is no record of version 1, as the first one is",
            "t:byte 64: the trace ends within a record, of which there are 31 bytes"
        ]
    );
}

/// CloudPhysics as text: seconds spread, commands by their number; sectors alone without times?
#[test]
fn cloudphysics_texts_are_read() {
    let found = read(
        "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633898,12,36,0\n\
         1,5633898,28,6656,40409911\n1,5633899,35,0,0\n",
    );
    // The command in between is none of these; two in second 0, one in second 1.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (42_932_745, 512), (240, 0)),
            record(Code::QUEUE, 500_000_000, C::READ, (40_409_911, 6656), (240, 0)),
            record(Code::QUEUE, 1_000_000_000, C::FLUSH, (0, 0), (240, 0)),
        ],
    );
    let blocks = read("42932745\n7\n");
    assert_records(
        &blocks,
        &[
            record(Code::QUEUE, 0, C::READ, (42_932_745, 512), (240, 0)),
            record(Code::QUEUE, 0, C::READ, (7, 512), (240, 0)),
        ],
    );
}

/// DiskSim: milliseconds and flags; of real drives each request behind the end of the last?
#[test]
fn disksim_lines_are_read() {
    let found = read("0.000000\t0\t4583176\t4\t0\n46.004000 1 3962268 12 3\n");
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::QUEUE, 46_004_000, C::READ, (3_962_268, 6144), (240, 1)),
        ],
    );
    let drive = read("W Hit    4583176   4    663.00000  45422.00000\nR Miss 8 1 607.5 34200\n");
    // 663 + 45422 us after the first one came the second.
    let second = 46_085_000;
    assert_records(
        &drive,
        &[
            record(Code::QUEUE, 0, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::ISSUE, 0, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::COMPLETE, 663_000, C::WRITE, (4_583_176, 2048), (240, 0)),
            record(Code::QUEUE, second, C::READ, (8, 512), (240, 0)),
            record(Code::ISSUE, second, C::READ, (8, 512), (240, 0)),
            record(Code::COMPLETE, second + 607_500, C::READ, (8, 512), (240, 0)),
        ],
    );
}

/// MQSim: nanoseconds, and 1 is a read?
#[test]
fn mqsim_lines_are_read() {
    let found = read("938513000 4 264719034 16 0\n938828000 3 197570570 32 1\n");
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, (264_719_034, 8192), (240, 0)),
            record(Code::QUEUE, 315_000, C::READ, (197_570_570, 16_384), (240, 1)),
        ],
    );
    assert_eq!(found.devices[0].as_deref(), Some("device4"));
}

/// FIU: numbers of devices as they are, names with blanks, hashes or none?
#[test]
fn fiu_lines_are_read() {
    let found = read(
        "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n\
         89968195792562 9 two words 8 1 W 253 17\n\
         89968195792662 20782 gzip 283193192 8 W 6 0 56f11b711d91a065a2b6458eca924523\n",
    );
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::READ, (283_193_184, 4096), (6, 0)),
            record(Code::QUEUE, 100, C::WRITE, (8, 512), (253, 17)),
            record(Code::QUEUE, 200, C::WRITE, (283_193_192, 4096), (6, 0)),
        ],
    );
    assert_eq!(found.devices, [None, None, None]);
    let told = [(20_782, "gzip".to_owned()), (9, "two words".to_owned())];
    assert_eq!(found.processes, told);
    assert_eq!(found.records[2].pid, 20_782);
}

/// Start-ups: process and number apart, flags kept?
#[test]
fn startup_lines_are_read() {
    let found = read(
        "jbd2/sdb1-8-268 \t 0   8   113314048  Rand  -427336  0    WS   4.666589 START\n\
         xterm-31657  .015820     16   113248520  Seq     -65536      0        RA   4.682409   C\n",
    );
    // 4.682409 - 4.666589 = 0.015820 s.
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE | C::SYNC, (113_314_048, 4096), (240, 0)),
            record(Code::QUEUE, 15_820_000, C::READ | C::AHEAD, (113_248_520, 8192), (240, 0)),
        ],
    );
    assert_eq!(found.processes, [(268, "jbd2/sdb1-8".to_owned()), (31_657, "xterm".to_owned())]);
}

/// biosnoop: does each line give its three events, by latency and time in the queue?
#[test]
fn biosnoop_lines_are_read() {
    let found = read(
        "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
         0.000004    supervise      1950    xvda1     W 13092560   4096      0.25    0.75\n\
         0.000104    Web Content    77      xvdb      R 8          512       0.00    0.35\n\
         0.001000                   0       xvda1     F -1         0         0.00    0.10\n",
    );
    // W: ended at 4 us, issued 750 us and queued 1000 us before: the trace begins at -996 us.
    // R: ended at 104 us = 1100 us, issued at 750 us. The flush: 1996 us, 1896 us.
    let (write, small) = ((13_092_560, 4096), (8, 512));
    assert_records(
        &found,
        &[
            record(Code::QUEUE, 0, C::WRITE, write, (240, 0)),
            record(Code::ISSUE, 250_000, C::WRITE, write, (240, 0)),
            record(Code::QUEUE, 750_000, C::READ, small, (240, 1)),
            record(Code::ISSUE, 750_000, C::READ, small, (240, 1)),
            record(Code::COMPLETE, 1_000_000, C::WRITE, write, (240, 0)),
            record(Code::COMPLETE, 1_100_000, C::READ, small, (240, 1)),
            record(Code::QUEUE, 1_896_000, C::FLUSH, (0, 0), (240, 0)),
            record(Code::ISSUE, 1_896_000, C::FLUSH, (0, 0), (240, 0)),
            record(Code::COMPLETE, 1_996_000, C::FLUSH, (0, 0), (240, 0)),
        ],
    );
    let told = [(1950, "supervise".to_owned()), (77, "Web Content".to_owned())];
    assert_eq!(found.processes, told);
    assert_eq!(found.devices[2].as_deref(), Some("xvdb"));
    // Without -Q, with the column of -P, and with a letter more.
    for line in [
        "0.000004  supervise  1950  xvda1  WS 13092560  4096  0.75",
        "0.000004  supervise  1950  xvda1  WS 13092560  4096  ?  0.75",
        "0.000004  supervise  1950  xvda1  WS 13092560  4096  0.00  R  0.75",
    ] {
        let found = read(line);
        let kind = C::WRITE | C::SYNC;
        let ended = record(Code::COMPLETE, 750_000, kind, write, (240, 0));
        assert_eq!(found.records.len(), 3);
        assert_eq!(Record { sequence: 0, pid: 0, ..found.records[2] }, ended);
    }
}

/// Does each mistake give file, line, the offending text and what would be right?
#[test]
fn mistakes_are_named() {
    let told = |format, text: &str| {
        let found = read_as(Some(format), text.as_bytes());
        assert_eq!(found.problems.count(), 1, "{text}");
        found.problems.shown()[0].to_string()
    };
    assert_eq!(
        told(Format::Msr, "1,hm,0,Read,0,512,1\n2,hm,0,Raed,0,512,1\n3,hm,0,Read,0,512,1\n"),
        "t:2: `Raed` is not `Read` or `Write`, in `2,hm,0,Raed,0,512,1`; a line is \
         `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`"
    );
    assert_eq!(
        told(Format::Spc, "0,8,512,r"),
        "t:1: a time in seconds is missing, in `0,8,512,r`; a line is \
         `ASU,LBA,Size,Opcode,Timestamp`"
    );
    assert_eq!(
        told(Format::Iolog, "8,0 Q\n"),
        "t:1: `8,0 Q` is not `fio version 2 iolog` or `fio version 3 iolog`; a line is \
         `[TIME_US] FILE ACTION [OFFSET LENGTH]`"
    );
    for (format, line, words) in [
        (Format::Msr, "1,hm,0,Read,0,512,1,1", "`1` is not the end of the line"),
        (Format::Msr, "999999999999999999,hm,0,Read,0,512,1", "below 2^64 ns"),
        (Format::Msr, "1,hm,0,Read,-1,512,1", "`-1` is not an offset in bytes"),
        (Format::Alibaba, "1,R,0,4294967296,1", "less than 4 GiB"),
        (Format::Alibaba, "1,T,0,1,1", "`T` is not `R` or `W`"),
        (Format::Tencent, "18446744073,1,1,0,1", "a time in whole seconds"),
        (Format::Tencent, "1,1,1,2,1", "`2` is not 0 (read) or 1 (write)"),
        (Format::Tencent, "1,1,8388608,1,1", "a length in sectors"),
        (Format::Systor, "1.5,x,R,0,0,512", "a response time in seconds"),
        (Format::K5, "1,2,R,0", "a length in bytes is missing"),
        (Format::CloudPhysics, "3,1,2a,512,1", "a version, 1 or 2"),
        (Format::CloudPhysics, "1,1,2aa,512,1", "a SCSI command"),
        (Format::Mqsim, "1 2 3 4 2", "0 (write) or 1 (read)"),
        (Format::Mqsim, "1 2 3 4 1 x", "the end of the line"),
        (Format::Disksim, "1.0 0 8 8 g", "flags, hexadecimal"),
        (Format::Validation, "R 5 8 8 1 1", "what the cache did"),
        (Format::Fiu, "1 2 p 3 4 R 4096 0", "below 2^12"),
        (Format::Fiu, "1 2 p 3 4 R 8 0 zzzzzzzzz", "a hash"),
        (Format::Startup, "xterm 0 8 1 Seq 0 0 R 1.0 C", "`xterm` is not a process"),
        (Format::Startup, "x-1 0 8 1 Sec 0 0 R 1.0 C", "`Seq` or `Rand`"),
        (Format::Biosnoop, "0.1 c 1 sda Q 8 512 0.1", "what blkparse calls an I/O"),
        (Format::Biosnoop, "0.1 sda W 8 512", "`W` is not a sector"),
        (Format::Blocks, "18014398509481984", "a sector, below 2^54"),
    ] {
        let message = told(format, line);
        assert!(message.contains(words), "{message}");
        assert!(message.starts_with("t:1: "), "{message}");
    }
    let three = "fio version 3 iolog\n0 f rename\n0 f wait 5 0\nx f read 0 1\n0 f read 0\n0 f\n";
    let found = read_as(None, three.as_bytes());
    assert_eq!((found.records.len(), found.problems.count()), (0, 5));
    let long = format!("{}\n0,8,512,r,0\n", "9".repeat(5000));
    let message = told(Format::Spc, &long);
    assert!(message.contains("more than 4096 bytes") && message.len() < 200, "{message}");
}

/// Is a trace that is written and read again the same, but for what the form has no place for?
#[test]
fn what_is_written_is_read_again() {
    let text = "128166372003061629,hm,0,Read,9748688896,4096,46528\n\
                128166372003061639,hm,1,Write,8192,512,100\n\
                128166372003061700,hm,0,Write,4096,512,7\n";
    let mut out = Vec::new();
    let written = write_msr(&mut *open("t", text.as_bytes(), None).unwrap(), &mut out).unwrap();
    assert_eq!(written, Written { ios: 3, left_out: 0 });
    // From 1970 on: 116444736000000000, and 10 and 71 hundreds of nanoseconds later.
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "116444736000000000,hm,0,Read,9748688896,4096,46528\n\
         116444736000000010,hm,1,Write,8192,512,100\n\
         116444736000000071,hm,0,Write,4096,512,7\n"
    );
    let again = read_as(None, &out);
    assert_eq!(again.records, read(text).records);

    let mut out = Vec::new();
    let written = write_iolog(&mut *open("t", text.as_bytes(), None).unwrap(), &mut out).unwrap();
    assert_eq!(written, Written { ios: 3, left_out: 0 });
    // 1000 ns and 7100 ns are 1 and 7 us.
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "fio version 3 iolog\n0 hm_0 add\n0 hm_0 open\n0 hm_0 read 9748688896 4096\n\
         1 hm_1 add\n1 hm_1 open\n1 hm_1 write 8192 512\n7 hm_0 write 4096 512\n\
         7 hm_0 close\n7 hm_1 close\n"
    );
    let log = read_as(None, &out);
    let arrivals = |records: &[Record]| -> Vec<(u64, u32)> {
        let queued = records.iter().filter(|record| record.code == Code::QUEUE);
        queued.map(|record| (record.sector, record.bytes)).collect()
    };
    assert_eq!(arrivals(&log.records), arrivals(&again.records));
}

/// Are flushes, trims and devices without names written as fio has them, and merged bios ended?
#[test]
fn kernels_traces_are_written() {
    let io =
        |code, at, kind, extent| Record { sequence: 1, ..record(code, at, kind, extent, (8, 16)) };
    let records = [
        io(Code::QUEUE, 0, C::READ, (8, 512)),
        io(Code::QUEUE, 1000, C::READ, (9, 512)),
        io(Code::BACK_MERGE, 1000, C::READ, (9, 512)),
        io(Code::QUEUE, 2000, C::FLUSH, (0, 0)),
        io(Code::QUEUE, 3000, C::FLUSH | C::WRITE, (64, 4096)),
        io(Code::QUEUE, 4000, C::DISCARD | C::WRITE, (128, 4096)),
        io(Code::QUEUE, 5000, C::PASSTHROUGH, (0, 96)),
        io(Code::ISSUE, 6000, C::READ, (8, 1024)),
        io(Code::COMPLETE, 9000, C::READ, (8, 1024)),
    ];
    let bytes: Vec<u8> = records.iter().flat_map(|record| record.encode(0)).collect();
    let mut out = Vec::new();
    let written = write_iolog(&mut *open("t", &bytes[..], None).unwrap(), &mut out).unwrap();
    assert_eq!(written, Written { ios: 5, left_out: 1 });
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "fio version 3 iolog\n0 device-8-16 add\n0 device-8-16 open\n\
         0 device-8-16 read 4096 512\n1 device-8-16 read 4608 512\n2 device-8-16 sync 0 0\n\
         3 device-8-16 sync 0 0\n3 device-8-16 write 32768 4096\n\
         4 device-8-16 trim 65536 4096\n4 device-8-16 close\n"
    );
    let mut out = Vec::new();
    let written = write_msr(&mut *open("t", &bytes[..], None).unwrap(), &mut out).unwrap();
    // No flush, no discard, no command. The write never completes; the reads do at 9 us.
    assert_eq!(written, Written { ios: 3, left_out: 3 });
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "116444736000000000,dev8,16,Read,4096,512,90\n\
         116444736000000010,dev8,16,Read,4608,512,80\n\
         116444736000000030,dev8,16,Write,32768,4096,0\n"
    );
}
