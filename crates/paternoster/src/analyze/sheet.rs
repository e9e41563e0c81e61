// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sheet: a table before it is known whether it is for a terminal or a browser.

use comfy_table::ContentArrangement;
use paternoster_trace::html;

use crate::table::{align_right, plain_table, trimmed};

/// Heads and rows; the first `words` columns are words, the others figures.
#[derive(Debug, Clone)]
pub(super) struct Sheet {
    heads: Vec<&'static str>,
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub(super) fn new<const N: usize>(words: usize, heads: [&'static str; N]) -> Sheet {
        Sheet { heads: heads.to_vec(), words, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For a terminal: every row on one line, however wide.
    pub(super) fn text(&self) -> String {
        let mut table = plain_table();
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.heads);
        align_right(&mut table, self.words);
        for row in &self.rows {
            table.add_row(row);
        }
        trimmed(&table)
    }

    /// For a browser: figures are sorted as such.
    pub(super) fn html(&self) -> html::Table {
        let cell = |(column, text): (usize, &String)| match text.parse::<f64>() {
            Ok(value) if column >= self.words => html::Cell::shown(value, text),
            _ if column >= self.words => html::Cell::shown(f64::NAN, text),
            _ => html::Cell::from(text.clone()),
        };
        let empty = html::Table::new(self.heads.iter().copied());
        self.rows.iter().fold(empty, |table, row| table.row(row.iter().enumerate().map(cell)))
    }
}
