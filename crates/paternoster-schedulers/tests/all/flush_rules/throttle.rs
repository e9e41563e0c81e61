// SPDX-License-Identifier: MIT OR Apache-2.0
//! The throttle, which holds back clients that have taken device time with a flush: which of them
//! are released, and when.
//!
//! The elevator is that of `owner`, under which each client has half of the device; at the end bfq
//! and cfq show the result.

use super::drive::{COSTS, Show};
use super::owner::{Halves, Till};
use super::*;
use paternoster_core::{Nanos, Outcome, Stage, Status, Waiting};

/// A owes 3 ms: it has written, and its flush has taken 3 ms.
fn debtor(till: &mut Till) -> ClientId {
    let a = till.rig.client();
    till.write(a, 0, 8);
    till.flush(a, 3000, Outcome::OK);
    a
}

/// Is a client that owes device time throttled, reads and writes alike, while another client is
/// served; and is the reason given?
#[test]
fn a_client_that_owes_is_throttled() {
    let mut till = Till::new();
    let a = debtor(&mut till);
    let reader = till.rig.client();
    till.read(reader, 800);
    let tickets = [till.rig.write(a, 8, 8), till.rig.read(a, 80, 8)];
    assert_eq!(tickets.map(|ticket| till.stage(ticket)), [Some(Stage::Throttled); 2]);
    assert_eq!(till.rig.pulled_words(), "");
    assert_eq!(till.rig.why, Waiting::Throttled);
    let why = "it waits until others have had the device for as long as its client has taken it \
               with flushes";
    assert_eq!(till.rig.explain(tickets[0]), why);
    // So are writes with PREFLUSH or FUA; a flush without data is not throttled.
    let ordered = till.rig.ordered(a, 88, Flags::PREFLUSH | Flags::FUA);
    assert_eq!(till.stage(ordered), Some(Stage::Throttled));
    till.rig.flush(a, 7);
    assert_eq!(till.rig.pulled_words(), "F");
}

/// Is the debt repaid by the device time of others: after three reads of 1 ms, and not before?
#[test]
fn a_debt_is_repaid_by_others_device_time() {
    let mut till = Till::new();
    let a = debtor(&mut till);
    let reader = till.rig.client();
    let ticket = till.rig.write(a, 8, 8);
    for left in [2, 1, 0] {
        till.rig.read(reader, 800 + left, 8);
        assert_eq!(till.stage(ticket), Some(Stage::Throttled), "{left}");
        assert_eq!(till.rig.pulled_words(), format!("R{}", 800 + left));
        till.pass(1000);
        till.rig.complete_at(800 + left);
    }
    assert_eq!(till.rig.pulled_words(), "W8");
}

/// Is every client let in again after the others have had 5 s, however much it was charged? A's
/// 3000 flushes of 3 ms cost 9 s.
#[test]
fn a_debt_has_a_limit() {
    let mut till = Till::new();
    let [a, reader] = [0; 2].map(|_| till.rig.client());
    for _ in 0..3000 {
        till.flush(a, 3000, Outcome::OK);
    }
    till.rig.write(a, 80, 8);
    for (sector, seconds, let_in) in [(800, 4, ""), (808, 1, "W80")] {
        till.rig.read(reader, sector, 8);
        assert_eq!(till.rig.pulled_words(), format!("R{sector}"));
        till.pass(seconds * 1_000_000);
        till.rig.complete_at(sector);
        assert_eq!(till.rig.pulled_words(), let_in, "{seconds} s");
    }
}

/// Does a client that was let in late owe less the next time? A read of 3.6 ms repays 3 ms; of the
/// next 3 ms only 2.4 are left.
#[test]
fn lateness_is_credited() {
    let mut till = Till::new();
    let a = debtor(&mut till);
    let reader = till.rig.client();
    let read = |till: &mut Till, sector: u64, us: u64| {
        till.rig.read(reader, sector, 8);
        assert_eq!(till.rig.pulled_words(), format!("R{sector}"));
        till.pass(us);
        till.rig.complete_at(sector);
    };
    read(&mut till, 800, 3600);
    till.write(a, 8, 8);
    till.flush(a, 3000, Outcome::OK);
    till.rig.write(a, 80, 8);
    read(&mut till, 808, 2300);
    assert_eq!(till.rig.pulled_words(), "");
    read(&mut till, 816, 100);
    assert_eq!(till.rig.pulled_words(), "W80");
}

/// If no others come, how long is A kept out? Not at all if none was served in the last 2 ms;
/// otherwise until 2 ms after the last was served.
#[test]
fn patience_is_two_milliseconds() {
    let mut till = Till::new();
    let a = debtor(&mut till);
    till.rig.write(a, 8, 8);
    assert_eq!(till.rig.pulled_words(), "W8", "alone");

    let mut till = Till::new();
    let a = debtor(&mut till);
    let reader = till.rig.client();
    till.read(reader, 800);
    let read_ended = till.rig.now;
    till.pass(500);
    till.rig.write(a, 8, 8);
    assert_eq!(till.rig.pulled_words(), "");
    let until = read_ended + Nanos::from_millis(2);
    assert_eq!((till.rig.why, till.rig.until), (Waiting::Throttled, Some(until)));
    till.rig.now = Nanos(until.0 - 1);
    assert_eq!(till.rig.pulled_words(), "");
    till.rig.now = until;
    assert_eq!(till.rig.pulled_words(), "W8");
}

