// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--html FILE`: the report as one page for a browser, with every picture.

use paternoster_trace::analysis::DeviceFigures;
use paternoster_trace::html::{Report, Section};
use paternoster_trace::plot::picture;
use paternoster_trace::{Kind, Recorder, Run};

use super::{Analysed, text};

/// Makes a recorder keep what all pictures need.
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
        let heading = format!("{}: devices", one.name);
        let overview = text::overview(&one.found, &|device| one.device(device));
        let facts = text::facts(&one.found);
        report = report.section(Section::new(heading).paragraph(facts).table(overview.html()));
        for device in &one.found.devices {
            report = report.section(section(one, device));
        }
    }
    report.render()
}

/// Everything about one device.
fn section(one: &Analysed, device: &DeviceFigures) -> Section {
    let mut section = Section::new(format!("{}: device {}", one.name, one.device(device)))
        .table(text::transfer(device).html());
    let phases = text::phases(device);
    if !phases.is_empty() {
        section = section.table(phases.html());
    }
    for line in text::use_lines(device) {
        section = section.paragraph(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if text::tells_processes(device) {
        section = section.table(text::processes(device).html());
    }
    section
}
