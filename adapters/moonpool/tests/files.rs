// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do the files behave as files, whatever is done with them; and is a write-ahead log without sync
//! caught, and one with sync never?

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{ErrorKind, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use futures::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, FutureExt};
use moonpool_core::{OpenOptions, StorageFile, StorageProvider};
use moonpool_sim::executor::{Executor, spawn, until_stalled};
use moonpool_sim::{SimTimeProvider, SimWorld};
use paternoster_disk::{Device, Nanos};
use paternoster_disk_moonpool::SimStorage;

type Storage = SimStorage<SimTimeProvider>;

const BLOCK: usize = 4096;

/// Runs `work` on a new storage until it ends, or `until`.
fn simulate<F: Future<Output = ()> + Send + 'static>(
    seed: u64,
    until: Nanos,
    work: impl FnOnce(Storage) -> F,
) -> (SimWorld, Storage) {
    let mut world = SimWorld::new_with_seed(seed);
    let device = Device::named("ssd-870evo").unwrap();
    let storage = SimStorage::new(&device, seed, world.time_provider());
    let work = work(storage.clone());
    let world = Executor::new(seed).block_on(async move {
        let task = spawn("work", work);
        until_stalled().await;
        while !task.is_finished() && world.now().as_nanos() < u128::from(until.0) {
            world.step();
            until_stalled().await;
        }
        if task.is_finished() {
            task.await.expect("it does not panic");
        }
        world
    });
    (world, storage)
}

/// Appends records; publishes which was acknowledged last.
async fn append(storage: Storage, synced: bool, acknowledged: Arc<AtomicU64>) {
    let mut wal = storage.open("wal", OpenOptions::create_write()).await.unwrap();
    for record in 1_u64.. {
        let mut block = vec![0; BLOCK];
        block[..8].copy_from_slice(&record.to_le_bytes());
        wal.write_all(&block).await.unwrap();
        if synced {
            wal.sync_data().await.unwrap();
        }
        acknowledged.store(record, Ordering::Relaxed);
    }
}

