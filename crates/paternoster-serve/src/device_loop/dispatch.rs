// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatch: the twenty lines around the queue, and what a command is made of.
//!
//! ```text
//! loop  completions ─▶ queue      next: Issue ─▶ job ─▶ backend
//!                                       Done  ─▶ fragment ends
//!                                       Wake  ─▶ connection goes on
//!                                       Wait  ─▶ sleep until then
//! ```
//!
//! The order at one instant is the library's: completions, timers, submissions, then `next` until
//! it waits, or until a round's work is done: otherwise a device that does everything at once would
//! get all waiting requests, and all that these release, before another client is served.

use paternoster_core::{Command, Nanos, Op, Outcome, Output, Status, Tag};

use super::DeviceLoop;
use super::commands::{Commands, Given};
use super::connection_table::Connections;
use super::io_fragment::{Io, Step};
use super::requests::Requests;
use super::surveys::{RUNS, RUNS_OF_ONE};
use crate::config::Level;
use crate::device::lender::Loan;
use crate::device::{Job, Work};
use crate::log::Entry;
use crate::recorded_queue::RecordedQueue;
use crate::stats::Stats;

const EIO: i32 = 5;
/// Work of a round: commands, with one more for each 8 KiB beyond the first few; and ends, of which
/// one command may have many.
pub(super) const ROUND: u32 = 32;
const SECTORS: u32 = 16;
const FEW: u32 = 8;
const ENDS: u32 = 4 * ROUND;
/// How long a round gives commands to a device that does each at once, and so in the loop's time. A
/// client that has one request at a time is served once a round, so it waits for a round's length.
/// Measured against 16 clients that write durably (docs/serve/security.md): a reader had 0.36 to
/// 0.80 of its due with rounds of 32 commands, and 0.74 to 1.90 with 40 us; two clients with 32
/// requests each lose 2 to 3 % of their throughput.
const SPAN: Nanos = Nanos::from_micros(40);
/// Answers, in pages, that are sent before the queue has been emptied.
const ENOUGH: u32 = 32;

impl DeviceLoop {
    /// Asks the queue until it waits, or enough was done for a round; returns when to ask again at
    /// the latest.
    pub(super) fn dispatch(&mut self) -> Option<Nanos> {
        let (mut work, mut ends) = (0, 0);
        let began = self.time.now;
        loop {
            if work >= ROUND
                || ends >= ENDS
                || self.commands.have_spent(&self.time.clock, began + SPAN)
            {
                self.commands.kick();
                return Some(self.time.now);
            }
            if self.replies.unsent() >= ENOUGH {
                self.send_all();
            }
            match self.recorded_queue.next(self.time.now) {
                Output::Issue(command) => {
                    work += self.issue(command);
                }
                Output::Done(cookie, outcome) => {
                    ends += 1;
                    self.bio_done(cookie, outcome);
                }
                Output::Wake(client) => {
                    if let Some(connection) = self.connections.of_client(client) {
                        self.wake(connection);
                    }
                }
                Output::Wait { until, .. } => {
                    self.commands.kick();
                    // What is done at once has ended by now.
                    if !self.reap() {
                        return until;
                    }
                }
            }
        }
    }

    /// Tells the queue what has ended; returns whether anything has.
    pub(super) fn reap(&mut self) -> bool {
        if self.commands.is_empty() {
            return false;
        }
        self.time.look();
        let any = self.commands.reap(self.time.now);
        while let Some((tag, error)) = self.commands.ended() {
            take_home(&mut self.commands, &mut self.requests);
            let Some(tag) = tag else { continue };
            if error != 0 && !self.is_too_slow(tag, error) {
                self.complain(tag, error);
            }
            let outcome = if error == 0 { Outcome::OK } else { Outcome::failed(error) };
            // The tag was issued and has not been completed.
            let _known = self.recorded_queue.complete(self.time.now, tag, outcome);
        }
        any
    }

    /// Whether zeroes were refused, as was asked, because they would have to be written.
    fn is_too_slow(&self, tag: Tag, errno: i32) -> bool {
        fragment_of(&self.recorded_queue, tag)
            .is_some_and(|fragment| self.requests.fragment(fragment).work.is_too_slow(errno))
    }

    /// Logs that the device has failed a command, and once that it has lost data, if it has.
    fn complain(&mut self, tag: Tag, errno: i32) {
        let (volume, what) = match fragment_of(&self.recorded_queue, tag) {
            None => (None, "a flush".to_owned()),
            Some(fragment) => {
                let fragment = self.requests.fragment(fragment);
                let place = self.connections.at(self.requests.io(fragment.io).connection).place;
                (Some(place), fragment.in_words())
            }
        };
        self.complaints.complain(self.time.now, &self.volumes, volume, &what, errno);
        let Some(errno) = self.commands.loss() else { return };
        let error = std::io::Error::from_raw_os_error(errno);
        Entry::new(Level::Error, "loss").with("device", &*self.name).tell(format_args!(
            "device {}: a flush failed: {error}; data that were acknowledged may be lost, and \
             every flush is told so until the server is started anew",
            self.name
        ));
    }

