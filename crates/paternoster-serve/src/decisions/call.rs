// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls: what a queue is asked and what it answers, with numbers instead of handles.
//!
//! A client, a group, a command in the device is named by the slot that its handle gives, which is
//! the same in every queue that was asked the same; a handle that was kept too long is *old*. A bio
//! is named by how many were accepted before it.
//!
//! ```text
//! attach ─▶ slot 3          submit (client 3) ─▶ fine        detach (client 3)
//! attach ─▶ slot 3 again    submit (old client 3) ─▶ no such client
//! ```

use std::fmt;

use paternoster_core::{
    AddError, AttributeError, CancelError, Flags, InUse, Nanos, Op, Outcome, Priority, Stale,
    Status, SubmitError, Waiting,
};

/// The client, group or bio that the call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// No client.
    Nobody,
    /// The client that has this slot, or had it last.
    Slot(u32),
    /// An earlier holder of this slot.
    Old(u32),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Nobody => f.write_str("nobody"),
            Name::Slot(slot) => write!(f, "{slot}"),
            Name::Old(slot) => write!(f, "{slot} of before"),
        }
    }
}

/// A bio that is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as those of paternoster_core::Bio")]
pub struct BioOf {
    pub client: Name,
    pub op: Op,
    pub sector: u64,
    pub sectors: u32,
    pub segments: u16,
    pub flags: Flags,
    pub priority: Option<Priority>,
    pub cookie: u64,
}

/// A call to a queue: one of its public methods that change it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the arguments have the methods' names for them")]
pub enum Call {
    Next,
    Submit(BioOf),
    Complete {
        tag: Name,
        outcome: Outcome,
    },
    Requeue {
        tag: Name,
    },
    /// The bio's number; `None`: it had ended already.
    Cancel {
        ticket: Option<u64>,
    },
    Attach {
        group: Name,
        priority: Priority,
        weight: u32,
        pid: u32,
    },
    Detach {
        client: Name,
    },
    SetPriority {
        client: Name,
        priority: Priority,
        weight: u32,
    },
    MoveClient {
        client: Name,
        to: Name,
    },
    AddGroup {
        parent: Name,
        weight: u32,
    },
    SetGroupWeight {
        group: Name,
        weight: u32,
    },
    RemoveGroup {
        group: Name,
    },
    ChangeElevator {
        name: String,
    },
    SetAttribute {
        name: String,
        text: String,
    },
    Plug {
        client: Name,
    },
    Unplug {
        client: Name,
    },
    DispatchAll,
}

impl Call {
    /// Whether it is about a client or group that comes, changes or goes, not about I/O. Older
    /// records have no time for these calls.
    pub(super) const fn is_of_members(&self) -> bool {
        matches!(self, Call::Attach { .. } | Call::AddGroup { .. } | Call::RemoveGroup { .. })
    }

    /// Bytes of its texts.
    pub(super) const fn text_bytes(&self) -> usize {
        match self {
            Call::ChangeElevator { name } => name.len(),
            Call::SetAttribute { name, text } => name.len() + text.len(),
            _ => 0,
        }
    }
}

/// Why a queue did not do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the errors of the library")]
pub enum Refusal {
    Busy,
    NoClient,
    BeyondEnd,
    TooLarge,
    Size,
    Stale,
    TooLate,
    Merged,
    Full,
    NoGroup,
    InUse,
    UnknownAttribute,
    ReadOnly,
    Value,
    Capacity,
    /// An error that is younger than records.
    Other,
}

/// All refusals, in the order of their numbers in records, each with its text.
pub(super) const REFUSALS: [(Refusal, &str); 16] = [
    (Refusal::Busy, "busy"),
    (Refusal::NoClient, "no such client"),
    (Refusal::BeyondEnd, "beyond the end"),
    (Refusal::TooLarge, "too large"),
    (Refusal::Size, "a size that it cannot have"),
    (Refusal::Stale, "gone already"),
    (Refusal::TooLate, "too late"),
    (Refusal::Merged, "merged"),
    (Refusal::Full, "no place is left"),
    (Refusal::NoGroup, "no such group"),
    (Refusal::InUse, "in use"),
    (Refusal::UnknownAttribute, "no such attribute"),
    (Refusal::ReadOnly, "read-only"),
    (Refusal::Value, "no value for it"),
    (Refusal::Capacity, "more than there is room for"),
    (Refusal::Other, "another error"),
];

impl From<SubmitError> for Refusal {
    fn from(error: SubmitError) -> Refusal {
        match error {
            SubmitError::Busy => Refusal::Busy,
            SubmitError::NoClient => Refusal::NoClient,
            SubmitError::BeyondEnd { .. } => Refusal::BeyondEnd,
            SubmitError::TooLarge { .. } => Refusal::TooLarge,
            SubmitError::Size => Refusal::Size,
            _ => Refusal::Other,
        }
    }
}

impl From<Stale> for Refusal {
    fn from(_: Stale) -> Refusal {
        Refusal::Stale
    }
}

impl From<InUse> for Refusal {
    fn from(_: InUse) -> Refusal {
        Refusal::InUse
    }
}

impl From<CancelError> for Refusal {
    fn from(error: CancelError) -> Refusal {
        match error {
            CancelError::Stale => Refusal::Stale,
            CancelError::TooLate => Refusal::TooLate,
            CancelError::Merged => Refusal::Merged,
            _ => Refusal::Other,
        }
    }
}

