// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be set. BFQ-186 to BFQ-188, the table of section 15; scenario 16; BFQ-180.

use paternoster_core::{Bio, GroupSpec, Nanos, Op, Waiting};

use super::{FAR, PRESETS, each, flash, ms, raised};
use crate::common::driver::{Rig, disk};

/// Name, default, minimum, maximum.
const TABLE: [(&str, &str, &str, &str); 10] = [
    ("fifo_expire_sync", "125", "1", "1000000000"),
    ("fifo_expire_async", "250", "1", "1000000000"),
    ("back_seek_max", "16384", "0", "2147483647"),
    ("back_seek_penalty", "2", "1", "2147483647"),
    ("slice_idle", "8", "0", "10000"),
    ("slice_idle_us", "8000", "0", "10000000"),
    ("max_budget", "0", "0", "2147483647"),
    ("timeout_sync", "125", "1", "1000000000"),
    ("strict_guarantees", "0", "0", "1"),
    ("low_latency", "1", "0", "1"),
];

/// Does each tunable of a fresh queue read as in the table, and does a value beyond its range
/// become the end of the range?
#[test]
fn bfq_186_tunables_have_their_defaults_and_ranges() {
    each(disk(1), |preset, mut rig| {
        for (name, default, least, most) in TABLE {
            assert_eq!(rig.get(name), default, "{preset} {name}");
            rig.set(name, "-1");
            assert_eq!(rig.get(name), least, "{preset} {name}");
            rig.set(name, "99999999999999");
            assert_eq!(rig.get(name), most, "{preset} {name}");
            rig.set(name, default);
        }
    });
}

/// Does slice_idle_us=2500 read as 2 ms, and does the device idle for 2.5?
#[test]
fn bfq_186_slice_idle_in_two_units() {
    each(disk(1), |preset, mut rig| {
        rig.set("low_latency", "0");
        rig.set("slice_idle_us", "2500");
        assert_eq!((rig.get("slice_idle"), rig.get("slice_idle_us")), ("2".into(), "2500".into()));
        let client = rig.client();
        rig.read(client, FAR, 8);
        rig.pull();
        rig.complete_oldest();
        rig.pull();
        assert_eq!(rig.until, Some(Nanos::from_micros(2500)), "{preset}");
        rig.set("slice_idle", "8");
        assert_eq!(rig.get("slice_idle_us"), "8000");
    });
}

/// With low_latency=0 and, on flash, slice_idle=0, which the manual recommends for throughput, is
/// no queue raised, and does the device never idle, whatever the weights and groups?
#[test]
fn bfq_187_a_profile_for_throughput() {
    each(flash(32), |preset, mut rig| {
        rig.set("low_latency", "0");
        rig.set("slice_idle", "0");
        let group = rig.queue.add_group(Nanos::ZERO, GroupSpec::new().weight(700)).expect("room");
        let clients = [
            rig.client(),
            rig.client_with(paternoster_core::ClientSpec::new().group(group)),
            rig.client_with(
                paternoster_core::ClientSpec::new()
                    .priority(paternoster_core::Class::BestEffort, 0),
            ),
        ];
        for round in 0..20u64 {
            for (place, client) in (1..).zip(clients) {
                rig.read(client, place * FAR + 1000 * (round * 7919 % 1000), 8);
            }
            rig.serve();
            rig.now += ms(1);
        }
        assert_eq!(super::idled(&rig), 0, "{preset}");
        assert!(clients.iter().all(|&client| raised(&rig, client) == 1), "{preset}");
    });
}

/// Does a largest budget that is set apply at once, and does it follow the rate again with 0?
#[test]
fn bfq_188_a_largest_budget_by_hand() {
    each(disk(1), |preset, mut rig| {
        assert_eq!(rig.get("max_budget_now"), "16384", "{preset}: nothing is known yet");
        rig.set("low_latency", "0");
        rig.set("slice_idle", "0");
        let client = rig.client();
        for turn in 0..20 {
            rig.read(client, FAR + 8 * turn, 8);
            rig.serve();
        }
        rig.set("max_budget", "5000");
        assert_eq!(rig.get("max_budget_now"), "5000");
        rig.set("max_budget", "0");
        // 9333 * 125,000 / 65536.
        assert_eq!(rig.get("max_budget_now"), "17801");
        rig.set("timeout_sync", "250");
        assert_eq!(rig.get("max_budget_now"), "35602");
    });
}

