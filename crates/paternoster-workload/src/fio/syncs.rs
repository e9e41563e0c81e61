// SPDX-License-Identifier: MIT OR Apache-2.0
//! Syncs: when a job makes its data safe, by `sync`, `fsync`, `fdatasync` and their kin.
//!
//! Before each of its I/Os a job checks whether a sync is due. It is after every N-th write that
//! was issued, counted since the start of the job, unless the last action was a sync:
//!
//! ```text
//! fsync=3, 8 writes, end_fsync=1      w w w S w w w S w w S
//! fsync=2 and fdatasync=3             w w S w D w S w w S       fsync goes first, one at a time
//! rw=rw, fsync=2                      r r r w r r w S w w S r S w
//! ```
//!
//! The last line is no mistake: the read in between leaves the count of writes at a multiple of
//! two, and the last action is not a sync, so fio syncs again. A sync that would follow the last
//! I/O of a job is not made; `end_fsync` is for that.
//!
//! Source: FIO-57, FIO-58; the lines above were measured on fio 3.33 with strace.

use super::value::{self, Reader};

/// How files are opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileSync {
    /// Writes end in the cache or the device.
    #[default]
    None,
    /// `O_SYNC`: each write is safe when it ends, and so are the file's metadata.
    Sync,
    /// `O_DSYNC`: each write's data are safe when it ends.
    Dsync,
}

/// The option `sync_file_range`: what is waited for, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncFileRange {
    /// Wait for earlier write-back of the range.
    pub wait_before: bool,
    /// Begin to write back.
    pub write: bool,
    /// Wait for that.
    pub wait_after: bool,
    /// After this many writes, at least 1.
    pub every: u64,
}

/// What a sync does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// Data and metadata of the file.
    Fsync,
    /// Data of the file.
    Fdatasync,
    /// The range of the file that was written since the last sync of any kind.
    Range,
}

/// The syncs that a job makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Syncs {
    /// `sync`: how files are opened.
    pub open: FileSync,
    /// `fsync`: after this many writes; 0 never.
    pub fsync_every: u64,
    /// `fdatasync`: after this many writes; 0 never.
    pub fdatasync_every: u64,
    /// `sync_file_range`.
    pub range: Option<SyncFileRange>,
    /// `write_barrier`: each so-manieth write is a barrier; 0 none.
    pub barrier_every: u64,
    /// `end_fsync`: one fsync of each file that was written, at the end of each loop.
    pub at_end: bool,
    /// `fsync_on_close`: the same when a file is closed.
    pub on_close: bool,
    /// Each write goes on as such a sync of its file, and ends with it. No option of fio's:
    /// sysbench does it.
    pub each: Option<SyncKind>,
    /// With `at_end`: of every file, whichever clone has written it, and counted separately. Not an
    /// option of fio's: sysbench uses it.
    pub every_file: bool,
}

impl Syncs {
    /// The sync that is due before the next I/O, after `writes` were issued.
    #[must_use]
    pub fn due(&self, writes: u64, last_was_sync: bool) -> Option<SyncKind> {
        let after = |every: u64| every > 0 && writes.is_multiple_of(every);
        if writes == 0 || last_was_sync {
            None
        } else if after(self.fsync_every) {
            Some(SyncKind::Fsync)
        } else if after(self.fdatasync_every) {
            Some(SyncKind::Fdatasync)
        } else if self.range.is_some_and(|range| after(range.every)) {
            Some(SyncKind::Range)
        } else {
            None
        }
    }

    /// Whether a call of fsync or fdatasync follows each write, and nothing else is synced.
    #[must_use]
    pub fn of_each_write(&self) -> bool {
        let Syncs { fsync_every, fdatasync_every, .. } = *self;
        let others = Syncs { fsync_every: 0, fdatasync_every: 0, ..*self };
        others == Syncs::default() && (fsync_every == 1 || fdatasync_every == 1)
    }

    /// The same without the syncs between writes, which a trimwrite job does not make.
    #[must_use]
    pub const fn at_end_only(self) -> Syncs {
        Syncs { fsync_every: 0, fdatasync_every: 0, range: None, ..self }
    }

    /// Whether write number `writes`, from 1, is a barrier.
    #[must_use]
    pub fn is_barrier(&self, writes: u64) -> bool {
        self.barrier_every > 0 && writes.is_multiple_of(self.barrier_every)
    }

