// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text and any records at all: readers and writers neither panic nor lose their place, and
//! written records are read again.

use paternoster_core::Nanos;
use paternoster_trace::blkparse::{Formats, Inputs, Options, Text};
use paternoster_trace::blktrace::{Categories, Code, DeviceNumber, Ordered, PerCpu, Record};
use paternoster_trace::filter::{Mask, Window};
use paternoster_trace::formats::{blkparse_text, ftrace_text};
use paternoster_trace::{Entry, Source};
use proptest::prelude::*;

/// Lines of every kind, as they are printed.
const LINES: [&str; 20] = [
    "  8,64   0        1     0.000000000     0  C   R 64 + 8 [0]",
    "  8,64   0        7     0.000090000     0  C FWS 0 (   88400) [0]",
    "  8,64   0        9     0.000200010     6  Q   R 800 + 8 [(null)]",
    "  8,64   0       15     0.000500100     5  X  RM 4000 / 4128 [odd]",
    "  8,64   0       46     0.003900100     5  I   R 36 (12 00 00 00 24 00 ..) [odd]",
    "  8,64   1        7     0.003020000     0 UT   N [unknown] 3",
    "  8,0    0        2     0.000000350   100  A   R 2716504 + 8 <- (253,0) 5433008",
    "  8,64   0        0     0.004999000     0  m   N hello world 100% done",
    "CPU0 (odd):",
    "dd (77, ...)",
    "fio-2917  [002] d..1  1234.567890: block_rq_issue: 8,0 RS 4096 () 123456 + 8 [fio]",
    "fio  2917/2917 [002]  1.000000:  1 block:block_rq_insert: 8,0 RS 36 (12) 1 + 0 be,0,4 [f]",
    "a-1 [000] 1.000001: block_plug: [a]",
    "a-1 [000] 1.000001: block_unplug: [a] 3",
    "a-1 [000] 1.000001: block_rq_complete: 8,0 ZRA () 18446744073709551615 + 0 [-5]",
    "a-1 [000] 1.000001: block_bio_remap: 8,0 W 8 + 16 <- (253,0) 0",
    "     ksoftirqd/1-22      [001] d.s1.  4011.822281:   7,0    C   R 44288 + 128 [0]",
    "          <idle>-0       [001] d.h2.  4008.837044:   7,0   1,0  m   N bfq schedule dispatch",
    "1.115164 lg-88 Q R 0 + 8 [lg]",
    "CPU:0 [LOST 123 EVENTS]",
];

/// Letters that mean something in a line, and some that do not.
const LETTERS: &str = "0129 .,:;+-[](){}/<>#dshNRWQDCmE\u{e4}\n\u{0}\r";

fn change() -> impl Strategy<Value = (prop::sample::Index, u8, char)> {
    let letters = prop::sample::select(LETTERS.chars().collect::<Vec<_>>());
    (any::<prop::sample::Index>(), 0..4_u8, letters)
}

fn apply(line: &mut Vec<char>, (at, what, letter): &(prop::sample::Index, u8, char)) {
    if line.is_empty() {
        return;
    }
    let at = at.index(line.len());
    match what {
        0 => line[at] = *letter,
        1 => line.insert(at, *letter),
        2 => line.truncate(at),
        _ => {
            line.remove(at);
        }
    }
}

/// Times do not go back, names are no events, and what is read can be printed.
fn check(mut source: impl Source) {
    let mut text = Text::new(Options::of_stream(), Vec::new());
    let mut last = Nanos::ZERO;
    while let Some(entry) = source.next() {
        if !entry.record.is_note_of(Code::NOTE_PROCESS) {
            assert!(entry.record.at >= last);
            last = entry.record.at;
        }
        text.record(&entry).unwrap();
    }
    text.finish().unwrap();
    assert!(source.problems().shown().iter().all(|problem| !problem.message.is_empty()));
}

