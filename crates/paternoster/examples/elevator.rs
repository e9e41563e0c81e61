// SPDX-License-Identifier: MIT OR Apache-2.0
//! An elevator of one's own in the whole program: a lottery. Each waiting request is a ticket for
//! each unit of its client's weight times its group's, and the winner goes to the device
//! (Waldspurger and Weihl, "Lottery Scheduling", OSDI 1994). docs/own-elevator.md tells the rest.
//!
//! Two clients whose groups have the weights 300 and 100, with as many requests waiting, win 3
//! draws of 4 and 1 of 4.

use std::fmt;
use std::process::ExitCode;

use paternoster_core::elevator::{Elevator, Fault, Pick, Place, Position, Rules};
use paternoster_core::elevators::Entry;
use paternoster_core::{Note, NoteKind, RequestId, Scene};

/// A line of traces and explanations.
static WINS: NoteKind = NoteKind { words: "wins with tickets", unit: "" };

#[derive(Debug, Default)]
struct Lottery {
    /// What waits, the oldest first.
    waiting: Vec<RequestId>,
    /// The state of the draw: it begins the same each time, so runs can be repeated.
    drawn: u64,
}

impl Lottery {
    fn draw(&mut self, tickets: u64) -> u64 {
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.drawn >> 33) % tickets
    }
}

impl Elevator for Lottery {
    fn name(&self) -> &'static str {
        "lottery"
    }
    fn rules(&self) -> Rules {
        Rules::Legacy
    }
    fn attach(&mut self, scene: &mut Scene) {
        self.waiting = Vec::with_capacity(scene.request_slots() as usize);
    }
    fn insert(&mut self, _: &mut Scene, request: RequestId, position: Position) {
        let place = if position == Position::Head { 0 } else { self.waiting.len() };
        self.waiting.insert(place, request);
    }
    fn pick(&mut self, scene: &mut Scene) -> Pick {
        let tickets = |request| {
            let client = scene.requests[request].client();
            let group = scene.groups.at(scene.group_of(client).index());
            let own = u64::from(scene.clients.at(client.index()).weight()).max(1);
            own * u64::from(group.weight()).max(1)
        };
        let all = self.waiting.iter().map(|&request| tickets(request)).sum();
        if all == 0 {
            return Pick::Nothing;
        }
        let mut left = self.draw(all);
        let wins = |&request: &RequestId| {
            left.checked_sub(tickets(request)).map(|rest| left = rest).is_none()
        };
        let winner = self.waiting.iter().position(wins).unwrap_or(0);
        let winner = self.waiting.remove(winner);
        let (client, value) = (scene.requests[winner].client(), tickets(winner));
        scene.note(Note::Own { kind: &WINS, client, value });
        Pick::Dispatch(winner, Place::Tail)
    }
    fn absorbed(&mut self, scene: &mut Scene, _: RequestId, gone: RequestId) {
        self.removed(scene, gone);
    }
    fn removed(&mut self, _: &mut Scene, request: RequestId) {
        self.waiting.retain(|&other| other != request);
    }
    fn drain(&mut self, _: &mut Scene) -> Option<RequestId> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }
    fn explain(&self, _: &Scene, _: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} requests take part in the draw", self.waiting.len())
    }
    fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }
    fn audit(&self, _: &Scene) -> Result<(), Fault> {
        Ok(())
    }
}

fn main() -> ExitCode {
    paternoster::main_with(vec![Entry {
        name: "lottery",
        summary: "each waiting request is a ticket for each unit of weight",
        make: || Box::new(Lottery::default()),
    }])
}
