// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does what is written come back, whatever it is cut into, under every scheduler and engine?

use paternoster_core::Nanos;
use paternoster_serve::config::Engine;
use paternoster_serve::device::Backend;
use paternoster_serve::device::faulty::{Effect, Often, Which};
use proptest::prelude::*;

use crate::common::client::{CACHE, READ, STATUS, TRIM, ZEROES};
use crate::common::{Client, Folder, config, device, end, start, start_behind, uneven, with_fault};

const SIZE: u64 = 4 << 20;
const NO_HOLE: u16 = 2;

/// One thing that a client does.
#[derive(Debug, Clone)]
enum Act {
    Write(u64, u32, u8),
    Zero(u64, u32, bool),
    Read(u64, u32),
    Flush,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let range = (0..SIZE, 1u32..(2 << 20)).prop_map(|(at, length)| {
        let left = u32::try_from(SIZE - at).unwrap();
        (at, length.min(left))
    });
    // Short requests, which begin and end within blocks, are as frequent as long ones.
    let short = (0..SIZE - 2000, 1u32..2000);
    let range = prop_oneof![range, short];
    let act = (range, any::<u8>(), 0..10).prop_map(|((at, length), byte, kind)| match kind {
        0..4 => Act::Write(at, length, byte),
        4..6 => Act::Zero(at, length, byte % 2 == 0),
        6..9 => Act::Read(at, length),
        _ => Act::Flush,
    });
    prop::collection::vec(act, 1..25)
}

fn does_what_is_written_come_back(scheduler: &str, engine: Engine, acts: &[Act]) {
    let folder =
        if engine == Engine::Auto { Folder::in_memory("data") } else { Folder::on_disk("data") };
    let file = folder.file("disk", SIZE);
    let mut dev = device(scheduler, &[("disk", &file)]);
    dev.engine = engine;
    let server = start(config(&folder, dev));
    let mut client = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    let mut model = vec![0u8; usize::try_from(SIZE).unwrap()];
    let span = |at: u64, length: u32| {
        let at = usize::try_from(at).unwrap();
        at..at + length as usize
    };
    for act in acts {
        match *act {
            Act::Write(at, length, byte) => {
                let data: Vec<u8> = (0..=255u8)
                    .cycle()
                    .take(length as usize)
                    .map(|i| byte.wrapping_add(i))
                    .collect();
                assert_eq!(client.write(0, at, &data).unwrap(), 0);
                model[span(at, length)].copy_from_slice(&data);
            }
            Act::Zero(at, length, holes) => {
                let flags = if holes { 0 } else { NO_HOLE };
                assert_eq!(client.ask(ZEROES, flags, at, length).unwrap().errno, 0);
                model[span(at, length)].fill(0);
            }
            Act::Read(at, length) => {
                assert!(client.read(at, length).unwrap() == model[span(at, length)], "{act:?}");
            }
            Act::Flush => assert_eq!(client.flush().unwrap(), 0),
        }
    }
    assert!(client.read(0, u32::try_from(SIZE).unwrap()).unwrap() == model);
    drop(client);
    end(&server);
    assert!(std::fs::read(&file).unwrap() == model, "the file is what was written");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn in_memory_under_bfq(acts in acts()) {
        does_what_is_written_come_back("bfq", Engine::Auto, &acts);
    }

    #[test]
    fn by_threads_under_cfq(acts in acts()) {
        does_what_is_written_come_back("cfq", Engine::Threads, &acts);
    }

    #[test]
    fn on_disk_under_mq_deadline(acts in acts()) {
        does_what_is_written_come_back("mq-deadline", Engine::Auto, &acts);
    }
}

/// Also without structured replies, in pieces after one header?
#[test]
fn simple_replies_bring_long_reads_in_order() {
    let folder = Folder::in_memory("simple");
    let file = folder.path("disk");
    let data = uneven(SIZE);
    std::fs::write(&file, &data).unwrap();
    let server = start(config(&folder, device("noop", &[("disk", &file)])));
    let mut client = Client::negotiate(&folder.path("nbd.sock"), "disk", false).unwrap();
    let told = client.ask(READ, 0, 77, 3_500_000).unwrap();
    assert!(told.data[0].1 == data[77..77 + 3_500_000]);
    end(&server);
}

/// Are holes told as holes, does a trim make one, and does a request for the cache end well?
#[test]
fn holes_are_told() {
    let folder = Folder::in_memory("holes");
    let file = folder.file("disk", SIZE);
    let server = start(config(&folder, device("bfq", &[("disk", &file)])));
    let mut client = Client::connect(&folder.path("nbd.sock"), "disk").unwrap();
    assert_eq!(client.size, SIZE);
    client.write(0, 1 << 20, &[7; 1 << 20]).unwrap();
    let whole = u32::try_from(SIZE).unwrap();
    // Hole and zeroes are 3, data are 0.
    let runs = client.ask(STATUS, 0, 0, whole).unwrap().runs;
    assert_eq!(runs, [(1 << 20, 3), (1 << 20, 0), (2 << 20, 3)]);
    assert_eq!(client.ask(TRIM, 1, 1 << 20, 1 << 20).unwrap().errno, 0);
    let runs = client.ask(STATUS, 8, 0, whole).unwrap().runs;
    assert_eq!(runs, [(whole, 3)], "one run, as was asked for");
    assert_eq!(client.ask(CACHE, 0, 0, 1 << 20).unwrap().errno, 0);
    end(&server);
}

/// If sixteen clients write to one block at once, each its own part of it, do all find their bytes
/// there; also if they use two volumes that share a file under two names?
#[test]
fn parts_of_a_block_do_not_get_lost() {
    /// So that the requests meet: requests that are done at once do not.
    fn all_is_late(inner: Box<dyn Backend>) -> Box<dyn Backend> {
        with_fault(inner, Which::All, Often::Every(1), Effect::Late(Nanos::from_micros(100)))
    }
    let folder = Folder::in_memory("ragged");
    let (file, twin) = (folder.file("disk", SIZE), folder.path("twin"));
    std::fs::hard_link(&file, &twin).unwrap();
    let shared = folder.file("shared", SIZE);
    let mut dev = device("bfq", &[("disk", &file), ("twin", &twin)]);
    dev.volumes.extend(device("bfq", &[("one", &shared), ("two", &shared)]).volumes);
    // The other one begins within it.
    dev.volumes[3].start = 4096;
    dev.volumes.iter_mut().for_each(|volume| volume.share = true);
    let server = start_behind(config(&folder, dev), all_is_late);
    let socket = folder.path("nbd.sock");
    for (names, start) in [(["disk", "disk"], 0), (["disk", "twin"], 0), (["one", "two"], 4096)] {
        std::thread::scope(|scope| {
            for number in 0..16u8 {
                let (socket, which) = (&socket, usize::from(number % 2));
                scope.spawn(move || {
                    let mut client = Client::connect(socket, names[which]).unwrap();
                    let start = if which == 1 { start } else { 0 };
                    for round in 0..20u8 {
                        let at = 8192 - start + u64::from(number) * 30;
                        client.write(0, at, &[number ^ round; 30]).unwrap();
                        assert_eq!(client.read(at, 30).unwrap(), [number ^ round; 30], "{names:?}");
                    }
                });
            }
        });
    }
    end(&server);
}
