// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutter: puts each record into its call, and lets calls go in order.
//!
//! ```text
//! slots   Bio  Issue  Dispatch  Allocate  Insert
//!         │                │                 └ open: its speaker may go on
//!         │                └ waits for its D: everything after it waits, too
//!         └ goes next
//! ```
//!
//! A call gets its slot with its first record. A call that began before the lock (`Q`, `C`) moves
//! to a new one with its first words under it, because that is its place in the order; the old slot
//! remains, empty.
//!
//! Source: `calls.rs`, which explains why.

use std::collections::{BTreeMap, VecDeque};

use super::link::Choices;
use super::{Call, CallKind, HELD_MAX, Issued, Merge, RECORDS_MAX, Service};
use crate::ftrace::bfq::{BfqMessage, QueueName};
use crate::ftrace::line::{Action, Context, Device, Event, Record, What};

/// Devices of one log at most; then everything is let go and forgotten.
const DEVICES_MAX: usize = 256;

/// The speaker of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Speaker {
    /// A task, by its pid.
    Task(u32),
    /// A processor's idle task, all of which have the pid 0.
    Idle(u32),
    /// Soft interrupts of a processor.
    Soft(u32),
    /// Hard interrupts of a processor.
    Hard(u32),
}

impl Speaker {
    fn of(record: &Record) -> Speaker {
        match record.context {
            Context::Task if record.pid == 0 => Speaker::Idle(record.cpu),
            Context::Task => Speaker::Task(record.pid),
            Context::SoftInterrupt => Speaker::Soft(record.cpu),
            Context::Interrupt => Speaker::Hard(record.cpu),
        }
    }
}

/// A place in the order of calls.
#[derive(Debug)]
struct Slot {
    /// `None` once it has moved.
    call: Option<Call>,
    /// Whether records may still come.
    open: bool,
    /// Whether its `D` may still come.
    waits: bool,
}

/// The call that speaks under the lock of a device.
#[derive(Debug, Clone, Copy)]
struct Open {
    slot: u64,
    speaker: Speaker,
    /// The depth of its messages: all of a call have the same.
    depth: u8,
}

#[derive(Debug, Default)]
struct OfDevice {
    open: Option<Open>,
    choices: Choices,
}

/// Puts records into calls.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    slots: VecDeque<Slot>,
    /// Number of the first of them.
    first: u64,
    /// Calls that began before the lock, and have not gone on.
    heads: BTreeMap<Speaker, u64>,
    devices: BTreeMap<Device, OfDevice>,
    last_ns: u64,
}

impl Cutter {
    /// The next call, if it is complete.
    pub(super) fn pop(&mut self) -> Option<Call> {
        while let Some(slot) = self.slots.front() {
            if slot.open || slot.waits {
                return None;
            }
            self.first += 1;
            let call = self.slots.pop_front().and_then(|slot| slot.call);
            if call.is_some() {
                return call;
            }
        }
        None
    }

    /// The end: every call is complete as it is.
    pub(super) fn let_all_go(&mut self) {
        self.heads.clear();
        self.devices.clear();
        for slot in &mut self.slots {
            (slot.open, slot.waits) = (false, false);
        }
    }

    /// Lines are missing.
    pub(super) fn lost(&mut self, line: u64, cpu: u32, events: Option<u64>) {
        self.let_all_go();
        let call = Call {
            kind: CallKind::Lost { events },
            line,
            entered_ns: self.last_ns,
            at_ns: self.last_ns,
            cpu,
            pid: 0,
            task: String::new(),
            context: Context::default(),
            device: Device::default(),
            records: Vec::new(),
        };
        self.slots.push_back(Slot { call: Some(call), open: false, waits: false });
    }

