// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory: a run of whole pages, as O_DIRECT and io_uring want it.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Zeroed memory that begins at a page.
#[derive(Debug)]
pub struct Memory {
    at: NonNull<[u8]>,
}

// SAFETY: it owns its pages, and nothing in it depends on a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// So many bytes, at least one.
    ///
    /// # Errors
    /// What the system said.
    pub fn new(bytes: usize) -> io::Result<Memory> {
        let bytes = bytes.max(1);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: an anonymous mapping at a place that the kernel chooses touches nothing.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { at: NonNull::slice_from_raw_parts(at, bytes) })
    }

    /// All of it; who reads or writes it sees to it that nobody else does meanwhile.
    #[must_use]
    pub const fn raw(&self) -> NonNull<[u8]> {
        self.at
    }

    /// Its bytes; nothing may be under way in it.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages are mapped, initialized with zeroes, and borrowed from their owner.
        unsafe { self.at.as_mut() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made, and its owner ends here.
        let _unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.at.len()) };
    }
}
