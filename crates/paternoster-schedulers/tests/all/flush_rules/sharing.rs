// SPDX-License-Identifier: MIT OR Apache-2.0
//! One flush for all that wait for one: FLUSH-4 to FLUSH-7, and how many share which (S. Li's ten
//! fsyncs and a write).

use super::*;
use paternoster_core::{Nanos, Waiting};

/// If ten come while a flush is in flight, is exactly one more issued, after the first ends, and do
/// all ten end with it?
#[test]
fn flush_4_ten_flushes_share_one() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.flush(client, 100);
        assert_eq!(rig.pulled_words(), "F");
        for cookie in 0..10 {
            rig.flush(client, cookie);
        }
        assert_eq!(rig.pulled_words(), "", "{elevator}: one at a time");
        assert_eq!(rig.why, Waiting::Flush);
        rig.complete_flush();
        assert_eq!(rig.pulled_words(), "F");
        assert_eq!(rig.ended(), [100]);
        rig.complete_flush();
        assert_eq!(rig.pulled_words(), "");
        assert_eq!(rig.ended()[1..], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}

/// Does a flush that came while one was on the dispatch list, and not yet in the device, wait for
/// the next? It counts as in flight from there on.
#[test]
fn flush_4_in_flight_from_the_dispatch_list_on() {
    let mut rig = commanded(DeviceFacts { depth: 1, ..cached() }, "deadline");
    let client = rig.client();
    rig.read(client, 0, 8);
    rig.pull();
    rig.flush(client, 1);
    rig.flush(client, 2);
    assert_eq!(rig.pulled_words(), "", "the device is full");
    assert_eq!(rig.served_words(), "F F");
    assert_eq!(rig.ended(), [0, 1, 2]);
}

/// Are there two flushes and not four for two writes with PREFLUSH and FUA that wait in one list?
/// The data is B, A: each goes to the head, of the dispatch list or the elevator.
#[test]
fn flush_5_two_writes_share_both_flushes() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.flush(client, 1);
        rig.pull();
        for sector in [8, 16] {
            rig.ordered(client, sector, Flags::PREFLUSH | Flags::FUA);
        }
        assert_eq!(rig.served_words(), "F W16 W8 F", "{elevator}");
        assert_eq!(rig.ended(), [1, 16, 8], "as their data have ended");
    }
}

/// With A's data in flight and an empty flush E that comes, is E issued only once that has ended?
/// And does it share A's postflush: one flush for both.
#[test]
fn flush_6_waits_for_data_under_way() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.ordered(client, 8, Flags::FUA);
        assert_eq!(rig.pulled_words(), "W8");
        rig.flush(client, 1);
        rig.at(4999);
        assert_eq!(rig.pulled_words(), "", "{elevator}: C2");
        assert_eq!((rig.why, rig.until), (Waiting::Flush, None), "no timer is set for C3");
        rig.complete_oldest();
        assert_eq!(rig.served_words(), "F");
        assert_eq!(rig.ended(), [1, 8]);
    }
}

/// If data takes longer than 5 s, and an event comes when E has waited for 5 s, is E issued then?
/// One ns earlier it is not, and with no event at all E waits.
#[test]
fn flush_6_but_not_for_more_than_five_seconds() {
    let start = Nanos::from_millis(3);
    for (waited, issued) in [(Nanos(4_999_999_999), ""), (Nanos(5_000_000_000), "F")] {
        for elevator in BOTH_LAYERS {
            let mut rig = commanded(cached(), elevator);
            let client = rig.client();
            rig.ordered(client, 8, Flags::FUA);
            rig.pull();
            rig.now = start;
            rig.flush(client, 1);
            rig.now = start + waited;
            assert_eq!(rig.pulled_words(), "", "{elevator}: asking is no event");
            rig.flush(client, 2);
            assert_eq!(rig.pulled_words(), issued, "{elevator}, after {waited}");
            // Both share that flush, and A has one of its own; or all three share one.
            rig.complete_at(8);
            if !issued.is_empty() {
                rig.complete_flush();
            }
            assert_eq!(rig.served_words(), "F");
            assert_eq!(rig.ended(), [1, 2, 8]);
        }
    }
}

/// Do the 5 s start again for a flush that finds the list empty? E's flush is at 5 s, one that
/// comes after it at 6 s waits for data in flight until 11 s.
#[test]
fn flush_6_the_time_is_that_of_the_first_in_the_list() {
    let mut rig = commanded(cached(), "deadline");
    let client = rig.client();
    rig.ordered(client, 8, Flags::FUA);
    rig.pull();
    let ticket = rig.flush(client, 1);
    rig.queue.cancel(rig.now, ticket).expect("it waits");
    rig.at(6000);
    rig.flush(client, 2);
    assert_eq!(rig.pulled_words(), "", "the list was empty until 6 s");
    rig.at(10_999);
    rig.flush(client, 3);
    assert_eq!(rig.pulled_words(), "");
    rig.at(11_000);
    rig.flush(client, 4);
    assert_eq!(rig.pulled_words(), "F");
}

