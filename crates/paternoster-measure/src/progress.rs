// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: how far an I/O is, and where [`Places`](crate::places::Places) lists it for that.
//!
//! ```text
//! left        8..12  12..16  20..24         8..16 and 20..24 have not ended
//! unissued           12..16                 of these 12..16 was not issued: `UNISSUED`
//! issued      8..12          20..24         the others were: `ISSUED`
//! ```
//!
//! Invariant: what was not issued has not ended.

use crate::in_flight::{Extent, IN_FLIGHT_MAX};
use crate::sectors::{Range, Sectors};

/// Gaps in what is left of one I/O.
pub(crate) const GAPS_MAX: usize = 1 << 10;

/// Where `places` lists an I/O: table, range, class.
pub(crate) type Listed = (u8, Range, u8);

/// How far an I/O is.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Sectors that were not issued; of these none has ended.
    pub(crate) unissued: Sectors,
    /// Sectors that have not ended.
    pub(crate) left: Sectors,
    /// Whether an I/O without sectors was issued.
    pub(crate) is_issued: bool,
}

/// Which sectors of an I/O an event can concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concerns {
    Unissued,
    Issued,
    Left,
}

// Tables of `places`. By ranges that are not issued and that are, with `WHOLE` or `PIECE`; by the
// extent, of those of which nothing has ended and only a part is issued; by the extent, of all,
// with their stage.
pub(crate) const UNISSUED: u8 = 0;
pub(crate) const ISSUED: u8 = 1;
pub(crate) const MIXED: u8 = 2;
pub(crate) const ALL: u8 = 3;

// Classes: the range is all that the I/O is, or a part of it.
pub(crate) const WHOLE: u8 = 0;
pub(crate) const PIECE: u8 = 1;

impl Concerns {
    /// The tables that have what it can concern.
    pub(crate) const fn tables(self) -> &'static [u8] {
        match self {
            Concerns::Unissued => &[UNISSUED],
            Concerns::Issued => &[ISSUED],
            Concerns::Left => &[UNISSUED, ISSUED, MIXED],
        }
    }
}

impl State {
    pub(crate) const fn new(extent: &Extent) -> State {
        let unissued = Sectors::new(extent.sector, extent.end);
        let left = Sectors::new(extent.sector, extent.end);
        State { unissued, left, is_issued: false }
    }

    pub(crate) fn issued(&self) -> Sectors {
        self.left.without(&self.unissued)
    }

    pub(crate) fn concerned(&self, by: Concerns) -> Sectors {
        match by {
            Concerns::Unissued => self.unissued.clone(),
            Concerns::Issued => self.issued(),
            Concerns::Left => self.left.clone(),
        }
    }

    /// What it is once these sectors were concerned.
    pub(crate) fn after(&self, by: Concerns, own: &Sectors) -> State {
        let unissued = match by {
            Concerns::Unissued | Concerns::Left => self.unissued.without(own),
            Concerns::Issued => self.unissued.with(own),
        };
        let is_left = by != Concerns::Left;
        let left = if is_left { self.left.clone() } else { self.left.without(own) };
        State { unissued, left, is_issued: by == Concerns::Unissued }
    }

    /// Whether no part was concerned.
    pub(crate) fn is_before(&self, by: Concerns, extent: &Extent) -> bool {
        match by {
            Concerns::Unissued => self.unissued.count() == extent.sectors(),
            Concerns::Issued => self.unissued.is_empty(),
            Concerns::Left => self.left.count() == extent.sectors(),
        }
    }

    /// Whether nothing more can be concerned.
    pub(crate) fn is_behind(&self, by: Concerns) -> bool {
        match by {
            Concerns::Unissued => self.unissued.is_empty(),
            Concerns::Issued => self.unissued == self.left,
            Concerns::Left => self.left.is_empty(),
        }
    }

    /// Whether an I/O may become this, where all have so many gaps.
    pub(crate) fn has_room(&self, by: Concerns, from: &State, all: usize) -> bool {
        let of = |state: &State| match by {
            Concerns::Unissued | Concerns::Issued => state.unissued.gaps(),
            Concerns::Left => state.left.gaps(),
        };
        of(self) <= of(from) || all < IN_FLIGHT_MAX && of(self) <= GAPS_MAX
    }

    pub(crate) fn gaps(&self) -> usize {
        self.unissued.gaps() + self.left.gaps()
    }

    /// The entries under which `places` lists an I/O of this extent: table, range and class, in
    /// this order.
    pub(crate) fn listed(&self, extent: &Extent, mut list: impl FnMut(Listed)) {
        let State { unissued, left, is_issued } = self;
        let whole = (extent.sector, extent.end);
        if extent.sectors() == 0 {
            return list((if *is_issued { ISSUED } else { UNISSUED }, whole, WHOLE));
        }
        let mut all = |table, sectors: &Sectors| {
            for range in sectors.ranges() {
                list((table, *range, if *range == whole { WHOLE } else { PIECE }));
            }
        };
        let issued = self.issued();
        all(UNISSUED, unissued);
        all(ISSUED, &issued);
        if left.ranges() == [whole] && !unissued.is_empty() && !issued.is_empty() {
            all(MIXED, left);
        }
    }
}