impl From<AddError> for Refusal {
    fn from(error: AddError) -> Refusal {
        match error {
            AddError::Full { .. } => Refusal::Full,
            AddError::NoGroup => Refusal::NoGroup,
            _ => Refusal::Other,
        }
    }
}

impl From<&AttributeError> for Refusal {
    fn from(error: &AttributeError) -> Refusal {
        match error {
            AttributeError::Unknown { .. } => Refusal::UnknownAttribute,
            AttributeError::ReadOnly { .. } => Refusal::ReadOnly,
            AttributeError::Value { .. } | AttributeError::Part { .. } => Refusal::Value,
            AttributeError::Capacity { .. } => Refusal::Capacity,
            _ => Refusal::Other,
        }
    }
}

/// A command that is given to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as those of paternoster_core::Command")]
pub struct Issued {
    pub tag: u32,
    pub op: Op,
    pub sector: u64,
    pub sectors: u32,
    pub flags: Flags,
    pub client: Name,
}

/// The answer of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as those of paternoster_core::Output and what the methods return")]
pub enum Answer {
    /// Done as asked; of a bio: accepted.
    Fine,
    Refused(Refusal),
    /// The slot of a new client or group.
    Slot(u32),
    /// The number of dispatched requests.
    Count(u32),
    Issue(Issued),
    Done {
        cookie: u64,
        outcome: Outcome,
    },
    Wake(Name),
    Wait {
        until: Option<Nanos>,
        why: Waiting,
    },
}

/// Reasons to wait by their number in records.
pub(super) const REASONS: [Waiting; 9] = [
    Waiting::Empty,
    Waiting::InDevice,
    Waiting::DeviceFull,
    Waiting::Idling,
    Waiting::Completion,
    Waiting::Plugged,
    Waiting::Flush,
    Waiting::Throttled,
    Waiting::Refused,
];

/// A call, when it was made, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When; for calls without a time that of the call before.
    pub now: Nanos,
    /// The call.
    pub call: Call,
    /// The queue's answer.
    pub answer: Answer,
}

/// What an operation is called in tables.
#[must_use]
pub const fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
        Op::Flush => "flush",
        _ => "other",
    }
}

fn outcome_in_words(f: &mut fmt::Formatter<'_>, outcome: Outcome) -> fmt::Result {
    match outcome.status {
        Status::Ok => f.write_str("done")?,
        Status::Failed(errno) => write!(f, "failed with errno {errno}")?,
        Status::Cancelled => f.write_str("cancelled")?,
    }
    match outcome.served {
        Some(served) => write!(f, " in {} ns of device time", served.0),
        None => Ok(()),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Answer::Fine => f.write_str("fine"),
            Answer::Refused(refusal) => {
                let words = REFUSALS.iter().find(|(known, _)| *known == refusal);
                f.write_str(words.map_or("refused", |(_, words)| words))
            }
            Answer::Slot(slot) => write!(f, "slot {slot}"),
            Answer::Count(count) => write!(f, "{count} requests"),
            Answer::Issue(Issued { tag, op, sector, sectors, flags, client }) => {
                let op = op_name(op);
                write!(f, "{op} {sectors} sectors from {sector}, client {client}, tag {tag}")?;
                if flags == Flags::NONE { Ok(()) } else { write!(f, ", flags {}", flags.bits()) }
            }
            Answer::Done { cookie, outcome } => {
                write!(f, "bio {cookie:#x} is ")?;
                outcome_in_words(f, outcome)
            }
            Answer::Wake(client) => write!(f, "wake client {client}"),
            Answer::Wait { until: None, why } => write!(f, "wait ({why:?})"),
            Answer::Wait { until: Some(until), why } => {
                write!(f, "wait until {} ns ({why:?})", until.0)
            }
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Next => f.write_str("next"),
            Call::Submit(bio) => {
                let (op, sectors, sector) = (op_name(bio.op), bio.sectors, bio.sector);
                write!(f, "submit: {op} {sectors} sectors from {sector}, client {}", bio.client)
            }
            Call::Complete { tag, outcome } => {
                write!(f, "complete tag {tag}: ")?;
                outcome_in_words(f, *outcome)
            }
            Call::Requeue { tag } => write!(f, "requeue tag {tag}"),
            Call::Cancel { ticket: Some(ticket) } => write!(f, "cancel bio number {ticket}"),
            Call::Cancel { ticket: None } => f.write_str("cancel a bio that has ended"),
            Call::Attach { group, weight, .. } => {
                write!(f, "attach a client to group {group}, weight {weight}")
            }
            Call::Detach { client } => write!(f, "detach client {client}"),
            Call::SetPriority { client, priority, weight } => {
                let Priority { class, level } = priority;
                write!(f, "set client {client} to {class:?} {level}, weight {weight}")
            }
            Call::MoveClient { client, to } => write!(f, "move client {client} to group {to}"),
            Call::AddGroup { parent, weight } => {
                write!(f, "add a group below {parent}, weight {weight}")
            }
            Call::SetGroupWeight { group, weight } => {
                write!(f, "set the weight of group {group} to {weight}")
            }
            Call::RemoveGroup { group } => write!(f, "remove group {group}"),
            Call::ChangeElevator { name } => write!(f, "change to {name}"),
            Call::SetAttribute { name, text } => write!(f, "set {name:?} to {text:?}"),
            Call::Plug { client } => write!(f, "plug client {client}"),
            Call::Unplug { client } => write!(f, "unplug client {client}"),
            Call::DispatchAll => f.write_str("dispatch all"),
        }
    }
}
