// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does a read, write or sync through moonpool end when it would in a run of Paternoster under
//! `none`, to the nanosecond?

use std::io::SeekFrom;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use moonpool_core::{OpenOptions, StorageFile, StorageProvider, TimeProvider};
use moonpool_sim::executor::{Executor, spawn, until_stalled};
use moonpool_sim::{NetworkConfiguration, SimWorld};
use paternoster_core::event::Action;
use paternoster_core::{Event, Nanos, Note, Observer, Op};
use paternoster_disk::Device;
use paternoster_disk_moonpool::SimStorage;
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::{NoWatcher, RunError, Settings};

/// What went to a device or came back: when, what, first sector, sectors.
type Line = (Nanos, Op, u64, u64);

#[derive(Debug, Default)]
struct Both {
    issued: Vec<Line>,
    ended: Vec<Line>,
}

fn line(event: &Event) -> Line {
    (event.at, event.op, event.sector, event.sectors.into())
}

impl Observer for Both {
    fn event(&mut self, event: &Event) {
        match event.action {
            Action::Issue => self.issued.push(line(event)),
            Action::Complete => self.ended.push(line(event)),
            // The device has refused its last command: a flush that cannot be queued.
            Action::Requeue => assert_eq!(self.issued.pop(), Some(line(event))),
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

const MIXED: &str = "[a]\ndirect=1\nrw=randrw\nbsrange=4k-64k\nsize=1g\nioengine=libaio\n\
                     iodepth=24\nnumber_ios=2000\n";
const SYNCED: &str = "[a]\ndirect=1\nrw=randwrite\nbs=4k\nsize=256m\nioengine=libaio\niodepth=8\n\
                      fsync=16\nnumber_ios=1000\n[b]\ndirect=1\nrw=randread\nbs=4k\nsize=256m\n\
                      number_ios=500\n";

fn run(device: &str, job: &str) -> Both {
    let device = catalog::by_name(device).unwrap().unwrap();
    let include = |_: &str, _: &str| Err(String::new());
    let source = Source { name: "timing.fio", text: job };
    let jobs = parse(&[source], &[], &[], &|_| None, &include).expect("a sound job file");
    let settings = Settings { submit_cost: device.submit_cost, ..Settings::default() };
    let (_, both, _) = paternoster_workload::run::<_, RunError>(
        &jobs.jobs,
        &settings,
        &mut Simulated::new(device.model()),
        paternoster_schedulers::by_name("none").unwrap(),
        Both::default(),
        |_| Ok(()),
        &mut NoWatcher,
    )
    .expect("the run ends");
    both
}

/// The same operations at the same times on one file that begins at the disk's start; when each
/// ended.
fn through_moonpool(device: &str, issued: &[Line]) -> Vec<Line> {
    // Without chaos, which delays moonpool's sleeps by random times.
    let mut world = SimWorld::new_with_network_config(NetworkConfiguration::fast_local());
    let time = world.time_provider();
    let storage = SimStorage::new(&Device::named(device).unwrap(), 1, time.clone());
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (issued, ends) = (issued.to_vec(), Arc::clone(&ended));
    Executor::new(1).block_on(async move {
        let driver = spawn("driver", async move {
            let sectors = issued.iter().map(|(.., sector, sectors)| sector + sectors).max();
            let file = storage.open("all", OpenOptions::create_write()).await.unwrap();
            file.set_len(sectors.unwrap() * 512).await.unwrap();
            let options = OpenOptions::new().read(true).write(true);
            let mut tasks = Vec::new();
            for (at, op, sector, sectors) in issued {
                let wait = Duration::from_nanos(at.0).saturating_sub(time.now());
                if !wait.is_zero() {
                    time.sleep(wait).await.unwrap();
                }
                let mut file = storage.open("all", options.clone()).await.unwrap();
                let (ends, clock) = (Arc::clone(&ends), time.clone());
                let mut io = Box::pin(async move {
                    file.seek(SeekFrom::Start(sector * 512)).await.unwrap();
                    let mut data = vec![0; usize::try_from(sectors * 512).unwrap()];
                    match op {
                        Op::Read => file.read_exact(&mut data).await.unwrap(),
                        Op::Write => file.write_all(&data).await.unwrap(),
                        Op::Flush => file.sync_all().await.unwrap(),
                        other => unreachable!("{other:?}"),
                    }
                    let now = Nanos(u64::try_from(clock.now().as_nanos()).unwrap());
                    ends.lock().unwrap().push((now, op, sector, sectors));
                });
                // Begins the I/O here, since moonpool starts tasks in random order.
                if futures::poll!(&mut io).is_pending() {
                    tasks.push(spawn("io", io));
                }
            }
            for task in tasks {
                task.await.expect("it does not panic");
            }
        });
        until_stalled().await;
        while !driver.is_finished() {
            assert!(world.has_pending_events(), "nothing happens any more");
            world.step();
            until_stalled().await;
        }
        driver.await.expect("it does not panic");
    });
    Arc::try_unwrap(ended).unwrap().into_inner().unwrap()
}

#[test]
fn ends_are_those_of_a_run() {
    for device in ["ssd-870evo", "nvme-kc3000", "hdd-7200", "array-eva", "lab-flash"] {
        for job in [MIXED, SYNCED] {
            let mut both = run(device, job);
            assert!(both.ended.len() >= 1500, "{device}: {}", both.ended.len());
            let mut through = through_moonpool(device, &both.issued);
            both.ended.sort_unstable();
            through.sort_unstable();
            let differs = both.ended.iter().zip(&through).position(|(run, own)| run != own);
            if let Some(at) = differs {
                panic!("{device}: run {:?}, moonpool {:?}", both.ended[at], through[at]);
            }
            assert_eq!(both.ended.len(), through.len(), "{device}");
        }
    }
}
