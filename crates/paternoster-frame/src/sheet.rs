// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sheet: a table before it is known whether it is for a terminal, a page or a document.
//!
//! ```text
//!         noop   bfq   kyber  ─▶ a terminal too narrow for all       noop   bfq
//! IOPS     129   27k      88                                  IOPS   129   27k
//!                                                                    kyber
//!                                                             IOPS      88
//! ```

use std::borrow::Cow;

use comfy_table::{CellAlignment, ContentArrangement};
#[cfg(feature = "instruments")]
use paternoster_trace::html;

use crate::table::{align_right, plain_table, trimmed, wrap_last};
#[cfg(feature = "instruments")]
use crate::units;

/// Blanks around the contents of a cell.
const AROUND: usize = 2;
/// A column of text is not wrapped to fewer.
const LEAST: usize = 20;

/// Heads and rows; the first `words` columns are words, the others figures.
#[derive(Debug, Clone)]
pub struct Sheet {
    heads: Vec<Cow<'static, str>>,
    words: usize,
    rows: Vec<Vec<String>>,
    /// A row that begins with nothing belongs to the one above.
    blocks: bool,
    /// From this column on there are words again.
    words_again: usize,
}

impl Sheet {
    /// An empty one with these heads, of which the first `words` are of words.
    pub fn new<H: Into<Cow<'static, str>>>(
        words: usize,
        heads: impl IntoIterator<Item = H>,
    ) -> Sheet {
        let heads = heads.into_iter().map(Into::into).collect();
        Sheet { heads, words, rows: Vec::new(), blocks: false, words_again: usize::MAX }
    }

    /// A row that begins with an empty cell belongs to the one above; where rows can be sorted each
    /// repeats the name.
    pub fn in_blocks(self) -> Sheet {
        Sheet { blocks: true, ..self }
    }

    /// From this column on there are words again, aligned left.
    pub fn words_again_from(self, column: usize) -> Sheet {
        Sheet { words_again: column, ..self }
    }

    fn is_words(&self, column: usize) -> bool {
        column < self.words || column >= self.words_again
    }

    /// Adds a row with a cell for each head.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For a terminal: every row on one line, however wide.
    pub fn text(&self) -> String {
        let mut table = plain_table();
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.heads);
        align_right(&mut table, self.words);
        for column in self.words_again.min(self.heads.len())..self.heads.len() {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Left);
            }
        }
        for row in &self.rows {
            table.add_row(row);
        }
        trimmed(&table)
    }

    /// For a terminal of this many columns: figures without room go below the others.
    pub fn text_within(&self, width: Option<usize>) -> String {
        let Some(width) = width else { return self.text() };
        if self.words >= self.heads.len() {
            return self.words_within(width);
        }
        let own = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heads[column].chars().count()]).max().unwrap_or(0) + AROUND
        };
        let words: usize = (0..self.words).map(own).sum();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut left = 0;
        for column in self.words..self.heads.len() {
            let needed = own(column);
            match parts.last_mut() {
                Some(part) if needed <= left => {
                    part.push(column);
                    left -= needed;
                }
                _ => {
                    parts.push(vec![column]);
                    left = width.saturating_sub(words + needed);
                }
            }
        }
        let texts: Vec<String> = parts.iter().map(|part| self.of(part).text()).collect();
        if texts.is_empty() { self.text() } else { texts.join("\n") }
    }

    /// Words alone: the last column is wrapped, if there is room for it.
    fn words_within(&self, width: usize) -> String {
        let own = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.heads[column].chars().count()]).max().unwrap_or(0) + AROUND
        };
        let others: usize = (0..self.heads.len().saturating_sub(1)).map(own).sum();
        if width < others + LEAST {
            return self.text();
        }
        let mut table = plain_table();
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        table.set_header(&self.heads);
        for row in &self.rows {
            table.add_row(row);
        }
        wrap_last(&mut table, self.heads.len(), u16::MAX);
        trimmed(&table)
    }

    /// The words and these figures.
    fn of(&self, figures: &[usize]) -> Sheet {
        let columns = || (0..self.words).chain(figures.iter().copied());
        Sheet {
            heads: columns().map(|column| self.heads[column].clone()).collect(),
            words: self.words,
            rows: self
                .rows
                .iter()
                .map(|row| columns().map(|column| row[column].clone()).collect())
                .collect(),
            blocks: self.blocks,
            words_again: usize::MAX,
        }
    }

    /// The sheet in Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escaped = |cell: &str| cell.replace('|', "\\|");
        let rule = |column: usize| if self.is_words(column) { "---" } else { "---:" };
        let mut text = line(self.heads.iter().map(|head| escaped(head)).collect());
        text += &line((0..self.heads.len()).map(|column| rule(column).to_owned()).collect());
        for row in &self.rows {
            text += &line(row.iter().map(|cell| escaped(cell)).collect());
        }
        text
    }

    #[cfg(feature = "instruments")]
    /// For a browser: figures are sorted as such.
    pub fn html(&self) -> html::Table {
        let cell = |(column, text): (usize, &String)| match units::value(text) {
            _ if self.is_words(column) => html::Cell::from(text.clone()),
            value => html::Cell::shown(value.unwrap_or(f64::NAN), text),
        };
        // A heading that can be sorted by has a name.
        let head = |(column, head): (usize, &Cow<'static, str>)| match (head.as_ref(), column) {
            ("", 0) => "whose".to_owned(),
            ("", _) => "figure".to_owned(),
            (head, _) => head.to_owned(),
        };
        let mut table = html::Table::new(self.heads.iter().enumerate().map(head));
        let mut of = String::new();
        for row in &self.rows {
            let mut row = row.clone();
            match row.first_mut() {
                Some(first) if self.blocks && first.is_empty() => first.clone_from(&of),
                Some(first) => of.clone_from(first),
                None => {}
            }
            table = table.row(row.iter().enumerate().map(cell));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a narrow terminal show all figures, below one another, and a wide one a single table?
    #[test]
    fn figures_go_below_each_other() {
        let mut sheet = Sheet::new(1, ["job", "noop", "kyber", "bfq"]);
        sheet.row(["reader", "1", "2", "30"].map(str::to_owned).to_vec());
        // 6 letters of words; 4, 5 and 3 of figures; 2 blanks each: 26 in all, 21 without bfq.
        assert_eq!(sheet.text_within(Some(26)), sheet.text());
        let narrow = sheet.text_within(Some(25));
        let lines: Vec<Vec<&str>> =
            narrow.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected: [&[&str]; 5] = [
            &["job", "noop", "kyber"],
            &["reader", "1", "2"],
            &[],
            &["job", "bfq"],
            &["reader", "30"],
        ];
        assert_eq!(lines, expected);
        assert!(narrow.lines().all(|line| line.len() <= 25), "{narrow}");
        // A column wider than the terminal has a table to itself.
        assert_eq!(sheet.text_within(Some(5)).lines().count(), 8);
    }

    /// Is a column of sentences wrapped to the terminal, with every word in its place, and left
    /// alone where there is no room for it? 8 letters and 2 blanks come before it.
    #[test]
    fn sentences_are_wrapped() {
        let mut sheet = Sheet::new(2, ["device", "what it is"]);
        let about = "a disk of 7200 revolutions a minute that queues commands";
        sheet.row(["hdd-7200", about].map(str::to_owned).to_vec());
        let narrow = sheet.text_within(Some(40));
        assert!(narrow.lines().count() > 2, "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        let words: Vec<&str> = narrow.split_whitespace().skip(5).collect();
        assert_eq!(words.join(" "), about);
        assert_eq!(sheet.text_within(Some(25)), sheet.text());
    }

    /// Is Markdown a table with figures aligned right, where a bar in a cell starts no new cell?
    #[test]
    fn markdown_has_a_rule() {
        let mut sheet = Sheet::new(1, ["job", "IOPS"]);
        sheet.row(vec!["a|b".to_owned(), "1".to_owned()]);
        assert_eq!(sheet.markdown(), "| job | IOPS |\n| --- | ---: |\n| a\\|b | 1 |\n");
    }
}
