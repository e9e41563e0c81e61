// SPDX-License-Identifier: MIT OR Apache-2.0
//! Format: calls and answers in bytes.
//!
//! ```text
//! code │ time │ arguments │ answer
//!  1     0-10
//! code   bit 7: another time than the call before   bit 6: refused   bits 0-5: what
//! ```
//!
//! `next` has a code for each kind of answer; to be asked again at the same time and to answer the
//! same `Wait` is counted. Everything that goes on from something is a step from it: a time from
//! the last one, a sector from the end of the last, a cookie from the last. A read of 4 KiB:
//!
//! ```text
//! submit    code 1, time 3, shape 1, client 1, sector 4, sectors 1, cookie 1           12 bytes
//! issue     code 1, shape 1, tag 1, sector 3, sectors 1, client 1                       8
//! complete  code 1, time 3, tag 1, shape 1                                              6
//! done      code 1, cookie 1, shape 1                                                   3
//! wait      code 1, reason 1, sometimes time 3 and until 4; twice                       8
//! ```
//!
//! Invariants: I1 decoding gives back what was encoded; I2 no bytes make decoding panic, and every
//! call takes at least one byte, except repeated ones, up to [`AGAIN_MAX`] of which share three
//! bytes.

use paternoster_core::{Class, Flags, Nanos, Op, Outcome, Priority, Status, Waiting};

use super::bytes::{Bad, Input, put_text, put_varint, step, stepped};
use super::call::{Answer, BioOf, Call, Entry, Issued, Name, REASONS, REFUSALS, Refusal};

/// How often `next` is asked again at most before it is written down.
pub const AGAIN_MAX: u32 = 4096;
/// The longest text.
pub const TEXT_MAX: usize = 16 << 10;
/// The most bytes of a call, its texts apart.
pub(super) const CALL_MAX: usize = 128;

const ANOTHER_TIME: u8 = 0x80;
const REFUSED: u8 = 0x40;

/// What the low bits of a code mean.
mod code {
    pub(super) const WAIT: u8 = 1;
    pub(super) const ISSUE: u8 = 2;
    pub(super) const DONE: u8 = 3;
    pub(super) const WAKE: u8 = 4;
    pub(super) const AGAIN: u8 = 5;
    pub(super) const SUBMIT: u8 = 6;
    pub(super) const COMPLETE: u8 = 7;
    pub(super) const REQUEUE: u8 = 8;
    pub(super) const CANCEL: u8 = 9;
    pub(super) const ATTACH: u8 = 10;
    pub(super) const DETACH: u8 = 11;
    pub(super) const SET_PRIORITY: u8 = 12;
    pub(super) const MOVE_CLIENT: u8 = 13;
    pub(super) const ADD_GROUP: u8 = 14;
    pub(super) const SET_GROUP_WEIGHT: u8 = 15;
    pub(super) const REMOVE_GROUP: u8 = 16;
    pub(super) const CHANGE_ELEVATOR: u8 = 17;
    pub(super) const SET_ATTRIBUTE: u8 = 18;
    pub(super) const PLUG: u8 = 19;
    pub(super) const UNPLUG: u8 = 20;
    pub(super) const DISPATCH_ALL: u8 = 21;
}

/// Bits of a shape: which of the rarer fields follow.
const SHAPE_FLAGS: u8 = 4;
const SHAPE_SEGMENTS: u8 = 8;
const SHAPE_PRIORITY: u8 = 16;
const SHAPE_SERVED: u8 = 4;
const WAIT_UNTIL: u8 = 16;

/// What both sides remember of the calls before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Past {
    now: u64,
    /// The sector after the last bio, and the one after the last command.
    bio_end: u64,
    command_end: u64,
    /// The cookie submitted last, and the one that came back last.
    cookie: u64,
    done: u64,
    until: u64,
}

/// A call that records have no word for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unspeakable;

/// Makes bytes of calls.
#[derive(Debug, Default)]
pub struct Encoder {
    past: Past,
    /// The last `next`, while it waits to be asked again, and how often it was.
    wait: Option<(Nanos, Answer)>,
    again: u32,
}

