// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be set. CFQ-1; what differs between versions in the list itself.

use paternoster_core::DeviceFacts;

use super::{PRESETS, each};
use crate::common::driver::{Rig, disk};

/// Name, default, minimum.
const COMMON: [(&str, &str, &str); 10] = [
    ("quantum", "8", "1"),
    ("fifo_expire_sync", "125", "1"),
    ("fifo_expire_async", "250", "1"),
    ("back_seek_max", "16384", "0"),
    ("back_seek_penalty", "2", "1"),
    ("slice_sync", "100", "1"),
    ("slice_async", "40", "1"),
    ("slice_async_rq", "2", "1"),
    ("slice_idle", "8", "0"),
    ("low_latency", "1", "0"),
];

const OLD: [(&str, &str, &str); 1] = [("group_isolation", "0", "0")];
const LATER: [(&str, &str, &str); 2] = [("group_idle", "8", "0"), ("target_latency", "300", "1")];

/// Does every tunable of a fresh queue read as in the table, does a value below the minimum become
/// the minimum, and is low_latency=5 stored as 1?
#[test]
fn cfq_1_tunables_have_their_defaults_and_clamps() {
    each(1, |preset, mut rig| {
        let more = if preset == "cfq" { &OLD[..] } else { &LATER };
        for (name, default, least) in COMMON.iter().chain(more) {
            assert_eq!(rig.get(name), *default, "{preset} {name}");
            rig.set(name, "-1");
            assert_eq!(rig.get(name), *least, "{preset} {name}");
            rig.set(name, "77");
            let most_one = *name == "low_latency" || *name == "group_isolation";
            assert_eq!(rig.get(name), if most_one { "1" } else { "77" }, "{preset} {name}");
        }
        rig.set("low_latency", "0");
        rig.set("low_latency", "5");
        assert_eq!(rig.get("low_latency"), "1");
    });
}

/// Is a tunable that a version does not have unknown there?
#[test]
fn cfq_1_versions_have_their_own_tunables() {
    each(1, |preset, mut rig| {
        let missing = if preset == "cfq" { &LATER[..] } else { &OLD };
        for (name, _, _) in missing {
            assert_eq!(rig.refusal(name, "1"), format!("there is no attribute `{name}`"));
        }
    });
}

/// Do times read as a kernel with HZ=250 keeps them, in ticks of 4 ms? 125 ms is 31 ticks, 124 ms;
/// 250 is 62, 248; a written value is rounded up, 5 ms to 8.
#[test]
fn cfq_1_times_are_kept_in_ticks() {
    each(1, |preset, mut rig| {
        rig.set("hz", "250");
        let shown = ["fifo_expire_sync", "fifo_expire_async", "slice_idle", "slice_sync"];
        assert_eq!(shown.map(|name| rig.get(name)), ["124", "248", "8", "100"], "{preset}");
        rig.set("slice_idle", "5");
        assert_eq!(rig.get("slice_idle"), "8");
    });
}

/// Does 4.19 begin without slice_idle on flash, and 2.6.34 and 3.6 with it; and may it be set?
#[test]
fn cfq_1_on_flash_4_19_does_not_idle_for_queues() {
    for (preset, idle) in PRESETS.into_iter().zip(["8", "8", "0"]) {
        let mut rig = Rig::new(DeviceFacts { rotational: false, ..disk(32) }, preset);
        assert_eq!(rig.get("slice_idle"), idle, "{preset}");
        rig.set("slice_idle", "4");
        assert_eq!(rig.get("slice_idle"), "4", "{preset}");
    }
}
