// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client: sends what its plan says and takes its own stream apart, byte by byte.
//!
//! Laws of the stream: S1 a reply is of a request that is outstanding, and the last of it; S2 a
//! structured read has chunks alone, within its range, each byte once, all of them when it says
//! done without an error; S3 a bad request is answered with its errno, and nothing else; S4 an
//! error has a cause, with its errno: something failed in its range while it was under way, or
//! before, if what failed is a promise; S5 the bytes are admissible (`book`); S6 the server hangs
//! up only on a read without structured replies of which something failed, and when a client has
//! disconnected and all is answered; S7 reported holes are in blocks, within the request, one run
//! if one was wanted, and a hole may be zeroes; S8 a trim with FUA is followed by a flush; S10 a
//! stop waits for accepted requests, as long as it has time; V1 so does the end of a volume that a
//! reload takes out, and what is sent after it is refused.

mod causes;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use paternoster_core::Nanos;
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::book::{Book, Leaves, bytes};
use super::medium::State;
use super::plan::{
    Ask, ClientPlan, DF, DISC, EXTENDED, FLUSH, FUA, LEAVE, READ, STATUS, TRIM, WRITE, ZEROES,
};
use super::shake::{Lie, Shake, Wanted};
use super::tenants::Count;
use causes::{data, holes, is_due, is_durable};

/// Bytes that are taken at a time, at most.
const ROOM: usize = 256 << 10;
/// Bytes of answers that a narrow socket takes, as requested; the kernel gives a few more.
const NARROW: usize = 4 << 10;
/// The error for a request to a volume that is being removed.
const SHUTDOWN: u32 = 108;
const SIMPLE: u32 = 0x6744_6698;
const CHUNK: u32 = 0x668e_33ef;
const EXTENDED_REQUEST: u32 = 0x21e4_1c71;

/// A request that is not answered.
#[derive(Debug)]
struct Open {
    ask: Ask,
    /// First byte of the medium that it is of, if nothing is wrong with it.
    at: u64,
    begin: u64,
    write: Option<u32>,
    /// Ranges that chunks have brought, and the error that one has reported.
    got: BTreeMap<u64, u64>,
    told: u32,
    runs: Vec<(u32, u32)>,
}

/// A client.
pub(super) struct Client {
    /// Number of the client; its cookies begin with it.
    number: u64,
    /// Few answers fit into its socket.
    is_narrow: bool,
    stream: Option<UnixStream>,
    wanted: Wanted,
    /// It has connected to this server.
    came: bool,
    shake: Option<Shake>,
    /// It has gone and does not come again.
    is_gone: bool,
    plan: ClientPlan,
    /// First byte of its volume in the medium.
    base: u64,
    next: usize,
    open: BTreeMap<u64, Open>,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// Buffer for received bytes.
    room: Vec<u8>,
    /// It has sent DISC.
    goes: bool,
    /// It has sent something that is no request. `last`: what it sends after that.
    is_lost: bool,
    last: Vec<u8>,
    /// Its volume is being removed.
    ousted: Option<Ousted>,
    /// It shook hands with a server that has handed over, which may have closed it.
    was_left: bool,
    /// What it sent, and what of that was answered: bounds of what the server may count for it.
    pub(super) asked: Count,
    pub(super) answered: Count,
    /// Bytes of data that were moved for it, at least.
    pub(super) moved: u64,
    /// Digest of all bytes received.
    pub(super) digest: u64,
}

/// What the judge knows besides the stream.
pub(super) struct World<'a> {
    pub(super) book: &'a mut Book,
    pub(super) medium: &'a State,
    pub(super) beat: u64,
    pub(super) oldest: u64,
    /// The server was asked to stop, and had accepted these requests by then.
    pub(super) stops: Option<&'a BTreeSet<u64>>,
    /// The time for that is over.
    pub(super) is_late: bool,
    pub(super) now: Nanos,
}

/// The state of a client whose volume is being removed.
#[derive(Debug)]
struct Ousted {
    /// What was accepted by then, by cookie.
    accepted: BTreeSet<u64>,
    /// Requests that were sent after this beat are too late.
    beat: u64,
    /// When it must be disconnected.
    by: Nanos,
}

