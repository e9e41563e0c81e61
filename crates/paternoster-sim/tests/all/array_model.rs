// SPDX-License-Identifier: MIT OR Apache-2.0
//! The array model by hand and by properties; the program's tests compare it with published figures
//! (`array_figures.rs`), because those need buffered readers.

use paternoster_core::{Bio, Device, Nanos, Op, Output, RequestQueue, Status};
use paternoster_core::{ClientId, ClientSpec};
use paternoster_sim::model::Model;
use paternoster_sim::{Description, Simulated};
use proptest::prelude::*;

/// Four members of 6 000 rpm with negligible seeks, chunks of 64 KiB, a link of 100 MB/s, a
/// millisecond of controller.
const ARRAY: &str = r#"
name = "small"
model = "array"
summary = "tests"
valid = "tests"
[facts]
capacity = { value = "1 GiB", source = "assumed" }
depth = { value = 16, source = "assumed" }
[array]
members = { value = 4, source = "assumed" }
chunk = { value = "64 KiB", source = "assumed" }
link = { value = "100 MB/s", source = "assumed" }
overhead = { value = "1 ms", source = "assumed" }
prefetch = { value = "256 KiB", source = "assumed" }
write_buffer = { value = "1 MiB", source = "assumed" }
[member]
rpm = { value = 6000, source = "assumed" }
rate_outer = { value = "50 MB/s", source = "assumed" }
rate_inner = { value = "50 MB/s", source = "assumed" }
track_to_track = { value = "0.1 ms", source = "assumed" }
average_seek = { value = "0.2 ms", source = "assumed" }
overhead = { value = "0 us", source = "assumed" }
link = { value = "1 GB/s", source = "assumed" }
"#;

/// The array, a queue that merges nothing, and one client.
struct Bench {
    device: Simulated<Box<dyn Model>>,
    queue: RequestQueue,
    client: ClientId,
}

impl Bench {
    fn new() -> Bench {
        Bench::of(ARRAY)
    }

    fn of(file: &str) -> Bench {
        let device = Description::parse("small.toml", file).expect("a sound file");
        let elevator = paternoster_schedulers::by_name("noop").expect("noop");
        let mut queue =
            RequestQueue::builder(device.facts, elevator).build().expect("its limits work");
        queue.set_attribute(Nanos::ZERO, "nomerges", "2").expect("an attribute");
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).expect("a place");
        Bench { device: Simulated::new(device.model()), queue, client }
    }

    fn submit(&mut self, op: Op, sector: u64, sectors: u32, cookie: u64) -> bool {
        let bio = Bio::new(self.client, op, sector, sectors).cookie(cookie);
        self.queue.submit(self.device.now(), bio).is_ok()
    }

    /// Runs until everything has ended: each cookie with its end in us, in that order.
    fn ends(&mut self) -> Vec<(u64, u64)> {
        let mut ends = Vec::new();
        loop {
            let now = self.device.now();
            let until = loop {
                match self.queue.next(now) {
                    Output::Issue(command) => self.device.submit(command).expect("room"),
                    Output::Done(cookie, outcome) => {
                        assert_eq!(outcome.status, Status::Ok);
                        ends.push((cookie, now.as_micros()));
                    }
                    Output::Wake(_) => {}
                    Output::Wait { until, .. } => break until,
                }
            };
            match self.device.wait(until) {
                Some(completion) => {
                    self.queue
                        .complete(completion.at, completion.tag, completion.outcome)
                        .expect("a command of ours");
                }
                None if until.is_none() => return ends,
                None => {}
            }
        }
    }
}

/// Does a write end in the buffer? A millisecond of controller, and 64 KiB over a link of 100 MB/s:
/// 0.655 ms. The second one shares the link: 0.655 ms later.
#[test]
fn writes_end_in_the_buffer() {
    let mut bench = Bench::new();
    bench.submit(Op::Write, 0, 128, 0);
    bench.submit(Op::Write, 1000, 128, 1);
    assert_eq!(bench.ends(), [(0, 1655), (1, 2310)]);
}

/// Is an answer late by what is drawn, and only the answer? With 5 ms for all, both of
/// `writes_end_in_the_buffer` end 5 ms later than there: the link was free meanwhile.
#[test]
fn late_answers_leave_the_link_free() {
    let late = "[array]\nlate_quantiles = { value = [\"0 % 5 ms\"], source = \"assumed\" }";
    let mut bench = Bench::of(&ARRAY.replacen("[array]", late, 1));
    bench.submit(Op::Write, 0, 128, 0);
    bench.submit(Op::Write, 1000, 128, 1);
    assert_eq!(bench.ends(), [(0, 6655), (1, 7310)]);
}

/// Must a write wait when the buffer is full? Sixteen writes of 64 KiB fill 1 MiB; the seventeenth
/// waits until a member has one of them, which takes at least 64 KiB at 50 MB/s, 1.3 ms; and all
/// end within the time that members need for what the buffer cannot hold.
#[test]
fn a_full_buffer_makes_writes_wait() {
    let mut bench = Bench::new();
    let mut last = 0;
    for round in 0..4u64 {
        for write in 0..16 {
            bench.submit(Op::Write, (round * 16 + write) * 128, 128, write);
        }
        last = bench.ends().iter().map(|&(_, end)| end).max().expect("ends");
    }
    // 4 MiB over the link alone take 41.9 ms.
    assert!(last >= 41_900, "{last}");
}

/// Is a stream read ahead? The third read of 64 KiB in a row finds its chunk in the cache or on its
/// way: it takes controller and link, 1.655 ms, and at most one turn of the disk, where a random
/// read waits for a seek and half a turn on average.
#[test]
fn a_stream_is_read_ahead() {
    let mut bench = Bench::new();
    let mut took = Vec::new();
    for chunk in 0..40u64 {
        let before = bench.device.now().as_micros();
        bench.submit(Op::Read, chunk * 128, 128, chunk);
        took.push(bench.ends()[0].1 - before);
    }
    let late: u64 = took[8..].iter().sum::<u64>() / 32;
    assert!((1655..2200).contains(&late), "{took:?}");
    let mut bench = Bench::new();
    bench.submit(Op::Read, 999_999, 128, 0);
    assert!(bench.ends()[0].1 > 2200, "a random read waits for the platter");
}

/// Does a flush cost only the controller's time? The device declares no cache, so the queue elides
/// it.
#[test]
fn a_flush_costs_nothing() {
    let mut bench = Bench::new();
    let flush = Bio::flush(bench.client).cookie(7);
    bench.queue.submit(Nanos::ZERO, flush).expect("taken");
    assert_eq!(bench.ends(), [(7, 0)]);
}

proptest! {
    /// Does every command end once, whatever comes?
    #[test]
    fn nothing_is_lost(
        commands in prop::collection::vec((0u8..3, 0u64..2_000_000, 1u32..2000), 1..100)
    ) {
        let mut bench = Bench::new();
        let mut ended = Vec::new();
        let count = commands.len() as u64;
        for (cookie, (kind, sector, sectors)) in (0..).zip(commands) {
            let op = [Op::Read, Op::Write, Op::Discard][usize::from(kind)];
            // The queue has room for all of them; some come while others are under way.
            prop_assert!(bench.submit(op, sector, sectors, cookie));
            if cookie % 7 == 3 {
                ended.extend(bench.ends());
            }
        }
        ended.extend(bench.ends());
        let mut cookies: Vec<u64> = ended.iter().map(|&(cookie, _)| cookie).collect();
        cookies.sort_unstable();
        prop_assert_eq!(cookies, (0..count).collect::<Vec<u64>>());
    }
}
