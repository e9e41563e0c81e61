// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens through refusals and changes of elevator, the timer, attributes and explanations.

use super::*;

// ------------------------------------------------------------------------------------------ tokens

/// Does a refused request return its token, go first in its domain, and take one again? 65 discards
/// for 64 tokens: the refused one goes before the 65th, which still waits.
#[test]
fn tokens_of_refused_requests() {
    for rules in ["mq", "legacy"] {
        let mut kyber = Kyber::new();
        kyber.rig.set("rules", rules);
        kyber.submit(Op::Discard, 65);
        kyber.rig.pull();
        kyber.rig.refuse(2000);
        kyber.pass(Nanos::from_millis(3));
        assert_eq!((kyber.rig.pulled(), kyber.rig.why), (vec![], Waiting::Refused));
        kyber.rig.complete_at(100);
        assert_eq!(kyber.rig.pulled(), [2000, 6500], "{rules}: one token free, one brought back");
        assert!(kyber.rig.pull().is_empty());
        kyber.rig.queue.audit().unwrap();
    }
}

/// Do requests that outlive a change of elevator hold no tokens, and are their latencies not
/// counted? With 256 reads of the old kyber in the device, the new one lets 256 more go. The 257th
/// waits even when the old reads end, after 11 ms.
#[test]
fn tokens_and_a_change_of_elevator() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Read, 257);
    assert_eq!(kyber.rig.pull().len(), 256);
    kyber
        .rig
        .queue
        .change_elevator(kyber.rig.now, paternoster_schedulers::by_name("kyber").unwrap());
    kyber.submit(Op::Read, 256);
    assert_eq!(kyber.rig.pull().len(), 256);
    kyber.pass(MS11);
    for _ in 0..256 {
        kyber.rig.complete_oldest();
    }
    assert!(kyber.rig.pull().is_empty());
    assert_eq!(kyber.rig.until, None, "no timer");
    kyber.rig.complete_oldest();
    assert_eq!(kyber.rig.pull().len(), 1);
    kyber.complete_all();
    assert_eq!(kyber.rig.queue.allocated(), (0, 0));
}

/// Is a kyber that comes back to a queue like new, except for its targets? Its depth, which had
/// fallen to 64, is 256 again.
#[test]
fn tokens_of_a_kyber_that_comes_back() {
    let mut kyber = Kyber::new();
    kyber.rig.set("read_lat_nsec", "8000000");
    kyber.quick(Op::Read, 500, MS1);
    kyber.congestion();
    assert_eq!(kyber.fit(Op::Read), 64);
    let old = kyber
        .rig
        .queue
        .change_elevator(kyber.rig.now, paternoster_schedulers::by_name("mq-deadline").unwrap());
    kyber.rig.queue.change_elevator(kyber.rig.now, old);
    assert_eq!((kyber.fit(Op::Read), kyber.rig.get("read_lat_nsec")), (256, "8000000".into()));
}

/// Does a forced dispatch need no tokens, but count them? 300 reads go; 300 - 256 + 1 = 45 have to
/// end before the next.
#[test]
fn tokens_and_a_forced_dispatch() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Read, 300);
    assert_eq!(kyber.rig.queue.dispatch_all(kyber.rig.now), 300);
    assert_eq!(kyber.rig.pull().len(), 300);
    kyber.submit(Op::Read, 1);
    for ends in 0..45 {
        assert!(kyber.rig.pull().is_empty(), "behind {ends} ends");
        kyber.rig.complete_oldest();
    }
    assert_eq!(kyber.rig.pull().len(), 1);
}

/// Does a withdrawn request leave no trace, and does one that loses a bio keep its turn?
#[test]
fn tokens_and_cancel() {
    let mut rig = Rig::new(disk(1), "kyber");
    rig.set("nr_requests", "64");
    let client = rig.client();
    let [first, _, third] = [0, 8, 100].map(|sector| rig.read(client, sector, 8));
    rig.read(client, 200, 8);
    rig.queue.cancel(rig.now, first).unwrap();
    rig.queue.cancel(rig.now, third).unwrap();
    assert_eq!(rig.served(), [8, 200]);
    assert_eq!(rig.queue.allocated(), (0, 0));
}

// ------------------------------------------------------------------------------------------- timer

