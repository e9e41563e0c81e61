// SPDX-License-Identifier: MIT OR Apache-2.0
//! Q1 does a command take as long as its stages? Q2 what waits for what? Q3 what is refused?
//! Q4 when is a flush done?  Q5 is nothing lost, whatever comes?

use super::*;
use crate::Simulated;
use crate::ssd::die::DieTimes;
use crate::ssd::slc::SlcNumbers;
use crate::ssd::wire::LinkCosts;
use crate::transfer::Transfer;
use paternoster_core::{Bio, ClientId, ClientSpec, Device, Output, RequestQueue, Tag};
use proptest::prelude::*;

const fn rate(mb_per_second: u64) -> Transfer {
    Transfer { nanos: 1_000, bytes: mb_per_second }
}

/// Round numbers: 4 KiB take 4.096 us on a channel (1000 MB/s) and 2 + 8.192 us on the link (500
/// MB/s), 10 us in the controller, 50 us on a die; a program takes 500 us.
fn numbers() -> Numbers {
    Numbers {
        channels: 2,
        dies: 4,
        planes: 1,
        page: 16 << 10,
        times: DieTimes {
            reads: vec![Nanos::from_micros(50)],
            program: Nanos::from_micros(500),
            suspend: Nanos::ZERO,
        },
        read_spread: None,
        program_spread: None,
        channel: rate(1000),
        link: LinkCosts { rate: rate(500), command: Nanos::from_micros(2), duplex: false },
        controller: Nanos::from_micros(10),
        buffer: 64 << 10,
        amplification: 1000,
        power_loss_protection: false,
        flush: Nanos::from_millis(3),
        flush_read_delay: Nanos::ZERO,
        discard: Nanos::from_micros(5),
        discard_queueable: true,
        read_ahead: 0,
        collection: None,
        slc: None,
    }
}

fn facts() -> DeviceFacts {
    DeviceFacts { write_cache: false, flush_queueable: false, ..DeviceFacts::default() }
}

/// Commands made by hand, with tags from a queue.
struct Rig {
    device: Simulated<Ssd>,
    queue: RequestQueue,
    client: ClientId,
}

impl Rig {
    fn new(numbers: &Numbers, facts: DeviceFacts) -> Rig {
        let device = Simulated::new(Ssd::new(facts, numbers, None));
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        // The queue only provides tags, and more than the device takes.
        let seen = DeviceFacts { depth: 64, ..facts };
        let mut queue = RequestQueue::builder(seen, noop).build().expect("its limits work");
        queue.set_attribute(Nanos::ZERO, "nomerges", "2").unwrap();
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).unwrap();
        Rig { device, queue, client }
    }

    /// A tag that nothing else has.
    fn command(&mut self, op: Op, sector: u64, sectors: u32, flags: Flags) -> Command {
        let now = self.device.now();
        let bio = Bio::new(self.client, Op::Read, sector, sectors.max(1));
        self.queue.submit(now, bio).unwrap();
        let Output::Issue(command) = self.queue.next(now) else { panic!("no command") };
        let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (sector, sectors) };
        Command { op, sector, sectors, flags, ..command }
    }

    fn send(&mut self, op: Op, sector: u64, sectors: u32) -> Tag {
        let command = self.command(op, sector, sectors, Flags::NONE);
        self.device.submit(command).unwrap();
        command.tag
    }

    /// When the next command ends, in ns, and which it is.
    fn end(&mut self) -> (u64, Tag) {
        let completion = self.device.wait(None).expect("something is under way");
        (completion.at.0, completion.tag)
    }
}

/// Q1. 4 KiB: 10 + 50 + 4.096 + 10.192 = 74.288 us to read; 10.192 + 10 to write.
#[test]
fn a_command_takes_what_its_stages_take() {
    let mut rig = Rig::new(&numbers(), facts());
    rig.send(Op::Read, 0, 8);
    assert_eq!(rig.end().0, 74_288);
    rig.send(Op::Write, 0, 8);
    assert_eq!(rig.end().0, 74_288 + 20_192);
    // 2 us on the link, 10 in the controller, 5 for itself.
    rig.send(Op::Discard, 0, 8);
    assert_eq!(rig.end().0, 74_288 + 20_192 + 17_000);
}

