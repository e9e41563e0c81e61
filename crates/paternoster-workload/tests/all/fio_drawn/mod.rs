// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drawn jobs: does a random job make exactly the I/Os that fio makes?
//!
//! ```text
//! seed ─▶ draw: a file of sections ─▶ fio, and we ─▶ equal? ─▶ shrink what is not, and keep it
//! ```
//!
//! A case is a section. fio takes 0.1 s of CPU to start, so a file holds several; if either side
//! refuses such a file, each section is judged in a file of its own. `PATERNOSTER_FIO_CASES` says
//! how many cases, `PATERNOSTER_FIO_SEED` the first seed; files that differ are kept in
//! `target/tmp/fio-drawn`, with `PATERNOSTER_FIO_SHRINK` the smallest that do. Without fio the test
//! says so and passes.

mod both;
pub(crate) mod draw;
mod minimal;
mod shrink;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{number, skipped};
use both::{Answer, difference};
use draw::{Chance, Section};

/// Sections of one drawn file.
const SECTIONS: usize = 4;
/// Cases of every day.
const CASES: u64 = 240;
/// Of a hundred judged cases at least this many are equal or refused by both; docs/workloads.md
/// says what the others are.
const EQUAL_LEAST: usize = 95;
/// Of a hundred drawn cases this many must have been judged for a meaningful result.
const JUDGED_LEAST: usize = 90;
/// How often a section with clones is judged before a difference counts.
const CLONES_TRIES: usize = 3;
/// fios that run at one time: one sleeps for most of its life.
const JUDGES: usize = 6;

/// The result of one section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Equal,
    Different(String),
    BothRefuse,
    /// We do, for this reason.
    WeRefuse(String),
    /// fio does.
    FioRefuses(String),
    /// fio does not end.
    Endless,
    /// fio did not end in time, on a machine that may be busy.
    Late,
}

impl Verdict {
    /// Whether fio said anything that ours could be compared with.
    fn is_judged(&self) -> bool {
        !matches!(self, Verdict::Endless | Verdict::Late)
    }

    /// Whether it counts against us.
    fn is_wrong(&self) -> bool {
        self.is_judged() && !matches!(self, Verdict::Equal | Verdict::BothRefuse)
    }

    fn kind(&self) -> &'static str {
        match self {
            Verdict::Equal => "equal",
            Verdict::Different(_) => "different",
            Verdict::BothRefuse => "both refuse",
            Verdict::WeRefuse(_) => "refused, fio runs",
            Verdict::FioRefuses(_) => "accepted, fio fails",
            Verdict::Endless => "fio does not end",
            Verdict::Late => "fio is late",
        }
    }
}

/// The verdict about one section, of what both made of its file.
fn of_section(log: &str, ours: &Answer, theirs: &Answer) -> Verdict {
    let empty = Vec::new();
    match (ours, theirs) {
        (_, Err(why)) if why == both::ENDLESS => Verdict::Endless,
        (_, Err(why)) if why == both::LATE => Verdict::Late,
        (Err(_), Err(_)) => Verdict::BothRefuse,
        (Err(why), Ok(_)) => Verdict::WeRefuse(why.clone()),
        (Ok(_), Err(why)) => Verdict::FioRefuses(why.clone()),
        (Ok(ours), Ok(theirs)) => {
            let (ours, theirs) = (ours.get(log), theirs.get(log));
            let found = difference(ours.unwrap_or(&empty), theirs.unwrap_or(&empty));
            found.map_or(Verdict::Equal, Verdict::Different)
        }
    }
}

/// The verdict about the last section of a file.
pub(crate) fn judged(file: &[Section], folder: &Path) -> Verdict {
    let text = draw::text(file);
    let log = format!("log-{}", file.last().expect("a section").name);
    of_section(&log, &both::ours(&text), &both::theirs(&text, folder))
}