/// Does the timer ring at most 100 ms after a completion, once, and not for ever? Completions at 5
/// and 50 ms: 105 ms. Nothing ends after that: nothing to check.
#[test]
fn timer_rings_once_after_an_end() {
    let mut rig = Rig::new(disk(2), "kyber");
    let client = rig.client();
    rig.read(client, 0, 8);
    rig.read(client, 100, 8);
    rig.pull();
    assert_eq!(rig.until, None);
    for ms in [5, 50] {
        rig.at(ms);
        rig.complete_oldest();
        rig.pull();
        assert_eq!(rig.until, Some(Nanos::from_millis(105)));
    }
    rig.at(105);
    rig.pull();
    assert_eq!((rig.until, rig.why), (None, Waiting::Empty));
}

/// In ticks, does it ring at a tick? hz=250: 5.9 ms is tick 4 ms, so 104 ms. Latencies stay exact:
/// 0.5 ms and a nanosecond is in bucket 1.
#[test]
fn timer_in_ticks() {
    let mut kyber = Kyber::new();
    kyber.rig.set("hz", "250");
    kyber.rig.at_us(5_400);
    kyber.quick(Op::Read, 250, Nanos(500_001));
    kyber.quick(Op::Read, 250, Nanos(500_001));
    assert_eq!(kyber.rig.until, Some(Nanos::from_millis(104)));
    kyber.look();
    assert_eq!(kyber.told(Op::Read), [(90, 2), (99, 2)]);
}

// -------------------------------------------------------------------------- attributes and explain

/// Which attributes can be set, to which values, and what is refused?
#[test]
fn attributes_of_kyber() {
    let mut rig = Rig::new(disk(32), "kyber");
    let mut lines = Vec::new();
    rig.queue.for_each_attribute(|path, _, value| lines.push(format!("{path}:{value}")));
    lines.retain(|line| line.starts_with("iosched/"));
    assert_eq!(lines, ["iosched/read_lat_nsec:2000000", "iosched/write_lat_nsec:10000000"]);
    for (text, shown) in [("0", "0"), ("-1", "0"), (" 75000\n", "75000")] {
        rig.set("write_lat_nsec", text);
        assert_eq!(
            (rig.get("write_lat_nsec"), rig.get("read_lat_nsec")),
            (shown.into(), "2000000".into())
        );
    }
    assert_eq!(
        rig.refusal("read_lat_nsec", "2ms"),
        "attribute `read_lat_nsec` cannot be `2ms`: it takes a whole number from 0 up"
    );
}

/// Why does a request wait: its line, its tokens, or others' turns?
#[test]
fn explain_names_line_tokens_and_turn() {
    let mut kyber = Kyber::new();
    kyber.submit(Op::Discard, 64);
    kyber.submit(Op::Write, 3);
    assert_eq!(kyber.rig.pull().len(), 67);
    let bio = |kyber: &Kyber, op, sector| Bio::new(kyber.client, op, sector, 8).flags(Flags::SYNC);
    let tickets = [(Op::Discard, 1), (Op::Discard, 20), (Op::Write, 40), (Op::Write, 60)]
        .map(|(op, sector)| kyber.rig.submit(bio(&kyber, op, sector)));
    let read = kyber.rig.submit(bio(&kyber, Op::Read, 80));
    let why = |ticket| {
        let text = kyber.rig.explain(ticket);
        text.strip_prefix("it waits for 0 s in kyber because ").unwrap().to_owned()
    };
    assert_eq!(why(tickets[0]), "it is the next discard; 64 of 64 tokens for discards are taken");
    assert_eq!(
        why(tickets[1]),
        "one discard came before it; 64 of 64 tokens for discards are taken"
    );
    // The discards, which went last, are out of tokens, and so no obstacle.
    assert_eq!(why(tickets[3]), "one write came before it");
    assert_eq!(why(read), "it is the next read");

    let mut rig = Rig::new(disk(1), "kyber");
    rig.set("nr_requests", "64");
    let client = rig.client();
    for n in 0..9 {
        rig.read(client, n * 100, 8);
    }
    let write = rig.write(client, 5000, 8);
    assert_eq!(runs(&rig.serve_some(3)), "R3 ");
    let why = "it is the next write; reads have their turn, 3 of 16 have gone";
    assert!(rig.explain(write).ends_with(why), "{}", rig.explain(write));
}
