// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a flush costs, on flash and after idle time: `docs/rules/devices.md` compared with the
//! models.
//!
//! The disks' own figures (28 + 9.4 N ms, 73 and 335 ms, a full cache) are in `hdd_figures.rs`,
//! synced writes per second in `ssd_figures.rs`. Here commands go directly to the model, without a
//! queue that might hold them back while a flush is under way.

use paternoster_core::{
    Bio, ClientId, ClientSpec, Command, Device, DeviceFacts, Limits, Nanos, Op, Output,
    RequestQueue, Tag,
};
use paternoster_sim::{Model, Simulated, catalog};

/// A device, and a queue that only provides tags.
struct Rig {
    device: Simulated<Box<dyn Model>>,
    queue: RequestQueue,
    client: ClientId,
    /// From a linear congruential generator (Knuth's MMIX), so that places are the same everywhere.
    random: u64,
}

impl Rig {
    fn new(name: &str) -> Rig {
        let description = catalog::by_name(name).expect("in the catalog").expect("sound");
        let facts = DeviceFacts { write_cache: false, ..description.facts };
        let noop = paternoster_schedulers::by_name("noop").expect("noop");
        let limits = Limits { requests: 3 * 1024, bios: 8192, ..Limits::default() };
        let mut queue =
            RequestQueue::builder(facts, noop).limits(limits).build().expect("its limits work");
        queue.set_attribute(Nanos::ZERO, "nomerges", "2").expect("an attribute");
        let client = queue.attach(Nanos::ZERO, ClientSpec::new()).expect("the first client");
        Rig { device: Simulated::new(description.model()), queue, client, random: 1 }
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }

