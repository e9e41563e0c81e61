// SPDX-License-Identifier: MIT OR Apache-2.0
//! What CFQ finds out about the device and its readers. CFQ-35, 39, 40.

use paternoster_core::{Command, DeviceFacts, Nanos};

use super::{FAR, PRESETS, each};
use crate::common::closed_loop::{ClosedLoop, Reader, Served};
use crate::common::driver::{Rig, disk};

/// With a device that takes 32 requests and more than five waiting, is it taken to queue commands
/// after the 51st completion, with the most requests that it has had as its depth; and is a device
/// that takes one at a time not?
#[test]
fn cfq_35_the_depth_is_found_out() {
    for (depth, queues) in [(32, "1"), (1, "0"), (4, "0"), (5, "1")] {
        each(depth, |preset, mut rig| {
            rig.set("ncq", "probe");
            assert_eq!((rig.get("hw_tag"), rig.get("hw_tag_est_depth")), ("-1".into(), "0".into()));
            let client = rig.client();
            for n in 0..100 {
                rig.read(client, n * 100, 8);
            }
            for end in 1..=51 {
                assert_eq!(rig.get("hw_tag"), "-1", "{preset}: before end {end}");
                rig.pull();
                rig.complete_oldest();
            }
            let found = (rig.get("hw_tag"), rig.get("hw_tag_est_depth"));
            assert_eq!(found, (queues.into(), depth.to_string()), "{preset}");
        });
    }
}

/// Is the device's own statement believed at once, unless CFQ is set to find out?
#[test]
fn cfq_35_a_declared_depth_is_believed() {
    for (depth, queues) in [(32, "1"), (1, "0")] {
        each(depth, |preset, rig| {
            let found = (rig.get("hw_tag"), rig.get("hw_tag_est_depth"));
            assert_eq!(found, (queues.into(), depth.to_string()), "{preset}");
        });
    }
}

/// The flash card of seed 000, roughly: 1.1 ms and 47 us for each KiB, one command at a time. 4 KiB
/// take 1.29 ms, 8 KiB 1.48, 64 KiB 4.11.
fn card(command: &Command) -> Nanos {
    Nanos::from_micros(1100 + 47 * u64::from(command.sectors) / 2)
}

/// Two random readers on the card for 5 s, one of 4 KiB and one of `kib`.
fn pair(preset: &str, detection: &str, kib: u32) -> [Served; 2] {
    let facts = DeviceFacts { rotational: false, ..disk(1) };
    let mut rig = Rig::new(facts, preset);
    rig.set("hz", "1000");
    rig.set("slice_idle", "8");
    rig.set("seek_detection", detection);
    let [small, large] = [(); 2].map(|()| rig.client());
    let think = Nanos::from_micros(20);
    let small = Reader { think, ..Reader::random(small, 0, 8) };
    let large = Reader { think, ..Reader::random(large, 4 * FAR, 2 * kib) };
    let mut run = ClosedLoop::new(rig, &[small, large]);
    run.run(Nanos::from_secs(5), card);
    [run.served[0], run.served[1]]
}

/// On flash that does not queue commands, a random reader of 4 KiB and one of 64 KiB: by the old
/// rules, are both seeky, and do they complete 1:1 within 5 %; by size, does the large one have
/// slices of its own, and does the small one get at least 1.5 times what it got before?
#[test]
fn cfq_39_sizes_instead_of_distances_on_flash() {
    for preset in PRESETS {
        let [new, _] = pair(preset, "size", 64).map(|served| served.commands);
        for old_rule in ["distance", "mean"] {
            let [old, beside] = pair(preset, old_rule, 64).map(|served| served.commands);
            assert!(old.abs_diff(beside) * 20 <= old, "{preset} {old_rule}: {old}, {beside}");
            assert!(new * 2 >= old * 3, "{preset} {old_rule}: {old}, then {new}");
        }
        let [auto, _] = pair(preset, "auto", 64).map(|served| served.commands);
        assert_eq!(auto, new, "{preset}: on flash auto is by size");
    }
}

/// Given 8 KiB instead, do both rules give the same, within 2 %? Both sizes are small.
#[test]
fn cfq_40_below_32_kib_nothing_changes() {
    for preset in PRESETS {
        let [old, new] = ["distance", "size"].map(|rule| pair(preset, rule, 8));
        for (old, new) in old.into_iter().zip(new) {
            let apart = old.commands.abs_diff(new.commands);
            assert!(apart * 50 <= old.commands, "{preset}: {old:?} {new:?}");
        }
    }
}
