// SPDX-License-Identifier: MIT OR Apache-2.0
//! Public traces as their authors wrote them: are they recognised, read whole, and do their sums
//! agree with those that awk and Python make of the same files?
//!
//! The files are in `../shared/data/traces-public`, with their licences; without them, the tests
//! say so. Formats without a file there are tested by published lines (`formats/tests/mod.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;

use paternoster_trace::Source;
use paternoster_trace::blktrace::{Code, Record};
use paternoster_trace::formats::{
    Format, Written, open, open_path, recognise, write_iolog, write_msr,
};

use crate::common::recordings;
use crate::common::skipped;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// A file by its path in the folder; `None`, with a message, without it.
fn file(name: &str) -> Option<PathBuf> {
    let path = Path::new(FOLDER).join(name);
    if path.exists() {
        return Some(path);
    }
    skipped(&format!("no trace {}", path.display()));
    None
}

/// The sums of a trace: figures that other tools can compute from the same file.
#[derive(Debug, PartialEq, Eq, Default)]
struct Sums {
    ios: u64,
    bytes: u64,
    writes: u64,
    /// Sum of the first sectors.
    sectors: u64,
    /// From the first to the last arrival, in ns.
    span: u64,
    /// Sum of the times in the device, in ns; one request at a time.
    served: u64,
}

impl Sums {
    /// Those that a table has, in the order of the fields.
    const fn of([ios, bytes, writes, sectors, span, served]: [u64; 6]) -> Sums {
        Sums { ios, bytes, writes, sectors, span, served }
    }
}

/// Reads to the end; no line may be refused, and times may not go back.
fn sums(source: &mut dyn Source) -> Sums {
    let (mut sums, mut last, mut issued) = (Sums::default(), 0, 0);
    while let Some(entry) = source.next() {
        let record = entry.record;
        if record.is_note() {
            continue;
        }
        assert!(record.at.0 >= last);
        last = record.at.0;
        match record.code {
            Code::QUEUE => {
                sums.ios += 1;
                sums.bytes += u64::from(record.bytes);
                sums.writes += u64::from(record.is_write());
                sums.sectors += record.sector;
                sums.span = record.at.0;
            }
            Code::ISSUE => issued = record.at.0,
            _ => sums.served += record.at.0 - issued,
        }
    }
    let problems = source.problems();
    assert_eq!(problems.count(), 0, "{:?}", problems.shown());
    sums
}

/// Each file with its format and the results of a Python script: lines, sum of lengths, of writes,
/// of first sectors, last minus first time, sum of response times (both with decimals, to the ns).
const FILES: [(&str, Format, [u64; 6]); 13] = [
    (
        "s-suite/gnometerm.trace",
        Format::Startup,
        [2781, 21_053_440, 1, 850_886_224_208, 511_122_000, 0],
    ),
    (
        "s-suite/lowriter.trace",
        Format::Startup,
        [1268, 48_623_616, 0, 122_610_721_008, 6_880_660_000, 0],
    ),
    ("s-suite/xterm.trace", Format::Startup, [718, 6_180_864, 0, 88_712_159_896, 2_436_267_000, 0]),
    (
        "mqsim/tpcc-small.trace",
        Format::Mqsim,
        [6999, 59_718_656, 2618, 1_646_940_422_621, 136_489_000, 0],
    ),
    (
        "mqsim/wsrch-small.trace",
        Format::Mqsim,
        [24_783, 382_117_888, 4, 548_948_561_104, 60_055_212_000, 0],
    ),
    (
        "disksim-valid/atlas10k.trace",
        Format::Validation,
        [10_000, 32_282_624, 3431, 90_018_505_844, 500_770_864_000, 38_930_600_000],
    ),
    (
        "disksim-valid/barracuda.trace",
        Format::Validation,
        [10_000, 32_423_936, 3489, 20_539_319_392, 500_570_013_000, 66_274_014_000],
    ),
    (
        "disksim-valid/cheetah4LP.trace",
        Format::Validation,
        [10_000, 32_608_256, 3361, 44_641_746_672, 498_684_332_000, 53_277_230_000],
    ),
    (
        "disksim-valid/cheetah9LP.trace",
        Format::Validation,
        [10_000, 32_356_352, 3406, 88_958_443_504, 497_607_519_000, 42_728_946_000],
    ),
    (
        "disksim-valid/hp_c2247a.trace",
        Format::Validation,
        [9999, 84_466_688, 4884, 10_274_025_047, 294_845_476_820, 152_966_946_940],
    ),
    (
        "disksim-valid/hp_c3323a.trace",
        Format::Validation,
        [9074, 76_464_128, 2961, 9_310_960_345, 269_212_924_511, 143_050_351_000],
    ),
    (
        "disksim-valid/st41601n.trace",
        Format::Validation,
        [9999, 84_007_424, 3322, 13_244_970_048, 285_361_656_796, 146_153_357_924],
    ),
    (
        "disksim-valid/atlas10k.outtrace",
        Format::Disksim,
        [10_000, 32_282_624, 3431, 90_018_505_844, 501_546_556_588, 0],
    ),
];

