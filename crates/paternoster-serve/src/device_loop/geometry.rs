// SPDX-License-Identifier: MIT OR Apache-2.0
//! Geometry: where volumes lie on the line of sectors that the scheduler sees.
//!
//! One queue orders the requests of all volumes of a device. Ranges of one file keep their relative
//! places; files follow each other, with a gap, so that requests of two files are never merged. Two
//! names of one file are one file here, too: shared volumes may have them.
//!
//! ```text
//! sectors   0 ....... 2048 ............ 4096+gap ....
//! file a    |-- vol x --|-- vol y --|
//! file b                              |-- vol z --|
//! ```

use std::path::PathBuf;

use paternoster_core::DeviceFacts;

use crate::config;
use crate::device::FileFacts;
use crate::device::identity::is_one_thing;
use crate::device::system::System;
use crate::handover::record::VolumeBytes;
use crate::nbd::ExportFacts;

/// Sectors of a line at most: 8 EiB. The queue's device has this many, so that volumes can come
/// while it runs.
pub(super) const LONGEST: u64 = 1 << 54;
/// Sectors between two files: 1 MiB, more than any merge can span.
const GAP: u64 = 2048;

/// A volume and its place on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The export's name.
    pub name: String,
    /// File or block device.
    pub path: PathBuf,
    /// A description for people.
    pub description: String,
    /// Number of its file within the backend.
    pub file: u16,
    /// First byte within the file.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The sector at which the file begins on the line.
    pub base: u64,
    /// Writes are refused.
    pub readonly: bool,
    /// What its file supports.
    pub facts: FileFacts,
}

impl Place {
    /// The sector on the line of a byte of the volume.
    pub(super) const fn sector(&self, offset: u64) -> u64 {
        self.base + (self.start + offset) / 512
    }

    /// The place on the line of a byte of the volume, in bytes.
    pub(super) const fn on_line(&self, offset: u64) -> u64 {
        self.base * 512 + self.start + offset
    }

    /// The byte of the file at a sector of the line.
    pub(super) const fn file_offset(&self, sector: u64) -> u64 {
        (sector - self.base) * 512
    }

    /// Where its bytes are.
    pub(super) const fn bytes(&self) -> VolumeBytes {
        VolumeBytes { thing: self.facts.thing, start: self.start }
    }

    /// What clients are told of the export.
    pub(super) fn export_facts(&self, facts: &DeviceFacts) -> ExportFacts {
        ExportFacts {
            name: self.name.clone(),
            description: self.description.clone(),
            size: self.size,
            readonly: self.readonly,
            block: self.facts.block,
            preferred: self.facts.preferred.max(self.facts.block),
            most: 32 << 20,
            flush: true,
            fua: !self.readonly,
            trim: self.facts.discards && !self.readonly,
            zeroes: !self.readonly,
            fast_zero: self.facts.zeroes_fast && !self.readonly,
            cache: true,
            multi_conn: true,
            rotational: facts.rotational,
        }
    }
}

/// Where all volumes lie, and how long the line is.
///
/// # Errors
/// A volume that reaches beyond its file, or has nothing.
pub(super) fn lay_out(
    system: &System,
    volumes: &[config::Volume],
    facts: impl Fn(u16) -> FileFacts,
) -> Result<(Vec<Place>, u64), String> {
    let mut places: Vec<Place> = Vec::with_capacity(volumes.len());
    let mut line = Line { system: system.clone(), ..Line::default() };
    for (file, volume) in (0u16..).zip(volumes) {
        places.push(line.lay(volume, file, facts(file))?);
    }
    Ok((places, line.end.max(1)))
}

/// Files on the line, and where it ends.
#[derive(Debug, Clone, Default)]
pub struct Line {
    files: Vec<(PathBuf, u64)>,
    end: u64,
    /// The system in which the files are.
    system: System,
}

impl Line {
    /// The line with these places.
    pub(super) fn of<'a>(
        places: impl Iterator<Item = &'a Place>,
        end: u64,
        system: &System,
    ) -> Line {
        let files = places.map(|place| (place.path.clone(), place.base)).collect();
        Line { files, end, system: system.clone() }
    }

    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Places a volume after all others, or where its file is already.
    ///
    /// # Errors
    /// It reaches beyond its file, has nothing, or the line is too long.
    pub(crate) fn lay(
        &mut self,
        volume: &config::Volume,
        file: u16,
        facts: FileFacts,
    ) -> Result<Place, String> {
        let block = u64::from(facts.block);
        let known = |path: &PathBuf| is_one_thing(&self.system, path, &volume.path);
        let base = match self.files.iter().find(|(path, _)| known(path)) {
            Some((_, base)) => *base,
            None => {
                let base = self.end;
                self.end += facts.size / 512 + GAP;
                self.files.push((volume.path.clone(), base));
                base
            }
        };
        if self.end > LONGEST {
            return Err(format!("volume {}: the files of this device are too long", volume.name));
        }
        let name = &volume.name;
        if !volume.start.is_multiple_of(block) {
            let start = volume.start;
            return Err(format!(
                "volume {name} starts at {start}, not a multiple of {block} bytes"
            ));
        }
        let left = facts.size.saturating_sub(volume.start);
        let size = volume.length.unwrap_or(left) / block * block;
        if size > left || size == 0 {
            return Err(format!(
                "volume {name} ({} + {size} bytes) does not fit in {} of {} bytes",
                volume.start,
                volume.path.display(),
                facts.size
            ));
        }
        Ok(Place {
            name: name.clone(),
            path: volume.path.clone(),
            description: volume.description.clone(),
            file,
            start: volume.start,
            size,
            base,
            readonly: volume.readonly || facts.readonly,
            facts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: FileFacts = FileFacts::of_a_test(1 << 20, 512);

    fn volume(name: &str, path: &str, start: u64, length: Option<u64>) -> config::Volume {
        config::Volume { start, length, ..config::Volume::new(name, path) }
    }

    /// Do ranges of one file keep their offsets, and does another file follow after a gap? 1 MiB is
    /// 2048 sectors; the gap is as long.
    #[test]
    fn files_lie_one_behind_the_other() {
        let volumes = [
            volume("x", "a", 0, Some(4096)),
            volume("y", "a", 4096, None),
            volume("z", "b", 0, None),
        ];
        let (places, end) = lay_out(&System::default(), &volumes, |_| FACTS).unwrap();
        let sectors: Vec<u64> = places.iter().map(|place| place.sector(0)).collect();
        assert_eq!(sectors, [0, 8, 4096]);
        assert_eq!(places[1].size, (1 << 20) - 4096);
        assert_eq!(places[2].file_offset(places[2].sector(1024)), 1024);
        assert_eq!(end, 8192);
    }

    /// Is a volume that does not fit refused with the numbers?
    #[test]
    fn what_does_not_fit_is_refused() {
        let volumes = [volume("x", "a", 1 << 19, Some(1 << 20))];
        let message = lay_out(&System::default(), &volumes, |_| FACTS).unwrap_err();
        assert!(message.contains("524288 + 1048576"), "{message}");
    }
}
