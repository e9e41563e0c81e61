// SPDX-License-Identifier: MIT OR Apache-2.0
//! Geometry: which track a sector lies on, and at which angle.
//!
//! Sectors are numbered along a track, then along the other surfaces of the cylinder, then inwards.
//! Outer tracks are longer, so the disk is cut into zones of equal tracks. While the head goes from
//! one track to the next the disk turns on; each track therefore begins a *skew* later than its
//! predecessor, so that a long transfer loses only the time of the switch, not a revolution:
//!
//! ```text
//! angle        0         1/4        1/2        3/4         1
//! track 0      |0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ...  |
//! track 1      | ... 29 30 31 |16 17 18 19 20 21 22 ...    |    16 lies a skew after 15's end
//! ```
//!
//! Angles are given in nanoseconds since the index mark passed: an angle of 0.7 ms is where the
//! head is 0.7 ms after the mark. Time and angle then need no conversion, and a place is reached at
//! `angle - now` modulo the revolution.
//!
//! # Invariants
//! I1  Every sector below the capacity has one place, and no two share one.
//! I2  The boundary after sector i of a track is the boundary before sector i + 1, to the
//!     nanosecond: a transfer that goes on misses nothing.
//!
//! What is known of spare sectors and of those that are slipped is in `layout.rs`: it cuts a disk
//! into bands, inside which sectors follow each other on the medium.
//!
//! # Not here
//! Bands of one surface before the next: a disk that has them differs in which track a sector lies
//! on, but hardly in how long a transfer takes.
//!
//! Source: Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994);
//! `docs/rules/devices.md`.

use paternoster_core::Nanos;

use crate::transfer::Transfer;

/// Fifty times what the largest disks have; a sum of this many skews fits in 64 bits.
const TRACKS_MAX: u64 = 1 << 28;

/// Cylinders whose tracks are equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Number of cylinders, at least 1.
    pub cylinders: u32,
    /// Sectors on a track, at least 1.
    pub track_sectors: u32,
    /// Sectors in use, fewer than exist where some are spares. 0 means all.
    pub sectors: u64,
    /// How much later the next track of a cylinder begins.
    pub track_skew: Nanos,
    /// How much later the first track of the next cylinder begins.
    pub cylinder_skew: Nanos,
}

/// The place of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Counted from the outside.
    pub cylinder: u32,
    /// The surface.
    pub head: u32,
    /// Number of the sector within its track.
    pub index: u32,
    /// Number of sectors of the track.
    pub track_sectors: u32,
    /// How many sectors are left on the track, from this one on.
    pub left: u32,
    /// Angle of the track's first sector, in nanoseconds after the index mark.
    pub track_angle: u64,
    /// Angle of this sector.
    pub angle: u64,
}

impl Zone {
    /// The zone without what a disk of so many heads cannot have.
    pub(super) fn bounded(&self, heads: u32, revolution: u64) -> Zone {
        let track_sectors = self.track_sectors.max(1);
        let all = u64::from(self.cylinders) * u64::from(heads) * u64::from(track_sectors);
        let sectors = if self.sectors == 0 { all } else { self.sectors.min(all) };
        // Whole turns of a skew do nothing; without them the sums of skews stay small.
        let track_skew = Nanos(self.track_skew.0 % revolution);
        let cylinder_skew = Nanos(self.cylinder_skew.0 % revolution);
        Zone { track_sectors, sectors, track_skew, cylinder_skew, ..*self }
    }
}

/// Sectors of a zone that follow each other on the medium too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Band {
    pub(super) first_sector: u64,
    /// How many.
    pub(super) sectors: u64,
    /// Sectors of the zone's medium before the first of them, in use or not.
    pub(super) before: u64,
    /// The zone's first cylinder.
    pub(super) first_cylinder: u32,
    /// Where the zone's first track begins, in nanoseconds after the index mark.
    pub(super) angle: u64,
    pub(super) zone: Zone,
}

/// The layout of a disk.
#[derive(Debug, Clone)]
pub struct Geometry {
    heads: u32,
    revolution: u64,
    bands: Vec<Band>,
    capacity: u64,
    cylinders: u32,
    /// Whether every other cylinder of a zone is numbered from the last surface to the first.
    serpentine: bool,
}

