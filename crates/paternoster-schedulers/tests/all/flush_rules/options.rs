// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes `flush_hold=writes`, `flush_drain`, `flush_elide`, `flush_delay`, `write_cache`;
//! and flushes that are withdrawn.

use super::*;
use paternoster_core::{CancelError, Nanos, Outcome, Stage, Status, Waiting};

// ------------------------------------------------------------------------------ flush_hold=writes

/// With `writes`, on a device that queues flushes: do reads go on during a flush, and do writes
/// wait for its end?
#[test]
fn held_writes_let_reads_pass() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        let mut rig = commanded(cached(), elevator);
        rig.set("flush_hold", "writes");
        let client = rig.client();
        rig.flush(client, 1);
        assert_eq!(rig.pulled_words(), "F");
        rig.write(client, 8, 8);
        rig.write(client, 800, 8);
        assert_eq!(rig.pulled_words(), "", "{elevator}");
        assert_eq!(rig.why, Waiting::Flush);
        rig.read(client, 80, 8);
        assert_eq!(rig.pulled_words(), "R80", "{elevator}");
        rig.complete_flush();
        assert_eq!(rig.pulled_words(), "W8 W800", "{elevator}");
    }
}

/// Are at most as many writes picked and held as the device takes commands? Of five on a device of
/// depth 3, three are; the rest stays in the elevator, and held requests give the reason.
#[test]
fn held_writes_are_at_most_depth() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        let mut rig = commanded(DeviceFacts { depth: 3, ..cached() }, elevator);
        rig.set("nr_requests", "64");
        rig.set("flush_hold", "writes");
        let client = rig.client();
        rig.flush(client, 1);
        rig.pull();
        let tickets = [100, 200, 300, 400, 500].map(|sector| rig.write(client, sector, 8));
        assert_eq!(rig.pulled_words(), "");
        let stage = |ticket| rig.queue.request_with(ticket).map(|request| request.stage());
        let held = tickets.iter().filter(|&&ticket| stage(ticket) == Some(Stage::Dispatched));
        assert_eq!(held.count(), 3, "{elevator}");
        assert_eq!(rig.explain(tickets[0]), "it was chosen and is held until the flush has ended");
        rig.complete_flush();
        assert_eq!(rig.served_words(), "W100 W200 W300 W400 W500", "{elevator}");
    }
}

/// Does a second flush go before writes that are held for the first? It then finds a clean cache,
/// which is the purpose of the hold.
#[test]
fn held_writes_let_the_next_flush_pass() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        rig.set("flush_hold", "writes");
        let client = rig.client();
        rig.flush(client, 1);
        rig.pull();
        rig.write(client, 8, 8);
        rig.pull();
        rig.flush(client, 2);
        rig.complete_flush();
        assert_eq!(rig.served_words(), "F W8", "{elevator}");
    }
}

/// Does a change of the attribute release what is held?
#[test]
fn held_writes_go_when_the_hold_is_lifted() {
    let mut rig = commanded(cached(), "deadline");
    rig.set("flush_hold", "writes");
    let client = rig.client();
    rig.flush(client, 1);
    rig.write(client, 8, 8);
    assert_eq!(rig.pulled_words(), "F");
    rig.set("flush_hold", "off");
    assert_eq!(rig.pulled_words(), "W8");
}

// ----------------------------------------------------------------------------------- flush_drain

/// How often the disk refuses a flush that comes during three writes, which take 3 ms.
fn refused_beside_three(elevator: &str, drain: &str) -> (u32, String) {
    let mut show = drive::Show::new(sata(), drive::COSTS, elevator);
    show.set("flush_drain", drain);
    let client = show.client();
    for sector in [100, 200, 300] {
        show.submit(Bio::new(client, Op::Write, sector, 8).cookie(sector));
    }
    show.pump();
    show.submit(Bio::flush(client).cookie(1));
    show.go_us(50_000);
    assert_eq!(show.end_of(1), 13_000, "three writes of 1 ms, a flush of 10");
    (show.drive.refused_flushes, show.words())
}