    /// Takes the next record.
    pub(super) fn record(&mut self, record: Record) {
        self.last_ns = record.at_ns;
        let unseen = !self.devices.contains_key(&record.device);
        if self.slots.len() >= HELD_MAX || (unseen && self.devices.len() >= DEVICES_MAX) {
            self.let_all_go();
        }
        let speaker = Speaker::of(&record);
        match &record.what {
            What::Event(event) => {
                let event = *event;
                self.event(speaker, record, event);
            }
            What::Message { queue, message } => {
                let (queue, message) = (*queue, message.clone());
                self.message(speaker, record, queue, &message);
            }
            // Whatever it is, it is not about bfq's calls.
            What::Note(_) => self.alone(record, CallKind::Other),
        }
    }

    fn event(&mut self, speaker: Speaker, record: Record, event: Event) {
        let Event { action, sector, sectors, error, .. } = event;
        let device = record.device;
        match action {
            Action::Queue => {
                self.head(speaker, record, CallKind::Bio { sector, sectors, merged: None });
            }
            Action::Complete => {
                self.of(device).choices.completed();
                let queue = None;
                self.head(speaker, record, CallKind::Complete { queue, sector, sectors, error });
            }
            Action::Requeue => {
                self.of(device).choices.requeued(sector, sectors);
                self.head(speaker, record, CallKind::Requeue { sector, sectors });
            }
            Action::Get => self.allocated(speaker, record, sector, sectors),
            Action::BackMerge => self.merged(speaker, record, Merge::Back),
            Action::FrontMerge => self.merged(speaker, record, Merge::Front),
            Action::Insert => self.inserted(speaker, record, sector, sectors),
            Action::Issue => {
                self.finish(speaker);
                let dispatch = self.link(speaker, &record, sector, sectors);
                self.alone(record, CallKind::Issue { sector, sectors, dispatch });
            }
            Action::Plug | Action::Unplug | Action::UnplugTimer => {
                self.finish(speaker);
                self.alone(record, CallKind::Plug);
            }
            Action::Sleep | Action::Split | Action::Bounce | Action::Remap => {
                self.finish(speaker);
                self.alone(record, CallKind::Other);
            }
        }
    }

    /// `G` ends what `limit_depth` began.
    fn allocated(&mut self, speaker: Speaker, record: Record, sector: u64, sectors: u32) {
        let kind = CallKind::Allocate { sector, sectors };
        if let Some(call) = self.head_of(speaker, record.device)
            && matches!(call.kind, CallKind::Allocate { .. })
        {
            call.kind = kind;
            call.records.push(record);
            self.finish(speaker);
        } else {
            self.finish(speaker);
            self.alone(record, kind);
        }
    }

    /// `M` and `F` report a bio's result, under the lock or without.
    fn merged(&mut self, speaker: Speaker, record: Record, how: Merge) {
        let open = self.open_of(speaker, record.device).map(|open| open.slot);
        let slot = self.heads.get(&speaker).copied().or(open);
        let call = slot.and_then(|slot| self.call(slot));
        if let Some(Call { kind: CallKind::Bio { merged, .. }, records, .. }) = call
            && merged.is_none()
        {
            *merged = Some(how);
            records.push(record);
        } else {
            self.finish(speaker);
            self.alone(record, CallKind::Other);
        }
    }

    /// `I` is in the middle of an insertion, or begins one if its scheduler says nothing.
    fn inserted(&mut self, speaker: Speaker, record: Record, at: u64, many: u32) {
        if let Some(open) = self.open_of(speaker, record.device)
            && let Some(call) = self.call(open.slot)
            && let CallKind::Insert { sector, sectors, .. } = &mut call.kind
            && *sectors == 0
        {
            (*sector, *sectors) = (at, many);
            call.records.push(record);
            return;
        }
        let (queue, request) = (None, None);
        let kind = CallKind::Insert { queue, request, sector: at, sectors: many };
        self.open(speaker, record, kind);
    }

    fn message(
        &mut self,
        speaker: Speaker,
        record: Record,
        queue: Option<QueueName>,
        message: &BfqMessage,
    ) {
        let device = record.device;
        match message {
            BfqMessage::LimitDepth { .. } => {
                let (sector, sectors) = (0, 0);
                return self.head(speaker, record, CallKind::Allocate { sector, sectors });
            }
            BfqMessage::DispatchRequests { busy } => {
                let (busy, served, issued) = (*busy, None, None);
                self.open(speaker, record, CallKind::Dispatch { busy, served, issued });
            }
            BfqMessage::NewPriority { .. }
            | BfqMessage::Allocated
            | BfqMessage::GetRequest { .. } => self.binds(speaker, record, message),
            _ => self.goes_on(speaker, record),
        }
        self.understand(speaker, device, queue, message);
    }

