// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbered rules of `docs/rules` and their citations: neither exists without the other.
//!
//! A rule is a heading `## BLK-7` with a line `Source:`. It is cited by its number, by a range
//! (`BLK-1 to BLK-4`) or by a test's name (`fn blk_7_congestion`). The check applies to each family
//! that has a page, so a family without one is free until it gets one. A family may have several
//! pages, and a letter after its dash: BFQ-G1 is the first of the family `BFQ-G`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{ROOT, files};

/// A rule's family, as `BLK-`, and its number.
type Rule = (String, u32);

/// The rules of the pages, with the text below their heading.
fn rules() -> BTreeMap<Rule, String> {
    let mut found = BTreeMap::new();
    for (path, text) in files(&["md"]) {
        if !path.starts_with(Path::new(ROOT).join("docs/rules")) {
            continue;
        }
        for section in text.split("\n## ").skip(1) {
            let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
            let family = heading.trim_end_matches(|c: char| c.is_ascii_digit());
            let Ok(number) = heading[family.len()..].parse() else { continue };
            if !family.contains('-') || family.contains(' ') {
                continue;
            }
            let before = found.insert((family.to_owned(), number), body.to_owned());
            assert!(before.is_none(), "{heading} stands twice, again in {}", path.display());
        }
    }
    found
}

/// The number at the head of `text`, and the rest.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The last number of a range that continues with `rest`: `BLK-1 to BLK-4`, `BLK-1..4`.
fn range_end(rest: &str, family: &str) -> Option<u32> {
    if let Some(rest) = rest.strip_prefix(" to ") {
        // "DL-9 to 12 requests" is prose: this form needs the family again.
        return number(rest.strip_prefix(family)?).map(|(last, _)| last);
    }
    number(rest.strip_prefix("..")?).map(|(last, _)| last)
}

/// What `text` cites of a family: by name, and between the ends of a range. The latter need not all
/// exist, because families have gaps.
fn cited(text: &str, family: &str) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let (mut found, mut between) = (BTreeSet::new(), BTreeSet::new());
    let test = format!("fn {}", family.to_lowercase().replace('-', "_"));
    found.extend(text.split(&test).skip(1).filter_map(number).map(|(first, _)| first));
    for (at, _) in text.match_indices(family) {
        let is_inside = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let Some((first, rest)) = number(&text[at + family.len()..]) else { continue };
        if !is_inside {
            let last = range_end(rest, family).unwrap_or(first);
            found.extend([first, last]);
            between.extend(first..last);
        }
    }
    (found, between)
}

/// Are citations read as they are written: alone, as a range, as the name of a test?
#[test]
fn citations_are_read() {
    let text = "(BLK-7), XBLK-8: BLK-1 to BLK-3\nfn blk_12_order() BLK-20..22 BLK-x";
    let (named, between) = cited(text, "BLK-");
    assert_eq!(named, BTreeSet::from([1, 3, 7, 12, 20, 22]));
    assert_eq!(between, BTreeSet::from([1, 2, 20, 21]));
    assert_eq!(cited(text, "KY-"), (BTreeSet::new(), BTreeSet::new()));
    let text = "BFQ-7, BFQ-G1 to BFQ-G3; fn bfq_g4_lag() fn bfq_8_idle()";
    assert_eq!(cited(text, "BFQ-").0, BTreeSet::from([7, 8]));
    let (named, between) = cited(text, "BFQ-G");
    assert_eq!((named, between), (BTreeSet::from([1, 3, 4]), BTreeSet::from([1, 2])));
}

