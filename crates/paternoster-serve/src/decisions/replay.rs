// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay: every call of a record once more, and every answer compared.
//!
//! ```text
//! record ──▶ call ──▶ RequestQueue ──▶ answer ══ the recorded one? ──no──▶ the first difference
//!                          │ Issue                    │ yes
//!                          └──▶ dispatch order         └──▶ the next call
//! ```
//!
//! The replay ends with the first difference: what follows it follows from it. A record that breaks
//! off is repeated as far as it goes.
//!
//! Invariants: I1 no record makes it panic; I2 memory is that of the queue and of one block.

use std::io::Read;

use paternoster_core::{
    Bio, BuildError, ClientSpec, Flags, GroupSpec, Nanos, NoObserver, Observer, Op, RequestQueue,
};

use super::block::{Block, BlockReader, End, FileError, Header};
use super::bytes::{Bad, Digest};
use super::call::{Answer, BioOf, Call, Entry, Issued, Name, op_name};
use super::format::{Decoder, Memory};
use super::names::{Names, answer_of};

/// A command as it went to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// When.
    pub at: Nanos,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Properties.
    pub flags: Flags,
    /// The client's index; `None` for what the queue does by itself.
    pub client: Option<u32>,
}

impl Dispatch {
    /// The operation as a word.
    #[must_use]
    pub const fn op_name(&self) -> &'static str {
        op_name(self.op)
    }
}

/// What happens in a replay, for an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A client has this index from now on.
    Attached {
        /// The client's index.
        index: u32,
        /// The process, 0 if it is not known.
        pid: u32,
    },
    /// A command went to the device.
    Dispatched(Dispatch),
    /// The record ends here, for whatever reason.
    Over,
}

/// A record that was repeated with the same answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The queue.
    pub header: Header,
    /// Calls.
    pub calls: u64,
    /// Bios that were accepted.
    pub bios: u64,
    /// Commands that went to the device.
    pub commands: u64,
    /// Clients that were attached.
    pub clients: u64,
    /// The times of the first call that has one and of the last.
    pub span: Option<(Nanos, Nanos)>,
    /// Digest of the dispatch order, with its times.
    pub digest: u64,
    /// How the record ended.
    pub end: End,
}

/// The first answer that was another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Calls before it.
    pub record: u64,
    /// Offset of the call in the file.
    pub byte: u64,
    /// When it was.
    pub now: Nanos,
    /// The version of the program that wrote the record.
    pub program: String,
    /// The call, in words.
    pub call: String,
    /// The recorded answer.
    pub recorded: String,
    /// The answer of this replay.
    pub came: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { record, byte, now, call, recorded, came, program } = self;
        write!(f, "call {record} (byte {byte}, at {} ns), {call}: recorded was ", now.0)?;
        write!(f, "`{recorded}`, now came `{came}`")?;
        if program == env!("CARGO_PKG_VERSION") {
            return Ok(());
        }
        write!(f, "; the record is of version {program}, this is {}", env!("CARGO_PKG_VERSION"))
    }
}

/// A record was not repeated, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Something is wrong with the file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The elevator is unknown.
    #[error("its scheduler `{0}` is none that this program has")]
    Elevator(String),
    /// The queue's limits cannot work.
    #[error("its queue cannot be made: {0}")]
    Queue(#[from] BuildError),
    /// An answer was another one.
    #[error("{0}")]
    Difference(Box<Difference>),
}

/// Repeats a record.
///
/// # Errors
/// What is wrong with the record, or the first difference.
pub fn replay(record: impl Read) -> Result<Replayed, ReplayError> {
    replay_with(record, |_| NoObserver, &mut |_, _: &mut NoObserver| {})
}

/// Repeats a record on a queue that is observed; `each` hears of every step, [`Step::Over`] last.
///
/// # Errors
/// What is wrong with the record, or the first difference.
pub fn replay_with<O: Observer>(
    record: impl Read,
    observe: impl FnOnce(&Header) -> O,
    each: &mut dyn FnMut(Step, &mut O),
) -> Result<Replayed, ReplayError> {
    let (mut blocks, header) = BlockReader::new(record)?;
    let mut player = Player::new(header, observe)?;
    let end = player.blocks(&mut blocks, each);
    each(Step::Over, player.queue.observer_mut());
    end.map(|end| player.finish(end))
}

