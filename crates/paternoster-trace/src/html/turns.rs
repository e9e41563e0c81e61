// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns on a page: a timeline of requests, each with what it waited for in words.
//!
//! ```text
//! in the device  ▇▇▇▇ ▇▇  ▇▇▇▇▇▇▇▇      one colour for each client
//! pg-read        ▇░▇ ░░░░░░░░░░░░▇      ░ it waits, ▇ the device has it
//! backup         ░░▇▇▇▇▇ ░▇▇▇▇▇▇▇▇
//! ```
//!
//! The words are made here, once for a page and a text ([`parts`]); the script draws and counts
//! nothing.

use paternoster_core::{ClientId, Nanos, Op};
use serde::Serialize;

use crate::plot::colour;
use crate::record::{IDLE, OTHERS, Turn, slot};

/// A timeline of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// What distinguishes the run from others.
    pub label: String,
    /// The names of its clients, by their index.
    pub clients: Vec<String>,
    /// Its requests.
    pub turns: Vec<Turn>,
}

/// One request for the page's script: client, description, when it was submitted, issued and ended,
/// and its parts by the number of their label.
type Told = (usize, String, u64, u64, u64, Vec<(usize, u64)>);

/// What the script has of a timeline.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    clients: Vec<String>,
    colours: Vec<&'static str>,
    labels: Vec<String>,
    turns: Vec<Told>,
}

impl Timeline {
    pub(super) fn data(&self) -> Data {
        // Only clients with something to show have a lane.
        let mut there: Vec<u32> = self.turns.iter().map(|turn| turn.client).collect();
        there.sort_unstable();
        there.dedup();
        let mut labels: Vec<String> = Vec::new();
        let mut told = |turn: &Turn| {
            let parts = parts(turn, &self.clients).into_iter().map(|(label, time)| {
                let place = labels.iter().position(|known| *known == label);
                let place = place.unwrap_or_else(|| {
                    labels.push(label);
                    labels.len() - 1
                });
                (place, time.0)
            });
            let client = there.binary_search(&turn.client).unwrap_or(0);
            let (asked, issued, ended) = (turn.asked.0, turn.issued.0, turn.ended.0);
            (client, what(turn), asked, issued, ended, parts.collect())
        };
        let turns = self.turns.iter().map(&mut told).collect();
        Data {
            clients: there.iter().map(|&client| name(client, &self.clients)).collect(),
            colours: (0..there.len()).map(colour).collect(),
            labels,
            turns,
        }
    }
}

/// A client's name, from these names by index.
#[must_use]
pub fn name(client: u32, clients: &[String]) -> String {
    let known = usize::try_from(client).ok().and_then(|client| clients.get(client));
    known.cloned().unwrap_or_else(|| match client {
        client if client == ClientId::NOBODY.index() => "the queue itself".to_owned(),
        client => format!("client {client}"),
    })
}

/// A description of a request: `read of 8 KiB at sector 4096`.
#[must_use]
pub fn what(turn: &Turn) -> String {
    let kind = match turn.op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        _ => "discard",
    };
    match turn.sectors {
        0 => kind.to_owned(),
        sectors if sectors % 2 == 0 => {
            format!("{kind} of {} KiB at sector {}", sectors / 2, turn.sector)
        }
        sectors => {
            format!("{kind} of {} bytes at sector {}", u64::from(sectors) * 512, turn.sector)
        }
    }
}

/// What a request's time was spent on, in order of time; the parts sum to its latency.
#[must_use]
pub fn parts(turn: &Turn, clients: &[String]) -> Vec<(String, Nanos)> {
    let mut parts = vec![
        ("until there was a free request (nr_requests)".to_owned(), turn.got.0 - turn.asked.0),
        (
            "on the way to the scheduler: in its client's plug, or behind a flush".to_owned(),
            turn.inserted.0 - turn.got.0,
        ),
    ];
    let own = slot(turn.client);
    for (nth, &time) in turn.charges.iter().enumerate() {
        let who = had(nth, own, clients);
        parts.push((format!("in the scheduler, while {who}"), time));
    }
    let inside = match turn.before {
        0 => "in the device, alone when it came".to_owned(),
        1 => "in the device, beside 1 command that was there before".to_owned(),
        before => format!("in the device, beside {before} commands that were there before"),
    };
    parts.push((inside, turn.ended.0 - turn.issued.0));
    parts
        .into_iter()
        .filter(|(_, time)| *time > 0)
        .map(|(label, time)| (label, Nanos(time)))
        .collect()
}

/// Which client had the device in the time of this slot, for a request of slot `own`.
#[must_use]
pub fn had(nth: usize, own: usize, clients: &[String]) -> String {
    match nth {
        IDLE => "the device stood idle".to_owned(),
        OTHERS => "other clients had the device".to_owned(),
        nth if nth == own => "its own client had the device".to_owned(),
        nth => format!("{} had the device", name(u32::try_from(nth).unwrap_or(0), clients)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CHARGED;

    /// Do the words name which clients had the device, leave out what took no time, and sum to the
    /// latency? 10 for a request, none in a plug, 5 + 5 in the scheduler, 30 in the device.
    #[test]
    fn parts_in_words() {
        let mut charges = [0; CHARGED + 2];
        (charges[0], charges[1], charges[IDLE]) = (3, 2, 5);
        let [asked, got, inserted, issued, ended] = [0, 10, 10, 20, 50].map(Nanos);
        let (op, sector, sectors, client, before) = (Op::Write, 64, 16, 1, 2);
        let turn = Turn {
            client,
            op,
            sector,
            sectors,
            asked,
            got,
            inserted,
            issued,
            ended,
            before,
            charges,
        };
        assert_eq!(what(&turn), "write of 8 KiB at sector 64");
        let names = ["a", "b"].map(str::to_owned);
        let told: Vec<(String, u64)> =
            parts(&turn, &names).into_iter().map(|(label, time)| (label, time.0)).collect();
        let expected = [
            ("until there was a free request (nr_requests)", 10),
            ("in the scheduler, while a had the device", 3),
            ("in the scheduler, while its own client had the device", 2),
            ("in the scheduler, while the device stood idle", 5),
            ("in the device, beside 2 commands that were there before", 30),
        ];
        assert_eq!(told, expected.map(|(label, time)| (label.to_owned(), time)));
        assert_eq!(told.iter().map(|(_, time)| time).sum::<u64>(), turn.latency().0);
    }
}