impl Client {
    pub(super) fn new(
        (number, is_narrow): (u64, bool),
        plan: ClientPlan,
        base: u64,
        wanted: Wanted,
    ) -> Client {
        Client {
            number,
            is_narrow,
            stream: None,
            wanted,
            came: false,
            shake: None,
            is_gone: false,
            plan,
            base,
            next: 0,
            open: BTreeMap::new(),
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            room: Vec::new(),
            goes: false,
            is_lost: false,
            last: Vec::new(),
            ousted: None,
            was_left: false,
            asked: Count::default(),
            answered: Count::default(),
            moved: 0,
            digest: 0,
        }
    }

    /// Whether it is to come one day.
    pub(super) fn is_awaited(&self) -> bool {
        !self.came && !self.is_gone
    }

    /// Whether its round to come is there.
    pub(super) fn is_to_come(&self, round: u64) -> bool {
        self.is_awaited() && self.plan.shake.comes <= round
    }

    /// Connects; returns the server's end of its socket.
    pub(super) fn come(&mut self) -> OwnedFd {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        ours.set_nonblocking(true).expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        if self.is_narrow {
            // The server has sent some of an answer when others want to go.
            set_socket_send_buffer_size(&theirs, NARROW).expect("a socket");
        }
        let (shake, said) = Shake::begin(&self.plan.shake, self.wanted.clone());
        self.was_left = false;
        (self.stream, self.shake, self.came) = (Some(ours), Some(shake), true);
        self.out.splice(0..0, said);
        OwnedFd::from(theirs)
    }

    /// Its server has gone. Unanswered changes are there or not, and answers come no more.
    pub(super) fn lose_server(&mut self, book: &mut Book, beat: u64) {
        self.is_gone |= self.is_done() || self.goes || self.is_lost;
        self.is_gone |= self.came && self.plan.shake.lie.is_some();
        for write in std::mem::take(&mut self.open).into_values().filter_map(|open| open.write) {
            book.end(write, beat, false, false);
        }
        (self.stream, self.shake, self.came) = (None, None, false);
        self.ousted = None;
        self.out.clear();
        self.input.clear();
        self.sent = 0;
        // The next server owes a flush for what this one has left.
        let flush = Ask { kind: FLUSH, flags: 0, at: 0, length: 0, due: 0 };
        let is_next = |ask: &Ask| ask.kind == FLUSH;
        if self.plan.flushes_first && !self.plan.asks.get(self.next).is_some_and(is_next) {
            self.plan.asks.insert(self.next, flush);
        }
    }

    /// It does not come again: its volume does not.
    pub(super) const fn give_up(&mut self) {
        self.is_gone = true;
    }

    /// Notes the present name of its volume.
    pub(super) fn is_of(&mut self, name: String) {
        self.wanted.name = name;
    }

    /// Its volume goes, and requests accepted by then are answered; a client in handshake hangs up,
    /// even one that sends nonsense: its options would get the answer that there is no such volume.
    pub(super) fn is_ousted(
        &mut self,
        accepted: &BTreeSet<u64>,
        by: Nanos,
        book: &mut Book,
        beat: u64,
    ) {
        if self.shake.is_some() {
            self.lose_server(book, beat);
        } else if self.stream.is_some() {
            let accepted = self.open.keys().filter(|it| accepted.contains(it)).copied().collect();
            self.ousted = Some(Ousted { accepted, beat, by });
        }
    }

    /// Its server hands over: a client in handshake has to connect again.
    pub(super) fn is_passed_on(&mut self) {
        self.was_left = self.shake.is_some();
    }

    pub(super) fn is_done(&self) -> bool {
        let has_all = self.next == self.plan.asks.len() && self.open.is_empty();
        let is_in = self.came && self.shake.is_none();
        self.is_gone || (is_in && has_all && !self.goes && !self.is_lost)
    }