    /// Gives a command to the backend; returns how much work that was.
    fn issue(&mut self, command: Command) -> u32 {
        let tag = command.tag;
        let (work, place) = gather(
            &self.recorded_queue,
            &self.connections,
            &mut self.requests,
            &mut self.commands,
            &command,
        );
        if work == Work::Prefetch
            && fragment_of(&self.recorded_queue, tag)
                .is_some_and(|fragment| self.requests.is_question(fragment))
        {
            // The device has nothing to do for it: only its turn mattered.
            let _known = self.recorded_queue.complete(self.time.now, tag, Outcome::OK);
            return 1;
        }
        let place = place.map(|place| self.volumes.at(place));
        let job = Job {
            slot: tag.index(),
            work,
            file: place.map_or(0, |place| place.file),
            offset: place.map_or(0, |place| place.file_offset(command.sector)),
            length: u64::from(command.sectors) * 512,
            // The loans are the pieces.
            pieces: &[],
            sector: command.sector,
        };
        match self.commands.give(self.time.now, tag, job) {
            Given::Taken => {}
            Given::Burst => {
                self.reap();
            }
            Given::Refused => {
                take_home(&mut self.commands, &mut self.requests);
                // Just issued.
                let _known = self.recorded_queue.requeue(self.time.now, tag);
            }
        }
        1 + command.sectors.saturating_sub(FEW) / SECTORS
    }

    /// A bio has ended.
    fn bio_done(&mut self, cookie: u64, outcome: Outcome) {
        let index = index_of(cookie);
        let error = match outcome.status {
            Status::Ok => 0,
            Status::Failed(errno) => errno,
            Status::Cancelled => EIO,
        };
        self.requests.fragment_mut(index).ticket = None;
        let connection = self.requests.owner(index);
        self.tenants.at_mut(self.connections.at(connection).tenant).under_way -= 1;
        self.shared.queue_limit.ended(self.time.now);
        if self.requests.fragment(index).reads_first && error == 0 {
            if let Some(edges) = self.requests.fragment_mut(index).mend() {
                self.shared.give_back(&mut self.connections, connection, edges);
            }
            self.submit(index);
        } else if error == 0 && self.requests.is_question(index) {
            // It has had its turn in the queue, and waits for the thread that asks.
            self.requests.fragment_mut(index).step = Step::Asking;
            self.surveys.wait(self.connections.at(connection).tenant, index);
        } else {
            self.end_fragment(index, error);
        }
    }

    /// Ends the question that was answered, and asks the next.
    pub(super) fn survey(&mut self) {
        if self.surveys.is_asking()
            && let Some((error, runs)) = self.commands.lender().surveyed()
        {
            self.time.look();
            if let Some(fragment) = self.surveys.end(self.time.now) {
                self.requests.fragment_mut(fragment).runs = runs;
                self.end_fragment(fragment, error);
            }
        }
        let Some(fragment) = self.surveys.begin(self.time.now) else { return };
        let Io { connection, request, .. } = *self.requests.io_of(fragment);
        let place = self.volumes.at(self.connections.at(connection).place);
        let range = (place.start + request.offset, u64::from(request.length));
        let most = if request.flags.req_one() { RUNS_OF_ONE } else { RUNS };
        #[cfg(test)]
        let most = if super::planted::has(super::planted::Bug::TellsAllRuns) { 2048 } else { most };
        self.commands.lender().survey(place.file, range, most);
    }
}

/// The first fragment of a command.
pub(super) fn fragment_of(queue: &RecordedQueue<Stats>, tag: Tag) -> Option<u32> {
    queue.queue().cookies(tag).next().map(index_of)
}

/// Memory that was or should have been lent goes back to its fragments.
fn take_home(commands: &mut Commands, requests: &mut Requests) {
    while let Some(Loan { whose, block, .. }) = commands.returned() {
        let fragment = requests.fragment_mut(whose);
        let memory = if fragment.reads_first { &mut fragment.edges } else { &mut fragment.block };
        *memory = Some(block);
    }
}

/// What a command does, and on which volume's file; collects its fragments' memory for lending.
fn gather(
    queue: &RecordedQueue<Stats>,
    connections: &Connections,
    requests: &mut Requests,
    commands: &mut Commands,
    command: &Command,
) -> (Work, Option<u32>) {
    if command.op == Op::Flush {
        return (Work::Flush, None);
    }
    let mut found = None;
    for cookie in queue.queue().cookies(command.tag) {
        let whose = index_of(cookie);
        let place = connections.at(requests.owner(whose)).place;
        let fragment = requests.fragment_mut(whose);
        let work = if fragment.reads_first { Work::Read } else { fragment.work };
        found = Some((work, place));
        let memory = if fragment.reads_first { &mut fragment.edges } else { &mut fragment.block };
        if let Some(block) = memory.take() {
            commands.lend(Loan { whose, length: fragment.span, block });
        }
    }
    let (work, place) = found.expect("a command carries bios");
    // A merged command is durable if one of its bios asks for it: the queue sets the command's
    // flags so.
    let work = match work {
        Work::Write { .. } => {
            Work::Write { fua: command.flags.contains(paternoster_core::Flags::FUA) }
        }
        Work::Zero { may_unmap, fast, .. } => {
            let fua = command.flags.contains(paternoster_core::Flags::FUA);
            Work::Zero { may_unmap, fua, fast }
        }
        other => other,
    };
    (work, Some(place))
}

/// The fragment that a bio's cookie names.
#[allow(clippy::cast_possible_truncation, reason = "cookies are indices of fragments")]
pub(super) const fn index_of(cookie: u64) -> u32 {
    cookie as u32
}
