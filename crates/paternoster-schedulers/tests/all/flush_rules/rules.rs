// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which test covers which rule: FLUSH-1 to FLUSH-18 with the file in which a test of that name is,
//! or the reason why there is none.

/// Where a rule is tested, or why it is not.
#[derive(Debug, Clone, Copy)]
enum Kept {
    In(&'static str),
    Not(&'static str),
}

use Kept::{In, Not};

const RULES: [Kept; 18] = [
    In("sequence.rs"),
    In("sequence.rs"),
    In("sequence.rs"),
    In("sharing.rs"),
    In("sharing.rs"),
    In("sharing.rs"),
    In("sharing.rs"),
    In("errors.rs"),
    In("errors.rs"),
    In("hold.rs"),
    In("hold.rs"),
    In("hold.rs"),
    In("hold.rs"),
    In("hold.rs"),
    In("hold.rs"),
    In("power.rs"),
    In("power.rs"),
    Not("several hardware queues with a flush each: a queue is one hardware queue here"),
];

/// Where this file and its neighbours are.
fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/flush_rules")
}

/// Has every rule a test of its name where the list says, or a reason why not?
#[test]
fn every_rule_is_asked() {
    for (number, kept) in (1..).zip(RULES) {
        match kept {
            Not(reason) => assert!(reason.len() > 10, "FLUSH-{number}: a sentence why"),
            In(file) => {
                let text = std::fs::read_to_string(folder().join(file)).expect(file);
                let name = format!("fn flush_{number}_");
                assert!(text.contains(&name), "{file} has no test `{name}…`");
            }
        }
    }
}
