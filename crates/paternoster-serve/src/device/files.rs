// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files: the opened regular files and block devices that hold volumes, and what they can do.
//!
//! ```text
//! stat ──▶ open ──▶ in memory? ──▶ O_DIRECT where it is to be ──▶ size, block, holes, spinning
//! ```
//!
//! * **Block**: offsets, lengths and memory must be multiples of it. With O_DIRECT it is what statx
//!   says (Linux 6.1), else what a read accepts; for a block device always its logical block;
//!   otherwise 512.
//! * **Size**: rounded down to a whole number of blocks. The bytes left out are reported at start.
//! * **Holes**: a regular file is asked to punch a hole far beyond its end, where there is nothing;
//!   a block device says in sysfs whether it can zero by itself.
//! * A file in memory is one on tmpfs or ramfs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::calls::{Calls, Refusing};
use super::clearing::Refusals;
use super::durability::Durability;
use super::holes::Holes;
use super::identity::{Thing, thing};
use super::open::OpenError;
use super::system::{Handle, Kind, Stat, System};
use super::{FileFacts, Giving, NewFile, Shares};
use crate::config::Direct;
#[cfg(test)]
use crate::device_loop::planted::{self, Bug};

/// The least block there is.
const BLOCK_MIN: u32 = 512;
/// Where a hole is tried: beyond the end, at a multiple of this.
const FAR: u64 = 1 << 20;

/// An open file or block device. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// The file, and a second open description that is synced only by flushes; see `durability`.
    pub(super) calls: Arc<dyn Calls>,
    facts: FileFacts,
    /// Bytes at the end that do not fill a block.
    pub(super) left_out: u64,
    pub(super) block_device: bool,
    pub(super) in_memory: bool,
    pub(super) direct: bool,
    pub(super) durability: Arc<Durability>,
    pub(super) refusals: Arc<Refusals>,
}

impl File {
    /// Opens a regular file or block device.
    pub(super) fn open(
        system: &System,
        path: &Path,
        direct: Direct,
        readonly: bool,
    ) -> Result<File, OpenError> {
        let wrong = |doing: &'static str| {
            let path = path.to_owned();
            move |error: io::Error| OpenError::System { path, doing, error }
        };
        // Before it is opened: opening a pipe would wait for its other end.
        only_files(path, &system.stat(path).map_err(wrong("it is not there"))?)?;
        let access = if readonly { OFlags::RDONLY } else { OFlags::RDWR };
        let file = system
            .open(path, access | OFlags::CLOEXEC)
            .map_err(|errno| opening(path, readonly, errno))?;
        let stat = file.stat().map_err(wrong("looking at it"))?;
        only_files(path, &stat)?;
        let block_device = stat.kind == Kind::Block;
        let in_memory = !block_device && file.is_in_memory();
        let block = if block_device { file.logical_block() } else { None };
        let (direct, block) = match pass_cache(&file, direct, in_memory, block) {
            Ok(Some(block)) => (true, block),
            Ok(None) => (false, block.unwrap_or(BLOCK_MIN)),
            Err(error) => return Err(wrong("`direct = true` is refused")(error)),
        };
        let block = block.max(BLOCK_MIN).next_power_of_two();
        let bytes = match block_device {
            true => file.end().map_err(wrong("asking its size"))?,
            false => stat.bytes,
        };
        let left_out = bytes % u64::from(block);
        let size = bytes - left_out;
        if size == 0 {
            return Err(OpenError::Empty { path: path.to_owned(), bytes, block });
        }
        let number = if block_device { stat.number } else { stat.device };
        let clears = !readonly
            && match block_device {
                true => system.queue_attribute(number, "write_zeroes_max_bytes") > 0,
                false => can_have_holes(&file, bytes),
            };
        let preferred = u32::try_from(stat.preferred).unwrap_or(0).clamp(4096, 1 << 20);
        let facts = FileFacts {
            size,
            block,
            preferred: preferred.next_power_of_two().max(block),
            readonly,
            discards: clears,
            zeroes_fast: clears,
            rotational: !in_memory && system.queue_attribute(number, "rotational") > 0,
            thing: thing(&stat),
        };
        let for_flushes = if readonly { None } else { file.again() };
        let file = File::over(file.serve(for_flushes), facts, direct);
        Ok(File { left_out, block_device, in_memory, ..file })
    }

    /// An opened regular file of which only the facts are known.
    pub(crate) fn over(calls: Arc<dyn Calls>, facts: FileFacts, direct: bool) -> File {
        File {
            calls,
            facts,
            left_out: 0,
            block_device: false,
            in_memory: false,
            direct,
            durability: Arc::default(),
            refusals: Arc::default(),
        }
    }

    /// The same file, which shares what it owes to flushes, and its losses, with all others that
    /// have it open: a sync of one is a sync of all, and a volume that a reload replaces may write
    /// to it while the new one is flushed.
    pub(super) fn beside(mut self, others: &[File]) -> File {
        let mut others =
            others.iter().filter(|other| self.facts.thing.is_some_and(|it| other.is(it)));
        if let Some(other) = others.next() {
            if let Err(errno) = self.durability.is_not_lost() {
                other.durability.was_lost(errno);
            }
            #[cfg(test)]
            if planted::has(Bug::LosesAlone) {
                return self;
            }
            // An earlier user of it may have left writes that are not safe.
            other.durability.note_write();
            self.durability = Arc::clone(&other.durability);
        }
        self
    }

    fn is(&self, thing: Thing) -> bool {
        self.facts.thing == Some(thing)
    }

    /// The same file with what another process has handed over: its descriptors, and the errno of a
    /// flush that failed there.
    pub(crate) fn of_another(self, calls: Arc<dyn Calls>, lost: i32) -> File {
        if lost != 0 {
            self.durability.was_lost(lost);
        }
        File { calls, ..self }
    }

    /// The descriptor's number, for a ring.
    #[cfg(test)]
    pub(crate) fn raw(&self) -> std::os::fd::RawFd {
        self.calls.raw()[0]
    }

    /// Whether it is the placeholder of a removed file.
    pub(super) const fn is_nothing(&self) -> bool {
        self.facts.size == 0
    }

    /// The placeholder of a file that is no longer used: it owes nothing, and does nothing.
    pub(super) fn nothing() -> File {
        let facts = FileFacts {
            size: 0,
            block: BLOCK_MIN,
            preferred: 4096,
            readonly: true,
            discards: false,
            zeroes_fast: false,
            rotational: false,
            thing: None,
        };
        let durability = Arc::new(Durability::of_nothing());
        File { durability, ..File::over(Arc::new(Refusing(Errno::BADF)), facts, false) }
    }

    /// What the file supports.
    pub(crate) const fn facts(&self) -> FileFacts {
        self.facts
    }

    /// A durable write to it has failed.
    pub(super) fn doubt(&self, errno: i32) {
        self.durability.doubt(errno, self.calls.flushes_alone());
    }

    /// Whether a range is within it.
    pub(super) fn holds(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.facts.size)
    }

    /// A handle to ask where it has holes, on any thread.
    pub(crate) fn holes(&self) -> Holes {
        Holes::new(Arc::clone(&self.calls), self.facts.size, !self.block_device)
    }
}