/// Even tracks from two rates: what a device file says.
#[derive(Debug, Clone, Copy)]
pub struct EvenZones {
    /// Sectors of 512 bytes.
    pub capacity: u64,
    /// Surfaces.
    pub heads: u32,
    /// Zones.
    pub zones: u32,
    /// Sustained rate of the outermost zone.
    pub outer: Transfer,
    /// Sustained rate of the innermost zone.
    pub inner: Transfer,
    /// Skew between the tracks of a cylinder.
    pub track_skew: Nanos,
    /// Skew between cylinders.
    pub cylinder_skew: Nanos,
}

impl Geometry {
    /// A disk of these zones, from the outside in.
    #[must_use]
    pub fn new(heads: u32, revolution: Nanos, zones: &[Zone]) -> Geometry {
        let (heads, revolution) = (heads.max(1), revolution.0.max(1));
        let (mut capacity, mut cylinders) = (0u64, 0u32);
        let mut bands = Vec::with_capacity(zones.len());
        for zone in zones {
            let zone = zone.bounded(heads, revolution);
            bands.push(Band {
                first_sector: capacity,
                sectors: zone.sectors,
                before: 0,
                first_cylinder: cylinders,
                angle: 0,
                zone,
            });
            capacity += zone.sectors;
            cylinders += zone.cylinders;
        }
        Geometry { heads, revolution, bands, capacity, cylinders, serpentine: false }
    }

    /// A disk of these bands, in the order of their sectors.
    pub(super) fn of_bands(
        heads: u32,
        revolution: u64,
        bands: Vec<Band>,
        serpentine: bool,
    ) -> Geometry {
        let end = |band: &Band| band.first_sector + band.sectors;
        let inner = |band: &Band| band.first_cylinder + band.zone.cylinders;
        let capacity = bands.last().map_or(0, end);
        let cylinders = bands.last().map_or(0, inner);
        Geometry { heads, revolution, bands, capacity, cylinders, serpentine }
    }

    /// Zones whose tracks shrink evenly between two sustained rates, just enough for a capacity.
    ///
    /// A cylinder of h tracks takes h revolutions and its skews, so a rate gives the sectors of a
    /// track: with 210 MB/s, 4 heads, 8.33 ms and skews of 1 ms it is 210 MB/s * (33.3 + 4) ms / 4
    /// = 1.96 MB.
    ///
    /// # Errors
    /// A text if no such disk can exist: a track without sectors, or too many tracks.
    pub fn even(revolution: Nanos, even: &EvenZones) -> Result<Geometry, String> {
        let heads = u64::from(even.heads.max(1));
        let skews = even.track_skew.0 * (heads - 1) + even.cylinder_skew.0;
        let track_time = revolution.0 + skews / heads;
        let track_sectors = |rate: Transfer| {
            let bytes =
                u128::from(track_time) * u128::from(rate.bytes) / u128::from(rate.nanos.max(1));
            u32::try_from(bytes / 512).ok().filter(|&sectors| sectors > 0)
        };
        let wrong = || "a track would have no sectors, or too many".to_owned();
        let outer = track_sectors(even.outer).ok_or_else(wrong)?;
        let inner = track_sectors(even.inner).ok_or_else(wrong)?;
        if inner > outer {
            return Err("the inner rate is above the outer".to_owned());
        }
        let count = u64::from(even.zones.max(1));
        let of_zone = |zone: u64| {
            // Halves of a step from the ends: the mean is that of outer and inner.
            let drop = u64::from(outer - inner) * (2 * zone + 1) / (2 * count);
            outer - u32::try_from(drop).unwrap_or(0)
        };
        let mean: u64 = (0..count).map(|zone| u64::from(of_zone(zone))).sum();
        // Every zone has the same number of cylinders; the last is cut at the capacity.
        let cylinders = u32::try_from(even.capacity.div_ceil(mean * heads))
            .ok()
            .filter(|cylinders| u64::from(*cylinders) * count * heads < TRACKS_MAX)
            .ok_or_else(|| "more tracks than a disk can have".to_owned())?;
        let (mut zones, mut left) = (Vec::new(), even.capacity);
        for zone in 0..count {
            let track_sectors = of_zone(zone);
            let all = u64::from(cylinders) * heads * u64::from(track_sectors);
            let sectors = all.min(left);
            left -= sectors;
            let (track_skew, cylinder_skew) = (even.track_skew, even.cylinder_skew);
            if sectors > 0 {
                zones.push(Zone { cylinders, track_sectors, sectors, track_skew, cylinder_skew });
            }
        }
        Ok(Geometry::new(even.heads, revolution, &zones))
    }

    /// Sectors of 512 bytes.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Cylinders of all zones.
    #[must_use]
    pub const fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Time of a revolution, in nanoseconds.
    #[must_use]
    pub const fn revolution(&self) -> u64 {
        self.revolution
    }

