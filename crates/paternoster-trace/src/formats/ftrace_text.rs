// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of a kernel's tracer: block events as `trace_pipe`, `trace-cmd report` and `perf
//! script` show them, and the lines of the tracer `blk`.
//!
//! ```text
//!   fio-2917  [002] d..1  1234.567890: block_rq_issue: 8,0 RS 4096 () 123456 + 8 [fio]
//!   fio  2917 [002]       1234.567890: block:block_rq_issue: 8,0 RS 4096 () 123456 + 8 [fio]
//!   fio-3445  [000] d..1. 3987.797223:   7,0    Q  RS 0 + 256 [fio]
//!   fio-3445  [000] d.... 3987.797257:   7,0   1,0  m   N bfq3445S allocated
//! 1.115164 lg-88 Q R 0 + 8 [lg]                         short: neither processor nor device
//! ```
//!
//! Tasks' names may hold blanks, dashes and brackets: the first ` [CPU] ` is searched for. The
//! running task counts as the actor, as in blktrace; names become notes. Plugs do not name their
//! device; they get that of the next event of their process. Events outside the block layer,
//! comments and headers are skipped; lost events are reported. Messages are kept unchanged;
//! [`ftrace`](crate::ftrace) parses bfq's.
//!
//! Source: TRACE-20 to TRACE-26; recordings of Linux 6.18 in `paternoster-conformance`.

use std::io::BufRead;

use paternoster_core::Nanos;

use super::traced::words::{Words, device, errno, seconds, split, split_last, whole, whole_u32};
use super::traced::{Lines, Outbox, body};
use crate::blktrace::{Categories, Code, DeviceNumber, Record};
use crate::source::{Entry, Problems, Source, quote};

/// What a line looks like.
const EXAMPLE: &str = "`fio-3445 [000] d..1. 3987.797223: 7,0 Q RS 0 + 256 [fio]`";
/// How many lines are looked at to know the format.
const LINES_LOOKED_AT: usize = 40;

/// Whether a text that begins so is a tracer's.
#[must_use]
pub fn looks_like(head: &[u8]) -> bool {
    let lines = head.split(|&byte| byte == b'\n').take(LINES_LOOKED_AT);
    let traced = |line| matches!(parse(line), Ok(Said::Event(_) | Said::Other));
    lines.map(<[u8]>::trim_ascii_end).any(traced)
}

/// Reads the text.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    outbox: Outbox,
    problems: Problems,
}

impl<R: BufRead> Reader<R> {
    /// A reader of what messages call `name`.
    pub fn new(name: &str, input: R) -> Reader<R> {
        let (lines, outbox) = (Lines::new(name, input), Outbox::new(name));
        Reader { lines, outbox, problems: Problems::default() }
    }

    /// Reads a line; whether there was one.
    fn read_line(&mut self) -> bool {
        let Some((number, line)) = self.lines.next(&mut self.problems) else { return false };
        match parse(line) {
            Ok(Said::Nothing | Said::Other) => {}
            Ok(Said::Event(event)) => {
                if event.record.pid != 0 && event.task != b"<...>" {
                    self.outbox.name(event.record.pid, event.task);
                }
                if event.without_device {
                    self.outbox.hold(event.record, event.payload, number);
                } else {
                    self.outbox.push(event.record, event.payload, number);
                }
            }
            Err(wrong) => self.lines.refuse(&mut self.problems, wrong, |wrong| wrong.to_string()),
        }
        true
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Option<Entry<'_>> {
        while !self.outbox.is_full() {
            if !self.read_line() {
                self.outbox.end();
                break;
            }
        }
        self.outbox.pop(&mut self.problems)
    }

    fn problems(&self) -> &Problems {
        &self.problems
    }
}

/// Why a line is wrong.
#[derive(Debug)]
enum Wrong {
    Head,
    Time(String),
    Device(String),
    Action(String),
    Flags(String),
    Body(Code),
    Event(&'static Kind),
    Lost,
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Wrong::Head => write!(f, "a line has its task and processor in front, as {EXAMPLE}"),
            Wrong::Time(found) => {
                write!(f, "{found} is no time in seconds with six decimals and a colon")
            }
            Wrong::Device(found) => {
                write!(
                    f,
                    "{found} is neither an event, as `block_rq_issue:`, nor a device, as `8,0`"
                )
            }
            Wrong::Action(found) => write!(f, "{found} is no action, as `Q` or `UT` or `m`"),
            Wrong::Flags(found) => write!(f, "{found} are no flags, as `R`, `WS` or `FWFSM`"),
            Wrong::Body(code) => write!(f, "there is no {} at its end", body::wanted(*code)),
            Wrong::Event(kind) => write!(f, "{} is followed by {}", kind.name, kind.form.wanted()),
            Wrong::Lost => write!(f, "events were lost here"),
        }
    }
}