    /// A command of 4 KiB at a random place, with a tag that nothing else has.
    fn command(&mut self, op: Op) -> Command {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let sector = (self.random >> 20) % (self.device.facts().capacity / 8) * 8;
        let now = self.now();
        self.queue.submit(now, Bio::new(self.client, Op::Read, sector, 8)).expect("room");
        let command = loop {
            match self.queue.next(now) {
                Output::Issue(command) => break command,
                Output::Wait { .. } => panic!("no command"),
                _ => {}
            }
        };
        let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (sector, 8) };
        Command { op, sector, sectors, ..command }
    }

    fn send(&mut self, op: Op) -> Tag {
        let command = self.command(op);
        self.device.submit(command).expect("it takes it");
        command.tag
    }

    /// The next command to end, up to `until`; its tag is free again.
    fn end(&mut self, until: Option<Nanos>) -> Option<Tag> {
        let done = self.device.wait(until)?;
        self.queue.complete(done.at, done.tag, done.outcome).expect("it was issued");
        Some(done.tag)
    }

    /// Does one operation alone; how long it takes, in us.
    fn alone_us(&mut self, op: Op) -> f64 {
        let began = self.now();
        self.send(op);
        self.end(None).expect("it ends");
        us(self.now() - began)
    }

    /// Time passes with nothing to do.
    fn idle(&mut self, time: Nanos) {
        assert!(self.end(Some(self.now() + time)).is_none(), "something was under way");
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure")]
fn us(time: Nanos) -> f64 {
    time.0 as f64 / 1000.0
}

/// How long does a flush take after one write? 1.8: a consumer SATA drive 3 to 4 ms, one with
/// power-loss protection 14 to 40 us, a consumer NVMe drive 0.38 ms.
#[test]
fn a_flush_behind_one_write() {
    for (name, least, most) in
        [("ssd-870evo", 3000.0, 4000.0), ("ssd-pm883", 14.0, 40.0), ("nvme-kc3000", 360.0, 400.0)]
    {
        let mut rig = Rig::new(name);
        rig.alone_us(Op::Write);
        let flush = rig.alone_us(Op::Flush);
        println!("{name}: a flush behind a write takes {flush:.1} us");
        assert!((least..most).contains(&flush), "{name}: {flush} us");
    }
}

/// And how long does a flush take if nothing was written since the last one? Only its transfer over
/// the link, or the disk's controller time.
#[test]
fn a_clean_flush() {
    for name in ["ssd-870evo", "ssd-pm883", "nvme-kc3000", "hdd-7200", "hdd-7200-enterprise"] {
        let mut rig = Rig::new(name);
        rig.alone_us(Op::Write);
        rig.alone_us(Op::Flush);
        let clean = rig.alone_us(Op::Flush);
        println!("{name}: a clean flush takes {clean:.1} us");
        assert!(clean < 100.0, "{name}: {clean} us");
    }
}

/// Does everything else wait behind a flush that cannot be queued (1.8, consumer SATA)? Nothing is
/// taken while it runs, and it is not taken while anything is inside.
#[test]
fn a_sata_flush_is_alone() {
    let mut rig = Rig::new("ssd-870evo");
    rig.alone_us(Op::Write);
    let began = rig.now();
    let flush = rig.send(Op::Flush);
    let read = rig.command(Op::Read);
    for us in [0, 1000, 3000] {
        assert!(rig.end(Some(began + Nanos::from_micros(us))).is_none());
        assert!(rig.device.submit(read).is_err(), "at {us} us");
    }
    assert_eq!(rig.end(None), Some(flush));
    assert!(rig.now() - began >= Nanos::from_millis(3));
    assert!(rig.device.submit(read).is_ok());
    let again = rig.command(Op::Flush);
    assert!(rig.device.submit(again).is_err(), "a read is inside");
}

/// Reads that one reader completes in `time` at depth 1, alone or with a client that writes and
/// flushes all the time; and for how much of that time a flush was under way, in per cent.
fn reads(rig: &mut Rig, time: Nanos, beside_flushes: bool) -> (u32, u64) {
    let (began, mut done, mut flushed, mut since) = (rig.now(), 0, Nanos::ZERO, None);
    let mut read = rig.send(Op::Read);
    let mut other = beside_flushes.then(|| rig.send(Op::Write));
    while let Some(tag) = rig.end(Some(began + time)) {
        if tag == read {
            done += 1;
            read = rig.send(Op::Read);
        } else if Some(tag) == other {
            let ended = since.take();
            flushed += ended.map_or(Nanos::ZERO, |since| rig.now() - since);
            other = Some(rig.send(if ended.is_some() { Op::Write } else { Op::Flush }));
            since = ended.is_none().then_some(rig.now());
        }
    }
    (done, flushed.0 * 100 / time.0)
}

/// Does a flush slow a reader down by 80 % while it runs (1.8, KC3000; fitted)? In a quarter of a
/// second at depth 1, with a client that writes 4 KiB and flushes, again and again, so that a flush
/// is under way 96 % of the time.
#[test]
fn a_flush_slows_reads_down() {
    let time = Nanos::from_millis(250);
    let (alone, _) = reads(&mut Rig::new("nvme-kc3000"), time, false);
    let (beside, flushing) = reads(&mut Rig::new("nvme-kc3000"), time, true);
    let lost = 100.0 - f64::from(beside) * 100.0 / f64::from(alone);
    println!(
        "nvme-kc3000: {alone} -> {beside} reads in {time}, -{lost:.1} %; flushes {flushing} %"
    );
    assert!(flushing >= 95, "{flushing} %");
    assert!((77.0..83.0).contains(&lost), "{lost} %");
}

/// Has a disk less to flush after idle time? Sixteen scattered writes cost 28 + 9.4 * 16 = 178 ms
/// at once. The drive begins to write them 50 ms after the last command, 9.4 ms each: after 100 ms
/// of idling about five are written and the flush takes 47 ms less; after 2 s only the 28 are left.
#[test]
fn idle_time_drains_the_cache() {
    let flush_ms = |idle: u64| {
        // One write alone takes 1 to 20 ms: the mean of ten rounds.
        let mut rig = Rig::new("hdd-7200");
        let mut sum = 0.0;
        for _ in 0..10 {
            for _ in 0..16 {
                rig.alone_us(Op::Write);
            }
            rig.idle(Nanos::from_millis(idle));
            sum += rig.alone_us(Op::Flush) / 1000.0;
        }
        sum / 10.0
    };
    let (at_once, soon, late) = (flush_ms(0), flush_ms(100), flush_ms(2000));
    println!("hdd-7200, flush after 16 writes: {at_once:.1}, {soon:.1}, {late:.1} ms");
    assert!((160.0..196.0).contains(&at_once), "{at_once} ms");
    assert!((30.0..65.0).contains(&(at_once - soon)), "{soon} ms");
    assert!((28.0..28.1).contains(&late), "{late} ms");
}
