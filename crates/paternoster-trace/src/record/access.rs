// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access: which sectors went to the device when, as counts in cells of time and place.
//!
//! Each `D` with sectors is one access, at its first sector. Accesses of one client and direction
//! that fall into the same cell are counted together, and the first of them is remembered, so that
//! a picture of many cells is no lattice:
//!
//! ```text
//! sector | . . 3 .      a cell is 2^a ns wide and 2^b sectors high
//!        | . 1 . 2
//!        +─────────▶ time
//! ```
//!
//! Cells begin small (1024 ns, 8 sectors), so that a short run is kept exactly. When there are more
//! than [`CELLS_MAX`] of them, they are made wider or higher by two until half are left: wider if
//! the run spans more than twice as many cells in time as in place, because pictures are about
//! twice as wide as high.
//!
//! # Invariants
//! I1  The counts of all cells add up to the number of accesses.
//! I2  There are at most `CELLS_MAX` cells, about 1 MiB.
//!
//! A write is everything except reads, as in block traces, where a discard has the write bit. A
//! command that the device refuses and gets again is counted again.

use std::collections::BTreeMap;

use paternoster_core::Nanos;

use super::step::{Step, StepKind};

/// The most cells that are kept.
pub const CELLS_MAX: usize = 16_384;
/// Clients with a higher index are kept as one, so that cells can always be put together.
pub const CLIENTS_KEPT: u32 = 256;

/// The cells' first width, as a power of two: 1024 ns.
const TIME_SHIFT_MIN: u32 = 10;
/// The cells' first height, as a power of two: 8 sectors, 4 KiB.
const SECTOR_SHIFT_MIN: u32 = 3;
/// Beyond this a cell holds everything.
const SHIFT_MAX: u32 = 63;

/// Where a cell is, in cells from the origin, and whose accesses it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    client: u32,
    write: bool,
    time: u64,
    place: u64,
}

/// The contents of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    first: (Nanos, u64),
    count: u64,
}

/// The accesses of one client and direction in one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Index of the client; [`CLIENTS_KEPT`] represents all from there on.
    pub client: u32,
    /// Everything but reads.
    pub write: bool,
    /// When the first of them was issued.
    pub at: Nanos,
    /// The first sector of that one.
    pub sector: u64,
    /// Number of accesses.
    pub count: u64,
}

impl Held {
    const fn one(at: Nanos, sector: u64) -> Held {
        Held { first: (at, sector), count: 1 }
    }
}

/// Where a device is in a record of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelf {
    /// Name of the device.
    pub name: String,
    /// Where its used range begins here, in sectors.
    pub base: u64,
    /// First sector of the device's range.
    pub first: u64,
    /// How many sectors the range has.
    pub height: u64,
}

/// The accesses of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRecord {
    time_shift: u32,
    sector_shift: u32,
    cells: BTreeMap<Cell, Held>,
    end: Nanos,
    /// The first sector and the one after the last.
    sectors: Option<(u64, u64)>,
    shelves: Vec<Shelf>,
    of_machine: bool,
}

impl Default for AccessRecord {
    fn default() -> AccessRecord {
        AccessRecord {
            time_shift: TIME_SHIFT_MIN,
            sector_shift: SECTOR_SHIFT_MIN,
            cells: BTreeMap::new(),
            end: Nanos::ZERO,
            sectors: None,
            shelves: Vec::new(),
            of_machine: false,
        }
    }
}

