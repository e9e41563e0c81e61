// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ramp: once a client is not owed any more, commands go into the device step by step.
//!
//! While a client is owed the gate holds those that are ahead of it (see `gate.rs`), and the device
//! is emptied until the owed client's requests take little more than their least time. Then it is
//! not owed, and if all that waited went at once, the device would be full again before anybody
//! could tell:
//!
//! ```text
//! 64 of 4 KiB, owed 4 of 6 parts, beside 32 of 4 KiB and 128 of 64 KiB (`nvme-pm9a3`)
//!
//! inside, all at once   96  224  200  160  120  96  75  224 …   4 KiB: 0.38 of what is owed
//! step by step          91   90   89   75   75  85  88   87 …          0.85, and 3 % more in all
//! ```
//!
//! So a limit is set to what is inside at that moment and an eighth more, and grows by one with
//! each 16 times that it holds something up: about an eighth of what is inside in the time that a
//! request takes. Within the limit accounts decide which client goes.
//!
//! # Invariants
//! I1  The limit is at least one; it is only set where nothing rotates, and not where there are
//!     seats or in fallback.
//! I2  Whatever it is, it grows as long as it holds anything up.
//!
//! Source: L6 of `docs/rules/adaptive.md`; measured on the models.

/// The limit grows by one when it has held something up so often.
const REFUSALS: u32 = 16;
/// At first it is one part in this many above what is inside.
const MORE: u32 = 8;

/// The limit.
#[derive(Debug)]
pub(super) struct Ramp {
    most: u32,
    refused: u32,
}

impl Ramp {
    /// There is no limit.
    pub(super) const fn new() -> Ramp {
        Ramp { most: u32::MAX, refused: 0 }
    }

    /// Whether no more than the `inside` commands may be in the device.
    #[inline(always)]
    pub(super) const fn is_full(&self, inside: u32) -> bool {
        inside >= self.most
    }

    /// Something was held up (I2).
    pub(super) const fn refuses(&mut self) {
        self.refused += 1;
        if self.refused == REFUSALS {
            (self.most, self.refused) = (self.most.saturating_add(1), 0);
        }
    }

    /// A client is not owed any more, with `inside` commands in the device.
    pub(super) fn begins(&mut self, inside: u32) {
        self.most = self.most.min(inside + inside / MORE).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L6: with 96 inside, may 12 more go in at first, and one more each time that 16 were held up?
    /// Is a limit lowered by another beginning, and never raised? Is it 1 at least?
    #[test]
    fn l6_one_more_goes_in_after_sixteen_were_held_up() {
        let mut ramp = Ramp::new();
        assert!(!ramp.is_full(1 << 20));
        ramp.begins(96);
        assert!(!ramp.is_full(107) && ramp.is_full(108));
        for _ in 0..2 * REFUSALS {
            ramp.refuses();
        }
        assert!(!ramp.is_full(109) && ramp.is_full(110));
        ramp.begins(200);
        assert!(!ramp.is_full(109) && ramp.is_full(110));
        ramp.begins(0);
        assert!(!ramp.is_full(0) && ramp.is_full(1));
    }
}
