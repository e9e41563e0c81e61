// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorded outputs of the real btt, where they are at hand: ours, byte for byte.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use paternoster_trace::Source;
use paternoster_trace::blktrace::{Merged, Ordered};
use paternoster_trace::btt::{Analysis, Figures, Memory, Options, STANDARD_OUTPUT};

use crate::common::skipped;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// The folder with recorded outputs; `None`, with a message, without it.
fn recorded(name: &str) -> Option<PathBuf> {
    let path = Path::new(DATA).join(name);
    if !path.is_dir() {
        skipped(&format!("no recorded outputs in {}", path.display()));
        return None;
    }
    Some(path)
}

/// What btt makes of a trace: standard output and side files.
fn analyse(mut source: impl Source, options: Options) -> (Vec<u8>, Memory, Figures) {
    let mut files = Memory::default();
    let mut analysis = Analysis::new(options, &mut files);
    while let Some(entry) = source.next() {
        analysis.record(&entry);
    }
    let figures = analysis.finish().unwrap();
    assert_eq!(source.problems().count(), 0);
    let text = files.0.remove(STANDARD_OUTPUT).unwrap_or_default();
    (text, files, figures)
}

/// The options with which the side files were recorded.
fn all_options() -> Options {
    let name = |name: &str| Some(name.to_owned());
    Options {
        output: name("out"),
        all: true,
        easy: true,
        seeks: name("seek"),
        seeks_per_second: name("sps"),
        d2c: name("d2c"),
        q2c: name("q2c"),
        q2d: name("q2d"),
        depth: name("aqd"),
        blocks: name("bno"),
        unplugs: name("unplug"),
        periodic: Some(1.0),
        iostat: name("iostat.txt"),
        per_io: name("perio.txt"),
        per_io_trees: true,
        live: true,
        ..Options::default()
    }
}

fn open(path: &Path) -> Ordered<File> {
    Ordered::new("trace", File::open(path).expect("a recorded trace"))
}

/// The first line in which two texts differ.
fn difference(ours: &[u8], theirs: &[u8]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let [ours, theirs] = [ours, theirs].map(String::from_utf8_lossy);
    let (mut a, mut b) = (ours.lines(), theirs.lines());
    for line in 1.. {
        match (a.next(), b.next()) {
            (None, None) => return Some("line ends differ".to_owned()),
            (a, b) if a == b => {}
            (a, b) => return Some(format!("line {line}: ours {a:?}, theirs {b:?}")),
        }
    }
    None
}

/// Compares a case's files with ours; what differs, and how many were the same.
fn compare(case: &Path) -> (Vec<String>, usize) {
    let name = case.file_name().unwrap().to_str().unwrap();
    let trace = case.join(format!("{name}.bin"));
    let (text, _, _) = analyse(open(&trace), Options::default());
    let mut theirs =
        BTreeMap::from([("btt.txt".to_owned(), fs::read(case.join("btt.txt")).unwrap())]);
    let mut ours = Memory::default();
    if let Ok(side) = fs::read_dir(case.join("side")) {
        ours = analyse(open(&trace), all_options()).1;
        for file in side.map(|file| file.unwrap()) {
            let name = file.file_name().into_string().unwrap();
            theirs.insert(name, fs::read(file.path()).unwrap());
        }
    }
    ours.0.insert("btt.txt".to_owned(), text);
    let (mut different, mut equal) = (Vec::new(), 0);
    for (file, recorded) in &theirs {
        let own = ours.0.remove(file);
        match own.map_or(Some("not made".to_owned()), |own| difference(&own, recorded)) {
            None => equal += 1,
            Some(how) => different.push(format!("{name}/{file}: {how}")),
        }
    }
    for (file, own) in ours.0 {
        // Of some cases only part was kept: the histograms, and the side files of `seeks`.
        if !file.ends_with("hist.dat") && name != "seeks" {
            different.push(format!("{name}/{file}: btt does not make it ({} bytes)", own.len()));
        }
    }
    (different, equal)
}

/// Are report, ranges and every side file of the golden cases the real tool's, byte for byte?
#[test]
fn golden_cases_are_equal() {
    let Some(folder) = recorded("btt-golden") else { return };
    let (mut different, mut equal) = (Vec::new(), 0);
    for case in fs::read_dir(folder).unwrap().map(|case| case.unwrap().path()) {
        if case.is_dir() {
            let (those, same) = compare(&case);
            println!("{}: {same} files equal, {} different", case.display(), those.len());
            different.extend(those);
            equal += same;
        }
    }
    assert!(different.is_empty(), "{equal} files equal, but:\n{}", different.join("\n"));
    println!("{equal} files equal");
}

/// Is the report of a real kernel's trace, whose processors have a file each, the real tool's?
#[test]
fn kernel_traces_are_equal() {
    for name in ["seq8_bfq", "seq8_none"] {
        let Some(folder) = recorded(&format!("kernel-traces/{name}")) else { return };
        let files = (0..2).map(|cpu| {
            let path = folder.join(format!("{name}.blktrace.{cpu}"));
            (path.display().to_string(), Some(cpu), File::open(path).expect("a recorded trace"))
        });
        let (text, _, _) = analyse(Merged::new(files), Options::default());
        let recorded = fs::read(folder.join(format!("{name}.btt.txt"))).unwrap();
        assert_eq!(difference(&text, &recorded), None, "{name}");
    }
}