/// The same of loads of blkreplay, as they are packed.
const LOADS: [(&str, [u64; 6]); 2] = [
    (
        "blkreplay/linux-mysql.load.gz",
        [80_794, 1_184_387_072, 73_607, 2_727_600_327_721, 3_599_890_074_831, 0],
    ),
    (
        "blkreplay/windows-shared-server.load.gz",
        [1371, 5_398_016, 1371, 8_313_291_800, 3_597_137_874_735, 0],
    ),
];

/// Are blkreplay's loads read whole, with the sums that Python has?
#[test]
fn loads_of_blkreplay_are_read_whole() {
    for (name, expected) in LOADS {
        let Some(path) = file(name) else { return };
        let mut source = open_path(&path, None).expect("a known format");
        assert_eq!(sums(&mut *source), Sums::of(expected), "{name}");
    }
}

/// Is the excerpt of a load that is here read whole, and does it stay the same when written?
#[test]
fn an_excerpt_of_a_load_is_read_whole() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/mysql-excerpt.load");
    let excerpt = || open_path(&path, None).expect("a known format");
    // From the same script as the sums above.
    let expected = Sums::of([60, 461_824, 58, 2_140_568_625, 3_510_517_539, 0]);
    assert_eq!(sums(&mut *excerpt()), expected);
    let mut log = Vec::new();
    let written = write_iolog(&mut *excerpt(), &mut log).expect("memory takes all");
    assert_eq!(written, Written { ios: 60, left_out: 0 });
    let again = sums(&mut *open("log", &log[..], None).expect("a log"));
    // A log has microseconds.
    assert_eq!(again, Sums { span: 3_510_517_000, ..expected });
}

/// Is every file read whole, with the sums that Python has?
#[test]
fn public_traces_are_read_whole() {
    for (name, format, expected) in FILES {
        let Some(path) = file(&format!("traces-public/{name}")) else { return };
        let bytes = std::fs::read(&path).expect("readable");
        assert_eq!(recognise(&bytes), Some(format), "{name}");
        let mut source = open_path(&path, None).expect("a known format");
        assert_eq!(sums(&mut *source), Sums::of(expected), "{name}");
    }
}

fn queued(source: &mut dyn Source) -> Vec<Record> {
    let mut found = Vec::new();
    while let Some(entry) = source.next() {
        if !entry.record.is_note() && entry.record.code == Code::QUEUE {
            found.push(entry.record);
        }
    }
    assert_eq!(source.problems().count(), 0, "{:?}", source.problems().shown());
    found
}

/// Do the three forms of the CloudPhysics sample give the same I/Os, and the sums that Python has?
#[test]
fn cloudphysics_forms_agree() {
    let of = |form: &str| {
        let path = file(&format!("traces-public/libcachesim/cloudPhysicsIO.{form}"))?;
        Some(queued(&mut *open_path(&path, None).expect("a known format")))
    };
    let (Some(binary), Some(table), Some(list)) = (of("vscsi"), of("csv"), of("txt")) else {
        return;
    };
    let sum = |of: fn(&Record) -> u64| binary.iter().map(of).sum::<u64>();
    // struct.iter_unpack('<IIIHHQQ'): count, sum of len, of lbn, of cmd == 0x2a, last - first ts.
    assert_eq!(binary.len(), 113_872);
    assert_eq!(sum(|record| record.bytes.into()), 4_205_978_112);
    assert_eq!(sum(|record| record.sector), 3_219_283_716_535);
    assert_eq!(sum(|record| record.is_write().into()), 66_898);
    assert_eq!(binary.last().map(|record| record.at.0), Some(7_200_089_885_000));
    assert_eq!((table.len(), list.len()), (binary.len(), binary.len()));
    for ((record, row), sector) in binary.iter().zip(&table).zip(&list) {
        let plain = |record: &Record| (record.sector, record.bytes, record.categories);
        assert_eq!(plain(record), plain(row));
        assert_eq!(record.sector, sector.sector);
        // The first record came 368802 us after a second began, from which the table counts.
        assert_eq!((record.at.0 + 368_802_000) / 1_000_000_000, row.at.0 / 1_000_000_000);
    }
}

