// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the layout of a disk from DiskSim's validation set: zones, spares, slips, mapping.
//!
//! What the parts mean is said in DiskSim's reference manual. Sparing schemes by their numbers:
//! 1 tracks at a zone's end; 2, 4 at each cylinder's end; 3 at each track's; 5, 6 at each
//! cylinder's front; 8 at the end of each range of cylinders; 9, 10 at each zone's end; 0, 7 none
//! in a zone. Under 4, 6 and 10 slips are made up for elsewhere. Remapped defects are not read: of
//! the disks that are here one has one.

use paternoster_core::Nanos;
use paternoster_sim::hdd::geometry::{Geometry, Zone};
use paternoster_sim::hdd::layout::{LaidZone, Slip, Spares, laid_out};

use super::disksim::{in_ms, ms, number, whole};

/// The numbers of a list `name = [1, 2]`, ascending; its bracket may stand on the next line.
fn list(text: &str, name: &str) -> Vec<u64> {
    let Some((_, rest)) = text.split_once(name) else { return Vec::new() };
    let inside = rest.split(['[', ']']).nth(1).unwrap_or("");
    let mut numbers: Vec<u64> =
        inside.split(',').filter_map(|value| value.trim().parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The layout that a `.model` describes.
pub(crate) fn geometry(model: &str, revolution: Nanos) -> Geometry {
    let heads = whole(model, "Number of data surfaces");
    let scheme = whole(model, "Sparing scheme used");
    let range = u64::from(whole(model, "Rangesize for sparing"));
    let mut zones = Vec::new();
    for text in model.split("dm_layout_g1_zone {").skip(1) {
        let track_sectors = whole(text, "Blocks per track");
        let time = |name| {
            let sectors = number(text, name).expect("sectors of a track");
            ms(sectors * in_ms(revolution) / f64::from(track_sectors))
        };
        let first_cylinder = whole(text, "First cylinder number");
        let track = u64::from(track_sectors);
        let cylinder = track * u64::from(heads);
        let spares = u64::from(whole(text, "Number of spares"));
        let (region, sectors) = match scheme {
            0 | 7 => (0, 0),
            1 => (0, spares * track),
            2 | 4..=6 => (cylinder, spares),
            3 => (track, spares),
            8 => (range * cylinder, spares),
            9 | 10 => (0, spares),
            other => panic!("sparing scheme {other}"),
        };
        let in_front = matches!(scheme, 5 | 6);
        let slips_apart = matches!(scheme, 0 | 4 | 6 | 7 | 10);
        let sectors_slipped = if scheme == 1 { track } else { 1 };
        let slip = |place| Slip { first: place * sectors_slipped, sectors: sectors_slipped };
        zones.push(LaidZone {
            zone: Zone {
                cylinders: whole(text, "Last cylinder number") - first_cylinder + 1,
                track_sectors,
                sectors: 0,
                track_skew: time("Skew for track switch"),
                cylinder_skew: time("Skew for cylinder switch"),
            },
            first_cylinder,
            angle: time("Offset of first block"),
            own: u64::from(whole(text, "Empty space at zone front")),
            spares: Spares { region, sectors, in_front, slips_apart },
            slips: list(text, "slips").into_iter().map(slip).collect(),
        });
    }
    let serpentine = whole(model, "LBN-to-PBN mapping scheme") != 0;
    laid_out(heads, revolution, &zones, serpentine)
}
