// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caps and floors, compared with models too simple to be wrong: a leaky bucket in fractions, and
//! sums of what was granted in every window.

use paternoster_gate::{
    Ask, ClassError, ClassId, ClassSpec, Core, Kind, Nanos, Next, Op, Rate, Settings, Ticket,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// How far a class may be ahead of its cap, as `ClassSpec::cap` says.
const BURST: u64 = 100 * MS;

/// A class with `depth` asks at a time, each repeated as soon as it has ended.
#[derive(Debug, Clone, Copy)]
struct Load {
    class: ClassId,
    depth: usize,
    len: u64,
}

/// When, for which load, how many bytes.
type Grants = Vec<(u64, usize, u64)>;

/// A device that takes `time` for each, as many at a time as there are permits, until `ends`.
fn serve(gate: &mut Core, loads: &[Load], time: u64, ends: u64) -> Grants {
    let mut whose: Vec<(Ticket, usize)> = Vec::new();
    let mut ask = |gate: &mut Core, now: u64, place: usize| {
        let Load { class, len, .. } = loads[place];
        let ticket = gate.ask(Nanos(now), class, Ask::new(Op::Read, len)).unwrap();
        whose.push((ticket, place));
    };
    for (place, load) in loads.iter().enumerate() {
        (0..load.depth).for_each(|_| ask(gate, 0, place));
    }
    let mut inside: Vec<(u64, Ticket, usize)> = Vec::new();
    let (mut now, mut grants, mut rounds) = (0, Vec::new(), 0_u64);
    while now < ends {
        let wakes = loop {
            match gate.next(Nanos(now)) {
                Next::Granted(ticket) => {
                    let place = whose.iter().rev().find(|(own, _)| *own == ticket).unwrap().1;
                    grants.push((now, place, loads[place].len));
                    inside.push((now + time, ticket, place));
                }
                Next::Wait(at) => break at.0,
                Next::Idle => break u64::MAX,
                Next::TooLate(_) => panic!("nothing was asked for a time"),
            }
        };
        rounds += 1;
        if rounds.is_multiple_of(16) {
            gate.check().unwrap();
        }
        let first = inside.iter().map(|(at, ..)| *at).min().unwrap_or(u64::MAX);
        now = first.min(wakes);
        assert!(now != u64::MAX, "nothing happens any more");
        let ended: Vec<_> = inside.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, ticket, place) in ended {
            gate.give_back(Nanos(now), ticket).unwrap();
            let old = whose.iter().position(|(own, _)| *own == ticket).unwrap();
            whose.remove(old);
            let class = loads[place].class;
            let again = gate.ask(Nanos(now), class, Ask::new(Op::Read, loads[place].len)).unwrap();
            whose.push((again, place));
        }
    }
    grants
}

fn of(grants: &Grants, place: usize) -> usize {
    grants.iter().filter(|(_, own, _)| *own == place).count()
}

/// What a permit of `len` bytes costs at a rate, in ns, rounded down as in the gate: bytes and
/// requests each have a bucket, and the more expensive counts.
fn costs(rate: Rate, len: u64) -> [u128; 2] {
    let cost = |amount: u64, rate: u64| {
        u128::from(amount).saturating_mul(1_000_000_000).checked_div(u128::from(rate)).unwrap_or(0)
    };
    [cost(len, rate.bytes), cost(1, rate.requests)]
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![
        (1000..50_000_000_u64).prop_map(Rate::bytes),
        (5..2000_u64).prop_map(Rate::requests),
        (1000..50_000_000_u64, 5..2000_u64).prop_map(|(bytes, requests)| Rate { bytes, requests }),
    ]
}