    /// Where `sector` lies. One beyond the end counts as the last.
    #[must_use]
    pub fn place(&self, sector: u64) -> Place {
        let sector = sector.min(self.capacity.saturating_sub(1));
        let behind = self.bands.partition_point(|band| band.first_sector <= sector);
        let Some(band) = self.bands.get(behind.wrapping_sub(1)) else { return Place::default() };
        let zone = &band.zone;
        let track_sectors = u64::from(zone.track_sectors);
        let inside = sector - band.first_sector;
        let passed = band.before + inside;
        let (track, index) = (passed / track_sectors, passed % track_sectors);
        let heads = u64::from(self.heads);
        let (cylinder, head) = (track / heads, track % heads);
        let skew = (track - cylinder) * zone.track_skew.0 + cylinder * zone.cylinder_skew.0;
        let track_angle = (band.angle + skew) % self.revolution;
        let head = if self.serpentine && cylinder % 2 == 1 { heads - 1 - head } else { head };
        let angle = (track_angle + index * self.revolution / track_sectors) % self.revolution;
        let left = (track_sectors - index).min(band.sectors - inside);
        // The remainder of a division by a u32 fits in one.
        let narrow = |wide: u64| u32::try_from(wide).unwrap_or(u32::MAX);
        Place {
            cylinder: band.first_cylinder + narrow(cylinder),
            head: narrow(head),
            index: narrow(index),
            track_sectors: zone.track_sectors,
            left: narrow(left),
            track_angle,
            angle,
        }
    }

    /// The first sector on the track of `sector`, and the one behind the last.
    #[must_use]
    pub fn track(&self, sector: u64) -> (u64, u64) {
        let sector = sector.min(self.capacity.saturating_sub(1));
        let behind = self.bands.partition_point(|band| band.first_sector <= sector);
        let Some(here) = behind.checked_sub(1) else { return (0, 0) };
        let band = self.bands[here];
        let track_sectors = u64::from(band.zone.track_sectors);
        let passed = band.before + (sector - band.first_sector);
        let start = passed - passed % track_sectors;
        let end = start + track_sectors;
        // Where something is slipped, several bands share the track.
        let same = |other: &Band| other.first_cylinder == band.first_cylinder;
        let begins = |other: &Band| other.before > start;
        let mut first = here;
        while begins(&self.bands[first]) && first > 0 && {
            let before = &self.bands[first - 1];
            same(before) && before.before + before.sectors > start
        } {
            first -= 1;
        }
        let ends = |other: &Band| other.before + other.sectors < end;
        let mut last = here;
        while ends(&self.bands[last])
            && self.bands.get(last + 1).is_some_and(|next| same(next) && next.before < end)
        {
            last += 1;
        }
        let (first, last) = (&self.bands[first], &self.bands[last]);
        (
            first.first_sector + start.saturating_sub(first.before),
            last.first_sector + last.sectors.min(end - last.before),
        )
    }

    /// How long `sectors` from `place` on take to pass the head; they must be on its track.
    #[must_use]
    pub fn passing(&self, place: &Place, sectors: u32) -> u64 {
        let boundary =
            |index: u32| u64::from(index) * self.revolution / u64::from(place.track_sectors.max(1));
        boundary(place.index + sectors) - boundary(place.index)
    }

