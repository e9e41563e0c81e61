// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls cut from lines by hand; those of the recordings are in `tests/all/ftrace_calls.rs`.
//!
//! A line here is `who: what`; `who` is a task's pid on processor 0, `s` and a processor for a soft
//! interrupt, `h` for a hard one. Times are the numbers of lines, in microseconds.

use super::*;
use crate::ftrace::Reader;

/// The text of lines written as above, on device 7,0 unless a line says `8,0`.
fn text(lines: &[&str]) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let (who, what) = line.split_once(": ").unwrap();
        let (device, what) = match what.strip_prefix("8,0 ") {
            Some(what) => ("8,0", what),
            None => ("7,0", what),
        };
        let head = match who.split_at(1) {
            ("s", cpu) => format!("ksoftirqd-9 [{cpu}] d.s1."),
            ("h", cpu) => format!("<idle>-0 [{cpu}] d.h2."),
            ("x", pid) => format!("fio-{pid} [0] dN.2."),
            _ => format!("fio-{who} [0] d..1."),
        };
        let what = match what.strip_prefix("bfq") {
            Some(words) => format!("m N bfq{words}"),
            None => what.to_owned(),
        };
        text += &format!("{head} 1.{:06}: {device} {what}\n", number + 1);
    }
    text
}

fn calls(lines: &[&str]) -> Vec<Call> {
    let text = text(lines);
    Calls::new(Reader::new(text.as_bytes())).map(|call| call.unwrap()).collect()
}

/// Names of the calls with the lines of their records.
fn cut(lines: &[&str]) -> Vec<(&'static str, Vec<u64>)> {
    let lines_of = |call: &Call| call.records.iter().map(|record| record.line).collect();
    calls(lines).iter().map(|call| (call.kind.name(), lines_of(call))).collect()
}

const QUEUE: QueueName = QueueName::Process { pid: 1, sync: true };

/// Are the calls of one request cut correctly, and is the choice linked with the start, after a
/// second call that chose nothing?
#[test]
fn the_way_of_a_request() {
    let lines = [
        "1: Q RS 8 + 8 [fio]",
        "1: bfq [bfq_limit_depth] wr_busy 0 sync 1 depth 256",
        "1: G RS 8 + 8 [fio]",
        "1: P N [fio]",
        "1: U N [fio] 1",
        "1: bfq0A new_ioprio 4 new_weight 40",
        "1: bfq1S allocated",
        "1: bfq1S get_request 00000000000000aa: bfqq 00000000000000bb, 2",
        "x1: I RS 8 + 8 [fio]",
        "1: bfq1S add_request 1",
        "1: bfq1S add to busy",
        "1: bfq dispatch requests: 1 busy queues",
        "1: bfq1S select_queue: returned this queue",
        "1: bfq1S bfqq_served 8 secs",
        "1: bfq dispatch requests: 1 busy queues",
        "1: bfq select_queue: no queue returned",
        "1: D RS 8 + 8 [fio]",
        "s1: C RS 8 + 8 [0]",
        "s1: bfq1S put_queue: 00000000000000bb 4",
        "x1: bfq1S del from busy",
        "x1: bfq1S exit_bfqq: 00000000000000bb, 2",
    ];
    let wanted = [
        ("bio", vec![1]),
        ("allocate", vec![2, 3]),
        ("plug", vec![4]),
        ("plug", vec![5]),
        ("insert", vec![6, 7, 8, 9, 10, 11]),
        ("dispatch", vec![12, 13, 14]),
        ("dispatch", vec![15, 16]),
        ("issue", vec![17]),
        ("complete", vec![18, 19]),
        ("exit", vec![20, 21]),
    ];
    assert_eq!(cut(&lines), wanted);
    let calls = calls(&lines);
    let (sector, sectors) = (8, 8);
    let insert = CallKind::Insert { queue: Some(QUEUE), request: Some(0xaa), sector, sectors };
    assert_eq!(calls[4].kind, insert);
    let served = Some(Service { queue: QUEUE, sectors: 8 });
    let issued = Some(Issued { line: 17, at_ns: 1_000_017_000, sector, sectors, sure: true });
    assert_eq!(calls[5].kind, CallKind::Dispatch { busy: 1, served, issued });
    let nothing = CallKind::Dispatch { busy: 1, served: None, issued: None };
    assert_eq!(calls[6].kind, nothing);
    assert_eq!(calls[7].kind, CallKind::Issue { sector, sectors, dispatch: Some(12) });
    let complete = CallKind::Complete { queue: Some(QUEUE), sector, sectors, error: 0 };
    assert_eq!(calls[8].kind, complete);
    // Line 18 begins it, line 19 enters the scheduler.
    let times = (calls[8].line, calls[8].at_ns, calls[8].entered_ns);
    assert_eq!(times, (19, 1_000_018_000, 1_000_019_000));
    assert_eq!(calls[9].kind, CallKind::Exit { queue: Some(QUEUE) });
}

