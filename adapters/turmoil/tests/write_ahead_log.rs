// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is a write-ahead log without fsync caught, and one with fsync never?
//!
//! ```text
//! host "db"                                    test
//! for n: write record n, fsync, acknowledged = n     ▶ at a drawn time: crash host and disk
//! comes back: reads the records from the first on, until one is missing
//! ```

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use paternoster_disk::Device;
use paternoster_disk_turmoil::SimDisk;

const BLOCK: u64 = 4096;

/// How many records are whole, from the first on.
async fn recover(disk: &SimDisk) -> std::io::Result<u64> {
    for record in 0.. {
        let found = disk.read_at(record * BLOCK, BLOCK).await?;
        if found[..8] != (record + 1).to_le_bytes() {
            return Ok(record);
        }
    }
    unreachable!("the disk ends before the numbers do")
}

/// The log: recovers, then appends forever.
async fn serve(
    disk: SimDisk,
    synced: bool,
    acknowledged: Rc<Cell<u64>>,
    recovered: Rc<Cell<Option<u64>>>,
) -> turmoil::Result {
    let mut record = recover(&disk).await?;
    recovered.set(Some(record));
    loop {
        let mut block = vec![0; BLOCK as usize];
        block[..8].copy_from_slice(&(record + 1).to_le_bytes());
        disk.write_at(record * BLOCK, &block).await?;
        if synced {
            disk.sync().await?;
        }
        record += 1;
        acknowledged.set(record);
    }
}

/// Records acknowledged, and records there after a crash.
fn crash(seed: u64, synced: bool) -> (u64, u64) {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(3600))
        .build();
    let disk = SimDisk::new(&Device::named("ssd-870evo").unwrap(), seed);
    let acknowledged = Rc::new(Cell::new(0));
    let recovered = Rc::new(Cell::new(None));
    let parts = (disk.clone(), Rc::clone(&acknowledged), Rc::clone(&recovered));
    sim.host("db", move || {
        let (disk, acknowledged, recovered) = parts.clone();
        serve(disk, synced, acknowledged, recovered)
    });
    for _ in 0..20 + seed % 31 {
        sim.step().unwrap();
    }
    sim.crash("db");
    disk.crash(seed);
    let promised = acknowledged.get();
    recovered.set(None);
    sim.bounce("db");
    while recovered.get().is_none() {
        sim.step().unwrap();
    }
    (promised, recovered.get().unwrap())
}

/// Without fsync crashes lose acknowledged records, the first within ten seeds: every second cut
/// leaves nothing of a drive's cache, and every eighth all of it.
#[test]
fn a_missing_fsync_is_found() {
    let loses = |seed: &u64| {
        let (promised, found) = crash(*seed, false);
        found < promised
    };
    let lost: Vec<u64> = (0..100).filter(loses).collect();
    println!("lost in {} of 100 crashes, first with seed {:?}", lost.len(), lost.first());
    assert!(lost.len() > 20 && lost[0] < 10, "{lost:?}");
}

/// With fsync no crash does.
#[test]
fn with_fsync_nothing_is_lost() {
    let seeds = std::env::var("PATERNOSTER_CRASHES").map_or(300, |text| text.parse().unwrap());
    let mut records = 0;
    for seed in 0..seeds {
        let (promised, found) = crash(seed, true);
        assert!(found >= promised, "SEED={seed}: {found} of {promised}");
        records += promised;
    }
    assert!(records > seeds, "{records} records in {seeds} crashes");
}