fn check_both(text: &[u8]) {
    let (blkparse, ftrace) = (blkparse_text::looks_like(text), ftrace_text::looks_like(text));
    assert!(text.contains(&b'\n') || !(blkparse && ftrace));
    check(blkparse_text::Reader::new("t", text));
    check(ftrace_text::Reader::new("t", text));
}

fn record() -> impl Strategy<Value = Record> {
    let code = prop_oneof![9 => 0..18_u16, 1 => any::<u16>()];
    let small = prop_oneof![0..70_000_u64, any::<u64>()];
    let place = (0..4_u32, any::<u32>(), prop_oneof![0..5_u32, any::<u32>()]);
    let kind = (code, any::<u16>(), any::<u16>());
    let extent = (small.clone(), prop_oneof![0..9000_u32, any::<u32>()]);
    (small, extent, kind, place, any::<u32>()).prop_map(
        |(at, (sector, bytes), (code, categories, error), (cpu, device, pid), sequence)| Record {
            at: Nanos(at),
            sector,
            bytes,
            code: Code(code),
            categories: Categories(categories.into()),
            pid,
            device: DeviceNumber(device),
            cpu,
            sequence,
            error,
        },
    )
}

/// A record as a kernel writes it, completely covered by the default line.
fn told() -> impl Strategy<Value = (Record, Vec<u8>)> {
    let payload = prop::collection::vec(1..=255_u8, 1..8);
    (record(), 1..16_u16, payload, prop::bool::ANY, 1..1000_u32).prop_map(
        |(record, code, mut payload, command, sectors)| {
            let mut record = Record { code: Code(code), bytes: sectors * 512, ..record };
            let flags = Categories(record.categories.0 & 0b1011_1000_0000_1111);
            // Other actions of commands are not printed.
            let command = command && matches!(code, 1 | 4..=8 | 12);
            let of = if command { Categories::PASSTHROUGH } else { Categories::FS };
            let own = match record.code {
                Code::REQUEUE => Categories::REQUEUE,
                Code::ISSUE => Categories::ISSUE,
                Code::COMPLETE => Categories::COMPLETE,
                _ => Categories::QUEUE,
            };
            record.categories = flags | of | own;
            if flags.contains(Categories::DISCARD) {
                record.categories |= Categories::WRITE;
            }
            if !matches!(record.code, Code::REQUEUE | Code::COMPLETE) {
                record.error = 0;
            }
            let number = u64::from(sectors).to_be_bytes().to_vec();
            match record.code {
                Code::UNPLUG | Code::UNPLUG_TIMER | Code::SPLIT => payload = number,
                Code::REMAP => {
                    payload = [7_u32.to_be_bytes(), record.device.0.to_be_bytes()].concat();
                    payload.extend(number);
                }
                _ => {}
            }
            (record, payload)
        },
    )
}

