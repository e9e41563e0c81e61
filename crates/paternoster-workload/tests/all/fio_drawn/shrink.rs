// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shrink: the smallest file about whose last section both still do not agree.
//!
//! Sections before it are dropped, then options one by one, repeatedly; then sizes are halved and
//! rounded. What remains must differ in the same way (different, or refused by the same side).

use std::path::Path;

use super::draw::{Opt, Section};
use super::{Verdict, judged};

/// Verdicts that one search may use; each takes fio 0.1 s.
const TRIES: u32 = 70;

/// A smaller file with the same kind of verdict, and that verdict.
pub(crate) fn smallest(
    file: Vec<Section>,
    verdict: &Verdict,
    folder: &Path,
) -> (Verdict, Vec<Section>) {
    let (mut best, mut found, mut left) = (file, verdict.clone(), TRIES);
    loop {
        let smaller = candidates(&best).into_iter().find_map(|candidate| {
            left = left.checked_sub(1)?;
            let told = judged(&candidate, folder);
            (told.kind() == verdict.kind()).then_some((candidate, told))
        });
        match smaller {
            Some((candidate, told)) => (best, found) = (candidate, told),
            None => return (found, best),
        }
    }
}

/// Files a step smaller, the greatest steps first.
fn candidates(file: &[Section]) -> Vec<Vec<Section>> {
    let mut all = Vec::new();
    for at in 0..file.len() - 1 {
        let mut without = file.to_vec();
        without.remove(at);
        all.push(without);
    }
    for at in 0..file.len() {
        for option in 0..file[at].options.len() {
            if matches!(file[at].options[option].0.as_str(), "ioengine" | "size") {
                continue;
            }
            let mut without = file.to_vec();
            without[at].options.remove(option);
            all.push(without);
        }
    }
    for at in 0..file.len() {
        for option in 0..file[at].options.len() {
            for value in simpler(&file[at].options[option]) {
                let mut with = file.to_vec();
                with[at].options[option].1 = value;
                all.push(with);
            }
        }
    }
    all
}

/// Simpler values of an option.
fn simpler((name, value): &Opt) -> Vec<String> {
    let mut all = Vec::new();
    if let Some((first, _)) = value.split_once(',') {
        all.push(first.to_owned());
    }
    if matches!(name.as_str(), "size" | "io_size" | "filesize")
        && let Some(kilos) = value.strip_suffix('k')
        && let Ok(kilos) = kilos.parse::<u64>()
        && kilos >= 8
    {
        all.push(format!("{}k", kilos / 8 * 4));
    }
    if matches!(name.as_str(), "loops" | "nrfiles" | "numjobs") && value != "2" {
        all.push("2".to_owned());
    }
    all.retain(|other| other != value);
    all
}