    /// When the oldest request was sent that is not answered.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.open.values().map(|open| open.begin).min()
    }

    pub(super) fn unanswered(&self) -> Vec<Ask> {
        self.open.values().map(|open| open.ask).collect()
    }

    /// Bytes of data, and requests, without an answer yet.
    pub(super) fn waits_for(&self) -> [u64; 2] {
        let open = || self.open.values().map(|open| open.ask);
        let data = open().filter(|ask| ask.due == 0 && matches!(ask.kind, READ | WRITE));
        [data.map(|ask| u64::from(ask.length)).sum(), open().count() as u64]
    }

    pub(super) fn hang_up(&mut self) {
        self.stream = None;
    }

    /// Sends up to `most` bytes; how many went.
    pub(super) fn send(&mut self, most: usize, book: &mut Book, state: &mut State) -> usize {
        let lie = self.plan.shake.lie;
        let may_ask = self.stream.is_some()
            && lie.is_none()
            && (self.shake.is_none() || self.plan.shake.is_eager);
        while may_ask && self.open.len() < self.plan.depth && self.out.len() - self.sent < most {
            let Some(&ask) = self.plan.asks.get(self.next) else { break };
            self.next += 1;
            if ask.kind == LEAVE {
                (self.stream, self.is_gone) = (None, true);
                return 1;
            }
            if ask.kind == EXTENDED {
                self.lose(ask);
                break;
            }
            self.begin(ask, book, state);
        }
        if self.out.is_empty() {
            std::mem::swap(&mut self.out, &mut self.last);
        }
        let Some(stream) = &mut self.stream else { return 0 };
        let end = (self.sent + most).min(self.out.len());
        if self.sent == end {
            return 0;
        }
        // Where the server has hung up, the reading side tells.
        let sent = stream.write(&self.out[self.sent..end]).unwrap_or(0);
        self.sent += sent;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            if lie == Some(Lie::Leaves) {
                (self.stream, self.is_gone) = (None, true);
            }
        }
        sent
    }

    fn begin(&mut self, ask: Ask, book: &mut Book, state: &mut State) {
        let (cookie, begin) = (self.number << 32 | self.next as u64, state.beat);
        self.goes |= ask.kind == DISC;
        let leaves = match ask.kind {
            WRITE => Some(Leaves::Data),
            ZEROES => Some(Leaves::Zeroes),
            TRIM => Some(Leaves::Hint),
            _ => None,
        };
        let leaves = leaves.filter(|_| ask.due == 0);
        let (at, length) = (self.base.wrapping_add(ask.at), u64::from(ask.length));
        let write = leaves.map(|leaves| book.begin(leaves, at, length, begin));
        if ask.due == 0 {
            self.asked.add(ask);
            state.note_ask(ask.kind, at, length);
        }
        self.header(ask, cookie);
        if ask.kind == WRITE {
            let id = write.unwrap_or(0);
            let at = if ask.due == 0 { at } else { 0 };
            self.out.extend_from_slice(bytes(id, at, ask.length as usize));
        }
        let (got, runs) = (BTreeMap::new(), Vec::new());
        if ask.kind != DISC {
            self.open.insert(cookie, Open { ask, at, begin, write, got, told: 0, runs });
        }
    }

    fn header(&mut self, ask: Ask, cookie: u64) {
        self.out.extend(0x2560_9513u32.to_be_bytes());
        self.out.extend(ask.flags.to_be_bytes());
        self.out.extend(ask.kind.to_be_bytes());
        self.out.extend(cookie.to_be_bytes());
        self.out.extend(ask.at.to_be_bytes());
        self.out.extend(ask.length.to_be_bytes());
    }

    /// Sends a write with an extended header, later its data and a write of the usual sort. Neither
    /// is in the book.
    fn lose(&mut self, ask: Ask) {
        (self.is_lost, self.next) = (true, self.plan.asks.len());
        let data = bytes(u32::MAX, 0, ask.length as usize);
        self.header(Ask { kind: WRITE, flags: 0, ..ask }, u64::MAX);
        let usual = self.out.split_off(self.out.len() - 28);
        self.last = [data, &usual, data].concat();
        self.out.extend(EXTENDED_REQUEST.to_be_bytes());
        self.out.extend_from_slice(&usual[4..24]);
        self.out.extend(u64::from(ask.length).to_be_bytes());
    }

    /// Takes up to `most` bytes and judges what is whole; how many came.
    pub(super) fn take(&mut self, most: usize, world: &mut World<'_>) -> Result<usize, String> {
        let Some(stream) = &mut self.stream else { return Ok(0) };
        let before = self.input.len();
        // Made once: to fill it with zeroes at each look was most of the judge's time.
        self.room.resize(ROOM, 0);
        let read = stream.read(&mut self.room[..most.min(ROOM)]);
        self.input.extend_from_slice(&self.room[..*read.as_ref().unwrap_or(&0)]);
        match read {
            Ok(0) => return self.hung_up(world).map(|()| 1),
            Ok(_) => {
                for &byte in &self.input[before..] {
                    self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(_) => return self.hung_up(world).map(|()| 1),
        }
        let input = std::mem::take(&mut self.input);
        let mut from = 0;
        if let Some(shake) = &mut self.shake {
            let (used, is_in) = shake.hear(&input)?;
            from = used;
            if !is_in {
                self.input = input[from..].to_vec();
                return Ok(input.len() - before);
            }
            self.shake = None;
        }
        while let Some(used) = self.reply(&input[from..], world)? {
            from += used;
        }
        self.input = input[from..].to_vec();
        Ok(input.len() - before)
    }

    /// S6, S9, H3.
    fn hung_up(&mut self, world: &mut World<'_>) -> Result<(), String> {
        if let Some(accepted) = world.stops {
            let is_left = self.open.keys().any(|cookie| accepted.contains(cookie));
            // What is hung up on without a stop, is so with one.
            let is_right = world.is_late || self.is_lost || self.plan.shake.lie.is_some();
            let mut open = self.open.values();
            // A wrong offset may be larger than any number.
            let is_read = |open: &Open| open.ask.kind == READ && open.ask.due == 0;
            let failed = |open: &Open| is_read(open) && is_due(open, world, None);
            let has_failed = !self.plan.structured && open.any(failed);
            if is_left && !is_right && !has_failed {
                let open = self.unanswered();
                return Err(format!("S10: a stop has left accepted requests: {open:?}"));
            }
            self.lose_server(world.book, world.beat);
            return Ok(());
        }
        if self.was_left && self.shake.is_some() {
            self.lose_server(world.book, world.beat);
            return Ok(());
        }
        if let Some(Ousted { accepted, by, .. }) = &self.ousted {
            let is_left = self.open.keys().any(|cookie| accepted.contains(cookie));
            let is_right = world.now >= *by || self.is_lost || self.plan.shake.lie.is_some();
            let is_read = |open: &Open| open.ask.kind == READ && open.ask.due == 0;
            let failed = |open: &Open| is_read(open) && is_due(open, world, None);
            let has_failed = !self.plan.structured && self.open.values().any(failed);
            if is_left && !is_right && !has_failed {
                let open = self.unanswered();
                return Err(format!("V1: its volume went, and accepted requests: {open:?}"));
            }
            self.lose_server(world.book, world.beat);
            return Ok(());
        }
        (self.stream, self.is_gone) = (None, true);
        if self.plan.shake.lie.is_some() {
            return Ok(());
        }
        // An eager one may have said already what it is hung up on for.
        if self.shake.is_some() && self.next == 0 {
            return Err("H3: the server hung up in the handshake".to_owned());
        }
        if self.is_lost || (self.goes && self.open.is_empty()) {
            return Ok(());
        }
        let is_read = |open: &&Open| open.ask.kind == READ && open.ask.due == 0;
        let mut reads = self.open.values().filter(is_read);
        if !self.plan.structured && reads.any(|open| is_due(open, world, None)) {
            return Ok(());
        }
        Err(format!("S6: the server hung up; unanswered: {:?}", self.unanswered()))
    }

    /// One reply or chunk at the start of `input`, if it is whole: its bytes.
    fn reply(&mut self, input: &[u8], world: &mut World<'_>) -> Result<Option<usize>, String> {
        let Some(magic) = number(input, 0) else { return Ok(None) };
        match magic {
            SIMPLE => self.simple(input, world),
            CHUNK if self.plan.structured => self.chunk(input, world),
            _ => Err(format!("S1: {magic:#010x} where a reply should begin")),
        }
    }

    fn outstanding(&mut self, cookie: u64) -> Result<&mut Open, String> {
        let law = if cookie == u64::MAX { "S9" } else { "S1" };
        self.open.get_mut(&cookie).ok_or_else(|| format!("{law}: nothing is open as {cookie:#x}"))
    }

    fn simple(&mut self, input: &[u8], world: &mut World<'_>) -> Result<Option<usize>, String> {
        let Some(head) = input.first_chunk::<16>() else { return Ok(None) };
        let errno = number(head, 4).unwrap_or(0);
        let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
        let structured = self.plan.structured;
        let open = self.outstanding(cookie)?;
        if structured && (open.ask.kind == READ || !open.got.is_empty()) {
            return Err(format!("S2: a simple reply to {:?}", open.ask));
        }
        let mut used = 16;
        if open.ask.kind == READ && errno == 0 && open.ask.due == 0 {
            used += open.ask.length as usize;
            let Some(data) = input.get(16..used) else { return Ok(None) };
            if let Some(wrong) = world.book.wrong(open.at, data, Some(open.begin)) {
                return Err(format!("S5: {:?}: {wrong}", open.ask));
            }
        }
        open.told = errno;
        self.close(cookie, world)?;
        Ok(Some(used))
    }

    fn chunk(&mut self, input: &[u8], world: &mut World<'_>) -> Result<Option<usize>, String> {
        let Some(head) = input.first_chunk::<20>() else { return Ok(None) };
        let short = |at: usize| u16::from_be_bytes(head[at..at + 2].try_into().unwrap());
        let (flags, kind) = (short(4), short(6));
        let cookie = u64::from_be_bytes(head[8..16].try_into().unwrap());
        let length = number(head, 16).unwrap_or(0) as usize;
        let base = self.base;
        let open = self.outstanding(cookie)?;
        if length > open.ask.length as usize + (64 << 10) {
            return Err(format!("S2: a chunk of {length} bytes for {:?}", open.ask));
        }
        let Some(payload) = input.get(20..20 + length) else { return Ok(None) };
        match kind {
            0 if length == 0 && flags & 1 != 0 => {}
            1 if open.ask.kind == READ && length > 8 => data(open, base, payload, world)?,
            5 if open.ask.kind == STATUS && length >= 12 && length % 8 == 4 => {
                let word = |at| number(payload, at).unwrap_or(0);
                open.runs = (4..length).step_by(8).map(|at| (word(at), word(at + 4))).collect();
            }
            error if error >> 15 == 1 && length >= 6 => {
                let errno = number(payload, 0).unwrap_or(0);
                if errno == 0 {
                    return Err("S2: an error of number 0".to_owned());
                }
                open.told = errno;
            }
            _ => return Err(format!("S2: a chunk of kind {kind}, {length} bytes: {:?}", open.ask)),
        }
        if flags & 1 != 0 {
            self.close(cookie, world)?;
        }
        Ok(Some(20 + length))
    }

    /// The last of a reply has come.
    fn close(&mut self, cookie: u64, world: &mut World<'_>) -> Result<(), String> {
        let open = self.open.remove(&cookie).expect("it was open");
        let Open { ask, begin, write, ref got, told, ref runs, .. } = open;
        self.answered.errors += u64::from(told != 0);
        if let Some(Ousted { accepted, beat, .. }) = &self.ousted {
            let is_accepted = accepted.contains(&cookie);
            if told == SHUTDOWN && !is_accepted {
                if let Some(write) = write {
                    world.book.end(write, world.beat, false, false);
                }
                return Ok(());
            }
            if told == 0 && begin > *beat {
                return Err(format!("V1: {ask:?} was accepted when its volume had gone"));
            }
        }
        if ask.due != 0 {
            let right = told == ask.due;
            return right.then_some(()).ok_or_else(|| format!("S3: {ask:?} is told {told}"));
        }
        // A request for all data in one chunk may ask for too much.
        let too_long = ask.flags & DF != 0 && ask.kind == READ && told == 75;
        if told != 0 && !too_long && !is_due(&open, world, Some(told)) {
            return Err(format!("S4: {ask:?} is told {told}, but nothing failed so"));
        }
        if !too_long {
            self.answered.add(ask);
        }
        if told == 0 && matches!(ask.kind, READ | WRITE) {
            self.moved += u64::from(ask.length);
        }
        if let Some(write) = write {
            world.book.end(write, world.beat, told == 0, ask.flags & FUA != 0);
        }
        if told != 0 {
            return Ok(());
        }
        match ask.kind {
            FLUSH => world.book.flushed(begin, world.oldest, &world.medium.beside_closing(begin)),
            READ if self.plan.structured => {
                let all: u64 = got.values().sum();
                if all != u64::from(ask.length) {
                    return Err(format!("S2: {all} bytes came for {ask:?}"));
                }
                if ask.flags & DF != 0 && got.len() != 1 {
                    return Err(format!("S2: {} chunks for {ask:?}", got.len()));
                }
            }
            STATUS => holes(&open, runs, world).map_err(|why| format!("S7: {ask:?}: {why}"))?,
            TRIM if ask.flags & FUA != 0 && !is_durable(&open, world) => {
                return Err(format!("S8: no flush came behind {ask:?}"));
            }
            _ => {}
        }
        Ok(())
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}
