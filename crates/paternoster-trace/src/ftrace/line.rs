// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line of the tracer `blk`: the head that all lines share, and the events of the block layer.
//!
//! ```text
//!     ksoftirqd/1-22   [001] d.s1.  4011.822281:   7,0          C   R 44288 + 128 [0]
//!     └ task     └ pid  └ cpu │  │  └ seconds      │      │     │   │  └ sector, sectors, error
//!         kind of interrupt ──┘  └ preempt depth   │      │     │   └ flags
//!                                  major, minor ───┘      │     └ action
//!                                  the control group, if the line names one: `1,0`
//! ```
//!
//! A task's name may hold blanks, dashes and brackets; the first `-PID [CPU] ` is searched for. A
//! line may lack the flags, and have a thread group `(  PID)` before its processor: both are
//! options of ftrace. The time has six decimals, or nine; it is kept in whole nanoseconds.
//!
//! Source: TRACE-8, TRACE-20, TRACE-21, PARSE-2 to PARSE-8; the recordings.

use core::fmt;

use super::bfq::{BfqMessage, QueueName};

/// A device's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Device {
    /// Major number: the driver.
    pub major: u32,
    /// Minor number: which of the driver's devices.
    pub minor: u32,
}

/// On whose behalf a processor ran when it wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Context {
    /// The task's own.
    #[default]
    Task,
    /// A soft interrupt; the task is the one that it met, or `ksoftirqd`.
    SoftInterrupt,
    /// A hard interrupt, or one that cannot be masked; the task is the one that it met.
    Interrupt,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Number of the line in its text, from 1.
    pub line: u64,
    /// Name of the task that the processor ran; at most 15 bytes are kept by the kernel.
    pub task: String,
    /// That task's id; 0 is a processor's idle task.
    pub pid: u32,
    /// The processor.
    pub cpu: u32,
    /// Whether the task itself spoke, or an interrupt.
    pub context: Context,
    /// How deep preemption was disabled: the number of locks held, and other causes.
    pub preempt_depth: u8,
    /// Nanoseconds of the trace clock.
    pub at_ns: u64,
    /// The device that it is about.
    pub device: Device,
    /// The control group as the line names it, by number (`1,0`) or path; most lines name none.
    pub group: Option<String>,
    /// The contents.
    pub what: What,
}

/// The contents of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A step of a request.
    Event(Event),
    /// A message of bfq.
    Message {
        /// The queue that it is about; `None` if it is about the device.
        queue: Option<QueueName>,
        /// The message.
        message: BfqMessage,
    },
    /// Another speaker's message, unchanged.
    Note(String),
}

/// What happened to a bio or a request, by blktrace's letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// `Q`: a bio was submitted.
    Queue,
    /// `M`: a bio was merged after a request.
    BackMerge,
    /// `F`: a bio was merged before a request.
    FrontMerge,
    /// `G`: a request was allocated for it.
    Get,
    /// `S`: its task sleeps for want of a request.
    Sleep,
    /// `R`: the driver refused, the request waits again.
    Requeue,
    /// `D`: a request went to the driver.
    Issue,
    /// `C`: a request, or a part of one, ended.
    Complete,
    /// `P`: plugged.
    Plug,
    /// `U`: unplugged.
    Unplug,
    /// `UT`: unplugged by a timer.
    UnplugTimer,
    /// `I`: a request went to the scheduler.
    Insert,
    /// `X`: a bio was split.
    Split,
    /// `B`: a bio was copied to memory that the device reaches.
    Bounce,
    /// `A`: a bio was remapped to another device.
    Remap,
}

impl Action {
    /// Every action.
    pub const ALL: [Action; 15] = [
        Action::Queue,
        Action::BackMerge,
        Action::FrontMerge,
        Action::Get,
        Action::Sleep,
        Action::Requeue,
        Action::Issue,
        Action::Complete,
        Action::Plug,
        Action::Unplug,
        Action::UnplugTimer,
        Action::Insert,
        Action::Split,
        Action::Bounce,
        Action::Remap,
    ];

