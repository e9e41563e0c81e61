// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of single lines.

use super::*;

fn read(text: &str) -> (Vec<(Record, Vec<u8>)>, Vec<String>) {
    let mut reader = Reader::new("t", text.as_bytes());
    let mut found = Vec::new();
    while let Some(entry) = reader.next() {
        found.push((entry.record, entry.payload.to_vec()));
    }
    (found, reader.problems().shown().iter().map(ToString::to_string).collect())
}

/// The events alone, without names.
fn events(text: &str) -> Vec<(Record, Vec<u8>)> {
    let (found, told) = read(text);
    assert!(told.is_empty(), "{told:?}");
    found.into_iter().filter(|(record, _)| !record.is_note_of(Code::NOTE_PROCESS)).collect()
}

fn event(text: &str) -> Record {
    let found = events(text);
    assert_eq!(found.len(), 1, "{text}");
    found[0].0
}

/// Is an event the same, whichever program shows it, and whatever its kernel adds?
#[test]
fn one_event_in_many_forms() {
    let bodies = [
        "fio-2917  [002] d..1  1234.567890: block_rq_issue: 8,0 RS 4096 () 123456 + 8 [fio]",
        "  fio-2917  [002]  1234.567890: block_rq_issue:       8,0 RS 4096 () 123456 + 8 [fio]",
        "fio-2917 (   2917) [002] d..1.  1234.567890000: block_rq_issue: 8,0 RS 4096 () 123456 + 8 \
         none,0,0 [fio]",
        "fio  2917 [002]  1234.567890: block:block_rq_issue: 8,0 RS 4096 () 123456 + 8 [fio]",
        "fio  2917/2917 [002]  1234.567890:    1  block:block_rq_issue: 8,0 RS 4096 () 123456 + 8 \
         be,0,4 [fio]",
        "fio-2917  [002] d..1. 1234.567890:   8,0    D  RS 123456 + 8 [fio]",
    ];
    let categories = Categories::READ | Categories::SYNC | Categories::ISSUE | Categories::FS;
    let wanted = Record {
        sector: 123_456,
        bytes: 4096,
        code: Code::ISSUE,
        categories,
        pid: 2917,
        device: DeviceNumber::new(8, 0),
        cpu: 2,
        ..Record::default()
    };
    for body in bodies {
        assert_eq!(event(body), wanted, "{body}");
        assert!(looks_like(format!("# tracer: nop\n#\n{body}\n").as_bytes()));
        let (found, _) = read(body);
        assert_eq!((found[0].0.pid, &found[0].1[..4]), (2917, &b"fio\0"[..]));
    }
}

/// Are all events read, each with its contents?
#[test]
fn all_events() {
    let of = |body: &str| event(&format!("a b-c-1 [000] d..1 1.000000: {body}"));
    let cases = [
        ("block_bio_queue: 8,0 WS 8 + 16 [a]", Code::QUEUE, 8, 8192, 0),
        ("block_getrq: 8,0 WS 8 + 16 [a]", Code::GET, 8, 8192, 0),
        ("block_bio_backmerge: 8,0 W 8 + 16 [a]", Code::BACK_MERGE, 8, 8192, 0),
        ("block_bio_frontmerge: 8,0 W 8 + 16 [a]", Code::FRONT_MERGE, 8, 8192, 0),
        ("block_sleeprq: 8,0 W 8 + 16 [a]", Code::SLEEP, 8, 8192, 0),
        ("block_bio_bounce: 8,0 W 8 + 16 [a]", Code::BOUNCE, 8, 8192, 0),
        ("block_rq_insert: 8,0 W 8192 () 8 + 16 [a]", Code::INSERT, 8, 8192, 0),
        ("block_rq_complete: 8,0 W () 8 + 16 [-5]", Code::COMPLETE, 8, 8192, 65531),
        ("block_rq_complete: 8,0 W () 8 + 16 be,0,4 [5]", Code::COMPLETE, 8, 8192, 5),
        ("block_rq_requeue: 8,0 W () 8 + 16 [0]", Code::REQUEUE, 8, 8192, 0),
        ("block_bio_complete: 253,0 W 8 + 16 [0]", Code::COMPLETE, 8, 8192, 0),
        ("block_split: 8,0 W 8 / 24 [a]", Code::SPLIT, 8, 0, 0),
        ("block_bio_remap: 8,0 W 8 + 16 <- (253,0) 0", Code::REMAP, 8, 8192, 0),
        ("block_rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 [a]", Code::ISSUE, u64::MAX, 0, 0),
        ("block_unplug: [a] 3", Code::UNPLUG, 0, 0, 0),
        ("block_plug: [a]", Code::PLUG, 0, 0, 0),
    ];
    for (body, code, sector, bytes, error) in cases {
        let record = of(body);
        let found = (record.code, record.sector, record.bytes, record.error);
        assert_eq!(found, (code, sector, bytes, error), "{body}");
        assert!(record.categories.contains(Categories::FS | body::category_of(code)), "{body}");
    }
    let command = of("block_rq_issue: 8,0 N 36 (12 00 00 00 24 00 ..) 0 + 0 [a]");
    assert!(command.is_passthrough());
    assert_eq!(command.bytes, 36);
    assert!(events("a-1 [000] 1.000000: sched_switch: prev_comm=a").is_empty());
    assert!(events("cpus=2\n# x\n\n").is_empty());
}