/// Records acknowledged, and records there after a crash; and the disk's digest.
fn crash(seed: u64, synced: bool) -> (u64, u64, u64) {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let until = Nanos::from_millis(20 + seed % 31);
    let work = |storage| append(storage, synced, Arc::clone(&acknowledged));
    let (world, storage) = simulate(seed, until, work);
    storage.disk().crash(seed);
    let found = Arc::new(AtomicU64::new(0));
    let (after, count) = (storage.clone(), Arc::clone(&found));
    let mut world = world;
    let world = Executor::new(seed).block_on(async move {
        let task = spawn("recovery", async move {
            let mut wal = after.open("wal", OpenOptions::read_only()).await.unwrap();
            let mut block = vec![0; BLOCK];
            while wal.read_exact(&mut block).await.is_ok() {
                if block[..8] != (count.load(Ordering::Relaxed) + 1).to_le_bytes() {
                    break;
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        until_stalled().await;
        while !task.is_finished() {
            assert!(world.has_pending_events(), "nothing happens any more");
            world.step();
            until_stalled().await;
        }
        world
    });
    drop(world);
    let digest = storage.disk().with(|disk| disk.digest());
    (acknowledged.load(Ordering::Relaxed), found.load(Ordering::Relaxed), digest)
}

#[test]
fn synced_records_survive_and_others_need_not() {
    let lost: Vec<u64> = (0..100)
        .filter(|seed| {
            let (promised, found, _) = crash(*seed, false);
            found < promised
        })
        .collect();
    println!("lost in {} of 100 crashes, first with seed {:?}", lost.len(), lost.first());
    assert!(lost.len() > 20 && lost[0] < 10, "{lost:?}");
    let seeds = std::env::var("PATERNOSTER_CRASHES").map_or(100, |text| text.parse().unwrap());
    let mut without = 0;
    for seed in 0..seeds {
        let (promised, found, digest) = crash(seed, true);
        assert!(found >= promised, "SEED={seed}: {found} of {promised}");
        // The first flush may take longer than the world lives.
        without += u64::from(promised == 0);
        if seed < 100 {
            assert_eq!((promised, found, digest), crash(seed, true), "SEED={seed}");
        }
    }
    assert!(without <= seeds / 200, "no record was promised in {without} of {seeds}");
}

/// splitmix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }
}

fn size(bytes: usize) -> u64 {
    bytes.try_into().unwrap()
}

/// Random calls on files of three names, compared with vectors of bytes.
async fn drawn_calls(storage: Storage, seed: u64) {
    let mut chance = Chance(seed);
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let both = || OpenOptions::new().read(true).write(true);
    // Lengths of whole sectors and others, within one MiB and across its end.
    let place = |chance: &mut Chance| match chance.below(3) {
        0 => chance.below(9) * 512,
        1 => chance.below(5000),
        _ => (1 << 20) - 2000 + chance.below(4000),
    };
    for step in 0..60 {
        let name = ["a", "b", "c"][usize::try_from(chance.below(3)).unwrap()];
        let (at, len) = (place(&mut chance), 1 + chance.below(4000));
        let at_index = usize::try_from(at).unwrap();
        let data: Vec<u8> = (0..len).map(|byte| (seed + step * 7 + byte) as u8 | 1).collect();
        let told = format!("SEED={seed} step {step}: {name} at {at}, {len}");
        let model = files.get_mut(name);
        match chance.below(9) {
            0 => {
                let opened = storage.open(name, both().create_new(true)).await;
                assert_eq!(opened.is_ok(), model.is_none(), "{told}");
                files.entry(name).or_default();
            }
            1 | 2 => {
                let Ok(mut file) = storage.open(name, both()).await else {
                    assert!(model.is_none(), "{told}");
                    continue;
                };
                let model = model.unwrap();
                file.seek(SeekFrom::Start(at)).await.unwrap();
                file.write_all(&data).await.unwrap();
                model.resize(model.len().max(at_index + data.len()), 0);
                model[at_index..at_index + data.len()].copy_from_slice(&data);
                assert_eq!(file.size().await.unwrap(), size(model.len()), "{told}");
            }
            3 => {
                let appends = OpenOptions::new().append(true).create(true);
                let mut file = storage.open(name, appends).await.unwrap();
                file.write_all(&data).await.unwrap();
                files.entry(name).or_default().extend_from_slice(&data);
            }
            4 => {
                let Ok(file) = storage.open(name, both()).await else { continue };
                file.set_len(at).await.unwrap();
                model.unwrap().resize(at_index, 0);
            }
            5 if model.is_some() && chance.below(4) == 0 => {
                storage.delete(name).await.unwrap();
                files.remove(name);
            }
            6 if model.is_some() => {
                storage.rename(name, "a").await.unwrap();
                let moved = files.remove(name).unwrap();
                files.insert("a", moved);
            }
            7 => {
                storage.open(name, OpenOptions::create_write()).await.unwrap();
                files.insert(name, Vec::new());
            }
            _ => {
                assert_eq!(storage.exists(name).await.unwrap(), model.is_some(), "{told}");
                let Some(model) = model else { continue };
                let mut file = storage.open(name, OpenOptions::read_only()).await.unwrap();
                let back = chance.below(size(model.len()) + 1);
                file.seek(SeekFrom::End(-i64::try_from(back).unwrap())).await.unwrap();
                let mut found = Vec::new();
                file.read_to_end(&mut found).await.unwrap();
                let from = model.len() - usize::try_from(back).unwrap();
                assert!(found == model[from..], "{told}, {back} from its end");
            }
        }
    }
}

#[test]
fn files_are_as_long_and_hold_what_was_written() {
    for seed in 0..100 {
        let (world, _) = simulate(seed, Nanos::MAX, |storage| drawn_calls(storage, seed));
        assert!(!world.now().is_zero(), "reads and writes take time");
    }
}

/// A write beyond the file's end is abandoned, or fails, after it has begun: if the file later
/// grows over its place, by its length or by a write farther on, does it have zeros there?
#[test]
fn what_was_given_up_does_not_show_behind_the_end() {
    for (seed, fails) in (0..40).map(|seed| (seed, seed % 2 == 1)) {
        let (..) = simulate(seed, Nanos::MAX, move |storage| async move {
            let options = || OpenOptions::create_write().read(true);
            let mut file = storage.open("a", options()).await.unwrap();
            file.write_all(&[1; 100]).await.unwrap();
            // Whole sectors or parts, next to the end or far from it.
            let at = [512, 100, 8192, (3 << 20) + 7][seed as usize / 2 % 4];
            file.seek(SeekFrom::Start(at)).await.unwrap();
            if fails {
                storage.disk().with(|disk| disk.episode("error errno=5 op=write count=1")).unwrap();
                file.write_all(&[2; 4096]).await.unwrap_err();
            } else {
                let mut write = file.write(&[2; 4096]);
                futures::future::poll_fn(|context| {
                    assert!(write.poll_unpin(context).is_pending(), "it takes time");
                    Poll::Ready(())
                })
                .await;
            }
            drop(file);
            // Others go on, and the disk with them.
            let mut other = storage.open("b", options()).await.unwrap();
            other.write_all(&[3; 8192]).await.unwrap();
            other.sync_all().await.unwrap();

            let options = OpenOptions::new().read(true).write(true);
            let mut file = storage.open("a", options).await.unwrap();
            assert_eq!(file.size().await.unwrap(), 100);
            let len = at + 10_000;
            if seed / 8 % 2 == 0 {
                file.set_len(len).await.unwrap();
            } else {
                file.seek(SeekFrom::Start(len - 512)).await.unwrap();
                file.write_all(&[0; 512]).await.unwrap();
            }
            let mut found = Vec::new();
            file.seek(SeekFrom::Start(0)).await.unwrap();
            file.read_to_end(&mut found).await.unwrap();
            assert_eq!(found.len() as u64, len);
            let shows = found[100..].iter().position(|byte| *byte != 0);
            assert_eq!(shows, None, "seed {seed}, fails: {fails}");
        });
    }
}

/// Two writes beyond the end at once, the nearer of which fails or is given up when the other
/// has begun: does the file have zeros where it was, whatever parts of sectors it had?
#[test]
fn what_is_given_up_beside_another_write_does_not_show() {
    for (seed, fails) in (0..40).map(|seed| (seed, seed % 2 == 1)) {
        let (..) = simulate(seed, Nanos::MAX, move |storage| async move {
            let mut near = storage.open("a", OpenOptions::create_write()).await.unwrap();
            near.write_all(&[1; 512]).await.unwrap();
            let options = OpenOptions::new().read(true).write(true);
            let mut far = storage.open("a", options).await.unwrap();
            let at = [512_u64, 600, 8192, (3 << 20) + 7][seed as usize / 2 % 4];
            let gap = [0, 512, 4096, 1 << 20, 512 * 9][seed as usize / 8 % 5];
            let far_at = (at + 4096).next_multiple_of(512) + gap;
            near.seek(SeekFrom::Start(at)).await.unwrap();
            far.seek(SeekFrom::Start(far_at)).await.unwrap();
            if fails {
                storage.disk().with(|disk| disk.episode("error errno=5 op=write count=1")).unwrap();
                let both = futures::join!(near.write_all(&[2; 4096]), far.write_all(&[3; 4096]));
                assert!(both.0.is_err() && both.1.is_ok(), "{both:?}");
            } else {
                let mut write = far.write(&[3; 4096]);
                futures::future::poll_fn(|context| {
                    assert!(near.write(&[2; 4096]).poll_unpin(context).is_pending());
                    assert!(write.poll_unpin(context).is_pending(), "it takes time");
                    Poll::Ready(())
                })
                .await;
                drop(near);
                assert_eq!(write.await.unwrap(), 4096);
            }
            let mut found = Vec::new();
            far.seek(SeekFrom::Start(0)).await.unwrap();
            far.read_to_end(&mut found).await.unwrap();
            assert_eq!(found.len() as u64, far_at + 4096);
            let (before, end) = found.split_at(usize::try_from(far_at).unwrap());
            let shows = before[512..].iter().position(|byte| *byte != 0);
            assert_eq!(shows, None, "seed {seed}, fails: {fails}, {at} before {far_at}");
            assert!(end.iter().all(|byte| *byte == 3), "seed {seed}");
        });
    }
}

/// Is each mistake refused as by std's files, and does a write that is too large leave space?
#[test]
fn what_is_not_allowed_is_refused() {
    let (..) = simulate(1, Nanos::MAX, |storage| async move {
        let kind = |error: std::io::Error| error.kind();
        let missing = storage.open("none", OpenOptions::read_only()).await;
        assert_eq!(missing.map_err(kind).err(), Some(ErrorKind::NotFound));
        let created = storage.open("none", OpenOptions::read_only().create(true)).await;
        assert_eq!(created.map_err(kind).err(), Some(ErrorKind::InvalidInput));
        assert_eq!(storage.delete("none").await.map_err(kind), Err(ErrorKind::NotFound));
        assert_eq!(storage.rename("none", "a").await.map_err(kind), Err(ErrorKind::NotFound));

        let mut file = storage.open("a", OpenOptions::create_write()).await.unwrap();
        let again = storage.open("a", OpenOptions::create_new_write()).await;
        assert_eq!(again.map_err(kind).err(), Some(ErrorKind::AlreadyExists));
        assert_eq!(file.read(&mut [0]).await.map_err(kind), Err(ErrorKind::PermissionDenied));
        assert_eq!(
            file.seek(SeekFrom::Current(-1)).await.map_err(kind),
            Err(ErrorKind::InvalidInput)
        );
        for far in [u64::MAX, u64::MAX - 511, 1 << 60] {
            file.seek(SeekFrom::Start(far)).await.unwrap();
            assert_eq!(file.write(&[1; 512]).await.map_err(kind), Err(ErrorKind::StorageFull));
            assert_eq!(file.set_len(far).await.map_err(kind), Err(ErrorKind::StorageFull));
        }
        assert_eq!(file.size().await.unwrap(), 0);
        file.seek(SeekFrom::Start(0)).await.unwrap();
        file.write_all(b"there was space").await.unwrap();

        let mut file = storage.open("a", OpenOptions::read_only()).await.unwrap();
        assert_eq!(file.write(&[1]).await.map_err(kind), Err(ErrorKind::PermissionDenied));
        assert_eq!(file.set_len(0).await.map_err(kind), Err(ErrorKind::PermissionDenied));
        file.seek(SeekFrom::Start(u64::MAX)).await.unwrap();
        assert_eq!(file.read(&mut [0; 8]).await.unwrap(), 0);
        storage.delete("a").await.unwrap();
        // Open files stay.
        file.seek(SeekFrom::Start(0)).await.unwrap();
        let mut found = String::new();
        file.read_to_string(&mut found).await.unwrap();
        assert_eq!(found, "there was space");
    });
}
