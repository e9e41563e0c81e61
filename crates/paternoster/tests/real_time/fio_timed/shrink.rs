// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shrink: the smallest case in which both still do not agree.
//!
//! Sections are dropped, then options one by one, then values made simpler, as long as the kind of
//! verdict stays. Each try takes the seconds that fio takes for it.

use std::path::Path;

use super::draw::Case;
use super::{Verdict, judged};

/// Verdicts that one search may use.
const TRIES: u32 = 40;
/// What no job here can be without.
const KEPT: &[&str] = &["ioengine", "rw", "runtime"];

/// A smaller case with the same kind of verdict, and that verdict.
pub(crate) fn smallest(case: Case, verdict: Verdict, folder: &Path) -> (Case, Verdict) {
    let (mut best, mut found, mut left) = (case, verdict, TRIES);
    loop {
        let smaller = candidates(&best).into_iter().find_map(|candidate| {
            left = left.checked_sub(1)?;
            let told = judged(&candidate, folder);
            (told.kind() == found.kind()).then_some((candidate, told))
        });
        match smaller {
            Some(smaller) => (best, found) = smaller,
            None => return (best, found),
        }
    }
}

/// Cases a step smaller, the greatest steps first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    if case.sections.len() > 1 {
        for at in 0..case.sections.len() {
            let mut without = case.clone();
            without.sections.remove(at);
            all.push(without);
        }
    }
    for at in 0..case.sections.len() {
        for option in 0..case.sections[at].len() {
            let (name, value) = &case.sections[at][option];
            if !KEPT.contains(&name.as_str()) {
                let mut without = case.clone();
                without.sections[at].remove(option);
                all.push(without);
            }
            if let Some(simpler) = simpler(name, value) {
                let mut with = case.clone();
                with.sections[at][option].1 = simpler;
                all.push(with);
            }
        }
    }
    all
}

/// A simpler value of an option.
fn simpler(name: &str, value: &str) -> Option<String> {
    let simple = match name {
        "rw" if value.ends_with("rw") && value != "rw" => "rw",
        "rw" if value.starts_with("rand") => value.strip_prefix("rand").unwrap_or(value),
        "bs" => "4k",
        "ioengine" => "psync",
        "rate" | "rate_iops" => value.split(',').find(|part| !part.is_empty())?,
        "startdelay" => value.split('-').next()?,
        _ => return None,
    };
    (simple != value).then(|| simple.to_owned())
}
