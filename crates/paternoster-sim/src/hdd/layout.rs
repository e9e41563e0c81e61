// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout: where sectors lie on a disk whose spares are known.
//!
//! A disk keeps sectors in reserve: some at the end (or the front) of every *region*, which is a
//! track, a cylinder, some cylinders or a zone. What was found bad at the factory is *slipped*: the
//! sectors behind it move up, into the reserve. A zone may begin with an area for the drive's own
//! use, and cylinders between zones may hold nothing:
//!
//! ```text
//! medium    | own | region                      spares | region                      spares | …
//!           |     | 0 1 2 3 . 4 5 6 7 8 9 …   n-1 . .  | n …                                |
//!                           ▲ slipped               ▲ one reserve sector is in use for it
//! ```
//!
//! Each stretch of sectors that follow each other on the medium becomes a band of a
//! [`Geometry`]; what passes between two bands costs the time in which it passes, or a seek.
//!
//! # Invariants
//! I1  A region holds its sectors without its reserve, as many as without slips, unless slips have
//!     a reserve elsewhere.
//! I2  No sector lies on what is slipped, in reserve or the drive's own.
//!
//! Source: what DiskSim's reference manual says of its layouts (sparing schemes, slips, empty space
//! at a zone's front, serpentine mapping).

use paternoster_core::Nanos;

use super::geometry::{Band, Geometry, Zone};

/// Where the sectors in reserve are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spares {
    /// Sectors of a region, the reserve included; 0: the zone is one.
    pub region: u64,
    /// Of these, how many are in reserve.
    pub sectors: u64,
    /// Whether they are the first of them and not the last.
    pub in_front: bool,
    /// Whether what is slipped is not made up for from here.
    pub slips_apart: bool,
}

/// Sectors that nothing is stored on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slip {
    /// The first, counted on the zone's medium.
    pub first: u64,
    /// How many.
    pub sectors: u64,
}

/// A zone, as it is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaidZone {
    /// Its tracks; the number of sectors in use follows from what is below.
    pub zone: Zone,
    /// Its first cylinder.
    pub first_cylinder: u32,
    /// How much later than the index mark its first track begins.
    pub angle: Nanos,
    /// Sectors at its front that are the drive's own.
    pub own: u64,
    /// Its reserve.
    pub spares: Spares,
    /// What is slipped, ascending.
    pub slips: Vec<Slip>,
}

/// A disk of these zones, from the outside in; if `serpentine`, every other cylinder of a zone is
/// numbered from its last surface to its first, so that the next begins under the same head.
#[must_use]
pub fn laid_out(heads: u32, revolution: Nanos, zones: &[LaidZone], serpentine: bool) -> Geometry {
    let (heads, revolution) = (heads.max(1), revolution.0.max(1));
    let mut bands: Vec<Band> = Vec::new();
    for laid in zones {
        let whole = Zone { sectors: 0, ..laid.zone }.bounded(heads, revolution);
        let usable = whole.sectors.saturating_sub(laid.own);
        let region = if laid.spares.region == 0 { usable } else { laid.spares.region };
        let mut at = 0;
        while at < usable {
            let end = usable.min(at + region.max(1));
            let medium = (laid.own + at, laid.own + end);
            for (before, sectors) in stretches(medium, laid) {
                let first_sector = bands.last().map_or(0, |band| band.first_sector + band.sectors);
                bands.push(Band {
                    first_sector,
                    sectors,
                    before,
                    first_cylinder: laid.first_cylinder,
                    angle: laid.angle.0 % revolution,
                    zone: whole,
                });
            }
            at = end;
        }
    }
    Geometry::of_bands(heads, revolution, bands, serpentine)
}