/// Are the files of two processors read as the merged file is, from the prefix and from each?
#[test]
fn a_prefix_opens_all_processors() {
    let Some(merged) = file("btt-golden/merge/merge.bin") else { return };
    let folder = merged.parent().expect("a folder");
    let expected = sums(&mut *open_path(&merged, None).expect("binary"));
    assert!(expected.ios > 0);
    for name in ["merge", "merge.blktrace.0", "merge.blktrace.1"] {
        let mut source = open_path(&folder.join(name), None).expect("a prefix");
        assert_eq!(sums(&mut *source), expected, "{name}");
    }
}

/// Is what blkparse prints of a trace recognised, and does it have the arrivals of the binary one?
#[test]
fn blkparses_text_has_the_same_arrivals() {
    for case in ["basic", "merge", "seeks", "bigendian"] {
        let Some(text) = file(&format!("btt-golden/{case}/blkparse.txt")) else { return };
        let bytes = std::fs::read(&text).expect("readable");
        assert_eq!(recognise(&bytes), Some(Format::Blkparse), "{case}");
        let binary = text.with_file_name(format!("{case}.bin"));
        let places = |path: &Path| -> Vec<_> {
            let queued = queued(&mut *open_path(path, None).expect("a known format"));
            queued.iter().map(|record| (record.at, record.device, record.sector)).collect()
        };
        assert_eq!(places(&text), places(&binary), "{case}");
    }
}

/// Are a real kernel's binary files, one for each of two processors, opened by their prefix? Is
/// blkparse's output for them recognised, and are there as many arrivals as awk counts in that
/// text?
#[test]
fn a_kernels_binary_files_are_opened_by_prefix() {
    // awk '$6=="Q"{n++; s+=$8; b+=$10*512; t=$4}'
    for (case, ios, sectors, bytes, last) in [
        ("seq8_bfq", 1594, 1_486_070_528, 208_928_768, 1_999_785_594),
        ("seq8_none", 227, 209_724_416, 29_753_344, 1_992_741_609),
    ] {
        let Some(first) = file(&format!("kernel-traces/{case}/{case}.blktrace.0")) else { return };
        let text = recordings::log(&format!("{case}/{case}.blkparse.txt.gz")).expect("beside it");
        assert_eq!(recognise(text.as_bytes()), Some(Format::Blkparse));
        let printed = queued(&mut *open("text", text.as_bytes(), None).expect("a known format"));
        let prefix = first.with_extension("").with_extension("");
        for path in [first, prefix] {
            let found = queued(&mut *open_path(&path, None).expect("a prefix"));
            assert_eq!(found.len(), ios, "{case}");
            assert_eq!(found.iter().map(|record| record.sector).sum::<u64>(), sectors);
            assert_eq!(found.iter().map(|record| u64::from(record.bytes)).sum::<u64>(), bytes);
            assert_eq!(found.last().map(|record| record.at.0), Some(last));
            let plain = |record: &Record| (record.at, record.sector, record.bytes, record.pid);
            assert!(found.iter().map(plain).eq(printed.iter().map(plain)), "{case}");
        }
    }
}

/// Is a kernel's own recording recognised, and read with as many arrivals as awk counts?
#[test]
fn a_kernels_recording_is_recognised() {
    let Some(text) = recordings::log("cfq-decisions/B.log.coop.log.gz") else { return };
    assert_eq!(recognise(text.as_bytes()), Some(Format::Ftrace));
    let queued = queued(&mut *open("coop", text.as_bytes(), None).expect("a known format"));
    // awk '$3=="Q"{n++; s+=$5}'
    assert_eq!(queued.len(), 234);
    assert_eq!(queued.iter().map(|record| record.sector).sum::<u64>(), 3_489_408);
}

/// In the lines of a real drive, is the last number the time from the end of a request to the next
/// arrival, as the reader assumes? Then the time between two arrivals less that number is a service
/// time in the simulator's own output: never less than a drive takes, never more than a few
/// rotations.
#[test]
fn think_times_count_from_the_end() {
    let of = |name| file(&format!("traces-public/disksim-valid/{name}"));
    let (Some(drive), Some(simulated)) = (of("atlas10k.trace"), of("atlas10k.outtrace")) else {
        return;
    };
    let mut source = open_path(&drive, None).expect("a known format");
    let (mut thinks, mut ended) = (Vec::new(), None);
    while let Some(entry) = source.next() {
        match entry.record.code {
            Code::QUEUE => thinks.extend(ended.map(|ended| entry.record.at.0 - ended)),
            Code::COMPLETE => ended = Some(entry.record.at.0),
            _ => {}
        }
    }
    let arrivals = queued(&mut *open_path(&simulated, None).expect("a known format"));
    let gaps = arrivals.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0);
    let services: Vec<u64> = gaps.zip(&thinks).map(|(gap, think)| gap - think).collect();
    assert_eq!(services.len(), 9999);
    // Python: 0.429351 to 16.845115 ms; a rotation takes 6 ms.
    assert_eq!(services.iter().min(), Some(&429_351));
    assert_eq!(services.iter().max(), Some(&16_845_115));
}