/// A class: its cap or none, weight, number of askers, parent class (0: none), bytes of each ask.
fn capped() -> impl Strategy<Value = (Option<Rate>, u32, usize, usize, u64)> {
    (prop::option::of(rate()), 20..400_u32, 1..12_usize, 0..3_usize, 0..1_u64 << 19)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Are asks for a class with a cap granted to the nanosecond when a leaky bucket would, if
    /// nothing else is in their way? The n-th goes when all before it are paid for except 100 ms.
    #[test]
    fn a_cap_alone(
        rate in rate(),
        asks in prop::collection::vec((0..200_u64, 0..1_u64 << 20), 1..60),
    ) {
        let mut gate = Core::new(Settings::default());
        let class = gate.open(ClassSpec::new("a").cap(rate)).unwrap();
        let (mut now, mut paid, mut due) = (0_u64, [0_u128; 2], Vec::new());
        let mut last = 0;
        for (after, len) in &asks {
            now += after * MS;
            // After all earlier asks, and when both buckets have drained.
            let at = paid.iter().map(|paid| paid.saturating_sub(u128::from(BURST))).max().unwrap();
            last = at.max(u128::from(now)).max(last);
            for (paid, cost) in paid.iter_mut().zip(costs(rate, *len)) {
                if cost > 0 {
                    *paid = (*paid).max(last) + cost;
                }
            }
            due.push(last);
        }
        let mut clock = 0;
        let mut found = Vec::new();
        let mut hear = |gate: &mut Core, until: u64, clock: &mut u64| loop {
            match gate.next(Nanos(*clock)) {
                Next::Granted(ticket) => {
                    found.push(u128::from(*clock));
                    gate.give_back(Nanos(*clock), ticket).unwrap();
                }
                Next::Wait(at) if at.0 <= until => *clock = at.0,
                _ => {
                    *clock = until.max(*clock);
                    break;
                }
            }
        };
        let mut asked = 0;
        for (after, len) in &asks {
            asked += after * MS;
            hear(&mut gate, asked, &mut clock);
            gate.ask(Nanos(asked), class, Ask::new(Op::Read, *len)).unwrap();
        }
        hear(&mut gate, u64::MAX / 2, &mut clock);
        prop_assert_eq!(found, due);
        gate.check().unwrap();
    }

    /// Is a class with a cap, or those below it together, granted no more within any time than the
    /// cap says plus a tenth of a second and one permit, whatever the weights and the device?
    #[test]
    fn no_window_has_more_than_its_cap(
        caps in prop::collection::vec(capped(), 2..6),
        permits in 1..32_u32,
        time in 10_000..5_000_000_u64,
    ) {
        let mut gate = Core::new(Settings { permits, ..Settings::default() });
        let mut loads: Vec<Load> = Vec::new();
        let mut above: Vec<Option<usize>> = Vec::new();
        for (cap, weight, depth, below, len) in &caps {
            let mut spec = ClassSpec::new("some").weight(*weight).cap(cap.unwrap_or(Rate::NONE));
            let place = below.checked_sub(1).filter(|place| *place < loads.len());
            if let Some(place) = place {
                spec = spec.below(loads[place].class);
            }
            above.push(place);
            loads.push(Load { class: gate.open(spec).unwrap(), depth: *depth, len: *len });
        }
        let grants = serve(&mut gate, &loads, time, SECOND);
        for (place, (cap, ..)) in caps.iter().enumerate() {
            let Some(cap) = cap else { continue };
            let is_own = |own: usize| {
                std::iter::successors(Some(own), |at| above[*at]).any(|at| at == place)
            };
            let own: Vec<_> = grants.iter().filter(|(_, own, _)| is_own(*own)).collect();
            for first in 0..own.len() {
                let (mut sums, mut largest) = ([0; 2], [0; 2]);
                for (at, _, len) in &own[first..] {
                    for (place, cost) in costs(*cap, *len).into_iter().enumerate() {
                        sums[place] += cost;
                        largest[place] = cost.max(largest[place]);
                    }
                    // The ask let in last saw all others as paid for, except 100 ms. Which ask that
                    // was is unknown, but it is no larger than the largest.
                    let most = u128::from(at - own[first].0 + BURST);
                    for (sum, one) in sums.into_iter().zip(largest) {
                        let paid = sum - one;
                        prop_assert!(paid <= most, "{cap:?}: {paid} > {most}");
                    }
                }
            }
        }
    }

    /// Does a class get its floor in every window, whatever the others weigh and ask for, if the
    /// device can do the sum of all floors; and does the device never idle because of it? It does
    /// one at a time, each in a millisecond: an ask may wait for the permit before it and one of
    /// each other class with a floor, and the class may have had a tenth of a second in advance.
    #[test]
    fn every_window_has_its_floor(
        floors in prop::collection::vec((0..200_u64, 1..10_000_u32, 1..8_usize, 0..4_u8), 2..5),
        flood in 100..10_000_u32,
    ) {
        let mut gate = Core::new(Settings { permits: 1, ..Settings::default() });
        let kinds = [Kind::Normal, Kind::Normal, Kind::Background, Kind::Idle];
        let mut loads = Vec::new();
        for (floor, weight, depth, kind) in &floors {
            let spec = ClassSpec::new("some").weight(*weight).kind(kinds[usize::from(*kind)]);
            let class = gate.open(spec.floor(Rate::requests(*floor))).unwrap();
            // An ask of it always waits, in addition to those granted.
            loads.push(Load { class, depth: depth + 1, len: 4096 });
        }
        let class = gate.open(ClassSpec::new("flood").weight(flood)).unwrap();
        loads.push(Load { class, depth: 16, len: 4096 });
        let ends = 3 * SECOND;
        let grants = serve(&mut gate, &loads, MS, ends);
        // The elevator sometimes idles for a class that is about to ask; that is part of its order.
        prop_assert!(grants.len() as u64 >= 3000 * 97 / 100, "{} of 3000", grants.len());
        for (place, (floor, ..)) in floors.iter().enumerate() {
            if *floor == 0 {
                continue;
            }
            let cost = SECOND / floor;
            let mut times: Vec<u64> =
                grants.iter().filter(|(_, own, _)| *own == place).map(|(at, ..)| *at).collect();
            times.insert(0, 0);
            times.push(ends);
            let slack = BURST + cost + (floors.len() as u64 + 2) * MS;
            for (first, from) in times.iter().enumerate() {
                for (count, at) in times[first..].iter().enumerate().skip(1) {
                    let due = count as u64 * cost + slack;
                    prop_assert!(at - from <= due, "{floor}/s: {count} from {from} to {at}");
                }
            }
        }
    }
}

