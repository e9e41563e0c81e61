// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of jobs, recorded in memory and replayed: does the same device do the same, and a faster
//! one what a faster device should?
//!
//! ```text
//! jobs ──▶ run ──▶ events ──▶ Matcher ──▶ Recording ──▶ replay ──▶ the same times?
//! ```
//!
//! A replay does not repeat what a trace does not contain: I/O priorities, cgroups. The random jobs
//! have none.

use paternoster_core::{Action, Event, Flags, Nanos, Note, Observer, Op, RequestQueue};
use paternoster_sim::{Description, Simulated, catalog};
use paternoster_workload::Queue;
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::replay::{
    Arrival, Backlog, Fit, Manner, Mapping, Matcher, Recording, Replay, ReplayError, Replayed,
    Schedule, Speed, replay,
};
use paternoster_workload::run::{NoWatcher, RunError, Settings};
use proptest::prelude::*;
use std::ops::ControlFlow;

/// Listens to a run as a tracer does.
#[derive(Default)]
struct Tracer(Matcher);

impl Observer for Tracer {
    fn event(&mut self, event: &Event) {
        let Event { at, action, client, op, flags, sector, sectors, .. } = *event;
        let (matcher, pid) = (&mut self.0, client.index());
        match (action, op) {
            (Action::Queue, _) => {
                let arrival = Arrival { at, pid, op, flags, sector, sectors };
                matcher.arrive(&arrival).expect("a short run");
            }
            (Action::Get, Op::Flush) => matcher.allocate_flush(pid),
            (Action::Issue, Op::Flush) => matcher.issue_flush(at),
            (Action::Complete, Op::Flush) => matcher.complete_flush(at),
            (Action::Issue, _) => matcher.issue(at, op != Op::Read, sector, sectors),
            (Action::Complete, _) => matcher.complete(at, op != Op::Read, sector, sectors),
            (Action::Plug, _) => matcher.plug(pid),
            (Action::Unplug | Action::UnplugTimer, _) => matcher.unplug(pid),
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, _: &Note) {}
}

/// Flushes that the queue answers itself, because nothing was written since the last one, have no
/// end in a trace: here it sends every flush to the device, as Linux does.
fn every_flush<O: Observer>(queue: &mut RequestQueue<O>) {
    queue.set_attribute(Nanos::ZERO, "flush_elide", "0").expect("an attribute");
}

/// Runs jobs and returns what a tracer saw.
fn record(device: &Description, scheduler: &str, text: &str) -> Recording {
    let source = Source { name: "test.fio", text };
    let parsed = parse(&[source], &[], &[], &|_| None, &|_, name| Err(name.to_owned()));
    let jobs = parsed.unwrap_or_else(|problems| panic!("{problems:?}")).jobs;
    let settings = Settings { submit_cost: device.submit_cost, ..Settings::default() };
    let (_, tracer, _) = paternoster_workload::run(
        &jobs,
        &settings,
        &mut Simulated::new(device.model()),
        paternoster_schedulers::by_name(scheduler).expect("a scheduler"),
        Tracer::default(),
        |queue| {
            every_flush(queue);
            Ok::<(), RunError>(())
        },
        &mut NoWatcher,
    )
    .unwrap_or_else(|error| panic!("{error}\n{text}"));
    tracer.0.finish()
}

fn play(recording: &Recording, device: &Description, scheduler: &str, manner: Manner) -> Replayed {
    play_with(recording, device, scheduler, manner, &[]).0
}

/// The same with attributes of the queue; and what a tracer saw.
fn play_with(
    recording: &Recording,
    device: &Description,
    scheduler: &str,
    manner: Manner,
    set: &[(&str, &str)],
) -> (Replayed, Recording) {
    let schedule = &Schedule::new(recording, manner, Speed::AS_RECORDED);
    let mapping = &Mapping::new(recording, device.facts.capacity, Fit::Fail).expect("it fits");
    let elevator = paternoster_schedulers::by_name(scheduler).expect("a scheduler");
    let what = Replay { recording, schedule, mapping };
    let device = &mut Simulated::new(device.model());
    let prepare = |queue: &mut Queue| {
        every_flush(queue);
        for (name, value) in set {
            queue.set_attribute(Nanos::ZERO, name, value).expect("an attribute");
        }
        Ok::<(), ReplayError>(())
    };
    let (replayed, tracer, queue) =
        replay(what, device, elevator, Tracer::default(), prepare, &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    queue.audit().unwrap_or_else(|fault| panic!("{fault:?}"));
    (replayed, tracer.0.finish())
}

/// When the last I/O ended.
fn length(replayed: &Replayed) -> Nanos {
    replayed.ended.iter().copied().max().expect("something was replayed")
}

/// Where a replay differs from its recording: the first I/O with another time.
fn difference(recording: &Recording, replayed: &Replayed) -> Option<String> {
    let ios = recording.ios().iter().zip(replayed.came.iter().zip(&replayed.ended));
    let mut numbered = ios.enumerate();
    numbered.find_map(|(number, (io, (came, ended)))| {
        let same = io.at() == *came && io.completed().is_none_or(|at| at == *ended);
        (!same).then(|| format!("I/O {number}: {io:?} came {came} and ended {ended}"))
    })
}

fn device(name: &str) -> Description {
    catalog::by_name(name).expect("a device").expect("a sound one")
}

/// One job: (kind, block, depth, computing, more).
fn job(
    (rw, block, depth, think, more): (usize, usize, usize, usize, usize),
    number: usize,
) -> String {
    let rw = ["read", "randread", "write", "randwrite", "randrw"][rw];
    let block = ["4k", "16k", "64k", "256k", "1m"][block];
    let depth = [1, 2, 4, 16][depth];
    let engine = if depth == 1 { "psync" } else { "libaio" };
    let think = ["", "thinktime=100", "thinktime=3000\nthinktime_blocks=3"][think];
    // The first one begins at once: a disk's platter position depends on when. A buffered write
    // reaches the device with the flusher, or never.
    let [later, buffered] = if number == 0 { ["", ""] } else { ["startdelay=20ms", "direct=0"] };
    // A plug that opens when its client starts to think opens in a replay with its last I/O.
    let batch = if think.is_empty() { "iodepth_batch=2" } else { "" };
    let more = ["", "fsync=4", later, buffered, batch, "numjobs=3"][more];
    format!(
        "[job{number}]\ndirect=1\nrw={rw}\nbs={block}\niodepth={depth}\nioengine={engine}\n\
         size=8m\nnumber_ios=40\nrandrepeat=1\n{think}\n{more}\n"
    )
}

fn jobs() -> impl Strategy<Value = String> {
    let one = (0..5_usize, 0..5_usize, 0..4_usize, 0..3_usize, 0..6_usize);
    prop::collection::vec(one, 1..4).prop_map(|drawn| {
        drawn.into_iter().enumerate().map(|(number, drawn)| job(drawn, number)).collect()
    })
}

const DEVICES: [&str; 5] = ["lab-disk", "hdd-7200", "ssd-870evo", "flash-card-2010", "null"];
const SCHEDULERS: [&str; 6] = ["noop", "deadline", "mq-deadline", "kyber", "cfq", "bfq"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// I2 of the inference, and the open loop: does everything come and end when it was recorded,
    /// on the same device under the same scheduler, in both manners?
    #[test]
    fn the_same_device_does_the_same(
        text in jobs(),
        on in 0..DEVICES.len(),
        under in 0..SCHEDULERS.len(),
    ) {
        let (device, scheduler) = (device(DEVICES[on]), SCHEDULERS[under]);
        let recording = record(&device, scheduler, &text);
        // A few buffered writes stay in memory.
        prop_assume!(recording.completions() > 0);
        // On `null` everything ends at a few instants, and an I/O that follows an end at the same
        // instant comes after those that came with time alone.
        let manners = [Manner::Timed, Manner::Think];
        for manner in manners.into_iter().take(if DEVICES[on] == "null" { 1 } else { 2 }) {
            let replayed = play(&recording, &device, scheduler, manner);
            let difference = difference(&recording, &replayed);
            let name = manner.name();
            prop_assert_eq!(difference, None, "{} under {} on {}", name, scheduler, DEVICES[on]);
        }
    }
}

/// Any events at all, in any order: code, sectors, time since the last.
fn any_recording() -> impl Strategy<Value = Recording> {
    let event = (0..12_u8, 0..4_u32, 0..3_u64, 0..24_u64, 1..40_u32);
    prop::collection::vec(event, 1..120).prop_map(|events| {
        let (mut matcher, mut at) = (Matcher::default(), Nanos::ZERO);
        for (kind, pid, step, place, sectors) in events {
            at += Nanos::from_micros(step * 150);
            let sector = place * 8;
            let arrival =
                |op, flags, sector, sectors| Arrival { at, pid, op, flags, sector, sectors };
            let durable = Flags::PREFLUSH | Flags::FUA;
            let arrival = match kind {
                0 | 1 => arrival(Op::Read, Flags::NONE, sector, sectors),
                2 => arrival(Op::Write, Flags::NONE, sector, sectors),
                3 => arrival(Op::Write, durable, sector, sectors),
                4 => arrival(Op::Flush, Flags::NONE, 0, 0),
                5 => arrival(Op::Discard, Flags::SYNC, sector, sectors),
                _ => {
                    match kind {
                        6 => matcher.issue(at, pid % 2 == 0, sector, sectors),
                        7 => matcher.complete(at, pid % 2 == 0, sector, 4 * sectors),
                        8 => matcher.complete_flush(at),
                        9 => matcher.plug(pid),
                        10 => matcher.unplug(pid),
                        _ => matcher.split(pid, sector),
                    }
                    continue;
                }
            };
            matcher.arrive(&arrival).expect("a short recording");
        }
        matcher.finish()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Does any recording come to an end, in every manner under every scheduler, with hardly any
    /// requests and small ones? Nothing may wait for itself: not a plug, not a completion.
    #[test]
    fn everything_ends(recording in any_recording(), under in 0..SCHEDULERS.len()) {
        prop_assume!(!recording.ios().is_empty());
        let set = [("nr_requests", "4"), ("max_sectors_kb", "8")];
        for manner in [Manner::Timed, Manner::Think, Manner::Asap] {
            let device = device("hdd-7200");
            let (replayed, seen) = play_with(&recording, &device, SCHEDULERS[under], manner, &set);
            prop_assert!(replayed.ended.iter().all(|ended| *ended < Nanos::MAX));
            prop_assert_eq!(replayed.failed.0, 0);
            let times = replayed.came.iter().zip(&replayed.ended);
            prop_assert!(times.into_iter().all(|(came, ended)| came <= ended));
            prop_assert_eq!(seen.bytes(), recording.bytes());
        }
    }
}

/// A device with one server that takes `base_us` for every command, and 10 ns/B.
fn server(base_us: u64, mb_per_s: u64) -> Description {
    let text = format!(
        "name = \"server\"\nmodel = \"linear\"\nsummary = \"one server\"\nvalid = \"a test\"\n\
         [facts]\ncapacity = {{ value = \"1 GiB\", source = \"test\" }}\n\
         depth = {{ value = 32, source = \"test\" }}\n\
         rotational = {{ value = false, source = \"test\" }}\n\
         [linear]\nservers = {{ value = 1, source = \"test\" }}\n\
         base = {{ value = \"{base_us} us\", source = \"test\" }}\n\
         rate = {{ value = \"{mb_per_s} MB/s\", source = \"test\" }}\n\
         [host]\nsubmit_cost = {{ value = \"20 us\", source = \"test\" }}\n"
    );
    Description::parse("server.toml", &text).expect("a sound device file")
}

/// One reader, one I/O of 4 KiB at a time.
const READER: &str = "[a]\ndirect=1\nrw=randread\nbs=4k\nsize=8m\nnumber_ios=40\n";

/// Is a device that is twice as fast used faster in a closed loop, and not in an open one? 40 reads
/// of 1 ms + 40.96 us, 20 us between: recorded 40 * 1040.96 + 39 * 20 = 42,418.4 us. Twice as fast:
/// 40 * 520.48 + 780 = 21,599.2 us; at once 40 * 520.48 = 20,819.2 us. Open: the last comes at 39 *
/// 1060.96 = 41,377.44 us and takes 520.48: 41,897.92 us.
#[test]
fn a_faster_device_is_used_faster() {
    let recording = record(&server(1000, 100), "noop", READER);
    assert_eq!(recording.length(), Nanos(42_418_400));
    let fast = server(500, 200);
    let lengths = [Manner::Think, Manner::Asap, Manner::Timed]
        .map(|manner| length(&play(&recording, &fast, "noop", manner)).0);
    assert_eq!(lengths, [21_599_200, 20_819_200, 41_897_920]);
}

/// Does an open loop on a device that is half as fast fall behind, and a closed one not? 2040.96 us
/// each: number n (from 0) ends at (n + 1) * 2040.96; when the last comes, at 41,377 us, 20 have
/// ended and 20 are in flight, and it takes 40 * 2040.96 - 41,377.44 = 40,260.96 us more.
#[test]
fn an_open_loop_falls_behind_a_slow_device() {
    let recording = record(&server(1000, 100), "noop", READER);
    let backlog = |replayed: &Replayed| {
        let times = replayed.came.iter().zip(&replayed.ended);
        Backlog::of(times.map(|(came, ended)| (*came, Some(*ended))))
    };
    let ios = recording.ios().iter();
    let recorded = Backlog::of(ios.map(|io| (io.at(), io.completed())));
    assert_eq!(recorded.most, 1);
    let slow = server(2000, 100);
    let open = backlog(&play(&recording, &slow, "noop", Manner::Timed));
    assert_eq!((open.at_last_arrival, open.draining), (20, Nanos(40_260_960)));
    assert!(open.falls_behind(&recorded));
    let closed = backlog(&play(&recording, &slow, "noop", Manner::Think));
    assert_eq!(closed.most, 1);
}

/// Does every I/O end, and enter the queue in its process's order, when the queue has hardly any
/// requests? Sixteen at a time, a queue of four.
#[test]
fn processes_sleep_for_requests() {
    let text = "[a]\ndirect=1\nrw=randread\nbs=4k\nsize=8m\nnumber_ios=200\nioengine=libaio\n\
                iodepth=16\n";
    let fast = server(100, 1000);
    let recording = record(&fast, "noop", text);
    for scheduler in SCHEDULERS {
        for manner in [Manner::Timed, Manner::Think, Manner::Asap] {
            let few = [("nr_requests", "4")];
            let slow = server(1000, 100);
            let (replayed, seen) = play_with(&recording, &slow, scheduler, manner, &few);
            assert!(replayed.sleeps > 0, "{scheduler}");
            assert!(replayed.ended.iter().all(|ended| *ended < Nanos::MAX), "{scheduler}");
            // In the recorded order where time alone decides which comes.
            if manner == Manner::Timed {
                let sectors = |of: &Recording| of.ios().iter().map(|io| io.sector()).collect();
                let (sent, came): (Vec<u64>, Vec<u64>) = (sectors(&recording), sectors(&seen));
                assert_eq!(sent, came, "{scheduler}");
            }
        }
    }
}

/// Is an I/O that is larger than a request cut, moved whole, and ended by its last part? 40 of 256
/// KiB, requests of at most 32 KiB: eight commands each, and nothing merges them again.
#[test]
fn large_ios_are_cut() {
    let text = "[a]\ndirect=1\nrw=randread\nbs=256k\nsize=64m\nnumber_ios=40\n";
    let device = server(1000, 100);
    let recording = record(&device, "noop", text);
    assert_eq!(recording.ios().len(), 40);
    let small = [("max_sectors_kb", "32")];
    for manner in [Manner::Timed, Manner::Think] {
        let (replayed, seen) = play_with(&recording, &device, "mq-deadline", manner, &small);
        assert_eq!(replayed.device.ios[0], 320);
        assert_eq!(seen.bytes(), recording.bytes());
        // One server: eight times 1 ms, and 256 KiB at 100 MB/s, if none is before it.
        let took = replayed.ended[0] - replayed.came[0];
        assert_eq!(took, Nanos(8 * 1_000_000 + 2_621_440));
    }
}

/// Are plugs repeated? Batches of two neighbours, each one command: the replay has as many commands
/// as the run.
#[test]
fn plugs_are_played_again() {
    let text = "[a]\ndirect=1\nrw=read\nbs=4k\nsize=8m\nnumber_ios=80\nioengine=libaio\n\
                iodepth=2\niodepth_batch=2\niodepth_batch_complete_min=2\n";
    let device = server(1000, 100);
    let recording = record(&device, "mq-deadline", text);
    assert_eq!(recording.ios().iter().filter(|io| io.is_held()).count(), 40);
    for manner in [Manner::Timed, Manner::Think] {
        let replayed = play(&recording, &device, "mq-deadline", manner);
        assert_eq!((replayed.device.ios[0], replayed.device.merges[0]), (40, 40));
    }
}