impl Encoder {
    /// Adds a call to `out`. Nothing of it is there if it is unspeakable, and nothing may follow.
    ///
    /// # Errors
    /// [`Unspeakable`]: an operation that is not known, a text beyond [`TEXT_MAX`].
    #[inline]
    pub fn entry(
        &mut self,
        out: &mut Vec<u8>,
        now: Nanos,
        call: &Call,
        answer: &Answer,
    ) -> Result<(), Unspeakable> {
        if *call == Call::Next && matches!(answer, Answer::Wait { .. }) {
            let this = Some((now, *answer));
            if self.wait == this && self.again < AGAIN_MAX {
                self.again += 1;
                return Ok(());
            }
            self.flush(out);
            self.wait = this;
        } else {
            self.flush(out);
            self.wait = None;
        }
        let before = out.len();
        self.put(out, now, call, answer).inspect_err(|_| out.truncate(before))
    }

    /// Adds what was only counted so far.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if self.again > 0 {
            out.push(code::AGAIN);
            put_varint(out, self.again.into());
            self.again = 0;
        }
    }

    fn put(
        &mut self,
        out: &mut Vec<u8>,
        now: Nanos,
        call: &Call,
        answer: &Answer,
    ) -> Result<(), Unspeakable> {
        let mut code = code_of(call, answer);
        if now.0 != self.past.now {
            code |= ANOTHER_TIME;
        }
        if let Answer::Refused(_) = answer {
            code |= REFUSED;
        }
        out.push(code);
        if now.0 != self.past.now {
            put_varint(out, step(self.past.now, now.0));
            self.past.now = now.0;
        }
        self.arguments(out, call)?;
        self.answer(out, answer)
    }

    fn arguments(&mut self, out: &mut Vec<u8>, call: &Call) -> Result<(), Unspeakable> {
        match call {
            Call::Next | Call::DispatchAll => {}
            Call::Submit(bio) => self.bio(out, bio)?,
            Call::Complete { tag, outcome } => {
                put_name(out, *tag);
                put_outcome(out, *outcome);
            }
            Call::Requeue { tag } => put_name(out, *tag),
            Call::Cancel { ticket } => put_varint(out, ticket.map_or(0, |ticket| ticket + 1)),
            Call::Attach { group, priority, weight, pid } => {
                put_name(out, *group);
                put_priority(out, *priority);
                put_varint(out, (*weight).into());
                put_varint(out, (*pid).into());
            }
            Call::Detach { client } | Call::Plug { client } | Call::Unplug { client } => {
                put_name(out, *client);
            }
            Call::SetPriority { client, priority, weight } => {
                put_name(out, *client);
                put_priority(out, *priority);
                put_varint(out, (*weight).into());
            }
            Call::MoveClient { client, to } => {
                put_name(out, *client);
                put_name(out, *to);
            }
            Call::AddGroup { parent: group, weight } | Call::SetGroupWeight { group, weight } => {
                put_name(out, *group);
                put_varint(out, (*weight).into());
            }
            Call::RemoveGroup { group } => put_name(out, *group),
            Call::ChangeElevator { name } => put_short_text(out, name)?,
            Call::SetAttribute { name, text } => {
                put_short_text(out, name)?;
                put_short_text(out, text)?;
            }
        }
        Ok(())
    }

    fn bio(&mut self, out: &mut Vec<u8>, bio: &BioOf) -> Result<(), Unspeakable> {
        let mut shape = op_code(bio.op)?;
        let rarer = [
            (SHAPE_FLAGS, bio.flags != Flags::NONE),
            (SHAPE_SEGMENTS, bio.segments != 1),
            (SHAPE_PRIORITY, bio.priority.is_some()),
        ];
        for (bit, is_there) in rarer {
            shape |= if is_there { bit } else { 0 };
        }
        out.push(shape);
        put_name(out, bio.client);
        put_varint(out, step(self.past.bio_end, bio.sector));
        put_varint(out, bio.sectors.into());
        put_varint(out, step(self.past.cookie, bio.cookie));
        if bio.flags != Flags::NONE {
            put_varint(out, bio.flags.bits().into());
        }
        if bio.segments != 1 {
            put_varint(out, bio.segments.into());
        }
        if let Some(priority) = bio.priority {
            put_priority(out, priority);
        }
        self.past.bio_end = bio.sector.wrapping_add(bio.sectors.into());
        self.past.cookie = bio.cookie;
        Ok(())
    }

    fn answer(&mut self, out: &mut Vec<u8>, answer: &Answer) -> Result<(), Unspeakable> {
        match *answer {
            Answer::Fine => {}
            Answer::Refused(refusal) => out.push(refusal as u8),
            Answer::Slot(number) | Answer::Count(number) => put_varint(out, number.into()),
            Answer::Issue(issued) => {
                let flagged = issued.flags != Flags::NONE;
                out.push(op_code(issued.op)? | if flagged { SHAPE_FLAGS } else { 0 });
                put_varint(out, issued.tag.into());
                put_varint(out, step(self.past.command_end, issued.sector));
                put_varint(out, issued.sectors.into());
                put_name(out, issued.client);
                if flagged {
                    put_varint(out, issued.flags.bits().into());
                }
                self.past.command_end = issued.sector.wrapping_add(issued.sectors.into());
            }
            Answer::Done { cookie, outcome } => {
                put_varint(out, step(self.past.done, cookie));
                put_outcome(out, outcome);
                self.past.done = cookie;
            }
            Answer::Wake(client) => put_name(out, client),
            Answer::Wait { until, why } => {
                let place = REASONS.iter().position(|&known| known == why).unwrap_or(0);
                let place = u8::try_from(place).unwrap_or(0);
                out.push(place | if until.is_some() { WAIT_UNTIL } else { 0 });
                if let Some(until) = until {
                    put_varint(out, step(self.past.until, until.0));
                    self.past.until = until.0;
                }
            }
        }
        Ok(())
    }
}