/// The errno of the failed sync of the first file that has lost data.
pub(crate) fn lost(files: &[File]) -> Option<i32> {
    files.iter().find_map(|file| file.durability.is_not_lost().err())
}

/// As `Backend::shares_errors`: where the page cache is between, errors are its descriptions'. What
/// `fallocate` zeroes may be in the page cache of a file with O_DIRECT, too: the ends of a range
/// that are no whole blocks of the file system.
pub(crate) fn shares_errors(files: &[File], file: u16) -> Shares {
    files.get(usize::from(file)).map_or_else(Shares::default, |file| Shares {
        told: true,
        writes: !file.direct,
        flushes: !file.calls.flushes_alone(),
    })
}

/// Files that can be handed to another process.
pub(crate) fn to_hand_over(files: &[File]) -> Vec<Giving> {
    let used = files.iter().filter(|file| !file.is_nothing());
    let giving = used.map(|file| Giving {
        calls: Arc::clone(&file.calls),
        lost: file.durability.is_not_lost().err().unwrap_or(0),
    });
    giving.collect()
}

/// The same files; what is lost of one is lost to all that are the same.
pub(crate) fn all_beside(files: Vec<File>) -> Vec<File> {
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let file = file.beside(&all);
        all.push(file);
    }
    all
}

/// Adds a file, in the place of one that is no longer used if there is one; returns its number.
pub(crate) fn add(files: &mut Vec<File>, file: NewFile) -> Option<u16> {
    let file = file.0.beside(files);
    let free = files.iter().position(File::is_nothing);
    let number = u16::try_from(free.unwrap_or(files.len())).ok()?;
    match free {
        Some(free) => files[free] = file,
        None => files.push(file),
    }
    Some(number)
}

/// Removes a file and returns it.
pub(crate) fn remove(files: &mut [File], file: u16) -> Option<NewFile> {
    let place = files.get_mut(usize::from(file))?;
    Some(NewFile(std::mem::replace(place, File::nothing())))
}