    /// The letters that the tracer prints.
    #[must_use]
    pub const fn letters(self) -> &'static str {
        match self {
            Action::Queue => "Q",
            Action::BackMerge => "M",
            Action::FrontMerge => "F",
            Action::Get => "G",
            Action::Sleep => "S",
            Action::Requeue => "R",
            Action::Issue => "D",
            Action::Complete => "C",
            Action::Plug => "P",
            Action::Unplug => "U",
            Action::UnplugTimer => "UT",
            Action::Insert => "I",
            Action::Split => "X",
            Action::Bounce => "B",
            Action::Remap => "A",
        }
    }

    fn of(letters: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.letters() == letters)
    }
}

/// Operation and flags of an event, as the letters that blktrace gives them: `RS`, `FWFSM`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letters {
    bytes: [u8; Letters::MAX],
    len: u8,
}

impl Letters {
    const MAX: usize = 10;

    fn of(text: &str) -> Option<Letters> {
        let letters = text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if text.is_empty() || text.len() > Letters::MAX || !letters {
            return None;
        }
        let mut bytes = [0; Letters::MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Letters { bytes, len: u8::try_from(text.len()).ok()? })
    }

    /// The letters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // They were checked to be ASCII.
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Whether the cache is to be flushed first: an `F` before the operation. Newer kernels write
    /// the operation of a flush as `F`, too: `FS` is one of them.
    #[must_use]
    pub fn preflush(&self) -> bool {
        self.bytes[0] == b'F' && b"RWDENZF".contains(&self.bytes[1])
    }

    /// The letters from the operation on.
    fn operation(&self) -> &str {
        &self.as_str()[usize::from(self.preflush())..]
    }

    /// Whether it reads.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.operation().starts_with('R')
    }

    /// Whether it writes data; a discard does not.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.operation().starts_with('W')
    }

    /// Whether it discards.
    #[must_use]
    pub fn discards(&self) -> bool {
        self.operation().starts_with('D')
    }

    fn has(&self, flag: char) -> bool {
        self.operation().chars().skip(1).any(|letter| letter == flag)
    }

    /// Whether the data must be on the medium when it ends.
    #[must_use]
    pub fn fua(&self) -> bool {
        self.has('F')
    }

    /// Whether a process waits for it.
    #[must_use]
    pub fn sync(&self) -> bool {
        self.has('S')
    }

    /// Whether it was read ahead.
    #[must_use]
    pub fn ahead(&self) -> bool {
        self.has('A')
    }

    /// Whether it is metadata of a filesystem.
    #[must_use]
    pub fn meta(&self) -> bool {
        self.has('M')
    }
}

impl fmt::Debug for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Contents of only some events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Detail {
    /// No further contents.
    #[default]
    None,
    /// How many requests an unplug let go.
    Unplugged(u64),
    /// The sector at which a bio was split.
    SplitAt(u64),
    /// Where a bio was before it was remapped.
    From(Device, u64),
    /// The event is of a command of the driver's own, which has no sectors.
    Command,
}

/// A step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// The action.
    pub action: Action,
    /// Operation and flags.
    pub letters: Letters,
    /// The first sector of 512 bytes; 0 where there is none.
    pub sector: u64,
    /// How many; 0 where there are none.
    pub sectors: u32,
    /// How it ended: 0 or an errno, as printed. Only with `C` and `R`.
    pub error: i32,
    /// The rest of its contents.
    pub detail: Detail,
}

/// Cuts words off a text. If it cannot, it answers with what would be right.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn word(&mut self, wanted: &str) -> Result<&'a str, String> {
        let text = self.0.trim_start_matches(' ');
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        if word.is_empty() {
            return Err(format!("the line ends where {wanted} is expected"));
        }
        self.0 = rest;
        Ok(word)
    }

    /// The next word without cutting it off.
    fn peek(&self) -> &'a str {
        self.0.split(' ').find(|word| !word.is_empty()).unwrap_or("")
    }
}

