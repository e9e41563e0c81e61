// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables: figures as in docs/gate.md; missed requirements are bold.

use core::fmt;

/// A door's results, in thousandths; the 99th percentile in hundredths of the one alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) heavy: u64,
    pub(crate) total: u64,
    pub(crate) p99: u64,
}

impl Figures {
    /// Four fifths, within two points.
    pub(crate) fn is_fair(&self) -> bool {
        self.heavy.abs_diff(800) <= 20
    }

    fn is_whole(&self) -> bool {
        self.total >= 970
    }

    fn is_quick(&self) -> bool {
        self.p99 <= 200
    }
}

/// Thousandths in per cent.
pub(crate) fn percent(value: u64) -> u64 {
    (value + 5) / 10
}

/// Hundredths as a factor.
pub(crate) fn times_alone(p99: u64) -> String {
    match p99 {
        0..1000 => format!("{}.{}", p99 / 100, p99 / 10 % 10),
        _ => (p99 / 100).to_string(),
    }
}

fn mark(f: &mut fmt::Formatter<'_>, well: bool, text: &str) -> fmt::Result {
    if well { f.write_str(text) } else { write!(f, "**{text}**") }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        mark(f, self.is_fair(), &percent(self.heavy).to_string())?;
        f.write_str(" / ")?;
        mark(f, self.is_whole(), &percent(self.total).to_string())?;
        f.write_str(" / ")?;
        mark(f, self.is_quick(), &times_alone(self.p99))
    }
}

/// One device or load, under every way of admitting requests.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) figures: [Figures; 7],
}

const DOORS: [&str; 7] = ["none", "1", "4", "32", "buckets", "gate", "gate, places"];

impl Row {
    pub(crate) fn gate(&self) -> Figures {
        self.figures[5]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.name)?;
        self.figures.iter().try_for_each(|figures| write!(f, " {figures} |"))
    }
}

pub(crate) fn head(first: &str) -> String {
    let doors = DOORS.map(|door| format!(" {door} |")).concat();
    format!("| {first} |{doors}\n|---|{}\n", "---|".repeat(DOORS.len()))
}

type Law = fn(&Figures) -> bool;

/// How many rows meet each requirement, by door.
pub(crate) fn counts(rows: &[Row]) -> String {
    let laws: [(&str, Law); 4] = [
        ("shares within 2 points", Figures::is_fair),
        ("total at least 97 %", Figures::is_whole),
        ("99th percentile at most twice that alone", Figures::is_quick),
        ("all three", |own| own.is_fair() && own.is_whole() && own.is_quick()),
    ];
    let mut table = head(&format!("of {} loads", rows.len()));
    for (name, law) in laws {
        table += &format!("| {name} |");
        for door in 0..DOORS.len() {
            let count = rows.iter().filter(|row| law(&row.figures[door])).count();
            table += &format!(" {count} |");
        }
        table += "\n";
    }
    let mut worst = String::from("| worst 99th percentile, times that alone |");
    for door in 0..DOORS.len() {
        let p99 = rows.iter().map(|row| row.figures[door].p99).max().unwrap_or(0);
        worst += &format!(" {} |", p99 / 100);
    }
    table + &worst + "\n"
}