/// The verdicts about all sections of a file, each with the smallest file that still has it.
fn all_judged(file: &[Section], folder: &Path) -> Vec<(Verdict, Vec<Section>)> {
    let text = draw::text(file);
    let (ours, theirs) = (both::ours(&text), both::theirs(&text, folder));
    let sections = (0..file.len()).filter(|&at| !file[at].is_global());
    let alone = |at: usize| {
        let globals = file[..at].iter().filter(|section| section.is_global());
        let file: Vec<Section> = globals.chain([&file[at]]).cloned().collect();
        (judged(&file, folder), file)
    };
    if ours.is_ok() && theirs.is_ok() {
        let one = |at: usize| {
            let log = format!("log-{}", file[at].name);
            let verdict = of_section(&log, &ours, &theirs);
            // fio's clones append to one log at the same time, and may spoil a line of it; not the
            // same line each time.
            let clones = file[at].options.iter().any(|(name, _)| name == "numjobs");
            if verdict.is_wrong() && clones {
                let mut tries = (1..CLONES_TRIES).map(|_| alone(at));
                return tries.find(|(told, _)| !told.is_wrong()).unwrap_or_else(|| alone(at));
            }
            (verdict, file[..=at].to_vec())
        };
        return sections.map(one).collect();
    }
    sections.map(alone).collect()
}

/// Whether there is a fio; says so if there is none.
fn fio_is_here() -> bool {
    let here = Command::new("fio").arg("--version").output().is_ok();
    if !here {
        skipped("fio is not installed (Debian package fio)");
    }
    here
}

/// A folder in memory if there is one: fio lays out files.
fn folder(test: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    base.join(format!("paternoster-{test}-{}", std::process::id()))
}

/// Do the jobs of the folder `PATERNOSTER_FIO_FOLDER` make the I/Os of fio, such as those that were
/// kept?
#[test]
fn jobs_of_a_folder_make_the_ios_of_fio() {
    let Some(jobs) = std::env::var_os("PATERNOSTER_FIO_FOLDER") else { return };
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(jobs).expect("a folder").flatten().map(|file| file.path()).collect();
    names.sort();
    let folder = folder("again");
    let mut wrong = 0;
    for name in names.iter().filter(|name| name.extension().is_some_and(|end| end == "fio")) {
        let text = std::fs::read_to_string(name).expect("a job file");
        let (ours, theirs) = (both::ours(&text), both::theirs(&text, &folder));
        let logs: Vec<String> = ours.iter().flat_map(BTreeMap::keys).cloned().collect();
        let verdicts = logs.iter().map(|log| of_section(log, &ours, &theirs));
        let verdicts: Vec<Verdict> = match (&ours, &theirs) {
            (Ok(_), Ok(_)) => verdicts.collect(),
            _ => vec![of_section("", &ours, &theirs)],
        };
        for verdict in verdicts {
            if !verdict.is_judged() {
                skipped(&format!("{}: {}", name.display(), verdict.kind()));
            }
            if verdict.is_wrong() {
                println!("--- {}: {verdict:?}\n{text}", name.display());
                wrong += 1;
            }
        }
    }
    let _left = std::fs::remove_dir_all(folder);
    assert_eq!(wrong, 0, "jobs that differ, of {}", names.len());
}

