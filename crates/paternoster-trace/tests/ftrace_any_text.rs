// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text at all: the reader neither panics nor loses its place.
//!
//! Bytes from nowhere seldom get beyond the first word; so real lines are also taken apart:
//! characters are replaced, cut out, doubled, and words of one line put into another.

use paternoster_trace::ftrace::{BfqMessage, Entry, Error, Reader, What};
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

/// What is done to a line: where, and what with.
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

/// Numbers of lines go up, errors say something, and what is known can be written and read again.
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Does any text of bytes pass?
    #[test]
    fn bytes_from_nowhere(text in prop::collection::vec(any::<u8>(), 0..6000)) {
        check(&text);
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
