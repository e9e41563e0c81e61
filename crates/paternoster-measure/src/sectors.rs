// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sectors: a set of them, as ranges.
//!
//! ```text
//! {8..24} without {12..16}   ▶   {8..12, 16..24}
//! ```
//!
//! Nearly every set is one range, which needs no memory of its own.
//!
//! Invariant: ranges are not empty, in order, and do not touch each other.

/// From a first sector to an end, this not included.
pub(crate) type Range = (u64, u64);

/// A set of sectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sectors {
    None,
    One(Range),
    Many(Vec<Range>),
}

impl Sectors {
    /// All from `first` to `end`, this not included.
    pub(crate) const fn new(first: u64, end: u64) -> Sectors {
        if first < end { Sectors::One((first, end)) } else { Sectors::None }
    }

    /// The set as ranges.
    pub(crate) fn ranges(&self) -> &[Range] {
        match self {
            Sectors::None => &[],
            Sectors::One(range) => core::slice::from_ref(range),
            Sectors::Many(ranges) => ranges,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Sectors::None)
    }

    /// How many ranges there are beyond the first.
    pub(crate) fn gaps(&self) -> usize {
        self.ranges().len().saturating_sub(1)
    }

    /// Number of sectors.
    pub(crate) fn count(&self) -> u64 {
        self.ranges().iter().map(|(first, end)| end - first).sum()
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Option<u64> {
        self.ranges().first().map(|range| range.0)
    }

    /// The sectors that are in both sets.
    pub(crate) fn common(&self, other: &Sectors) -> Sectors {
        let (mut ours, mut theirs) = (self.ranges(), other.ranges());
        let mut common = Sectors::None;
        while let ([one, ..], [another, ..]) = (ours, theirs) {
            common.push((one.0.max(another.0), one.1.min(another.1)));
            if one.1 <= another.1 {
                ours = &ours[1..];
            } else {
                theirs = &theirs[1..];
            }
        }
        common
    }

    /// The sectors that are not in `other`.
    pub(crate) fn without(&self, other: &Sectors) -> Sectors {
        let mut rest = Sectors::None;
        let mut holes = other.ranges();
        for &(mut first, end) in self.ranges() {
            // A hole that ends beyond this range is looked at again for the next one.
            while let [hole, ..] = holes {
                if hole.0 >= end {
                    break;
                }
                rest.push((first, hole.0.min(end)));
                first = first.max(hole.1);
                if hole.1 > end {
                    break;
                }
                holes = &holes[1..];
            }
            rest.push((first, end));
        }
        rest
    }

    /// The sectors that are in either set.
    pub(crate) fn with(&self, other: &Sectors) -> Sectors {
        let (mut ours, mut theirs) = (self.ranges(), other.ranges());
        let mut all = Sectors::None;
        loop {
            let from_ours = match (ours, theirs) {
                ([], []) => return all,
                ([one, ..], [another, ..]) => one.0 <= another.0,
                (ours, _) => !ours.is_empty(),
            };
            let from = if from_ours { &mut ours } else { &mut theirs };
            all.push(from[0]);
            *from = &from[1..];
        }
    }

    /// Adds a range that begins no earlier than the last one.
    fn push(&mut self, range: Range) {
        if range.0 >= range.1 {
            return;
        }
        match self {
            Sectors::None => *self = Sectors::One(range),
            Sectors::One(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
            Sectors::One(last) => *self = Sectors::Many(vec![*last, range]),
            Sectors::Many(ranges) => match ranges.last_mut() {
                Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
                _ => ranges.push(range),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sectors of a mask's set bits.
    fn of(mask: u32) -> Sectors {
        let mut sectors = Sectors::None;
        (0..32).filter(|bit| mask >> bit & 1 == 1).for_each(|bit| sectors.push((bit, bit + 1)));
        sectors
    }

    /// Is the drawing right?
    #[test]
    fn the_drawing() {
        let rest = Sectors::new(8, 24).without(&Sectors::new(12, 16));
        assert_eq!(rest, Sectors::Many(vec![(8, 12), (16, 24)]));
        assert_eq!((rest.count(), rest.first()), (12, Some(8)));
        assert_eq!(rest.with(&Sectors::new(12, 16)), Sectors::new(8, 24));
        assert!(Sectors::new(7, 7).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Do sets of sectors act as sets of bits do, and has each set only one form?
        #[test]
        fn sets_are_bits(left in any::<u32>(), right in any::<u32>(), sparse in any::<u32>()) {
            for (left, right) in [(left, right), (left & sparse, right | sparse)] {
                let (ours, theirs) = (of(left), of(right));
                prop_assert_eq!(ours.common(&theirs), of(left & right));
                prop_assert_eq!(ours.without(&theirs), of(left & !right));
                prop_assert_eq!(ours.with(&theirs), of(left | right));
                prop_assert_eq!(ours.count(), u64::from(left.count_ones()));
            }
        }
    }
}
