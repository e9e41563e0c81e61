// SPDX-License-Identifier: MIT OR Apache-2.0
//! A free run compared with what Linux 4.19.1 measured on the same modelled devices.
//!
//! The kernel ran under emulation, on disks served by a program with exactly the model `linear`:
//! servers, a fixed time, a rate, a penalty for a start that is not the last end. Each cell below
//! is a device, a scheduler and a few processes; the KiB/s of each process are compared with those
//! in `results.json` next to the recordings. They agree within 10 %, plus one turn more or less
//! where a run of a few seconds has few, unless the cell says how far they are apart, and why.
//!
//! # The emulation's own time
//! It is calibrated with two rows of one process under noop and then left unchanged:
//!
//! ```text
//! A.single.4K   812.5 reads a second = 1.231 ms   model 0.915 + 0.171 = 1.086   0.145 ms more
//! C.1.noop      294.0 reads a second = 3.401 ms   model 3.000 + 0.131 = 3.131   0.270 ms more
//! ```
//!
//! The time passes between the end of a command in the device and its process's next submission. If
//! the device takes no more commands than it has servers, nothing can be queued, so it is idle
//! meanwhile, and the time belongs to each command. Elsewhere it is in the answers, where it varies
//! by a third (the README says 0.18 to 0.35 ms).
//!
//! # Not here
//! Buffered writers (how much memory the guest had is not recorded) and the flush runs (that device
//! distinguishes a clean flush from a dirty one).
//!
//! Source: `results.json` and the README next to it, sections 2 to 4.

mod cell;
mod disk;

use cell::{Allowance, Cell, compare};
use disk::{ARRAY, CARD, CARD_AS_DISK, DISK, DISK_1, DISK_32, Disk, FLASH, FOUR};

/// These schedulers, each with the word for it in the kernel's runs.
type Schedulers<'a> = &'a [(&'a str, &'static str)];

const NOOP: Schedulers<'static> = &[("noop", "noop")];
const DEADLINE: Schedulers<'static> = &[("deadline", "deadline")];
const PLAIN: Schedulers<'static> = &[NOOP[0], DEADLINE[0]];
const CFQ: Schedulers<'static> = &[("cfq", "cfq-4.19")];

/// `B.coop.{}` with these processes on `disk`, under each of the schedulers.
fn row(run: &str, disk: Disk, jobs: &str, schedulers: Schedulers<'_>) -> Vec<Cell> {
    let cell = |&(word, scheduler): &(&str, &'static str)| Cell {
        run: run.replace("{}", word),
        disk,
        scheduler,
        jobs: jobs.to_owned(),
        seconds: 5,
        allowance: Allowance::Tenth,
    };
    schedulers.iter().map(cell).collect()
}

/// Cells where processes take turns of this many milliseconds, by process.
fn turns(cells: Vec<Cell>, turns_ms: &'static [u32]) -> Vec<Cell> {
    let allowance = Allowance::Turns(turns_ms);
    cells.into_iter().map(|cell| Cell { seconds: 8, allowance, ..cell }).collect()
}

/// Cells that are further apart than others, and why.
fn apart(cells: Vec<Cell>, bound: f64, why: &'static str) -> Vec<Cell> {
    let allowance = Allowance::Apart(bound, why);
    cells.into_iter().map(|cell| Cell { seconds: 8, allowance, ..cell }).collect()
}

/// `[name]` with options.
fn job(name: &str, options: &str) -> String {
    format!("[{name}]\n{options}\n")
}

fn sequential(name: &str, offset_gib: u32, more: &str) -> String {
    job(name, &format!("rw=read\nbs=128k\noffset={offset_gib}g\n{more}"))
}

/// Random reads of `kib` KiB in the `nth` region of 6 GiB.
fn random(name: &str, kib: u32, nth: u32, more: &str) -> String {
    let offset = nth * 6;
    job(name, &format!("rw=randread\nbs={kib}k\noffset={offset}g\n{more}"))
}

/// Sequential readers of 128 KiB, this many GiB from each other.
fn readers(count: u32, apart_gib: u32) -> String {
    (0..count).map(|nth| sequential(&format!("s{nth}"), nth * apart_gib, "")).collect()
}

/// Four random readers of 4 KiB together with others, after this many regions.
fn beside_four(others: String, regions: u32) -> String {
    (0..4).fold(others, |jobs, nth| jobs + &random(&format!("r{nth}"), 4, nth + regions, ""))
}