/// The contents of a line.
#[derive(Debug)]
enum Said<'a> {
    /// A comment, a header.
    Nothing,
    /// An event outside the block layer.
    Other,
    Event(Event<'a>),
}

/// An event, with the name of the task that ran.
#[derive(Debug)]
struct Event<'a> {
    record: Record,
    payload: Vec<u8>,
    task: &'a [u8],
    without_device: bool,
}

/// The part before a line's body.
#[derive(Debug, Clone, Copy)]
struct Head<'a> {
    task: &'a [u8],
    pid: u32,
    cpu: u32,
    at: Nanos,
}

/// Reads a line.
fn parse(line: &[u8]) -> Result<Said<'_>, Wrong> {
    let start = line.trim_ascii();
    if start.is_empty() || start.starts_with(b"#") || is_header(start) {
        return Ok(Said::Nothing);
    }
    if is_loss(start) {
        return Err(Wrong::Lost);
    }
    let Some((task, pid, cpu, rest)) = who(line) else { return short(start) };
    let mut words = Words(rest);
    let mut word = words.word();
    if !word.ends_with(b":") {
        // Flags come before the time, unless the tracer was set to omit them.
        word = words.word();
    }
    let at = word.strip_suffix(b":").and_then(seconds);
    let at = Nanos(at.ok_or_else(|| Wrong::Time(quote(word)))?);
    let head = Head { task, pid, cpu, at };
    if whole(words.peek()).is_some() {
        // perf may show its period.
        words.word();
    }
    let word = words.word();
    if let Some(number) = device(word) {
        return traced(head, number, words);
    }
    match word.strip_suffix(b":") {
        Some(event) => block_event(head, event, words),
        None => Err(Wrong::Device(quote(word))),
    }
}

/// trace-cmd's lines before the events.
fn is_header(line: &[u8]) -> bool {
    let number = |prefix: &[u8]| line.strip_prefix(prefix).is_some_and(|n| whole(n).is_some());
    number(b"cpus=") || number(b"version = ") || line.ends_with(b"is empty")
}

/// `CPU:1 [LOST 123 EVENTS]`, `CPU:1 [123 EVENTS DROPPED]`.
fn is_loss(line: &[u8]) -> bool {
    let rest = line.strip_prefix(b"CPU:").and_then(|rest| split(rest, b" ["));
    rest.is_some_and(|(cpu, rest)| {
        let lost = rest.starts_with(b"LOST ") || rest.ends_with(b"EVENTS DROPPED]");
        whole(cpu).is_some() && lost
    })
}

/// Task, process, processor and the rest, of `COMM-PID [CPU] ` and `COMM PID [CPU] `.
fn who(line: &[u8]) -> Option<(&[u8], u32, u32, &[u8])> {
    let mut from = 0;
    while let Some(at) = line[from..].windows(2).position(|pair| pair == b" [") {
        let (before, after) = (&line[..from + at], &line[from + at + 2..]);
        from += at + 2;
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let Some(rest) = after[digits..].strip_prefix(b"] ") else { continue };
        let Some(cpu) = whole_u32(&after[..digits]) else { continue };
        let (task, pid) = task(without_thread_group(before.trim_ascii()))?;
        return Some((task, pid, cpu, rest));
    }
    None
}

/// `COMM-PID`, `COMM PID` or `COMM PID/TID`.
fn task(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, pid) = text.split_at(text.len() - digits);
    let pid = whole_u32(pid)?;
    match before.split_last()? {
        (b'-' | b' ', name) => Some((name.trim_ascii(), pid)),
        (b'/', group) => {
            let (name, group) = split_last(group, b' ')?;
            whole(group)?;
            Some((name.trim_ascii(), pid))
        }
        _ => None,
    }
}

/// Without a `(  3445)` at its end.
fn without_thread_group(text: &[u8]) -> &[u8] {
    let inner = text.strip_suffix(b")").and_then(|text| split_last(text, b'('));
    inner.map_or(text, |(before, _)| before.trim_ascii_end())
}