/// Is a file that is not a trace refused plainly?
#[test]
fn what_is_no_trace_is_told() {
    let told = |path: &str| open_path(Path::new(path), None).err().expect("no trace").to_string();
    let here = env!("CARGO_MANIFEST_DIR");
    assert_eq!(told(here), format!("{here}: this is a folder; name a trace in it"));
    let missing = format!("{here}/no-such-trace");
    let message = told(&missing);
    assert!(message.starts_with(&format!("{missing}: there is no such file, and no")), "{message}");
    assert!(told(&format!("{here}/Cargo.toml")).contains("no known format begins with `[package]"));
}

/// Is a real trace the same when it went through MSR's form, and its arrivals through fio's?
#[test]
fn real_traces_go_through_other_forms() {
    let Some(path) = file("traces-public/disksim-valid/barracuda.trace") else { return };
    let plain = sums(&mut *open_path(&path, None).expect("a known format"));
    let mut out = Vec::new();
    let written = write_msr(&mut *open_path(&path, None).expect("a known format"), &mut out);
    assert_eq!(written.expect("memory takes all"), Written { ios: plain.ios, left_out: 0 });
    let again = sums(&mut *open("again", &out[..], None).expect("a known format"));
    // All of this drive's times are whole microseconds.
    assert_eq!(again, plain);
    let mut out = Vec::new();
    write_iolog(&mut *open_path(&path, None).expect("a known format"), &mut out).expect("memory");
    let again = sums(&mut *open("again", &out[..], None).expect("a known format"));
    assert_eq!(again, Sums { served: 0, ..plain });
}

/// Does a trace of more lines than wait at a time lose nothing, with the depth that its times give?
#[test]
fn long_traces_lose_nothing() {
    let lines = 300_000_u64;
    let mut text = String::new();
    for line in 0..lines {
        // Microseconds apart, with 50 us of response each: 50 at a time.
        let stamp = 128_166_372_000_000_000 + line * 10;
        text.push_str(&format!("{stamp},h,0,Write,{},4096,500\n", line % 1000 * 4096));
    }
    let mut source = open("long", text.as_bytes(), None).expect("a known format");
    let (mut counts, mut depth, mut deepest) = ([0_u64; 3], 0_u64, 0);
    while let Some(entry) = source.next() {
        match entry.record.code {
            Code::QUEUE => counts[0] += 1,
            Code::ISSUE => {
                counts[1] += 1;
                depth += 1;
            }
            _ => {
                counts[2] += 1;
                depth -= 1;
            }
        }
        deepest = deepest.max(depth);
    }
    assert_eq!(counts, [lines; 3]);
    // At 50 us the first one ends before the 51st arrives.
    assert_eq!((depth, deepest), (0, 50));
    assert_eq!(source.problems().count(), 0);
}

/// Does fio itself replay what is written of a real trace, each I/O of it?
#[test]
fn fio_replays_a_real_trace() {
    let Some(path) = file("traces-public/mqsim/tpcc-small.trace") else { return };
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("fio is not installed (Debian package fio)");
    }
    let log = std::env::temp_dir().join(format!("paternoster-tpcc-{}.log", std::process::id()));
    let mut out = Vec::new();
    write_iolog(&mut *open_path(&path, None).expect("a known format"), &mut out).expect("memory");
    std::fs::write(&log, out).expect("a file of a few hundred KiB");
    let log_option = format!("--read_iolog={}", log.display());
    let options = ["--name=replay", "--ioengine=null", "--replay_no_stall=1", &log_option];
    let output = Command::new("fio").args(options).output().expect("fio runs");
    std::fs::remove_file(&log).expect("it was written");
    let told = String::from_utf8_lossy(&output.stdout);
    // awk: 4381 lines with type 1, 2618 with type 0.
    assert!(output.status.success() && told.contains("total=4381,2618,0,0"), "{told}");
}

/// Are the files next to the traces not taken for traces: drives' parameters, seek curves,
/// licences?
#[test]
fn what_lies_beside_traces_is_none() {
    let Some(folder) = file("traces-public/disksim-valid") else { return };
    let mut others = 0;
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == "trace" || ending == "outtrace") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("readable");
        assert_eq!(recognise(&bytes), None, "{}", path.display());
        others += 1;
    }
    assert!(others > 20, "{others} files");
    let Some(path) = file("traces-public/libcachesim/cloudPhysicsIO.oracleGeneral.bin") else {
        return;
    };
    assert_eq!(recognise(&std::fs::read(path).expect("readable")), None);
}
