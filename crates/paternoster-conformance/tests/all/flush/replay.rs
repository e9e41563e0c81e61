// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log replayed: what comes from outside is done to our queue, at its time; what the queue gives
//! is compared.
//!
//! | in the log | done here |
//! |---|---|
//! | a bio comes to the elevator or to the flush sequencer (`I`) | `submit` |
//! | the driver asks | `next` |
//! | the device refuses | `requeue` |
//! | a command ends | `complete` |
//!
//! `submit` is called at `I` and not at `Q`: between them a bio of that kernel is in its process's
//! plug, for some 10 us. Nothing is forced: had ours given another command, it would be in the
//! device instead, and each later line would show it.
//!
//! Which bio ends with which flush follows from [`What::GoesOn`]: the processes wait for each of
//! their bios, so one that submits has got the one before.

use std::collections::BTreeMap;

use paternoster_core::{
    Bio, ClientId, ClientSpec, Command, DeviceFacts, Flags, Nanos, Op, Outcome, Output,
    RequestQueue, Tag, Waiting,
};

use super::account::Account;
use super::driver::{Driver, What};
use super::log::{Log, Shape};

/// A disk on AHCI with a volatile cache, without FUA: 32 commands and the one that the SCSI layer
/// looks at; a flush is alone; 512 KiB at most, as legacy queues have it (BLK-2).
fn disk() -> DeviceFacts {
    let (write_cache, flush_queueable) = (true, false);
    DeviceFacts { depth: 33, write_cache, flush_queueable, max_sectors: 1024, ..Default::default() }
}

/// The attributes of that kernel; deadline and cfq have Linux's from the beginning.
const LINUX: [(&str, &str); 8] = [
    ("rules", "legacy"),
    ("hz", "1000"),
    ("nr_requests", "128"),
    ("ncq", "probe"),
    ("flush_hold", "unqueueable"),
    ("flush_elide", "0"),
    ("flush_insert", "tail"),
    ("flush_owners", "0"),
];

/// A queue in place of the kernel's.
pub(super) struct Replay {
    queue: RequestQueue,
    now: Nanos,
    line: u64,
    clients: BTreeMap<u32, ClientId>,
    /// The bio of each process that has not ended.
    under_way: BTreeMap<u32, Shape>,
    in_device: BTreeMap<Shape, Tag>,
    account: Account,
}

impl Replay {
    /// Replays a log with the attributes that its name gives.
    pub(super) fn run(log: &Log) -> Account {
        let hold = if log.is_held() { "unqueueable" } else { "off" };
        Replay::run_with(log, &[("flush_hold", hold)])
    }

    /// Replays a log with these attributes of flushes, which otherwise are Linux's with the hold.
    pub(super) fn run_with(log: &Log, attributes: &[(&str, &str)]) -> Account {
        let driver = Driver::read(&log.lines);
        let mut replay = Replay::new(log.scheduler());
        for (name, value) in attributes {
            replay.set(name, value);
        }
        for moment in &driver.moments {
            (replay.now, replay.line) = (moment.at, moment.line);
            replay.make(moment.what);
        }
        replay.queue.audit().expect("a sound queue");
        Account { own: driver.own, late: driver.late, ..replay.account }
    }

    fn new(scheduler: &str) -> Replay {
        let elevator = paternoster_schedulers::by_name(scheduler).expect("a scheduler");
        let queue = RequestQueue::builder(disk(), elevator).build().expect("its limits work");
        let (clients, under_way) = (BTreeMap::new(), BTreeMap::new());
        let (in_device, account) = (BTreeMap::new(), Account::default());
        let (now, line) = (Nanos::ZERO, 0);
        let mut replay = Replay { queue, now, line, clients, under_way, in_device, account };
        for (name, value) in LINUX {
            replay.set(name, value);
        }
        if scheduler == "cfq-4.19" {
            // 4.19's default for non-rotational devices; group_idle stays at 8.
            replay.set("slice_idle", "0");
        }
        replay
    }

    fn set(&mut self, name: &str, value: &str) {
        self.queue.set_attribute(self.now, name, value).expect("an attribute");
    }

