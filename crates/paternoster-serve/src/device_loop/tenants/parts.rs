// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts: what of the device a node of the tree may have now, by weights.
//!
//! ```text
//! root ─┬─ gold 300 ─┬─ db  100     of its level 1000/1000, of the device 750
//!       │            └─ web 100     has no connection: counts for nothing
//!       └─ vm   100                 of its level  250/1000, of the device 250
//! ```
//!
//! Invariant: a node counts itself as present, so that a newcomer sees what it will have.

use super::{ROOT, Tenants};

impl Tenants {
    /// The part of the device that a node may have, in thousandths, of what those with
    /// connections share; the root has all.
    pub(in crate::device_loop) fn share(&self, place: u32) -> u16 {
        let (mut share, mut place) = (1000, place);
        while place != ROOT {
            share = share * self.share_of_level(place) / 1000;
            place = self.at(place).parent;
        }
        u16::try_from(share).unwrap_or(1000)
    }

    /// The part of what its siblings share, in thousandths; itself counted as present.
    pub(in crate::device_loop) fn share_of_level(&self, place: u32) -> u64 {
        let own = self.at(place);
        let others: u64 = self
            .iter()
            .filter(|&(other, node)| {
                other != ROOT
                    && other != place
                    && node.parent == own.parent
                    && self.is_active(other)
            })
            .map(|(_, node)| u64::from(node.effective))
            .sum();
        u64::from(own.effective) * 1000 / (others + u64::from(own.effective)).max(1)
    }
}
