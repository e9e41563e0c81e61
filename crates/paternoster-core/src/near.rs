// SPDX-License-Identifier: MIT OR Apache-2.0
//! Near: the known word that was probably meant; used for devices and schedulers, fio's options,
//! the server's configuration and the command line.
//!
//! The distance counts letters inserted, removed, replaced or swapped with the next one;
//! `shceduler` is 1 from `scheduler`. A word is near within a third of its letters. If none is, the
//! first that begins with the given word counts: `flash` means `flash-card-2010`.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{borrow::ToOwned, format, vec};

/// Longer words are no typing errors, and would take time to compare.
const LETTERS_MAX: usize = 64;
/// Too many words begin with fewer letters.
const BEGINNING_MIN: usize = 3;
/// At most this many names are listed.
const NAMES_SHOWN: usize = 24;

/// The known word nearest to `word`, if one is near.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LETTERS_MAX {
        return None;
    }
    let word = plain(word);
    let mut begun = None;
    let mut best: Option<(usize, &str)> = None;
    for other in known {
        let name = plain(other);
        let begins = word.len() >= BEGINNING_MIN && name.starts_with(&word);
        begun = begun.or(begins.then_some(other));
        let distance = distance(&word, &name);
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, other));
        }
    }
    let near = best.filter(|(distance, other)| distance * 3 <= other.chars().count().max(3));
    near.map(|(_, other)| other).or(begun)
}

/// Letters in the form to compare: neither case nor the kind of dash counts.
fn plain(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

/// The hint to print after an unknown word: `; did you mean `x`? Known are x, y`.
#[must_use]
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let near = nearest(word, known.clone());
    let mut names: Vec<&str> = known.into_iter().take(NAMES_SHOWN + 1).collect();
    if names.len() > NAMES_SHOWN {
        names[NAMES_SHOWN] = "…";
    }
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    match near {
        Some(near) => format!("; did you mean `{near}`? Known are {names}"),
        None => format!("; known are {names}"),
    }
}

/// Edits between two words, row by row in the usual table (optimal string alignment).
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, opposite) in other.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != opposite);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && one[i - 1] == *opposite && other[j - 1] == *letter {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = core::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are typing errors recognised, and other words left alone?
    #[test]
    fn slips_are_recognised() {
        let known = ["scheduler", "depth", "memory", "delay-bound", "uid"];
        assert_eq!(nearest("shceduler", known), Some("scheduler"));
        assert_eq!(nearest("delay_bound", known), Some("delay-bound"));
        assert_eq!(nearest("Depht", known), Some("depth"));
        assert_eq!(nearest("uit", known), Some("uid"));
        assert_eq!(nearest("del", known), Some("delay-bound"));
        assert_eq!(nearest("iodepth_batc", ["iodepth_batch"]), Some("iodepth_batch"));
        assert_eq!(nearest("banana", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(1000), known), None);
        assert_eq!(hint("uit", ["uid", "x"]), "; did you mean `uid`? Known are uid, x");
        assert_eq!(hint("banana", ["uid"]), "; known are uid");
        assert_eq!(hint("banana", []), "; known are none");
    }
}
