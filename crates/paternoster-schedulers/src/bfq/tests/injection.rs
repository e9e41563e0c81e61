// SPDX-License-Identifier: MIT OR Apache-2.0
//! Injection by coefficient, seed 002: 4.19 on flash with command queueing. BFQ-150 to BFQ-157.

use super::super::weight_raising::Kind;
use super::*;

/// A heavy, seeky reader in service with one request of 8 sectors, and light clients with `light`
/// requests of `sectors` each, four per client. The device idles for it because weights differ.
fn lent(light: u64, sectors: u32) -> (Bench, ClientId, RequestId) {
    let mut bench = Bench::new(LINUX_4_19, flash(32));
    let heavy = bench.client_of(Class::BestEffort, 0);
    bench.read(heavy, FAR);
    bench.marks(heavy, 32);
    for place in 0..light {
        let client = if place % 4 == 0 { bench.client() } else { last_client(&bench) };
        bench.read_of(client, (2 + place) * FAR, sectors);
    }
    let (client, id) = bench.picked();
    assert_eq!(client, heavy, "10922/80 is before 10922/40");
    (bench, heavy, id)
}

fn last_client(bench: &Bench) -> ClientId {
    bench.view.clients().last().expect("one is there").0
}

/// How many requests of others go while the device is kept for the queue in service.
fn injected(bench: &mut Bench) -> usize {
    let mut count = 0;
    while bench.pick().is_ok() {
        count += 1;
    }
    let notes = bench.notes();
    let noted = notes.iter().filter(|note| matches!(note, Note::Injected { .. })).count();
    assert_eq!(noted, count);
    count
}

/// Are others served for a queue that is seeky and not raised, on flash that queues commands or is
/// not known not to; and otherwise not?
#[test]
fn bfq_150_for_whom_others_are_served() {
    let (mut bench, ..) = lent(3, 8);
    assert_eq!(injected(&mut bench), 3);
    let (mut bench, heavy, _) = lent(3, 8);
    bench.marks(heavy, 19);
    assert_eq!(injected(&mut bench), 0, "reads on");
    let (mut bench, heavy, _) = lent(3, 8);
    let queue = bench.number(heavy);
    bench.set_raised(queue, Kind::Interactive);
    assert_eq!(injected(&mut bench), 0, "raised");
    let (mut bench, ..) = lent(3, 8);
    bench.view.facts_mut().rotational = true;
    assert_eq!(injected(&mut bench), 0, "a disk");
    let (mut bench, ..) = lent(3, 8);
    bench.view.facts_mut().depth = 1;
    assert_eq!(injected(&mut bench), 0, "one command at a time");
    let (mut bench, ..) = lent(3, 8);
    bench.view.set_ncq(Ncq::Probe);
    assert_eq!(injected(&mut bench), 3, "not known yet");
}

/// Are ten sectors of others served for each of its own? 8 sectors: ten requests of 8.
#[test]
fn bfq_151_ten_for_one() {
    let (mut bench, ..) = lent(20, 8);
    assert_eq!(injected(&mut bench), 10);
    assert_eq!(bench.bfq.device.in_driver(), 11);
}

/// Is nothing injected for a queue that was served nothing itself in this turn?
#[test]
fn bfq_152_nothing_for_nothing() {
    let (mut bench, heavy, _) = lent(3, 8);
    bench.entity_mut(heavy).service = 0;
    assert_eq!(injected(&mut bench), 0);
}

/// Is it the queue activated last, of those whose next request fits what is left of their budget?
#[test]
fn bfq_153_the_last_to_come_that_fits() {
    let (mut bench, ..) = lent(1, 8);
    let [fits, not] = [(); 2].map(|()| bench.client());
    bench.read(fits, 8 * FAR);
    bench.read(not, 9 * FAR);
    bench.entity_mut(not).budget = 7;
    assert_eq!(bench.picked().0, fits);
    assert_ne!(bench.picked().0, not);
    assert_eq!(bench.pick(), Err(Pick::Await));
    bench.entity_mut(not).budget = 10_922;
}

/// Is the limit checked before each request, so that the last may exceed it? 8 sectors, then 1000;
/// then nothing.
#[test]
fn bfq_154_the_last_one_may_be_large() {
    let (mut bench, ..) = lent(1, 8);
    let other = bench.client();
    bench.read_of(other, 8 * FAR, 1000);
    assert_eq!(injected(&mut bench), 1);
    let (mut bench, ..) = lent(20, 8);
    bench.bfq.injection.set_sectors(79);
    assert_eq!(injected(&mut bench), 1);
}

/// Is what others are served charged to them and their groups at once, and counted for the queue in
/// service, which stays in service and is not charged?
#[test]
fn bfq_155_others_pay_themselves() {
    let (mut bench, heavy, _) = lent(0, 8);
    let group = bench.group(100);
    let member = bench.member(group);
    bench.read(member, 9 * FAR);
    bench.read(member, 9 * FAR + 8);
    let before = bench.bfq.schedule.vtime_of(bench.number(heavy));
    assert_eq!(bench.picked().0, member);
    assert_eq!(bench.entity(member).service, 8);
    let of_group = bench.bfq.schedule.parent_of(bench.number(member)).expect("a group");
    assert_eq!(bench.bfq.schedule.entities[of_group as usize].service, 8);
    assert!(bench.bfq.schedule.vtime_of(bench.number(heavy)) > before);
    assert_eq!((bench.entity(heavy).service, bench.bfq.injection.sectors()), (8, 8));
    assert_eq!(bench.in_service(), Some(bench.number(heavy)));
}

/// Does the count restart with each turn, and does the idle timer run on while others are
/// served?
#[test]
fn bfq_156_each_turn_counts_anew() {
    let (mut bench, heavy, id) = lent(3, 8);
    bench.end(id);
    let timer = bench.view.timer();
    assert!(timer < Nanos::MAX);
    assert_eq!(injected(&mut bench), 3);
    assert_eq!(bench.view.timer(), timer);
    assert_eq!(bench.bfq.injection.sectors(), 24);
    bench.expire(heavy, Expiry::TooIdle);
    assert_eq!(bench.bfq.injection.sectors(), 0);
}

/// Does a turn end when its budget is used up, and serve no other queue?
#[test]
fn bfq_157_a_budget_that_is_used_up() {
    let (mut bench, heavy, _) = lent(3, 8);
    bench.read(heavy, 5 * FAR);
    bench.entity_mut(heavy).budget = 15;
    assert_ne!(bench.picked().0, heavy);
    assert_eq!(bench.endings(), [Expiry::BudgetExhausted]);
}

/// Without injection, is nothing served while the device is kept?
#[test]
fn bfq_158_without_the_seed() {
    let (mut bench, ..) = lent(3, 8);
    bench.set("inject", 0);
    assert_eq!(injected(&mut bench), 0);
}
