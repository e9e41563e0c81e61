// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which test covers which rule: the list of all rules BFQ-1 to BFQ-199, with the file that has the
//! tests of that name, or the reason why there is no test; and the same for the guarantees BFQ-G1
//! to BFQ-G14 and the scenarios BFQ-S1 to BFQ-S18.
//!
//! A rule may be tested in other files, too. Golden vectors are `bfq_golden_…` in `engine_order`,
//! `charges`, `pattern`, `entity.rs` and `rate.rs`; the budgets at the reference rates are
//! `bfq_80_…`.

/// Where a rule is tested, or why it is not.
#[derive(Debug, Clone, Copy)]
enum Kept {
    /// In a test of this file.
    In(&'static str),
    /// Not tested, for this reason.
    Not(&'static str),
}

use Kept::{In, Not};

/// The first and last rule of each row, and where they are tested.
type Rows = &'static [(u32, u32, Kept)];

const RULES: Rows = &[
    (1, 9, In("tests/engine.rs")),
    (10, 18, In("tests/engine_order.rs")),
    (19, 19, In("entity.rs")),
    (20, 25, In("tests/engine_classes.rs")),
    (26, 27, In("tests/idling.rs")),
    (28, 34, In("tests/requests.rs")),
    (35, 36, In("tests/tags.rs")),
    (37, 40, In("tests/requests.rs")),
    (41, 55, In("tests/turns.rs")),
    (56, 59, In("tests/budgets.rs")),
    (60, 62, In("tests/turns.rs")),
    (63, 63, In("tests/budgets.rs")),
    (64, 66, In("tests/charges.rs")),
    (67, 67, In("/tests/all/bfq_rules/shares.rs")),
    (68, 74, In("tests/idling.rs")),
    (75, 76, In("tests/rates.rs")),
    (77, 77, In("rate.rs")),
    (78, 79, In("tests/rates.rs")),
    (80, 80, In("rate.rs")),
    (81, 81, In("tests/rates.rs")),
    (82, 89, In("tests/pattern.rs")),
    (90, 93, In("tests/idling.rs")),
    (94, 109, In("tests/raising.rs")),
    (110, 115, In("tests/bursts.rs")),
    (116, 131, In("tests/merging.rs")),
    (
        132,
        132,
        Not("times of lxterminal's start: `paternoster reproduce` judges what seed 004 says"),
    ),
    (133, 137, In("tests/splitting.rs")),
    (138, 140, Not("there is no such rule")),
    (141, 144, In("tests/splitting.rs")),
    (145, 147, In("tests/merging.rs")),
    (148, 149, Not("there is no such rule")),
    (150, 158, In("tests/injection.rs")),
    (159, 159, Not("other coefficients than 1: no kernel lets one choose, nor does this one")),
    (160, 166, In("tests/measured.rs")),
    (167, 168, In("tests/wakers.rs")),
    (169, 169, In("/tests/all/bfq_rules/journal.rs")),
    (170, 172, Not("a device has one actuator here")),
    (173, 179, Not("there is no such rule")),
    (180, 180, In("/tests/all/bfq_rules/tunables.rs")),
    (181, 183, In("tests/groups.rs")),
    (184, 184, In("../paternoster/tests/judges/bfq_shares.rs")),
    (185, 185, In("tests/groups.rs")),
    (186, 188, In("/tests/all/bfq_rules/tunables.rs")),
    (189, 189, Not("debug statistics of groups: figures are made from events and notes")),
    (190, 191, In("/tests/all/bfq_rules/requests.rs")),
    (192, 193, In("tests/groups.rs")),
    (194, 194, In("/tests/all/bfq_rules/requests.rs")),
    (195, 195, Not("there is no write-back throttling that would have to be switched off")),
    (196, 196, Not("a queue belongs to one caller: there is nothing to lock, and one dispatch")),
    (197, 197, In("/tests/all/bfq_rules/requests.rs")),
    (198, 198, In("tests/storm.rs")),
    (199, 199, In("weights.rs")),
];

/// BFQ-G1 to BFQ-G14.
const GUARANTEES: Rows = &[
    (1, 6, In("tests/guarantees.rs")),
    (7, 12, In("tests/shares.rs")),
    (13, 13, In("tests/storm.rs")),
    (14, 14, In("tests/idling.rs")),
];

/// BFQ-S1 to BFQ-S18.
const SCENARIOS: Rows = &[
    (1, 2, In("/tests/all/bfq_rules/shares.rs")),
    (3, 5, In("../paternoster/tests/judges/bfq_shares.rs")),
    (6, 7, In("/tests/all/bfq_rules/scenarios.rs")),
    (8, 8, In("tests/splitting.rs")),
    (9, 9, In("/tests/all/bfq_rules/scenarios.rs")),
    (10, 11, In("/tests/all/bfq_rules/shares.rs")),
    (12, 12, In("tests/tags.rs")),
    (13, 13, In("../paternoster/tests/judges/bfq_shares.rs")),
    (14, 14, In("/tests/all/bfq_rules/journal.rs")),
    (15, 15, In("/tests/all/bfq_rules/scenarios.rs")),
    (16, 16, In("/tests/all/bfq_rules/tunables.rs")),
    (17, 17, Not("nothing is allocated that could fail; for want of room see `bfq_191_…`")),
    (18, 18, In("tests/storm.rs")),
];

/// Parts of rules that do not hold here: the number, and why.
const PARTS: &[(u32, &str)] = &[
    (19, "classes by CPU policy: who attaches a client says its class (levels: `Priority`)"),
    (28, "passthrough requests: there are none"),
    (29, "requests without a queue: each has one"),
    (77, "rates above 10 GB/s: believed up to 100 GB/s"),
    (65, "the default timeout whatever is set: the one that is set counts"),
    (128, "a queue that is no longer anybody's own is refused in 4.19, too, across groups"),
    (142, "stably merged processes are those of 6.18 only"),
    (162, "nanoseconds added to ticks: the right units are used"),
    (
        180,
        "weights beyond 1000, per-device weights, `default N`: other elevators take more, and a \
           queue is one device",
    ),
    (183, "statistics folded into the parent: there are none"),
];

/// The source of a file: of this elevator, of the crate's outside tests, or of another crate.
fn source(file: &str) -> alloc::string::String {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = match file.strip_prefix('/') {
        Some(outside) => alloc::format!("{root}/{outside}"),
        None if file.starts_with("..") => alloc::format!("{root}/{file}"),
        None => alloc::format!("{root}/src/bfq/{file}"),
    };
    std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

/// Whether each number from 1 to `last` is in one row, and has a test of its name there or a
/// reason.
fn check(rows: Rows, last: u32, prefix: &str) {
    let mut next = 1;
    for &(from, to, kept) in rows {
        assert_eq!(from, next, "{prefix}: a number is missing, or there twice");
        next = to + 1;
        match kept {
            Not(reason) => assert!(reason.len() > 10, "{prefix}{from}: a sentence why"),
            In(file) => {
                let text = source(file);
                for number in from..=to {
                    let name = alloc::format!("fn {prefix}{number}_");
                    assert!(text.contains(&name), "{file} has no test `{name}…`");
                }
            }
        }
    }
    assert_eq!(next, last + 1, "{prefix}: not all are there");
}

/// Has every rule a test of its name where the list says, or a reason why not?
#[test]
fn every_rule_is_asked() {
    check(RULES, 199, "bfq_");
    for &(number, reason) in PARTS {
        assert!((1..=199).contains(&number) && reason.len() > 10);
    }
}

/// Does every guarantee have a test, and every scenario?
#[test]
fn every_guarantee_and_scenario_is_asked() {
    check(GUARANTEES, 14, "bfq_g");
    check(SCENARIOS, 18, "bfq_scenario_");
}
