// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log of the kernel, counted.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;
use paternoster_trace::ftrace::{Action, BfqMessage, Entry, Reader, Record, What};

use super::figures::Figures;
use crate::common::skipped;

const FOLDER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/kernel-traces/bfq-decisions");

/// What happened between `from` and `to` of the log of this name, counted from its first line;
/// nothing if it does not exist.
pub(crate) fn figures(name: &str, from: Duration, to: Duration) -> Option<Figures> {
    let path = Path::new(FOLDER).join(format!("{name}.log.gz"));
    let Ok(file) = File::open(&path) else {
        skipped(&format!("no log of a real kernel at {}", path.display()));
        return None;
    };
    let mut figures = Figures::default();
    let (mut first, mut turn) = (None, None);
    for entry in Reader::new(BufReader::new(GzDecoder::new(file))) {
        let Entry::Record(record) = entry.expect("a sound log") else { continue };
        let first = *first.get_or_insert(record.at_ns);
        let at = Duration::from_nanos(record.at_ns - first);
        count(&record, at, at >= from && at < to, &mut figures, &mut turn);
    }
    // What the tools read before the jobs began.
    figures.sectors.retain(|_, sectors| *sectors > 200);
    Some(figures)
}

fn count(
    record: &Record,
    at: Duration,
    counts: bool,
    figures: &mut Figures,
    turn: &mut Option<Duration>,
) {
    match &record.what {
        What::Event(event) if event.action == Action::Queue && counts => {
            *figures.sectors.entry(record.pid).or_default() += u64::from(event.sectors);
        }
        What::Message { message: BfqMessage::SetInService { .. }, .. } => *turn = Some(at),
        What::Message { message: BfqMessage::Expire { reason, .. }, .. } => {
            let lasted = turn.take().map(|began| at - began);
            if let (true, Some(lasted)) = (counts, lasted) {
                figures.turn_ends(lasted, *reason as usize);
            }
        }
        _ => {}
    }
}