/// Do members of a class with a cap share its thousand by weight, 250 and 750, though the device
/// does ten thousand a second; and do asks for the class itself get a share of 100 among them?
#[test]
fn below_a_cap_weights_share() {
    for rate in [Rate::requests(1000), Rate::bytes(1000 * 4096)] {
        let mut gate = Core::new(Settings { permits: 4, ..Settings::default() });
        let team = gate.open(ClassSpec::new("team").cap(rate)).unwrap();
        let light = gate.open(ClassSpec::new("light").below(team)).unwrap();
        let heavy = gate.open(ClassSpec::new("heavy").weight(300).below(team)).unwrap();
        let load = |class| Load { class, depth: 8, len: 4096 };
        let loads = [load(light), load(heavy)];
        let grants = serve(&mut gate, &loads, 400_000, 2 * SECOND);
        // 2 s, and a tenth of a second's worth at once.
        assert!(grants.len().abs_diff(2100) <= 2, "{}", grants.len());
        for (place, due) in [(0, 525), (1, 1575)] {
            assert!(of(&grants, place).abs_diff(due) <= 12, "{} of {due}", of(&grants, place));
        }
        let mut gate = Core::new(Settings { permits: 4, ..Settings::default() });
        let team = gate.open(ClassSpec::new("team").cap(rate)).unwrap();
        let heavy = gate.open(ClassSpec::new("heavy").weight(300).below(team)).unwrap();
        let loads = [load(team), load(heavy)];
        let grants = serve(&mut gate, &loads, 400_000, 2 * SECOND);
        assert!(of(&grants, 0).abs_diff(525) <= 12, "{}", of(&grants, 0));
    }
}

