// SPDX-License-Identifier: MIT OR Apache-2.0
//! Are the files of all processors one trace: packed or not, by whichever of them is named, and by
//! a pattern of the shell that names them all?

use std::io::Write;

use flate2::write::GzEncoder;

use super::*;

/// Packs the files of a trace one by one, and takes the plain ones away.
fn pack(folder: &Folder, prefix: &str) -> usize {
    let mut count = 0;
    while let Ok(bytes) = std::fs::read(folder.path().join(format!("{prefix}.blktrace.{count}"))) {
        let name = folder.path().join(format!("{prefix}.blktrace.{count}"));
        let packed = std::fs::File::create(name.with_extension(format!("{count}.gz")));
        let mut packed = GzEncoder::new(packed.expect("made"), flate2::Compression::fast());
        packed.write_all(&bytes).and_then(|()| packed.try_finish()).expect("written");
        std::fs::remove_file(name).expect("it is there");
        count += 1;
    }
    count
}

/// The analysis, without the name of the trace.
fn said(folder: &Folder, names: &[&str]) -> Value {
    let text = run(PROGRAM, folder.path(), &[&["analyze"][..], names, &["--format=json"]].concat());
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    let traces = document["traces"].as_array_mut().expect("traces");
    assert_eq!(traces.len(), 1, "{names:?}");
    traces[0]["devices"].take()
}

#[test]
fn the_files_of_all_processors_are_one_trace() {
    let folder = Folder::new("processors");
    trace(&folder, "bfq");
    let plain = said(&folder, &["t"]);
    assert_eq!(said(&folder, &["t.blktrace.0", "t.blktrace.1", "t.blktrace.2"]), plain);
    let count = pack(&folder, "t");
    assert!(count > 1, "{count} files");
    let names: Vec<String> = (0..count).map(|cpu| format!("t.blktrace.{cpu}.gz")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for names in [&["t"][..], &names[..1], &names[1..2], &names] {
        assert_eq!(said(&folder, names), plain, "{names:?}");
    }
    // Not the file of a processor that is not there, and not a longer name.
    for (name, reason) in [("t.blktrace.777.gz", "no such file"), ("u", "no such file")] {
        assert!(refused::refused(&folder, &["analyze", name]).contains(reason), "{name}");
    }
    std::fs::rename(folder.path().join(names[0]), folder.path().join("u.none.blktrace.0.gz"))
        .expect("it is there");
    let message = refused::refused(&folder, &["analyze", "u"]);
    assert!(message.contains("u: there is no such trace; there are u.none"), "{message}");
}