/// Does each cited rule exist, is each existing one cited (or says why it is not implemented), and
/// does each have its source?
#[test]
fn rules_and_citations_agree() {
    let rules = rules();
    assert!(rules.len() > 40, "{} rules: the pages are not found", rules.len());
    let families: BTreeSet<&str> = rules.keys().map(|(family, _)| family.as_str()).collect();
    let mut is_cited = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in files(&["rs", "md", "toml", "fio", "sh"]) {
        let is_page = path.starts_with(Path::new(ROOT).join("docs/rules"));
        if path.ends_with("tests/all/rules.rs") {
            continue;
        }
        for family in &families {
            let (named, between) = cited(&text, family);
            for number in named.union(&between) {
                let rule = ((*family).to_owned(), *number);
                if named.contains(number) && !rules.contains_key(&rule) {
                    wrong.push(format!("{}: no rule {family}{number}", path.display()));
                }
                // A rule that only another rule names is not implemented.
                if !is_page {
                    is_cited.insert(rule);
                }
            }
        }
    }
    for (rule, body) in &rules {
        let (family, number) = rule;
        let says = |mark: &str| {
            let line = body.lines().find_map(|line| line.strip_prefix(mark));
            line.is_some_and(|text| !text.trim().is_empty())
        };
        if !says("Source: ") {
            wrong.push(format!("{family}{number} has no source"));
        }
        if !is_cited.contains(rule) && !says("Not had: ") {
            wrong.push(format!("{family}{number} is cited nowhere, and does not say why"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Does our own elevator cite rules of its page only, and each of them? They have no dash (`L5`),
/// and mean something only in its folder.
#[test]
fn rules_of_our_own_elevator_agree() {
    let root = Path::new(ROOT);
    let folder = root.join("crates/paternoster-schedulers/src/adaptive");
    let page = root.join("docs/rules/adaptive.md");
    let (mut cited, mut had) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in files(&["rs", "md"]) {
        if path == page {
            for section in text.split("\n## ").skip(1) {
                assert!(section.contains("\nSource: "), "no source: {section}");
                had.extend(section.lines().next().map(str::to_owned));
            }
        } else if path.starts_with(&folder) {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_rule = |word: &&str| {
                let mut letters = word.chars();
                letters.next().is_some_and(|letter| "CRSLG".contains(letter))
                    && (2..=3).contains(&word.len())
                    && letters.all(|digit| digit.is_ascii_digit())
            };
            cited.extend(words.filter(is_rule).map(str::to_owned));
        }
    }
    let dangling: Vec<_> = cited.difference(&had).collect();
    assert!(dangling.is_empty() && cited.len() > 20, "not on the page: {dangling:?}");
    let idle: Vec<_> = had.difference(&cited).collect();
    assert!(idle.is_empty(), "cited nowhere: {idle:?}");
}

/// Does anything cite a paper that is not here: a section of a specification, or a plan?
#[test]
fn nothing_cites_papers_outside_of_the_repository() {
    let mut wrong = Vec::new();
    for (path, text) in files(&["rs", "md", "toml", "fio", "sh"]) {
        if path.ends_with("tests/all/rules.rs") {
            continue;
        }
        for (line, text) in (1..).zip(text.lines()) {
            if let Some(paper) = paper_outside(text) {
                wrong.push(format!("{}:{line}: {paper}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "name a rule of docs/rules instead: {wrong:#?}");
}

/// What a line cites of papers outside the repository.
fn paper_outside(line: &str) -> Option<&'static str> {
    const NAMES: [&str; 7] = [
        "plan of the house",
        "cfq-flush-block",
        "spec `",
        "lab's notes",
        "the specification",
        "The specification",
        "Spec section",
    ];
    let named = NAMES.into_iter().find(|name| line.contains(name));
    let is_section = |rest: &str| {
        let rest = rest.strip_prefix("section ").unwrap_or(rest);
        rest.starts_with(|c: char| c.is_ascii_digit())
            || rest.strip_prefix('P').is_some_and(|rest| number(rest).is_some())
    };
    // A continued citation begins its line with the paper's name.
    let is_continued = ["//! `bfq.md`", "//! `trace.md`", "//! `fio.md`", "//! `elevator.md`"];
    let continued = is_continued.iter().any(|start| line.trim_start().starts_with(start));
    let mut behind = line.split("spec ").skip(1);
    named
        .or(continued.then_some("a paper's name"))
        .or(behind.any(is_section).then_some("spec and a section"))
}

/// Are the forms recognised in which papers were cited, but not a variable called `spec`?
#[test]
fn papers_are_known_by_their_citations() {
    for line in [
        "//! Source: spec `trace.md` 3.3.",
        "/// follow spec 1.1?",
        "//! `bfq.md` BFQ-8, BFQ-9.",
        "(spec P5)",
        "//! scenarios of spec section 16b",
        "//! Source: plan of the house, section 6",
    ] {
        assert!(paper_outside(line).is_some(), "{line}");
    }
    for line in ["let spec = 7; f(spec, 8)", "/// A client of `spec`.", "see `docs/rules/bfq.md`"] {
        assert_eq!(paper_outside(line), None, "{line}");
    }
}

/// Does each number of a device name a source that is not a section of a paper outside the
/// repository?
#[test]
fn devices_name_their_sources() {
    let mut wrong = Vec::new();
    for (path, text) in files(&["rs", "md", "toml"]) {
        for rest in text.split("devices.md").skip(1) {
            let rest = rest.trim_start_matches(['`', ' ']);
            if number(rest).is_some_and(|(_, rest)| rest.starts_with('.')) {
                wrong.push(format!("{}: a section of devices.md", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
