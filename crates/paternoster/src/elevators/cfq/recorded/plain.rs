// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recordings under noop and deadline: requests come, are merged and are asked for as there;
//! which one is next is ours to say.
//!
//! Those schedulers wrote no messages. A D line is where the driver asked for a request, and names
//! the one that it got. A flush command lies in front of them and is no concern of theirs.
//!
//! Source: spec `cfq-flush-block.md` 12.1, 12.2 (legacy noop and deadline).

use std::boxed::Box;
use std::collections::BTreeMap;
use std::format;
use std::vec::Vec;

use super::log::{Action, Extent, Kind, Line, What};
use super::tally::Tally;
use crate::client::ClientId;
use crate::device::DeviceFacts;
use crate::elevator::{Elevator, Pick, Position};
use crate::request::{Bio, Op, Request, RequestId};
use crate::scene::{Limits, Scene};
use crate::time::Nanos;

/// An elevator with the world that a log shows it.
pub(super) struct Plain<'a> {
    log: &'a str,
    scene: Scene,
    elevator: Box<dyn Elevator>,
    /// Made and not inserted yet.
    plugged: Vec<(Kind, Extent)>,
    /// Inserted and not issued yet.
    waiting: BTreeMap<RequestId, (Kind, Extent)>,
    /// Issued, and refused by the device: they come again without being asked for.
    refused: Vec<(Kind, Extent)>,
    tally: Tally,
}

impl<'a> Plain<'a> {
    /// Replays the lines of a log.
    pub(super) fn run(
        log: &'a str,
        mut elevator: Box<dyn Elevator>,
        lines: impl Iterator<Item = Line>,
    ) -> Tally {
        let mut scene = Scene::new(DeviceFacts::default(), Limits::default(), false);
        elevator.attach(&mut scene);
        let (plugged, refused) = (Vec::new(), Vec::new());
        let (waiting, tally) = (BTreeMap::new(), Tally::default());
        let mut plain = Plain { log, scene, elevator, plugged, waiting, refused, tally };
        for line in lines {
            let now = plain.scene.exact.max(Nanos::from_micros(line.at));
            (plain.scene.exact, plain.scene.now) = (now, now);
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
        let mut made = Request::default();
        made.fill(&bio, crate::client::Priority::default(), self.scene.now);
        let key = self.scene.requests.0.insert(made).expect("room for requests");
        let id = RequestId(key.index());
        self.waiting.insert(id, (kind, at));
        self.elevator.insert(&mut self.scene, id, Position::Sorted);
    }

    fn issue(&mut self, kind: Kind, at: Extent) {
        if let Some(place) = self.refused.iter().position(|refused| *refused == (kind, at)) {
            self.refused.remove(place);
            return;
        }
        let candidates = self.waiting.len();
        let picked = match self.elevator.pick(&mut self.scene) {
            Pick::Dispatch(request, _) => Some(request),
            _ => None,
        };
        let ours = picked.and_then(|request| self.waiting.remove(&request));
        if let Some(request) = picked {
            self.scene.requests.0.free(request.index());
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
