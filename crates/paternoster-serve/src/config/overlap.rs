// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overlap: volumes that lie upon each other in one file.
//!
//! Two clients who believe that a disk is theirs alone destroy each other's data, whichever device
//! (queue) they come through. Only readers may share bytes. Paths are compared as they are written;
//! two names of one file are found when the files are opened.
//!
//! ```text
//! file  0 ─────────────── a ───────┐
//!               b ─┤ writes ├─            refused: a ends behind b's start
//! ```
//!
//! Volumes are looked at in the order of their starts. One that may write must begin behind
//! everything that began before it, one that only reads behind everything that may write.

use super::settle::Complaint;
use super::{Device, Volume};

fn end(volume: &Volume) -> u64 {
    volume.length.map_or(u64::MAX, |length| volume.start.saturating_add(length))
}

/// Complains of the first two that overlap, unless both only read.
pub(super) fn volumes(devices: &[Device]) -> Result<(), Complaint> {
    let mut all: Vec<&Volume> = devices.iter().flat_map(|device| &device.volumes).collect();
    all.sort_by(|one, other| one.path.cmp(&other.path).then(one.start.cmp(&other.start)));
    let (mut reaches, mut writer_reaches): (Option<&Volume>, Option<&Volume>) = (None, None);
    for volume in all {
        let before = if volume.readonly { writer_reaches } else { reaches };
        match before.filter(|before| before.path == volume.path && end(before) > volume.start) {
            Some(before) => return Err(complaint(before, volume)),
            None => {
                reaches = further(reaches, volume);
                writer_reaches =
                    if volume.readonly { writer_reaches } else { further(writer_reaches, volume) };
            }
        }
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
        "volumes overlap in it: {}, {}; give them `start` and `length` apart, or make both \
         `readonly = true`",
        shown(before),
        shown(volume)
    );
    Complaint::new(&["volume", &volume.name, "path"], volume.path.display(), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, path: &str, start: u64, length: Option<u64>, readonly: bool) -> Volume {
        let (name, path) = (name.to_owned(), path.into());
        Volume { name, path, start, length, readonly, description: String::new() }
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

    /// Is a long volume remembered behind a short one?
    #[test]
    fn the_longest_reach_counts() {
        let long = volume("long", "/f", 0, Some(4096), true);
        let short = volume("short", "/f", 512, Some(512), true);
        let writer = volume("writer", "/f", 2048, Some(512), false);
        let refusal = verdict(&[long, short, writer]).unwrap_err();
        assert!(refusal.contains("`long` has bytes 0 to 4096"), "{refusal}");
    }
}
