// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts, tested directly.

use super::held::Refusal;
use super::*;

const NOW: Nanos = Nanos::from_millis(1000);
/// The root is group 0, after four clients.
const ROOT: u32 = 4;

/// Four clients in the root, of these weights.
fn four(weights: [u32; 4]) -> Accounts {
    let mut accounts = Accounts::new(4, 3, 0);
    for (client, weight) in (0..).zip(weights) {
        accounts.open(client, ROOT, weight, Class::BestEffort as u8);
    }
    accounts
}

fn first(accounts: &Accounts) -> Option<u32> {
    accounts.first(&[CROWD, STREAM], NOW, &|_| false)
}

/// C1, G2: does each request come from the client that has had least for its weight? With weights
/// 1, 1, 2, 4 and requests of 8 us they get 1, 1, 2 and 4 of each 8.
#[test]
fn g2_the_least_goes_first() {
    let mut accounts = four([1, 1, 2, 4]);
    for client in 0..4 {
        for _ in 0..8 {
            accounts.arrive(client, CROWD, NOW, 0);
        }
    }
    let mut went = [0; 4];
    for _ in 0..8 {
        let client = first(&accounts).expect("somebody waits");
        for other in 0..4 {
            assert!(!accounts.precedes(other, client), "{other} had less than {client}");
        }
        accounts.dispatch(client, CROWD, 8_000, NOW);
        accounts.end(client, 8_000, 8_000);
        went[client as usize] += 1;
        assert_eq!(accounts.check(), Ok(()));
    }
    assert_eq!(went, [1, 1, 2, 4]);
}

/// C2: is the estimate corrected? Ten requests are estimated at 1 ns and take 7: 70 ns, in 64ths,
/// at weight 100 are 44.8, and the remainder of the division is kept.
#[test]
fn c2_i4_nothing_is_lost_to_rounding() {
    let mut accounts = four([100; 4]);
    for _ in 0..10 {
        accounts.arrive(0, STREAM, NOW, 0);
        accounts.dispatch(0, STREAM, 1, NOW);
        accounts.end(0, 1, 7);
    }
    // 10 * 7 ns * 64 / 100 = 44.8
    assert_eq!((accounts.at(0).vt, accounts.at(0).rest), (44, 80));
    assert_eq!((accounts.at(0).charged, accounts.at(0).estimated), (70, 0));
}

/// Are charges exact with every weight, also large charges and refunds? -1 / 3 is -1, rest 2;
/// charges in parts add up to one charge.
#[test]
fn i4_charges_in_parts_are_the_whole() {
    for weight in [1, 3, 100, 999_983, u32::MAX] {
        let mut one = Node { weight, ..Node::default() };
        let mut other = one.clone();
        let parts = [1, -1, 70_000_000, 3, -69_999_999, 5_000_000_000_000, -4_999_999_999_001];
        for part in parts {
            one.charge(part);
            assert!(one.rest < weight);
        }
        other.charge(parts.iter().sum());
        assert_eq!((one.vt, one.rest), (other.vt, other.rest), "weight {weight}");
        let due = i128::from(one.charged) * i128::from(UNIT);
        let known = i128::from(one.vt) * i128::from(weight) + i128::from(one.rest);
        assert_eq!(known, due, "weight {weight}");
    }
    let mut back = Node { weight: 3 * 64, ..Node::default() };
    back.charge(-1);
    assert_eq!((back.vt, back.rest), (-1, 2 * 64));
}

/// C4, G5: does a client that was away start at the floor of those that waited, and does one that
/// comes back while it is expected stay as far behind as it was?
#[test]
fn c4_g5_who_was_away_starts_at_the_floor() {
    let mut accounts = four([1; 4]);
    for _ in 0..3 {
        accounts.arrive(1, CROWD, NOW, 0);
    }
    for _ in 0..2 {
        accounts.dispatch(1, CROWD, 1000, NOW);
        accounts.end(1, 1000, 1000);
    }
    // The floor is client 1's virtual time before its second request, 64 000.
    assert!(accounts.is_behind(0, 0));
    accounts.arrive(0, CROWD, NOW, 0);
    assert_eq!(accounts.at(0).vt, 64_000);
    accounts.expect(2, NOW + Nanos(1));
    accounts.arrive(2, CROWD, NOW, 0);
    // It may be two of the most expensive requests behind, so it keeps its 0.
    assert_eq!(accounts.at(2).vt, 0);
    assert_eq!(accounts.check(), Ok(()));
}