/// Which of two cooperators is one step ahead decides whether each pair of requests is one run of
/// 128 KiB or two places, and chance decided that: a row says which it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Even,
    Odd,
}

/// Even and odd pieces of 64 KiB of the same stream, alone and with a reader far away.
fn cooperating(run: &str, disk: Disk, ahead: Ahead, scheduler: Schedulers<'_>) -> Vec<Cell> {
    // Not at the very same time: one CPU submits one after the other, and two bios that come
    // together are merged.
    let later = |who| if who == ahead { "" } else { "startdelay=1ms" };
    let even = format!("rw=read:64k\nbs=64k\n{}", later(Ahead::Even));
    let odd = format!("rw=read:64k\nbs=64k\noffset=64k\n{}", later(Ahead::Odd));
    let far = if run.contains("far") { sequential("far", 30, "") } else { String::new() };
    row(run, disk, &(job("even", &even) + &job("odd", &odd) + &far), scheduler)
}

/// Section A: a card with a small and a big random reader.
fn cards(schedulers: Schedulers<'_>, disk: Disk) -> Vec<Cell> {
    let pair = |size| random("small", 4, 0, "") + &random("big", size, 1, "");
    let row = |size| row(&format!("A.{{}}.4K-{}", size * 1024), disk, &pair(size), schedulers);
    [8, 16, 32, 64].into_iter().flat_map(row).collect()
}

/// Section B: a disk's runs under every scheduler.
fn disks(schedulers: Schedulers<'_>) -> Vec<Cell> {
    let mut all = Vec::new();
    let mixed = sequential("seq", 0, "") + &random("rnd", 4, 8, "");
    for disk in [DISK, DISK_1] {
        let depth = disk.depth();
        all.extend(row(&format!("B.2seq.qd{depth}.{{}}"), disk, &readers(2, 16), schedulers));
        all.extend(row(&format!("B.seq+rnd.qd{depth}.{{}}"), disk, &mixed, schedulers));
    }
    let writer = sequential("rd", 0, "") + &job("dw", "rw=write\nbs=128k\noffset=16g");
    all.extend(row("B.seq+directwr.{}", DISK, &writer, schedulers));
    all
}

/// Section C: an array with 1 to 8 readers.
fn arrays(schedulers: Schedulers<'_>) -> Vec<Cell> {
    let row = |count| row(&format!("C.{count}.{{}}"), ARRAY, &readers(count, 7), schedulers);
    [1, 2, 4, 8].into_iter().flat_map(row).collect()
}

/// Readers of the levels 0 to 7.
fn levels() -> String {
    let level = |level: u32| format!("prioclass=2\nprio={level}");
    (0..8).map(|nth| sequential(&format!("be{nth}"), nth * 8, &level(nth))).collect()
}

/// A sequential reader of a class and level, with further options, at this many GiB.
fn of_class(name: &str, class: u32, level: u32, offset_gib: u32, more: &str) -> String {
    sequential(name, offset_gib, &format!("prioclass={class}\nprio={level}\n{more}"))
}

/// Section G: four random readers in each of two groups.
fn two_groups(size: u32) -> String {
    let group = |letter, weight| format!("cgroup={letter}\ncgroup_weight={weight}");
    let pair = |nth| {
        random(&format!("a{nth}"), 4, nth, &group("a", 1000))
            + &random(&format!("b{nth}"), size, nth + 4, &group("b", 500))
    };
    (0..4).map(pair).collect()
}

