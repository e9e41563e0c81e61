// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text at all: the reader neither panics nor loses its place, and calls lose no line.
//!
//! Bytes from nowhere seldom get beyond the first word; so real lines are also taken apart:
//! characters are replaced, cut out, doubled, and words of one line put into another. And whole
//! lines come in any order, from a few speakers on two devices.

use paternoster_trace::ftrace::{BfqMessage, Call, CallKind, Calls, Entry, Error, Reader, What};
use proptest::prelude::*;

/// Lines of every kind, as a kernel writes them.
const LINES: [&str; 17] = [
    "             fio-3445    [000] d..1.  3987.797223:   7,0    Q  RS 0 + 256 [fio]",
    "             fio-3445    [000] d..1.  3987.797265:   7,0    U   N [fio] 1",
    "     ksoftirqd/1-22      [001] d.s1.  4011.822281:   7,0    C   R 44288 + 128 [0]",
    "          <idle>-0       [001] d.h2.  4008.837044:   7,0   1,0  m   N bfq schedule dispatch",
    "a-1 [000] d..1. 1.797257: 7,0 1,0 m N bfq [bfq_limit_depth] wr_busy 0 sync 1 depth 256",
    "a-1 [000] d..1. 1.797257: 7,0 1,0 m N bfq0A new_ioprio 4 new_weight 40",
    "a-1 [0] 1.797257: 7,0 m N bfq3S get_request 000000009c5b551a: bfqq 00000000ca82b30d, 2",
    "a-1 [000] d..1. 1.797257: 7,0 1,0 m N bfq3S calc_finish: start 0, finish 1145, delta 1145",
    "a-1 [000] d..1. 1.797257: 7,0 m N bfq3S expire (4, slow 0, num_disp 1, short_ttime 1)",
    "a-1 [000] d..1. 1.797257: 7,0 m N bfqSHARED-S recalc_budg: last budg 163, budg left 265",
    "a-1 [0] 1.797257: 7,0 m N bfq3S raising period dur 1/300 msec, old coeff 30, w 120(40)",
    "a-1 [000] d..1. 1.797257: 7,0 1,0 m N bfq3S merging with queue 18446744073709551615",
    "a-1 [000] d..1. 1.797257: 7,0 1,0 m N bfq3S set tentative waker bfq4S",
    "a-1 (  1) [000] 1.797257123: 253,1 A  WS 2716504 + 8 <- (253,0) 5433008",
    "a-1 [000] d..1. 1.797257: 7,0 X WS 100 / 164 [a]",
    "CPU:0 [LOST 123 EVENTS]",
    "# tracer: blk",
];

/// Letters that mean something in a line, and some that do not.
const LETTERS: &str = "0129 .,:;+-[](){}/<>#dshNRWQDCm\u{e4}\n\u{0}";

/// A change to a line: where, and what with.
#[derive(Debug, Clone)]
enum Change {
    Replace(prop::sample::Index, char),
    Cut(prop::sample::Index, usize),
    Double(prop::sample::Index),
    Word(prop::sample::Index, usize, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let letter =
        prop_oneof![prop::sample::select(LETTERS.chars().collect::<Vec<_>>()), any::<char>(),];
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), letter).prop_map(|(at, letter)| Change::Replace(at, letter)),
        (at(), 1..20usize).prop_map(|(at, length)| Change::Cut(at, length)),
        at().prop_map(Change::Double),
        (at(), 0..LINES.len(), at()).prop_map(|(at, line, from)| Change::Word(at, line, from)),
    ]
}

fn apply(line: &mut Vec<char>, change: &Change) {
    if line.is_empty() {
        return;
    }
    match change {
        Change::Replace(at, letter) => {
            let at = at.index(line.len());
            line[at] = *letter;
        }
        Change::Cut(at, length) => {
            let at = at.index(line.len());
            line.drain(at..line.len().min(at + length));
        }
        Change::Double(at) => {
            let behind = line[at.index(line.len())..].to_vec();
            line.extend(behind);
        }
        Change::Word(at, other, from) => {
            let words: Vec<&str> = LINES[*other].split(' ').collect();
            let at = at.index(line.len());
            line.splice(at..at, words[from.index(words.len())].chars());
        }
    }
}

/// Numbers of lines go up, errors have a text, and known forms can be written and read again.
fn check(text: &[u8]) {
    let mut last = 0;
    let lines = 1 + text.iter().filter(|&&byte| byte == b'\n').count() as u64;
    for entry in Reader::new(text) {
        let line = match entry {
            Ok(Entry::Record(record)) => {
                if let What::Message { message, .. } = &record.what {
                    assert_eq!(&BfqMessage::read(&message.to_string()), message);
                }
                record.line
            }
            Ok(Entry::Lost { line, .. }) => line,
            Err(error) => {
                assert!(matches!(&error, Error::Line { message, .. } if !message.is_empty()));
                error.line()
            }
        };
        assert!(last < line && line <= lines, "{last} {line} {lines}");
        last = line;
    }
}