/// Are two processors distinguished: a bio and a completion that wait for the lock while another
/// holds it, an event in the middle of another's words?
#[test]
fn two_processors() {
    let lines = [
        "s1: C RS 8 + 8 [0]",
        "1: Q RS 16 + 8 [fio]",
        "2: bfq dispatch requests: 2 busy queues",
        "3: Q RS 64 + 8 [fio]",
        "2: bfq select_queue: no queue returned",
        "1: bfq rq_pos_tree_lookup 16: returning 0",
        "3: bfq [bfq_limit_depth] wr_busy 0 sync 1 depth 256",
        "1: M RS 16 + 8 [fio]",
        "s1: bfq1S put_queue: 00000000000000bb 4",
        "3: G RS 64 + 8 [fio]",
    ];
    let wanted = [
        ("dispatch", vec![3, 5]),
        ("bio", vec![4]),
        ("bio", vec![2, 6, 8]),
        ("allocate", vec![7, 10]),
        ("complete", vec![1, 9]),
    ];
    assert_eq!(cut(&lines), wanted);
    let merged = Some(Merge::Back);
    assert_eq!(calls(&lines)[2].kind, CallKind::Bio { sector: 16, sectors: 8, merged });
}

/// Is a time charge in an expiry kept apart from the charge for the request?
#[test]
fn time_is_no_request() {
    let lines = [
        "1: bfq dispatch requests: 2 busy queues",
        "1: bfq2S bfqq_served 1000 secs",
        "1: bfq2S expire (1, slow 1, num_disp 0, short_ttime 1)",
        "1: bfq1S set_in_service_queue, cur-budget = 512",
        "1: bfq1S select_queue: returned this queue",
        "1: bfq1S bfqq_served 8 secs",
    ];
    let calls = calls(&lines);
    let served = Some(Service { queue: QUEUE, sectors: 8 });
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].kind, CallKind::Dispatch { busy: 2, served, issued: None });
}

/// Is each request of a batch inserted separately, and is the exit of a process separate from its
/// last call, even without words of others in between? Its words have another depth.
#[test]
fn one_speaker_after_another_call() {
    let lines = [
        "1: bfq1S get_request 00000000000000aa: bfqq 00000000000000bb, 2",
        "x1: I RS 8 + 8 [fio]",
        "1: bfq1S add_request 1",
        "1: bfq1S get_request 00000000000000ab: bfqq 00000000000000bb, 3",
        "x1: I RS 16 + 8 [fio]",
        "1: bfq1S add_request 1",
        "x1: bfq schedule dispatch",
        "x1: bfq1S exit_bfqq: 00000000000000bb, 2",
        "h0: bfq1S expire (0, slow 0, num_disp 0, short_ttime 1)",
    ];
    let wanted = [
        ("insert", vec![1, 2, 3]),
        ("insert", vec![4, 5, 6]),
        ("exit", vec![7, 8]),
        ("timer", vec![9]),
    ];
    assert_eq!(cut(&lines), wanted);
}

