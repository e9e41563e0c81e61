// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drawn jobs that depend on the clock: does each process make as many I/Os as fio's?
//!
//! ```text
//! seed ─▶ draw: a device, jobs ─▶ fio on the emulated device, and we ─▶ counts within 5 %?
//!                                    └─ else twice more ─▶ shrink what always differs, and keep it
//! ```
//!
//! The law, for the reads and the writes of each process: ours differ from fio's by at most 5 %, or
//! by one I/O for each of its slots and one more (an I/O at either edge of the time may fall to
//! either side of it). A busy machine makes fio late, not early, and not always: a case differs if
//! it does so in three runs of fio, those apart in which the machine was too busy for another fio,
//! too. No time is asserted.
//!
//! `PATERNOSTER_FIO_TIMED` says how many cases, `PATERNOSTER_FIO_SEED` the first seed; with
//! `PATERNOSTER_FIO_SHRINK` what differs is shrunk. It is kept in `target/tmp/fio-timed`.

mod both;
mod draw;
mod shrink;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::emulate::can;
use crate::common::skipped;
use both::{Answer, Process};
use draw::{Case, Chance};

/// Cases of a judge.
const CASES: u64 = 48;
/// Of a hundred judged cases at least this many are as fio's; docs/workloads.md says what the
/// others are.
const ALIKE_LEAST: usize = 90;
/// Runs of fio in which a case must differ.
const TRIES: usize = 3;
/// And at most so many in all.
const TRIES_MOST: usize = 6;
/// Number of fio processes at a time; they sleep most of the time.
const JUDGES: usize = 3;
/// Of a hundred cases this many must have been judged for a meaningful result.
const JUDGED_LEAST: usize = 80;
/// Percent by which counts may differ.
const PERCENT: u64 = 5;

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Alike,
    Different(String),
    BothRefuse,
    /// We do, for this reason.
    WeRefuse(String),
    /// fio does, or it does not end.
    FioRefuses(String),
    /// The machine was too busy.
    Busy,
}

impl Verdict {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Verdict::Alike => "alike",
            Verdict::Different(_) => "different",
            Verdict::BothRefuse => "both refuse",
            Verdict::WeRefuse(_) => "refused, fio runs",
            Verdict::FioRefuses(_) => "accepted, fio fails",
            Verdict::Busy => "too busy",
        }
    }

    fn is_wrong(&self) -> bool {
        !matches!(self, Verdict::Alike | Verdict::BothRefuse | Verdict::Busy)
    }
}

/// Where two counts are more than the law allows apart, of a process with so many slots.
fn apart(ours: u64, theirs: u64, slots: u64) -> bool {
    let apart = ours.abs_diff(theirs);
    apart > slots + 1 && 100 * apart > PERCENT * theirs
}

/// In which process, and by how much.
fn difference(case: &Case, ours: &[Process], theirs: &[Process]) -> Option<String> {
    let told = || format!("fio {}, ours {}", shown(theirs), shown(ours));
    if ours.len() != theirs.len() {
        return Some(told());
    }
    let wrong = ours.iter().zip(theirs).any(|(our, their)| {
        let section = case.named().find(|(name, _)| *name == our.name);
        let depth = section.and_then(|(_, all)| all.iter().find(|(name, _)| name == "iodepth"));
        let slots = depth.map_or(1, |(_, depth)| depth.parse().expect("a depth"));
        let ways = our.ios.iter().zip(&their.ios);
        let mut counts = ways.map(|(our, their)| apart(*our, *their, slots));
        our.name != their.name || our.failed != their.failed || counts.any(|apart| apart)
    });
    wrong.then(told)
}