/// `1.115164 lg-88 Q R 0 + 8 [lg]`.
fn short(line: &[u8]) -> Result<Said<'_>, Wrong> {
    let mut words = Words(line);
    let at = Nanos(seconds(words.word()).ok_or(Wrong::Head)?);
    let text = words.rest();
    let place = actions(text).ok_or(Wrong::Head)?;
    let (task, pid) = task(&text[..place]).ok_or(Wrong::Head)?;
    let head = Head { task, pid, cpu: 0, at };
    traced(head, DeviceNumber::default(), Words(&text[place..]))
}

/// Where an action is after a task and its number.
fn actions(text: &[u8]) -> Option<usize> {
    let blanks = (0..text.len()).filter(|&at| text[at] == b' ');
    blanks.into_iter().find(|&at| {
        let word = Words(&text[at..]).peek();
        let digits = text[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let dash = text[..at - digits].ends_with(b"-");
        digits > 0 && dash && (word == b"m" || body::action(word).is_some())
    })
}

/// A line of the tracer `blk` after the device.
fn traced<'a>(
    head: Head<'a>,
    device: DeviceNumber,
    mut words: Words<'a>,
) -> Result<Said<'a>, Wrong> {
    let mut letters = words.word();
    if letters.contains(&b',') || letters.contains(&b'/') {
        // The control group, which messages may name.
        letters = words.word();
    }
    let flags = words.word();
    if letters == b"m" {
        let (code, categories) = (Code::NOTE_MESSAGE, Categories::NOTIFY);
        let record = Record { code, categories, device, ..head.record() };
        return Ok(head.event(record, words.rest().to_vec()));
    }
    let code = body::action(letters).ok_or_else(|| Wrong::Action(quote(letters)))?;
    let kind = body::flags(flags).ok_or_else(|| Wrong::Flags(quote(flags)))?;
    let text = words.rest().trim_ascii_end();
    let said = body::read(code, device, text).ok_or(Wrong::Body(code))?;
    let record = Record { device, code, ..head.record() };
    Ok(head.said(record, kind, said))
}

impl<'a> Head<'a> {
    fn record(self) -> Record {
        Record { at: self.at, pid: self.pid, cpu: self.cpu, ..Record::default() }
    }

    fn event(self, record: Record, payload: Vec<u8>) -> Said<'a> {
        Said::Event(Event { record, payload, task: self.task, without_device: false })
    }

    /// An event of this kind, with the contents of its body.
    fn said(self, record: Record, kind: Categories, said: body::Body<'_>) -> Said<'a> {
        let of = if said.passthrough { Categories::PASSTHROUGH } else { Categories::FS };
        let categories = kind | body::category_of(record.code) | of;
        let (sector, bytes, error) = (said.sector, said.bytes, said.error);
        self.event(Record { categories, sector, bytes, error, ..record }, said.payload)
    }
}

/// The text after the name of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bio,
    Request,
    Done,
    BioDone,
    Plug,
    Unplug,
    Split,
    Remap,
}

impl Form {
    const fn wanted(self) -> &'static str {
        match self {
            Form::Bio => "`8,0 RS 123456 + 8 [fio]`",
            Form::Request => "`8,0 RS 4096 () 123456 + 8 [fio]`",
            Form::Done => "`8,0 RS () 123456 + 8 [0]`",
            Form::BioDone => "`8,0 RS 123456 + 8 [0]`",
            Form::Plug => "`[fio]`",
            Form::Unplug => "`[fio] 1`",
            Form::Split => "`8,0 RS 123456 / 123464 [fio]`",
            Form::Remap => "`8,0 RS 123456 + 8 <- (8,1) 120000`",
        }
    }
}

/// An event of the block layer.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    code: Code,
    form: Form,
}

const fn kind(name: &'static str, code: Code, form: Form) -> Kind {
    Kind { name, code, form }
}