/// Reads one line, which is neither empty nor a comment. An error is what would be right.
pub(super) fn read(line: u64, text: &str) -> Result<Record, String> {
    let (task, pid, cpu, rest) =
        head(text).ok_or("a line begins with `TASK-PID [CPU] `, as `fio-3445 [000] `")?;
    let mut words = Words(rest);
    let flags = if is_time(words.peek()) { "" } else { words.word("flags as `d..1.`")? };
    let (context, preempt_depth) = context(flags)
        .ok_or_else(|| format!("`{flags}` are no flags, which look like `d..1.` or `d.s1.`"))?;
    let time = words.word("a time as `3987.797223:`")?;
    let at_ns = nanoseconds(time)
        .ok_or_else(|| format!("`{time}` is no time in seconds with six decimals and a colon"))?;
    let number = words.word("a device as `7,0`")?;
    let device = device(number).ok_or_else(|| {
        format!("`{number}` is no device as `7,0`: only the tracer `blk` is read, no trace events")
    })?;
    let group = is_group(words.peek()).then(|| words.word("a group")).transpose()?;
    let letters = words.word("an action as `Q` or `m`")?;
    let what = if letters == "m" { message(words)? } else { event(letters, words)?.into() };
    let (task, group) = (task.to_owned(), group.map(str::to_owned));
    Ok(Record { line, task, pid, cpu, context, preempt_depth, at_ns, device, group, what })
}

impl From<Event> for What {
    fn from(event: Event) -> What {
        What::Event(event)
    }
}

/// Task, pid, cpu and the rest.
fn head(text: &str) -> Option<(&str, u32, u32, &str)> {
    text.match_indices(" [").find_map(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + 2..]);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let rest = after[digits..].strip_prefix("] ")?;
        let cpu = after[..digits].parse().ok()?;
        let before = without_thread_group(before.trim_end());
        let (task, pid) = before.rsplit_once('-')?;
        Some((task.trim_start(), whole(pid)?, cpu, rest))
    })
}

/// Without a `(  3445)` at its end.
fn without_thread_group(text: &str) -> &str {
    let inner = text.strip_suffix(')').and_then(|text| text.rsplit_once('('));
    inner.map_or(text, |(before, _)| before.trim_end())
}

/// A number of digits alone: `parse` would take a sign.
pub(super) fn whole<T: core::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn is_time(word: &str) -> bool {
    word.ends_with(':') && word.starts_with(|first: char| first.is_ascii_digit())
}

fn is_group(word: &str) -> bool {
    word.contains([',', '/'])
}

/// The third letter is the kind of interrupt, the fourth how deep preemption is disabled.
fn context(flags: &str) -> Option<(Context, u8)> {
    if flags.is_empty() {
        return Some((Context::Task, 0));
    }
    if !(4..=8).contains(&flags.len()) || !flags.is_ascii() {
        return None;
    }
    let context = match flags.as_bytes()[2] {
        b'.' => Context::Task,
        b's' => Context::SoftInterrupt,
        b'h' | b'H' | b'z' | b'Z' => Context::Interrupt,
        _ => return None,
    };
    let depth = match flags.as_bytes()[3] {
        b'.' => 0,
        digit => u8::try_from(char::from(digit).to_digit(16)?).ok()?,
    };
    Some((context, depth))
}

/// `3987.797223:` as 3 987 797 223 000 ns.
fn nanoseconds(word: &str) -> Option<u64> {
    let (seconds, decimals) = word.strip_suffix(':')?.split_once('.')?;
    let unit = match decimals.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    let decimals = whole::<u64>(decimals)? * unit;
    whole::<u64>(seconds)?.checked_mul(1_000_000_000)?.checked_add(decimals)
}

