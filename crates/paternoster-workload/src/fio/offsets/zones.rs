// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zones: random offsets with `random_distribution=zoned` and `zoned_abs`.
//!
//! Two draws for each I/O: 1 to 100 chooses the zone by the cumulative shares (generator 16), and
//! the offsets' own generator draws a block in it.
//!
//! ```text
//! zoned:60/10:40/90 on 1024 blocks    begins and sizes in blocks, each rounded down:
//!   draw 1..60     blocks 0 .. 102        1024 * 10 % = 102
//!   draw 61..100   blocks 102 .. 1023     1024 * 90 % = 921: block 1023 is never drawn
//! zoned_abs:60/100k:40/1000k          100k / 4k = 25 blocks, then 250 from block 25 on
//! zoned_abs:60/20k:40/44k in 16k      20k / 16k = 1 block, then up to 64k / 16k = 4: 3 blocks
//! ```
//!
//! A zone of bytes may end beyond the region; the first draw of it ends the pass. A zone of no
//! whole block gives its first.
//!
//! Source: FIO-51; both rows were measured on fio 3.33, whose offsets these are.

use crate::fio::distribution::{AccessZone, Distribution};
use crate::fio::random::{Choice, Seeds, Taus88};

/// Chooses blocks by zones.
#[derive(Debug, Clone)]
pub(super) struct ZoneDraw {
    lists: [Vec<AccessZone>; 3],
    in_bytes: bool,
    generator: Taus88,
}

impl ZoneDraw {
    /// The zones of `distribution`, if it has any.
    pub(super) fn new(distribution: &Distribution, seeds: &Seeds) -> Option<ZoneDraw> {
        let (lists, in_bytes) = match distribution {
            Distribution::Zoned(lists) => (lists.clone(), false),
            Distribution::ZonedBytes(lists) => (lists.clone(), true),
            _ => return None,
        };
        Some(ZoneDraw { lists, in_bytes, generator: seeds.generator(Choice::Zone) })
    }

    /// Zones are chosen as from the beginning.
    pub(super) fn replay(&mut self, seeds: &Seeds) {
        self.generator = seeds.generator(Choice::Zone);
    }

    /// First block and number of blocks of the next I/O's zone; `way` is its direction, `align`
    /// the bytes of a block, `blocks` how many the region has. `None` if the zone ends beyond it.
    pub(super) fn next(&mut self, way: usize, align: u64, blocks: u64) -> Option<(u64, u64)> {
        let draw = self.generator.percent();
        let list = &self.lists[way];
        let (mut reached, mut before) = (0, 0_u64);
        let mut size = 0;
        for zone in list {
            reached += u64::from(zone.percent);
            before = before.saturating_add(size);
            size = zone.size;
            if draw <= reached {
                break;
            }
        }
        if self.in_bytes {
            let first = before / align;
            let count = before.saturating_add(size) / align - first;
            return Some((first, count)).filter(|_| first.saturating_add(count) <= blocks);
        }
        // Percent of at most 2^63 blocks: wide, and small enough after the division.
        let part = |percent: u64| {
            let product = u128::from(blocks) * u128::from(percent);
            u64::try_from(product / 100).unwrap_or(u64::MAX)
        };
        Some((part(before), part(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::value::Reader;

    fn zones(text: &str) -> ZoneDraw {
        let distribution =
            Distribution::read(text, &mut Reader::new(1024, &mut Vec::new())).unwrap();
        ZoneDraw::new(&distribution, &Seeds::new(None, true, false, 1, 0)).unwrap()
    }

    /// Are zones chosen in fio's order, with the bounds given above?
    #[test]
    fn order_and_bounds_equal_fio() {
        let mut percent = zones("zoned:60/10:40/90");
        let chosen: Vec<u64> = (0..14).map(|_| percent.next(0, 4096, 1024).unwrap().0).collect();
        let (first, second) = (0, 102);
        assert_eq!(
            chosen,
            [
                first, first, first, second, second, first, second, first, second, second, second,
                first, first, first
            ]
        );
        let mut bytes = zones("zoned_abs:60/100k:40/1000k");
        let bounds: Vec<_> = (0..4).map(|_| bytes.next(0, 4096, 1024).unwrap()).collect();
        assert_eq!(bounds, [(0, 25), (0, 25), (0, 25), (25, 250)]);
        let mut parts = zones("zoned_abs:60/20k:40/44k");
        let bounds: Vec<_> = (0..4).map(|_| parts.next(0, 16_384, 7).unwrap()).collect();
        assert_eq!(bounds, [(0, 1), (0, 1), (0, 1), (1, 3)]);
        let mut beyond = zones("zoned_abs:60/1m:40/5m");
        let found: Vec<bool> = (0..4).map(|_| beyond.next(0, 4096, 1024).is_some()).collect();
        assert_eq!(found, [true, true, true, false]);
    }
}