    /// A request gets its queue: an insertion begins, unless it has begun.
    fn binds(&mut self, speaker: Speaker, record: Record, message: &BfqMessage) {
        let (queue, sector, sectors) = (None, 0, 0);
        let fresh = CallKind::Insert { queue, request: None, sector, sectors };
        let again = matches!(message, BfqMessage::GetRequest { .. });
        if let Some(call) = self.goes_on_with(speaker, &record) {
            let joins = match &call.kind {
                CallKind::Insert { request, sectors, .. } => {
                    *sectors == 0 && !(again && request.is_some())
                }
                // A process gets a queue of its own again in words of unknown form.
                CallKind::Other => true,
                _ => false,
            };
            if joins {
                if call.kind == CallKind::Other {
                    call.kind = fresh;
                }
                return call.records.push(record);
            }
        }
        self.open(speaker, record, fresh);
    }

    /// Any other words: they go on with what their speaker has begun.
    fn goes_on(&mut self, speaker: Speaker, record: Record) {
        let head = self.head_of(speaker, record.device);
        if head.is_some_and(|head| !matches!(head.kind, CallKind::Allocate { .. })) {
            self.enter(speaker, record);
        } else if let Some(call) = self.goes_on_with(speaker, &record) {
            call.records.push(record);
        } else {
            let interrupt = record.context != Context::Task;
            let kind = if interrupt { CallKind::Timer } else { CallKind::Other };
            self.open(speaker, record, kind);
        }
    }

    /// The call under the lock that these words belong to, if it has room for them.
    fn goes_on_with(&mut self, speaker: Speaker, record: &Record) -> Option<&mut Call> {
        let open = self.open_of(speaker, record.device)?;
        let same = open.depth == record.preempt_depth;
        let call = self.call(open.slot)?;
        (same && call.records.len() < RECORDS_MAX).then_some(call)
    }

    /// What the words say about the call that they were just put into.
    fn understand(
        &mut self,
        speaker: Speaker,
        device: Device,
        named: Option<QueueName>,
        message: &BfqMessage,
    ) {
        use {BfqMessage as Says, CallKind as Kind};
        let Some(open) = self.open_of(speaker, device) else { return };
        let Some(call) = self.call(open.slot) else { return };
        match (&mut call.kind, message) {
            (Kind::Insert { request, queue, .. }, Says::GetRequest { request: address, .. }) => {
                (*request, *queue) = (Some(*address), named);
            }
            (Kind::Insert { queue, .. }, Says::AddRequest { .. })
            | (Kind::Complete { queue, .. }, Says::PutQueue { .. }) => *queue = named,
            (Kind::Dispatch { served: served @ None, .. }, Says::ReturnedThis) => {
                *served = named.map(|queue| Service { queue, sectors: 0 });
            }
            (Kind::Dispatch { served: Some(served), .. }, Says::Served { sectors })
                if served.sectors == 0 && Some(served.queue) == named =>
            {
                served.sectors = *sectors;
                self.chosen(open, device, *sectors);
            }
            (Kind::Dispatch { .. }, Says::NoneReturned) => self.close(device),
            (kind @ Kind::Other, Says::ExitQueue { .. }) => *kind = Kind::Exit { queue: named },
            _ => {}
        }
    }

    /// A request was chosen; its `D` is to come.
    fn chosen(&mut self, open: Open, device: Device, sectors: u64) {
        self.of(device).choices.chosen(open.slot, open.speaker, sectors);
        if let Some(slot) = self.slot(open.slot) {
            slot.waits = true;
        }
    }

