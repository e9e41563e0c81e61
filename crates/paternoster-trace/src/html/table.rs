// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table: heads and rows of cells, texts to the left and numbers to the right.
//!
//! A number is shown as given and sorted by its value, so that `1.2 s` comes after `900 ms`. A
//! missing number (no request, no mean) is a dash and comes last, however the rest is sorted.

use std::fmt::Write as _;

use super::escape::text;

/// The contents of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number.
    Number {
        /// The text that is shown.
        shown: String,
        /// The value that the column is sorted by.
        value: f64,
    },
}

impl Cell {
    /// A number with this many decimals.
    #[must_use]
    pub fn number(value: f64, decimals: usize) -> Cell {
        Cell::Number { shown: format!("{value:.decimals$}"), value }
    }

    /// A number with another display form, such as a time with its unit.
    #[must_use]
    pub fn shown(value: f64, shown: impl Into<String>) -> Cell {
        Cell::Number { shown: shown.into(), value }
    }
}

impl From<&str> for Cell {
    fn from(words: &str) -> Cell {
        Cell::Text(words.to_owned())
    }
}

impl From<String> for Cell {
    fn from(words: String) -> Cell {
        Cell::Text(words)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        #[expect(
            clippy::cast_precision_loss,
            reason = "it is sorted by; 2^53 and 2^53 + 1 may tie"
        )]
        Cell::Number { shown: count.to_string(), value: count as f64 }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// One with these heads and no rows.
    #[must_use]
    pub fn new<H: Into<String>>(heads: impl IntoIterator<Item = H>) -> Table {
        Table { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// With one more row. Missing cells are empty; extra ones have no head.
    #[must_use]
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Table {
        self.rows.push(cells.into_iter().collect());
        self
    }

    /// Adds the table to a page.
    pub(super) fn render(&self, html: &mut String) {
        let widest = self.rows.iter().map(Vec::len).max().unwrap_or(0).max(self.heads.len());
        html.push_str("<div class=\"table\"><table>\n<thead><tr>");
        for column in 0..widest {
            let head = self.heads.get(column).map_or("", String::as_str);
            let class = if self.is_number(column) { " class=\"number\"" } else { "" };
            let head = text(head);
            let _infallible = write!(
                html,
                "<th scope=\"col\"{class}><button type=\"button\">{head}</button></th>"
            );
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            row.iter().for_each(|cell| render(cell, html));
            (row.len()..widest).for_each(|_| html.push_str("<td></td>"));
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table></div>\n");
    }

    /// Whether a column has numbers, all in all.
    fn is_number(&self, column: usize) -> bool {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let mut cells = cells.peekable();
        cells.peek().is_some() && cells.all(|cell| matches!(cell, Cell::Number { .. }))
    }
}

fn render(cell: &Cell, html: &mut String) {
    let _infallible = match cell {
        Cell::Text(words) => write!(html, "<td>{}</td>", text(words)),
        Cell::Number { value, .. } if !value.is_finite() => {
            write!(html, "<td class=\"number\" data-value=\"\">–</td>")
        }
        Cell::Number { shown, value } => {
            write!(html, "<td class=\"number\" data-value=\"{value}\">{}</td>", text(shown))
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are numbers to the right with what they are sorted by, names escaped, short rows filled?
    #[test]
    fn a_table_by_hand() {
        let table = Table::new(["process", "requests", "mean"])
            .row([Cell::from("<b>"), Cell::from(3_u64), Cell::shown(1.2e9, "1.2 s")])
            .row([Cell::from("idle"), Cell::from(0_u64), Cell::number(f64::NAN, 2)])
            .row([Cell::from("x")]);
        let mut html = String::new();
        table.render(&mut html);
        let rows: Vec<&str> = html.lines().filter(|line| line.starts_with("<tr>")).collect();
        assert_eq!(
            rows,
            [
                "<tr><td>&lt;b&gt;</td><td class=\"number\" data-value=\"3\">3</td>\
                 <td class=\"number\" data-value=\"1200000000\">1.2 s</td></tr>",
                "<tr><td>idle</td><td class=\"number\" data-value=\"0\">0</td>\
                 <td class=\"number\" data-value=\"\">–</td></tr>",
                "<tr><td>x</td><td></td><td></td></tr>",
            ]
        );
        assert_eq!(html.matches("<th scope=\"col\" class=\"number\">").count(), 2);
    }
}
