// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words: those that the glossary has retired must not come back.
//!
//! `docs/glossary.md` ends with a table of retired words: the word, its replacement, and the
//! folders in which it is not allowed (between backticks; after a `but` those that are exempt).
//! Identifiers are read by their pieces, so `Errand`, `end_errand` and `ERRANDS_MAX` are the word
//! `errand`; a retired name with an underscore is searched for as it is.

use std::path::Path;

use crate::tidy::{ROOT, files};

/// A row of the table.
struct Retired {
    word: String,
    now: String,
    folders: Vec<String>,
    excepted: Vec<String>,
}

/// The text between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of the glossary's last table.
fn retired(glossary: &str) -> Vec<Retired> {
    let (_, table) = glossary.split_once("\n## Retired words\n").expect("a table of retired words");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [word, now, places] = cells[..] else { panic!("three columns: {line}") };
        let (folders, excepted) = places.split_once(" but ").unwrap_or((places, ""));
        Retired {
            word: quoted(word).concat(),
            now: now.to_owned(),
            folders: quoted(folders),
            excepted: quoted(excepted),
        }
    });
    rows.collect()
}

/// The pieces of which a line's identifiers and words are made, in lower case.
fn pieces(line: &str) -> Vec<String> {
    let (mut all, mut piece, mut was_small) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        if !c.is_ascii_alphabetic() || was_small && c.is_ascii_uppercase() {
            all.push(std::mem::take(&mut piece));
        }
        if c.is_ascii_alphabetic() {
            piece.push(c.to_ascii_lowercase());
        }
        was_small = c.is_ascii_lowercase();
    }
    all.push(piece);
    all.retain(|piece| !piece.is_empty());
    all
}

/// Whether a line has a retired word, alone, in the plural, or within a name.
fn says(line: &str, word: &str) -> bool {
    if word.contains('_') {
        return line.contains(word);
    }
    pieces(line).iter().any(|piece| piece.strip_suffix('s').unwrap_or(piece) == word)
}

/// Is a word found in names of every kind, and not within another word?
#[test]
fn retired_words_are_found_in_names() {
    let found =
        ["errand", "two errands", "EndErrand", "end_errand", "ERRANDS_MAX", "Errand::new()"];
    for line in found {
        assert!(says(line, "errand"), "{line}");
    }
    assert!(!says("upwards and towards", "ward") && says("its ward's", "ward"));
    assert!(says("self.see_off();", "see_off") && !says("to see it off", "see_off"));
}

/// Is every retired word absent where the glossary does not allow it?
#[test]
fn no_retired_word_comes_back() {
    let root = Path::new(ROOT);
    let glossary = std::fs::read_to_string(root.join("docs/glossary.md")).expect("a glossary");
    let retired = retired(&glossary);
    assert!(retired.len() >= 15, "{} retired words were read", retired.len());
    let mut found = Vec::new();
    for (path, text) in files(&["rs", "md", "sh"]) {
        let path = path.strip_prefix(root).expect("within the project").display().to_string();
        let is_in = |places: &[String]| places.iter().any(|place| path.starts_with(place.as_str()));
        for row in retired.iter().filter(|row| is_in(&row.folders) && !is_in(&row.excepted)) {
            if says(&path, &row.word) {
                found.push(format!("{path}: its name says `{}`: {} now", row.word, row.now));
            }
            for (place, line) in text.lines().enumerate().filter(|(_, line)| says(line, &row.word))
            {
                let number = place + 1;
                found.push(format!("{path}:{number}: `{}` is {} now: {line}", row.word, row.now));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
