// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that do not stay: some are cut off in the middle of a request, some say nothing for
//! long.
//!
//! A visitor that was cut off leaves a slot of the disk in doubt, which is not used again for many
//! visits: its write may be in flight.

use paternoster_sim::chance::Chance;

use super::client::fill;
use super::model::Model;
use super::stream::{Door, FUA, Span, Stream};
use crate::upgrade::{READ, WRITE, flagged, request};

/// Where their slots begin, above all regions.
const FIRST: usize = 1 << 20;
const SLOT: usize = 8 << 10;
const SLOTS: usize = 128;
/// Idle clients at most.
const MOST: usize = 12;

pub(crate) struct Visits {
    door: Door,
    model: Model,
    count: usize,
    pub(crate) idle: Vec<Stream>,
}

impl Visits {
    pub(crate) fn new(door: Door) -> Visits {
        Visits { door, model: Model::new(SLOT * SLOTS), count: 0, idle: Vec::new() }
    }

    fn open(&self, is_structured: bool) -> Stream {
        Stream::open(&self.door, "disk", is_structured).expect("a server")
    }

    fn read(stream: &mut Stream, at: usize, length: usize) -> Vec<u8> {
        let (at, short) = (at as u64, u32::try_from(length).expect("short"));
        stream.send(&request(READ, 1, at, short, &[])).expect("it listens");
        let answer = stream.hear(|_| Some(Some(Span { at, length }))).expect("an answer");
        assert_eq!((answer.cookie, answer.errno), (1, 0));
        answer.data
    }

    /// One that is cut off somewhere.
    pub(crate) fn cut(&mut self, chance: &mut Chance) {
        let at = self.count % SLOTS * SLOT;
        self.count += 1;
        let mut stream = self.open(chance.once_in(2));
        let seen = self.model.saw(at, &Visits::read(&mut stream, FIRST + at, SLOT));
        seen.unwrap_or_else(|what| panic!("visits: {what}"));
        let length = 1 + chance.below(SLOT as u64);
        let short = u32::try_from(length).expect("short");
        let data = fill(chance.next(), short as usize);
        // Half of them must be on the disk when they are answered.
        let flags = FUA * u16::from(chance.once_in(2));
        let bytes = flagged(flags, WRITE, 2, (FIRST + at) as u64, short, &data);
        let cut = match chance.below(3) {
            0 => bytes.len(),
            _ => usize::try_from(chance.below(bytes.len() as u64)).expect("short"),
        };
        stream.send(&bytes[..cut]).expect("it listens");
        self.model.may(at, &data);
        if cut == bytes.len() && chance.once_in(2) {
            let answer = stream.hear(|_| Some(None)).expect("an answer");
            assert_eq!((answer.cookie, answer.errno), (2, 0));
            self.model.must(at, &data);
        }
    }

    /// One more silent client, or one fewer.
    pub(crate) fn idle(&mut self, chance: &mut Chance) {
        if self.idle.len() < MOST && chance.once_in(2) {
            self.idle.push(self.open(chance.once_in(2)));
        } else if !self.idle.is_empty() {
            let place = usize::try_from(chance.below(self.idle.len() as u64)).expect("few");
            drop(self.idle.swap_remove(place));
        }
    }

    /// Is each client still answered, even one that sent nothing during a hand-over?
    pub(crate) fn still_there(&mut self, chance: &mut Chance) {
        for stream in &mut self.idle {
            if chance.once_in(2) {
                let data = Visits::read(stream, FIRST + SLOTS * SLOT, 4096);
                assert!(data.iter().all(|byte| *byte == 0), "bytes that nothing wrote");
            }
        }
    }

    /// Closes all idle clients.
    pub(crate) fn leave(&mut self) {
        self.idle.clear();
    }

    /// Judges what is on the disk at the end.
    pub(crate) fn check(&mut self, disk: &[u8]) {
        let seen = self.model.saw(0, &disk[FIRST..FIRST + SLOTS * SLOT]);
        seen.unwrap_or_else(|what| panic!("visits, on the disk: {what}"));
        let rest = &disk[FIRST + SLOTS * SLOT..];
        assert!(rest.iter().all(|byte| *byte == 0), "bytes that nothing wrote");
    }
}
