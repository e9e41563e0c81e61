// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host: what Linux reports about a device.

use std::format;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Whether seeks cost time on the device of a file, a folder, or this block device.
pub(super) fn is_rotational(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    let is_device = metadata.file_type().is_block_device();
    let (major, minor) = numbers(if is_device { metadata.rdev() } else { metadata.dev() });
    let folder = format!("/sys/dev/block/{major}:{minor}");
    // A partition's queue is that of the device above it.
    ["queue", "../queue"].iter().any(|queue| {
        let text = fs::read_to_string(format!("{folder}/{queue}/rotational"));
        text.is_ok_and(|text| text.trim() == "1")
    })
}

/// A device number's two parts, as Linux packs them.
const fn numbers(device: u64) -> (u64, u64) {
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & 0xfff_ff00);
    (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is 0x801 the first partition of the first SCSI disk, 8:1, and are large numbers put together
    /// again? And is a missing file on no disk?
    #[test]
    fn device_numbers() {
        assert_eq!(numbers(0x801), (8, 1));
        assert_eq!(numbers(0x100054310321), (0x1103, 0x5_4321));
        assert!(!is_rotational(Path::new("/no/such/file")));
    }
}
