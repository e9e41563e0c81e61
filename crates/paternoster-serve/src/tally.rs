// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tally: what the server does for its clients, counted where it is done; in tests alone.
//!
//! Time is the machine's; how many system calls a request takes is ours. So a test counts what a
//! thread has done since it asked last, and holds it to constants.
//!
//! ```text
//! calls    reads, writes and polls of sockets
//! copied   bytes that are moved within memory: into and out of a client's rest, to parts
//! looks    entries of lists: of connections that wait or are ready, of ranges that are locked
//! said     bytes of the log, after the rate limits of its origins
//! ```
//!
//! Not counted: comparisons within the queue, and what the kernel does in a call. In programs these
//! functions are empty.

pub(crate) use counts::*;

#[cfg(not(test))]
mod counts {
    pub(crate) const fn call() {}
    pub(crate) const fn copied(_: usize) {}
    pub(crate) const fn looked(_: u64) {}
}

#[cfg(test)]
mod counts {
    use std::cell::Cell;

    /// Counts of what was done.
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Tally {
        pub(crate) calls: u64,
        pub(crate) copied: u64,
        pub(crate) looks: u64,
        pub(crate) said: u64,
    }

    thread_local! {
        static TALLY: Cell<Tally> = const {
            Cell::new(Tally { calls: 0, copied: 0, looks: 0, said: 0 })
        };
    }

    /// What this thread has done since it was taken last.
    pub(crate) fn take() -> Tally {
        TALLY.take()
    }

    fn count(add: impl FnOnce(&mut Tally)) {
        let mut tally = TALLY.get();
        add(&mut tally);
        TALLY.set(tally);
    }

    pub(crate) fn call() {
        count(|tally| tally.calls += 1);
    }

    pub(crate) fn copied(bytes: usize) {
        count(|tally| tally.copied += bytes as u64);
    }

    pub(crate) fn looked(entries: u64) {
        count(|tally| tally.looks += entries);
    }

    pub(crate) fn said(bytes: usize) {
        count(|tally| tally.said += bytes as u64);
    }
}