/// The events that are read; others add nothing to these.
static KINDS: [Kind; 18] = [
    kind("block_bio_queue", Code::QUEUE, Form::Bio),
    kind("block_getrq", Code::GET, Form::Bio),
    kind("block_rq_insert", Code::INSERT, Form::Request),
    kind("block_rq_issue", Code::ISSUE, Form::Request),
    kind("block_rq_complete", Code::COMPLETE, Form::Done),
    kind("block_bio_complete", Code::COMPLETE, Form::BioDone),
    kind("block_bio_backmerge", Code::BACK_MERGE, Form::Bio),
    kind("block_bio_frontmerge", Code::FRONT_MERGE, Form::Bio),
    kind("block_plug", Code::PLUG, Form::Plug),
    kind("block_unplug", Code::UNPLUG, Form::Unplug),
    kind("block_unplug_io", Code::UNPLUG, Form::Unplug),
    kind("block_unplug_timer", Code::UNPLUG_TIMER, Form::Unplug),
    kind("block_rq_requeue", Code::REQUEUE, Form::Done),
    kind("block_sleeprq", Code::SLEEP, Form::Bio),
    kind("block_bio_bounce", Code::BOUNCE, Form::Bio),
    kind("block_split", Code::SPLIT, Form::Split),
    kind("block_bio_remap", Code::REMAP, Form::Remap),
    kind("block_rq_remap", Code::REMAP, Form::Remap),
];

/// A trace event after its name; perf puts `block:` before it.
fn block_event<'a>(head: Head<'a>, name: &[u8], words: Words<'a>) -> Result<Said<'a>, Wrong> {
    let name = name.strip_prefix(b"block:").unwrap_or(name);
    let Some(kind) = KINDS.iter().find(|kind| kind.name.as_bytes() == name) else {
        return Ok(Said::Other);
    };
    let text = words.rest().trim_ascii();
    let record = Record { code: kind.code, ..head.record() };
    if matches!(kind.form, Form::Plug | Form::Unplug) {
        let said = body::read(kind.code, record.device, text).ok_or(Wrong::Event(kind))?;
        let event = head.said(record, Categories::default(), said);
        return Ok(match event {
            Said::Event(event) => Said::Event(Event { without_device: true, ..event }),
            other => other,
        });
    }
    let mut words = Words(text);
    let device = device(words.word()).ok_or(Wrong::Event(kind))?;
    let flags = words.word();
    let categories = body::flags(flags).ok_or_else(|| Wrong::Flags(quote(flags)))?;
    let text = words.rest().trim_ascii();
    let said = event_body(kind, device, text).ok_or(Wrong::Event(kind))?;
    Ok(head.said(Record { device, ..record }, categories, said))
}

/// An event's contents after its flags.
fn event_body<'a>(kind: &Kind, device: DeviceNumber, text: &'a [u8]) -> Option<body::Body<'a>> {
    match kind.form {
        Form::Split | Form::Remap => body::read(kind.code, device, text),
        Form::Bio | Form::BioDone | Form::Plug | Form::Unplug => {
            let (before, inner, _) = body::brackets(text)?;
            let mut said = body::Body::default();
            body::extent(&mut said, extent_words(before)?)?;
            if kind.form == Form::BioDone {
                said.error = errno(inner)?;
            }
            Some(said)
        }
        Form::Request => {
            let (bytes, rest) = split(text, b" ")?;
            let mut said = request(rest)?;
            let bytes = whole_u32(bytes)?;
            // A flush has neither; a command without sectors has bytes alone.
            if bytes >> 9 == said.bytes >> 9 || said.bytes == 0 {
                said.passthrough |= said.bytes == 0 && bytes > 0;
                said.bytes = bytes;
            }
            Some(said)
        }
        Form::Done => {
            let (_, inner, _) = body::brackets(text)?;
            let mut said = request(text)?;
            said.error = errno(inner)?;
            Some(said)
        }
    }
}

/// `(COMMAND) SECTOR + SECTORS [`, with a priority before the bracket in newer kernels.
fn request(text: &[u8]) -> Option<body::Body<'_>> {
    let mut said = body::Body::default();
    let (command, rest) = split(text.strip_prefix(b"(")?, b")")?;
    let mut line = Vec::with_capacity(command.len() + 2);
    line.push(b'(');
    line.extend_from_slice(command);
    line.push(b')');
    body::command(&mut said, &line)?;
    said.passthrough = !said.payload.is_empty();
    let (before, _, _) = body::brackets(rest)?;
    body::extent(&mut said, extent_words(before)?)?;
    Some(said)
}

/// `SECTOR + SECTORS` alone, where another word may follow.
fn extent_words(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii();
    let mut words = Words(text);
    let (_, plus, _) = (words.word(), words.word(), words.word());
    (plus == b"+").then(|| &text[..text.len() - words.0.len()])
}

#[cfg(test)]
mod tests;
