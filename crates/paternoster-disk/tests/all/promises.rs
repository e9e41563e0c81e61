// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises: what each sector may hold, derived only from the calls and the answers. Knows nothing
//! of caches or landings.
//!
//! A sector of a write is filled with the write's number. Of two writes that touch a sector one is
//! *surely later* if it was submitted after the other's end was reported.
//!
//! ```text
//! step     1     2     3      4     5          write 1 and 2: either may be the later one
//! write 1  submit      end                     write 4 is surely later than 1, and not than 2
//! write 2        submit             end
//! write 4                     submit
//! ```
//!
//! * After a crash, and in a read, a sector never holds a write if some *sure* write is surely
//!   later, and holds the content before all writes only if no write is sure. For a crash a write
//!   is sure if it is durable, for a read if it had ended well when the read was submitted.
//! * A write that may not tear is never in one of its sectors while another holds content that is
//!   surely older.

use std::collections::BTreeMap;

/// Sectors that the tests write to.
pub(crate) const SECTORS: u64 = 48;

#[derive(Debug, Clone, Copy)]
struct Write {
    first: u64,
    end: u64,
    submitted: u64,
    told: Option<u64>,
    well: bool,
    durable: bool,
    torn: bool,
}

/// What the disk has promised.
#[derive(Debug)]
pub(crate) struct Promises {
    step: u64,
    /// By number, which is never 0.
    writes: BTreeMap<u64, Write>,
    /// The content when the power came back.
    base: Vec<u64>,
    has_cache: bool,
}

impl Promises {
    pub(crate) fn new(has_cache: bool) -> Promises {
        let base = vec![0; usize::try_from(SECTORS).unwrap()];
        Promises { step: 0, writes: BTreeMap::new(), base, has_cache }
    }

    /// Each call has a step of its own.
    pub(crate) fn step(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    pub(crate) fn submitted(&mut self, number: u64, first: u64, end: u64, torn: bool) {
        let submitted = self.step();
        let write = Write { first, end, submitted, told: None, well: false, durable: false, torn };
        self.writes.insert(number, write);
    }

    pub(crate) fn write_told(&mut self, number: u64, well: bool, fua: bool) {
        let told = self.step();
        let write = self.writes.get_mut(&number).unwrap();
        write.told = Some(told);
        write.well = well;
        write.durable = well && (fua || !self.has_cache);
    }

    /// A flush that was submitted at `step` has ended well.
    pub(crate) fn flush_told(&mut self, step: u64) {
        for write in self.writes.values_mut() {
            write.durable |= write.well && write.told.is_some_and(|told| told < step);
        }
    }

    fn surely_later(&self, number: u64, other: &Write) -> bool {
        // The initial content is before all writes.
        let ended = self.writes.get(&number).map_or(Some(0), |write| write.told);
        ended.is_some_and(|ended| ended < other.submitted)
    }

    /// Whether a sector may hold this number, if these writes are sure.
    fn may_hold(&self, sector: u64, number: u64, sure: impl Fn(&Write) -> bool) -> bool {
        let touches = |write: &Write| (write.first..write.end).contains(&sector);
        let known = match self.writes.get(&number) {
            Some(write) => touches(write),
            None => self.base[usize::try_from(sector).unwrap()] == number,
        };
        let mut later = self.writes.values().filter(|write| touches(write) && sure(write));
        known && !later.any(|write| self.surely_later(number, write))
    }

    /// The numbers in sectors from `first` on.
    fn numbers(bytes: &[u8]) -> Result<Vec<u64>, String> {
        let number = |sector: &[u8]| {
            let number = u64::from_le_bytes(sector[..8].try_into().unwrap());
            let whole = sector.chunks_exact(8).all(|word| word == number.to_le_bytes());
            whole.then_some(number).ok_or("a sector is torn in itself".to_owned())
        };
        bytes.chunks_exact(512).map(number).collect()
    }

    /// May a read that was submitted at `step` return this?
    pub(crate) fn judge_read(&self, step: u64, first: u64, bytes: &[u8]) -> Result<(), String> {
        for (sector, number) in (first..).zip(Promises::numbers(bytes)?) {
            let sure = |write: &Write| write.well && write.told.is_some_and(|told| told < step);
            if !self.may_hold(sector, number, sure) {
                return Err(format!("sector {sector} was read as {number}: {self:#?}"));
            }
        }
        Ok(())
    }

    /// May a crash now leave this?
    pub(crate) fn judge_crash(&self, bytes: &[u8]) -> Result<(), String> {
        let numbers = Promises::numbers(bytes)?;
        for (sector, number) in (0..).zip(&numbers) {
            if !self.may_hold(sector, *number, |write| write.durable) {
                return Err(format!("a crash leaves {number} in sector {sector}: {self:#?}"));
            }
        }
        for (number, write) in self.writes.iter().filter(|(_, write)| !write.torn) {
            let range = usize::try_from(write.first).unwrap()..usize::try_from(write.end).unwrap();
            let holds = &numbers[range];
            if holds.contains(number) && holds.iter().any(|it| self.surely_later(*it, write)) {
                return Err(format!("write {number} is torn: {holds:?} {self:#?}"));
            }
        }
        Ok(())
    }

    /// The power failed, and this is there now.
    pub(crate) fn crashed(&mut self, bytes: &[u8]) {
        self.base = Promises::numbers(bytes).unwrap();
        self.writes.clear();
    }
}
