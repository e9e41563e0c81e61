// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data: the bytes of an emulated device, in memory or in a sparse file.
//!
//! ```text
//! nothing asked ─▶ a nameless file in memory; pages come with the first write
//! --data FILE   ─▶ that file, made sparse if it is not there, and locked
//! ```
//!
//! Both are files, so that there is one way of doing everything. What was never written is zeroes.
//! The host's own caching and syncing do not matter: how long things take is the model's business,
//! and nothing here is ever synced.
//!
//! Invariant: memory holds at most half of what was free at the start; a write that would take more
//! fails as on a full disk.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, fallocate, flock, memfd_create};

const PAGE: u64 = 4096;
/// Zeroes that are written where holes cannot be made.
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];

/// The bytes.
#[derive(Debug)]
pub(super) struct Data {
    file: File,
    /// Bytes of memory that it may have; `None`: it is on a disk, which has its own end.
    limit: Option<u64>,
    /// An upper bound of the pages it has now.
    held: AtomicU64,
}

impl Data {
    /// Makes data that are kept in memory.
    pub(super) fn in_memory(size: u64) -> Result<Data, String> {
        let wrong = |error: io::Error| format!("no memory for the data: {error}");
        let made = memfd_create("paternoster-emulate", MemfdFlags::CLOEXEC);
        let file = File::from(made.map_err(|errno| wrong(errno.into()))?);
        file.set_len(size).map_err(wrong)?;
        Ok(Data { file, limit: Some(free_memory() / 2), held: AtomicU64::new(0) })
    }

    /// Makes data that are kept in a file.
    pub(super) fn in_file(path: &Path, size: u64) -> Result<Data, String> {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| wrong(error.to_string()))?;
        let found = file.metadata().map_err(|error| wrong(error.to_string()))?;
        if !found.is_file() {
            return Err(wrong("data are kept in a regular file".to_owned()));
        }
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(wrong("another emulation has its data there".to_owned()));
        }
        if found.len() < size {
            file.set_len(size).map_err(|error| wrong(format!("{size} bytes: {error}")))?;
        }
        Ok(Data { file, limit: None, held: AtomicU64::new(0) })
    }

    /// Fills the buffer from `offset` on.
    pub(super) fn read(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.file.read_at(buffer, offset) {
                // Another process has truncated the file.
                Ok(0) => {
                    buffer.fill(0);
                    return Ok(());
                }
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of the buffer.
    pub(super) fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.make_room(buffer.len() as u64)?;
        self.file.write_all_at(buffer, offset)
    }

    /// Makes a hole, if it can: a discard promises nothing.
    pub(super) fn discard(&self, offset: u64, length: u64) {
        let _hint = self.punch(offset, length);
    }

    /// Makes zeroes.
    pub(super) fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        if self.punch(offset, length).is_ok() {
            return Ok(());
        }
        let mut done = 0;
        while done < length {
            let left = usize::try_from(length - done).unwrap_or(usize::MAX);
            let part = &ZEROES[..left.min(ZEROES.len())];
            self.write(part, offset + done)?;
            done += part.len() as u64;
        }
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> rustix::io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, hole, offset, length)
    }

    /// Whether `bytes` more may be written. Held memory is overestimated (as if every write took
    /// new pages), and the system is asked only when the estimate would be too much.
    fn make_room(&self, length: u64) -> io::Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        let more = length.next_multiple_of(PAGE) + PAGE;
        if self.held.fetch_add(more, Ordering::Relaxed) + more <= limit {
            return Ok(());
        }
        let held = self.file.metadata()?.blocks() * 512;
        if held + more > limit {
            self.held.store(held, Ordering::Relaxed);
            return Err(ErrorKind::StorageFull.into());
        }
        self.held.store(held + more, Ordering::Relaxed);
        Ok(())
    }
}

/// Bytes of memory not in use yet.
fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    // Where it is not told: 2 GiB, of which half is little enough anywhere.
    kib.map_or(2 << 30, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::private_folder::PrivateFolder;

    fn bytes(data: &Data, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![9; length];
        data.read(&mut buffer, offset).unwrap();
        buffer
    }

    /// Is what was written there, what was cleared gone, and everything else zeroes?
    #[test]
    fn memory_keeps_what_was_written() {
        let data = Data::in_memory(1 << 40).unwrap();
        data.write(b"paternoster", (1 << 40) - 11).unwrap();
        assert_eq!(bytes(&data, (1 << 40) - 11, 11), b"paternoster");
        assert_eq!(bytes(&data, 12_345, 3), [0; 3]);
        data.write(&[7; 10], 0).unwrap();
        data.zero(2, 3).unwrap();
        data.discard(8, 2);
        assert_eq!(bytes(&data, 0, 10), [7, 7, 0, 0, 0, 7, 7, 7, 0, 0]);
    }

    /// Is memory bounded, by what is held and not by what was written in all?
    #[test]
    fn memory_has_an_end() {
        let mut data = Data::in_memory(1 << 30).unwrap();
        data.limit = Some(1 << 20);
        for _ in 0..100 {
            data.write(&[1; 1 << 16], 0).unwrap();
        }
        let failed = (0..100).find(|nth| data.write(&[1; 1 << 16], nth << 16).is_err());
        // 16 times 64 KiB are all of it, less the page that is kept for the ragged.
        assert_eq!(failed, Some(15));
        data.discard(0, 1 << 30);
        data.write(&[1; 1 << 16], 0).unwrap();
    }

    /// Is a file made, kept when it is there, and refused to a second one?
    #[test]
    fn files_are_made_and_locked() {
        let folder = PrivateFolder::new("paternoster-test").unwrap();
        let path = folder.path().join("data");
        let data = Data::in_file(&path, 1 << 30).unwrap();
        data.write(b"kept", 100).unwrap();
        assert!(Data::in_file(&path, 1 << 30).unwrap_err().contains("another emulation"));
        drop(data);
        let data = Data::in_file(&path, 1 << 20).unwrap();
        assert_eq!(bytes(&data, 100, 4), b"kept");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 30);
        std::fs::remove_file(&path).unwrap();
        let folder_itself = Data::in_file(folder.path(), 1).unwrap_err();
        assert!(folder_itself.contains("directory"), "{folder_itself}");
    }
}