/// How the files of a backend are accessed, as text.
pub(super) fn how(files: &[File]) -> &'static str {
    let files = || files.iter().filter(|file| !file.is_nothing());
    match files().filter(|file| file.direct).count() {
        0 if files().all(|file| file.in_memory) => "files in memory",
        0 => "through the page cache",
        count if count == files().count() => "O_DIRECT",
        _ => "O_DIRECT where it can be",
    }
}

fn only_files(path: &Path, stat: &Stat) -> Result<(), OpenError> {
    let found = match stat.kind {
        Kind::File | Kind::Block => return Ok(()),
        Kind::Folder => "a folder",
        Kind::Pipe => "a pipe",
        Kind::Socket => "a socket",
        Kind::Character => "a character device",
    };
    Err(OpenError::Kind { path: path.to_owned(), found })
}

fn opening(path: &Path, readonly: bool, errno: Errno) -> OpenError {
    let denied = matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS);
    let doing = match (readonly, denied) {
        (true, _) => "opening it to read",
        (false, false) => "opening it to read and write",
        (false, true) => "opening it to write (`readonly = true` only reads)",
    };
    OpenError::System { path: PathBuf::from(path), doing, error: errno.into() }
}

/// Turns O_DIRECT on where it is wanted; returns the block size that it needs, `None` if the cache
/// is used.
fn pass_cache(
    file: &Handle,
    direct: Direct,
    in_memory: bool,
    device_block: Option<u32>,
) -> io::Result<Option<u32>> {
    if direct == Direct::No || (direct == Direct::Auto && in_memory) {
        return Ok(None);
    }
    let done = file.set_direct(true).and_then(|()| match device_block {
        Some(block) => Ok(block),
        None => file.direct_block(),
    });
    match done {
        Ok(block) => Ok(Some(block)),
        Err(error) if direct == Direct::Yes => Err(error),
        Err(_) => {
            file.set_direct(false)?;
            Ok(None)
        }
    }
}

/// Whether a regular file can have holes, tried where there is no data.
fn can_have_holes(file: &Handle, bytes: u64) -> bool {
    let behind = bytes.next_multiple_of(FAR).saturating_add(FAR);
    is_done_or_failed(&file.punch(behind, 4096))
}

/// Whether the kernel can punch holes, whatever the result of this one: an operation that is not
/// supported fails with another error than the device's.
fn is_done_or_failed(punched: &Result<(), Errno>) -> bool {
    punched.err().is_none_or(is_of_device)
}

/// Whether this is an errno of a failing device: of its medium, its transport, its target, or a
/// timeout.
fn is_of_device(error: Errno) -> bool {
    matches!(
        error,
        Errno::IO
            | Errno::NODATA
            | Errno::REMOTEIO
            | Errno::TIMEDOUT
            | Errno::NOLINK
            | Errno::ILSEQ
            | Errno::NODEV
            | Errno::NXIO
            | Errno::NOSPC
    )
}

/// Does a volume that comes beside another one of its file owe a flush, is a sync of one a sync of
/// both, and does the new one owe what the other writes when it has been taken out, and lose what
/// that loses?
#[test]
fn files_of_one_thing_owe_together() {
    use super::identity::Thing;
    let thing = Some(Thing::File(1, 2));
    let facts = FileFacts { thing, ..FileFacts::of_a_test(1 << 20, 512) };
    let file = || File::over(Arc::new(Refusing(Errno::BADF)), facts, false);
    let sync = |file: &File| {
        let covers = file.durability.owed().unwrap().expect("it owes a sync");
        file.durability.covered(covers).unwrap();
    };
    let mut files = all_beside(vec![file()]);
    sync(&files[0]);
    assert_eq!(add(&mut files, NewFile(file())), Some(1));
    sync(&files[1]);
    assert!(files.iter().all(|file| file.durability.owed() == Ok(None)));
    let old = remove(&mut files, 0).unwrap().0;
    old.durability.note_write();
    sync(&files[1]);
    assert_eq!(old.durability.owed(), Ok(None));
    old.durability.failed(libc::ENOSPC);
    assert_eq!(files[1].durability.owed(), Err(libc::ENOSPC));
}

/// Is a device that fails while it is examined taken for what it is when it works?
#[test]
fn a_failing_device_is_what_it_is() {
    use super::system::kernel::is_taken;
    assert!(is_taken(&Ok(512)) && is_taken(&Err(Errno::IO)) && !is_taken(&Err(Errno::INVAL)));
    assert!(is_done_or_failed(&Ok(())));
    // A medium, a transport, a target that is late.
    for failed in [Errno::IO, Errno::NODATA, Errno::NOLINK, Errno::TIMEDOUT] {
        assert!(is_done_or_failed(&Err(failed)), "{failed:?}");
    }
    assert!(!is_done_or_failed(&Err(Errno::OPNOTSUPP)));
}