const fn code_of(call: &Call, answer: &Answer) -> u8 {
    match call {
        Call::Next => match answer {
            Answer::Issue(_) => code::ISSUE,
            Answer::Done { .. } => code::DONE,
            Answer::Wake(_) => code::WAKE,
            _ => code::WAIT,
        },
        Call::Submit(_) => code::SUBMIT,
        Call::Complete { .. } => code::COMPLETE,
        Call::Requeue { .. } => code::REQUEUE,
        Call::Cancel { .. } => code::CANCEL,
        Call::Attach { .. } => code::ATTACH,
        Call::Detach { .. } => code::DETACH,
        Call::SetPriority { .. } => code::SET_PRIORITY,
        Call::MoveClient { .. } => code::MOVE_CLIENT,
        Call::AddGroup { .. } => code::ADD_GROUP,
        Call::SetGroupWeight { .. } => code::SET_GROUP_WEIGHT,
        Call::RemoveGroup { .. } => code::REMOVE_GROUP,
        Call::ChangeElevator { .. } => code::CHANGE_ELEVATOR,
        Call::SetAttribute { .. } => code::SET_ATTRIBUTE,
        Call::Plug { .. } => code::PLUG,
        Call::Unplug { .. } => code::UNPLUG,
        Call::DispatchAll => code::DISPATCH_ALL,
    }
}

/// Makes calls of a block's bytes.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    input: Input<'a>,
    past: &'a mut Memory,
    again: u32,
}

/// What a decoder remembers from one block to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    past: Past,
    wait: Option<Answer>,
}