/// Does a flush that cannot be queued wait until the device is empty? Otherwise it is refused 3
/// times: at first, and at each completion but the last.
#[test]
fn a_drained_flush_is_never_refused() {
    for elevator in BOTH_LAYERS {
        let words = String::from("W100 W200 W300 F");
        assert_eq!(refused_beside_three(elevator, "0"), (3, words.clone()), "{elevator}");
        assert_eq!(refused_beside_three(elevator, "1"), (0, words), "{elevator}");
    }
}

/// While a flush waits for an empty device, is nothing else issued before it?
#[test]
fn a_drained_flush_keeps_its_turn() {
    let mut rig = commanded(sata(), "deadline");
    rig.set("flush_drain", "1");
    let client = rig.client();
    rig.read(client, 0, 8);
    rig.pull();
    rig.flush(client, 1);
    rig.read(client, 800, 8);
    assert_eq!(rig.pulled_words(), "");
    assert_eq!(rig.why, Waiting::Flush);
    assert_eq!(rig.served_words(), "F R800");
}

// ----------------------------------------------------------------------------------- flush_elide

/// A queue whose cache is known to be clean, because a flush has just ended.
fn flushed(elevator: &str, facts: DeviceFacts) -> (Rig, ClientId) {
    let mut rig = commanded(facts, elevator);
    rig.set("flush_elide", "1");
    let client = rig.client();
    rig.flush(client, 1);
    assert_eq!(rig.served_words(), "F", "what was written before is not known");
    (rig, client)
}

/// Does a flush right after a flush need no command, and a write with PREFLUSH only one for its
/// data?
#[test]
fn a_flush_of_a_clean_cache_is_no_command() {
    for elevator in BOTH_LAYERS {
        let (mut rig, client) = flushed(elevator, cached());
        rig.flush(client, 2);
        assert_eq!(rig.served_words(), "", "{elevator}");
        assert_eq!(rig.done[1..], [(2, Status::Ok)]);
        rig.ordered(client, 8, Flags::PREFLUSH);
        assert_eq!(rig.served_words(), "W8");
        rig.flush(client, 3);
        assert_eq!(rig.served_words(), "F", "now there is something");
        rig.read(client, 8, 8);
        rig.serve();
        rig.flush(client, 4);
        assert_eq!(rig.served_words(), "", "reads leave it clean");
    }
}

/// Does a write between two flushes make the second necessary, whether it ends after the first,
/// during it, or fails? One that is still in flight does not matter: its client has no completion
/// yet.
#[test]
fn a_write_between_makes_it_a_command() {
    for elevator in BOTH_LAYERS {
        for outcome in [Outcome::OK, Outcome::failed(5)] {
            let (mut rig, client) = flushed(elevator, cached());
            rig.write(client, 8, 8);
            assert_eq!(rig.pulled_words(), "W8");
            rig.flush(client, 2);
            assert_eq!(rig.pulled_words(), "", "W8 is under way, nothing has ended");
            assert_eq!(rig.ended(), [1, 2]);
            let write = rig.inside.pop_front().expect("W8");
            rig.queue.complete(rig.now, write.tag, outcome).expect("it is in the device");
            rig.flush(client, 3);
            assert_eq!(rig.pulled_words(), "F", "{elevator} {outcome:?}");
            rig.write(client, 800, 8);
            assert_eq!(rig.pulled_words(), "W800");
            rig.complete_at(800);
            rig.complete_flush();
            rig.flush(client, 4);
            assert_eq!(rig.served_words(), "F", "W800 ended during the flush");
        }
    }
}

/// Is the cache assumed dirty after a failed flush, if there was something to flush?
#[test]
fn a_failed_flush_leaves_it_dirty() {
    for elevator in BOTH_LAYERS {
        let (mut rig, client) = flushed(elevator, cached());
        rig.write(client, 8, 8);
        rig.serve();
        rig.flush(client, 2);
        rig.pull();
        let flush = rig.inside.pop_front().expect("a flush");
        rig.queue.complete(rig.now, flush.tag, Outcome::failed(5)).expect("in the device");
        rig.flush(client, 3);
        assert_eq!(rig.served_words(), "F", "{elevator}");
        rig.flush(client, 4);
        assert_eq!(rig.served_words(), "");
    }
}

