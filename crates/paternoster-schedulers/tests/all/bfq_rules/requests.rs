// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refusals, waiting requests, and queues that are shared for lack of room. BFQ-190, BFQ-191,
//! BFQ-194, BFQ-197.

use paternoster_core::{Limits, Waiting};

use super::{FAR, PRESETS, each, ms};
use crate::common::driver::{Rig, disk};

/// With no request waiting, is there nothing to do though a queue has the device; and does a device
/// that idles while one waits say so and until when?
#[test]
fn bfq_190_whether_there_is_work() {
    each(disk(1), |preset, mut rig| {
        rig.set("low_latency", "0");
        let [client, other] = [(); 2].map(|()| rig.client());
        rig.read(client, FAR, 8);
        rig.pull();
        rig.complete_oldest();
        assert_eq!(rig.pulled(), []);
        assert_eq!(rig.why, Waiting::Empty, "{preset}");
        rig.read(other, 2 * FAR, 8);
        assert_eq!(rig.pulled(), []);
        assert_eq!((rig.why, rig.until), (Waiting::Idling, Some(ms(8))), "{preset}");
    });
}

/// If there is room for fewer queues than needed, does a process share an existing one, and do all
/// its requests end?
#[test]
fn bfq_191_without_room_a_queue_is_shared() {
    for preset in PRESETS {
        let limits = Limits { clients: 4, requests: 12, groups: 1, ..Limits::default() };
        let elevator = paternoster_schedulers::by_name(preset).expect("of this name");
        let mut rig = Rig::with(disk(1), limits, elevator);
        let mut sent = 0;
        for round in 0..200u64 {
            let client = rig.client();
            for place in 0..3 {
                let bio = paternoster_core::Bio::new(
                    client,
                    paternoster_core::Op::Read,
                    round % 7 * FAR + place * 8,
                    8,
                );
                sent += usize::from(rig.try_submit(bio).is_ok());
            }
            rig.queue.detach(rig.now, client).expect("it is there");
            rig.serve();
            rig.queue.audit().expect("the audit holds");
            rig.now += ms(1);
        }
        assert_eq!(rig.done.len(), sent, "{preset}");
    }
}

/// Does a request that the device refuses go again before all others, and is it not in flight
/// meanwhile?
#[test]
fn bfq_194_a_refused_request_goes_first() {
    each(disk(2), |preset, mut rig| {
        rig.set("low_latency", "0");
        let [client, other] = [(); 2].map(|()| rig.client());
        for sector in [FAR, FAR + 100, FAR + 200] {
            rig.read(client, sector, 8);
        }
        rig.read(other, 3 * FAR, 8);
        assert_eq!(rig.pulled(), [FAR, FAR + 100], "{preset}");
        rig.refuse(FAR);
        rig.complete_oldest();
        rig.queue.audit().expect("the audit holds");
        assert_eq!(rig.pulled(), [FAR, FAR + 200], "{preset}");
    });
}

/// If the queue that the device idled for has lost it before the timer rings, does the timer leave
/// the next queue's turn alone?
#[test]
fn bfq_197_the_timer_of_another_turn() {
    each(disk(1), |preset, mut rig| {
        rig.set("low_latency", "0");
        let [client, other] = [(); 2].map(|()| rig.client());
        rig.read(client, FAR, 8);
        rig.pull();
        rig.complete_oldest();
        rig.pull();
        assert_eq!(rig.until, Some(ms(8)));
        rig.at(3);
        rig.queue.detach(rig.now, client).expect("it is there");
        rig.read(other, 3 * FAR, 8);
        rig.read(other, 3 * FAR + 100, 8);
        assert_eq!(rig.pulled(), [3 * FAR], "{preset}");
        rig.at(8);
        rig.complete_oldest();
        assert_eq!(rig.pulled(), [3 * FAR + 100], "{preset}");
    });
}
