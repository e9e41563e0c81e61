// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios BFQ-S6, BFQ-S7, BFQ-S9 and BFQ-S15.

use std::collections::BTreeSet;

use paternoster_core::{Bio, ClientId, Command, Nanos, Note, Op, Output};

use super::shares::hdd;
use super::{FAR, PRESETS, each, flash, ms, raised};
use crate::common::driver::{Rig, disk};

/// Scenario 6: of eight processes that start shortly after one another on an idle device, is none
/// raised once each has had a second request; and is each of seven?
#[test]
fn bfq_scenario_6_a_burst_of_eight() {
    for (count, expected) in [(7, true), (8, false)] {
        each(disk(1), |preset, mut rig| {
            rig.set("stable_merging", "0");
            let mut clients = Vec::new();
            for place in 1..=count {
                let client = rig.client();
                clients.push(client);
                rig.read(client, place * FAR, 8);
                rig.serve();
                rig.now += ms(20);
            }
            for (place, &client) in (1..).zip(&clients) {
                rig.read(client, place * FAR + 8, 8);
                rig.serve();
            }
            for client in clients {
                assert_eq!(raised(&rig, client) > 1, expected, "{preset}, {count} processes");
            }
        });
    }
}

/// How many clients moved to another's queue, or were joined.
fn merged(rig: &Rig) -> usize {
    let notes = rig.queue.observer().notes.iter();
    notes.filter(|note| matches!(note, Note::QueuesMerged { .. })).count()
}

/// 64 KiB: the block that is read in turn.
const BLOCK: u64 = 128;

/// Reads of a block take 1 ms; a client that got one asks for the next but one. `blocks` for each.
fn interleave(rig: &mut Rig, clients: &[ClientId], next: &mut [u64], blocks: u64) {
    let mut left = vec![blocks; clients.len()];
    for (place, &client) in clients.iter().enumerate() {
        rig.read(client, next[place] * BLOCK, 128);
    }
    while left.iter().any(|&left| left > 0) {
        rig.pull();
        if rig.inside.is_empty() {
            rig.now = rig.until.expect("something to wait for");
            continue;
        }
        rig.now += ms(1);
        let command = rig.complete_oldest();
        // Two adjoining blocks are one command, if both share a queue.
        for block in 0..u64::from(command.sectors) / BLOCK {
            let number = command.sector / BLOCK + block;
            let place = next.iter().position(|&own| own == number).expect("somebody's");
            next[place] += 2;
            left[place] = left[place].saturating_sub(1);
            if left[place] > 0 {
                rig.read(clients[place], next[place] * BLOCK, 128);
            }
        }
    }
    rig.serve();
}

/// Scenario 7: are two readers of even and odd blocks that start together merged within their first
/// requests; and never, if one has read for 150 ms when the other comes to its position?
#[test]
fn bfq_scenario_7_two_readers_of_one_stream() {
    for facts in [disk(1), flash(32)] {
        each(facts, |preset, mut rig| {
            for name in ["low_latency", "stable_merging"] {
                rig.set(name, "0");
            }
            let clients = [(); 2].map(|()| rig.client());
            interleave(&mut rig, &clients, &mut [1000, 1001], 4);
            // On flash nothing waits here, so there is never a second queue with work.
            assert_eq!(merged(&rig), usize::from(facts.rotational), "{preset} {facts:?}");
        });
        each(facts, |preset, mut rig| {
            for name in ["low_latency", "stable_merging"] {
                rig.set(name, "0");
            }
            let [first, second] = [(); 2].map(|()| rig.client());
            // Two at a time, so that its queue never runs empty.
            let mut next = 1000;
            for _ in 0..2 {
                rig.read(first, next * BLOCK, 128);
                next += 2;
            }
            rig.pull();
            for round in 0..400 {
                if round == 160 {
                    rig.read(second, (next + 1) * BLOCK, 128);
                }
                rig.now += ms(1);
                let command = rig.complete_oldest();
                let own = command.client == first;
                if own {
                    rig.read(first, next * BLOCK, 128);
                    next += 2;
                } else {
                    rig.read(second, (next + 1) * BLOCK, 128);
                }
                rig.pull();
                while rig.inside.is_empty() {
                    rig.now = rig.until.expect("something to wait for");
                    rig.pull();
                }
            }
            assert_eq!(merged(&rig), 0, "{preset} {facts:?}");
        });
    }
}

