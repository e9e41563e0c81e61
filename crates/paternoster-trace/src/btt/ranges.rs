// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ranges: the periods in which bios came, and completions; pauses of up to a delta are ignored.
//!
//! ```text
//! times   | ||  | |          ||   |
//! ranges  ├───────┤          ├────┤     the pause between them is longer than delta
//! ```
//!
//! They are kept for the system, every device and every process. Limit: [`RANGES_MAX`] for each of
//! them; beyond that the last one is extended.
//!
//! Source: BTT-24.

use std::io::{self, Write};

/// Ranges that are kept of one kind.
pub const RANGES_MAX: usize = 1 << 18;

/// Ranges of one kind, in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges {
    known: Vec<(f64, f64)>,
}

impl Ranges {
    /// Something happened, at this many seconds.
    #[inline]
    pub(super) fn add(&mut self, at: f64, delta: f64) {
        match self.known.last_mut() {
            Some(last) if at < last.1 => {}
            Some(last) if at - last.1 < delta => last.1 = at,
            _ => self.begin(at),
        }
    }

    #[cold]
    fn begin(&mut self, at: f64) {
        let full = self.known.len() >= RANGES_MAX;
        match self.known.last_mut().filter(|_| full) {
            Some(last) => last.1 = at,
            None => self.known.push((at, at)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (f64, f64)> {
        self.known.iter().copied()
    }
}

/// When bios came, and when they were completed.
#[derive(Debug, Clone, Default)]
pub(super) struct Activity {
    pub(super) queued: Ranges,
    pub(super) completed: Ranges,
}

/// All ranges, with the names of whose they are.
#[derive(Debug)]
pub(super) struct All<'a> {
    pub(super) system: &'a Activity,
    /// There is more than one device, reported or not.
    pub(super) several: bool,
    pub(super) devices: Vec<(String, &'a Activity)>,
    pub(super) processes: Vec<(String, &'a Activity)>,
}

impl All<'_> {
    /// The file of ranges: a step of its own height for each of them.
    pub(super) fn write(&self, text: &mut impl Write) -> io::Result<()> {
        writeln!(text, "# Total System")?;
        write_activity("Total System", self.system, 0, text)?;
        let mut base = 1;
        let devices = if self.several { &self.devices[..] } else { &[] };
        for (heading, all) in [("Per device", devices), ("Per process", &self.processes)] {
            if heading == "Per device" && !self.several {
                continue;
            }
            writeln!(text, "# {heading}")?;
            for (name, activity) in all {
                // Processes that did nothing leave a gap, devices do not.
                if heading == "Per process" || !activity.is_empty() {
                    write_activity(name, activity, base, text)?;
                    base += 1;
                }
            }
        }
        Ok(())
    }
}

fn write_activity(
    name: &str,
    activity: &Activity,
    base: u32,
    text: &mut impl Write,
) -> io::Result<()> {
    if activity.is_empty() {
        return Ok(());
    }
    let halves = [('q', &activity.queued, 0.0), ('c', &activity.completed, 0.5)];
    for (kind, ranges, half) in halves {
        writeln!(text, "# {name:>16} : {kind} activity")?;
        let (low, high) = (f64::from(base) + half, f64::from(base) + half + 0.4);
        for (from, to) in ranges.iter() {
            for (at, height) in [(from, low), (from, high), (to, high), (to, low)] {
                writeln!(text, "{at:13.9} {height:5.1}")?;
            }
        }
        writeln!(text)?;
    }
    Ok(())
}

impl Activity {
    fn is_empty(&self) -> bool {
        self.queued.known.is_empty() && self.completed.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::times::seconds;
    use super::*;

    /// Does a pause longer than delta end a range?
    #[test]
    fn a_long_pause_ends_a_range() {
        let mut ranges = Ranges::default();
        for at in [0, 99_000_000, 198_000_000, 300_000_000, 300_000_000] {
            ranges.add(seconds(at), 0.1);
        }
        // 198 ms to 300 ms are more than 100 ms.
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0.0, 0.198), (0.3, 0.3)]);
    }
}
