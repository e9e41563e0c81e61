// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holes: where a file has data and where it has none, asked of the system run by run.
//!
//! Two calls tell where a run ends (`lseek` with SEEK_DATA and SEEK_HOLE), and a file of many runs
//! takes many. A file system may have to read its maps from the disk for that, or hang: the one
//! that asks must be able to wait, so this can be sent to a thread that can (`surveyor`).

use std::io;
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::Extent;
use super::calls::Calls;

/// A file whose holes are queried.
#[derive(Debug, Clone)]
pub struct Holes {
    calls: Arc<dyn Calls>,
    size: u64,
    /// Block devices tell nothing: all of one may be data.
    is_known: bool,
}

impl Holes {
    pub(super) fn new(calls: Arc<dyn Calls>, size: u64, is_known: bool) -> Holes {
        Holes { calls, size, is_known }
    }

    /// Tells runs of hole and data, until `each` says false or the range ends.
    ///
    /// # Errors
    /// The system's error.
    pub fn tell(
        &self,
        offset: u64,
        length: u64,
        each: &mut dyn FnMut(Extent) -> bool,
    ) -> io::Result<()> {
        let end = offset.saturating_add(length).min(self.size);
        let mut at = offset;
        while at < end {
            let (until, hole) = self.run_at(at, end)?;
            if !each(Extent { length: until - at, hole }) {
                return Ok(());
            }
            at = until;
        }
        Ok(())
    }

    /// Where the run that begins at `at` ends, and whether it is a hole.
    fn run_at(&self, at: u64, end: u64) -> io::Result<(u64, bool)> {
        if !self.is_known {
            return Ok((end, false));
        }
        match self.calls.seek(SeekFrom::Data(at)) {
            Ok(data) if data > at => Ok((data.min(end), true)),
            Ok(_) => match self.calls.seek(SeekFrom::Hole(at)) {
                Ok(hole) => Ok((if hole > at { hole.min(end) } else { end }, false)),
                Err(errno) => Err(errno.into()),
            },
            Err(Errno::NXIO) => Ok((end, true)),
            // A file system that does not know: all of it may be data.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok((end, false)),
            Err(errno) => Err(errno.into()),
        }
    }
}