fn print<'a>(entries: impl Iterator<Item = Entry<'a>>) -> String {
    let mut out = Vec::new();
    let mut text = Text::new(Options { quiet: true, ..Options::of_file("t") }, &mut out);
    for entry in entries {
        text.record(&entry).unwrap();
    }
    text.finish().unwrap();
    drop(text);
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Does any text of bytes pass?
    #[test]
    fn bytes_from_nowhere(text in prop::collection::vec(any::<u8>(), 0..6000)) {
        check_both(&text);
    }

    /// Do real lines pass, whatever is done to them?
    #[test]
    fn real_lines_taken_apart(
        lines in prop::collection::vec(
            (0..LINES.len(), prop::collection::vec(change(), 0..5)),
            1..20,
        )
    ) {
        let mut text = String::new();
        for (line, changes) in &lines {
            let mut line: Vec<char> = LINES[*line].chars().collect();
            changes.iter().for_each(|change| apply(&mut line, change));
            text.extend(line);
            text.push('\n');
        }
        check_both(text.as_bytes());
    }

    /// Do any records and payloads pass, under any options?
    #[test]
    fn records_from_nowhere(
        records in prop::collection::vec(
            (record(), prop::collection::vec(any::<u8>(), 0..40)),
            0..60,
        ),
        switches in prop::collection::vec(any::<bool>(), 8),
    ) {
        let mut formats = Formats::default();
        if switches[0] {
            formats.set_all("%a %9c%C%d%D%e%M%m%n%N%p%P%s%S%t%T%u%U%z\\n").unwrap();
        }
        let inputs = if switches[1] { Inputs::Devices } else { Inputs::Named(vec!["t".into()]) };
        let options = Options {
            elapsed: switches[2],
            programs: switches[3],
            by_name: switches[4],
            silent: switches[5],
            mask: if switches[6] { Mask::ALL } else { Mask::parse("0x145").unwrap() },
            window: switches[7].then(|| Window::parse("0.00001:0.0001").unwrap()),
            formats,
            ..Options::of(inputs)
        };
        let mut text = Text::new(options, Vec::new());
        let mut files = PerCpu::new(|_| Ok(Vec::new()));
        for (record, payload) in &records {
            let entry = Entry { record: *record, payload };
            text.record(&entry).unwrap();
            files.record(&entry).unwrap();
        }
        text.finish().unwrap();
        files.finish().unwrap();
    }

    /// Is text that was written and read the same text again, and are the records the same except
    /// for what it does not say?
    #[test]
    fn text_written_and_read(
        mut records in prop::collection::vec(told(), 1..60),
        names in prop::collection::vec("[!-~][ -~]{0,12}[!-~]", 5),
    ) {
        records.sort_by_key(|(record, _)| record.at);
        let origin = records[0].0.at.0;
        for (record, _) in &mut records {
            record.at.0 -= origin;
        }
        let note = |pid| Record {
            code: Code::NOTE_PROCESS,
            categories: Categories::NOTIFY,
            pid,
            ..Record::default()
        };
        let names = (0..).zip(&names);
        let notes = names.map(|(pid, name)| Entry { record: note(pid), payload: name.as_bytes() });
        let events = records.iter().map(|(record, payload)| Entry { record: *record, payload });
        let text = print(notes.chain(events));
        let mut source = blkparse_text::Reader::new("t", text.as_bytes());
        let mut again = Vec::new();
        while let Some(entry) = source.next() {
            again.push((entry.record, entry.payload.to_vec()));
        }
        prop_assert_eq!(source.problems().shown(), []);
        let entry = |(record, payload): &(Record, Vec<u8>)| (*record, payload.clone());
        let owned: Vec<_> = again.iter().map(entry).collect();
        let printed =
            print(owned.iter().map(|(record, payload)| Entry { record: *record, payload }));
        prop_assert_eq!(&printed, &text);
        let shown = |record: &&(Record, Vec<u8>)| {
            let data = matches!(record.0.code, Code::QUEUE | Code::ISSUE | Code::INSERT);
            data && !record.0.is_passthrough()
        };
        for (again, kept) in again.iter().filter(shown).zip(records.iter().filter(shown)) {
            // Of a write or a discard the text does not say whether it is a read, too.
            let mut wanted = kept.0;
            if wanted.is_write() {
                wanted.categories.0 &= !Categories::READ.0;
            }
            let mut found = again.0;
            if !wanted.is_write() {
                (wanted.categories.0, found.categories.0) =
                    (wanted.categories.0 | 1, found.categories.0 | 1);
            }
            prop_assert_eq!(found, wanted);
        }
    }
}

/// Are the lines that are taken apart all right while they are whole?
#[test]
fn whole_lines_are_right() {
    for line in LINES {
        let (blkparse, ftrace) =
            (blkparse_text::looks_like(line.as_bytes()), ftrace_text::looks_like(line.as_bytes()));
        let none = line.starts_with("CPU") || line.starts_with("dd");
        assert_eq!(u8::from(blkparse) + u8::from(ftrace), u8::from(!none), "{line}");
    }
    let mut empty = Ordered::new("t", &[][..]);
    assert!(empty.next().is_none());
}
