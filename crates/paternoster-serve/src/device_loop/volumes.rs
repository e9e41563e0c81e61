// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes: those of a device, which come and go while a loop serves.
//!
//! ```text
//! comes   a file that was opened elsewhere gets a number of the backend, and a place on the line
//! goes    its name is no longer valid; its connections make no more requests, and are closed when
//!         those they have made have ended, or when `drain-timeout` is over
//!         ─▶ the backend gives its file back ─▶ a thread syncs it, closes it, lets its locks go
//! ```
//!
//! A volume that is removed, and added again before its connections have closed, exists twice for a
//! while; both have the same place on the line, so that changes of the same blocks exclude each
//! other.
//!
//! Invariants: I1 a file is given back when no connection of its volume is left; I2 the locks of a
//! file are held until it is closed.

use paternoster_core::{DeviceFacts, Nanos};
use serde_json::json;

use super::geometry::{Line, Place};
use crate::config;
use crate::control::order::Asked;
use crate::control::snapshot::VolumeLine;
use crate::device::NewFile;
use crate::device::claim::Claim;
use crate::device::system::System;
use crate::nbd::ExportFacts;

/// A volume that comes.
#[derive(Debug)]
pub struct Coming {
    /// Where it is; its file has no number yet.
    pub(crate) place: Place,
    /// The volume's file.
    pub(crate) file: NewFile,
}

/// A volume that goes.
#[derive(Debug)]
pub struct Going {
    /// The volume's name.
    pub(crate) name: String,
    /// What no other volume may claim until its file is closed.
    pub(crate) held: Vec<Claim>,
}

/// Runs what closes files, on a thread that may block.
pub(super) type Closer = fn(Box<dyn FnOnce() + Send>);

/// A thread of its own: closing may wait for the disk.
pub(super) fn close_on_a_thread(closes: Box<dyn FnOnce() + Send>) {
    std::thread::spawn(closes);
}

/// Whether a volume takes requests, and which orders wait for its last one.
#[derive(Debug, Default)]
struct Draining {
    /// I/Os of the volume.
    under_way: u32,
    /// No new ones are taken; the orders to answer once none is left.
    asked: Option<Vec<Asked>>,
    /// Its place among those of the configuration.
    rank: usize,
    /// It was removed from the configuration: its connections must be gone by then.
    ends: Option<Nanos>,
    /// Its connections have closed, and so has its file.
    is_gone: bool,
    /// What no other volume may claim as long as its file is open.
    held: Vec<Claim>,
}

impl Draining {
    const fn is_drained(&self) -> bool {
        self.asked.is_some() || self.ends.is_some()
    }

    /// Whether its name still refers to it.
    const fn is_there(&self) -> bool {
        self.ends.is_none() && !self.is_gone
    }
}

/// The volumes of a device, by place.
#[derive(Debug)]
pub(super) struct Volumes {
    device: String,
    places: Vec<Place>,
    drained: Vec<Draining>,
    /// Volumes that were removed and still have connections.
    ending: usize,
    /// Where the next file begins on the line.
    line_end: u64,
    /// The system in which the files are.
    system: System,
    /// What closes files of volumes that have gone.
    closer: Closer,
}

impl Volumes {
    /// The volumes of the start, in the order of the configuration.
    pub(super) fn new(device: &str, places: Vec<Place>, line_end: u64, system: &System) -> Volumes {
        let ranked = |rank| Draining { rank, ..Draining::default() };
        Volumes {
            device: device.to_owned(),
            drained: (0..places.len()).map(ranked).collect(),
            places,
            ending: 0,
            line_end,
            system: system.clone(),
            closer: close_on_a_thread,
        }
    }

    /// The place of a volume.
    #[inline]
    pub(super) fn at(&self, place: u32) -> &Place {
        &self.places[place as usize]
    }

    /// The place of the present volume of this name.
    ///
    /// # Errors
    /// The message that there is no such volume.
    pub(super) fn find(&self, name: &str) -> Result<u32, String> {
        let found = (0..).zip(&self.places).zip(&self.drained);
        found
            .filter(|(_, draining)| draining.is_there())
            .find_map(|((place, it), _)| (it.name == name).then_some(place))
            .ok_or_else(|| format!("device {} has no volume {name}", self.device))
    }

    /// The present volumes, in the order of the configuration.
    fn present(&self) -> impl Iterator<Item = (&Place, &Draining)> {
        let all = self.places.iter().zip(&self.drained);
        let mut there: Vec<_> = all.filter(|(_, draining)| draining.is_there()).collect();
        there.sort_by_key(|(_, draining)| draining.rank);
        there.into_iter()
    }