/// Q1. 64 KiB on four dies, two a channel: both channels take 16.384 us twice, from 60 on; the link
/// begins at 76.384 with 2 + 32.768 us, and 3 times 32.768 follow.
#[test]
fn a_long_read_uses_all_dies() {
    let mut rig = Rig::new(&numbers(), facts());
    rig.send(Op::Read, 0, 128);
    assert_eq!(rig.end().0, 76_384 + 2_000 + 4 * 32_768);
}

/// Q2. Two reads of one die follow each other there; one of another die goes on meanwhile: they end
/// at 74.288, at 84.480 (after the first on the link), and at 124.288 (50 us after the first).
#[test]
fn reads_wait_for_their_die() {
    let mut rig = Rig::new(&numbers(), facts());
    let (first, same, other) =
        (rig.send(Op::Read, 0, 8), rig.send(Op::Read, 8, 8), rig.send(Op::Read, 32, 8));
    assert_eq!(rig.end(), (74_288, first));
    assert_eq!(rig.end(), (84_480, other));
    assert_eq!(rig.end(), (124_288, same));
}

/// Q2. A read waits for the program that it finds on its die. A write of 16 KiB: the link 34.768,
/// controller 44.768, program until 544.768 on die 0; a read of die 0: + 50 + 4.096 + 10.192.
/// The same read of die 1 is not held up; and with nothing inside, the program goes on.
#[test]
fn reads_wait_for_programs() {
    for (sector, expected) in [(0, 544_768 + 64_288), (32, 44_768 + 74_288)] {
        let mut rig = Rig::new(&numbers(), facts());
        rig.send(Op::Write, 0, 32);
        assert_eq!(rig.end().0, 44_768);
        rig.send(Op::Read, sector, 8);
        assert_eq!(rig.end().0, expected);
    }
    let mut rig = Rig::new(&numbers(), facts());
    rig.send(Op::Write, 0, 32);
    rig.end();
    assert_eq!(rig.device.wait(Some(Nanos::from_millis(1))), None);
    rig.send(Op::Read, 0, 8);
    assert_eq!(rig.end().0, 1_000_000 + 74_288);
}

/// Q2. A write that finds no room waits for a program. Four units fill the buffer; the first was
/// there at 44.768, its program ends at 544.768: the fifth write is done then, and not before.
#[test]
fn writes_wait_for_room() {
    let mut rig = Rig::new(&numbers(), facts());
    let tags: Vec<Tag> = (0..5).map(|unit| rig.send(Op::Write, unit * 1000, 32)).collect();
    let ends: Vec<(u64, Tag)> = (0..5).map(|_| rig.end()).collect();
    assert_eq!(ends.iter().map(|end| end.1).collect::<Vec<_>>(), tags);
    // The link bounds the first four: 34.768 each.
    assert_eq!(ends[3].0, 4 * 34_768 + 10_000);
    assert_eq!(ends[4].0, 544_768);
}

/// Q2. Open units that fill the buffer do not lock it. A buffer of 20 KiB takes one write of 12
/// KiB, which fills no unit; the next one finds no room, and none would ever come: the open unit is
/// closed for it.
#[test]
fn open_units_do_not_lock_the_buffer() {
    let small = Numbers { buffer: 20 << 10, ..numbers() };
    let mut rig = Rig::new(&small, facts());
    for write in 0..10 {
        rig.send(Op::Write, write * 1000, 24);
    }
    for _ in 0..10 {
        rig.end();
    }
}

/// Q3. A flush that cannot be queued is refused while anything is inside, and refuses the rest.
#[test]
fn a_flush_that_cannot_be_queued_is_alone() {
    let mut rig = Rig::new(&numbers(), facts());
    rig.send(Op::Write, 0, 8);
    let flush = rig.command(Op::Flush, 0, 0, Flags::NONE);
    assert_eq!(rig.device.submit(flush), Err(Refused));
    rig.end();
    assert_eq!(rig.device.submit(flush), Ok(()));
    let read = rig.command(Op::Read, 0, 8, Flags::NONE);
    assert_eq!(rig.device.submit(read), Err(Refused));
    // 20.192 + 2 us on the link; the open unit's program 500 us, flush time 3 ms.
    assert_eq!(rig.end(), (20_192 + 2_000 + 500_000 + 3_000_000, flush.tag));
    assert_eq!(rig.device.submit(read), Ok(()));
}