/// Scenario 9: when the first of two requests of a queue has gone, is the queue found where its
/// second is; and without patch 1 of seed 004 not?
#[test]
fn bfq_scenario_9_found_where_the_next_request_is() {
    for (update, merges) in [("1", 1), ("0", 0)] {
        each(disk(2), |preset, mut rig| {
            for name in ["low_latency", "stable_merging"] {
                rig.set(name, "0");
            }
            rig.set("position_update", update);
            let [one, other, third] = [(); 3].map(|()| rig.client());
            rig.read(one, 1000, 8);
            rig.read(one, FAR, 8);
            rig.read(third, 9 * FAR, 8);
            // One command is taken, and no more is requested.
            let Output::Issue(first) = rig.queue.next(rig.now) else { panic!("{preset}") };
            assert_eq!(first.sector, 1000);
            rig.read(other, FAR + 100, 8);
            assert_eq!(merged(&rig), merges, "{preset}, position_update={update}");
        });
    }
}

/// The index of the player among the readers.
const PLAYER: usize = 10;
/// Between two of its batches.
const PERIOD: Nanos = ms(40);

/// A player that asks for a batch of 234 sectors every 40 ms, 3.0 MB/s, among ten sequential
/// readers, and what is due when.
struct Band {
    rig: Rig,
    clients: Vec<ClientId>,
    next: Vec<u64>,
    /// Which client asks again, and when.
    due: BTreeSet<(Nanos, usize)>,
    busy_until: Option<Nanos>,
    /// A batch is in progress.
    plays: bool,
    late: u32,
    batches: u32,
}

impl Band {
    fn new(preset: &str) -> Band {
        let mut rig = super::rig(disk(1), preset);
        let clients = (0..=PLAYER).map(|_| rig.client()).collect();
        let due = (0..=PLAYER)
            .map(|place| (if place == PLAYER { Nanos::from_secs(12) } else { Nanos::ZERO }, place));
        Band {
            rig,
            clients,
            next: (1..=11).map(|place| place * FAR).collect(),
            due: due.collect(),
            busy_until: None,
            plays: false,
            late: 0,
            batches: 0,
        }
    }

    fn ask(&mut self, place: usize) {
        let sectors = if place == PLAYER { 234 } else { 256 };
        let (client, sector) = (self.clients[place], self.next[place]);
        let bio = Bio::new(client, Op::Read, sector, sectors).cookie(place as u64);
        // A client without a request is woken when there is one.
        if self.rig.try_submit(bio).is_ok() {
            self.next[place] += u64::from(sectors);
        }
        if place == PLAYER {
            self.plays = true;
        }
    }

    fn ask_what_is_due(&mut self) {
        while let Some(&(at, place)) = self.due.first().filter(|&&(at, _)| at <= self.rig.now) {
            self.due.pop_first();
            if place == PLAYER {
                self.due.insert((at + PERIOD, place));
                self.batches += 1;
                self.late += u32::from(self.plays);
                if self.plays {
                    continue;
                }
            }
            self.ask(place);
        }
    }

    fn answer(&mut self) {
        for (cookie, _) in std::mem::take(&mut self.rig.done) {
            let place = usize::try_from(cookie).expect("a place");
            if place == PLAYER {
                self.plays = false;
            } else {
                self.due.insert((self.rig.now + Nanos::from_micros(100), place));
            }
        }
        for client in std::mem::take(&mut self.rig.wakes) {
            let place = self.clients.iter().position(|&other| other == client);
            self.ask(place.expect("one of them"));
        }
    }

    fn run(&mut self, end: Nanos, service: impl Fn(&Command) -> Nanos) {
        while self.rig.now < end {
            let first_due = self.due.first().map(|&(at, _)| at);
            let times = [self.busy_until, first_due, self.rig.until];
            let now = times.into_iter().flatten().min().expect("the player's next");
            self.rig.now = self.rig.now.max(now);
            if self.busy_until == Some(self.rig.now) {
                self.busy_until = None;
                self.rig.complete_oldest();
            }
            self.ask_what_is_due();
            self.rig.pull();
            self.answer();
            self.rig.pull();
            if let (None, Some(command)) = (self.busy_until, self.rig.inside.front()) {
                self.busy_until = Some(self.rig.now + service(command));
            }
        }
    }
}

/// Scenario 15: is no batch late of a player that asks for 3.0 MB/s in periods of 40 ms, among ten
/// readers of a disk?
#[test]
fn bfq_scenario_15_a_player_beside_ten_readers() {
    for preset in PRESETS {
        let mut band = Band::new(preset);
        band.run(Nanos::from_secs(16), hdd());
        let Band { late, batches, .. } = band;
        println!("{preset}: {late} late of {batches}");
        assert_eq!(late, 0, "{preset}: of {batches}");
    }
}