/// Is the debt to a client that has requests in the device limited by the most expensive requests
/// of the last second, even if many small ones have ended since? One of 1 ms counts 64,000,000 at
/// weight 1; 64 of them may be owed. After 16 half-lives the 1 ms counts for less than a small
/// request.
#[test]
fn c4_a_dear_request_counts_for_a_while() {
    let owed = |later: u64| {
        let mut accounts = four([1; 4]);
        accounts.arrive(0, CROWD, NOW, 0);
        accounts.dispatch(0, CROWD, 1000, NOW);
        for took in core::iter::once(1_000_000).chain([1000; 4096]) {
            accounts.arrive(1, CROWD, NOW, 0);
            accounts.dispatch(1, CROWD, took, NOW);
            accounts.end(1, took, took);
        }
        // The floor is client 1's virtual time when it leaves; client 0 is far below it.
        accounts.groups[0].floor[1] = 1 << 40;
        accounts.arrive(0, CROWD, NOW + Nanos(later << 28), 0);
        (1 << 40) - accounts.at(0).vt
    };
    assert_eq!(owed(0), 64 * 64_000_000);
    assert_eq!(owed(1), 64 * 32_000_000);
    // 64 of the small ones, of 1000 ns.
    assert_eq!(owed(16), 64 * 64_000);
}

/// Do requests and accounts move with a client to another group, and to another kind?
#[test]
fn i1_i2_moves_keep_the_counts() {
    let mut accounts = four([100, 200, 300, 400]);
    accounts.open(5, ROOT, 50, Class::BestEffort as u8);
    for client in 0..4 {
        accounts.hold(client, 3);
        for _ in 0..3 {
            accounts.arrive(client, CROWD, NOW, 0);
        }
        accounts.dispatch(client, CROWD, 500, NOW);
    }
    accounts.change(2, 5, 10, Class::Realtime as u8);
    assert_eq!(accounts.check(), Ok(()));
    accounts.change_kind(2, CROWD, STREAM);
    accounts.change_kind(3, CROWD, STREAM);
    assert_eq!(accounts.check(), Ok(()));
    assert_eq!(accounts.totals(), ([4, 4], 4));
    // In a group of 50 next to 100, 200 and 400: its share of 12 requests in all is a 15th.
    let refused = |most| accounts.refusal(2, most, NOW).is_some();
    assert!(refused(12) && !refused(75));
    accounts.leave(3, STREAM);
    for client in 0..4 {
        accounts.end(client, 500, 700);
    }
    assert_eq!((accounts.check(), accounts.totals()), (Ok(()), ([4, 3], 0)));
    assert_eq!(accounts.first(&[STREAM], NOW, &|client| client == 3), Some(2));
}

/// Does a client that holds nothing, and is about to ask, keep its share of the requests? Of 16 two
/// of equal weight have eight each: the other is refused a ninth until the window closes, and may
/// have all of them then. The last of 16 is spared while there are others.
#[test]
fn one_that_is_about_to_ask_keeps_its_share() {
    let mut accounts = four([100, 100, 100, 100]);
    accounts.hold(0, 1);
    accounts.hold(1, 15);
    accounts.hold(0, -1);
    let closes = NOW + Nanos(10);
    assert_eq!(accounts.refusal(1, 16, NOW), None);
    accounts.expect(0, closes);
    let refusal = Some(Refusal { is_outright: false, until: closes });
    assert_eq!(accounts.refusal(1, 16, NOW), refusal);
    assert_eq!(accounts.refusal(0, 16, NOW), None);
    assert_eq!(accounts.refusal(1, 16, closes), None);
    assert_eq!(accounts.check(), Ok(()));
}