fn device(word: &str) -> Option<Device> {
    let (major, minor) = word.split_once(',')?;
    Some(Device { major: whole(major)?, minor: whole(minor)? })
}

/// `N bfq3445S allocated`.
fn message(mut words: Words<'_>) -> Result<What, String> {
    let letters = words.word("`N` behind `m`")?;
    if letters != "N" {
        return Err(format!("`{letters}` behind `m`: a message has `N` there"));
    }
    let text = words.0;
    let (speaker, rest) = text.split_once(' ').unwrap_or((text, ""));
    let queue = QueueName::read(speaker);
    if queue.is_none() && speaker != "bfq" {
        return Ok(What::Note(text.to_owned()));
    }
    Ok(What::Message { queue, message: BfqMessage::read(rest) })
}

fn event(action: &str, mut words: Words<'_>) -> Result<Event, String> {
    let action = Action::of(action).ok_or_else(|| {
        let known = Action::ALL.map(Action::letters).join(" ");
        format!("`{action}` is no action: these are known: {known}, and m for messages")
    })?;
    let letters = words.word("operation and flags as `RS`")?;
    let letters = Letters::of(letters)
        .ok_or_else(|| format!("`{letters}` is no operation with flags, as `R`, `WS` or `FWFS`"))?;
    let (sector, sectors, error, detail) = (0, 0, 0, Detail::None);
    let mut event = Event { action, letters, sector, sectors, error, detail };
    let text = words.0.trim();
    tail(&mut event, text).ok_or_else(|| {
        let wanted = match action {
            Action::Complete | Action::Requeue => "SECTOR + SECTORS [ERROR]",
            Action::Plug => "[TASK]",
            Action::Unplug | Action::UnplugTimer => "[TASK] REQUESTS",
            Action::Split => "SECTOR / SECTOR [TASK]",
            Action::Remap => "SECTOR + SECTORS <- (MAJOR,MINOR) SECTOR",
            _ => "SECTOR + SECTORS [TASK]",
        };
        format!("behind `{} {letters}` stands `{text}`, not `{wanted}`", action.letters())
    })?;
    Ok(event)
}

/// What follows the flags: see PARSE-3 to PARSE-8.
fn tail(event: &mut Event, text: &str) -> Option<()> {
    if let (Action::Remap, Some((extent, from))) = (event.action, text.split_once(" <- ")) {
        let (number, sector) = from.strip_prefix('(')?.split_once(") ")?;
        event.detail = Detail::From(device(number)?, whole(sector)?);
        return extent_of(event, extent);
    }
    // A task's name may hold brackets: the first one opens it, the last one closes it.
    let (before, named) = text.split_once('[')?;
    let (named, behind) = named.rsplit_once(']')?;
    match event.action {
        Action::Complete | Action::Requeue => event.error = named.parse().ok()?,
        Action::Unplug | Action::UnplugTimer => {
            event.detail = Detail::Unplugged(whole(behind.trim())?);
            return before.is_empty().then_some(());
        }
        _ => {}
    }
    behind.is_empty().then_some(())?;
    extent_of(event, before.trim_end())
}

/// `0 + 256`, `0 / 128` of a split, `512 (28 00 ..)` of a command, a sector alone, or nothing.
fn extent_of(event: &mut Event, text: &str) -> Option<()> {
    if text.is_empty() {
        return Some(());
    }
    if text.ends_with(')') {
        let (bytes, _) = text.split_once('(')?;
        whole::<u64>(if bytes.is_empty() { "0" } else { bytes.trim_end() })?;
        event.detail = Detail::Command;
        return Some(());
    }
    if let Some((sector, at)) = text.split_once(" / ") {
        event.sector = whole(sector)?;
        event.detail = Detail::SplitAt(whole(at)?);
        return Some(());
    }
    let (sector, sectors) = text.split_once(" + ").unwrap_or((text, "0"));
    (event.sector, event.sectors) = (whole(sector)?, whole(sectors)?);
    Some(())
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests;