/// Which client is released first if no other comes? The one that owes least. A owes 3 ms, of which
/// B's flush of 2 ms repays 2; B owes those 2. The reader is served in no time.
#[test]
fn who_owes_least_goes_first() {
    let mut till = Till::new();
    let [b, reader] = [0; 2].map(|_| till.rig.client());
    let a = debtor(&mut till);
    till.write(b, 160, 8);
    till.flush(b, 2000, Outcome::OK);
    till.rig.read(reader, 800, 8);
    till.rig.pull();
    till.rig.complete_at(800);
    till.rig.write(b, 168, 8);
    till.rig.write(a, 8, 8);
    assert_eq!(till.rig.pulled_words(), "");
    till.rig.now = till.rig.until.expect("patience");
    assert_eq!(till.rig.pulled_words(), "W8");
    till.rig.complete_at(8);
    assert_eq!(till.rig.pulled_words(), "", "A owes nothing now, and has been served");
    till.rig.now = till.rig.until.expect("patience");
    assert_eq!(till.rig.pulled_words(), "W168");
}

/// With only two clients, which write and fsync, is the device never idle while one of them has
/// work? There must be as many fsyncs as with `flush_owners=0`.
#[test]
fn two_writers_alone_never_wait() {
    for elevator in ["cfq", "cfq-4.19", "bfq", "bfq-4.19"] {
        let fsyncs = |owners: &str| {
            let mut show = Show::new(sata(), COSTS, elevator);
            show.set("flush_owners", owners);
            let clients = [0; 2].map(|_| show.client());
            let write = |show: &mut Show, who: usize, round: u64| {
                let sector = (who as u64 + 1) * 1_000_000 + round * 64;
                let bio = Bio::new(clients[who], Op::Write, sector, 8).flags(Flags::SYNC);
                show.submit(bio.cookie(2 * who as u64));
            };
            write(&mut show, 0, 0);
            write(&mut show, 1, 0);
            let mut fsyncs = 0;
            show.run(Nanos::from_secs(2), |show, cookie| {
                let who = usize::from(cookie >= 2);
                if cookie % 2 == 0 {
                    show.submit(Bio::flush(clients[who]).cookie(cookie + 1));
                } else {
                    fsyncs += 1;
                    write(show, who, fsyncs);
                }
            });
            fsyncs
        };
        let (with, without) = (fsyncs("1"), fsyncs("0"));
        println!("{elevator}: {with} with owners, {without} without");
        assert!(with * 100 >= without * 98, "{elevator}: {with} with owners, {without} without");
    }
}

/// Can a throttled bio be withdrawn without a trace?
#[test]
fn a_throttled_bio_can_be_withdrawn() {
    let mut till = Till::new();
    let a = debtor(&mut till);
    let reader = till.rig.client();
    till.read(reader, 800);
    let [first, second] = [8, 16].map(|sector| till.rig.write(a, sector, 8));
    till.rig.queue.cancel(till.rig.now, first).expect("it waits");
    till.rig.queue.audit().expect("one is left");
    till.rig.queue.cancel(till.rig.now, second).expect("it waits");
    till.rig.queue.audit().expect("nothing is throttled");
    assert_eq!(till.rig.pulled_words(), "");
    assert_eq!((till.rig.why, till.rig.until), (Waiting::Empty, None));
    assert!(till.rig.done.contains(&(16, Status::Cancelled)));
}

/// If a client leaves, do its bios end even if they are throttled?
#[test]
fn a_throttled_client_may_leave() {
    let mut till = Till::new();
    let a = debtor(&mut till);
    let reader = till.rig.client();
    till.read(reader, 800);
    till.rig.write(a, 8, 8);
    till.rig.queue.detach(till.rig.now, a).expect("it is here");
    assert_eq!(till.rig.pulled_words(), "");
    till.rig.now = till.rig.until.expect("patience");
    assert_eq!(till.rig.served_words(), "W8");
    assert!(till.rig.queue.client(a).is_none());
    till.rig.queue.audit().expect("nobody is left");
}

