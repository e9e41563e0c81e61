// SPDX-License-Identifier: MIT OR Apache-2.0
//! Content: what is plainly no raw disk, before its bytes are served as one.
//!
//! A client would see the header of a qcow2 image instead of the disk in it, and its first write
//! would destroy the image; the same goes for a text, such as the configuration itself.
//!
//! ```text
//! byte 0    an image format's magic with a version it can have   ─▶ that format
//! byte 64   VDI's, likewise
//! text      letters, and lines of them, both at the beginning and at the end
//! anything else (zeroes, a partition table, a file system, noise)  a raw disk
//! ```
//!
//! Chance refusals are next to impossible: random bytes are taken for an image less than once in
//! 2^55 times (a magic of four bytes and a version of four), and 1024 random bytes for a text
//! never. But a client can write such a header at the front of its disk, which cannot be told from
//! an image in the wrong place. At the next start only that volume is left out, and is safe that
//! way; its neighbours are served, or one client could keep the server from starting for all. `raw
//! = true` serves it whatever it is.
//!
//! Only if the volume begins where the file begins: later bytes are clients' data.
//!
//! Sources: qemu's documentation of qcow2, qed and parallels; VMware's, VirtualBox's and
//! Microsoft's of vmdk, vdi, vhd and vhdx.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};

use crate::config::{Device, Volume};

/// Bytes that are looked at, at either end.
const LOOK: usize = 1024;
/// The least volume there is.
const BLOCK: u64 = 512;

/// Why a volume cannot be served as it is, or is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("volume `{volume}`: {path}: {why}")]
pub struct ContentError {
    /// The volume's name.
    pub volume: String,
    /// The volume's path.
    pub path: String,
    /// The message: what is wrong, and what would be right.
    pub why: String,
}

fn volumes(devices: &[Device]) -> impl Iterator<Item = &Volume> {
    devices.iter().flat_map(|device| &device.volumes)
}

fn wrong(volume: &Volume, why: String) -> ContentError {
    let path = volume.path.display().to_string();
    ContentError { volume: volume.name.clone(), path, why }
}

/// Looks into every volume that the configuration does not call raw. One that cannot be read is
/// reported later, when it is opened.
///
/// # Errors
/// The first that is plainly no raw disk.
pub fn look(devices: &[Device]) -> Result<(), ContentError> {
    volumes(devices).find_map(objection).map_or(Ok(()), Err)
}

/// Removes volumes that are plainly no raw disk, and devices without a volume left; returns which,
/// and why.
///
/// # Errors
/// The first of them, if there is nothing else to serve.
pub fn leave_out(devices: &mut Vec<Device>) -> Result<Vec<ContentError>, ContentError> {
    let mut left_out = Vec::new();
    let mut is_served = |volume: &Volume| {
        let why = objection(volume);
        let is_served = why.is_none();
        left_out.extend(why);
        is_served
    };
    devices.iter_mut().for_each(|device| device.volumes.retain(&mut is_served));
    if devices.iter().all(|device| device.volumes.is_empty()) && !left_out.is_empty() {
        return Err(left_out.swap_remove(0));
    }
    if !left_out.is_empty() {
        devices.retain(|device| !device.volumes.is_empty());
    }
    Ok(left_out)
}

fn objection(volume: &Volume) -> Option<ContentError> {
    if volume.raw || volume.start != 0 {
        return None;
    }
    let found = found(volume).ok()??;
    let remedy = match found {
        "a text" => "is the path right?".to_owned(),
        _ => format!(
            "`qemu-img convert -O raw {0} {0}.raw` makes a raw disk of it",
            volume.path.display()
        ),
    };
    let why = format!(
        "this is {found} and no raw disk; {remedy} (`raw = true` in the volume, or --raw, serves \
         it as it is)"
    );
    Some(wrong(volume, why))
}

/// Every volume whose file is not there, or cannot be one.
pub fn missing(devices: &[Device]) -> Vec<ContentError> {
    let why = |volume: &Volume| match fs::metadata(&volume.path) {
        Err(error) => Some(format!("it is not there: {error}")),
        Ok(found) if found.file_type().is_block_device() => None,
        Ok(found) if !found.is_file() => Some("it is no file and no block device".to_owned()),
        Ok(found) => {
            let least = volume.start.saturating_add(volume.length.unwrap_or(BLOCK));
            let bytes = found.len();
            let short = || format!("it has {bytes} bytes, and the volume needs {least}");
            (bytes < least).then(short)
        }
    };
    volumes(devices).filter_map(|volume| Some(wrong(volume, why(volume)?))).collect()
}

