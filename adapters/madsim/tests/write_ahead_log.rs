// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does an acknowledged record survive a kill of its node if it was synced, and may it be lost if
//! not; and does one seed always give the same?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use madsim::runtime::{Handle, Runtime};
use paternoster_disk::Device;
use paternoster_disk_madsim::SimDisk;

const BLOCK: u64 = 4096;

/// Appends records, and publishes which was acknowledged last.
async fn append(disk: SimDisk, synced: bool, acknowledged: Arc<AtomicU64>) {
    for record in 0.. {
        let block = vec![u8::try_from(record % 255 + 1).unwrap(); BLOCK as usize];
        disk.write_at(record * BLOCK, &block).await.unwrap();
        if synced {
            disk.sync().await.unwrap();
        }
        acknowledged.store(record + 1, Ordering::Relaxed);
    }
}

/// Records acknowledged, and records there after a kill; and the disk's digest.
fn kill(seed: u64, synced: bool) -> (u64, u64, u64) {
    Runtime::with_seed_and_config(seed, madsim::Config::default()).block_on(async move {
        let disk = SimDisk::new(&Device::named("ssd-870evo").unwrap(), seed);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let parts = (disk.clone(), Arc::clone(&acknowledged));
        let node = Handle::current().create_node().build();
        node.spawn(append(parts.0, synced, parts.1));
        madsim::time::sleep(Duration::from_millis(20 + seed % 31)).await;
        Handle::current().kill(node.id());
        disk.crash(seed);
        let mut found = 0;
        while disk.read_at(found * BLOCK, BLOCK).await.unwrap()[0] != 0 {
            found += 1;
        }
        (acknowledged.load(Ordering::Relaxed), found, disk.with(|disk| disk.digest()))
    })
}

#[test]
fn synced_records_survive_and_others_need_not() {
    let lost = (0..100).filter(|seed| {
        let (promised, found, _) = kill(*seed, false);
        found < promised
    });
    assert!(lost.count() > 20);
    for seed in 0..100 {
        let (promised, found, digest) = kill(seed, true);
        assert!(promised > 0 && found >= promised, "SEED={seed}: {found} of {promised}");
        assert_eq!((promised, found, digest), kill(seed, true), "SEED={seed}");
    }
}