    fn make(&mut self, what: What) {
        match what {
            What::GoesOn { pid } => self.goes_on(pid),
            What::Comes { pid, shape } => self.submit(pid, shape),
            What::Nothing => self.nothing(),
            What::Looks => {
                let ours = self.ask();
                self.compare(ours == Err(Waiting::Refused), "the driver can only look", ours);
            }
            What::Leaves(shape) => {
                self.account.linux.leaves(shape, self.now);
                let ours = self.ask();
                self.compare(ours == Ok(shape), &format!("Linux gives {shape}"), ours);
            }
            What::ComesBack(shape) => self.requeue(shape),
            What::Ends(shape) => self.complete(shape),
            What::FlushedBio => self.account.linux.waited(),
        }
    }

    fn compare(&mut self, same: bool, linux: &str, ours: Result<Shape, Waiting>) {
        if !same {
            let ours = ours.map_or_else(|why| format!("{why:?}"), |shape| shape.to_string());
            self.account.differences.push(format!("line {}: {linux}, ours: {ours}", self.line));
        }
    }

    fn goes_on(&mut self, pid: u32) {
        if let Some(&shape) = self.under_way.get(&pid) {
            self.compare(false, &format!("Linux has ended what {pid} had submitted"), Ok(shape));
        }
    }

    fn submit(&mut self, pid: u32, shape: Shape) {
        let queue = &mut self.queue;
        let attach =
            || queue.attach(Nanos::ZERO, ClientSpec::new().pid(pid)).expect("room for clients");
        let client = *self.clients.entry(pid).or_insert_with(attach);
        let flags = if shape.op == Op::Write { Flags::SYNC } else { Flags::NONE };
        let bio = Bio::new(client, shape.op, shape.sector, shape.sectors);
        let bio = bio.flags(flags).cookie(pid.into());
        match self.queue.submit(self.now, bio) {
            Ok(_) => _ = self.under_way.insert(pid, shape),
            Err(_) => self.compare(false, &format!("Linux takes {shape}"), Err(Waiting::Empty)),
        }
    }

    fn nothing(&mut self) {
        let ours = self.ask();
        self.compare(ours.is_err(), "Linux gives nothing", ours);
        let mut others = self.under_way.values().filter(|shape| !shape.is_flush());
        let waits = others.any(|shape| !self.in_device.contains_key(shape));
        let held = ours == Err(Waiting::Flush) && self.account.ours.is_flushing();
        self.account.held += u32::from(held && waits);
    }

    /// What the queue gives, once it has handed back what has ended.
    fn ask(&mut self) -> Result<Shape, Waiting> {
        loop {
            match self.queue.next(self.now) {
                Output::Issue(command) => return Ok(self.take(&command)),
                Output::Done(cookie, _) => self.ended(cookie),
                Output::Wake(_) => {}
                Output::Wait { why, .. } => return Err(why),
            }
        }
    }

    fn take(&mut self, command: &Command) -> Shape {
        let Command { op, sector, sectors, tag, .. } = *command;
        let shape = Shape { op, sector, sectors };
        self.in_device.insert(shape, tag);
        self.account.ours.leaves(shape, self.now);
        shape
    }

    fn ended(&mut self, cookie: u64) {
        let pid = u32::try_from(cookie).expect("a pid");
        match self.under_way.remove(&pid) {
            Some(shape) if shape.is_flush() => self.account.ours.waited(),
            Some(_) => {}
            None => self.compare(false, &format!("process {pid} waits once"), Err(Waiting::Empty)),
        }
    }

    fn requeue(&mut self, shape: Shape) {
        self.account.linux.comes_back(shape);
        match self.in_device.remove(&shape) {
            Some(tag) => {
                self.account.ours.comes_back(shape);
                self.queue.requeue(self.now, tag).expect("a command in the device");
            }
            None => self.compare(false, &format!("{shape} is refused"), Err(Waiting::Empty)),
        }
    }

    fn complete(&mut self, shape: Shape) {
        self.account.linux.ends(shape, self.now);
        match self.in_device.remove(&shape) {
            Some(tag) => {
                self.account.ours.ends(shape, self.now);
                self.queue.complete(self.now, tag, Outcome::OK).expect("a command in the device");
            }
            None => self.compare(false, &format!("{shape} ends"), Err(Waiting::Empty)),
        }
    }
}