impl AccessRecord {
    /// Every cell, by client, direction, time and place.
    pub fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        self.cells.iter().map(|(cell, held)| Access {
            client: cell.client,
            write: cell.write,
            at: held.first.0,
            sector: held.first.1,
            count: held.count,
        })
    }

    /// How many commands were issued.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cells.values().map(|held| held.count).sum()
    }

    /// The time of the last issue or completion.
    #[must_use]
    pub const fn end(&self) -> Nanos {
        self.end
    }

    /// The first sector and the one after the last; `None` when there was no access.
    #[must_use]
    pub const fn sectors(&self) -> Option<(u64, u64)> {
        self.sectors
    }

    /// Width and height of a cell, in nanoseconds and sectors.
    #[must_use]
    pub const fn cell(&self) -> (Nanos, u64) {
        (Nanos(1 << self.time_shift), 1 << self.sector_shift)
    }

    /// The devices that this record shows one above the other; empty if there is only one.
    #[must_use]
    pub fn shelves(&self) -> &[Shelf] {
        &self.shelves
    }

    /// Whether clients are the processes of a machine: many, of which a few do most.
    #[must_use]
    pub const fn of_machine(&self) -> bool {
        self.of_machine
    }

    /// Says that clients are the processes of a machine.
    pub(super) const fn set_of_machine(&mut self) {
        self.of_machine = true;
    }

    /// Reads one step.
    pub fn step(&mut self, step: &Step) {
        match step.kind {
            StepKind::Issue | StepKind::Complete | StepKind::Stray | StepKind::Part => {
                self.end = step.at;
            }
            StepKind::Queue | StepKind::Requeue | StepKind::Done => {}
        }
        if step.kind != StepKind::Issue || step.sectors == 0 {
            return;
        }
        let end = step.sector.saturating_add(step.sectors.into());
        let client = step.client.min(CLIENTS_KEPT);
        self.put((client, step.write), (step.sector, end), Held::one(step.at, step.sector));
    }

    /// Adds what is held to the cell of its first access.
    fn put(&mut self, (client, write): (u32, bool), (sector, end): (u64, u64), held: Held) {
        let (first, last) = self.sectors.unwrap_or((sector, end));
        self.sectors = Some((first.min(sector), last.max(end)));
        let (at, sector) = held.first;
        let cell = Cell {
            client,
            write,
            time: at.0 >> self.time_shift,
            place: sector >> self.sector_shift,
        };
        add(&mut self.cells, cell, held);
        if self.cells.len() > CELLS_MAX {
            self.coarsen();
        }
    }

    /// The records of several devices as one, each with its used range above that of the one
    /// before.
    pub(super) fn stack(devices: Vec<(String, AccessRecord)>) -> AccessRecord {
        let mut all = AccessRecord::default();
        let mut base = 0_u64;
        for (name, record) in devices {
            all.end = all.end.max(record.end);
            let Some((first, last)) = record.sectors else { continue };
            for (cell, held) in &record.cells {
                let sector = base.saturating_add(held.first.1 - first);
                let range = (sector, sector.saturating_add(1));
                let first = (held.first.0, sector);
                all.put((cell.client, cell.write), range, Held { first, ..*held });
            }
            let height = last - first;
            all.sectors = all.sectors.map(|(low, _)| (low.min(base), base.saturating_add(height)));
            all.shelves.push(Shelf { name, base, first, height });
            base = base.saturating_add(height);
        }
        all
    }

    /// Puts cells together until at most half of the limit are left; fewer would soon be full
    /// again.
    fn coarsen(&mut self) {
        while self.cells.len() > CELLS_MAX / 2 {
            let (times, places) = self.spans();
            let wider = times / 2 > places && self.time_shift < SHIFT_MAX;
            if wider {
                self.time_shift += 1;
            } else {
                self.sector_shift = SHIFT_MAX.min(self.sector_shift + 1);
            }
            let (time, place) = if wider { (1, 0) } else { (0, 1) };
            let mut cells = BTreeMap::new();
            for (cell, held) in &self.cells {
                let cell = Cell { time: cell.time >> time, place: cell.place >> place, ..*cell };
                add(&mut cells, cell, *held);
            }
            self.cells = cells;
        }
    }

    /// How many cells the run spans in time and in place.
    fn spans(&self) -> (u64, u64) {
        let (first, last) = self.sectors.unwrap_or_default();
        let places = (last >> self.sector_shift) - (first >> self.sector_shift) + 1;
        ((self.end.0 >> self.time_shift) + 1, places)
    }
}