/// Do plugs get the device of the next event of their process, and stay where they were?
#[test]
fn plugs_wait_for_a_device() {
    let text = "a-1 [000] 1.000001: block_plug: [a]\n\
                b-2 [001] 1.000002: block_plug: [b]\n\
                b-2 [001] 1.000003: block_bio_queue: 8,16 R 8 + 8 [b]\n\
                a-1 [000] 1.000004: block_bio_queue: 8,0 R 8 + 8 [a]\n\
                a-1 [000] 1.000005: block_unplug: [a] 1\n";
    let found: Vec<_> = events(text).iter().map(|(r, _)| (r.code, r.device.to_string())).collect();
    let wanted = [
        (Code::PLUG, "8,0"),
        (Code::PLUG, "8,16"),
        (Code::QUEUE, "8,16"),
        (Code::QUEUE, "8,0"),
        (Code::UNPLUG, "8,0"),
    ];
    assert_eq!(found, wanted.map(|(code, device)| (code, device.to_owned())));
}

/// Are messages kept, with and without a control group, and the short form understood?
#[test]
fn messages_and_the_short_form() {
    let text = "a-1 [000] d.... 1.000000:   7,0   1,0  m   N bfq1S  x [y]\n\
                a-1 [000] d.... 1.000001:   7,0  m   N cfq1S y\n";
    let found = events(text);
    assert_eq!(found[0].1, b"bfq1S  x [y]");
    assert_eq!((found[1].0.at, &found[1].1[..]), (Nanos(1000), &b"cfq1S y"[..]));
    let text = "1.115164 lg-88 Q R 0 + 8 [lg]\n1.115727 a b-9 m N cfq88S alloced\n";
    let found = events(text);
    assert_eq!((found[0].0.pid, found[0].0.bytes), (88, 4096));
    assert_eq!((found[1].0.pid, found[1].0.at), (9, Nanos(563_000)));
}

/// Are wrong lines reported with what would be right, and lost events?
#[test]
fn wrong_lines_are_told() {
    let text = "what\n\
                a-1 [000] d..1. x: 7,0 Q R 1 + 2 [a]\n\
                a-1 [000] d..1. 1.000000: seven Q R 1 + 2 [a]\n\
                a-1 [000] d..1. 1.000000: 7,0 Y R 1 + 2 [a]\n\
                a-1 [000] d..1. 1.000000: 7,0 Q R 1 - 2 a\n\
                a-1 [000] d..1. 1.000000: block_rq_issue: 7,0 R 1 + 2 [a]\n\
                CPU:1 [LOST 123 EVENTS]\n";
    let (found, told) = read(text);
    assert!(found.is_empty());
    let wanted = [
        "t:1: a line has its task and processor in front, as `fio-3445 [000]",
        "t:2: `x:` is no time in seconds with six decimals and a colon: `a-1",
        "t:3: `seven` is neither an event, as `block_rq_issue:`, nor a device, as `8,0`: `a-1",
        "t:4: `Y` is no action, as `Q` or `UT` or `m`: `a-1",
        "t:5: there is no SECTOR + SECTORS [NAME] at its end: `a-1",
        "t:6: block_rq_issue is followed by `8,0 RS 4096 () 123456 + 8 [fio]`: `a-1",
        "t:7: events were lost here: `CPU:1 [LOST 123 EVENTS]`",
    ];
    assert_eq!(told.len(), wanted.len());
    for (told, wanted) in told.iter().zip(wanted) {
        assert!(told.starts_with(wanted), "{told}");
    }
}

