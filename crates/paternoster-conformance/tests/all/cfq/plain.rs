// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recordings under noop and deadline: requests come, are merged and are picked at the recorded
//! times; which one is next is our choice.
//!
//! Those schedulers wrote no messages. A D line is where the driver asked for a request, and names
//! the one that it got. Flush commands come before them and do not concern them.
//!
//! Source: NOOP-1, NOOP-2; DL-11, DL-12 (legacy).

use std::collections::BTreeMap;

use paternoster_core::testing::Probe;
use paternoster_core::{Bio, ClientId, Elevator, Nanos, Op, RequestId};

use super::log::{Action, Extent, Kind, Line, What};
use super::tally::Tally;

/// An elevator with the world that a log gives it.
pub(super) struct Plain<'a> {
    log: &'a str,
    probe: Probe<dyn Elevator>,
    /// Made and not inserted yet.
    plugged: Vec<(Kind, Extent)>,
    /// Inserted and not issued yet.
    waiting: BTreeMap<RequestId, (Kind, Extent)>,
    /// Issued, and refused by the device: they come back by themselves.
    refused: Vec<(Kind, Extent)>,
    tally: Tally,
}

impl<'a> Plain<'a> {
    /// Replays the lines of a log.
    pub(super) fn run(
        log: &'a str,
        mut probe: Probe<dyn Elevator>,
        lines: impl Iterator<Item = Line>,
    ) -> Tally {
        probe.attach();
        let (plugged, refused) = (Vec::new(), Vec::new());
        let (waiting, tally) = (BTreeMap::new(), Tally::default());
        let mut plain = Plain { log, probe, plugged, waiting, refused, tally };
        for line in lines {
            plain.probe.set_time(Nanos::from_micros(line.at));
            if let What::Block { action, kind, at } = line.what
                && !matches!(kind, Kind::Flush | Kind::Passthrough)
            {
                plain.line(action, kind, at);
            }
        }
        plain.tally
    }

    fn line(&mut self, action: Action, kind: Kind, at: Extent) {
        match action {
            Action::Get => self.plugged.push((kind, at)),
            Action::Insert => self.insert(kind, at),
            Action::BackMerge => {
                let fits = |made: &&mut (Kind, Extent)| made.0 == kind && made.1.end() == at.sector;
                if let Some(made) = self.plugged.iter_mut().rev().find(fits) {
                    made.1.sectors += at.sectors;
                }
            }
            Action::Issue => self.issue(kind, at),
            Action::Requeue => self.refused.push((kind, at)),
            _ => {}
        }
    }

    fn insert(&mut self, kind: Kind, at: Extent) {
        let Some(place) = self.plugged.iter().rposition(|made| *made == (kind, at)) else { return };
        self.plugged.remove(place);
        let op = if kind == Kind::Read { Op::Read } else { Op::Write };
        let bio = Bio::new(ClientId::NOBODY, op, at.sector, at.sectors);
        let id = self.probe.bind(&bio);
        self.waiting.insert(id, (kind, at));
        self.probe.insert(id);
    }

    fn issue(&mut self, kind: Kind, at: Extent) {
        if let Some(place) = self.refused.iter().position(|refused| *refused == (kind, at)) {
            self.refused.remove(place);
            return;
        }
        let candidates = self.waiting.len();
        let picked = self.probe.pick();
        let ours = picked.and_then(|request| self.waiting.remove(&request));
        if let Some(request) = picked {
            // Its end does not matter to them.
            self.probe.complete(request);
        }
        if ours == Some((kind, at)) {
            if candidates > 1 {
                self.tally.same("dispatch");
            }
        } else {
            let text = format!("{}: ours {ours:?}, recorded {at:?}, of {candidates}", self.log);
            self.tally.different("dispatch", super::oracle::UNEXPLAINED, text);
        }
    }
}
