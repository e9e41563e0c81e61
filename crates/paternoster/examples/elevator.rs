// SPDX-License-Identifier: MIT OR Apache-2.0
//! An elevator of one's own in the whole program: a lottery. Each waiting request is a ticket for
//! each unit of its client's weight times its group's, and the winner goes to the device
//! (Waldspurger and Weihl, "Lottery Scheduling", OSDI 1994). docs/own-elevator.md tells the rest.
//!
//! Two clients whose groups have the weights 300 and 100, with as many requests waiting, win 3
//! draws of 4 and 1 of 4.

use std::process::ExitCode;

use paternoster_core::elevator::{Elevator, Entry, Pick, Place, Position, Traits};
use paternoster_core::{Client, Group, Note, NoteKind, QueueView, RequestId};

/// A line of traces and explanations.
static WINS: NoteKind = NoteKind { words: "wins with tickets", unit: "" };

#[derive(Debug, Default)]
struct Lottery {
    /// Waiting requests, the oldest first.
    waiting: Vec<RequestId>,
    /// The state of the draw: it begins the same each time, so runs can be repeated.
    drawn: u64,
}

/// How often a request is in the draw: weights are 1 to 10 000.
fn tickets(view: &QueueView, request: RequestId) -> u64 {
    let client = view.request(request).client();
    let own = view.client(client).map_or(1, Client::weight);
    let group = view.group(view.group_of(client)).map_or(1, Group::weight);
    u64::from(own) * u64::from(group)
}

impl Elevator for Lottery {
    fn traits(&self) -> Traits {
        Traits::legacy("lottery")
    }
    fn attach(&mut self, view: &mut QueueView) {
        self.waiting = Vec::with_capacity(view.request_slots() as usize);
    }
    fn insert(&mut self, _: &mut QueueView, request: RequestId, position: Position) {
        let place = if position == Position::Head { 0 } else { self.waiting.len() };
        self.waiting.insert(place, request);
    }
    fn pick(&mut self, view: &mut QueueView) -> Pick {
        if self.waiting.is_empty() {
            return Pick::Nothing;
        }
        let all = self.waiting.iter().map(|&request| tickets(view, request)).sum::<u64>();
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (mut left, mut winner) = ((self.drawn >> 33) % all, 0);
        while left >= tickets(view, self.waiting[winner]) {
            left -= tickets(view, self.waiting[winner]);
            winner += 1;
        }
        let winner = self.waiting.remove(winner);
        let (client, value) = (view.request(winner).client(), tickets(view, winner));
        view.note(Note::Own { kind: &WINS, client, value });
        Pick::Dispatch(winner, Place::Tail)
    }
    fn removed(&mut self, _: &mut QueueView, request: RequestId) {
        self.waiting.retain(|&other| other != request);
    }
    fn drain(&mut self, _: &mut QueueView) -> Option<RequestId> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }
    fn waiting(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }
}

fn main() -> ExitCode {
    paternoster::main_with(vec![Entry {
        name: "lottery",
        summary: "each waiting request is a ticket for each unit of weight",
        make: || Box::new(Lottery::default()),
    }])
}