/// Counts `more` in a cell; of two first accesses the earlier one stays, at one instant that with
/// the lower sector.
fn add(cells: &mut BTreeMap<Cell, Held>, cell: Cell, more: Held) {
    let held = cells.entry(cell).or_insert(Held { count: 0, ..more });
    held.first = held.first.min(more.first);
    held.count += more.count;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issue(client: u32, at: u64, write: bool, sector: u64) -> Step {
        let (at, kind, latency) = (Nanos(at), StepKind::Issue, None);
        Step { at, kind, client, write, sector, sectors: 8, latency }
    }

    /// Are accesses of one client, direction and cell counted together, with the place of the
    /// first? Cells are 1024 ns and 8 sectors: 100 and 900 ns share one, sectors 16 and 20 do.
    #[test]
    fn cells_by_hand() {
        let (one, other) = (3, 4);
        let mut record = AccessRecord::default();
        for event in [
            issue(one, 100, false, 20),
            issue(one, 900, false, 16),
            issue(one, 900, true, 16),
            issue(other, 900, false, 16),
            issue(one, 1_100, false, 16),
        ] {
            record.step(&event);
        }
        let found: Vec<(u32, bool, u64, u64, u64)> = record
            .accesses()
            .map(|cell| (cell.client, cell.write, cell.at.0, cell.sector, cell.count))
            .collect();
        let (a, b) = (one, other);
        let expected = [
            (a, false, 100, 20, 2),
            (a, false, 1_100, 16, 1),
            (a, true, 900, 16, 1),
            (b, false, 900, 16, 1),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            (record.count(), record.end(), record.sectors()),
            (5, Nanos(1_100), Some((16, 28)))
        );
    }

    /// Are steps without a place left out: flushes, and those that are not an issue to the device?
    #[test]
    fn flushes_have_no_place() {
        let client = 0;
        let mut record = AccessRecord::default();
        record.step(&Step { sectors: 0, ..issue(client, 5, true, 0) });
        record.step(&Step { kind: StepKind::Queue, ..issue(client, 5, false, 0) });
        assert_eq!((record.count(), record.sectors()), (0, None));
    }

    /// Are cells made wider when a run is long and narrow? 16,385 accesses 1024 ns apart, in turn
    /// in two places: a cell each, one more than there is room for. Of cells 2^n times as wide
    /// there are two for every 2^n accesses, and one for the last: 16,385, 8193 and, at last
    /// within half of the limit, 4097 for n = 3.
    #[test]
    fn long_runs_are_kept_coarser() {
        let client = 0;
        let mut record = AccessRecord::default();
        for nth in 0..=16_384 {
            record.step(&issue(client, nth * 1024, false, nth % 2 * 8));
        }
        assert_eq!(record.cell(), (Nanos(8192), 8));
        assert_eq!(record.accesses().count(), 4_097);
        assert_eq!(record.count(), 16_385);
    }
    /// Are devices one above the other by their used ranges? One uses 100 to 112 (12 sectors), so
    /// that the other's 500 to 508 begins at 12; 20 in all.
    #[test]
    fn devices_are_stacked() {
        let device = |sectors: &[u64]| {
            let mut record = AccessRecord::default();
            sectors.iter().for_each(|&sector| record.step(&issue(1, 9_999, true, sector)));
            record
        };
        let devices = [("8,0", device(&[100, 104])), ("8,16", device(&[500]))];
        let all = AccessRecord::stack(devices.map(|(name, of)| (name.to_owned(), of)).into());
        let places: Vec<(u64, u64)> =
            all.accesses().map(|cell| (cell.sector, cell.count)).collect();
        assert_eq!(places, [(0, 2), (12, 1)]);
        assert_eq!((all.sectors(), all.end()), (Some((0, 20)), Nanos(9_999)));
        let name = "8,16".to_owned();
        assert_eq!(all.shelves()[1], Shelf { name, base: 12, first: 500, height: 8 });
    }
}