/// A call cannot be made again: it names what never was.
struct Unknown;

struct Player<O: Observer> {
    queue: RequestQueue<O>,
    names: Names,
    header: Header,
    calls: u64,
    commands: u64,
    clients: u64,
    span: Option<(Nanos, Nanos)>,
    digest: Digest,
}

impl<O: Observer> Player<O> {
    fn new(header: Header, observe: impl FnOnce(&Header) -> O) -> Result<Player<O>, ReplayError> {
        // Watched as in the recording, so that a law broken there is broken here, too.
        let (elevator, _) = crate::watchdog::by_name(&header.elevator)
            .ok_or_else(|| ReplayError::Elevator(header.elevator.clone()))?;
        let observer = observe(&header);
        let queue = RequestQueue::builder(header.facts, elevator)
            .limits(header.limits)
            .observer(observer)
            .build()?;
        Ok(Player {
            names: Names::new(&header.limits, header.facts.depth, queue.root()),
            queue,
            header,
            calls: 0,
            commands: 0,
            clients: 0,
            span: None,
            digest: Digest::default(),
        })
    }

    fn finish(self, end: End) -> Replayed {
        Replayed {
            calls: self.calls,
            bios: self.names.tickets.accepted(),
            commands: self.commands,
            clients: self.clients,
            span: self.span,
            digest: self.digest.0,
            header: self.header,
            end,
        }
    }

    fn blocks(
        &mut self,
        blocks: &mut BlockReader<impl Read>,
        each: &mut dyn FnMut(Step, &mut O),
    ) -> Result<End, ReplayError> {
        let mut memory = Memory::default();
        loop {
            let at = blocks.at();
            match blocks.next()? {
                Block::Calls => {
                    let first = blocks.at() - blocks.payload().len() as u64;
                    self.calls(blocks.payload(), first, &mut memory, each)?;
                }
                Block::End(cut, calls) if calls == self.calls => {
                    return Ok(cut.map_or(End::Complete, End::Cut));
                }
                Block::End(..) => {
                    let why = "there are more or fewer calls than the end says";
                    return Err(FileError::Damaged { at, why }.into());
                }
                Block::BrokenOff => return Ok(End::BrokenOff(at)),
            }
        }
    }

