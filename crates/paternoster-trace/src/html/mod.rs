// SPDX-License-Identifier: MIT OR Apache-2.0
//! HTML: a report as one file for a browser, with tables and pictures.
//!
//! ```text
//! Report ── title
//!   └ Section ── heading, then in any order: paragraphs, tables, plots, timelines (turns.rs)
//! ```
//!
//! * The file is self-contained: no network, no font or script from elsewhere. A policy in its head
//!   forbids everything except its one style and its one script, by their hashes; a browser refuses
//!   anything else, whatever the name of a process contains.
//! * Values of a plot are shown under the pointer, or with the arrow keys once it has the focus.
//!   They are data ([`crate::plot::Hover`]) in a block that is not a script.
//! * A timeline's requests show what they waited for, after a click or with the arrow keys.
//! * Tables are sorted by a click on a head. Without scripts only these functions are missing.
//! * Dark or light follows the browser's setting; on paper it is light.
//! * Equal reports have equal bytes.
//!
//! ```
//! use paternoster_trace::html::{Cell, Report, Section, Table};
//! use paternoster_trace::{Kind, picture};
//!
//! let table = Table::new(["scheduler", "requests", "mean"])
//!     .row([Cell::from("noop"), Cell::from(100_u64), Cell::shown(1.2e6, "1.2 ms")]);
//! let plot = picture(Kind::Latency, "a disk", &[]);
//! let section = Section::new("Latencies").paragraph("In the device.").table(table).plot(plot);
//! let page = Report::new("A comparison").section(section).render();
//! assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>A comparison</h1>"));
//! ```
//!
//! With `#self-test` after its address the page hovers over each of its plots, sorts each of its
//! tables, and puts what it found into an attribute, which `tests/pictures/browser.rs` reads.

mod escape;
mod table;
mod turns;

use std::fmt::Write as _;

pub use table::{Cell, Table};
pub use turns::{Timeline, had, name, parts, what};

use self::escape::{json, text};
use crate::plot::{Hover, Picture};

/// The style of every report.
const STYLE: &str = include_str!("page.css");
/// The script of every report.
const SCRIPT: &str = concat!(include_str!("page.js"), include_str!("turns.js"));
/// SHA-256 of these two, in base 64: the test `hashes_are_those_of_the_files` prints the right ones
/// after a change.
const STYLE_HASH: &str = "Ddn9wsvzAuqtqj17AY1wpauZX/lfZB/FrobHFMptvIo=";
const SCRIPT_HASH: &str = "7Ux6X2xRTg3h62DjktCX59jGarSt2m4rxM8EmAx9slI=";
/// From this many sections on there is a list of them at the top.
const SECTIONS_LISTED: usize = 3;

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    heading: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Paragraph(String),
    Table(Table),
    Plot(Picture),
    Turns(Timeline),
}

impl Section {
    /// An empty section with this heading.
    #[must_use]
    pub fn new(heading: impl Into<String>) -> Section {
        Section { heading: heading.into(), parts: Vec::new() }
    }

    /// Adds a paragraph of plain text.
    #[must_use]
    pub fn paragraph(mut self, text: impl Into<String>) -> Section {
        self.parts.push(Part::Paragraph(text.into()));
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Section {
        self.parts.push(Part::Table(table));
        self
    }

    /// Adds a timeline of requests.
    #[must_use]
    pub fn turns(mut self, timeline: Timeline) -> Section {
        self.parts.push(Part::Turns(timeline));
        self
    }

    /// With a picture, whose values are shown under the pointer.
    #[must_use]
    pub fn plot(mut self, picture: Picture) -> Section {
        self.parts.push(Part::Plot(picture));
        self
    }
}

/// A report in the making.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    title: String,
    sections: Vec<Section>,
}

impl Report {
    /// An empty report with this title.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), sections: Vec::new() }
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Report {
        self.sections.push(section);
        self
    }

    /// The document.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = Page::default();
        page.head(&self.title);
        page.contents(&self.sections);
        for (nth, section) in self.sections.iter().enumerate() {
            page.section(nth, section);
        }
        page.finish()
    }
}

/// A document in the making.
#[derive(Debug, Default)]
struct Page {
    html: String,
    /// The values shown for each plot, in order.
    hovers: Vec<Hover>,
    /// Timelines, in their order.
    turns: Vec<turns::Data>,
}

impl Page {
    fn add(&mut self, what: std::fmt::Arguments<'_>) {
        let _infallible = self.html.write_fmt(what);
    }