fn shown(processes: &[Process]) -> String {
    let one = |process: &Process| {
        let error = if process.failed { " fails" } else { "" };
        format!("{} {}+{}{error}", process.name, process.ios[0], process.ios[1])
    };
    processes.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn of_answers(case: &Case, ours: &Answer, theirs: &Answer) -> Verdict {
    match (ours, theirs) {
        (_, Err(why)) if why == both::BUSY => Verdict::Busy,
        (Err(_), Err(_)) => Verdict::BothRefuse,
        (Err(why), Ok(_)) => Verdict::WeRefuse(why.clone()),
        (Ok(_), Err(why)) => Verdict::FioRefuses(why.clone()),
        (Ok(ours), Ok(theirs)) => {
            difference(case, ours, theirs).map_or(Verdict::Alike, Verdict::Different)
        }
    }
}

/// The verdict about a case: the best of some runs of fio.
pub(crate) fn judged(case: &Case, folder: &Path) -> Verdict {
    let ours = both::ours(case, folder);
    let (mut found, mut differed) = (Verdict::Busy, 0);
    for _ in 0..TRIES_MOST {
        match of_answers(case, &ours, &both::theirs(case, folder)) {
            Verdict::Busy => {}
            verdict if !verdict.is_wrong() => return verdict,
            verdict => (found, differed) = (verdict, differed + 1),
        }
        if differed == TRIES {
            return found;
        }
    }
    Verdict::Busy
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: it is no number")))
}

/// Whether there are fio and FUSE.
fn can_judge() -> bool {
    let fio = Command::new("fio").arg("--version").output().is_ok();
    if !fio {
        skipped("fio is not installed (Debian package fio)");
    }
    fio && can()
}

/// Does every process of a drawn case make as many reads and writes as fio's, within 5 %?
#[test]
fn drawn_timed_jobs_make_as_many_ios_as_those_of_fio() {
    if !can_judge() {
        return;
    }
    let cases = number("PATERNOSTER_FIO_TIMED").unwrap_or(CASES);
    let first = number("PATERNOSTER_FIO_SEED").unwrap_or(1);
    let shrinks = std::env::var_os("PATERNOSTER_FIO_SHRINK").is_some();
    let base = std::env::temp_dir().join(format!("paternoster-timed-{}", std::process::id()));
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fio-timed");
    std::fs::create_dir_all(&kept).expect("a folder");
    let next = AtomicU64::new(0);
    let all = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for judge in 0..JUDGES {
            let (folder, all, next, kept) = (base.join(judge.to_string()), &all, &next, &kept);
            scope.spawn(move || {
                loop {
                    let seed = first + next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + cases {
                        break;
                    }
                    let case = draw::case(&mut Chance::new(seed));
                    let mut told = (judged(&case, &folder), case);
                    if told.0.is_wrong() {
                        if shrinks {
                            let (case, verdict) = shrink::smallest(told.1, told.0, &folder);
                            told = (verdict, case);
                        }
                        let text = format!("# {:?}\n{}", told.0, told.1.jobs("mount/slow"));
                        std::fs::write(kept.join(format!("{seed}.fio")), text).expect("a file");
                    }
                    all.lock().expect("no judge panics").insert(seed, told);
                }
            });
        }
    });
    let _left = std::fs::remove_dir_all(base);
    let mut counts = BTreeMap::new();
    let all = all.into_inner().expect("no judge panics");
    for (seed, (verdict, case)) in &all {
        *counts.entry(verdict.kind()).or_insert(0_usize) += 1;
        if verdict.is_wrong() {
            let (servers, base) = (case.servers, case.base);
            println!("--- seed {seed}: {verdict:?}\n{servers} servers of {base} ms");
            println!("{}", case.jobs("mount/slow"));
        }
    }
    let last = first + cases - 1;
    println!("seeds {first} to {last}: {counts:?}");
    let busy = counts.get(Verdict::Busy.kind()).copied().unwrap_or(0);
    let wrong = all.values().filter(|(verdict, _)| verdict.is_wrong()).count();
    let judged = all.len() - busy;
    assert!(
        100 * (judged - wrong) >= ALIKE_LEAST * judged,
        "{wrong} of {judged} are not as fio's, seeds {first} to {last}; they are in {}",
        kept.display()
    );
    if 100 * judged < JUDGED_LEAST * all.len() {
        skipped(&format!("the machine was too busy for {busy} of {} cases", all.len()));
    }
}

/// Are counts alike as the law says: within 5 %, or an I/O for each slot and one more?
#[test]
fn counts_are_alike_within_five_percent() {
    // 5 % of 200 are 10; of 20 1, but two edges are two.
    assert!(!apart(190, 200, 1) && apart(189, 200, 1));
    assert!(!apart(18, 20, 1) && apart(17, 20, 1));
    // Eight slots, nine I/Os; of 400 20 are 5 %.
    assert!(!apart(91, 100, 8) && apart(90, 100, 8) && !apart(380, 400, 8));
    assert!(!apart(0, 0, 1) && apart(3, 0, 1));
}
