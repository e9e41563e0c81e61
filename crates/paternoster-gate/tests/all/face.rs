// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core by examples: order, classes, deadlines, expiry, reports, words and figures.

use paternoster_gate::{
    Ask, AskError, ClassError, ClassId, ClassSpec, Core, Kind, Nanos, Next, NotOut, Op, Report,
    Settings, Ticket,
};

const READ: Ask = Ask::new(Op::Read, 4096);
const MS: u64 = 1_000_000;

/// A gate with one permit, which never tries more.
fn one_at_a_time() -> Core {
    Core::new(Settings { permits: 1, ..Settings::default() })
}

fn granted(gate: &mut Core, now: u64) -> Option<Ticket> {
    match gate.next(Nanos(now)) {
        Next::Granted(ticket) => Some(ticket),
        _ => None,
    }
}

/// Serves one at a time, each for a millisecond; each class keeps asking. How many each got.
fn serve(gate: &mut Core, asking: &[(ClassId, usize)], ends: usize) -> Vec<usize> {
    let mut had = vec![0; asking.len()];
    let mut whose = std::collections::HashMap::new();
    for (place, (class, depth)) in asking.iter().enumerate() {
        for _ in 0..*depth {
            whose.insert(gate.ask(Nanos(0), *class, READ).unwrap(), place);
        }
    }
    let mut now = 0;
    for _ in 0..ends {
        let ticket = loop {
            match gate.next(Nanos(now)) {
                Next::Granted(ticket) => break ticket,
                Next::Wait(at) => now = at.0,
                other => panic!("{other:?} at {now}"),
            }
        };
        now += MS;
        gate.give_back(Nanos(now), ticket).unwrap();
        let place = whose.remove(&ticket).unwrap();
        had[place] += 1;
        whose.insert(gate.ask(Nanos(now), asking[place].0, READ).unwrap(), place);
        gate.check().unwrap();
    }
    had
}

/// Do classes of 400 and 100 get four fifths and one, 400 and 100 of 500?
#[test]
fn classes_share_by_weight() {
    let mut gate = one_at_a_time();
    let heavy = gate.open(ClassSpec::new("heavy").weight(400)).unwrap();
    let light = gate.open(ClassSpec::new("light")).unwrap();
    let had = serve(&mut gate, &[(heavy, 4), (light, 4)], 500);
    assert!(had[0].abs_diff(400) <= 10, "{had:?}");
    // And the other way round from now on.
    gate.set_weight(Nanos(500 * MS), heavy, 25).unwrap();
    assert_eq!(gate.counts(heavy).unwrap().given_back, had[0] as u64);
}

/// Do classes below one share what it gets? Classes of 300 and 100 get 3/4 and 1/4; the first is
/// shared by alice (200), bob (100) and itself (100): 3/8, 3/16, 3/16 of 800.
#[test]
fn classes_nest() {
    let mut gate = one_at_a_time();
    let team = gate.open(ClassSpec::new("team").weight(300)).unwrap();
    let other = gate.open(ClassSpec::new("other")).unwrap();
    let alice = gate.open(ClassSpec::new("alice").weight(200).below(team)).unwrap();
    let bob = gate.open(ClassSpec::new("bob").below(team)).unwrap();
    let had = serve(&mut gate, &[(alice, 3), (bob, 3), (team, 3), (other, 3)], 800);
    for (had, due) in had.iter().zip([300_usize, 150, 150, 200]) {
        assert!(had.abs_diff(due) <= 16, "{had} of {due}");
    }
    assert_eq!(gate.close(Nanos(0), team), Err(ClassError::InUse));
    gate.close(Nanos(0), alice).unwrap();
    gate.close(Nanos(0), bob).unwrap();
    gate.close(Nanos(0), team).unwrap();
    assert_eq!(gate.close(Nanos(0), team), Err(ClassError::NoClass));
    gate.check().unwrap();
}

/// Does an urgent class go first, a background one get a share as by a sixteenth of its weight, and
/// an idle one a permit in 200 ms? In 1700 ms with a normal class: 1700 / 17 = 100 in the
/// background, at most 9 idle; with an urgent one that wants everything, no other class gets any.
#[test]
fn kinds() {
    let kinds = [("bulk", Kind::Normal), ("scrub", Kind::Background), ("idle", Kind::Idle)];
    let mut gate = one_at_a_time();
    let open = |(name, kind)| (gate.open(ClassSpec::new(name).kind(kind)).unwrap(), 4);
    let classes: Vec<_> = kinds.into_iter().map(open).collect();
    let had = serve(&mut gate, &classes, 1700);
    assert!((90..=110).contains(&had[1]) && (1..=9).contains(&had[2]), "{had:?}");

    let mut gate = one_at_a_time();
    let normal = gate.open(ClassSpec::new("normal")).unwrap();
    let urgent = gate.open(ClassSpec::new("urgent").kind(Kind::Urgent)).unwrap();
    let had = serve(&mut gate, &[(normal, 4), (urgent, 4)], 100);
    assert!(had[0] <= 1, "{had:?}");
    let idle = gate.open(ClassSpec::new("idle").kind(Kind::Idle)).unwrap();
    let below = gate.open(ClassSpec::new("below").below(idle));
    assert_eq!(below, Err(ClassError::Kind));
}

