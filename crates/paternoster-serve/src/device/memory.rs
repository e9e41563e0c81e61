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
    /// This many bytes, at least one.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(bytes: usize) -> io::Result<Memory> {
        let bytes = bytes.max(1);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: an anonymous mapping at a place that the kernel chooses touches nothing.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { at: NonNull::slice_from_raw_parts(at, bytes) })
    }

    /// The address. A caller that lets a backend read or write there has promised, by calling
    /// [`super::Backend::submit`], that nothing else accesses these bytes meanwhile.
    #[must_use]
    pub const fn raw(&self) -> NonNull<[u8]> {
        self.at
    }

    /// The bytes.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages are mapped, initialized with zeroes, and borrowed from their owner. A
        // caller that lets others write to them by way of `raw` has promised not to come here
        // meanwhile.
        unsafe { self.at.as_mut() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made, and its owner ends here.
        let _unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.at.len()) };
    }
}
