// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record: every call of a gate and its answer, as lines of text; and replaying them.
//!
//! A gate is a state machine that gets the time as an argument, so the same calls have the same
//! answers. So what a program saw ("why did this read wait for 80 ms?") can be examined elsewhere
//! and later, at each step with [`super::Core::explain_all`]:
//!
//! ```text
//! gate 2 256 4096 255 30000000000 false        the version of the lines, settings
//! open 400 0 0 0 0 0 0 reads = Ok(4294967296)  weight, kind, class above or 0, cap, floor, name
//! ask 1000 4294967296 0 - 4096 7 … = Ok(…)     time, class, kind, offset, length, holder …
//! next 1000 = granted 4294967296               time
//! give-back 81000 4294967296 = Ok(())          time, permit
//! ```
//!
//! Calls that change nothing are left out. A line is written when its call is over, so the
//! recording of a crashed program lacks the call in which it crashed, and what its sink had not yet
//! written.
//!
//! # Invariants
//! I1  Nothing depends on whether there is a recording.
//! I2  Once made, a recording allocates only for a line longer than any before.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{self, Write};

use paternoster_core::Nanos;
use paternoster_core::slab::Key;

use super::class::{ClassId, ClassSpec, Kind};
use super::entry::{Ask, Next, Op, Ticket};
use super::rates::Rate;
use super::settings::Settings;
use super::{AskError, Core};

/// The version of the lines.
const VERSION: u64 = 2;
const KINDS: [Kind; 4] = [Kind::Normal, Kind::Urgent, Kind::Background, Kind::Idle];
const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// Where a recording goes: called with one line at a time.
pub type Sink = Box<dyn Write + Send>;

/// A recording under way.
pub(super) struct Record {
    line: String,
    /// `None` once it has refused a line: a gate goes on without its recording.
    sink: Option<Sink>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Record {
    fn new(sink: Option<Sink>) -> Record {
        Record { line: String::with_capacity(256), sink }
    }

    fn add(&mut self, line: fmt::Arguments<'_>) {
        self.line.clear();
        let written = self.line.write_fmt(line).and_then(|()| self.line.write_char('\n'));
        debug_assert!(written.is_ok(), "a string takes everything");
        if self.sink.as_mut().is_some_and(|sink| sink.write_str(&self.line).is_err()) {
            self.sink = None;
        }
    }

    pub(super) fn begins(&mut self, settings: &Settings) {
        let Settings { permits, asks, classes, expires_after, rotational } = settings;
        let expires = expires_after.0;
        self.add(format_args!("gate {VERSION} {permits} {asks} {classes} {expires} {rotational}"));
    }

    pub(super) fn open<E: fmt::Debug>(&mut self, spec: &Opened, answer: Result<ClassId, E>) {
        let Opened { weight, kind, below, rates: [cb, cr, fb, fr], name } = spec;
        let answer = answer.map(|id| id.0.bits());
        let line =
            format_args!("open {weight} {kind} {below} {cb} {cr} {fb} {fr} {name} = {answer:?}");
        self.add(line);
    }

    pub(super) fn ask(
        &mut self,
        now: Nanos,
        id: ClassId,
        ask: &Ask,
        answer: Result<Ticket, AskError>,
    ) {
        let (class, op, len, holder) = (id.0.bits(), ask.op as u8, ask.len, ask.holder);
        let (deadline, gives_up) = (ask.deadline.0, ask.gives_up.0);
        let answer = answer.map(Ticket::bits);
        match ask.offset {
            Some(offset) => self.add(format_args!(
                "ask {now} {class} {op} {offset} {len} {holder} {deadline} {gives_up} = {answer:?}",
                now = now.0
            )),
            None => self.add(format_args!(
                "ask {now} {class} {op} - {len} {holder} {deadline} {gives_up} = {answer:?}",
                now = now.0
            )),
        }
    }

    pub(super) fn next(&mut self, now: Nanos, next: Next) {
        let now = now.0;
        match next {
            Next::Granted(ticket) => {
                self.add(format_args!("next {now} = granted {}", ticket.bits()));
            }
            Next::TooLate(ticket) => {
                self.add(format_args!("next {now} = late {}", ticket.bits()));
            }
            Next::Wait(until) => self.add(format_args!("next {now} = wait {}", until.0)),
            Next::Idle => self.add(format_args!("next {now} = idle")),
        }
    }

    /// A call with a time, a class or permit as a number, perhaps another argument, and an answer.
    pub(super) fn call(&mut self, what: &str, numbers: &[u64], answer: &dyn fmt::Debug) {
        self.add(format_args!("{what}{} = {answer:?}", Numbers(numbers)));
    }
}

struct Numbers<'a>(&'a [u64]);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|number| write!(f, " {number}"))
    }
}

/// What a line says about a class.
pub(super) struct Opened {
    weight: u32,
    kind: usize,
    below: u64,
    rates: [u64; 4],
    name: String,
}