/// Is the output of a real kernel (Linux 6.18) understood, as its own file shows it and as perf
/// does? A direct write of 64 KiB and a flush, both to 254,0.
#[test]
fn lines_of_a_real_kernel() {
    let text = "# tracer: nop\n#\n\
        #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n\
        #              | |         |   |||||     |         |\n\
        \x20             dd-12072   [001] ..... 48124.869790: block_bio_queue: 254,0 WS 329248288 \
        + 128 [dd]\n\
        \x20             dd-12072   [001] ..... 48124.869796: block_touch_buffer: 254,0 \
        sector=40042719 size=4096\n\
        \x20             dd-12072   [001] ..... 48124.869801: block_getrq: 254,0 WS 329248288 + \
        128 [dd]\n\
        \x20             dd-12072   [001] ..... 48124.869802: block_io_start: 254,0 WS 65536 () \
        329248288 + 128 be,0,4 [dd]\n\
        \x20             dd-12072   [001] ..... 48124.869803: block_plug: [dd]\n\
        \x20             dd-12072   [001] ..... 48124.869804: block_unplug: [dd] 1\n\
        \x20             dd-12072   [001] ...1. 48124.869805: block_rq_insert: 254,0 WS 65536 () \
        329248288 + 128 be,0,4 [dd]\n\
        \x20             dd-12072   [001] ..... 48124.869806: block_rq_issue: 254,0 WS 65536 () \
        329248288 + 128 be,0,4 [dd]\n\
        \x20       blktrace-12032   [001] .Ns1. 48124.869970: block_rq_complete: 254,0 WS () \
        329248288 + 128 be,0,4 [0]\n";
    let letters = |text: &str| -> Vec<(Code, u32)> {
        events(text).iter().map(|(record, _)| (record.code, record.bytes)).collect()
    };
    let bytes = 65536;
    let request = [
        (Code::QUEUE, bytes),
        (Code::GET, bytes),
        (Code::PLUG, 0),
        (Code::UNPLUG, 0),
        (Code::INSERT, bytes),
        (Code::ISSUE, bytes),
        (Code::COMPLETE, bytes),
    ];
    assert_eq!(letters(text), request);
    assert!(events(text).iter().all(|(record, _)| record.device == DeviceNumber::new(254, 0)));
    let perf = "\
        \x20 perf 12102 [001] 48125.482279:                 block:block_dirty_buffer: 254,0 \
        sector=18446744073709486080 size=4096\n\
        \x20   dd 12104 [000] 48125.483672:                     block:block_rq_issue: 254,0 WS \
        65536 () 329241680 + 128 0x2,0,4 [dd]\n\
        \x20   dd 12104 [000] 48125.489672:                     block:block_rq_issue: 254,0 FF 0 \
        () 18446744073709551615 + 0 0x0,0,0 [dd]\n\
        \x20 perf 12102 [001] 48125.489922:                  block:block_rq_complete: 254,0 WS () \
        329241680 + 128 0x2,0,4 [0]\n";
    assert_eq!(letters(perf), [(Code::ISSUE, bytes), (Code::ISSUE, 0), (Code::COMPLETE, bytes)]);
    assert_eq!(events(perf)[1].0.categories, {
        Categories::FLUSH | Categories::ISSUE | Categories::FS
    });
    // A text may begin with many lines of other events.
    assert!(looks_like(perf.lines().next().unwrap().as_bytes()));
}