/// Q3. So is a discard that cannot be queued; one that can be runs alongside a read. 2 us on the
/// link, 10 in the controller, 5 for itself; a read of 4 KiB takes 74.288 us.
#[test]
fn a_discard_that_cannot_be_queued_is_alone() {
    let mut rig = Rig::new(&Numbers { discard_queueable: false, ..numbers() }, facts());
    rig.send(Op::Read, 0, 8);
    let discard = rig.command(Op::Discard, 64, 8, Flags::NONE);
    assert_eq!(rig.device.submit(discard), Err(Refused));
    assert_eq!(rig.end().0, 74_288);
    assert_eq!(rig.device.submit(discard), Ok(()));
    let read = rig.command(Op::Read, 0, 8, Flags::NONE);
    assert_eq!(rig.device.submit(read), Err(Refused));
    assert_eq!(rig.end(), (74_288 + 17_000, discard.tag));
    assert_eq!(rig.device.submit(read), Ok(()));
    rig.end();
    let mut rig = Rig::new(&numbers(), facts());
    let read = rig.send(Op::Read, 0, 8);
    let discard = rig.send(Op::Discard, 64, 8);
    assert_eq!(rig.end(), (17_000, discard));
    assert_eq!(rig.end(), (74_288, read));
}

/// Q3. No more commands than the depth are taken, and another one when one has ended.
#[test]
fn the_depth_is_the_most() {
    let mut rig = Rig::new(&numbers(), facts());
    for place in 0..32 {
        rig.send(Op::Read, place * 32, 8);
    }
    let one_more = rig.command(Op::Read, 0, 8, Flags::NONE);
    assert_eq!(rig.device.submit(one_more), Err(Refused));
    rig.end();
    assert_eq!(rig.device.submit(one_more), Ok(()));
}

/// Q4. Does a read take longer while a flush runs, and only then? The page programs for 500 us
/// and the flush goes on for 3 ms; a read at 1 ms finds no program: 74.288 us as above, and 100.
#[test]
fn a_running_flush_slows_reads_down() {
    let numbers = Numbers { flush_read_delay: Nanos::from_micros(100), ..numbers() };
    let mut rig = Rig::new(&numbers, DeviceFacts { flush_queueable: true, ..facts() });
    let read_us = |rig: &mut Rig, at_us: u64| {
        assert!(rig.device.wait(Some(Nanos::from_micros(at_us))).is_none());
        let read = rig.send(Op::Read, 1 << 16, 8);
        let (at, tag) = rig.end();
        assert_eq!(tag, read);
        at - at_us * 1000
    };
    rig.send(Op::Write, 0, 8);
    rig.end();
    let flush = rig.send(Op::Flush, 0, 0);
    assert_eq!(read_us(&mut rig, 1000), 174_288);
    assert_eq!(rig.end().1, flush);
    assert_eq!(read_us(&mut rig, 5000), 74_288);
}

/// Q4. With power-loss protection a flush costs 2 us of link and its time; with nothing new only
/// the link; where it can be queued, reads go on meanwhile.
#[test]
fn flushes_cost_what_they_must() {
    let safe = Numbers { power_loss_protection: true, flush: Nanos::from_micros(15), ..numbers() };
    let mut rig = Rig::new(&safe, facts());
    rig.send(Op::Write, 0, 8);
    rig.end();
    rig.send(Op::Flush, 0, 0);
    assert_eq!(rig.end().0, 20_192 + 17_000);
    rig.send(Op::Flush, 0, 0);
    assert_eq!(rig.end().0, 20_192 + 17_000 + 2_000);

    let mut rig = Rig::new(&numbers(), DeviceFacts { flush_queueable: true, ..facts() });
    rig.send(Op::Write, 0, 8);
    rig.end();
    let flush = rig.send(Op::Flush, 0, 0);
    // On die 1: the open unit is programmed on die 0.
    let read = rig.send(Op::Read, 32, 8);
    // Nothing is before it on the link: 20.192 + 74.288.
    assert_eq!(rig.end(), (94_480, read));
    assert_eq!(rig.end(), (20_192 + 2_000 + 500_000 + 3_000_000, flush));
}

