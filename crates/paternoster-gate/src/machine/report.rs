// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports: mistakes of permit holders; and the gate's state in words and figures.

use alloc::collections::VecDeque;
use core::fmt::{self, Write};

use paternoster_core::{Nanos, Value};

use super::Core;
use super::class::{Class, ClassId};
use super::entry::{Entry, Lane, Stage, Ticket};

/// This many are kept until they are read.
const KEPT: usize = 64;

/// Something that a program should not do with permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// A permit was not given back in time. It no longer counts; a later give-back is stale.
    Expired {
        /// The permit.
        ticket: Ticket,
        /// The permit's class.
        class: ClassId,
        /// Its holder, as named in the ask.
        holder: u64,
        /// When it was given.
        granted: Nanos,
    },
    /// A holder asks for another permit. If all holders do so, they deadlock until permits expire.
    HolderWaits {
        /// The holder.
        holder: u64,
        /// The class for which it asks.
        class: ClassId,
        /// The ticket of the new ask.
        ticket: Ticket,
    },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Expired { holder, granted, .. } => {
                write!(f, "holder {holder} has not given back the permit that it got at {granted}")
            }
            Report::HolderWaits { holder, .. } => {
                write!(f, "holder {holder} asks for a permit while it holds one")
            }
        }
    }
}

/// Reports that wait to be read, and how many were lost for lack of room.
#[derive(Debug, Default)]
pub(super) struct Reports {
    waiting: VecDeque<Report>,
    pub(super) dropped: u64,
    pub(super) holders_wait: u64,
}

impl Reports {
    pub(super) fn new() -> Reports {
        Reports { waiting: VecDeque::with_capacity(KEPT), ..Reports::default() }
    }

    pub(super) fn add(&mut self, report: Report) {
        if let Report::HolderWaits { .. } = report {
            self.holders_wait += 1;
        }
        if self.waiting.len() < KEPT {
            self.waiting.push_back(report);
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn next(&mut self) -> Option<Report> {
        self.waiting.pop_front()
    }
}

impl Core {
    /// The next unread report, oldest first. At most 64 are kept; later ones are lost.
    pub fn report(&mut self) -> Option<Report> {
        self.reports.next()
    }

    /// Why does it still wait, or since when does it hold its permit? In one sentence.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn explain(&self, ticket: Ticket, out: &mut dyn Write) -> fmt::Result {
        let Some(entry) = self.entries.get(ticket.0) else {
            return out.write_str("it was given back");
        };
        if let Some(class) = entry.class.and_then(|id| self.classes.get(id)) {
            write!(out, "{}, {} bytes: ", class.name, entry.len)?;
        }
        match (entry.stage, entry.bio) {
            (Stage::Granted, _) => {
                write!(out, "it has had its permit for {}", self.now - entry.granted)
            }
            (Stage::Waiting, None) => self.explain_cap(entry, out),
            (Stage::Waiting, Some(_)) if entry.lane == Lane::Urgent => {
                out.write_str("its class is behind its floor: it is the next of all")
            }
            (Stage::Waiting, Some(bio)) => write!(out, "{}", self.queue.explain(bio)),
            _ => out.write_str("it came too late"),
        }
    }

    fn explain_cap(&self, entry: &Entry, out: &mut dyn Write) -> fmt::Result {
        let Some(class) = entry.class else { return Ok(()) };
        let opens = self.opens(class);
        match self.closed_cap(class) {
            Some(name) => write!(out, "it waits for the cap of {name}, which opens at {opens}"),
            None => out.write_str("it waits in the line behind a cap"),
        }
    }

    /// What waits for what and why: a line for each waiting ask, in order of place, at most `most`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn explain_all(&self, most: usize, out: &mut dyn Write) -> fmt::Result {
        let waiting = self.entries.iter().filter(|(_, entry)| entry.stage == Stage::Waiting);
        for (key, _) in waiting.take(most) {
            self.explain(Ticket(key), out)?;
            out.write_char('\n')?;
        }
        Ok(())
    }

    /// Figures in the text format that Prometheus reads.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn metrics(&self, out: &mut dyn Write) -> fmt::Result {
        type Row = (&'static str, &'static str, fn(&Class) -> u64);
        const ROWS: [Row; 11] = [
            ("asked_total", "counter", |class| class.counts.asked),
            ("granted_total", "counter", |class| class.counts.granted),
            ("given_back_total", "counter", |class| class.counts.given_back),
            ("expired_total", "counter", |class| class.counts.expired),
            ("withdrawn_total", "counter", |class| class.counts.withdrawn),
            ("too_late_total", "counter", |class| class.counts.too_late),
            ("bytes_total", "counter", |class| class.counts.bytes),
            ("device_nanoseconds_total", "counter", |class| class.counts.device_time.0),
            ("waited_nanoseconds_total", "counter", |class| class.counts.waited.0),
            ("waiting", "gauge", |class| class.waiting.into()),
            ("inside", "gauge", |class| class.inside.into()),
        ];
        for (name, kind, value) in ROWS {
            writeln!(out, "# TYPE paternoster_gate_{name} {kind}")?;
            for (_, class) in self.classes.iter() {
                let label = Label(&class.name);
                let value = value(class);
                writeln!(out, "paternoster_gate_{name}{{class=\"{label}\"}} {value}")?;
            }
        }
        for (name, value) in [
            ("depth", self.learned("depth")),
            ("seats", self.learned("seats")),
            ("holder_waits_total", self.reports.holders_wait),
            ("reports_dropped_total", self.reports.dropped),
        ] {
            let kind = if name.ends_with("total") { "counter" } else { "gauge" };
            writeln!(out, "# TYPE paternoster_gate_{name} {kind}")?;
            writeln!(out, "paternoster_gate_{name} {value}")?;
        }
        Ok(())
    }

    /// What the elevator has found out: `depth`, `seats` and its other attributes.
    #[must_use]
    pub fn learned(&self, name: &str) -> u64 {
        match self.queue.value(name) {
            Ok(Value::Number(number)) => number,
            Ok(Value::Time(time)) => time.0,
            _ => 0,
        }
    }
}

/// A label's value, escaped as the format requires.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