/// Do noop and deadline give each process what they gave on the real kernel?
#[test]
fn noop_and_deadline() {
    let mut all = cards(PLAIN, CARD);
    all.extend(disks(PLAIN));
    // F.coop.qd1.noop (4864 both) changed from one phase to the other during the run.
    all.extend(cooperating("B.coop.{}", DISK, Ahead::Odd, PLAIN));
    all.extend(cooperating("B.coop+far.{}", DISK, Ahead::Odd, NOOP));
    all.extend(cooperating("B.coop+far.{}", DISK, Ahead::Even, DEADLINE));
    all.extend(cooperating("F.coop.qd1.{}", DISK_1, Ahead::Odd, DEADLINE));
    all.extend(cooperating("F.coop+far.qd1.{}", DISK_1, Ahead::Even, NOOP));
    all.extend(cooperating("F.coop+far.qd1.{}", DISK_1, Ahead::Odd, DEADLINE));
    all.extend(arrays(PLAIN));
    all.extend(row("B.be0-7.{}", DISK, &levels(), DEADLINE));
    let classes = of_class("rt", 1, 4, 0, "") + &of_class("be", 2, 4, 16, "");
    all.extend(row("B.rt-be.{}", DISK, &classes, DEADLINE));
    all.extend(row("B.2seq+4rnd.{}", DISK, &beside_four(readers(2, 6), 2), DEADLINE));
    for size in [4, 64] {
        let run = format!("G.{{}}.4K-{}", size * 1024);
        all.extend(row(&run, FOUR, &two_groups(size), NOOP));
    }
    let pair = random("small", 4, 0, "") + &random("big", 64, 1, "");
    all.extend(row("E.nonrot.{}.4K-64K", FLASH, &pair, NOOP));
    compare(&all);
}

/// Section A under CFQ: the seed's card.
#[test]
fn cfq_on_a_card() {
    let unknown = ("cfq-si8-hwtag-unknown", "cfq-4.19 slice_idle=8");
    let mut all = cards(&[("cfq-default-si0", "cfq-4.19"), unknown], CARD);
    all.extend(cards(&[("cfq-rot1-oldrule", "cfq-4.19")], CARD_AS_DISK));
    // A second of ten random readers shows that the card does not queue commands.
    let warm = (0..10).fold(String::new(), |jobs, nth| {
        jobs + &random(&format!("p{nth}"), 4, nth % 2, "runtime=1")
    });
    let after = |cell: Cell| {
        let pair = cell.jobs.replacen("[small]\n", "[small]\nstonewall\n", 1);
        Cell { jobs: warm.clone() + &pair, ..cell }
    };
    let warmed = cards(&[("cfq-si8-hwtag0", "cfq-4.19 slice_idle=8")], CARD);
    all.extend(warmed.into_iter().map(after));
    compare(&all);
}

/// Section B under CFQ: sequential and random readers, a writer.
#[test]
fn cfq_on_a_disk() {
    let (mixed, alike): (Vec<Cell>, Vec<Cell>) =
        disks(CFQ).into_iter().partition(|cell| cell.run.contains("rnd"));
    let mut all = turns(alike, &[100]);
    all.extend(mixed);
    all.extend(turns(row("B.2seq+4rnd.{}", DISK, &beside_four(readers(2, 6), 2), CFQ), &[]));
    let ten = row("B.10seq.{}", DISK, &readers(10, 6), CFQ);
    all.extend(apart(ten, 25.0, "the first to come has 100 ms at once, all others 30 ms by turns"));
    compare(&all);
}

/// Section B under CFQ: levels, classes, thinkers.
#[test]
fn cfq_and_priorities() {
    // 180 ms to 40 ms, by low_latency for eight queues 300/800 of it, at least 16.
    const SCALED: &[u32] = &[67, 60, 52, 45, 37, 30, 22, 16];
    const WHOLE: &[u32] = &[180, 160, 140, 120, 100, 80, 60, 40];
    let mut all = turns(row("B.be0-7.{}", DISK, &levels(), CFQ), SCALED);
    let low_latency_0: Schedulers<'_> = &[("cfq-ll0", "cfq-4.19 low_latency=0")];
    all.extend(turns(row("B.be0-7.{}", DISK, &levels(), low_latency_0), WHOLE));
    all.iter_mut().for_each(|cell| cell.seconds = 20);
    let pairs = [
        ("B.rt-be.{}", of_class("rt", 1, 4, 0, "") + &of_class("be", 2, 4, 16, "")),
        (
            "B.rtthink-be.{}",
            of_class("rtthink", 1, 4, 0, "thinktime=15000") + &of_class("be", 2, 4, 16, ""),
        ),
        ("B.idle-be.{}", of_class("idle", 3, 7, 0, "") + &of_class("be", 2, 4, 16, "")),
        (
            "B.idle-bethink.{}",
            of_class("idle", 3, 7, 0, "") + &of_class("bethink", 2, 4, 16, "thinktime=15000"),
        ),
        (
            "B.think20-seq.{}",
            sequential("think20", 0, "thinktime=20000") + &sequential("seq", 16, ""),
        ),
    ];
    all.extend(pairs.iter().flat_map(|(run, jobs)| row(run, DISK, jobs, CFQ)));
    compare(&all);
}