/// How much must a client leave to the others? As in the example of `ratio.rs`, by its weight among
/// all that are busy.
#[test]
fn charge_weights_count_who_is_busy() {
    let mut accounts = four([100, 300, 300, 300]);
    assert_eq!(accounts.among_busy(0), Some((100, 100, ROOT)));
    accounts.arrive(1, CROWD, NOW, 0);
    assert_eq!(accounts.among_busy(0), Some((100, 400, ROOT)));
    accounts.arrive(0, CROWD, NOW, 0);
    assert_eq!(accounts.among_busy(0), Some((100, 400, ROOT)));
    assert_eq!(accounts.weights(0, 1), (100, 300));
}

/// Serves so many of the clients' requests, of 1 ms each and 1 ms apart, and counts them. Each asks
/// again at once.
fn serve(accounts: &mut Accounts, now: &mut Nanos, count: u32) -> [u32; 4] {
    let mut went = [0; 4];
    for _ in 0..count {
        *now += Nanos::from_millis(1);
        let client = accounts.first(&[CROWD], *now, &|_| false).expect("all wait");
        accounts.dispatch(client, CROWD, 1_000_000, *now);
        accounts.arrive(client, CROWD, *now, 0);
        accounts.end(client, 1_000_000, 1_000_000);
        went[client as usize] += 1;
        assert_eq!(accounts.check(), Ok(()));
    }
    went
}

/// G2: does a client that comes to another class get its part from then on, whatever either class
/// had until then? Two of the idle class have a request each 0.2 s beside one of best effort; then
/// one of them is of best effort, too. And does it take along that it was ahead?
#[test]
fn g2_another_class_is_another_account() {
    let [best_effort, idle] = [1, Class::Idle as u8];
    let (mut accounts, mut now) = (Accounts::new(4, 3, 0), NOW);
    for (client, class) in [(0, best_effort), (1, idle), (2, idle)] {
        accounts.open(client, ROOT, 100, class);
        (0..2).for_each(|_| accounts.arrive(client, CROWD, now, 0));
    }
    let went = serve(&mut accounts, &mut now, 10_000);
    assert_eq!(went, [9_950, 25, 25, 0], "at 0, 200 and so on: 50 of the idle class");
    accounts.change(2, ROOT, 100, best_effort);
    let [one, _, other, _] = serve(&mut accounts, &mut now, 1000);
    assert!(one.abs_diff(other) <= 2, "{one} and {other}");
    // Back again: the one that stayed has not saved anything up, nor has a new one.
    accounts.change(2, ROOT, 100, idle);
    accounts.open(3, ROOT, 100, idle);
    (0..2).for_each(|_| accounts.arrive(3, CROWD, now, 0));
    let [_, stayed, back, new] = serve(&mut accounts, &mut now, 12_000);
    assert!([stayed, back, new].iter().all(|each| each.abs_diff(20) <= 1), "{stayed} {back} {new}");
    // Ahead by 10 ms in one class, it is ahead in the other.
    accounts.charge_time(2, 10_000_000);
    accounts.change(2, ROOT, 100, best_effort);
    let [one, _, other, _] = serve(&mut accounts, &mut now, 1000);
    assert!((9..=12).contains(&(one - other)), "{one} and {other}");
}