/// The stretches in use of the region `[first, end)`: where each begins on the zone's medium, and
/// how long it is.
fn stretches((first, end): (u64, u64), laid: &LaidZone) -> Vec<(u64, u64)> {
    let spares = &laid.spares;
    let slipped = |slip: &&Slip| first <= slip.first && slip.first < end;
    let slips: Vec<Slip> = laid.slips.iter().filter(slipped).copied().collect();
    let mut room = (end - first).saturating_sub(spares.sectors);
    if spares.slips_apart {
        room = room.saturating_sub(slips.iter().map(|slip| slip.sectors).sum());
    }
    let mut at = if spares.in_front { (first + spares.sectors).min(end) } else { first };
    let mut found = Vec::new();
    // The reserve in front has no sectors, and so no slips.
    let all = Slip { first: end, sectors: 0 };
    for slip in slips.into_iter().chain([all]) {
        let sectors = slip.first.saturating_sub(at).min(room);
        if sectors > 0 {
            found.push((at, sectors));
            room -= sectors;
        }
        at = at.max(slip.first + slip.sectors);
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::geometry::Place;
    use super::*;

    /// Two heads, ten cylinders of 10 sectors a track from cylinder 5 on, skews of 200 and 300.
    fn zone() -> LaidZone {
        LaidZone {
            zone: Zone {
                cylinders: 10,
                track_sectors: 10,
                sectors: 0,
                track_skew: Nanos(200),
                cylinder_skew: Nanos(300),
            },
            first_cylinder: 5,
            angle: Nanos(0),
            own: 0,
            spares: Spares::default(),
            slips: Vec::new(),
        }
    }

    fn of(zone: LaidZone, serpentine: bool) -> Geometry {
        laid_out(2, Nanos(1000), &[zone], serpentine)
    }

    /// Is the drawing right? Regions of two cylinders, 40 sectors with 4 in reserve, behind 10 of
    /// the drive's own; sector 4 of the medium behind those is slipped. Sector 3 lies before it, on
    /// the second track at 13; sector 4 at 15. The region has 36 sectors: sector 35 lies at 46, one
    /// further than without the slip, sector 36 at 10 + 40: cylinder 7, head 1.
    #[test]
    fn the_drawing_by_hand() {
        let spares = Spares { region: 40, sectors: 4, ..Spares::default() };
        let slips = vec![Slip { first: 14, sectors: 1 }];
        let geometry = of(LaidZone { own: 10, spares, slips, ..zone() }, false);
        let at = |sector| {
            let place = geometry.place(sector);
            (place.cylinder, place.head, place.index, place.left)
        };
        assert_eq!(at(3), (5, 1, 3, 1));
        assert_eq!(at(4), (5, 1, 5, 5));
        assert_eq!(at(35), (7, 0, 6, 1));
        assert_eq!(at(36), (7, 1, 0, 10));
        assert_eq!(geometry.track(4), (0, 9));
        assert_eq!(geometry.track(35), (29, 36));
        // Five regions, the last of 30 sectors on the medium: 4 * 36 + 26.
        assert_eq!(geometry.capacity(), 170);
        // The track of sector 3 begins one track skew behind the first: 200 + 3 * 100.
        assert_eq!(geometry.place(3).angle, 500);
    }

    /// Does every other cylinder begin under the head where the last ended? Sectors 20 to 29 follow
    /// 10 to 19 on surface 1, 30 to 39 are on surface 0 as 40 to 49 are.
    #[test]
    fn serpentine_by_hand() {
        let geometry = of(zone(), true);
        let heads: Vec<u32> = (0..5).map(|track| geometry.place(track * 10).head).collect();
        assert_eq!(heads, [0, 1, 1, 0, 0]);
        let cylinders: Vec<u32> = (0..5).map(|t| geometry.place(t * 10).cylinder).collect();
        assert_eq!(cylinders, [5, 5, 6, 6, 7]);
    }

    /// Are sectors in reserve at the front skipped, and does a slip that is made up for elsewhere
    /// take a sector from its region? Tracks of 10 with 2 in front: 8 each, in 20 tracks; the slip
    /// leaves 7.
    #[test]
    fn reserves_in_front_and_elsewhere() {
        let spares = Spares { region: 10, sectors: 2, in_front: true, slips_apart: true };
        let slips = vec![Slip { first: 25, sectors: 1 }];
        let geometry = of(LaidZone { spares, slips, ..zone() }, false);
        assert_eq!(geometry.capacity(), 20 * 8 - 1);
        assert_eq!(geometry.place(0).index, 2);
        assert_eq!(geometry.track(16), (16, 23));
        assert_eq!(geometry.place(18).index, 4);
        assert_eq!(geometry.place(19).index, 6);
    }

    proptest! {
        /// Has every sector a place of its own that is neither slipped nor in reserve nor the
        /// drive's own (I2), in ascending order, do regions keep their number of sectors (I1), and
        /// is the track of a sector the sectors with its cylinder and head?
        #[test]
        fn equals_a_walk_over_the_medium(
            heads in 1u32..4,
            cylinders in 1u32..5,
            track_sectors in 1u32..12,
            own in 0u64..30,
            region in 0u64..40,
            spare in 0u64..6,
            in_front in any::<bool>(),
            slips_apart in any::<bool>(),
            slips in prop::collection::btree_set(0u64..200, 0..6),
            serpentine in any::<bool>(),
        ) {
            let like = zone();
            let zone = Zone { cylinders, track_sectors, sectors: 0, ..like.zone };
            let spares = Spares { region, sectors: spare, in_front, slips_apart };
            let slips: Vec<Slip> =
                slips.into_iter().map(|first| Slip { first, sectors: 1 }).collect();
            let laid = LaidZone { zone, own, spares, slips: slips.clone(), ..like };
            let geometry = laid_out(heads, Nanos(1000), &[laid], serpentine);
            // The walk: each region's sectors but the slipped, until its room is used up.
            let all = u64::from(cylinders * heads * track_sectors);
            let is_slipped = |at: u64| slips.iter().any(|slip| slip.first == at);
            let mut walked = Vec::new();
            let mut start = own;
            while start < all {
                let end = if region == 0 { all } else { all.min(start + region) };
                let inside = (start..end).filter(|&at| is_slipped(at)).count() as u64;
                let mut room = (end - start).saturating_sub(spare);
                if slips_apart {
                    room = room.saturating_sub(inside);
                }
                let first = if in_front { start + spare } else { start };
                for at in first..end {
                    if room > 0 && !is_slipped(at) {
                        walked.push(at);
                        room -= 1;
                    }
                }
                start = end;
            }
            prop_assert_eq!(geometry.capacity(), walked.len() as u64);
            let mut seen = BTreeSet::new();
            let places: Vec<_> = (0..geometry.capacity()).map(|s| geometry.place(s)).collect();
            for (place, &at) in places.iter().zip(&walked) {
                let track = at / u64::from(track_sectors);
                let cylinder = track / u64::from(heads);
                prop_assert_eq!(u64::from(place.cylinder), 5 + cylinder);
                prop_assert_eq!(u64::from(place.index), at % u64::from(track_sectors));
                prop_assert!(seen.insert((place.cylinder, place.head, place.index)));
            }
            for (sector, place) in (0u64..).zip(&places) {
                let same = |other: &&Place| {
                    (other.cylinder, other.head) == (place.cylinder, place.head)
                };
                let first = places.iter().position(|other| same(&other)).unwrap_or(0) as u64;
                let count = places.iter().filter(same).count() as u64;
                prop_assert_eq!(geometry.track(sector), (first, first + count));
            }
        }
    }
}