/// Sections B and G under CFQ: control groups.
#[test]
fn cfq_among_groups() {
    let group = |weight| format!("cgroup=w{weight}\ncgroup_weight={weight}");
    let seq = sequential("w1000", 0, &group(1000)) + &sequential("w500", 16, &group(500));
    let mut all = turns(row("B.cg1000-500.seq.{}", DISK, &seq, CFQ), &[100]);
    let rnd = random("w1000", 4, 0, &group(1000)) + &random("w500", 4, 4, &group(500));
    let no_group_idle = ("cfq-gi0", "cfq-4.19 group_idle=0");
    all.extend(turns(row("B.cg1000-500.rnd.{}", DISK, &rnd, &[CFQ[0], no_group_idle]), &[100]));
    for size in [4, 64] {
        let run = format!("G.{{}}.4K-{}", size * 1024);
        let jobs = two_groups(size);
        let idling = [("si0-gi8", "cfq-4.19 slice_idle=0"), ("si8", "cfq-4.19")];
        all.extend(turns(row(&run, FOUR, &jobs, &idling), &[]));
        let neither: Schedulers<'_> = &[("si0-gi0", "cfq-4.19 slice_idle=0 group_idle=0")];
        let why = "the heavy group leaves whenever it has nothing waiting: timing decides";
        all.extend(apart(row(&run, FOUR, &jobs, neither), 20.0, why));
    }
    compare(&all);
}

/// Sections B and F under CFQ: cooperators.
#[test]
fn cfq_and_cooperators() {
    // F.coop+far.qd1.cfq (3072 both) changed its phase during the run, as F.coop.qd1.noop did.
    let mut all = cooperating("B.coop.{}", DISK, Ahead::Odd, CFQ);
    all.extend(cooperating("B.coop+far.{}", DISK, Ahead::Odd, CFQ));
    all.extend(cooperating("F.coop.qd1.{}", DISK_1, Ahead::Odd, CFQ));
    compare(&all);
}

/// Section C under CFQ, and flash of the same width: idling costs what the servers could do.
#[test]
fn cfq_on_an_array() {
    let free: Schedulers<'_> = &[
        ("cfq-si0", "cfq-4.19 slice_idle=0"),
        ("cfq-si0-gi0", "cfq-4.19 slice_idle=0 group_idle=0"),
    ];
    let mut all = arrays(free);
    all.extend(turns(arrays(&[("cfq-si8", "cfq-4.19")]), &[43]));
    let pair = random("small", 4, 0, "") + &random("big", 64, 1, "");
    let unknown = ("hwtagunk", "cfq-4.19 slice_idle=8");
    let flash = row("E.nonrot.si8.{}.4K-64K", FLASH, &pair, &[unknown]);
    all.extend(apart(flash, 15.0, "two turns of 100 ms, of the half of 3 s that each has"));
    compare(&all);
}

/// Section B, the sweep of `slice_idle`: a step between 0 and 1, flat above.
#[test]
fn cfq_with_any_slice_idle() {
    let settings: Schedulers<'_> = &[
        ("si0", "cfq-4.19 slice_idle=0"),
        ("si1", "cfq-4.19 slice_idle=1"),
        ("si2", "cfq-4.19 slice_idle=2"),
        ("si4", "cfq-4.19 slice_idle=4"),
        ("si8", "cfq-4.19 slice_idle=8"),
        ("si16", "cfq-4.19 slice_idle=16"),
        ("q32", "cfq-4.19 quantum=32"),
        ("tl1000", "cfq-4.19 target_latency=1000"),
    ];
    let mut all = turns(row("H.disk.4seq.{}", DISK_32, &readers(4, 16), settings), &[75]);
    all.extend(turns(row("H.array.4seq.{}", ARRAY, &readers(4, 7), settings), &[75]));
    let mixed = beside_four(sequential("seq", 0, ""), 2);
    let both = [settings[1], settings[4]];
    all.extend(turns(row("H.disk.seq+4rnd.{}", DISK_32, &mixed, &both), &[]));
    let few = "a turn of 100 ms each 1.3 s: three in the kernel's run";
    all.extend(apart(row("H.array.seq+4rnd.{}", ARRAY, &mixed, &both), 20.0, few));
    compare(&all);
}