/// Does the idle class go before all others once it is due, whichever of the two kinds it waits as;
/// and do the others follow, if it is skipped?
#[test]
fn an_idle_class_that_is_due_goes_first_of_both_kinds() {
    let [rt, be, idle] = [0u8, 1, 2];
    for kinds in [[CROWD, CROWD], [CROWD, STREAM], [STREAM, CROWD], [STREAM, STREAM]] {
        for class in [rt, be] {
            let mut accounts = Accounts::new(4, 3, 0);
            for (client, class, kind) in [(0, class, kinds[0]), (1, idle, kinds[1])] {
                accounts.open(client, ROOT, 100, class);
                for _ in 0..2 {
                    accounts.arrive(client, kind, NOW, 0);
                }
            }
            let all = [CROWD, STREAM];
            let firsts = |accounts: &Accounts, now: Nanos| {
                let first = accounts.first(&all, now, &|_| false);
                assert_eq!(accounts.first_of_all(now), first);
                [first, accounts.first(&all, now, &|client| Some(client) == first)]
            };
            // Never served, it is due.
            assert_eq!(firsts(&accounts, NOW), [Some(1), Some(0)], "{kinds:?}");
            assert!(accounts.goes_before(1, 0, NOW) && !accounts.goes_before(0, 1, NOW));
            accounts.dispatch(1, kinds[1], 1000, NOW);
            assert_eq!(firsts(&accounts, NOW), [Some(0), Some(1)], "{kinds:?}");
            assert!(accounts.goes_before(0, 1, NOW) && !accounts.goes_before(1, 0, NOW));
            let due = NOW + Nanos::from_millis(200);
            assert_eq!(firsts(&accounts, due), [Some(1), Some(0)], "{kinds:?}");
        }
    }
}

/// Do lower classes not count among those that share the requests? Of 16, one of best effort may
/// have all beside two of the idle class, which may have 16 / 3 = 5 each, however many are left; of
/// two of best effort each may have 8, or half of what the idle class leaves of 16: with 6 there 5.
/// And what lower classes hold is lost to one of the real-time class, which may have the rest.
#[test]
fn lower_classes_do_not_share_the_requests() {
    let [best_effort, idle] = [1, Class::Idle as u8];
    let (alone, equals) = ([best_effort, idle, idle], [best_effort, best_effort, idle]);
    let real_time = [Class::Realtime as u8, best_effort, idle];
    for (classes, held, client, has) in [
        (alone, [15, 0, 0], 0, false),
        (alone, [16, 0, 0], 0, true),
        (alone, [11, 4, 0], 1, false),
        (alone, [10, 5, 0], 1, true),
        (alone, [2, 4, 0], 1, false),
        (alone, [2, 5, 0], 1, true),
        (alone, [9, 0, 0], 0, false),
        (equals, [8, 7, 0], 0, true),
        (equals, [8, 7, 0], 1, false),
        (equals, [4, 4, 6], 0, false),
        (equals, [5, 4, 6], 0, true),
        (real_time, [3, 6, 6], 0, false),
        (real_time, [4, 5, 6], 1, true),
    ] {
        let mut accounts = Accounts::new(4, 3, 0);
        for (client, (class, held)) in (0..).zip(classes.into_iter().zip(held)) {
            accounts.open(client, ROOT, 100, class);
            accounts.ask(client);
            accounts.hold(client, held);
        }
        assert_eq!(accounts.check(), Ok(()));
        assert_eq!(accounts.refusal(client, 16, NOW).is_some(), has, "{client} of {held:?}");
    }
}

/// Is the last request kept for one of a better class that comes back, even from a client that
/// holds none? Not for one of its own class, which it would wait for no longer than that one waits
/// for it; nor when the window is over; nor if two are left.
#[test]
fn the_last_request_is_kept_for_a_better_class() {
    let closes = NOW + Nanos::from_micros(20);
    let [real_time, best_effort] = [0, 1];
    for (class, most, now, has) in [
        (real_time, 2, NOW, true),
        (best_effort, 2, NOW, false),
        (real_time, 2, closes, false),
        (real_time, 3, NOW, false),
    ] {
        let mut accounts = Accounts::new(4, 3, 0);
        for (client, class) in (0..).zip([class, best_effort, best_effort]) {
            accounts.open(client, ROOT, 100, class);
        }
        accounts.hold(0, 1);
        accounts.hold(1, 1);
        accounts.hold(0, -1);
        accounts.expect(0, closes);
        assert_eq!(
            accounts.refusal(2, most, now),
            has.then_some(Refusal { is_outright: true, until: closes }),
            "{class}, {most} requests"
        );
    }
}