/// The kind of a volume's file, if that is plain.
fn found(volume: &Volume) -> io::Result<Option<&'static str>> {
    // What has become a pipe is not waited for.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits();
    let nonblock = i32::try_from(nonblock).unwrap_or_default();
    let file = fs::File::options().read(true).custom_flags(nonblock).open(&volume.path)?;
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(None);
    }
    let front = read(&file, 0)?;
    if let Some(format) = image_format(&front) {
        return Ok(Some(format));
    }
    if !kind.is_file() || !is_text(&front, true) {
        return Ok(None);
    }
    let back = read(&file, metadata.len().saturating_sub(LOOK as u64))?;
    Ok(is_text(&back, false).then_some("a text"))
}

fn read(file: &fs::File, at: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LOOK];
    let mut have = 0;
    while have < LOOK {
        match file.read_at(&mut bytes[have..], at + have as u64) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(have);
    Ok(bytes)
}

/// The format of a disk image that begins so.
fn image_format(bytes: &[u8]) -> Option<&'static str> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let version = |range: std::ops::RangeInclusive<u32>, value: Option<u32>| {
        value.is_some_and(|value| range.contains(&value))
    };
    let swapped = |at| word(at).map(u32::swap_bytes);
    if bytes.starts_with(b"QFI\xfb") && version(1..=3, swapped(4)) {
        return Some(if swapped(4) == Some(1) { "a qcow image" } else { "a qcow2 image" });
    }
    if bytes.starts_with(b"QED\0") && word(4).is_some_and(is_cluster) {
        return Some("a qed image");
    }
    if bytes.starts_with(b"KDMV") && version(1..=3, word(4)) {
        return Some("a vmdk image");
    }
    if bytes.starts_with(b"COWD") && word(4) == Some(1) {
        return Some("a vmdk image");
    }
    if word(64) == Some(0xbeda_107f) && word(68) == Some(0x0001_0001) {
        return Some("a vdi image");
    }
    if bytes.starts_with(b"vhdxfile") {
        return Some("a vhdx image");
    }
    // A fixed one has this at its end alone, and is a raw disk before that.
    if bytes.starts_with(b"conectix") {
        return Some("a vhd image");
    }
    if bytes.starts_with(b"WithoutFreeSpace") || bytes.starts_with(b"WithouFreSpacExt") {
        return Some("a parallels image");
    }
    None
}

/// A cluster of qed: a power of two from 4 KiB to 64 MiB.
fn is_cluster(bytes: u32) -> bool {
    bytes.is_power_of_two() && (4 << 10..=64 << 20).contains(&bytes)
}