    fn calls(
        &mut self,
        payload: &[u8],
        first: u64,
        memory: &mut Memory,
        each: &mut dyn FnMut(Step, &mut O),
    ) -> Result<(), ReplayError> {
        let mut decoder = Decoder::new(payload, memory);
        loop {
            let at = first + decoder.at() as u64;
            let entry = match decoder.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                Err(Bad(why)) => return Err(FileError::Damaged { at, why }.into()),
            };
            let came = self.perform(&entry);
            if let Ok(came) = came
                && came == entry.answer
            {
                self.tell(&entry, each);
                continue;
            }
            let came = came.map_or_else(
                |Unknown| "nothing: it cannot be asked".into(),
                |came| came.to_string(),
            );
            return Err(ReplayError::Difference(Box::new(Difference {
                record: self.calls,
                byte: at,
                now: entry.now,
                program: self.header.program.clone(),
                call: entry.call.to_string(),
                recorded: entry.answer.to_string(),
                came,
            })));
        }
    }

    fn perform(&mut self, entry: &Entry) -> Result<Answer, Unknown> {
        let (queue, names, now) = (&mut self.queue, &mut self.names, entry.now);
        let client = |names: &Names, name: Name| names.clients.handle(name).ok_or(Unknown);
        let group = |names: &Names, name: Name| names.groups.handle(name).ok_or(Unknown);
        let tag = |names: &Names, name: Name| names.tags.handle(name).ok_or(Unknown);
        Ok(match &entry.call {
            Call::Next => {
                let output = queue.next(now);
                let answer = names.output(&output);
                if matches!(answer, Answer::Wait { .. }) {
                    names.tickets.tidy(|ticket| queue.request_with(ticket).is_some());
                }
                answer
            }
            Call::Submit(bio) => {
                let BioOf { op, sector, sectors, segments, flags, priority, cookie, .. } = *bio;
                let client = client(names, bio.client)?;
                let bio = Bio { client, op, sector, sectors, segments, flags, priority, cookie };
                names.submitted(&queue.submit(now, bio))
            }
            Call::Complete { tag: name, outcome } => {
                answer_of(queue.complete(now, tag(names, *name)?, *outcome))
            }
            Call::Requeue { tag: name } => answer_of(queue.requeue(now, tag(names, *name)?)),
            Call::Cancel { ticket } => {
                answer_of(queue.cancel(now, names.tickets.ticket(*ticket).ok_or(Unknown)?))
            }
            Call::Attach { group: name, priority, weight, pid } => {
                let spec = ClientSpec::new().group(group(names, *name)?).weight(*weight).pid(*pid);
                names.attached(&queue.attach(now, spec.priority(priority.class, priority.level)))
            }
            Call::Detach { client: name } => answer_of(queue.detach(now, client(names, *name)?)),
            Call::SetPriority { client: name, priority, weight } => {
                answer_of(queue.set_priority(now, client(names, *name)?, *priority, *weight))
            }
            Call::MoveClient { client: name, to } => {
                answer_of(queue.move_client(now, client(names, *name)?, group(names, *to)?))
            }
            Call::AddGroup { parent, weight } => {
                let spec = GroupSpec::new().parent(group(names, *parent)?).weight(*weight);
                names.group_added(&queue.add_group(now, spec))
            }
            Call::SetGroupWeight { group: name, weight } => {
                answer_of(queue.set_group_weight(now, group(names, *name)?, *weight))
            }
            Call::RemoveGroup { group: name } => {
                answer_of(queue.remove_group(now, group(names, *name)?))
            }
            Call::ChangeElevator { name } => {
                let (elevator, _) = crate::watchdog::by_name(name).ok_or(Unknown)?;
                queue.change_elevator(now, elevator);
                Answer::Fine
            }
            Call::SetAttribute { name, text } => {
                let answer = queue.set_attribute(now, name, text);
                answer_of(answer.as_ref().copied())
            }
            Call::Plug { client: name } => answer_of(queue.plug(now, client(names, *name)?)),
            Call::Unplug { client: name } => answer_of(queue.unplug(now, client(names, *name)?)),
            Call::DispatchAll => Answer::Count(queue.dispatch_all(now)),
        })
    }

    /// Counts what was done, and calls the observer.
    fn tell(&mut self, entry: &Entry, each: &mut dyn FnMut(Step, &mut O)) {
        self.calls += 1;
        if !entry.call.is_of_members() {
            let first = self.span.map_or(entry.now, |(first, _)| first);
            self.span = Some((first, entry.now));
        }
        match (&entry.call, entry.answer) {
            (Call::Attach { pid, .. }, Answer::Slot(index)) => {
                self.clients += 1;
                each(Step::Attached { index, pid: *pid }, self.queue.observer_mut());
            }
            (_, Answer::Issue(Issued { op, sector, sectors, flags, client, .. })) => {
                let client = match client {
                    Name::Slot(index) | Name::Old(index) => Some(index),
                    Name::Nobody => None,
                };
                let dispatch = Dispatch { at: entry.now, op, sector, sectors, flags, client };
                self.commands += 1;
                self.digest.take(&digestible(&dispatch));
                each(Step::Dispatched(dispatch), self.queue.observer_mut());
            }
            _ => {}
        }
    }
}

/// A dispatch as bytes: time, sector, length, client, flags, operation.
fn digestible(dispatch: &Dispatch) -> [u8; 27] {
    let mut bytes = [0; 27];
    bytes[..8].copy_from_slice(&dispatch.at.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&dispatch.sector.to_le_bytes());
    bytes[16..20].copy_from_slice(&dispatch.sectors.to_le_bytes());
    bytes[20..24].copy_from_slice(&dispatch.client.unwrap_or(u32::MAX).to_le_bytes());
    bytes[24..26].copy_from_slice(&dispatch.flags.bits().to_le_bytes());
    bytes[26] = match dispatch.op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
        _ => 3,
    };
    bytes
}