/// Is there never more than one flush outstanding, through refusals and with all kinds that come
/// meanwhile? 60 bios of four kinds, every third command refused once.
#[test]
fn flush_7_at_most_one_is_outstanding() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(DeviceFacts { depth: 4, ..cached() }, elevator);
        rig.set("nr_requests", "85");
        let client = rig.client();
        let (mut sent, mut issued, mut flushes) = (0, 0, 0);
        while rig.done.len() < 60 {
            for _ in 0..3.min(60 - sent) {
                match sent % 4 {
                    0 => rig.flush(client, 10 * sent),
                    1 => rig.ordered(client, 10 * sent, Flags::FUA),
                    2 => rig.ordered(client, 10 * sent, Flags::PREFLUSH),
                    _ => rig.ordered(client, 10 * sent, Flags::PREFLUSH | Flags::FUA),
                };
                sent += 1;
            }
            for command in rig.pull() {
                issued += 1;
                flushes += u64::from(command.op == Op::Flush);
            }
            let inside = rig.inside.iter().filter(|command| command.op == Op::Flush).count();
            assert!(inside <= 1, "{elevator}: {:?}", rig.inside);
            match rig.inside.back().copied() {
                Some(command) if issued % 3 == 0 => {
                    rig.inside.pop_back();
                    rig.queue.requeue(rig.now, command.tag).expect("it is in the device");
                    issued += 1;
                }
                Some(_) => drop(rig.complete_oldest()),
                None => rig.now = rig.until.unwrap_or(rig.now),
            }
        }
        assert!((3..75).contains(&flushes), "{flushes} for 15 * (1 + 1 + 1 + 2) steps");
        rig.queue.audit().expect("nothing is left over");
    }
}

/// Which flush each of ten fsyncs shares, and the commands that the device gets. One flush is in
/// flight until 1 ms; a read keeps the queue from being empty throughout. Fsyncs come at 0.2, 0.4,
/// 0.6, 0.8, then 1.2 and 1.4, then 1.7, 1.8, 1.9, 1.95; the write at 1.6. Each flush takes 1 ms.
fn ten_fsyncs_and_a_write(delay_us: &str) -> (String, Vec<usize>) {
    let mut rig = commanded(cached(), "deadline");
    let [reader, writer, syncer] = [0; 3].map(|_| rig.client());
    rig.set("flush_delay", delay_us);
    let mut order = Vec::new();
    let mut shared = Vec::new();
    let mut flush_ends = None;
    for us in (0..6000).step_by(50) {
        rig.at_us(us);
        let before = rig.done.len();
        let ends = flush_ends == Some(us);
        if ends {
            rig.complete_flush();
        }
        match us {
            0 => drop((rig.flush(syncer, 1), rig.read(reader, 0, 8))),
            200 | 400 | 600 | 800 | 1200 | 1400 | 1700 | 1800 | 1900 | 1950 => {
                rig.flush(syncer, us);
            }
            1600 => drop(rig.write(writer, 16, 8)),
            _ => {}
        }
        let new = rig.pull();
        if ends {
            shared.push(rig.done.len() - before);
        }
        if new.iter().any(|command| command.op == Op::Flush) {
            flush_ends = Some(us + 1000);
        }
        order.extend(new.iter().map(word));
    }
    (order.join(" "), shared)
}

/// Li's finding: of ten fsyncs and a write, do four share a flush before the write and six one
/// after it; and with a delay of 1.3 ms six and four: more shared, and as many flushes?
///
/// Without: at 1.0 the four, at 2.0 the six. With a delay: the first fsync came at 0.2, so their
/// flush is due at 1.5, and those of 1.2 and 1.4 share it; it ends at 2.5. The first fsync after it
/// came at 1.7, and 1.7 + 1.3 = 3.0.
#[test]
fn ten_fsyncs_of_which_a_delay_only_shifts_the_sharing() {
    let (order, shared) = ten_fsyncs_and_a_write("0");
    assert_eq!(order, "F R0 F W16 F");
    assert_eq!(shared, [1, 4, 6]);
    let (order, shared) = ten_fsyncs_and_a_write("1300");
    assert_eq!(order, "F R0 F W16 F");
    assert_eq!(shared, [1, 6, 4]);
}
