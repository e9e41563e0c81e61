// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of a running bfq (Linux 6.18): is every line read, and read right?
//!
//! The numbers were counted without this crate, in the folder `bfq-decisions`, for each log:
//!
//! ```text
//! zcat $f | wc -l
//! zcat $f | awk '{n[$6]++} END {print n["Q"], n["I"], n["D"], n["C"]}'
//! for r in 0 1 2 3 4; do zcat $f | grep -c " expire ($r,"; done
//! ```
//!
//! (awk's sixth field is the action; in a message it is the control group.) Without the recordings
//! the tests say so and pass.

use paternoster_trace::ftrace::{
    Action, BfqMessage, Context, Device, Entry, Event, ExpireReason, Reader, Record, What,
};

use crate::common::recordings;

/// A log, its numbers of lines, of Q I D C, and of each reason to expire.
type Counted = (&'static str, usize, [usize; 4], [usize; 5]);

const LOGS: [Counted; 7] = [
    ("disk_2seq_ll0", 57_550, [2326, 2326, 2326, 2326], [0, 0, 31, 0, 0]),
    ("disk_coop_ll0", 5913, [347, 346, 346, 346], [1, 23, 0, 0, 0]),
    ("disk_seq_rand_ll0", 16_235, [744, 744, 744, 744], [0, 27, 4, 3, 10]),
    ("disk_shallow_deep_ll0", 9035, [477, 477, 477, 477], [0, 28, 1, 5, 4]),
    ("disk_starter_ll1", 17_335, [669, 669, 669, 669], [0, 0, 104, 0, 265]),
    ("ssd_5equal_rand_ll0", 132_916, [8246, 8246, 8246, 8246], [0, 24, 0, 0, 0]),
    ("ssd_5groups_rand_ll0", 120_853, [5256, 5256, 5256, 5256], [0, 29, 1, 6, 40]),
];

/// Every line of a log as a record; none may be wrong, lost or unknown.
fn records(text: &str) -> Vec<Record> {
    let record = |entry| match entry {
        Ok(Entry::Record(record)) => record,
        Ok(lost) => panic!("{lost:?}"),
        Err(error) => panic!("{error}"),
    };
    Reader::new(text.as_bytes()).map(record).collect()
}

fn logs() -> impl Iterator<Item = (Counted, &'static str)> {
    LOGS.into_iter().filter_map(|counted| {
        let text = recordings::log(&format!("bfq-decisions/{}.log.gz", counted.0))?;
        Some((counted, text))
    })
}

fn events(records: &[Record], action: Action) -> usize {
    let is = |what: &What| matches!(what, What::Event(event) if event.action == action);
    records.iter().filter(|record| is(&record.what)).count()
}

fn expiries(records: &[Record], wanted: ExpireReason) -> usize {
    let is = |what: &What| {
        matches!(what, What::Message { message: BfqMessage::Expire { reason, .. }, .. }
            if *reason == wanted)
    };
    records.iter().filter(|record| is(&record.what)).count()
}

/// Is every line of the seven logs understood, and are there as many of each kind as were counted
/// by other means? 359 837 lines.
#[test]
fn every_line_is_understood() {
    for ((name, lines, actions, reasons), text) in logs() {
        let records = records(text);
        assert_eq!(records.len(), lines, "{name}");
        let counted = [Action::Queue, Action::Insert, Action::Issue, Action::Complete]
            .map(|action| events(&records, action));
        assert_eq!(counted, actions, "{name}: Q I D C");
        let counted = ExpireReason::ALL.map(|reason| expiries(&records, reason));
        assert_eq!(counted, reasons, "{name}: expiries by reason");
        for record in &records {
            let unknown = matches!(
                record.what,
                What::Note(_) | What::Message { message: BfqMessage::Unknown(_), .. }
            );
            assert!(!unknown, "{name}: {record:?}");
        }
    }
}

/// The words after the device, as the kernel writes them, up to the name of the task.
fn written(what: &What) -> String {
    match what {
        What::Message { queue: Some(queue), message } => format!("m   N {queue} {message}"),
        What::Message { queue: None, message } => format!("m   N bfq {message}"),
        What::Note(text) => format!("m   N {text}"),
        What::Event(Event { action, letters, sector, sectors, .. }) => {
            let extent =
                if *sectors > 0 { format!("{sector} + {sectors} [") } else { "[".to_owned() };
            format!("{} {letters:>3} {extent}", action.letters(), letters = letters.as_str())
        }
    }
}

/// Does what was read hold all of the line? It is written again and compared with the line.
#[test]
fn what_was_read_is_what_was_written() {
    for ((name, ..), text) in logs() {
        for (line, record) in text.lines().zip(records(text)) {
            let (head, tail) = line.split_once(":   7,0 ").expect("one device in these logs");
            let tail = tail.trim_start().trim_start_matches("1,0").trim_start();
            let written = written(&record.what);
            let same = match record.what {
                What::Event(_) => tail.starts_with(&written),
                _ => tail == written,
            };
            assert!(same, "{name}:{}: {written} <> {tail}", record.line);
            let (task, at_us) = (format!("{}-{} ", record.task, record.pid), record.at_ns / 1000);
            let time = format!("{}.{:06}", at_us / 1_000_000, at_us % 1_000_000);
            assert!(head.trim_start().starts_with(&task) && head.ends_with(&time), "{line}");
            assert!(head.contains(&format!(" [{:03}] ", record.cpu)), "{line}");
            assert_eq!(record.device, Device { major: 7, minor: 0 });
            assert_eq!(record.at_ns % 1000, 0, "{line}");
        }
    }
}

/// Is it so in these logs that time never steps back, that completions come in soft interrupts and
/// idle timers in hard ones, and that nothing failed?
#[test]
fn what_holds_in_all_logs() {
    for ((name, ..), text) in logs() {
        let records = records(text);
        assert!(records.is_sorted_by_key(|record| record.at_ns), "{name}");
        for record in &records {
            let ended = matches!(record.what, What::Event(e) if e.action == Action::Complete);
            assert_eq!(record.context == Context::SoftInterrupt && ended, ended, "{record:?}");
            assert!(!matches!(record.what, What::Event(event) if event.error != 0), "{record:?}");
            let group = record.group.as_deref();
            let of_message = matches!(record.what, What::Message { .. });
            assert_eq!(group, of_message.then_some("1,0"), "{record:?}");
        }
    }
}

/// Is a log read that still has ftrace's comments and was cut while requests were in flight? 3998
/// comment lines, 150 150 142 142 of Q I D C, 3 turns that ended by their budget.
#[test]
fn a_log_with_comments() {
    let Some(text) = recordings::log("bfq_internal_log_8seq.txt.gz") else { return };
    let records = records(text);
    assert_eq!(records.len(), 3998);
    let counted = [Action::Queue, Action::Insert, Action::Issue, Action::Complete]
        .map(|action| events(&records, action));
    assert_eq!(counted, [150, 150, 142, 142]);
    assert_eq!(expiries(&records, ExpireReason::BudgetExhausted), 3);
    assert!(records.iter().all(|record| record.device == Device { major: 7, minor: 2 }));
}
