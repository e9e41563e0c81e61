// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overlap: volumes that overlap in one file.
//!
//! Two clients that each assume to have a disk alone destroy each other's data, whichever device
//! (queue) they use. Only readers may share bytes, and volumes that say so (`share = true`). Paths
//! are compared as written; two names of one file, and other overlaps, are found before anything is
//! opened (`device/claim.rs`).
//!
//! ```text
//! file  0 ─────────────── a ───────┐
//!               b ─┤ writes ├─            refused: a ends after b's start
//! ```
//!
//! Volumes are checked in the order of their starts, each against the earlier one that ends last,
//! among those that it must not overlap. An unshared writer may overlap no other volume, a reader
//! only readers, a shared volume only shared ones.

use super::settle::Complaint;
use super::{Device, Volume};

fn end(volume: &Volume) -> u64 {
    volume.length.map_or(u64::MAX, |length| volume.start.saturating_add(length))
}

/// Complains of the first two that overlap, unless both only read.
pub(super) fn volumes(devices: &[Device]) -> Result<(), Complaint> {
    let mut all: Vec<&Volume> = devices.iter().flat_map(|device| &device.volumes).collect();
    all.sort_by(|one, other| one.path.cmp(&other.path).then(one.start.cmp(&other.start)));
    // By (only reads, is shared): which of these kinds reaches furthest.
    let mut reaches: [Option<&Volume>; 4] = [None; 4];
    let kind = |volume: &Volume| usize::from(volume.readonly) + 2 * usize::from(volume.share);
    for volume in all {
        let apart = |before: &&Volume| {
            (before.readonly && volume.readonly) || (before.share && volume.share)
        };
        let meets = |before: &&Volume| before.path == volume.path && end(before) > volume.start;
        let before = reaches.iter().copied().flatten();
        if let Some(before) = before.filter(|before| !apart(before)).find(meets) {
            return Err(complaint(before, volume));
        }
        reaches[kind(volume)] = further(reaches[kind(volume)], volume);
    }
    Ok(())
}

/// The one of two that ends later; of two files, the later file's.
fn further<'a>(before: Option<&'a Volume>, volume: &'a Volume) -> Option<&'a Volume> {
    let longer = |before: &&Volume| before.path == volume.path && end(before) > end(volume);
    before.filter(longer).or(Some(volume))
}

fn complaint(before: &Volume, volume: &Volume) -> Complaint {
    let shown = |volume: &Volume| {
        let end = volume.length.map_or("the end".to_owned(), |_| end(volume).to_string());
        format!("`{}` has bytes {} to {end}", volume.name, volume.start)
    };
    let why = format!(
        "volumes overlap in it: {}, {}; give them `start` and `length` apart, make both \
         `readonly = true`, or both `share = true` if their clients know of each other",
        shown(before),
        shown(volume)
    );
    Complaint::new(&["volume", &volume.name, "path"], volume.path.display(), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, path: &str, start: u64, length: Option<u64>, readonly: bool) -> Volume {
        Volume { start, length, readonly, ..Volume::new(name, path) }
    }

    fn verdict(volumes: &[Volume]) -> Result<(), String> {
        // Each on a device of its own: it is the file that counts.
        let devices = volumes.iter().map(|volume| {
            let mut device = Device::new(&volume.name);
            device.volumes.push(volume.clone());
            device
        });
        super::volumes(&devices.collect::<Vec<_>>()).map_err(|complaint| complaint.why)
    }

    /// Are bytes shared by readers only, and are both volumes named where they are not?
    #[test]
    fn only_readers_share() {
        let a = volume("a", "/f", 0, Some(1024), false);
        let b = volume("b", "/f", 1024, None, false);
        assert_eq!(verdict(&[b.clone(), a.clone()]), Ok(()));
        let c = volume("c", "/./f", 512, Some(512), true);
        let refusal = verdict(&[a, b.clone(), c.clone()]).unwrap_err();
        assert!(
            refusal.contains("`a` has bytes 0 to 1024, `c` has bytes 512 to 1024"),
            "{refusal}"
        );
        assert_eq!(verdict(&[b, c.clone(), volume("d", "/f", 0, Some(1024), true)]), Ok(()));
        assert!(verdict(&[c.clone(), volume("e", "/f", 0, None, false)]).is_err());
        assert_eq!(verdict(&[c, volume("g", "/g", 0, None, false)]), Ok(()));
    }

    /// May two volumes that both say so write to the same bytes, and no other volume?
    #[test]
    fn who_shares_with_whom() {
        let shared =
            |name, readonly| Volume { share: true, ..volume(name, "/f", 0, None, readonly) };
        let (a, b, reads) = (shared("a", false), shared("b", false), shared("c", true));
        assert_eq!(verdict(&[a.clone(), b, reads.clone()]), Ok(()));
        let own = volume("own", "/f", 512, Some(512), false);
        assert!(verdict(&[a.clone(), own.clone()]).is_err());
        assert!(verdict(&[own.clone(), reads.clone()]).is_err());
        let reader = Volume { readonly: true, ..own };
        assert_eq!(verdict(&[reads, reader.clone()]), Ok(()));
        assert!(verdict(&[reader, a]).is_err(), "the reader does not expect a writer");
    }

    /// Is a long volume remembered while a short one follows it?
    #[test]
    fn the_longest_reach_counts() {
        let long = volume("long", "/f", 0, Some(4096), true);
        let short = volume("short", "/f", 512, Some(512), true);
        let writer = volume("writer", "/f", 2048, Some(512), false);
        let refusal = verdict(&[long, short, writer]).unwrap_err();
        assert!(refusal.contains("`long` has bytes 0 to 4096"), "{refusal}");
    }
}