/// Does an idle gate give a permit at once, even if it is the only ask in a second?
#[test]
fn alone_one_never_waits() {
    let mut gate = Core::new(Settings::default());
    let class = gate.open(ClassSpec::new("a")).unwrap();
    for second in 0..100 {
        let now = second * 1000 * MS;
        let ticket = gate.ask(Nanos(now), class, READ).unwrap();
        assert_eq!(granted(&mut gate, now), Some(ticket));
        gate.give_back(Nanos(now + MS), ticket).unwrap();
    }
    assert_eq!(gate.counts(class).unwrap().device_time, Nanos(100 * MS));
}

/// Is a permit that is not given back in time reported, and stale from then on; and does the next
/// ask get its place? 30 s are over at 30 s.
#[test]
fn permits_expire() {
    let mut gate = one_at_a_time();
    let class = gate.open(ClassSpec::new("a")).unwrap();
    let lost = gate.ask(Nanos(0), class, READ.holder(7)).unwrap();
    assert_eq!(granted(&mut gate, 0), Some(lost));
    let next = gate.ask(Nanos(5), class, READ).unwrap();
    let Next::Wait(at) = gate.next(Nanos(5)) else { panic!("it has to be rung for") };
    assert!(at <= Nanos(30_000 * MS));
    assert_eq!(granted(&mut gate, 30_000 * MS), Some(next));
    let granted = Nanos(0);
    assert_eq!(gate.report(), Some(Report::Expired { ticket: lost, class, holder: 7, granted }));
    assert_eq!(gate.give_back(Nanos(30_001 * MS), lost), Err(NotOut));
    let counts = gate.counts(class).unwrap();
    assert_eq!((counts.granted, counts.given_back, counts.expired), (2, 0, 1));
    gate.check().unwrap();
}

/// Is a holder that asks for another permit reported, and one that has given its permit back not?
#[test]
fn a_holder_that_waits_is_reported() {
    let mut gate = Core::new(Settings::default());
    let class = gate.open(ClassSpec::new("a")).unwrap();
    let first = gate.ask(Nanos(0), class, READ.holder(7)).unwrap();
    assert_eq!(granted(&mut gate, 0), Some(first));
    gate.ask(Nanos(1), class, READ.holder(8)).unwrap();
    assert_eq!(gate.report(), None);
    let ticket = gate.ask(Nanos(2), class, READ.holder(7)).unwrap();
    assert_eq!(gate.report(), Some(Report::HolderWaits { holder: 7, class, ticket }));
    gate.give_back(Nanos(3), first).unwrap();
    gate.give_back(Nanos(4), ticket).unwrap();
    gate.ask(Nanos(5), class, READ.holder(7)).unwrap();
    assert_eq!(gate.report(), None);
}

/// Is an I/O that cannot be done in time refused at once, with the time at which it would be done;
/// and is one that should have been in time, and was not, reported at its deadline?
#[test]
fn deadlines() {
    let mut gate = one_at_a_time();
    let class = gate.open(ClassSpec::new("a")).unwrap();
    // Ten of 1 ms one after the other: all that the gate knows of the class.
    serve(&mut gate, &[(class, 1)], 10);
    let now = Nanos(10 * MS);
    let eta = gate.eta(now, class, Op::Read, 4096).unwrap();
    assert!(eta.done.0 >= 11 * MS && eta.done.0 <= 13 * MS, "{eta:?}");
    let asked = gate.ask(now, class, READ.by(Nanos(10 * MS + 10)));
    assert!(matches!(asked, Err(AskError::TooLate(_))), "{asked:?}");
    let late = gate.ask(now, class, READ.by(Nanos(14 * MS))).unwrap();
    // An ask whose permit is out does not end.
    assert!(granted(&mut gate, 10 * MS).is_some());
    assert!(matches!(gate.next(Nanos(13 * MS)), Next::Wait(at) if at <= Nanos(14 * MS)));
    assert_eq!(gate.next(Nanos(14 * MS)), Next::TooLate(late));
    assert!(!gate.withdraw(Nanos(14 * MS), late));
    assert_eq!(gate.counts(class).unwrap().too_late, 2);
    gate.check().unwrap();
}

/// Do asks beyond the gate's places get an error, and a place later?
#[test]
fn places_run_out() {
    let mut gate = Core::new(Settings { asks: 16, permits: 1, ..Settings::default() });
    let class = gate.open(ClassSpec::new("a")).unwrap();
    let tickets: Vec<_> = (0..16).map(|_| gate.ask(Nanos(0), class, READ).unwrap()).collect();
    assert_eq!(gate.ask(Nanos(0), class, READ), Err(AskError::Full));
    assert!(gate.withdraw(Nanos(1), tickets[9]));
    gate.ask(Nanos(1), class, READ).unwrap();
    gate.check().unwrap();
}

/// Does it say in words why an ask waits, and give the figures?
#[test]
fn words_and_figures() {
    let mut gate = one_at_a_time();
    let class = gate.open(ClassSpec::new("say \"a\"")).unwrap();
    let first = gate.ask(Nanos(0), class, READ).unwrap();
    let second = gate.ask(Nanos(0), class, READ).unwrap();
    assert_eq!(granted(&mut gate, MS), Some(first));
    let mut text = String::new();
    gate.explain_all(10, &mut text).unwrap();
    assert!(text.starts_with("say \"a\", 4096 bytes: it waits for"), "{text}");
    text.clear();
    gate.explain(first, &mut text).unwrap();
    assert!(text.contains("it has had its permit for 1 ms"), "{text}");
    gate.withdraw(Nanos(MS), second);
    text.clear();
    gate.metrics(&mut text).unwrap();
    let line = "paternoster_gate_withdrawn_total{class=\"say \\\"a\\\"\"} 1\n";
    assert!(text.contains(line) && text.contains("paternoster_gate_depth 1\n"), "{text}");
}