impl Opened {
    pub(super) fn new(spec: &ClassSpec) -> Opened {
        let kind = KINDS.iter().position(|kind| *kind == spec.kind).unwrap_or(0);
        let below = spec.below.map_or(0, |class| class.0.bits());
        // A name must not break the line; the answer follows the last ` = `.
        let name = spec.name.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        let (cap, floor) = (spec.cap, spec.floor);
        let rates = [cap.bytes, cap.requests, floor.bytes, floor.requests];
        Opened { weight: spec.weight, kind, below, rates, name: name.collect() }
    }
}

/// A recording could not be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// This line, counted from 1, is not from a recording of this version.
    Unreadable(usize),
    /// This line's call has a different answer now: the whole line as it would be.
    Differs(usize, String),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Unreadable(line) => write!(f, "line {line} is no call of a gate"),
            ReplayError::Differs(line, now) => {
                write!(f, "line {line} has another answer now: {}", now.trim_end())
            }
        }
    }
}

impl core::error::Error for ReplayError {}

impl Core {
    /// A gate whose calls are recorded from its first to its last. The gate behaves the same,
    /// except for the time that `sink` takes: use a memory buffer.
    #[must_use]
    pub fn recorded(settings: Settings, sink: Sink) -> Core {
        Core::with_record(settings, Record::new(Some(sink)))
    }

    fn with_record(settings: Settings, mut record: Record) -> Core {
        record.begins(&settings);
        let mut core = Core::new(settings);
        core.record = Some(record);
        core
    }

    /// Repeats the calls of a recording, up to line `until`, and compares each answer. Returns the
    /// gate as it was then, and how many lines were read. An incomplete last line is skipped.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn replay(text: &str, until: usize) -> Result<(Core, usize), ReplayError> {
        let mut lines = text.split_inclusive('\n').take(until);
        let mut core = lines
            .next()
            .and_then(begin)
            .map(|settings| Core::with_record(settings, Record::new(None)))
            .ok_or(ReplayError::Unreadable(1))?;
        let mut read = 1;
        for line in lines.filter(|line| line.ends_with('\n')) {
            read += 1;
            again(&mut core, line).ok_or(ReplayError::Unreadable(read))?;
            let told = core.record.as_ref().map_or("", |record| &record.line);
            if told != line {
                return Err(ReplayError::Differs(read, told.into()));
            }
        }
        Ok((core, read))
    }
}

fn begin(line: &str) -> Option<Settings> {
    let mut words = line.strip_prefix("gate ")?.split_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    if number()? != VERSION {
        return None;
    }
    let mut size = || u32::try_from(number()?).ok();
    let (permits, asks, classes) = (size()?, size()?, size()?);
    let expires_after = Nanos(number()?);
    let rotational = words.next()?.parse().ok()?;
    Some(Settings { permits, asks, classes, expires_after, rotational })
}

fn class(number: u64) -> ClassId {
    ClassId(Key::from_bits(number))
}

/// Repeats the call of a line; `None` if the line has no call.
fn again(core: &mut Core, line: &str) -> Option<()> {
    let (call, _) = line.rsplit_once(" = ")?;
    let (what, rest) = call.split_once(' ')?;
    let mut words = rest.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    match what {
        "open" => {
            let (weight, kind, below) = (number()?, number()?, number()?);
            let cap = Rate { bytes: number()?, requests: number()? };
            let floor = Rate { bytes: number()?, requests: number()? };
            let name = rest.splitn(8, ' ').nth(7)?;
            let kind = *KINDS.get(usize::try_from(kind).ok()?)?;
            let spec = ClassSpec::new(name).weight(u32::try_from(weight).ok()?).kind(kind);
            let spec = spec.cap(cap).floor(floor);
            let _recorded = core.open(if below == 0 { spec } else { spec.below(class(below)) });
        }
        "ask" => {
            let (now, id, op) = (number()?, number()?, number()?);
            // The offset is a number, or `-` for none.
            let offset = number();
            let ask = Ask::new(*OPS.get(usize::try_from(op).ok()?)?, number()?);
            let ask = ask.holder(number()?).by(Nanos(number()?)).until(Nanos(number()?));
            let ask = offset.map_or(ask, |offset| ask.at(offset));
            let _recorded = core.ask(Nanos(now), class(id), ask);
        }
        "next" => {
            let _recorded = core.next(Nanos(number()?));
        }
        "give-back" => {
            let (now, ticket) = (number()?, Ticket::from_bits(number()?));
            let _recorded = core.give_back(Nanos(now), ticket);
        }
        "withdraw" => {
            let (now, ticket) = (number()?, Ticket::from_bits(number()?));
            core.withdraw(Nanos(now), ticket);
        }
        "told" => core.told(Ticket::from_bits(number()?)),
        "weigh" => {
            let (now, id, weight) = (number()?, number()?, number()?);
            let _recorded = core.set_weight(Nanos(now), class(id), u32::try_from(weight).ok()?);
        }
        "rates" => {
            let (now, id) = (number()?, number()?);
            let cap = Rate { bytes: number()?, requests: number()? };
            let floor = Rate { bytes: number()?, requests: number()? };
            let _recorded = core.set_rates(Nanos(now), class(id), cap, floor);
        }
        "close" => {
            let (now, id) = (number()?, number()?);
            let _recorded = core.close(Nanos(now), class(id));
        }
        _ => return None,
    }
    Some(())
}
