// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes that come and go while a loop serves.
//!
//! ```text
//! comes   a file that was opened elsewhere gets a number of the backend, and a place on the line
//! goes    its name is no longer valid; its connections make no more requests, and are closed when
//!         those they have made have ended, or when `drain-timeout` is over
//!         ─▶ the backend gives its file back ─▶ a thread syncs it, closes it, lets its locks go
//! ```
//!
//! One that goes and comes again before its connections have gone is there twice for a while; both
//! have the same place on the line, so that changes of the same blocks exclude each other.
//!
//! Invariants: I1 a file is given back when no connection of its volume is left; I2 the locks of a
//! file are held until it is closed.

use super::geometry::{Line, Place};
use super::open::export_facts;
use super::{DeviceLoop, Draining};
use crate::config;
use crate::device::NewFile;
use crate::device::claim::Claim;
use crate::nbd::ExportFacts;

/// A volume that comes.
#[derive(Debug)]
pub struct Coming {
    /// Where it is; its file has no number yet.
    pub(crate) place: Place,
    /// Its file.
    pub(crate) file: NewFile,
}

/// A volume that goes.
#[derive(Debug)]
pub struct Going {
    /// Its name.
    pub(crate) name: String,
    /// What no other volume may claim until its file is closed.
    pub(crate) held: Vec<Claim>,
}

/// What closes files.
pub(super) type Closer = fn(Box<dyn FnOnce() + Send>);

/// A thread of its own: closing may wait for the disk.
pub(super) fn close_on_a_thread(closes: Box<dyn FnOnce() + Send>) {
    std::thread::spawn(closes);
}

impl DeviceLoop {
    /// The present volumes, in the order of the configuration.
    pub(super) fn volumes(&self) -> impl Iterator<Item = (&Place, &Draining)> {
        let all = self.places.iter().zip(&self.drained);
        let mut there: Vec<_> = all.filter(|(_, draining)| draining.is_there()).collect();
        there.sort_by_key(|(_, draining)| draining.rank);
        there.into_iter()
    }

    /// Their facts for clients.
    pub(super) fn exports(&self) -> Vec<ExportFacts> {
        let facts = self.recorded_queue.queue().facts();
        self.volumes().map(|(place, _)| export_facts(place, facts)).collect()
    }

    /// Where files are on the line.
    pub(super) fn line(&self) -> Line {
        let all = self.places.iter().zip(&self.drained);
        let open = all.filter(|(_, draining)| !draining.is_gone).map(|(place, _)| place);
        Line::of(open, self.line_end, &self.system)
    }

    /// Removes and adds volumes, and orders them as configured; returns those for which there was
    /// no room after all.
    pub(super) fn take_volumes(
        &mut self,
        device: &config::Device,
        going: Vec<Going>,
        coming: Vec<Coming>,
        line: &Line,
    ) -> Vec<String> {
        for Going { name, held } in going {
            if let Ok(place) = self.volume(&name) {
                let draining = &mut self.drained[place];
                draining.ends = Some(self.now + self.drain_timeout);
                draining.held = held;
                self.ending += 1;
                self.leave_volume(place);
            }
        }
        let mut without = Vec::new();
        for Coming { mut place, file } in coming {
            let Some(number) = self.lender.add(file) else {
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
        for (rank, volume) in device.volumes.iter().enumerate() {
            if let Ok(place) = self.volume(&volume.name) {
                self.drained[place].rank = rank;
                self.places[place].description.clone_from(&volume.description);
            }
        }
        without
    }

    /// Connections of the volume that have nothing under way go at once.
    fn leave_volume(&mut self, place: usize) {
        let of_it =
            self.connections.iter().filter(|(_, connection)| connection.place as usize == place);
        let of_it: Vec<u32> = of_it.map(|(index, _)| index).collect();
        of_it.into_iter().for_each(|index| self.leave_when_idle(index));
    }

    /// Closes the files of volumes that were taken out and have no connections any more.
    pub(super) fn close_the_empty(&mut self) {
        if self.ending == 0 {
            return;
        }
        for place in 0..self.drained.len() {
            let draining = &self.drained[place];
            let ends = draining.ends.is_some() && draining.under_way == 0;
            if ends
                && self.connections.iter().all(|(_, connection)| connection.place as usize != place)
            {
                self.close_file(place);
            }
        }
    }

    fn close_file(&mut self, place: usize) {
        self.ending -= 1;
        let draining = &mut self.drained[place];
        (draining.ends, draining.is_gone) = (None, true);
        let held = std::mem::take(&mut draining.held);
        let Place { name, file, .. } = &self.places[place];
        let (name, file) = (name.clone(), self.lender.remove(*file));
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

    /// Closes the connections that have not ended in time.
    pub(super) fn end_the_late(&mut self) {
        if self.ending == 0 {
            return;
        }
        let (now, drained) = (self.now, &self.drained);
        let late = |place: u32| drained[place as usize].ends.is_some_and(|by| by <= now);
        let late = self.connections.iter().filter(|(_, connection)| late(connection.place));
        let late: Vec<u32> = late.map(|(index, _)| index).collect();
        late.into_iter().for_each(|index| self.close(index, "its volume was taken out"));
    }
}
