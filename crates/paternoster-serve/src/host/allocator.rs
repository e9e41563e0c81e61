// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C library's allocator, told that what is large goes back to the system when it is freed.
//!
//! glibc raises the size from which it maps a block by itself to the largest that was freed (32 MiB
//! at most), and keeps what is smaller in an arena for each thread. A reload makes and drops queues
//! of megabytes in whatever thread it comes in: a server that was reloaded once in eight seconds
//! had 45 MB after two minutes and 61 MB after seven, all of it free. With a size that stays, what
//! is large is unmapped each time; nothing on a request's way allocates that much.
//!
//! Source: mallopt(3), `M_MMAP_THRESHOLD`: to set it turns the adjustment off.

/// From this size on a block is mapped by itself: where glibc begins.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// To be called once, by a program that serves, at its start: what is there before stays where it
/// is. Elsewhere than with glibc there is nothing to do.
pub fn give_back_what_is_large() {
    // SAFETY: it sets a number of the allocator, under the lock of the main arena. A thread that
    // allocates meanwhile reads the word without it: the old size or the new one, and either only
    // says from where the block comes.
    #[cfg(target_env = "gnu")]
    let _taken = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}
