// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line of a recorded log, read.
//!
//! ```text
//! 62.439696 lg-167 D R 32768000 + 256 [lg]                         an action of the block layer
//! 62.439688 lg-167 m N cfq167S dispatched a request                a message of the scheduler
//! └ seconds └ comm-pid └ action
//! ```
//!
//! A message names its queue by the pid of the process that made it, by `S` or `A` (sync or not)
//! and by `N` while its type is SYNC_NOIDLE. Messages that begin with `@` were added to that kernel
//! for these recordings; the others are its own.
//!
//! Nothing is dropped: a line that is not understood is an error with its text.
//!
//! Source: the README next to the logs, section 1; the logs.

use super::message::Message;

/// A queue by its name in the log. The type is not part of the name: it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    /// The process that made it.
    pub(super) pid: u32,
    /// Whether it is a process's own, for sync requests, or a shared one.
    pub(super) sync: bool,
}

/// Sectors of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Extent {
    pub(super) sector: u64,
    pub(super) sectors: u32,
}

impl Extent {
    pub(super) const fn end(self) -> u64 {
        self.sector + self.sectors as u64
    }
}

/// An action of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    Queue,
    Get,
    Insert,
    Issue,
    Complete,
    Requeue,
    BackMerge,
    FrontMerge,
    Sleep,
    Plug,
    Unplug,
}

/// The content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Block {
        action: Action,
        /// Direction and flags, such as `WS`: only the letters that matter.
        kind: Kind,
        at: Extent,
    },
    Message {
        queue: Option<Name>,
        message: Message,
    },
}

/// The letters of a block action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Read,
    Write,
    SyncWrite,
    /// The flush command and the bios that ask for one: the scheduler never sees them.
    Flush,
    /// A command that is no I/O: the driver's own.
    Passthrough,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Microseconds.
    pub(super) at: u64,
    pub(super) pid: u32,
    pub(super) what: What,
}

impl Line {
    /// Reads a line.
    pub(super) fn parse(text: &str) -> Result<Line, String> {
        let complain = || format!("not understood: {text}");
        let (seconds, rest) = text.split_once(' ').ok_or_else(complain)?;
        let (whole, micros) = seconds.split_once('.').ok_or_else(complain)?;
        let at = number::<u64>(whole).zip(number::<u64>(micros)).ok_or_else(complain)?;
        let (process, rest) = rest.split_once(' ').ok_or_else(complain)?;
        let pid = process.rsplit('-').next().and_then(number).ok_or_else(complain)?;
        let (action, rest) = rest.split_once(' ').ok_or_else(complain)?;
        let what = if action == "m" { message(rest) } else { block(action, rest) };
        let what = what.ok_or_else(complain)?;
        Ok(Line { at: at.0 * 1_000_000 + at.1, pid, what })
    }
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn block(action: &str, rest: &str) -> Option<What> {
    let action = match action {
        "Q" => Action::Queue,
        "G" => Action::Get,
        "I" => Action::Insert,
        "D" => Action::Issue,
        "C" => Action::Complete,
        "R" => Action::Requeue,
        "M" => Action::BackMerge,
        "F" => Action::FrontMerge,
        "S" => Action::Sleep,
        "P" => Action::Plug,
        "U" | "UT" => Action::Unplug,
        _ => return None,
    };
    let (letters, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let words: Vec<&str> = rest.split(' ').collect();
    let at = match *words.first()? {
        word if word.starts_with('[') => Extent::default(),
        word => {
            let sectors = if words.get(1) == Some(&"+") { number(words.get(2)?)? } else { 0 };
            Extent { sector: number(word)?, sectors }
        }
    };
    let kind = match letters {
        "R" => Kind::Read,
        "W" => Kind::Write,
        // The end of a bio that asked for a flush is logged without a size.
        "WS" if at.sectors > 0 => Kind::SyncWrite,
        "WS" | "FWS" | "FN" => Kind::Flush,
        "N" => Kind::Passthrough,
        _ => return None,
    };
    Some(What::Block { action, kind, at })
}

/// A message: `N cfq167SN text` or `N text` or `N cfq text`.
fn message(rest: &str) -> Option<What> {
    let rest = rest.strip_prefix("N ")?;
    let (first, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let (queue, text) = match name(first) {
        Some(queue) => (Some(queue), text),
        None if first == "cfq" => (None, text),
        None => (None, rest),
    };
    Some(What::Message { queue, message: Message::read(text)? })
}

/// `cfq167SN` as a name.
fn name(text: &str) -> Option<Name> {
    let text = text.strip_prefix("cfq")?;
    let text = text.strip_suffix('N').unwrap_or(text);
    let sync = text.ends_with('S');
    let pid = number(text.strip_suffix(['S', 'A'])?)?;
    Some(Name { pid, sync })
}

/// The class of a line, for counting: an action with its letters, or a message without its numbers.
pub(super) fn class_of(line: &Line) -> String {
    match &line.what {
        What::Block { action, kind, .. } => format!("{action:?} {kind:?}"),
        What::Message { message, .. } => {
            let text = format!("{message:?}");
            text.split([' ', '(']).next().unwrap_or_default().to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfq::message::Rule;

    fn message_of(text: &str) -> Message {
        match Line::parse(text).unwrap().what {
            What::Message { message, .. } => message,
            What::Block { .. } => unreachable!("{text}"),
        }
    }

    /// Are the figures of a message read into their places?
    #[test]
    fn a_message_is_read() {
        let line = "27.963801 lg-109 m N cfq109SN @key=-5 rel=-8 off=3 nq=2 cl=1 ty=2 fr=1";
        let read = Line::parse(line).unwrap();
        assert_eq!((read.at, read.pid), (27_963_801, 109));
        let What::Message { queue, message } = read.what else { unreachable!() };
        assert_eq!(queue, Some(Name { pid: 109, sync: true }));
        let (key, relative, offset) = (-5, -8, 3);
        let (busy, class, kind, front) = (2, 1, 2, true);
        assert_eq!(message, Message::Key { key, relative, offset, busy, class, kind, front });
        assert_eq!(
            message_of("1.5 <idle>-0 m N cfq7A @pre close over cfq94"),
            Message::Preempts { rule: Rule::Close, over: 94 }
        );
        assert_eq!(message_of("1.5 k/u2:5-57 m N cfq idle timer fired"), Message::TimerFired);
    }

    /// Is an unknown line refused with its text?
    #[test]
    fn an_unknown_line_is_an_error() {
        for text in ["", "x", "1.5 a-1 m N cfq9S dances", "1.5 a-1 Z R 1 + 2 [a]"] {
            assert!(Line::parse(text).unwrap_err().contains(text));
        }
    }
}