/// Has each device its lock?
#[test]
fn two_devices() {
    let lines = [
        "1: bfq dispatch requests: 2 busy queues",
        "2: 8,0 bfq dispatch requests: 1 busy queues",
        "1: bfq1S select_queue: returned this queue",
        "2: 8,0 bfq2S select_queue: returned this queue",
        "1: bfq1S bfqq_served 8 secs",
        "2: 8,0 bfq2S bfqq_served 8 secs",
        "2: D RS 64 + 8 [fio]",
        "1: 8,0 D RS 16 + 8 [fio]",
    ];
    let wanted = [
        ("dispatch", vec![1, 3, 5]),
        ("dispatch", vec![2, 4, 6]),
        ("issue", vec![7]),
        ("issue", vec![8]),
    ];
    assert_eq!(cut(&lines), wanted);
    let linked: Vec<Option<u64>> = calls(&lines)
        .iter()
        .filter_map(|call| match call.kind {
            CallKind::Issue { dispatch, .. } => Some(dispatch),
            _ => None,
        })
        .collect();
    assert_eq!(linked, [Some(1), Some(2)]);
}

/// Is a log cut that has no words of bfq in it?
#[test]
fn without_bfq() {
    let lines = [
        "1: Q RS 8 + 8 [fio]",
        "1: G RS 8 + 8 [fio]",
        "1: I RS 8 + 8 [fio]",
        "1: m N cfq1S alloced",
        "1: D RS 8 + 8 [fio]",
        "s0: C RS 8 + 8 [-5]",
        "1: X RS 8 / 12 [fio]",
    ];
    let wanted = [
        ("bio", vec![1]),
        ("allocate", vec![2]),
        ("insert", vec![3]),
        ("other", vec![4]),
        ("issue", vec![5]),
        ("complete", vec![6]),
        ("other", vec![7]),
    ];
    assert_eq!(cut(&lines), wanted);
    let complete = CallKind::Complete { queue: None, sector: 8, sectors: 8, error: -5 };
    assert_eq!(calls(&lines)[5].kind, complete);
}

/// Does a loss end open calls, and break links that cannot be known?
#[test]
fn a_loss() {
    let lines = [
        "1: bfq dispatch requests: 1 busy queues",
        "1: bfq1S select_queue: returned this queue",
        "1: bfq1S bfqq_served 8 secs",
    ];
    let mut text = text(&lines);
    text += "CPU:0 [LOST 3 EVENTS]\n";
    text += "fio-1 [0] d..1. 2.000000: 7,0 D RS 8 + 8 [fio]\nwhat is this\n";
    let (calls, wrong): (Vec<_>, Vec<_>) =
        Calls::new(Reader::new(text.as_bytes())).partition(Result::is_ok);
    let kinds: Vec<CallKind> = calls.into_iter().map(|call| call.unwrap().kind).collect();
    assert!(matches!(kinds[0], CallKind::Dispatch { served: Some(_), issued: None, .. }));
    assert_eq!(kinds[1], CallKind::Lost { events: Some(3) });
    assert_eq!(kinds[2], CallKind::Issue { sector: 8, sectors: 8, dispatch: None });
    assert_eq!((kinds.len(), wrong.len()), (3, 1));
}

/// Is what is held back bounded, after a choice that is never started and in a call that never
/// ends?
#[test]
fn what_is_held_back_is_bounded() {
    let mut lines = vec![
        "1: bfq dispatch requests: 1 busy queues",
        "1: bfq1S select_queue: returned this queue",
        "1: bfq1S bfqq_served 8 secs",
    ];
    lines.extend(std::iter::repeat_n("2: P N [fio]", HELD_MAX + 10));
    let text = text(&lines);
    let mut held = 0;
    let entries = Reader::new(text.as_bytes()).inspect(|_| held += 1);
    let first = Calls::new(entries).next().unwrap().unwrap();
    assert!(matches!(first.kind, CallKind::Dispatch { served: Some(_), issued: None, .. }));
    // Three lines in one slot, then one slot for each line.
    assert_eq!(held, 3 + HELD_MAX);
    let endless = vec!["1: bfq dances"; 3 * RECORDS_MAX];
    let lengths: Vec<usize> = calls(&endless).iter().map(|call| call.records.len()).collect();
    assert_eq!(lengths, [RECORDS_MAX; 3]);
}