    fn head(&mut self, title: &str) {
        let title = text(title);
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; \
             script-src 'sha256-{SCRIPT_HASH}'; base-uri 'none'; form-action 'none'"
        );
        self.add(format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n"
        ));
    }

    fn contents(&mut self, sections: &[Section]) {
        if sections.len() < SECTIONS_LISTED {
            return;
        }
        self.html.push_str("<nav aria-label=\"Sections\"><ul>\n");
        for (nth, section) in sections.iter().enumerate() {
            self.add(format_args!(
                "<li><a href=\"#section-{nth}\">{}</a></li>\n",
                text(&section.heading)
            ));
        }
        self.html.push_str("</ul></nav>\n");
    }

    fn section(&mut self, nth: usize, section: &Section) {
        let heading = text(&section.heading);
        self.add(format_args!("<section id=\"section-{nth}\">\n<h2>{heading}</h2>\n"));
        for part in &section.parts {
            match part {
                Part::Paragraph(words) => self.add(format_args!("<p>{}</p>\n", text(words))),
                Part::Table(table) => table.render(&mut self.html),
                Part::Plot(picture) => self.plot(picture),
                Part::Turns(timeline) => self.timeline(timeline),
            }
        }
        self.html.push_str("</section>\n");
    }

    fn plot(&mut self, picture: &Picture) {
        let nth = self.hovers.len();
        let title = text(&picture.title);
        self.add(format_args!("<figure data-plot=\"{nth}\">\n{}", with_ids(&picture.svg, nth)));
        self.add(format_args!(
            "<div class=\"glass\" tabindex=\"0\" role=\"application\" \
             aria-label=\"{title}: values by arrow keys\"></div>\n</figure>\n"
        ));
        self.hovers.push(picture.hover.clone());
    }

    fn timeline(&mut self, timeline: &Timeline) {
        let (nth, label) = (self.turns.len(), text(&timeline.label));
        let keys = format!("{label}: requests by arrow keys; plus and minus");
        self.add(format_args!(
            "<div class=\"turns\" data-turns=\"{nth}\">\n<h3>{label}</h3>\n\
             <p class=\"tools\"><button type=\"button\" data-zoom=\"2\">Closer</button> \
             <button type=\"button\" data-zoom=\"0.5\">Farther</button></p>\n"
        ));
        self.add(format_args!(
            "<div class=\"lanes\" tabindex=\"0\" role=\"application\" aria-label=\"{keys}\">\
             <div class=\"wide\"><canvas></canvas></div></div>\n\
             <div class=\"why\" role=\"status\"></div>\n</div>\n"
        ));
        self.turns.push(timeline.data());
    }

    fn finish(mut self) -> String {
        if !self.turns.is_empty() {
            let data = json(&self.turns);
            let kind = "application/json";
            self.add(format_args!("<script type=\"{kind}\" id=\"turns\">{data}</script>\n"));
        }
        let data = json(&self.hovers);
        self.add(format_args!(
            "</main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script>{SCRIPT}</script>\n</body>\n</html>\n"
        ));
        self.html
    }
}

/// A picture whose title and description have unique ids on the page. In the texts of a picture a
/// quotation mark is escaped, so the searched text occurs nowhere else.
fn with_ids(svg: &str, nth: usize) -> String {
    svg.replace(" id=\"title\"", &format!(" id=\"title-{nth}\""))
        .replace(" id=\"description\"", &format!(" id=\"description-{nth}\""))
        .replace(
            " aria-labelledby=\"title description\"",
            &format!(" aria-labelledby=\"title-{nth} description-{nth}\""),
        )
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::{Kind, picture};

    /// A hash in a policy's form: base 64, padded to three bytes.
    fn hash(of: &str) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digest = Sha256::digest(of.as_bytes());
        let mut text = String::new();
        for three in digest.chunks(3) {
            let whole = three.iter().fold(0_u32, |all, &byte| all << 8 | u32::from(byte));
            let whole = whole << (8 * (3 - three.len()));
            for nth in 0..4 {
                let place = (whole >> (18 - 6 * nth)) as usize & 63;
                text.push(if nth <= three.len() { char::from(LETTERS[place]) } else { '=' });
            }
        }
        text
    }

    /// Is base 64 what others have? The hash of nothing is well known.
    #[test]
    fn a_known_hash() {
        assert_eq!(hash(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    /// Does the policy allow this style and this script? If not, put these hashes in.
    #[test]
    fn hashes_are_those_of_the_files() {
        assert_eq!(STYLE_HASH, hash(STYLE));
        assert_eq!(SCRIPT_HASH, hash(SCRIPT));
    }

    /// Have several plots of one page titles of their own, which their labels name?
    #[test]
    fn plots_have_names_of_their_own() {
        let picture = || picture(Kind::QueueDepth, "id=\"title\"", &[]);
        let report = Report::new("a").section(Section::new("b").plot(picture()).plot(picture()));
        let page = report.render();
        for nth in 0..2 {
            assert_eq!(page.matches(&format!("id=\"title-{nth}\"")).count(), 1);
            let labels = format!("aria-labelledby=\"title-{nth} description-{nth}\"");
            assert_eq!(page.matches(&labels).count(), 1);
        }
        assert_eq!(page.matches("id=\"title\"").count(), 0);
        assert_eq!(page, report.render());
    }
}