/// Does a floor below the weight's share take nothing from it: 400 of 500, not the floor's 10; and
/// does a higher one raise the share to just that: 300 of 1000, not the 10 of weight 100 in 10,000?
#[test]
fn a_floor_is_no_share() {
    for (weight, other, floor, due) in [(400, 100, 10, 800), (100, 9900, 300, 300)] {
        let mut gate = Core::new(Settings { permits: 1, ..Settings::default() });
        let spec = ClassSpec::new("own").weight(weight).floor(Rate::requests(floor));
        let own = gate.open(spec).unwrap();
        let other = gate.open(ClassSpec::new("other").weight(other)).unwrap();
        let load = |class| Load { class, depth: 4, len: 4096 };
        let grants = serve(&mut gate, &[load(own), load(other)], MS, 4 * SECOND);
        let had = of(&grants, 0) as u64;
        assert!(had.abs_diff(4 * due) <= 4 * due / 25, "{had} of {}", 4 * due);
    }
}

/// Can a rate be changed while asks wait for it; does a closed class's cap end; and can a class
/// with a floor have none below it?
#[test]
fn rates_change() {
    let mut gate = Core::new(Settings::default());
    let slow = gate.open(ClassSpec::new("slow").cap(Rate::requests(1))).unwrap();
    let tickets: Vec<_> =
        (0..4).map(|_| gate.ask(Nanos(0), slow, Ask::new(Op::Read, 1)).unwrap()).collect();
    assert_eq!(gate.next(Nanos(0)), Next::Granted(tickets[0]));
    // A second each, except a tenth of one in advance.
    assert_eq!(gate.next(Nanos(0)), Next::Wait(Nanos(900 * MS)));
    let mut text = String::new();
    gate.explain(tickets[1], &mut text).unwrap();
    assert_eq!(text, "slow, 1 bytes: it waits for the cap of slow, which opens at 900 ms");
    let eta = gate.eta(Nanos(0), slow, Op::Read, 1).unwrap();
    assert!(eta.permit >= Nanos(900 * MS), "{eta:?}");
    assert!(gate.withdraw(Nanos(1), tickets[1]));
    gate.set_rates(Nanos(2), slow, Rate::NONE, Rate::NONE).unwrap();
    assert_eq!(gate.next(Nanos(2)), Next::Granted(tickets[2]));
    assert_eq!(gate.next(Nanos(2)), Next::Granted(tickets[3]));
    gate.check().unwrap();
    gate.set_rates(Nanos(3), slow, Rate::requests(1), Rate::bytes(1)).unwrap();
    assert_eq!(gate.open(ClassSpec::new("below").below(slow)), Err(ClassError::Kind));
    let asks: Vec<_> =
        (0..3).map(|_| gate.ask(Nanos(3), slow, Ask::new(Op::Read, 1)).unwrap()).collect();
    assert_eq!(gate.next(Nanos(3)), Next::Granted(asks[0]));
    gate.close(Nanos(4), slow).unwrap();
    assert_eq!(gate.next(Nanos(4)), Next::Granted(asks[1]));
    assert_eq!(gate.next(Nanos(4)), Next::Granted(asks[2]));
    gate.check().unwrap();
    let team = gate.open(ClassSpec::new("team")).unwrap();
    gate.open(ClassSpec::new("one").below(team)).unwrap();
    let set = gate.set_rates(Nanos(5), team, Rate::NONE, Rate::bytes(1));
    assert_eq!(set, Err(ClassError::Kind));
}
