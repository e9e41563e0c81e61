// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/serve/walk.md names a test for each of its statements: does each of them exist?

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/serve/walk.md");

/// The functions of all sources below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("text");
            let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
            found.extend(lines.filter_map(|line| Some(line.split_once('(')?.0.to_owned())));
        }
    }
}

/// Is there a test of each name in the last column of the page, and does each row name one?
#[test]
fn the_tests_of_the_walk_are_there() {
    let mut there = BTreeSet::new();
    for name in ["paternoster", "paternoster-serve"] {
        functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name), &mut there);
    }
    let (tables, _) = PAGE.split_once("## The soak").expect("its last section");
    let rows = tables.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| test |"));
    let (mut rows, mut names) = (rows.peekable(), 0);
    assert!(rows.peek().is_some());
    for row in rows {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let told = last.split('`').skip(1).step_by(2);
        for name in told {
            let name = name.rsplit("::").next().unwrap_or_default();
            assert!(there.contains(name), "{name}, of: {row}");
            names += 1;
        }
        let others = ["the same", "measured", "these pages", "below"];
        let is_known = others.iter().any(|other| last.contains(other));
        assert!(is_known || last.contains('`'), "no test: {row}");
    }
    assert!(names > 50, "{names}");
}