/// Q4. Does a flush that begins while another runs end before what that one makes durable is? It
/// has nothing to do itself and ends with it, 500 us of program and 3 ms after 22.192; the last one
/// finds nothing under way. And with a write between them, with each its own: the second program
/// goes to another die, 20.192 later, and a third flush ends with the second one.
#[test]
fn no_flush_passes_another() {
    for power_loss_protection in [false, true] {
        let numbers = Numbers { power_loss_protection, ..numbers() };
        let program = if power_loss_protection { 0 } else { 500_000 };
        let mut rig = Rig::new(&numbers, DeviceFacts { flush_queueable: true, ..facts() });
        rig.send(Op::Write, 0, 8);
        rig.end();
        let flushes = [0; 3].map(|_| rig.send(Op::Flush, 0, 0));
        let first = 20_192 + 2_000 + program + 3_000_000;
        assert_eq!([(); 3].map(|()| rig.end()), flushes.map(|flush| (first, flush)));
        rig.send(Op::Flush, 0, 0);
        assert_eq!(rig.end().0, first + 2_000);

        let mut rig = Rig::new(&numbers, DeviceFacts { flush_queueable: true, ..facts() });
        rig.send(Op::Write, 0, 8);
        rig.end();
        let one = rig.send(Op::Flush, 0, 0);
        let write = rig.send(Op::Write, 32, 8);
        assert_eq!(rig.end().1, write);
        let [two, three] = [0; 2].map(|_| rig.send(Op::Flush, 0, 0));
        let ends = [(); 3].map(|()| rig.end());
        assert_eq!(ends.map(|(_, tag)| tag), [one, two, three]);
        assert!(ends[0].0 < ends[1].0 && ends[1].0 == ends[2].0, "{ends:?}");
    }
}

/// Q4. Forced unit access: done when programmed (20.192 + 500), at once with power-loss protection.
#[test]
fn forced_unit_access_waits_for_its_program() {
    for (protected, expected) in [(false, 520_192), (true, 20_192)] {
        let numbers = Numbers { power_loss_protection: protected, ..numbers() };
        let mut rig = Rig::new(&numbers, facts());
        let write = rig.command(Op::Write, 0, 8, Flags::FUA);
        rig.device.submit(write).unwrap();
        assert_eq!(rig.end().0, expected);
    }
}

/// Q2. Does read-ahead wait for the read that causes it? The second read of a stream takes 8 to 16
/// itself and has 16 to 160 fetched (64 KiB in whole units), of which the first part lies on the
/// same die: 74.288 us after the first, as that one took.
#[test]
fn a_read_goes_before_what_it_has_fetched() {
    let mut rig = Rig::new(&Numbers { read_ahead: 64 << 10, ..numbers() }, facts());
    for nth in 0..2 {
        rig.send(Op::Read, nth * 8, 8);
        assert_eq!(rig.end().0, (nth + 1) * 74_288);
    }
}

/// One step of a random run: how long to wait before, what, where, how much, whether FUA.
type Step = (u64, u8, u64, u32, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u64..400, 0u8..8, 0u64..5000, 1u32..300, any::<bool>());
    prop::collection::vec(step, 1..120)
}

