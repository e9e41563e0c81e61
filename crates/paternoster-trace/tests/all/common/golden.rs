// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded traces and what real tools made of them, where they are at hand.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use paternoster_trace::blktrace::Merged;
use paternoster_trace::{Source, blkparse};

use super::skipped;

/// The cases that have per-processor files.
pub(crate) const CASES: [&str; 6] = ["alias", "basic", "bigendian", "merge", "odd", "seeks"];
/// Traces of a running kernel.
pub(crate) const KERNEL: [&str; 2] = ["seq8_bfq", "seq8_none"];

/// The folder of recordings; `None`, with a message, if it is missing.
pub(crate) fn data(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    skipped(&format!("no recordings {}", path.display()));
    None
}

/// The text of a compressed file.
pub(crate) fn unpacked(path: &Path) -> String {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(BufReader::new(file)).read_to_string(&mut text).unwrap();
    text
}

/// The per-processor files of a trace, as one.
pub(crate) fn merged(folder: &Path, name: &str) -> Merged<File> {
    let file = |cpu: u32| {
        let path = folder.join(format!("{name}.blktrace.{cpu}"));
        File::open(&path).ok().map(|file| (path.display().to_string(), Some(cpu), file))
    };
    Merged::new((0..).map_while(file))
}

/// What blkparse would print of a source.
pub(crate) fn text(mut source: impl Source, options: blkparse::Options) -> Vec<u8> {
    let mut out = Vec::new();
    let mut text = blkparse::Text::new(options, &mut out);
    while let Some(entry) = source.next() {
        text.record(&entry).unwrap();
    }
    text.finish().unwrap();
    drop(text);
    out
}

/// The tool's output without the lines about the files that it read.
pub(crate) fn without_files(text: &[u8]) -> &[u8] {
    let at = text.windows(11).position(|window| window == b"Input file ");
    &text[..at.unwrap_or(text.len())]
}

/// Fails with the first line that differs.
pub(crate) fn assert_same(what: &str, ours: &[u8], real: &[u8]) {
    if ours == real {
        return;
    }
    let lines = |text| String::from_utf8_lossy(text).lines().map(str::to_owned).collect::<Vec<_>>();
    let (ours, real): (Vec<String>, Vec<String>) = (lines(ours), lines(real));
    for (number, (ours, real)) in ours.iter().zip(&real).enumerate() {
        assert_eq!(ours, real, "{what}, line {}", number + 1);
    }
    assert_eq!(ours.len(), real.len(), "{what}: lines");
    panic!("{what}: differs in what is no text");
}
