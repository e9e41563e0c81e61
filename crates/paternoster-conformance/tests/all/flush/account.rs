// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account: what left for the device and what ended, counted the same way for the kernel and
//! for us.

use paternoster_core::Nanos;

use super::log::Shape;

/// What one of the two block layers did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Side {
    /// Commands in the order in which they left, including those that came back and left again.
    pub(super) left: Vec<Shape>,
    /// Other commands that left while a flush was in the device, or on its way there.
    pub(super) beside: Vec<Shape>,
    /// Commands that the device refused, in order.
    pub(super) refused: Vec<Shape>,
    /// How often another command left before the one that had come back last.
    pub(super) overtaken: u32,
    /// How many bios ended with each flush.
    pub(super) waiters: Vec<u32>,
    /// The longest flush, from its last leaving to its end, during which another command went to
    /// the device and stayed there.
    pub(super) longest_beside: Nanos,
    /// When the flush last left.
    since: Nanos,
    /// How many others are in the device that left during it.
    staying: u32,
    /// What came back last and has not left again.
    back: Option<Shape>,
    /// A flush has left and not ended.
    flushing: bool,
}

impl Side {
    pub(super) fn leaves(&mut self, shape: Shape, now: Nanos) {
        self.left.push(shape);
        self.overtaken += u32::from(self.back.take().is_some_and(|back| back != shape));
        if shape.is_flush() {
            self.flushing = true;
            self.since = now;
        } else if self.flushing {
            self.staying += 1;
            self.beside.push(shape);
        }
    }

    pub(super) fn comes_back(&mut self, shape: Shape) {
        self.refused.push(shape);
        self.back = Some(shape);
        if self.flushing && !shape.is_flush() {
            // Never below zero with the same commands on both sides.
            self.staying = self.staying.saturating_sub(1);
        }
    }

    pub(super) fn ends(&mut self, shape: Shape, now: Nanos) {
        if shape.is_flush() {
            self.flushing = false;
            if std::mem::take(&mut self.staying) > 0 {
                self.longest_beside = self.longest_beside.max(now - self.since);
            }
            self.waiters.push(0);
        }
    }

    /// A bio that waited for the last flush ended.
    pub(super) fn waited(&mut self) {
        *self.waiters.last_mut().expect("a flush has ended") += 1;
    }

    /// From when a flush first left until its end.
    pub(super) const fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// The account in figures.
    pub(super) fn numbers(&self) -> Numbers {
        let flush_refused = self.refused.iter().filter(|shape| shape.is_flush()).count();
        Numbers {
            left: self.left.len(),
            flushes: self.waiters.len(),
            waiters: self.waiters.iter().map(|&waiters| waiters as usize).sum(),
            flush_refused,
            beside: self.beside.len(),
            refused: self.refused.len() - flush_refused,
        }
    }
}

/// A [`Side`] in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Commands that left, each time.
    pub(super) left: usize,
    /// Flushes that ended.
    pub(super) flushes: usize,
    /// Bios that ended with them.
    pub(super) waiters: usize,
    /// How often a flush came back.
    pub(super) flush_refused: usize,
    /// How many others left during a flush.
    pub(super) beside: usize,
    /// Number of other commands refused.
    pub(super) refused: usize,
}

/// A log's account.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub(super) linux: Side,
    pub(super) ours: Side,
    /// How often the driver asked while a flush was there and others waited, and ours gave nothing
    /// because of the flush.
    pub(super) held: u32,
    /// Refusals for commands of the driver's own, left out on both sides.
    pub(super) own: u32,
    /// Refusals that the log reports late.
    pub(super) late: u32,
    /// What differs, with the log's line.
    pub(super) differences: Vec<String>,
}
