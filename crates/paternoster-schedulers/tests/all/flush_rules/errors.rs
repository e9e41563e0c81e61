// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures: FLUSH-8, FLUSH-9; and which requests they do not concern.

use super::*;
use paternoster_core::{Outcome, Status};

const EIO: Status = Status::Failed(5);

/// The device fails its command at index `place`, by age.
fn fail(rig: &mut Rig, place: usize) {
    let command = rig.inside.remove(place).expect("it is in the device");
    rig.queue.complete(rig.now, command.tag, Outcome::failed(5)).expect("it is in the device");
}

/// If a flush fails, do all that share it end with its error, preflush and postflush alike, is none
/// of their data issued, and are flushes after it issued as usual?
#[test]
fn flush_8_a_failed_flush_fails_its_sharers() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        // Its data ends while the first flush is in flight: the second is its postflush.
        rig.flush(client, 1);
        rig.pull();
        rig.ordered(client, 8, Flags::FUA);
        assert_eq!(rig.pulled_words(), "W8", "the device queues flushes");
        rig.complete_at(8);
        rig.flush(client, 2);
        rig.ordered(client, 16, Flags::PREFLUSH);
        rig.ordered(client, 24, Flags::PREFLUSH | Flags::FUA);
        rig.complete_flush();
        assert_eq!(rig.pulled_words(), "F");
        rig.flush(client, 3);
        rig.ordered(client, 32, Flags::PREFLUSH);
        fail(&mut rig, 0);
        assert_eq!(rig.served_words(), "F W32", "{elevator}: of 16 and 24 nothing");
        let ends = [
            (1, Status::Ok),
            (8, EIO),
            (2, EIO),
            (16, EIO),
            (24, EIO),
            (3, Status::Ok),
            (32, Status::Ok),
        ];
        assert_eq!(rig.done, ends, "{elevator}");
    }
}

/// If the device is gone and fails everything it is given, does everything end: what is in the
/// device, what shares the flush there, what waits for the next, and data after them? Each with the
/// error of its current step, and once.
#[test]
fn a_device_that_is_gone_ends_all_sequences() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(sata(), elevator);
        let client = rig.client();
        rig.flush(client, 1);
        rig.pull();
        rig.flush(client, 2);
        rig.ordered(client, 8, Flags::PREFLUSH | Flags::FUA);
        rig.ordered(client, 16, Flags::FUA);
        rig.write(client, 24, 8);
        rig.pull();
        while !rig.inside.is_empty() {
            fail(&mut rig, 0);
            rig.pull();
        }
        let mut ends = rig.done.clone();
        ends.sort_by_key(|&(cookie, _)| cookie);
        assert_eq!(ends, [1, 2, 8, 16, 24].map(|cookie| (cookie, EIO)), "{elevator}");
        assert_eq!(rig.why, paternoster_core::Waiting::Empty, "{elevator}");
    }
}

/// If data fails that would be followed by a flush, does the write end with its error, and is no
/// flush issued for it alone?
#[test]
fn flush_9_failed_data_need_no_flush() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.ordered(client, 8, Flags::FUA);
        rig.pull();
        fail(&mut rig, 0);
        assert_eq!(rig.served_words(), "", "{elevator}");
        assert_eq!(rig.done, [(8, EIO)]);
    }
}

/// And does another that waited for that data (C2) get its flush at once, with its own outcome?
#[test]
fn flush_9_who_waited_for_the_data_goes_on() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.ordered(client, 8, Flags::FUA);
        rig.pull();
        rig.flush(client, 1);
        assert_eq!(rig.pulled_words(), "");
        fail(&mut rig, 0);
        assert_eq!(rig.served_words(), "F", "{elevator}");
        assert_eq!(rig.done, [(8, EIO), (1, Status::Ok)]);
    }
}

/// Does a refused flush keep its sharers, and does a flush that comes after the refusal get the
/// next?
#[test]
fn a_refused_flush_keeps_its_sharers() {
    for elevator in BOTH_LAYERS {
        let mut rig = commanded(cached(), elevator);
        let client = rig.client();
        rig.flush(client, 1);
        rig.pull();
        rig.refuse(0);
        rig.flush(client, 2);
        assert_eq!(rig.pulled_words(), "");
        assert_eq!(rig.until, Some(paternoster_core::Nanos::from_millis(3)), "BLK-9");
        rig.at(3);
        assert_eq!(rig.pulled_words(), "F");
        rig.complete_flush();
        assert_eq!(rig.pulled_words(), "F", "{elevator}: its own, which may have come too late");
        assert_eq!(rig.ended(), [1]);
        rig.complete_flush();
        rig.pull();
        assert_eq!(rig.ended(), [1, 2]);
    }
}
