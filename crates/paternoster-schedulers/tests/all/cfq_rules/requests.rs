// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which queue a request is in, which of a queue's goes first, what is merged. CFQ-3, 12, 13.

use paternoster_core::{
    Action, Bio, Class, ClientId, ClientSpec, Flags, GroupSpec, Nanos, Op, Priority,
};

use super::{FAR, each};
use crate::common::driver::Rig;

fn write(rig: &mut Rig, client: ClientId, flags: Flags, sector: u64) {
    rig.submit(Bio::new(client, Op::Write, sector, 8).flags(flags));
}

/// How many bios were merged after others when the second client wrote where the first had ended: a
/// queue merges only its own bios. Both have written before, and so have a queue.
fn merged(rig: &mut Rig, [first, second]: [ClientId; 2], flags: Flags) -> usize {
    write(rig, first, flags, FAR);
    write(rig, second, flags, 2 * FAR);
    write(rig, first, flags, 0);
    write(rig, second, flags, 8);
    rig.count(Action::BackMerge)
}

/// Do the async writes of two processes of one class and level use one queue, and their sync ones
/// one each?
#[test]
fn cfq_3_async_writes_share_a_queue() {
    for (flags, merges) in [(Flags::NONE, 1), (Flags::SYNC, 0)] {
        each(1, |preset, mut rig| {
            let clients = [(); 2].map(|()| rig.client());
            assert_eq!(merged(&mut rig, clients, flags), merges, "{preset} {flags:?}");
        });
    }
}

/// Does another level, another class, and only in 4.19 another group, have async queues of its own?
#[test]
fn cfq_3_levels_and_classes_do_not_share() {
    each(1, |preset, mut rig| {
        let group = rig.queue.add_group(Nanos::ZERO, GroupSpec::new()).expect("room for a group");
        let usual = ClientSpec::new();
        for (other, merges) in [
            (usual.priority(Class::BestEffort, 5), 0),
            (usual.priority(Class::Realtime, 4), 0),
            (usual.priority(Class::Idle, 4), 0),
            (usual.group(group), usize::from(preset != "cfq-4.19")),
        ] {
            let clients = [usual, other].map(|spec| rig.client_with(spec));
            assert_eq!(merged(&mut rig, clients, Flags::NONE), merges, "{preset} {other:?}");
            rig.serve();
            rig.forget_events();
        }
    });
}

/// Does a client that changes to another level share that level's async queue at once?
#[test]
fn cfq_3_another_level_is_another_queue_at_once() {
    each(1, |preset, mut rig| {
        let [five, other] = [5, 4]
            .map(|level| rig.client_with(ClientSpec::new().priority(Class::BestEffort, level)));
        write(&mut rig, other, Flags::NONE, FAR);
        write(&mut rig, five, Flags::NONE, 0);
        let level = Priority { class: Class::BestEffort, level: 5 };
        rig.queue.set_priority(rig.now, other, level, 100).expect("it is there");
        write(&mut rig, other, Flags::NONE, 8);
        assert_eq!(rig.count(Action::BackMerge), 1, "{preset}");
    });
}

/// Are adjoining sync writes of two processes not merged, also as front merges and with an async
/// write?
#[test]
fn cfq_13_sync_writes_of_two_are_not_merged() {
    each(1, |preset, mut rig| {
        let [a, b] = [(); 2].map(|()| rig.client());
        write(&mut rig, a, Flags::SYNC, 100);
        write(&mut rig, b, Flags::SYNC, 108);
        write(&mut rig, b, Flags::SYNC, 92);
        write(&mut rig, a, Flags::NONE, 84);
        assert_eq!((rig.count(Action::BackMerge), rig.count(Action::FrontMerge)), (0, 0));
        write(&mut rig, a, Flags::SYNC, 116);
        assert_eq!(rig.count(Action::BackMerge), 0, "{preset}: 108 is the other's");
        write(&mut rig, b, Flags::SYNC, 76);
        write(&mut rig, a, Flags::SYNC, 124);
        assert_eq!(rig.count(Action::BackMerge), 1, "{preset}: 116 is its own");
    });
}

/// Is the next request of a queue chosen by sector, and by age only when a slice begins with one
/// that has expired? Reads expire after 125 ms, async writes after 250.
#[test]
fn cfq_12_age_counts_once_in_a_slice() {
    for (op, expire) in [(Op::Read, 125), (Op::Write, 250)] {
        each(1, |preset, mut rig| {
            let client = rig.client();
            for sector in [9000, 200, 100, 300] {
                rig.submit(Bio::new(client, op, sector, 8));
            }
            rig.at(expire - 1);
            assert_eq!(rig.served(), [100, 200, 300, 9000], "{preset} {op:?}");
        });
    }
}

/// When the oldest goes first, do the others follow by sector from there, and not by age though all
/// have expired? 8700 back from 9000 is 300; 100 was the next before.
#[test]
fn cfq_12_the_next_one_is_near_to_the_oldest() {
    for (op, expire) in [(Op::Read, 125), (Op::Write, 250)] {
        each(1, |preset, mut rig| {
            let client = rig.client();
            for sector in [9000, 200, 100, 300] {
                rig.submit(Bio::new(client, op, sector, 8));
            }
            rig.at(expire);
            assert_eq!(rig.served(), [9000, 300, 200, 100], "{preset} {op:?}");
        });
    }
}

/// Is expiry checked again in the next slice? The first is 60 to 160 ms; 9000 expires during it, at
/// 125, and is not checked. The other reader has 200 to 300 ms, then 9000 begins.
#[test]
fn cfq_12_the_next_slice_asks_again() {
    each(1, |preset, mut rig| {
        let [client, other] = [(); 2].map(|()| rig.client());
        for sector in [9000, 100, 200, 300, 400] {
            rig.read(client, sector, 8);
        }
        for n in 0..9 {
            rig.read(other, FAR + n * 100, 8);
        }
        let mut order = Vec::new();
        for end in [60, 130, 161, 200, 330, 331] {
            order.extend(rig.pulled());
            rig.at(end);
            rig.complete_oldest();
        }
        assert_eq!(order, [100, 200, 300, FAR, FAR + 100, 9000], "{preset}");
    });
}

/// Of two requests of one queue at the same sector, does the older go at once in 2.6.34, and do
/// both wait in later kernels? The head is at 0, and 100 is nearer.
#[test]
fn an_alias_pushes_the_older_out() {
    each(1, |preset, mut rig| {
        let client = rig.client();
        for sector in [100, 5000, 5000] {
            rig.read(client, sector, 8);
        }
        let order = if preset == "cfq" { [5000, 100, 5000] } else { [100, 5000, 5000] };
        assert_eq!(rig.served(), order, "{preset}");
    });
}
