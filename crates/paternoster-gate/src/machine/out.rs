// SPDX-License-Identifier: MIT OR Apache-2.0
//! Out: the permits that are out, in the order in which they expire, and the holders that named
//! themselves.
//!
//! All permits last equally long, so they expire in the order in which they were given:
//!
//! ```text
//! first ─ given at 3 ─ at 5 ─ at 9 ─ last       the next expires at 3 + 30 s
//! ```
//!
//! Invariant: `holders` has an entry for each permit that is out and whose holder is not 0.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use paternoster_core::Nanos;
use paternoster_core::list::{Links, List};

/// A permit that is not out: it was given back, has expired, or was never granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOut;

impl core::fmt::Display for NotOut {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the permit was given back already, or has expired")
    }
}

impl core::error::Error for NotOut {}

/// The permits that are out.
#[derive(Debug)]
pub(super) struct Out {
    order: List,
    links: Links,
    /// Holders of permits, if named.
    holders: Vec<u64>,
    expires_after: Nanos,
}

impl Out {
    /// No permits; of `entries`, `most` may be out, each for `expires_after`.
    pub(super) fn new(entries: u32, most: u32, expires_after: Nanos) -> Out {
        Out {
            order: List::new(),
            links: Links::with_capacity(entries),
            holders: Vec::with_capacity(most as usize),
            expires_after,
        }
    }

    #[inline]
    pub(super) const fn len(&self) -> u32 {
        self.order.len()
    }

    /// The permit that expires first.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.order.first()
    }

    /// When a permit given then expires.
    #[inline]
    pub(super) fn expires(&self, granted: Nanos) -> Nanos {
        granted + self.expires_after
    }

    /// Whether this holder has a permit; 0 is none in particular.
    #[inline]
    pub(super) fn holds(&self, holder: u64) -> bool {
        holder != 0 && self.holders.contains(&holder)
    }

    /// A permit is given to an entry; it expires last.
    #[inline]
    pub(super) fn enter(&mut self, index: u32, holder: u64) {
        if holder != 0 {
            self.holders.push(holder);
        }
        self.order.push_back(&mut self.links, index);
    }

    /// An entry's permit is no longer out.
    #[inline]
    pub(super) fn leave(&mut self, index: u32, holder: u64) {
        self.order.remove(&mut self.links, index);
        if let Some(place) = self.holders.iter().position(|held| holder != 0 && *held == holder) {
            self.holders.swap_remove(place);
        }
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.links.contains(index)
    }

    /// Verifies the list, and that `holders` agrees with what `holder_of` says of the entries.
    pub(super) fn check(&self, holder_of: impl Fn(u32) -> u64) -> Result<(), String> {
        self.order.check(&self.links)?;
        let named = self.order.iter(&self.links).filter(|&index| holder_of(index) != 0).count();
        let holders = self.holders.len();
        if named != holders { Err(format!("{holders} holders of {named}")) } else { Ok(()) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.order.iter(&self.links)
    }
}