    /// How many whole sectors from `place` on pass the head in `time`, at most those left.
    #[must_use]
    pub fn passed(&self, place: &Place, time: u64) -> u32 {
        let estimate = time.min(self.revolution) * u64::from(place.track_sectors) / self.revolution;
        let mut sectors = u32::try_from(estimate).unwrap_or(u32::MAX).min(place.left);
        // Boundaries are rounded down, so the estimate may be one off either way.
        while sectors < place.left && self.passing(place, sectors + 1) <= time {
            sectors += 1;
        }
        while sectors > 0 && self.passing(place, sectors) > time {
            sectors -= 1;
        }
        sectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Two heads; ten cylinders of 10 sectors a track, then ten of 8. A revolution is 1000 ns.
    fn small() -> Geometry {
        let zone = |track_sectors| Zone {
            cylinders: 10,
            track_sectors,
            sectors: 0,
            track_skew: Nanos(200),
            cylinder_skew: Nanos(300),
        };
        Geometry::new(2, Nanos(1000), &[zone(10), zone(8)])
    }

    /// Where do sectors lie, by hand? Sector 25: track 2 = cylinder 1, head 0, sector 5; its track
    /// begins one track skew (0 to 1) and one cylinder skew (1 to 2) later, at 500; 500 more for
    /// five sectors make a full turn, angle 0. Sector 200 is the first of the second zone.
    #[test]
    fn places_by_hand() {
        let geometry = small();
        assert_eq!(geometry.capacity(), 10 * 2 * 10 + 10 * 2 * 8);
        let place = geometry.place(25);
        assert_eq!((place.cylinder, place.head, place.index, place.left), (1, 0, 5, 5));
        assert_eq!((place.track_angle, place.angle), (500, 0));
        let place = geometry.place(200);
        assert_eq!((place.cylinder, place.head, place.index), (10, 0, 0));
        assert_eq!((place.track_sectors, place.angle), (8, 0));
        assert_eq!(geometry.passing(&place, 8), 1000);
        assert_eq!(geometry.passed(&place, 374), 2);
        assert_eq!(geometry.passed(&place, 375), 3);
    }

    /// Do two sustained rates give the disk that they describe? 4 heads, 8 ms, skews of 1 ms:
    /// a track takes 9 ms; 180 MB/s * 9 ms = 1.62 MB = 3164 sectors, 90 MB/s half of it.
    #[test]
    fn rates_make_tracks() {
        let rate = |bytes| Transfer { nanos: 1_000_000_000, bytes };
        let even = EvenZones {
            capacity: 1_000_000_000,
            heads: 4,
            zones: 1,
            outer: rate(180_000_000),
            inner: rate(180_000_000),
            track_skew: Nanos::from_millis(1),
            cylinder_skew: Nanos::from_millis(1),
        };
        let one = Geometry::even(Nanos::from_millis(8), &even).unwrap();
        assert_eq!(one.place(0).track_sectors, 3164);
        assert_eq!(one.capacity(), 1_000_000_000);
        let inner = rate(90_000_000);
        let many = EvenZones { zones: 16, inner, ..even };
        let many = Geometry::even(Nanos::from_millis(8), &many).unwrap();
        assert!(many.place(0).track_sectors.abs_diff(3164) <= 3164 / 32);
        assert!(many.place(999_999_999).track_sectors.abs_diff(1582) <= 3164 / 32);
        let upside_down = EvenZones { outer: rate(1_000_000), ..even };
        assert!(Geometry::even(Nanos::from_millis(8), &upside_down).is_err());
    }

    /// Has every sector a place of its own, over the edges of tracks, cylinders and zones?
    #[test]
    fn every_sector_has_its_own_place() {
        let geometry = small();
        let places: BTreeSet<_> = (0..geometry.capacity())
            .map(|sector| geometry.place(sector))
            .map(|place| (place.cylinder, place.head, place.index))
            .collect();
        assert_eq!(places.len(), 360);
    }

    proptest! {
        /// Is the mapping one to one and monotonous for any zones, spares or none, and does the
        /// next sector of a track begin exactly where the last ended (I2)?
        #[test]
        fn mapping_is_one_to_one(
            heads in 1u32..5,
            zones in prop::collection::vec((1u32..6, 1u32..40, 0u64..30), 1..5),
            revolution in 1_000u64..20_000_000,
            skew in 0u64..5_000,
        ) {
            let zones: Vec<Zone> = zones.iter().map(|&(cylinders, track_sectors, spares)| {
                let all = u64::from(cylinders * track_sectors * heads);
                Zone {
                    cylinders,
                    track_sectors,
                    sectors: all.saturating_sub(spares).max(1),
                    track_skew: Nanos(skew),
                    cylinder_skew: Nanos(skew * 2),
                }
            }).collect();
            let geometry = Geometry::new(heads, Nanos(revolution), &zones);
            let sum: u64 = zones.iter().map(|zone| zone.sectors).sum();
            prop_assert_eq!(geometry.capacity(), sum);
            let mut last: Option<Place> = None;
            for sector in 0..geometry.capacity() {
                let place = geometry.place(sector);
                prop_assert!(place.cylinder < geometry.cylinders() && place.head < heads);
                prop_assert!(place.index < place.track_sectors && place.angle < revolution);
                if let Some(last) = last {
                    let order = |p: &Place| (p.cylinder, p.head, p.index);
                    prop_assert!(order(&last) < order(&place));
                    if last.left > 1 {
                        let end = (last.angle + geometry.passing(&last, 1)) % revolution;
                        prop_assert_eq!(end, place.angle);
                    }
                }
                last = Some(place);
            }
        }
    }
}