    /// The same, for a judge.
    #[cfg(test)]
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.present().map(|(place, _)| place)
    }

    /// What clients are told of the volumes.
    pub(super) fn exports(&self, facts: &DeviceFacts) -> Vec<ExportFacts> {
        self.present().map(|(place, _)| place.export_facts(facts)).collect()
    }

    /// The volumes' lines in a snapshot.
    pub(super) fn lines(&self) -> Vec<VolumeLine> {
        let line = |(place, draining): (&Place, &Draining)| VolumeLine {
            name: place.name.clone(),
            size: place.size,
            readonly: place.readonly,
            drained: draining.is_drained(),
        };
        self.present().map(line).collect()
    }

    /// Where files are on the device's line.
    pub(super) fn line(&self) -> Line {
        let all = self.places.iter().zip(&self.drained);
        let open = all.filter(|(_, draining)| !draining.is_gone).map(|(place, _)| place);
        Line::of(open, self.line_end, &self.system)
    }

    /// Whether what a new client was told of a volume still holds: it may have changed meanwhile.
    pub(super) fn is_told_right(&self, place: u32, told: &ExportFacts) -> bool {
        let place = self.at(place);
        // A client that may only read is told that the volume is read-only, though others write it.
        (place.size, place.facts.block) == (told.size, told.block)
            && (told.readonly || !place.readonly)
    }

    /// A request of a volume has begun.
    #[inline]
    pub(super) fn begins(&mut self, place: u32) {
        self.drained[place as usize].under_way += 1;
    }

    /// A request of a volume has ended: if it was the last, orders that wait for it are answered.
    #[inline]
    pub(super) fn ended(&mut self, place: u32) {
        self.drained[place as usize].under_way -= 1;
        if self.drained[place as usize].is_drained() {
            self.tell_the_drained(place);
        }
    }

    /// Whether a volume takes no more requests.
    #[inline]
    pub(super) fn is_drained(&self, place: u32) -> bool {
        self.drained[place as usize].is_drained()
    }

    /// A volume that is drained, or goes.
    pub(super) fn any_drained(&self) -> Option<&str> {
        let place = self.drained.iter().position(Draining::is_drained)?;
        Some(&self.places[place].name)
    }

    /// Whether a volume was taken out, and has connections still.
    pub(super) fn ends(&self, place: u32) -> bool {
        self.drained[place as usize].ends.is_some()
    }

    /// Number of volumes that are being removed.
    pub(super) const fn ending(&self) -> usize {
        self.ending
    }

    /// Whether the connections of a volume that was taken out should be gone.
    pub(super) fn is_late(&self, place: u32, now: Nanos) -> bool {
        self.drained[place as usize].ends.is_some_and(|by| by <= now)
    }

    /// A volume takes no more requests; the order is answered once none is under way.
    pub(super) fn drain(&mut self, place: u32, asked: Asked) {
        self.drained[place as usize].asked.get_or_insert_default().push(asked);
        self.tell_the_drained(place);
    }

    /// A volume takes requests again. Orders that wait for its last one are told so.
    pub(super) fn resume(&mut self, place: u32) {
        for asked in self.drained[place as usize].asked.take().into_iter().flatten() {
            let _gone = asked.answer.send(Err("the volume was resumed meanwhile".to_owned()));
        }
    }

    /// Answers the orders that wait for the last request of a volume.
    fn tell_the_drained(&mut self, place: u32) {
        let draining = &mut self.drained[place as usize];
        if draining.under_way != 0 {
            return;
        }
        for asked in draining.asked.iter_mut().flat_map(std::mem::take) {
            let name = &self.places[place as usize].name;
            let _gone = asked.answer.send(Ok(json!({ "drained": name })));
        }
    }

    /// Takes volumes out: their connections must be gone by then. Returns their places.
    pub(super) fn take_out(&mut self, going: Vec<Going>, by: Nanos) -> Vec<u32> {
        let mut places = Vec::new();
        for Going { name, held } in going {
            if let Ok(place) = self.find(&name) {
                let draining = &mut self.drained[place as usize];
                draining.ends = Some(by);
                draining.held = held;
                self.ending += 1;
                places.push(place);
            }
        }
        places
    }

    /// Adds volumes, whose files `add` gives a number, and orders all as configured; returns those
    /// for which there was no number after all.
    pub(super) fn add(
        &mut self,
        configured: &[config::Volume],
        coming: Vec<Coming>,
        line: &Line,
        mut add: impl FnMut(NewFile) -> Option<u16>,
    ) -> Vec<String> {
        let mut without = Vec::new();
        for Coming { mut place, file } in coming {
            let Some(number) = add(file) else {
                without.push(place.name);
                continue;
            };
            place.file = number;
            match self.drained.iter().position(|draining| draining.is_gone) {
                Some(free) => {
                    self.drained[free] = Draining::default();
                    self.places[free] = place;
                }
                None => {
                    self.drained.push(Draining::default());
                    self.places.push(place);
                }
            }
        }
        self.line_end = line.end();
        for (rank, volume) in configured.iter().enumerate() {
            if let Ok(place) = self.find(&volume.name) {
                self.drained[place as usize].rank = rank;
                self.places[place as usize].description.clone_from(&volume.description);
            }
        }
        without
    }

    /// Closes the files of volumes that were taken out and have no connections any more: `remove`
    /// takes them back from the backend.
    pub(super) fn close_the_empty(
        &mut self,
        has_connections: impl Fn(u32) -> bool,
        mut remove: impl FnMut(u16) -> Option<NewFile>,
    ) {
        if self.ending == 0 {
            return;
        }
        for place in 0..self.drained.len() {
            let draining = &self.drained[place];
            #[allow(clippy::cast_possible_truncation, reason = "fewer volumes than files, of u16")]
            if draining.ends.is_some() && draining.under_way == 0 && !has_connections(place as u32)
            {
                let file = remove(self.places[place].file);
                self.close_file(place, file);
            }
        }
    }

    fn close_file(&mut self, place: usize, file: Option<NewFile>) {
        self.ending -= 1;
        let draining = &mut self.drained[place];
        (draining.ends, draining.is_gone) = (None, true);
        let held = std::mem::take(&mut draining.held);
        let name = self.places[place].name.clone();
        (self.closer)(Box::new(move || {
            if let Some(Err(errno)) = file.as_ref().map(NewFile::sync) {
                let error = std::io::Error::from_raw_os_error(errno);
                crate::log::tell(format_args!(
                    "paternoster: {name}: it was taken out, and could not be flushed: {error}"
                ));
            }
            drop(file);
            drop(held);
        }));
    }

    /// Sets what closes files.
    #[cfg(test)]
    pub(super) fn close_by(&mut self, closer: Closer) {
        self.closer = closer;
    }

    /// Requests under way, by place.
    #[cfg(test)]
    pub(super) fn under_way(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.drained.iter().map(|draining| draining.under_way))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::control::order::{Answer, Order};
    use crate::device::FileFacts;
    use crate::device_loop::geometry;

    const FACTS: FileFacts = FileFacts::of_a_test(1 << 20, 512);

    fn two() -> Volumes {
        let configured = ["a", "b"].map(|name| config::Volume::new(name, name));
        let system = System::default();
        let (places, end) = geometry::lay_out(&system, &configured, |_| FACTS).unwrap();
        let mut volumes = Volumes::new("dev", places, end, &system);
        volumes.close_by(|closes| closes());
        volumes
    }

    fn drain(volumes: &mut Volumes, name: &str) -> Receiver<Answer> {
        let (answer, answers) = channel();
        let order = Order::Drain { volume: name.to_owned() };
        volumes.drain(volumes.find(name).unwrap(), Asked { order, answer });
        answers
    }

    fn going(name: &str) -> Vec<Going> {
        vec![Going { name: name.to_owned(), held: Vec::new() }]
    }

    /// Is an order to drain answered with the last request, at once if there is none, and with an
    /// error if the volume is resumed before?
    #[test]
    fn a_drain_is_answered_with_the_last_request() {
        let mut volumes = two();
        assert!(drain(&mut volumes, "b").try_recv().unwrap().is_ok());
        (0..2).for_each(|_| volumes.begins(0));
        let answers = drain(&mut volumes, "a");
        volumes.ended(0);
        assert!(volumes.is_drained(0) && answers.try_recv().is_err(), "one is under way");
        volumes.ended(0);
        assert_eq!(answers.try_recv().unwrap(), Ok(json!({ "drained": "a" })));
        volumes.begins(0);
        let answers = drain(&mut volumes, "a");
        volumes.resume(0);
        assert!(!volumes.is_drained(0) && answers.try_recv().unwrap().is_err());
    }

    /// Is the file of a volume that was taken out given back once, when its last request has ended
    /// and its last connection has gone?
    #[test]
    fn a_file_is_given_back_when_it_is_idle() {
        let mut volumes = two();
        volumes.begins(1);
        assert_eq!(volumes.take_out(going("b"), Nanos::from_secs(1)), [1]);
        assert!(volumes.find("b").is_err() && volumes.lines().len() == 1);
        assert!(!volumes.is_late(1, Nanos::ZERO) && volumes.is_late(1, Nanos::from_secs(1)));
        let mut given = Vec::new();
        let mut look = |volumes: &mut Volumes, connections: bool| {
            volumes.close_the_empty(
                |_| connections,
                |file| {
                    given.push(file);
                    None
                },
            );
            given.len()
        };
        assert_eq!(look(&mut volumes, false), 0, "a request is under way");
        volumes.ended(1);
        assert_eq!(look(&mut volumes, true), 0, "a connection is there");
        assert_eq!((look(&mut volumes, false), look(&mut volumes, false)), (1, 1));
        assert_eq!(volumes.ending(), 0);
    }

    /// Are names of volumes that are not there refused with the device's?
    #[test]
    fn what_is_not_there_is_not_found() {
        assert_eq!(two().find("c").unwrap_err(), "device dev has no volume c");
    }
}
