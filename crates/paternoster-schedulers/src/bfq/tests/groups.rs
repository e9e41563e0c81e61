// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups, and processes that change or end. BFQ-181 to BFQ-185, BFQ-192, BFQ-193.

use super::*;

/// Does a group's new weight take effect when the group is next enqueued?
#[test]
fn bfq_181_a_groups_weight_with_its_next_turn() {
    each(disk(32), |mut bench| {
        let group = bench.group(100);
        let member = bench.member(group);
        bench.read(member, FAR);
        bench.read(member, FAR + 8);
        let entity = bench.bfq.schedule.parent_of(bench.number(member)).expect("a group");
        let weight = |bench: &Bench| bench.bfq.schedule.entities[entity as usize].weight;
        bench.view.set_group_weight(group, 300);
        bench.bfq.group_changed(&mut bench.view, group);
        bench.picked();
        assert_eq!(weight(&bench), 100);
        bench.expire(member, Expiry::BudgetTimeout);
        assert_eq!(weight(&bench), 300);
    });
}

fn move_to(bench: &mut Bench, client: ClientId, group: GroupId) {
    bench.view.move_client(client, group);
    bench.bfq.client_changed(&mut bench.view, client);
    bench.audit();
}

/// When a process changes its group, does its turn end, and does its queue move with all that
/// waits, but without the service that it was ahead or behind; and do its background writes go to
/// the group's queue from the next one on?
#[test]
fn bfq_182_a_process_changes_its_group() {
    each(disk(32), |mut bench| {
        let group = bench.group(100);
        let client = bench.client();
        bench.read(client, FAR);
        bench.read(client, FAR + 100);
        bench.write(client, 9 * FAR);
        let writes = bench.shared(client);
        while bench.in_service() != Some(bench.number(client)) {
            bench.picked();
            if let Some(served) = bench.in_service().filter(|&it| it == writes) {
                bench.bfq.expire(&mut bench.view, served, false, Expiry::BudgetTimeout);
            }
        }
        bench.notes();
        move_to(&mut bench, client, group);
        assert_eq!(bench.endings(), [Expiry::Preempted]);
        let entity = bench.entity(client);
        assert_eq!((entity.group, entity.standing), (group.index(), Standing::Active));
        assert_eq!(entity.start, bench.bfq.schedule.vtime_of(bench.number(client)));
        bench.write(client, 9 * FAR + 8);
        assert_ne!(bench.shared(client), writes);
    });
}

/// Is a queue at rest, ahead of its share, forgotten in its old group?
#[test]
fn bfq_182_nothing_is_remembered() {
    each(disk(32), |mut bench| {
        let group = bench.group(100);
        let [client, _] = bench.readers();
        let (_, id) = bench.picked();
        bench.end(id);
        bench.expire(client, Expiry::NoMoreRequests);
        assert_eq!(bench.entity(client).standing, Standing::Idle);
        move_to(&mut bench, client, group);
        assert_eq!(bench.entity(client).standing, Standing::Off);
    });
}

/// When a group is removed, do its queues move to the root with what waits in them, and are its
/// async queues given up?
#[test]
fn bfq_183_a_group_goes() {
    each(disk(32), |mut bench| {
        let group = bench.group(100);
        let member = bench.member(group);
        bench.write(member, 9 * FAR);
        let writes = bench.shared(member);
        bench.read(member, FAR);
        bench.picked();
        bench.view.move_client(member, bench.view.root());
        bench.bfq.contexts.at_mut(member).slots[0] = None;
        bench.bfq.put_queue(&mut bench.view, writes);
        bench.bfq.group_removed(&mut bench.view, group);
        bench.view.remove_group(group);
        bench.audit();
        let root = bench.view.root().index();
        assert_eq!(bench.bfq.schedule.entities[writes as usize].group, root);
        assert_eq!(bench.entity(member).group, root);
        let refs = bench.bfq.queues.at(writes).refs;
        assert_eq!(refs, 1, "its request");
    });
}

/// Does another class or level of a process count for its writes at once, and for its own queue
/// from its next place on?
#[test]
fn bfq_185_another_level() {
    each(disk(32), |mut bench| {
        let client = bench.client();
        bench.read(client, FAR);
        bench.read(client, FAR + 8);
        bench.write(client, 9 * FAR);
        let writes = bench.shared(client);
        bench.view.set_priority(client, Priority { class: Class::Realtime, level: 1 });
        bench.bfq.client_changed(&mut bench.view, client);
        bench.audit();
        let known = |bench: &Bench| (bench.entity(client).class, bench.entity(client).weight);
        assert_eq!(known(&bench), (Class::BestEffort as u8, 40));
        while bench.in_service() != Some(bench.number(client)) {
            if let Some(served) = bench.in_service() {
                bench.bfq.expire(&mut bench.view, served, false, Expiry::BudgetTimeout);
            }
            bench.bfq.begin_turn(&mut bench.view);
        }
        bench.expire(client, Expiry::BudgetTimeout);
        assert_eq!(known(&bench), (Class::Realtime as u8, 70));
        bench.write(client, 9 * FAR + 8);
        assert_ne!(bench.shared(client), writes);
    });
}

/// When a process ends whose queue has the device, does its turn end, so that others are served?
#[test]
fn bfq_192_a_process_goes() {
    each(disk(1), |mut bench| {
        let [client, other] = bench.readers();
        let (_, id) = bench.picked();
        bench.end(id);
        assert_eq!(bench.pick(), Err(Pick::Idle));
        bench.bfq.client_detached(&mut bench.view, client);
        bench.audit();
        assert_eq!((bench.in_service(), bench.view.timer()), (None, Nanos::MAX));
        assert_eq!(bench.picked().0, other);
    });
}

/// In 6.18, does a queue that was kept busy though empty leave once its process has ended?
#[test]
fn bfq_192_kept_empty_for_nobody() {
    let mut bench = Bench::new(LINUX_6_18, flash(32));
    let [light, client, heavy] = [7, 4, 0].map(|level| bench.client_of(Class::BestEffort, level));
    bench.read(client, FAR);
    bench.read(light, 2 * FAR);
    assert_eq!(bench.serve(), client);
    bench.read(heavy, 3 * FAR);
    assert_eq!(bench.preemptions(), [Preemption::Heavier]);
    let queue = bench.number(client);
    assert!(bench.queue(client).is_busy && bench.queue(client).is_empty());
    bench.bfq.client_detached(&mut bench.view, client);
    bench.audit();
    assert!(!bench.bfq.queues.is_live(queue) || !bench.bfq.queues.at(queue).is_busy);
}

/// Does an async queue live as long as its group, whichever processes come and go?
#[test]
fn bfq_193_a_groups_queues_stay() {
    each(disk(32), |mut bench| {
        let client = bench.client();
        bench.write(client, FAR);
        let writes = bench.shared(client);
        let (_, id) = bench.picked();
        bench.end(id);
        bench.bfq.client_detached(&mut bench.view, client);
        bench.audit();
        assert!(bench.bfq.queues.is_live(writes));
        let other = bench.client();
        bench.write(other, FAR);
        assert_eq!(bench.shared(other), writes);
    });
}