/// Do FUA writes leave the cache clean on a device that supports them? On one that does not, their
/// postflush does.
#[test]
fn a_fua_write_leaves_it_clean() {
    for elevator in BOTH_LAYERS {
        for (fua, order) in [(true, "W8!"), (false, "W8 F")] {
            let (mut rig, client) = flushed(elevator, DeviceFacts { fua, ..cached() });
            rig.ordered(client, 8, Flags::FUA);
            assert_eq!(rig.served_words(), order, "{elevator}");
            rig.flush(client, 2);
            assert_eq!(rig.served_words(), "", "{elevator}");
        }
    }
}

/// Is the cache assumed dirty after a failed FUA write? Its data may be in it; and the failure may
/// have hit another client's data.
#[test]
fn a_failed_fua_write_leaves_it_dirty() {
    for elevator in BOTH_LAYERS {
        let (mut rig, client) = flushed(elevator, DeviceFacts { fua: true, ..cached() });
        rig.ordered(client, 8, Flags::FUA);
        assert_eq!(rig.pulled_words(), "W8!", "{elevator}");
        let write = rig.inside.pop_front().expect("W8");
        rig.queue.complete(rig.now, write.tag, Outcome::failed(5)).expect("it is in the device");
        rig.flush(client, 2);
        assert_eq!(rig.served_words(), "F", "{elevator}");
    }
}

/// Is a cache assumed dirty after the device was declared to have none for a while?
#[test]
fn a_cache_that_was_denied_is_dirty() {
    let (mut rig, client) = flushed("deadline", cached());
    rig.set("write_cache", "write through");
    rig.write(client, 8, 8);
    rig.serve();
    rig.set("write_cache", "write back");
    rig.flush(client, 2);
    assert_eq!(rig.served_words(), "F");
}

// ----------------------------------------------------------------------------------- flush_delay

/// Does a flush wait for others while the queue is not empty, and does the caller get its due time,
/// 500 us after it came?
#[test]
fn a_delayed_flush_names_its_time() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        rig.set("flush_delay", "500");
        let client = rig.client();
        rig.read(client, 0, 8);
        rig.pull();
        rig.at_us(100);
        rig.flush(client, 1);
        assert_eq!(rig.pulled_words(), "", "{elevator}");
        assert_eq!((rig.why, rig.until), (Waiting::Flush, Some(Nanos::from_micros(600))));
        rig.at_us(300);
        rig.flush(client, 2);
        assert_eq!(rig.pulled_words(), "");
        assert_eq!(rig.until, Some(Nanos::from_micros(600)), "of the first");
        rig.at_us(600);
        assert_eq!(rig.pulled_words(), "F");
        rig.complete_flush();
        rig.pull();
        assert_eq!(rig.ended(), [1, 2]);
    }
}

/// Is a delayed flush of a clean cache reported as done by the very call of `next` that finds it
/// due? (It was not: the caller was told to wait, and had no reason to ask again.)
#[test]
fn a_delayed_flush_of_a_clean_cache_ends_in_time() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        rig.set("flush_elide", "1");
        let client = rig.client();
        rig.flush(client, 1);
        rig.pull();
        rig.complete_flush();
        rig.pull();
        rig.set("flush_delay", "500");
        rig.read(client, 0, 8);
        rig.pull();
        rig.at_us(100);
        rig.flush(client, 2);
        assert_eq!((rig.pulled_words().as_str(), rig.ended()), ("", vec![1]), "{elevator}");
        rig.at_us(600);
        assert_eq!((rig.pulled_words().as_str(), rig.ended()), ("", vec![1, 2]), "{elevator}");
    }
}