/// Does every drawn job make the very I/Os that fio makes, or is it refused by both?
#[test]
fn drawn_jobs_make_the_ios_of_fio() {
    if !fio_is_here() {
        return;
    }
    let cases = number("PATERNOSTER_FIO_CASES").unwrap_or(CASES);
    let first = number("PATERNOSTER_FIO_SEED").unwrap_or(1);
    let shrinks = std::env::var_os("PATERNOSTER_FIO_SHRINK").is_some();
    let (base, kept) = (folder("drawn"), Path::new(env!("CARGO_TARGET_TMPDIR")).join("fio-drawn"));
    std::fs::create_dir_all(&kept).expect("a folder");
    let next = AtomicU64::new(0);
    let files = cases.div_ceil(u64::try_from(SECTIONS).expect("few"));
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for judge in 0..JUDGES {
            let (folder, all, next) = (base.join(judge.to_string()), &all, &next);
            let kept = &kept;
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= files {
                        break;
                    }
                    let seed = first + seed;
                    let file = draw::file(&mut Chance::new(seed), SECTIONS);
                    for (nth, (verdict, file)) in (0..).zip(all_judged(&file, &folder)) {
                        let mut told = (verdict, file);
                        if told.0.is_wrong() {
                            if shrinks {
                                told = shrink::smallest(told.1, &told.0, &folder);
                            }
                            let name = format!("{seed}-{nth}.fio");
                            let text = format!("# {:?}\n{}", told.0, draw::text(&told.1));
                            std::fs::write(kept.join(name), text).expect("a file");
                        }
                        all.lock().expect("no judge panics").push((seed, nth, told));
                    }
                }
            });
        }
    });
    let mut all = all.into_inner().expect("no judge panics");
    all.sort_by_key(|(seed, nth, _)| (*seed, *nth));
    let mut counts = BTreeMap::new();
    for (seed, nth, (verdict, file)) in &all {
        *counts.entry(verdict.kind()).or_insert(0_usize) += 1;
        if verdict.is_wrong() {
            println!("--- seed {seed}, section {nth}: {verdict:?}\n{}", draw::text(file));
        }
    }
    println!("seeds {first} to {}: {counts:?}", first + files - 1);
    let _left = std::fs::remove_dir_all(base);
    match weighed(&counts) {
        Ok(None) => {}
        Ok(Some(why)) => skipped(&why),
        Err(why) => {
            let last = first + files - 1;
            panic!("{why}, seeds {first} to {last}; those that differ are in {}", kept.display())
        }
    }
}

/// The verdicts together: an error; or why they are inconclusive.
fn weighed(counts: &BTreeMap<&str, usize>) -> Result<Option<String>, String> {
    let count = |kind: &str| counts.get(kind).copied().unwrap_or(0);
    let (sound, all) = (count("equal") + count("both refuse"), counts.values().sum::<usize>());
    let (endless, late) = (count("fio does not end"), count("fio is late"));
    let judged = all - endless - late;
    if 100 * sound < EQUAL_LEAST * judged {
        return Err(format!("{sound} of {judged} cases are as fio's"));
    }
    // What the machine did not let end is no fault; what used up its CPU is the generator's.
    if 100 * (all - endless) < JUDGED_LEAST * all {
        return Err(format!("fio does not end with {endless} of {all} cases"));
    }
    let few = 100 * judged < JUDGED_LEAST * all;
    Ok(few.then(|| format!("fio was late with {late} of {all} cases; {judged} were judged")))
}

/// Is a run in which fio was late with most cases no success, and one in which it does not end a
/// failure?
#[test]
fn few_judged_cases_are_told() {
    let weigh = |equal, different, endless, late| {
        let counts = [
            ("equal", equal),
            ("different", different),
            ("fio does not end", endless),
            ("fio is late", late),
        ];
        weighed(&BTreeMap::from(counts))
    };
    // 95 of 100 judged; 90 of 100 drawn.
    assert_eq!(weigh(95, 5, 0, 0), Ok(None));
    assert_eq!(weigh(94, 6, 0, 0), Err("94 of 100 cases are as fio's".to_owned()));
    assert_eq!(weigh(90, 0, 10, 0), Ok(None));
    assert_eq!(weigh(89, 0, 11, 0), Err("fio does not end with 11 of 100 cases".to_owned()));
    let few = "fio was late with 71 of 80 cases; 9 were judged".to_owned();
    assert_eq!(weigh(9, 0, 0, 71), Ok(Some(few)));
    assert_eq!(weigh(4, 1, 0, 75), Err("4 of 5 cases are as fio's".to_owned()));
}

/// Is a job without an end distinguished from one that fails?
#[test]
fn a_fio_that_does_not_end_is_stopped_by_its_cpu_or_its_log() {
    if !fio_is_here() {
        return;
    }
    let folder = folder("endless").join("endless");
    let job = "[a]\nioengine=null\nsize=1m\ntime_based\nruntime=1000\n";
    let unsound = "[a]\nioengine=null\nsize=-1\n";
    for text in [job.to_owned(), format!("{job}write_iolog=log\n")] {
        assert_eq!(both::theirs(&text, &folder), Err(both::ENDLESS.to_owned()), "{text}");
    }
    let fails = both::theirs(unsound, &folder).expect_err("it has no such size");
    assert_ne!(fails, both::ENDLESS);
    let _left = std::fs::remove_dir_all(folder);
}
