// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strides: `zonemode=strided`, I/O in one zone after another with gaps between them.
//!
//! ```text
//! zonesize=16k zoneskip=16k, bs=4k                 0 1 2 3 8 9 10 11 16 17 ...
//! zonerange=16k zonesize=8k zoneskip=16k           0 1 8 9 16 17 ...        half of each zone
//! zonerange=16k zonesize=32k zoneskip=16k          0 1 2 3 0 1 2 3 8 9 ...  each zone twice
//! ```
//!
//! After `zonesize` bytes of I/O, reads and writes together, the zone moves on by `zonerange` (by
//! default `zonesize`) plus `zoneskip`, and back to the region's start when that leads beyond it.
//!
//! `zonemode=zbd` is for zoned devices, which are not modelled.
//!
//! Source: FIO-49; measured on fio 3.33.

use super::value::Reader;

/// The option `zonemode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZoneMode {
    /// No zones.
    #[default]
    None,
    /// Zones with gaps.
    Strided,
    /// The zones of a zoned device.
    Zbd,
}

/// The options `zonemode`, `zonesize`, `zonerange` and `zoneskip`; bytes, 0 is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strides {
    /// Whether there are zones at all.
    pub mode: ZoneMode,
    /// Bytes of I/O in a zone.
    pub size: u64,
    /// Size of a zone.
    pub range: u64,
    /// Bytes between zones.
    pub skip: u64,
}

impl Strides {
    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "zonemode" => {
                self.mode = match text {
                    "none" => ZoneMode::None,
                    "strided" => ZoneMode::Strided,
                    "zbd" => ZoneMode::Zbd,
                    _ => return Err(format!("`{text}` is none of none, strided and zbd")),
                }
            }
            "zonesize" => self.size = read.size(text)?,
            "zonerange" => self.range = read.size(text)?,
            // `Nz` counts zones, which only a zoned device has.
            "zoneskip" => self.skip = read.size(text)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks combinations; fills in what was not given.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        match self.mode {
            ZoneMode::None if self.size > 0 => {
                Err("zonesize without zonemode: write `zonemode=strided` beside it".to_owned())
            }
            ZoneMode::Strided if self.size == 0 => {
                Err("zonemode=strided needs a zonesize".to_owned())
            }
            ZoneMode::Strided if self.range == 0 => {
                self.range = self.size;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Where a file's zone is. Bytes of I/O are counted over all files of a clone: the file that is
/// next when a zone has had its I/O moves on, and the others stay where they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZoneCursor {
    strides: Strides,
    /// Start of the zone in the region.
    at: u64,
}

impl ZoneCursor {
    /// The cursor of a job, if it has strides.
    pub(super) fn new(strides: &Strides) -> Option<ZoneCursor> {
        let strided = strides.mode == ZoneMode::Strided && strides.size > 0;
        strided.then_some(ZoneCursor { strides: *strides, at: 0 })
    }

    /// Goes back to the first zone.
    pub(super) fn restart(&mut self) {
        self.at = 0;
    }

    /// Moves on if `done` bytes of I/O fill a zone, and counts from zero; true if it did.
    /// Beyond the region it goes back to `begin`, where later passes begin.
    pub(super) fn advance(&mut self, begin: u64, region: u64, done: &mut u64) -> bool {
        if *done < self.strides.size {
            return false;
        }
        *done = 0;
        let step = self.strides.range.saturating_add(self.strides.skip);
        self.at = self.at.saturating_add(step);
        if self.at >= region {
            self.at = begin;
        }
        true
    }

    /// Start and size of the zone.
    pub(super) fn zone(&self) -> (u64, u64) {
        (self.at, self.strides.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the zone move by range and skip, and back at the end? 16k of 48k are used in a region
    /// of 100k: 0, 48k, 96k, and 144k is beyond.
    #[test]
    fn zones_move_on() {
        let mut strides =
            Strides { mode: ZoneMode::Strided, size: 16, skip: 32, ..Strides::default() };
        strides.complete().unwrap();
        assert_eq!(strides.range, 16);
        let mut cursor = ZoneCursor::new(&strides).unwrap();
        let (mut starts, mut done) = (Vec::new(), 0);
        for _ in 0..8 {
            cursor.advance(0, 100, &mut done);
            starts.push(cursor.zone().0);
            done += 8;
        }
        assert_eq!(starts, [0, 0, 48, 48, 96, 96, 0, 0]);
    }

    /// Are incomplete options refused as fio refuses them?
    #[test]
    fn what_does_not_go_together() {
        let mut without = Strides { size: 4096, ..Strides::default() };
        assert!(without.complete().unwrap_err().contains("zonemode=strided"));
        let mut sizeless = Strides { mode: ZoneMode::Strided, ..Strides::default() };
        assert!(sizeless.complete().unwrap_err().contains("zonesize"));
        assert!(ZoneCursor::new(&Strides::default()).is_none());
    }
}
