// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--html FILE`: the report as one page for a browser, with every picture.

use paternoster_trace::html::{Report, Section};
use paternoster_trace::plot::picture;
use paternoster_trace::{Kind, Recorder, Run};

use super::{Analysed, text};

/// Has a recorder keep what all pictures need.
pub(super) fn record(recorder: &mut Recorder) {
    Kind::ALL.into_iter().for_each(|kind| kind.record(recorder));
}

/// The page of these traces; `subject` names them.
pub(super) fn render(subject: &str, all: &[Analysed], runs: &[Run]) -> String {
    let mut pictures = Section::new("Over time");
    for kind in Kind::ALL {
        pictures = pictures.plot(picture(kind, subject, runs));
    }
    let mut report = Report::new(subject).section(pictures);
    for one in all {
        for device in &one.found.devices {
            let mut section = Section::new(format!("{}: device {}", one.name, one.device(device)))
                .paragraph(text::facts(&one.found))
                .table(text::transfer(device).html())
                .table(text::phases(device).html());
            for line in text::use_lines(device) {
                section = section.paragraph(line.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            report = report.section(section.table(text::processes(device).html()));
        }
    }
    report.render()
}