    /// Links a `D` with the choice that it starts: the line of that call.
    fn link(&mut self, speaker: Speaker, record: &Record, at: u64, many: u32) -> Option<u64> {
        let (choice, sure) = self.of(record.device).choices.issued(speaker, at, many)?;
        let slot = self.slot(choice.slot)?;
        slot.waits = false;
        let call = slot.call.as_mut()?;
        if let CallKind::Dispatch { issued, .. } = &mut call.kind {
            let (line, at_ns) = (record.line, record.at_ns);
            *issued = Some(Issued { line, at_ns, sector: at, sectors: many, sure });
        }
        Some(call.line)
    }

    /// A call of one record.
    fn alone(&mut self, record: Record, kind: CallKind) {
        self.place(record, kind, false);
    }

    /// A call that begins before the lock.
    fn head(&mut self, speaker: Speaker, record: Record, kind: CallKind) {
        self.finish(speaker);
        let slot = self.place(record, kind, true);
        self.heads.insert(speaker, slot);
    }

    /// A call that begins under the lock: the previous holder's call is over.
    fn open(&mut self, speaker: Speaker, record: Record, kind: CallKind) {
        self.finish(speaker);
        let (device, depth) = (record.device, record.preempt_depth);
        self.close(device);
        let slot = self.place(record, kind, true);
        self.of(device).open = Some(Open { slot, speaker, depth });
    }

    /// A call that began before the lock takes it: that is its place in the order.
    fn enter(&mut self, speaker: Speaker, record: Record) {
        let Some(head) = self.heads.remove(&speaker) else { return };
        let Some(slot) = self.slot(head) else { return };
        slot.open = false;
        let Some(mut call) = slot.call.take() else { return };
        let (device, depth) = (record.device, record.preempt_depth);
        (call.line, call.entered_ns) = (record.line, record.at_ns);
        call.records.push(record);
        self.finish(speaker);
        self.close(device);
        let slot = self.next_slot();
        self.slots.push_back(Slot { call: Some(call), open: true, waits: false });
        self.of(device).open = Some(Open { slot, speaker, depth });
    }

    /// The speaker begins something else: its previous call is complete.
    fn finish(&mut self, speaker: Speaker) {
        if let Some(slot) = self.heads.remove(&speaker).and_then(|slot| self.slot(slot)) {
            slot.open = false;
        }
        let own = |open: &Open| open.speaker == speaker;
        let with = self.devices.iter().filter(|(_, of)| of.open.as_ref().is_some_and(own));
        let with: Option<Device> = with.map(|(device, _)| *device).next();
        if let Some(device) = with {
            self.close(device);
        }
    }

    /// The lock of this device is released.
    fn close(&mut self, device: Device) {
        let open = self.of(device).open.take();
        if let Some(slot) = open.and_then(|open| self.slot(open.slot)) {
            slot.open = false;
        }
    }

    fn place(&mut self, record: Record, kind: CallKind, open: bool) -> u64 {
        let number = self.next_slot();
        let call = Call {
            kind,
            line: record.line,
            entered_ns: record.at_ns,
            at_ns: record.at_ns,
            cpu: record.cpu,
            pid: record.pid,
            task: record.task.clone(),
            context: record.context,
            device: record.device,
            records: vec![record],
        };
        self.slots.push_back(Slot { call: Some(call), open, waits: false });
        number
    }

    /// The number of the slot that comes next.
    fn next_slot(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    fn of(&mut self, device: Device) -> &mut OfDevice {
        self.devices.entry(device).or_default()
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn call(&mut self, number: u64) -> Option<&mut Call> {
        self.slot(number)?.call.as_mut()
    }

    /// What this speaker has begun before the lock of this device.
    fn head_of(&mut self, speaker: Speaker, device: Device) -> Option<&mut Call> {
        let slot = *self.heads.get(&speaker)?;
        self.call(slot).filter(|call| call.device == device)
    }

    /// This speaker's open call under the lock of this device.
    fn open_of(&self, speaker: Speaker, device: Device) -> Option<Open> {
        self.devices.get(&device)?.open.filter(|open| open.speaker == speaker)
    }
}