/// Does strict_guarantees=1 raise slice_idle to 8 ms, and leave a larger value?
#[test]
fn bfq_186_strict_guarantees_need_idling() {
    each(flash(32), |preset, mut rig| {
        for (before, after) in [("0", "8"), ("3", "8"), ("20", "20")] {
            rig.set("strict_guarantees", "0");
            rig.set("slice_idle", before);
            rig.set("strict_guarantees", "1");
            assert_eq!(rig.get("slice_idle"), after, "{preset}");
        }
    });
}

/// With 250 ticks a second, does timeout_sync=125 read as 124, 31 ticks, and is a request late to
/// the nanosecond?
#[test]
fn bfq_186_the_timeout_is_kept_in_ticks() {
    each(disk(1), |preset, mut rig| {
        rig.set("hz", "250");
        assert_eq!(rig.get("timeout_sync"), "124", "{preset}");
        assert_eq!(rig.get("fifo_expire_sync"), "125", "{preset}");
    });
}

/// Scenario 16: can every attribute be written under load, with any value, without losing a
/// request; and does low_latency=0 end every raise?
#[test]
fn bfq_scenario_16_tunables_under_load() {
    for facts in [disk(1), flash(32)] {
        each(facts, |preset, mut rig| {
            let clients = [(); 6].map(|()| rig.client());
            let mut names = Vec::new();
            rig.queue.for_each_attribute(|name, attribute, _| {
                if TABLE.iter().any(|row| row.0 == name) || attribute.unit == "ms" {
                    names.push(name.to_owned());
                }
            });
            let mut sent = 0;
            for turn in 0..1200u64 {
                let client = clients[(turn % 6) as usize];
                let op = if turn % 4 == 3 { Op::Write } else { Op::Read };
                let sector = (turn % 6) * FAR + turn * 613 % 40_000;
                let bio = Bio::new(client, op, sector, 8 + (turn % 30) as u32).cookie(turn);
                sent += u64::from(rig.try_submit(bio).is_ok());
                let name = &names[usize::try_from(turn * 7).expect("a few turns") % names.len()];
                rig.set(name, &(turn * 31 % 300).to_string());
                rig.pull();
                rig.now += Nanos::from_micros(300);
                if !rig.inside.is_empty() && turn % 3 != 0 {
                    rig.complete_oldest();
                }
                rig.queue.audit().expect("the audit holds");
            }
            rig.set("low_latency", "1");
            rig.set("strict_guarantees", "0");
            rig.serve();
            rig.now += ms(20_000);
            for (place, client) in (0..).zip(clients) {
                // Sharing a queue, it may have its part with the other's request (BFQ-36).
                let sector = 20 * FAR + place * FAR;
                let bio = Bio::new(client, Op::Read, sector, 8).cookie(sector);
                sent += u64::from(rig.try_submit(bio).is_ok());
            }
            let is_raised = |rig: &Rig| clients.iter().any(|&client| raised(rig, client) > 1);
            assert!(is_raised(&rig), "{preset}");
            rig.set("low_latency", "0");
            assert!(!is_raised(&rig), "{preset}");
            rig.serve();
            assert_eq!((rig.done.len() as u64, rig.why), (sent, Waiting::Empty), "{preset}");
        });
    }
}

/// Do group weights from 1 to 1000 count as they are; and is a larger one, which other elevators
/// take, 1000 here?
#[test]
fn bfq_180_weights_of_groups() {
    for preset in PRESETS {
        for (weights, first) in [([1, 2], 1), ([1000, 500], 0), ([1000, 10_000], 0)] {
            let mut rig = Rig::new(disk(1), preset);
            rig.set("low_latency", "0");
            let clients = weights.map(|weight| {
                let group = rig
                    .queue
                    .add_group(Nanos::ZERO, GroupSpec::new().weight(weight))
                    .expect("room");
                rig.client_with(paternoster_core::ClientSpec::new().group(group))
            });
            // The light one comes first; equal ones go in the order in which they came.
            for (place, client) in (1..).zip(clients) {
                rig.read(client, place * FAR, 8);
            }
            let command = rig.pull()[0];
            assert_eq!(command.client, clients[first], "{preset} {weights:?}");
        }
    }
}
