// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hover: the values of a picture at each of its places, for a page that shows them under the
//! pointer.
//!
//! ```text
//! cells      |   0   |   1   |   2   |      columns of the picture, in tenths of a pixel
//! when       "0 to 1 s" …
//! panel      name, from where to where it reaches
//!   series   label, colour, "12.3 MB/s" for each cell, or nothing
//! ```
//!
//! Values are words already, so that the page neither computes nor rounds.

use serde::Serialize;

use super::frame::{LEFT, PANEL_WIDTH, Panel};
use super::svg::{Px, px};

/// The values of a picture at its places.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Hover {
    /// Beginning and end of each column, in tenths of a pixel of the picture.
    pub cells: Vec<(i64, i64)>,
    /// The meaning of each column.
    pub when: Vec<String>,
    /// The panels, one below the other.
    pub panels: Vec<HoverPanel>,
}

/// A panel of a picture.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HoverPanel {
    /// What the panel shows; empty if there is only one panel.
    pub name: String,
    /// Where it begins, in tenths of a pixel.
    pub top: i64,
    /// Where it ends.
    pub bottom: i64,
    /// Its lines, or clouds of dots.
    pub series: Vec<HoverSeries>,
}

/// A series of a panel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HoverSeries {
    /// Its name.
    pub label: String,
    /// Its colour, as `#rrggbb`.
    pub colour: &'static str,
    /// The series' value in each column; empty where it has none.
    pub values: Vec<String>,
}

impl HoverPanel {
    /// The values of a panel of this name.
    pub(super) const fn new(name: String, panel: &Panel, series: Vec<HoverSeries>) -> HoverPanel {
        let (top, bottom) = (panel.top.0, panel.top.0 + panel.height.0);
        HoverPanel { name, top, bottom, series }
    }
}

/// This many columns of equal width across a panel.
pub(super) fn columns(count: i64) -> Vec<(i64, i64)> {
    let edge = |nth: i64| px(LEFT).0 + PANEL_WIDTH.0 * nth / count.max(1);
    (0..count).map(|nth| (edge(nth), edge(nth + 1))).collect()
}

/// Which of these columns a place is in.
pub(super) fn column(x: Px, count: i64) -> usize {
    let nth = (x.0 - px(LEFT).0) * count / PANEL_WIDTH.0.max(1);
    usize::try_from(nth.clamp(0, (count - 1).max(0))).unwrap_or(0)
}
