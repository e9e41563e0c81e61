// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results: one convention for the output of commands.
//!
//! ```text
//! --format table       for people, as wide as the terminal      units that suit (units.rs)
//!          markdown    the same tables for a page
//!          html        the same in one file for a browser
//!          csv         a line for each of the smallest things   units in the names of columns
//!          json        one document, however many runs          units in the keys
//!          parquet     the lines of csv as columns               as csv has them
//! ```
//!
//! docs/results.md says what the last two contain. A document has `schema`, the version of its
//! keys, and `kind`, the command that made it.

pub use paternoster_base::csv::field;
use serde_json::{Value, json};

pub use crate::format::{Format, emit};
use crate::interrupt;
#[cfg(feature = "instruments")]
use crate::page;
use crate::sheet::Sheet;
use crate::table::{terminal_width, wrapped};

/// The version of the keys: raised when one is removed or changes its meaning.
pub const SCHEMA: u32 = 1;

/// The results of a command, before a format is chosen.
#[derive(Debug, Default)]
pub struct Results {
    /// What ran on what.
    pub title: String,
    /// The same for the top of a page, if it differs.
    pub subject: Option<String>,
    /// The outcome, in sentences, for the top of a page.
    pub headline: Vec<String>,
    /// Tables, each with its heading.
    pub sheets: Vec<(String, Sheet)>,
    /// Sentences below them.
    pub notes: Vec<String>,
    /// Why requests waited, if requested; a page shows it differently.
    pub explained: Vec<String>,
    /// A line for each of the smallest things, below a line of names.
    pub csv: String,
    /// Everything, with `schema` and `kind`.
    pub document: Value,
}

impl Results {
    /// The results as text in this format.
    pub fn told(&self, format: Format) -> String {
        let stopped = interrupt::note();
        let own = || self.notes.iter().chain(&self.explained);
        let notes = || stopped.iter().chain(own()).map(String::as_str);
        match format {
            Format::Json => format!("{:#}\n", self.document),
            // As columns it is made of these lines (`format::emit`).
            Format::Csv | Format::Parquet => self.csv.clone(),
            Format::Table => {
                let width = terminal_width();
                let sheets = self.sheets.iter().map(|(_, sheet)| sheet.text_within(width));
                let notes = notes().map(|note| format!("{note}\n"));
                let parts: Vec<String> = sheets.chain(notes).collect();
                // A pipe has no width: there each line stays as it is.
                let title: String = match width {
                    Some(_) => self.title.lines().map(wrapped).collect(),
                    None => format!("{}\n", self.title),
                };
                format!("{title}\n{}", parts.join("\n"))
            }
            Format::Markdown => {
                let several = self.sheets.len() > 1;
                let sheets = self.sheets.iter().map(|(heading, sheet)| match several {
                    true => format!("## {}\n\n{}", one_line(heading), sheet.markdown()),
                    false => sheet.markdown(),
                });
                let notes = notes().map(|note| format!("{note}\n"));
                let parts: Vec<String> = sheets.chain(notes).collect();
                format!("# {}\n\n{}", one_line(&self.title), parts.join("\n"))
            }
            #[cfg(feature = "instruments")]
            Format::Html => page::render(self, &[]),
            // The parser has refused it.
            #[cfg(not(feature = "instruments"))]
            Format::Html => String::new(),
        }
    }
}

/// A heading that a terminal has in several lines.
pub fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<&str>>().join("; ")
}

/// A list of what can be chosen: names, each with a description.
#[derive(Debug)]
pub struct Listed<const N: usize> {
    /// What is listed, for the document.
    pub kind: &'static str,
    /// The names of the columns.
    pub heads: [&'static str; N],
    /// What is listed, a cell for each column.
    pub rows: Vec<[Value; N]>,
}

impl<const N: usize> Listed<N> {
    /// The list as results.
    pub fn results(&self) -> Results {
        let mut sheet = Sheet::new(N, self.heads.map(|head| head.replace('_', " ")));
        let mut csv = self.heads.join(",") + "\n";
        let mut all = Vec::new();
        for row in &self.rows {
            let cells =
                row.each_ref().map(|cell| cell.as_str().map_or(cell.to_string(), Into::into));
            csv += &(cells.each_ref().map(|cell| field(cell)).join(",") + "\n");
            sheet.row(cells.to_vec());
            let keys = self.heads.iter().map(|head| (*head).to_owned());
            all.push(keys.zip(row.iter().cloned()).collect::<Value>());
        }
        Results {
            title: self.kind.to_owned(),
            sheets: vec![(self.kind.to_owned(), sheet)],
            csv,
            document: document(self.kind, json!({ self.kind: all })),
            ..Results::default()
        }
    }
}

/// A document of this kind.
pub fn document(kind: &str, mut found: Value) -> Value {
    found["schema"] = json!(SCHEMA);
    found["kind"] = json!(kind);
    found["version"] = json!(env!("CARGO_PKG_VERSION"));
    if interrupt::heard() {
        found["interrupted"] = json!(true);
    }
    found
}

/// A letter for each run that sent its device the same commands at the same times as another, by
/// digests: their figures are equal, and that is not an error.
pub fn alike<K: PartialEq>(keys: &[K]) -> Vec<Option<char>> {
    let mut letters = ('a'..='z').cycle();
    let mut told: Vec<Option<char>> = vec![None; keys.len()];
    for place in 0..keys.len() {
        if told[place].is_some() {
            continue;
        }
        let same: Vec<usize> =
            (place..keys.len()).filter(|&other| keys[other] == keys[place]).collect();
        if same.len() > 1 {
            let letter = letters.next();
            same.into_iter().for_each(|place| told[place] = letter);
        }
    }
    told
}

/// The same in sentences, one for each letter.
pub fn identical(letters: &[Option<char>], names: &[&str]) -> Vec<String> {
    let mut told = Vec::new();
    for letter in 'a'..='z' {
        let own = letters.iter().zip(names).filter(|(of, _)| **of == Some(letter));
        let own: Vec<&str> = own.map(|(_, name)| *name).collect();
        if let [most @ .., last] = &own[..] {
            let most = most.join(", ");
            told.push(format!(
                "The device got the same commands at the same times from {most} and {last}."
            ));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are identical runs named, each once, and no others?
    #[test]
    fn runs_that_did_the_same_are_named() {
        let letters = alike(&[1, 2, 1, 3, 1]);
        assert_eq!(letters, [Some('a'), None, Some('a'), None, Some('a')]);
        let told = identical(&letters, &["noop", "bfq", "kyber", "cfq", "none"]);
        let expected =
            "The device got the same commands at the same times from noop, kyber and none.";
        assert_eq!(told, [expected]);
        assert!(identical(&alike(&[1, 2]), &["noop", "bfq"]).is_empty());
    }
}