fn any_numbers() -> impl Strategy<Value = Numbers> {
    let sizes = (1u32..4, 1u32..9, 1u32..3, 12u64..400);
    let kinds = (1000u64..9000, any::<bool>(), any::<bool>(), 0u64..30);
    (sizes, kinds).prop_map(|((channels, dies, planes, buffer), kinds)| {
        let (amplification, power_loss_protection, duplex, suspend) = kinds;
        let times = DieTimes {
            reads: vec![Nanos::from_micros(40), Nanos::from_micros(70)],
            suspend: Nanos::from_micros(suspend),
            ..numbers().times
        };
        let link = LinkCosts { duplex, ..numbers().link };
        let buffer = buffer << 10;
        let read_ahead = (suspend % 3) * (96 << 10);
        let slc = power_loss_protection.then_some(SlcNumbers {
            size: 3 * buffer,
            dynamic: 0,
            bits: 3,
            program: Nanos::from_micros(100),
            drain: rate(50),
            rest: Nanos::from_micros(suspend),
        });
        Numbers {
            channels,
            dies,
            planes,
            buffer,
            amplification,
            power_loss_protection,
            times,
            link,
            read_ahead,
            slc,
            ..numbers()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Q5. Whatever comes: every command ends once, never more than the depth are inside, time
    /// never steps back, the device times add up to the busy time (but for 2 ns a command, the
    /// remainder of a division).
    #[test]
    fn nothing_is_lost(
        numbers in any_numbers(), steps in steps(), depth in 1u32..9,
        flush_queueable in any::<bool>()
    ) {
        let facts = DeviceFacts { depth, flush_queueable, ..facts() };
        let mut rig = Rig::new(&numbers, facts);
        let mut run = Run::default();
        let mut last = 0;
        for (pause, op, sector, sectors, fua) in steps {
            // Half of them begin where the last one ended.
            let sector = if sector < 2500 { sector } else { last };
            last = sector + u64::from(sectors);
            let until = rig.device.now() + Nanos::from_micros(pause);
            run.wait(&mut rig, Some(until));
            let op = [Op::Read, Op::Write, Op::Discard, Op::Flush, Op::Read, Op::Write, Op::Write,
                Op::Read][usize::from(op)];
            let flags = if fua { Flags::FUA } else { Flags::NONE };
            let command = rig.command(op, sector, sectors, flags);
            while rig.device.submit(command).is_err() {
                let full = run.inside == depth;
                prop_assert!(full || run.inside > 0 && !flush_queueable, "refused without reason");
                run.one(&mut rig, None);
            }
            run.entered(rig.device.now());
            prop_assert!(run.inside <= depth);
        }
        run.wait(&mut rig, None);
        prop_assert_eq!((run.inside, run.ended), (0, run.begun));
        prop_assert_eq!(rig.device.wait(None), None);
        prop_assert!(run.busy.abs_diff(run.served) <= 2 * run.begun, "{:?}", run);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Q2. Is a stream of one read at a time never slower with read-ahead, and never faster than
    /// the link and the controller: whatever its size and the drive's?
    #[test]
    fn a_stream_is_between_its_bounds(
        numbers in any_numbers(), sectors in 1u32..400, ahead_kib in 1u64..600
    ) {
        let stream = |read_ahead: u64| {
            let numbers = Numbers { read_ahead, ..numbers.clone() };
            let mut rig = Rig::new(&numbers, facts());
            let mut last = 0;
            for nth in 0..60 {
                rig.send(Op::Read, nth * u64::from(sectors), sectors);
                last = rig.end().0;
            }
            last
        };
        let (without, with) = (stream(0), stream(ahead_kib << 10));
        let link = numbers.link.command + numbers.link.rate.time(u64::from(sectors) * 512);
        let floor = 60 * (numbers.controller + link).0;
        prop_assert!(with >= floor - 60 * 8, "{with} is below {floor}");
        prop_assert!(with <= without, "{with} with, {without} without");
    }
}

/// What a random run has seen.
#[derive(Debug, Default)]
struct Run {
    begun: u64,
    ended: u64,
    inside: u32,
    busy: u64,
    served: u64,
    last: Nanos,
}

impl Run {
    fn entered(&mut self, now: Nanos) {
        self.pass(now);
        self.inside += 1;
        self.begun += 1;
    }

    fn pass(&mut self, now: Nanos) {
        assert!(now >= self.last, "time steps back");
        if self.inside > 0 {
            self.busy += (now - self.last).0;
        }
        self.last = now;
    }

    /// Waits for one command; false if none ended by then.
    fn one(&mut self, rig: &mut Rig, until: Option<Nanos>) -> bool {
        let Some(completion) = rig.device.wait(until) else { return false };
        assert_eq!(completion.at, rig.device.now());
        self.pass(completion.at);
        self.inside -= 1;
        self.ended += 1;
        self.served += completion.outcome.served.unwrap().0;
        // The queue knows which tags are out: one that ends twice is stale.
        rig.queue.complete(completion.at, completion.tag, completion.outcome).unwrap();
        while !matches!(rig.queue.next(completion.at), Output::Wait { .. }) {}
        true
    }

    fn wait(&mut self, rig: &mut Rig, until: Option<Nanos>) {
        while self.one(rig, until) {}
    }
}