/// Is a flush issued at once if the queue is empty, becomes empty, or the delay is removed?
#[test]
fn a_delay_is_for_a_queue_that_is_not_empty() {
    let rig = || {
        let mut rig = commanded(cached(), "deadline");
        rig.set("flush_delay", "500");
        let client = rig.client();
        (rig, client)
    };
    let (mut alone, client) = rig();
    alone.flush(client, 1);
    assert_eq!(alone.pulled_words(), "F");

    let (mut emptied, client) = rig();
    emptied.read(client, 0, 8);
    emptied.pull();
    emptied.flush(client, 1);
    assert_eq!(emptied.pulled_words(), "");
    emptied.complete_at(0);
    assert_eq!(emptied.pulled_words(), "F");

    let (mut lifted, client) = rig();
    lifted.read(client, 0, 8);
    lifted.pull();
    lifted.flush(client, 1);
    assert_eq!(lifted.pulled_words(), "");
    lifted.set("flush_delay", "0");
    assert_eq!(lifted.pulled_words(), "F");
}

// ----------------------------------------------------------------------------------- write_cache

/// Does `write through` make flushes no-ops and FUA a plain write, and `write back` undo that?
#[test]
fn write_through_needs_no_flush() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.set("write_cache", "write through");
        rig.flush(client, 1);
        assert_eq!(rig.served_words(), "");
        rig.ordered(client, 8, Flags::PREFLUSH | Flags::FUA);
        assert_eq!(rig.served_words(), "W8", "{elevator}");
        rig.set("write_cache", "write back");
        rig.ordered(client, 16, Flags::PREFLUSH | Flags::FUA);
        assert_eq!(rig.served_words(), "F W16 F");
        assert_eq!(rig.ended(), [1, 8, 16]);
    }
}

/// Does a client that already waits for a flush when the cache is declared absent still get it?
#[test]
fn write_through_ends_no_sequence_early() {
    let mut rig = commanded(cached(), "deadline");
    let client = rig.client();
    rig.flush(client, 1);
    rig.pull();
    rig.ordered(client, 8, Flags::PREFLUSH | Flags::FUA);
    rig.set("write_cache", "write through");
    assert_eq!(rig.served_words(), "F W8 F");
    assert_eq!(rig.ended(), [1, 8]);
}

// ---------------------------------------------------------------------------------------- cancel

/// Can a bio in the pending list be withdrawn, and one in the running list not, nor one whose data
/// is in flight or done?
#[test]
fn a_waiting_flush_can_be_withdrawn() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        let running = rig.ordered(client, 8, Flags::PREFLUSH | Flags::FUA);
        rig.pull();
        let pending = rig.ordered(client, 16, Flags::PREFLUSH);
        let flush = rig.flush(client, 2);
        assert_eq!(rig.queue.cancel(rig.now, running), Err(CancelError::TooLate));
        assert_eq!(rig.queue.cancel(rig.now, pending), Ok(()));
        assert_eq!(rig.queue.cancel(rig.now, flush), Ok(()));
        rig.complete_flush();
        for step in ["W8", "F"] {
            assert_eq!(rig.queue.cancel(rig.now, running), Err(CancelError::TooLate), "{step}");
            assert_eq!(rig.pulled_words(), step, "{elevator}");
            rig.complete_oldest();
        }
        rig.pull();
        rig.done.sort_by_key(|&(cookie, _)| cookie);
        let ends = [(2, Status::Cancelled), (8, Status::Ok), (16, Status::Cancelled)];
        assert_eq!(rig.done, ends, "{elevator}");
        assert_eq!(rig.queue.allocated(), (0, 0));
    }
}

/// Can a bio whose data is done be withdrawn while it waits for its postflush? No: it has begun.
#[test]
fn a_waiting_postflush_cannot() {
    let mut rig = commanded(cached(), "deadline");
    let client = rig.client();
    let ticket = rig.ordered(client, 8, Flags::FUA);
    rig.pull();
    rig.flush(client, 1);
    rig.set("flush_delay", "1000");
    rig.read(client, 800, 8);
    rig.pull();
    rig.complete_at(8);
    assert_eq!(rig.pulled_words(), "", "delayed, so that it stands in the pending list");
    assert_eq!(rig.queue.cancel(rig.now, ticket), Err(CancelError::TooLate));
}
