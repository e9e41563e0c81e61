// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables: without lines, figures aligned by their last digit, no blanks at the ends.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Long texts are wrapped at this width.
const WIDTH: u16 = 100;

pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH);
    table
}

/// Figures line up by their last digit, from this column on.
pub(crate) fn align_right(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The table as text, without the blanks that fill the last column.
pub(crate) fn trimmed(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