/// Whether these bytes are of a text: letters and punctuation, in lines, and not the same few over
/// and over, as a test fills a disk. At a cut a letter may be torn.
fn is_text(bytes: &[u8], from_the_front: bool) -> bool {
    let torn_front = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let bytes = if from_the_front { bytes } else { &bytes[torn_front..] };
    let letters = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or("")
        }
        Err(_) => return false,
    };
    let fits = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x0c' | '\x1b');
    let mut seen = [false; 256];
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let kinds = seen.iter().filter(|seen| **seen).count();
    letters.contains('\n') && kinds >= 8 && letters.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    use proptest::prelude::*;

    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, bytes: &[u8], size: u64) -> Temporary {
            let name = format!("paternoster-content-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::write(&path, bytes).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(size.max(bytes.len() as u64)).unwrap();
            Temporary(path)
        }

        fn look(&self) -> Result<(), ContentError> {
            let mut device = Device::new("d");
            device.volumes.push(Volume::new("v", &self.0));
            look(&[device])
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _gone = fs::remove_file(&self.0);
        }
    }

    const TEXT: &str = "[server]\nlisten = \"unix:/run/nbd.sock\"\n[volume.a]\npath = \"/ö\"\n";

    /// Is a text refused, whether short, long or cut within a letter; and served if the
    /// configuration says `raw`?
    #[test]
    fn texts_are_refused() {
        for times in [1, 7, 100, 10_000] {
            let text = TEXT.repeat(times);
            let file = Temporary::new("text", text.as_bytes(), 0);
            let why = file.look().unwrap_err().to_string();
            assert!(why.contains("this is a text and no raw disk"), "{why}");
            let mut device = Device::new("d");
            device.volumes.push(Volume { raw: true, ..Volume::new("v", &file.0) });
            assert_eq!(look(&[device.clone()]), Ok(()));
            // All bytes after the first are clients' data.
            device.volumes[0] = Volume { start: 512, ..Volume::new("v", &file.0) };
            assert_eq!(look(&[device]), Ok(()));
        }
    }

    /// Is only the volume left out that is no raw disk, a device that has no other with it; and is
    /// it an error where nothing would be left?
    #[test]
    fn neighbours_are_served() {
        let text = Temporary::new("left-out", TEXT.as_bytes(), 0);
        let disk = Temporary::new("neighbour", b"", 1 << 20);
        let device = |name: &str, files: &[&Temporary]| {
            let mut device = Device::new(name);
            let volumes = files.iter().map(|file| Volume::new("v", &file.0));
            device.volumes.extend(volumes);
            device
        };
        let mut devices = vec![device("one", &[&text, &disk, &text]), device("two", &[&text])];
        let told = leave_out(&mut devices).unwrap();
        assert_eq!(told.len(), 3);
        assert_eq!(devices, [device("one", &[&disk])]);
        assert_eq!(leave_out(&mut devices), Ok(vec![]));
        assert!(leave_out(&mut vec![device("two", &[&text])]).is_err());
    }

    /// Is a disk with a text at its front a disk, and one that a test filled with a letter?
    #[test]
    fn disks_that_look_like_texts() {
        let text = TEXT.repeat(100);
        assert_eq!(Temporary::new("front", text.as_bytes(), 1 << 20).look(), Ok(()));
        assert_eq!(Temporary::new("letter", &[b'a'; 8192], 0).look(), Ok(()));
        assert_eq!(Temporary::new("lines", &b"ab\n".repeat(4096), 0).look(), Ok(()));
    }

    /// Is every format that the real qemu-img makes refused by its name, and raw not?
    #[test]
    fn formats_of_qemu_img() {
        for (format, name) in [
            ("qcow2", "a qcow2 image"),
            ("qcow", "a qcow image"),
            ("qed", "a qed image"),
            ("vmdk", "a vmdk image"),
            ("vdi", "a vdi image"),
            ("vhdx", "a vhdx image"),
            ("vpc", "a vhd image"),
            ("parallels", "a parallels image"),
            ("raw", ""),
        ] {
            let file = Temporary::new(format, b"", 0);
            let made = Command::new("qemu-img")
                .args(["create", "-q", "-f", format])
                .args([file.0.as_os_str(), "16M".as_ref()])
                .status();
            if !made.is_ok_and(|made| made.success()) {
                eprintln!("skipped: formats_of_qemu_img: {format}: qemu-img cannot make it here");
                continue;
            }
            match (file.look(), name) {
                (Ok(()), "") => {}
                (Err(error), name) if !name.is_empty() => {
                    let told = error.to_string();
                    assert!(told.contains(name) && told.contains("qemu-img convert"), "{told}");
                }
                (told, _) => panic!("{format}: {told:?}"),
            }
        }
    }

    /// Are fresh disks what they are: zeroes, and what mkfs and its like make, as far as they are
    /// here?
    #[test]
    fn file_systems_are_disks() {
        assert_eq!(Temporary::new("zeroes", b"", 1 << 20).look(), Ok(()));
        let mut table = [0; 512];
        (table[510], table[511]) = (0x55, 0xaa);
        assert_eq!(Temporary::new("table", &table, 1 << 20).look(), Ok(()));
        for (program, options) in [
            ("mkfs.ext4", &["-q", "-F"][..]),
            ("mkfs.ext2", &["-q", "-F"]),
            ("mkfs.xfs", &["-q", "-f"]),
            ("mkfs.btrfs", &["-q", "-f"]),
            ("mkfs.vfat", &[]),
            ("mkfs.minix", &[]),
            ("mkswap", &["-q"]),
        ] {
            let file = Temporary::new(program, b"", 320 << 20);
            let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
            let made = Command::new(program).env("PATH", path).args(options).arg(&file.0).output();
            match made {
                Ok(made) if made.status.success() => assert_eq!(file.look(), Ok(()), "{program}"),
                _ => eprintln!("skipped: file_systems_are_disks: {program} is not here"),
            }
        }
    }

    /// What is at the front of a raw disk, drawn: noise, boot code, tables, words of some letters
    /// that end in zeroes, magics with what cannot be their version.
    fn fronts() -> impl Strategy<Value = Vec<u8>> {
        let magics = prop::sample::select(vec![
            &b"QFI\xfb"[..],
            b"QED\0",
            b"KDMV",
            b"COWD",
            b"LUKS\xba\xbe",
            b"vhdx",
            b"conect",
            b"\xeb\x3c\x90MSDOS5.0",
            b"XFSB",
            b"hsqs",
            b"CD001",
        ]);
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..4096),
            (magics, prop::collection::vec(128u8.., 8..2048))
                .prop_map(|(magic, rest)| [magic, &rest].concat()),
            // A label of a field's length: words, then zeroes.
            ("[ -~\n]{0,900}", 1usize..600).prop_map(|(text, zeroes)| [
                text.as_bytes(),
                &vec![0; zeroes]
            ]
            .concat()),
            any::<u8>().prop_map(|byte| vec![byte; 4096]),
        ]
    }

    proptest! {
        /// Is no raw disk refused?
        #[test]
        fn raw_disks_are_served(front in fronts(), size in prop::sample::select(vec![0, 65536])) {
            let file = Temporary::new("drawn", &front, size);
            prop_assert_eq!(file.look(), Ok(()));
        }
    }
}
