// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of one stream, whose queues are merged. CFQ-41, 44; the other half of 13.

use paternoster_core::{Action, Class, ClientId, ClientSpec, GroupSpec, Nanos, Note};

use super::{each, ended, idled_for};
use crate::common::driver::Rig;

/// Which client moved to whose queue, in order.
fn merged(rig: &Rig) -> Vec<(ClientId, ClientId)> {
    let notes = rig.queue.observer().notes.iter();
    notes
        .filter_map(|note| match *note {
            Note::QueuesMerged { client, into } => Some((client, into)),
            _ => None,
        })
        .collect()
}

/// 64 KiB: the chunk that is read in turn.
const CHUNK: u32 = 128;

fn chunk(rig: &mut Rig, client: ClientId, number: u64) {
    rig.read(client, number * u64::from(CHUNK), CHUNK);
}

/// With two readers that read the chunks of a stream in turn, is the second served as soon as the
/// first's queue is empty, without idling, and do they share a queue from the next request of each
/// on? In a shared queue their chunks are merged (CFQ-13).
#[test]
fn cfq_41_readers_of_one_stream_share_a_queue() {
    each(1, |preset, mut rig| {
        let [a, b] = [(); 2].map(|()| rig.client());
        chunk(&mut rig, a, 0);
        chunk(&mut rig, b, 1);
        assert_eq!(rig.count(Action::BackMerge), 0, "two queues");
        assert_eq!(rig.pulled(), [0]);
        rig.at(2);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [u64::from(CHUNK)], "{preset}");
        assert_eq!((merged(&rig), ended(&rig)), (vec![(a, b)], vec![a]));
        // The move takes effect with the next request of the one that moves.
        chunk(&mut rig, a, 2);
        chunk(&mut rig, b, 3);
        assert_eq!(rig.count(Action::BackMerge), 1, "{preset}: one queue");
        rig.at(4);
        rig.complete_oldest();
        let both = rig.pull();
        assert_eq!((both[0].sector, both[0].sectors), (2 * u64::from(CHUNK), 2 * CHUNK));
        assert_eq!(idled_for(&rig), []);
        assert_eq!(rig.get("bandwidth"), "0\t0\t0", "nothing is measured unless asked for");
    });
}

/// Is a request up to 4 MiB from the head close, either way, and one a sector further not?
#[test]
fn cfq_41_close_is_4_mib() {
    const HEAD: u64 = 1_000_000;
    for (sector, close) in
        [(HEAD + 8192, 1), (HEAD + 8193, 0), (HEAD - 8192, 1), (HEAD - 8193, 0), (HEAD, 1)]
    {
        each(1, |preset, mut rig| {
            let [a, b] = [(); 2].map(|()| rig.client());
            rig.read(a, HEAD - 8, 8);
            rig.read(b, sector, 8);
            assert_eq!(rig.pulled(), [HEAD - 8]);
            rig.at(2);
            rig.complete_oldest();
            assert_eq!(rig.pull().len(), close, "{preset} {sector}");
            assert_eq!((merged(&rig).len(), idled_for(&rig).len()), (close, 1 - close));
        });
    }
}

/// Are the queues of two neighbours never merged if one is real time and the other not, or if their
/// levels or groups differ?
#[test]
fn cfq_44_unlike_queues_are_not_merged() {
    each(1, |preset, mut rig| {
        let group = rig
            .queue
            .add_group(Nanos::ZERO, GroupSpec::new().weight(1000))
            .expect("room for a group");
        let usual = ClientSpec::new();
        for (other, count) in [
            (usual.priority(Class::Realtime, 4), 0),
            (usual.priority(Class::BestEffort, 5), 0),
            (usual.group(group), 0),
            (usual, 1),
        ] {
            let clients = [usual, other].map(|spec| rig.client_with(spec));
            for round in 0..4 {
                for (place, client) in clients.into_iter().enumerate() {
                    chunk(&mut rig, client, 2 * round + place as u64);
                }
                rig.pull();
                rig.serve();
            }
            assert_eq!(merged(&rig).len(), count, "{preset} {other:?}");
        }
    });
}