/// Every record is in one call, every loss is one, and calls and their records are in order.
fn check_calls(text: &[u8]) {
    let entries = || Reader::new(text).filter_map(Result::ok);
    let lines: Vec<u64> = entries()
        .map(|entry| match entry {
            Entry::Record(record) => record.line,
            Entry::Lost { line, .. } => line,
        })
        .collect();
    let calls: Vec<Call> = Calls::new(entries().map(Ok)).map(|call| call.unwrap()).collect();
    assert!(calls.is_sorted_by(|a, b| a.line < b.line));
    let mut found: Vec<u64> = Vec::new();
    for call in &calls {
        assert!(call.records.is_sorted_by(|a, b| a.line < b.line));
        assert_eq!(call.records.is_empty(), matches!(call.kind, CallKind::Lost { .. }));
        let first = if call.records.is_empty() { Some(call.line) } else { None };
        found.extend(call.records.iter().map(|record| record.line).chain(first));
    }
    found.sort_unstable();
    assert_eq!(found, lines);
    check_links(&calls);
}

/// A choice and a start know of each other, and fit.
fn check_links(calls: &[Call]) {
    for call in calls {
        if let CallKind::Dispatch { served, issued: Some(issued), .. } = &call.kind {
            assert_eq!(served.unwrap().sectors, u64::from(issued.sectors));
            let of = calls.iter().find(|of| of.line == issued.line).unwrap();
            let (sector, sectors, dispatch) = (issued.sector, issued.sectors, Some(call.line));
            assert_eq!(of.kind, CallKind::Issue { sector, sectors, dispatch });
        }
        if let CallKind::Issue { dispatch: Some(line), .. } = &call.kind {
            let of = calls.iter().find(|of| of.line == *line).unwrap();
            assert!(matches!(&of.kind, CallKind::Dispatch { issued: Some(issued), .. }
                if issued.line == call.line));
        }
    }
}

/// Speakers of lines that come in any order.
const HEADS: [&str; 6] = [
    "a-1 [000] d..1. 1.000000: 7,0",
    "b-2 [001] d..1. 1.000000: 7,0",
    "b-2 [001] d..2. 1.000000: 7,0",
    "b-2 [001] d..1. 1.000000: 8,0",
    "ksoftirqd/1-9 [001] d.s1. 1.000000: 7,0",
    "<idle>-0 [000] d.h2. 1.000000: 7,0",
];

/// Their words: the lines with which calls begin, go on and end.
const WORDS: [&str; 19] = [
    "Q R 8 + 8 [a]",
    "G R 8 + 8 [a]",
    "I R 8 + 8 [a]",
    "D R 8 + 8 [a]",
    "D R 16 + 16 [a]",
    "C R 8 + 8 [0]",
    "R R 8 + 8 [0]",
    "M R 8 + 8 [a]",
    "P N [a]",
    "m N bfq [bfq_limit_depth] wr_busy 0 sync 1 depth 256",
    "m N bfq1S get_request 00000000000000aa: bfqq 00000000000000bb, 2",
    "m N bfq1S add_request 1",
    "m N bfq dispatch requests: 1 busy queues",
    "m N bfq1S select_queue: returned this queue",
    "m N bfq1S bfqq_served 8 secs",
    "m N bfq select_queue: no queue returned",
    "m N bfq1S put_queue: 00000000000000bb 2",
    "m N bfq1S exit_bfqq: 00000000000000bb, 2",
    "m N cfq1S dances",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Does any text of bytes pass?
    #[test]
    fn bytes_from_nowhere(text in prop::collection::vec(any::<u8>(), 0..6000)) {
        check(&text);
        check_calls(&text);
    }

    /// Do real lines pass, whatever is done to them?
    #[test]
    fn real_lines_taken_apart(
        lines in prop::collection::vec(
            (0..LINES.len(), prop::collection::vec(change(), 0..6)),
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
        check(text.as_bytes());
        check_calls(text.as_bytes());
    }

    /// Do lines in any order pass, with a loss now and then?
    #[test]
    fn lines_in_any_order(
        lines in prop::collection::vec((0..HEADS.len(), 0..WORDS.len(), 0..100u8), 0..200)
    ) {
        let mut text = String::new();
        for (head, words, loss) in lines {
            text += &format!("{} {}\n", HEADS[head], WORDS[words]);
            if loss == 0 {
                text += "CPU:1 [LOST 2 EVENTS]\n";
            }
        }
        check_calls(text.as_bytes());
    }
}

/// Are the lines that are taken apart all right while they are whole?
#[test]
fn whole_lines_are_right() {
    for (number, line) in LINES.into_iter().enumerate() {
        let entries: Vec<_> = Reader::new(line.as_bytes()).collect();
        assert_eq!(entries.len(), usize::from(number + 1 < LINES.len()), "{line}");
        for entry in entries {
            let unknown = match entry.unwrap() {
                Entry::Record(record) => {
                    matches!(record.what, What::Message { message: BfqMessage::Unknown(_), .. })
                }
                Entry::Lost { .. } => false,
            };
            assert!(!unknown, "{line}");
        }
    }
}