impl<'a> Decoder<'a> {
    pub(super) const fn new(payload: &'a [u8], past: &'a mut Memory) -> Decoder<'a> {
        Decoder { input: Input::new(payload), past, again: 0 }
    }

    /// Number of bytes read so far.
    pub(super) const fn at(&self) -> usize {
        self.input.at()
    }

    /// The next call; `None` at the end of the block.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Bad> {
        if self.again == 0 {
            if self.input.is_at_end() {
                return Ok(None);
            }
            if let Some(entry) = self.entry()? {
                return Ok(Some(entry));
            }
        }
        self.again -= 1;
        let answer = self.past.wait.ok_or(Bad("nothing was answered that could be again"))?;
        Ok(Some(Entry { now: Nanos(self.past.past.now), call: Call::Next, answer }))
    }

    /// A call, or none if the last one was repeated that many times.
    fn entry(&mut self) -> Result<Option<Entry>, Bad> {
        let code = self.input.byte()?;
        if code == code::AGAIN {
            self.again = self.input.number()?;
            if self.again == 0 || self.again > AGAIN_MAX {
                return Err(Bad("something is repeated never, or too often"));
            }
            return Ok(None);
        }
        let past = &mut self.past.past;
        if code & ANOTHER_TIME != 0 {
            past.now = stepped(past.now, self.input.varint()?);
        }
        let now = Nanos(past.now);
        let kind = code & !(ANOTHER_TIME | REFUSED);
        let call = self.call(kind)?;
        let answer = if code & REFUSED == 0 { self.answer(kind)? } else { self.refusal(kind)? };
        self.past.wait = matches!(answer, Answer::Wait { .. }).then_some(answer);
        Ok(Some(Entry { now, call, answer }))
    }

    fn call(&mut self, kind: u8) -> Result<Call, Bad> {
        Ok(match kind {
            code::WAIT | code::ISSUE | code::DONE | code::WAKE => Call::Next,
            code::SUBMIT => Call::Submit(self.bio()?),
            code::COMPLETE => Call::Complete { tag: self.name()?, outcome: self.outcome()? },
            code::REQUEUE => Call::Requeue { tag: self.name()? },
            code::CANCEL => Call::Cancel { ticket: self.input.varint()?.checked_sub(1) },
            code::ATTACH => Call::Attach {
                group: self.name()?,
                priority: self.priority()?,
                weight: self.input.number()?,
                pid: self.input.number()?,
            },
            code::DETACH => Call::Detach { client: self.name()? },
            code::SET_PRIORITY => Call::SetPriority {
                client: self.name()?,
                priority: self.priority()?,
                weight: self.input.number()?,
            },
            code::MOVE_CLIENT => Call::MoveClient { client: self.name()?, to: self.name()? },
            code::ADD_GROUP => {
                Call::AddGroup { parent: self.name()?, weight: self.input.number()? }
            }
            code::SET_GROUP_WEIGHT => {
                Call::SetGroupWeight { group: self.name()?, weight: self.input.number()? }
            }
            code::REMOVE_GROUP => Call::RemoveGroup { group: self.name()? },
            code::CHANGE_ELEVATOR => Call::ChangeElevator { name: self.text()? },
            code::SET_ATTRIBUTE => Call::SetAttribute { name: self.text()?, text: self.text()? },
            code::PLUG => Call::Plug { client: self.name()? },
            code::UNPLUG => Call::Unplug { client: self.name()? },
            code::DISPATCH_ALL => Call::DispatchAll,
            _ => return Err(Bad("there is no call of this code")),
        })
    }

    fn answer(&mut self, kind: u8) -> Result<Answer, Bad> {
        Ok(match kind {
            code::WAIT => self.wait()?,
            code::ISSUE => self.issued()?,
            code::DONE => {
                let past = &mut self.past.past;
                past.done = stepped(past.done, self.input.varint()?);
                Answer::Done { cookie: past.done, outcome: self.outcome()? }
            }
            code::WAKE => Answer::Wake(self.name()?),
            code::ATTACH | code::ADD_GROUP => Answer::Slot(self.input.number()?),
            code::DISPATCH_ALL => Answer::Count(self.input.number()?),
            _ => Answer::Fine,
        })
    }

    fn refusal(&mut self, kind: u8) -> Result<Answer, Bad> {
        if matches!(kind, code::WAIT | code::ISSUE | code::DONE | code::WAKE) {
            return Err(Bad("next refuses nothing"));
        }
        let place = usize::from(self.input.byte()?);
        let refusal = REFUSALS.get(place).ok_or(Bad("there is no refusal of this number"))?;
        Ok(Answer::Refused(refusal.0))
    }

    fn bio(&mut self) -> Result<BioOf, Bad> {
        let shape = self.input.byte()?;
        let has = |bit| shape & bit != 0;
        let client = self.name()?;
        let past = &mut self.past.past;
        let sector = stepped(past.bio_end, self.input.varint()?);
        let sectors: u32 = self.input.number()?;
        past.bio_end = sector.wrapping_add(sectors.into());
        past.cookie = stepped(past.cookie, self.input.varint()?);
        let cookie = past.cookie;
        let flags = if has(SHAPE_FLAGS) { self.flags()? } else { Flags::NONE };
        let segments = if has(SHAPE_SEGMENTS) { self.input.number()? } else { 1 };
        let priority = if has(SHAPE_PRIORITY) { Some(self.priority()?) } else { None };
        let op = op_of(shape & 3);
        Ok(BioOf { client, op, sector, sectors, segments, flags, priority, cookie })
    }

    fn issued(&mut self) -> Result<Answer, Bad> {
        let shape = self.input.byte()?;
        let tag = self.input.number()?;
        let past = &mut self.past.past;
        let sector = stepped(past.command_end, self.input.varint()?);
        let sectors: u32 = self.input.number()?;
        past.command_end = sector.wrapping_add(sectors.into());
        let client = self.name()?;
        let flags = if shape & SHAPE_FLAGS != 0 { self.flags()? } else { Flags::NONE };
        let op = op_of(shape & 3);
        Ok(Answer::Issue(Issued { tag, op, sector, sectors, flags, client }))
    }

    fn wait(&mut self) -> Result<Answer, Bad> {
        let shape = self.input.byte()?;
        let place = usize::from(shape & !WAIT_UNTIL);
        let why: Waiting =
            *REASONS.get(place).ok_or(Bad("there is no reason to wait of this number"))?;
        let past = &mut self.past.past;
        let mut until = None;
        if shape & WAIT_UNTIL != 0 {
            past.until = stepped(past.until, self.input.varint()?);
            until = Some(Nanos(past.until));
        }
        Ok(Answer::Wait { until, why })
    }

    fn name(&mut self) -> Result<Name, Bad> {
        match self.input.varint()? {
            0 => Ok(Name::Nobody),
            number => {
                let slot = u32::try_from((number >> 1).wrapping_sub(1));
                let slot = slot.map_err(|_| Bad("there is no slot of this number"))?;
                Ok(if number & 1 == 0 { Name::Slot(slot) } else { Name::Old(slot) })
            }
        }
    }

    fn priority(&mut self) -> Result<Priority, Bad> {
        let number: u16 = self.input.number()?;
        let [class, level] = number.to_be_bytes();
        let class = match class {
            0 => Class::Realtime,
            1 => Class::BestEffort,
            2 => Class::Idle,
            _ => return Err(Bad("there is no class of this number")),
        };
        Ok(Priority { class, level })
    }

    fn flags(&mut self) -> Result<Flags, Bad> {
        let bits: u16 = self.input.number()?;
        let known = KNOWN.into_iter().filter(|flag| bits & flag.bits() != 0);
        let flags = known.fold(Flags::NONE, |flags, flag| flags | flag);
        if flags.bits() == bits { Ok(flags) } else { Err(Bad("there is no flag of this bit")) }
    }

    fn outcome(&mut self) -> Result<Outcome, Bad> {
        let shape = self.input.byte()?;
        let status = match shape & 3 {
            0 => Status::Ok,
            1 => {
                let errno = stepped(0, self.input.varint()?).cast_signed();
                Status::Failed(i32::try_from(errno).map_err(|_| Bad("an errno is too large"))?)
            }
            2 => Status::Cancelled,
            _ => return Err(Bad("there is no outcome of this number")),
        };
        let served = shape & SHAPE_SERVED != 0;
        let served = if served { Some(Nanos(self.input.varint()?)) } else { None };
        Ok(Outcome { status, served })
    }

    fn text(&mut self) -> Result<String, Bad> {
        self.input.text(TEXT_MAX).map(str::to_owned)
    }
}

