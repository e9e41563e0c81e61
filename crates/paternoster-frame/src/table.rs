// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables: without lines, figures aligned by their last digit, no blanks at the ends.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Long texts are wrapped at this width; sentences where a narrower terminal ends.
const WIDTH: u16 = 100;
/// In a terminal that is narrower than this the terminal itself wraps.
const LEAST: u16 = 40;

/// How wide sentences and tables of words are.
fn text_width() -> u16 {
    let own = terminal_width().and_then(|width| u16::try_from(width).ok());
    own.map_or(WIDTH, |width| width.clamp(LEAST, WIDTH))
}

/// A table without lines, as wide as texts are.
pub fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(text_width());
    table
}

/// Columns of the terminal that standard output is, or those in COLUMNS.
pub fn terminal_width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let own = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
    };
    said.or_else(own)
}

/// Names and values stay whole: only the last of `columns` is wrapped, and the one before it if it
/// is wider than `most`.
pub fn wrap_last(table: &mut Table, columns: usize, most: u16) {
    for (place, column) in table.column_iter_mut().enumerate() {
        match columns - 1 - place.min(columns - 1) {
            0 => {}
            1 => drop(column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(most)))),
            _ => drop(column.set_constraint(ColumnConstraint::ContentWidth)),
        }
    }
}

/// Figures line up by their last digit, from this column on.
pub fn align_right(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The text in lines of whole words.
pub fn wrapped(text: &str) -> String {
    wrapped_at(text, text_width())
}

fn wrapped_at(text: &str, most: u16) -> String {
    let (mut lines, mut columns) = (String::new(), 0);
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > usize::from(most) {
            lines.push('\n');
            columns = 0;
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += width;
    }
    lines + "\n"
}

/// The table as text, without the blanks that fill the last column.
pub fn trimmed(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do lines end between words, and no wider than they may be?
    #[test]
    fn words_stay_whole() {
        let text = wrapped_at(&"four ".repeat(50), 100);
        let lines: Vec<&str> = text.lines().collect();
        // Twenty words and nineteen blanks are 99 columns.
        assert_eq!(lines[0], "four ".repeat(20).trim_end());
        assert_eq!(lines.len(), 3);
        assert_eq!(wrapped_at("one", 100), "one\n");
        // A word without room is a line of its own.
        assert_eq!(wrapped_at("a longer one", 3), "a\nlonger\none\n");
    }
}
