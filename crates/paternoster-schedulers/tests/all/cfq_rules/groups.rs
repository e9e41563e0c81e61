// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares of groups. CFQ-45 to CFQ-47.

use paternoster_core::{ClientSpec, Command, GroupSpec, Nanos};

use super::{LATER, PRESETS};
use crate::common::closed_loop::{ClosedLoop, Reader, Served};
use crate::common::driver::{Rig, disk};

/// A reader in each of two groups of weights 1000 and 500, for this many seconds.
fn shares(
    mut rig: Rig,
    readers: [Reader; 2],
    seconds: u64,
    service: impl Fn(&Command) -> Nanos,
) -> [Served; 2] {
    let mut weights = [1000, 500].into_iter();
    let readers = readers.map(|reader| {
        let weight = weights.next().expect("two of them");
        let group = GroupSpec::new().weight(weight);
        let group = rig.queue.add_group(Nanos::ZERO, group).expect("room for a group");
        let client = rig.client_with(ClientSpec::new().group(group));
        Reader { client, ..reader }
    });
    let mut run = ClosedLoop::new(rig, &readers);
    run.run(Nanos::from_secs(seconds), service);
    [run.served[0], run.served[1]]
}

/// A reader whose client does not exist yet.
fn some_reader(rig: &mut Rig, from: u64) -> Reader {
    Reader { depth: 4, think: Nanos::ZERO, ..Reader::forward(rig.client(), from, 8) }
}

fn ratio(of: impl Fn(Served) -> u64, [heavy, light]: [Served; 2]) -> f64 {
    of(heavy) as f64 / of(light) as f64
}

/// With two groups of weights 1000 and 500 whose readers always have something waiting, is device
/// time shared 2:1 within 10 % over 30 s?
#[test]
fn cfq_45_time_is_shared_by_weight() {
    for preset in PRESETS {
        let mut rig = Rig::new(disk(1), preset);
        let readers = [0, 1 << 24].map(|from| some_reader(&mut rig, from));
        let served = shares(rig, readers, 30, |_| Nanos::from_millis(2));
        let ratio = ratio(|served| served.time.0, served);
        assert!((1.8..=2.2).contains(&ratio), "{preset}: {ratio:.2}");
    }
}

/// With slice_idle=0 and a device that queues commands, are requests shared 2:1 and not time, from
/// 2.6.37 on? The light group's requests take eight times as long.
#[test]
fn cfq_46_requests_are_shared_without_slice_idle() {
    for preset in LATER {
        let mut rig = Rig::new(disk(32), preset);
        rig.set("slice_idle", "0");
        let [heavy, light] = [0, 1 << 26].map(|from| Reader {
            depth: 16,
            jumps: true,
            ..some_reader(&mut rig, from)
        });
        let light = Reader { sectors: 64, ..light };
        let each_sector = |command: &Command| Nanos::from_micros(25 * u64::from(command.sectors));
        let served = shares(rig, [heavy, light], 30, each_sector);
        let ratio = ratio(|served| served.commands, served);
        assert!((1.8..=2.2).contains(&ratio), "{preset}: {ratio:.2}");
    }
}

/// In 2.6.34, do two seeky groups of 1000 and 500 share equally without group_isolation, because
/// both are in the root, and 2:1 with it? Later kernels lack it, and share 2:1.
#[test]
fn cfq_47_isolation_of_seeky_groups() {
    for (preset, isolation, least, most) in [
        ("cfq", Some("0"), 0.9, 1.1),
        ("cfq", Some("1"), 1.8, 2.2),
        ("cfq-3.6", None, 1.8, 2.2),
        ("cfq-4.19", None, 1.8, 2.2),
    ] {
        let mut rig = Rig::new(disk(1), preset);
        if let Some(isolation) = isolation {
            rig.set("group_isolation", isolation);
        }
        let readers = [0, 1 << 26].map(|from| {
            let think = Nanos::from_micros(100);
            Reader { depth: 1, think, jumps: true, ..some_reader(&mut rig, from) }
        });
        let served = shares(rig, readers, 30, |_| Nanos::from_millis(5));
        let ratio = ratio(|served| served.time.0, served);
        assert!((least..=most).contains(&ratio), "{preset} {isolation:?}: {ratio:.2}");
    }
}
