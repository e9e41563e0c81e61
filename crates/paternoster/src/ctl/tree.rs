// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees: lines that name their parents, in the order and with the indent of a tree.
//!
//! ```text
//! gold (no parent), silver (no parent), db of gold   ──▶   gold, ··db, silver
//! ```
//!
//! Whatever a server says, every line comes once: lines of unknown parents are roots, lines that
//! would be their own ancestors come last.

use std::collections::HashMap;

/// A line and its depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of the line.
    pub(crate) line: usize,
    /// 0 for a root.
    pub(crate) depth: usize,
}

/// Lines, each with its name, its parent's name, and whether it can be a parent.
pub(crate) fn tree(lines: &[(&str, &str, bool)]) -> Vec<Place> {
    let groups: HashMap<&str, usize> = (lines.iter().enumerate())
        .filter_map(|(line, (name, _, group))| group.then_some((*name, line)))
        .collect();
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (line, (_, parent, _)) in lines.iter().enumerate() {
        children.entry(groups.get(parent).copied()).or_default().push(line);
    }
    let mut places = Vec::with_capacity(lines.len());
    let mut placed = vec![false; lines.len()];
    let roots = children.get(&None).into_iter().flatten();
    let mut next: Vec<Place> = roots.rev().map(|line| Place { line: *line, depth: 0 }).collect();
    while let Some(place) = next.pop() {
        placed[place.line] = true;
        places.push(place);
        let below = children.get(&Some(place.line)).into_iter().flatten().rev();
        next.extend(below.map(|line| Place { line: *line, depth: place.depth + 1 }));
    }
    let left = (0..lines.len()).filter(|line| !placed[*line]);
    places.extend(left.map(|line| Place { line, depth: 0 }));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do children follow their parents, and does every line come once whatever the server says?
    #[test]
    fn order_and_depth() {
        let places = |lines: &[(&str, &str, bool)]| -> Vec<(usize, usize)> {
            tree(lines).iter().map(|place| (place.line, place.depth)).collect()
        };
        let lines = [
            ("gold", "", true),
            ("silver", "", true),
            ("db", "gold", false),
            ("web", "silver", false),
            ("more", "gold", true),
            ("vm", "more", false),
            ("lost", "nowhere", false),
        ];
        let expected = [(0, 0), (2, 1), (4, 1), (5, 2), (1, 0), (3, 1), (6, 0)];
        assert_eq!(places(&lines), expected);
        let circle = [("a", "b", true), ("b", "a", true), ("a", "", false)];
        assert_eq!(places(&circle), [(2, 0), (0, 0), (1, 0)]);
    }
}
