// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hover: what a picture tells about each of its places, for a page that shows it under the
//! pointer.
//!
//! ```text
//! cells      |   0   |   1   |   2   |      columns of the picture, in tenths of a pixel
//! when       "0 to 1 s" …
//! panel      name, from where to where it reaches
//!   series   label, colour, "12.3 MB/s" for each cell, or nothing
//! ```
//!
//! Values are words already, so that whoever shows them neither computes nor rounds.

use serde::Serialize;

use super::frame::{LEFT, PANEL_WIDTH, Panel};
use super::svg::{Px, px};

/// What a picture tells about its places.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Hover {
    /// Beginning and end of each column, in tenths of a pixel of the picture.
    pub cells: Vec<(i64, i64)>,
    /// What each column stands for.
    pub when: Vec<String>,
    /// What stands one below the other.
    pub panels: Vec<HoverPanel>,
}

/// A panel of a picture.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HoverPanel {
    /// What it shows; empty if there is but one.
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
    /// What it is called.
    pub label: String,
    /// Its colour, as `#rrggbb`.
    pub colour: &'static str,
    /// What it is in each column; empty where it has no value.
    pub values: Vec<String>,
}

impl HoverPanel {
    /// What a panel of this name tells.
    pub(super) const fn new(name: String, panel: &Panel, series: Vec<HoverSeries>) -> HoverPanel {
        let (top, bottom) = (panel.top.0, panel.top.0 + panel.height.0);
        HoverPanel { name, top, bottom, series }
    }
}

/// So many columns of equal width across a panel.
pub(super) fn columns(count: i64) -> Vec<(i64, i64)> {
    let edge = |nth: i64| px(LEFT).0 + PANEL_WIDTH.0 * nth / count.max(1);
    (0..count).map(|nth| (edge(nth), edge(nth + 1))).collect()
}

/// Which of so many columns a place is in.
pub(super) fn column(x: Px, count: i64) -> usize {
    let nth = (x.0 - px(LEFT).0) * count / PANEL_WIDTH.0.max(1);
    usize::try_from(nth.clamp(0, (count - 1).max(0))).unwrap_or(0)
}