/// All flags of a bio.
const KNOWN: [Flags; 9] = [
    Flags::SYNC,
    Flags::META,
    Flags::PRIO,
    Flags::FUA,
    Flags::PREFLUSH,
    Flags::AHEAD,
    Flags::NOIDLE,
    Flags::NOMERGE,
    Flags::BACKGROUND,
];

const fn op_code(op: Op) -> Result<u8, Unspeakable> {
    match op {
        Op::Read => Ok(0),
        Op::Write => Ok(1),
        Op::Discard => Ok(2),
        Op::Flush => Ok(3),
        _ => Err(Unspeakable),
    }
}

/// The operation of two bits.
const fn op_of(code: u8) -> Op {
    match code {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Discard,
        _ => Op::Flush,
    }
}

#[inline]
fn put_name(out: &mut Vec<u8>, name: Name) {
    let number = match name {
        Name::Nobody => 0,
        Name::Slot(slot) => (u64::from(slot) + 1) << 1,
        Name::Old(slot) => (u64::from(slot) + 1) << 1 | 1,
    };
    put_varint(out, number);
}

fn put_priority(out: &mut Vec<u8>, priority: Priority) {
    let number = u16::from_be_bytes([priority.class as u8, priority.level]);
    put_varint(out, number.into());
}

#[inline]
fn put_outcome(out: &mut Vec<u8>, outcome: Outcome) {
    let status = match outcome.status {
        Status::Ok => 0,
        Status::Failed(_) => 1,
        Status::Cancelled => 2,
    };
    out.push(status | if outcome.served.is_some() { SHAPE_SERVED } else { 0 });
    if let Status::Failed(errno) = outcome.status {
        put_varint(out, step(0, i64::from(errno).cast_unsigned()));
    }
    if let Some(served) = outcome.served {
        put_varint(out, served.0);
    }
}

fn put_short_text(out: &mut Vec<u8>, text: &str) -> Result<(), Unspeakable> {
    if text.len() > TEXT_MAX {
        return Err(Unspeakable);
    }
    put_text(out, text);
    Ok(())
}

/// The number of a refusal is its place in [`REFUSALS`].
const _: () = {
    let mut place = 0;
    while place < REFUSALS.len() {
        assert!(REFUSALS[place].0 as usize == place);
        place += 1;
    }
    assert!(Refusal::Other as usize + 1 == REFUSALS.len());
};
