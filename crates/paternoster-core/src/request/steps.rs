// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps: what happens to a bio that orders the device's cache.
//!
//! WC: the device has a volatile write cache. FUA: it can write past it.
//!
//! | bio               | no cache     | WC                     | WC + FUA                   |
//! |-------------------|--------------|------------------------|----------------------------|
//! | flush, no data    | done at once | PRE                    | PRE                        |
//! | PREFLUSH + data   | plain write  | PRE, DATA              | PRE, DATA                  |
//! | FUA + data        | plain write  | DATA, POST             | DATA with FUA              |
//! | PREFLUSH + FUA    | plain write  | PRE, DATA, POST        | PRE, DATA with FUA         |
//!
//! A request remembers which steps are *done*; the next is the first that is not. Steps that its
//! bio does not need are done from the beginning:
//!
//! ```text
//! FUA + data, WC      PRE done ─▶ DATA ─▶ POST ─▶ end
//! ```
//!
//! # Invariants
//! I1  Steps are only added; a request with all three is finished (FLUSH-17).
//!
//! Source: FLUSH-1 to FLUSH-3.

use crate::bio::Bio;
use crate::device::DeviceFacts;
use crate::op::{Flags, Op};

/// A step of a sequenced request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// It waits for a flush before its data.
    Preflush,
    /// Its data go to the device.
    Data,
    /// It waits for a flush after its data.
    Postflush,
    /// Nothing is left to do.
    Done,
}

/// The steps that a request has done; empty for one that is not sequenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Steps(u8);

const PRE: u8 = 1;
const DATA: u8 = 2;
const POST: u8 = 4;
const ALL: u8 = PRE | DATA | POST;
/// The request goes through the sequencer.
const SEQUENCED: u8 = 8;

impl Steps {
    /// The steps of `bio` on a device with these `facts`.
    pub(crate) fn of(bio: &Bio, facts: &DeviceFacts) -> Steps {
        let mut due = 0;
        if bio.sectors > 0 {
            due |= DATA;
        }
        if facts.write_cache {
            if bio.op == Op::Flush || bio.flags.contains(Flags::PREFLUSH) {
                due |= PRE;
            }
            if bio.flags.contains(Flags::FUA) && !facts.fua {
                due |= POST;
            }
        }
        Steps(SEQUENCED | (ALL & !due))
    }

    /// Whether the request goes through the sequencer.
    pub(crate) const fn is_sequenced(self) -> bool {
        self.0 & SEQUENCED != 0
    }

    /// Whether only data are left: nothing that needs a sequencer.
    pub(crate) const fn is_data_only(self) -> bool {
        self.0 & ALL == PRE | POST
    }

    /// Whether it begins with its data and ends with a flush.
    pub(crate) const fn begins_with_data(self) -> bool {
        self.0 & ALL == PRE
    }

    /// A flush before its data instead of one after them.
    #[cfg(feature = "planted-bugs")]
    pub(crate) const fn planted(self, planted: bool) -> Steps {
        if planted { Steps(SEQUENCED | POST) } else { self }
    }

    /// The next step.
    pub(crate) const fn next(self) -> Step {
        if self.0 & PRE == 0 {
            Step::Preflush
        } else if self.0 & DATA == 0 {
            Step::Data
        } else if self.0 & POST == 0 {
            Step::Postflush
        } else {
            Step::Done
        }
    }

    /// With its next step done.
    pub(crate) const fn advanced(self) -> Steps {
        let behind = match self.next() {
            Step::Preflush => PRE,
            Step::Data => DATA,
            Step::Postflush => POST,
            Step::Done => 0,
        };
        Steps(self.0 | behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientId;

    fn way(op: Op, sectors: u32, flags: Flags, write_cache: bool, fua: bool) -> [Step; 3] {
        let facts = DeviceFacts { write_cache, fua, ..DeviceFacts::default() };
        let bio = Bio::new(ClientId::NOBODY, op, 0, sectors).flags(flags);
        let first = Steps::of(&bio, &facts);
        let second = first.advanced();
        [first.next(), second.next(), second.advanced().next()]
    }

    /// Are steps only added, from any start, until all are done (I1)?
    #[test]
    fn steps_only_become_more() {
        for due in 0..=ALL {
            let mut steps = Steps(SEQUENCED | (ALL & !due));
            for _ in 0..due.count_ones() {
                let before = steps;
                assert_ne!(before.next(), Step::Done);
                steps = before.advanced();
                assert_eq!((steps.0 & before.0, steps.0 != before.0), (before.0, true));
            }
            assert_eq!((steps.next(), steps.advanced()), (Step::Done, steps));
        }
    }

    /// Does every cell of the table hold?
    #[test]
    fn every_cell_of_the_table() {
        use Step::{Data, Done, Postflush, Preflush};
        let both = Flags::PREFLUSH | Flags::FUA;
        let rows = [
            (Op::Flush, 0, Flags::NONE),
            (Op::Write, 8, Flags::PREFLUSH),
            (Op::Write, 8, Flags::FUA),
            (Op::Write, 8, both),
        ];
        let expected = [
            [[Done; 3], [Preflush, Done, Done], [Preflush, Done, Done]],
            [[Data, Done, Done], [Preflush, Data, Done], [Preflush, Data, Done]],
            [[Data, Done, Done], [Data, Postflush, Done], [Data, Done, Done]],
            [[Data, Done, Done], [Preflush, Data, Postflush], [Preflush, Data, Done]],
        ];
        for ((op, sectors, flags), row) in rows.into_iter().zip(expected) {
            for (caps, cell) in [(false, false), (true, false), (true, true)].into_iter().zip(row) {
                assert_eq!(way(op, sectors, flags, caps.0, caps.1), cell, "{op:?} {flags:?}");
            }
        }
    }
}