    /// Whether a file that was written is synced when the job ends.
    #[must_use]
    pub fn ends_with_sync(&self) -> bool {
        self.at_end || self.on_close
    }

    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(
        &mut self,
        name: &str,
        text: &str,
        read: &mut Reader<'_>,
    ) -> Result<bool, String> {
        match name {
            "sync" => self.open = file_sync(text)?,
            "fsync" => self.fsync_every = read.size(text)?,
            "fdatasync" => self.fdatasync_every = read.size(text)?,
            "sync_file_range" => self.range = Some(range(text, read)?),
            "write_barrier" => self.barrier_every = read.size(text)?,
            "end_fsync" => self.at_end = value::boolean(text)?,
            "fsync_on_close" => self.on_close = value::boolean(text)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn file_sync(text: &str) -> Result<FileSync, String> {
    match text {
        "none" | "0" => Ok(FileSync::None),
        "sync" | "1" => Ok(FileSync::Sync),
        "dsync" => Ok(FileSync::Dsync),
        _ => Err(format!("`{text}` is none of none, sync and dsync")),
    }
}

/// `wait_before,write,wait_after:N`, each word at most once.
fn range(text: &str, read: &mut Reader<'_>) -> Result<SyncFileRange, String> {
    let Some((words, every)) = text.rsplit_once(':') else {
        return Err(format!("`{text}` has no count: write it as `sync_file_range=write:8`"));
    };
    let every = read.integer(every, 1, u64::MAX)?;
    let mut range = SyncFileRange { wait_before: false, write: false, wait_after: false, every };
    for word in words.split(',') {
        match word {
            "wait_before" => range.wait_before = true,
            "write" => range.write = true,
            "wait_after" => range.wait_after = true,
            _ => return Err(format!("`{word}` is none of wait_before, write and wait_after")),
        }
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syncs(options: &[(&str, &str)]) -> Syncs {
        let mut syncs = Syncs::default();
        for (name, text) in options {
            assert!(syncs.set(name, text, &mut Reader::new(1024, &mut Vec::new())).unwrap());
        }
        syncs
    }

    /// The calls of a job that makes these I/Os (`r`, `w`), as strace showed them: S fsync,
    /// D fdatasync, R `sync_file_range`.
    fn calls(syncs: &Syncs, ios: &str) -> String {
        let (mut writes, mut last_was_sync, mut calls) = (0, false, String::new());
        for io in ios.chars() {
            if let Some(kind) = syncs.due(writes, last_was_sync) {
                calls.push(match kind {
                    SyncKind::Fsync => 'S',
                    SyncKind::Fdatasync => 'D',
                    SyncKind::Range => 'R',
                });
            }
            writes += u64::from(io == 'w');
            last_was_sync = false;
            calls.push(io);
        }
        calls
    }

    /// Are syncs where fio 3.33 makes them? All four lines were measured.
    #[test]
    fn syncs_are_where_fio_makes_them() {
        assert_eq!(calls(&syncs(&[("fsync", "3")]), "wwwwwwww"), "wwwSwwwSww");
        let both = syncs(&[("fsync", "2"), ("fdatasync", "3")]);
        assert_eq!(calls(&both, "wwwwwwwwwwww"), "wwSwDwSwwSwwSwDwSww");
        let ranges = syncs(&[("fsync", "4"), ("sync_file_range", "write:2")]);
        assert_eq!(calls(&ranges, "wwwwwwww"), "wwRwwSwwRww");
        assert_eq!(calls(&syncs(&[("fsync", "2")]), "rrrwrrwwwrwr"), "rrrwrrwSwwSrSwr");
    }

    /// Are values read, and wrong ones refused with what would be right?
    #[test]
    fn values_are_read() {
        assert_eq!(syncs(&[("sync", "1")]).open, FileSync::Sync);
        assert_eq!(syncs(&[("sync", "dsync")]).open, FileSync::Dsync);
        let range = syncs(&[("sync_file_range", "wait_before,write:8")]).range.unwrap();
        assert!(range.wait_before && range.write && !range.wait_after && range.every == 8);
        assert!(syncs(&[("end_fsync", "1")]).ends_with_sync());
        let mut notes = Vec::new();
        let mut reader = Reader::new(1024, &mut notes);
        for (name, text) in
            [("sync", "always"), ("sync_file_range", "write"), ("sync_file_range", "all:3")]
        {
            assert!(Syncs::default().set(name, text, &mut reader).is_err(), "{name}={text}");
        }
    }

    /// Which syncs follow each write, with no others? One of fsync and fdatasync is enough; a sync
    /// at the end, files opened for synced writes and ranges do not count.
    #[test]
    fn syncs_of_each_write() {
        assert!(syncs(&[("fsync", "1")]).of_each_write());
        assert!(syncs(&[("fsync", "16"), ("fdatasync", "1")]).of_each_write());
        for other in [("fsync", "16"), ("end_fsync", "1"), ("sync", "dsync")] {
            assert!(!syncs(&[other]).of_each_write(), "{other:?}");
        }
        assert!(!syncs(&[("fsync", "1"), ("sync_file_range", "write:8")]).of_each_write());
        assert!(!Syncs::default().of_each_write());
    }
}