/// Are throttled requests released at once, with another client busy all the time, by a change of
/// elevator, by the attribute, and by declaring that the device has no cache?
#[test]
fn what_is_throttled_goes_when_debts_end() {
    type Change = fn(&mut Rig);
    let changes: [(&str, Change); 3] = [
        ("elevator", |rig| {
            let next = paternoster_schedulers::by_name("deadline").expect("it is there");
            assert_eq!(rig.queue.change_elevator(rig.now, next).waiting(), 0);
        }),
        ("flush_owners", |rig| rig.set("flush_owners", "0")),
        ("write_cache", |rig| rig.set("write_cache", "write through")),
    ];
    for (what, change) in changes {
        let mut till = Till::new();
        let a = debtor(&mut till);
        let reader = till.rig.client();
        till.read(reader, 800);
        let ticket = till.rig.write(a, 8, 8);
        assert_eq!(till.stage(ticket), Some(Stage::Throttled));
        till.rig.read(reader, 8000, 8);
        till.rig.pull();
        change(&mut till.rig);
        till.rig.queue.audit().expect(what);
        assert_eq!(till.stage(ticket), Some(Stage::Waiting), "{what}");
        assert_eq!(till.rig.pulled_words(), "W8", "{what}");
        let next = till.rig.write(a, 16, 8);
        assert_eq!(till.stage(next), Some(Stage::Waiting), "{what}: nor is there one any more");
    }
}

/// A request that an elevator releases ahead of all others is charged for that. Is it not charged
/// for that if another elevator has taken it over meanwhile, which charges it like any other?
#[test]
fn who_is_handed_over_is_charged_once() {
    for (changes, charged) in [(false, 1000), (true, 0)] {
        let mut till = Till::new();
        let first = Halves::boxed(&till.charges, true);
        till.rig.queue.change_elevator(till.rig.now, first);
        let a = debtor(&mut till);
        let reader = till.rig.client();
        till.read(reader, 800);
        till.rig.write(a, 8, 8);
        till.charged([]);
        if changes {
            let next = Halves::boxed(&till.charges, true);
            till.rig.queue.change_elevator(till.rig.now, next);
        }
        assert_eq!(till.rig.pulled_words(), if changes { "W8" } else { "" });
        till.rig.now = till.rig.until.unwrap_or(till.rig.now);
        till.rig.pull();
        till.pass(1000);
        till.rig.complete_at(8);
        assert_eq!(till.charged([a]), [charged], "changes: {changes}");
    }
}

/// Is nothing throttled under elevators that divide nothing, so that the others claim nothing?
#[test]
fn noop_and_deadline_throttle_nothing() {
    for elevator in ["noop", "deadline", "mq-deadline", "kyber"] {
        let mut rig = commanded(cached(), elevator);
        let [a, reader] = [0; 2].map(|_| rig.client());
        rig.write(a, 0, 8);
        rig.serve();
        rig.flush(a, 1);
        rig.pull();
        rig.at(500);
        rig.complete_flush();
        rig.read(reader, 800, 8);
        rig.serve();
        let ticket = rig.write(a, 8, 8);
        let stage = rig.queue.request_with(ticket).map(|request| request.stage());
        assert_eq!(stage, Some(Stage::Waiting), "{elevator}");
    }
}

/// Do a reader and a client of the same weight that never stops syncing get half of the device
/// each? The client repeats a write of 1 ms and a flush of 10 ms, on a disk that does nothing else
/// during a flush; reads take 1 ms. Without owners the reader gets 306 reads under bfq, and 1824
/// under bfq-4.19.
#[test]
fn who_pays_has_its_half() {
    for elevator in ["cfq", "cfq-3.6", "cfq-4.19", "bfq", "bfq-4.19"] {
        let run = |owners: &str| {
            let mut show = Show::new(sata(), COSTS, elevator);
            show.set("flush_owners", owners);
            if elevator.starts_with("bfq") {
                show.set("low_latency", "0");
            }
            let [writer, reader] = [0; 2].map(|_| show.client());
            let write = |number: u64| {
                let sector = 1_000_000 + number % 10_000 * 64;
                Bio::new(writer, Op::Write, sector, 8).flags(Flags::SYNC).cookie(1)
            };
            let read = |number: u64| Bio::new(reader, Op::Read, number * 8, 8).cookie(2);
            let (mut reads, mut fsyncs) = (0, 0);
            show.submit(write(0));
            show.submit(read(0));
            show.run(Nanos::from_secs(2), |show, cookie| match cookie {
                1 => show.submit(Bio::flush(writer).cookie(3)),
                2 => {
                    reads += 1;
                    show.submit(read(reads));
                }
                _ => {
                    fsyncs += 1;
                    show.submit(write(fsyncs));
                }
            });
            (reads, fsyncs)
        };
        let (with, without) = (run("1"), run("0"));
        println!("{elevator}: reads, fsyncs {with:?} with owners, {without:?} without");
        if elevator.starts_with("bfq") {
            assert!((950..=1050).contains(&with.0), "{elevator}: {with:?}, half is 1000 reads");
            assert!((86..=95).contains(&with.1), "{elevator}: {with:?}, half is 1000 / 11 fsyncs");
        } else {
            // A write waits for a slice of 100 ms, by which time nothing is owed any more.
            assert_eq!(with, without, "{elevator}");
        }
    }
}
