// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the flush machinery, one by one: FLUSH-1 to FLUSH-18, what seed 003's discussion
//! requires of the hold and its options, and who pays for a flush.
//!
//! Each test is named after its rule and opens with the question it answers; `rules` lists where
//! each is. Most use the [`Rig`], whose device does what the test says; where times matter, a
//! [`drive::Drive`], which takes one command at a time and knows whether its cache is dirty.
//!
//! Times: a write 1 ms, a flush of a dirty cache 10, of a clean one 0.2, as in FLUSH-14.

mod drive;
mod errors;
mod hold;
mod options;
mod owner;
mod power;
mod rules;
mod sequence;
mod sharing;
mod throttle;

use paternoster_core::{Bio, ClientId, Command, DeviceFacts, Flags, Op, Ticket};

use crate::common::driver::{Rig, disk};

/// A rotating disk with a write cache and without FUA that takes 32 commands.
fn cached() -> DeviceFacts {
    DeviceFacts { write_cache: true, ..disk(32) }
}

/// The same device on SATA: it takes no other command during a flush.
fn sata() -> DeviceFacts {
    DeviceFacts { flush_queueable: false, ..cached() }
}

/// One elevator for each of the two block layers.
const BOTH_LAYERS: [&str; 2] = ["deadline", "mq-deadline"];

/// A queue in which every flush is a command, even of a clean cache, as in Linux.
fn commanded(facts: DeviceFacts, elevator: &str) -> Rig {
    every_flush_a_command(Rig::new(facts, elevator))
}

fn every_flush_a_command(mut rig: Rig) -> Rig {
    rig.set("flush_elide", "0");
    // Nor may any client owe anything.
    rig.set("flush_ahead", "0");
    rig
}

/// The op's letter, and the sector of what has one: `F`, `W8`, `R16`; a FUA write is `W8!`.
fn word(command: &Command) -> String {
    let forced = if command.flags.contains(Flags::FUA) { "!" } else { "" };
    match command.op {
        Op::Flush => String::from("F"),
        Op::Read => format!("R{}", command.sector),
        _ => format!("W{}{forced}", command.sector),
    }
}

/// Commands as words, with blanks between.
fn words(commands: &[Command]) -> String {
    commands.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// What the common rig lacks.
trait Flushing {
    /// A flush without data; its cookie.
    fn flush(&mut self, client: ClientId, cookie: u64) -> Ticket;
    /// A write of 8 sectors with these flags; the cookie is its sector.
    fn ordered(&mut self, client: ClientId, sector: u64, flags: Flags) -> Ticket;
    /// `pull`, as words.
    fn pulled_words(&mut self) -> String;
    /// `serve`, as words.
    fn served_words(&mut self) -> String;
    /// The device finishes its flush.
    fn complete_flush(&mut self);
    /// The cookies that have ended, in order.
    fn ended(&self) -> Vec<u64>;
}

impl Flushing for Rig {
    fn flush(&mut self, client: ClientId, cookie: u64) -> Ticket {
        self.submit(Bio::flush(client).cookie(cookie))
    }

    fn ordered(&mut self, client: ClientId, sector: u64, flags: Flags) -> Ticket {
        self.submit(Bio::new(client, Op::Write, sector, 8).flags(flags).cookie(sector))
    }

    fn pulled_words(&mut self) -> String {
        words(&self.pull())
    }

    fn served_words(&mut self) -> String {
        words(&self.serve())
    }

    fn complete_flush(&mut self) {
        let place = self.inside.iter().position(|command| command.op == Op::Flush);
        let command = self.inside.remove(place.expect("a flush is in the device")).expect("found");
        let outcome = paternoster_core::Outcome::OK;
        self.queue.complete(self.now, command.tag, outcome).expect("it is in the device");
    }

    fn ended(&self) -> Vec<u64> {
        self.done.iter().map(|&(cookie, _)| cookie).collect()
    }
}
