// SPDX-License-Identifier: MIT OR Apache-2.0
//! Background writer: from a thread that must not wait to a disk that may be slow.
//!
//! ```text
//! loop's thread                                   thread of its own
//! current ──full──▶ [ | | | | ] ──────────────────▶ Press: file, record, …
//!    ▲                                                   │
//!    └─────────────◀ [ | | ] ◀───────────empty───────────┘
//! ```
//!
//! A fixed number of chunks circulates. The writer asks for room first: there is none while all
//! chunks are queued for a [`Press`] that is too slow, or that has failed. The writer decides what
//! to do then: leave something out and count it (a trace), or end (a record).
//!
//! Invariants: I1 no call waits but [`Ending::wait`]; I2 nothing is allocated after the start; I3
//! what was put between two calls of [`BackgroundWriter::room`] arrives in one piece or not at all.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes of a chunk; a single piece is smaller.
pub(crate) const CHUNK_BYTES: usize = 1 << 16;
/// How many chunks go round: 4 MiB.
const CHUNKS: usize = 64;

/// Takes the chunks, on a thread of its own, where it may take its time.
pub(crate) trait Press: Send + 'static {
    /// The thread has started.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes a chunk.
    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Nothing follows. `word` is what [`BackgroundWriter::end`] was given, 0 if it was never
    /// called.
    fn end(&mut self, word: u8) -> io::Result<()>;
}

/// State that the queue's thread and the writer share.
#[derive(Debug, Default)]
struct Shared {
    failed: AtomicBool,
    word: AtomicU8,
}

/// The writing side.
#[derive(Debug)]
pub(crate) struct BackgroundWriter {
    current: Vec<u8>,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    shared: Arc<Shared>,
    thread: JoinHandle<io::Result<()>>,
}

impl BackgroundWriter {
    /// Starts the thread, which is called `name`.
    pub(crate) fn start(name: &str, press: impl Press) -> io::Result<BackgroundWriter> {
        // Room for all chunks in both channels: sending never waits.
        let (full, pressed) = sync_channel(CHUNKS);
        let (back, empty) = sync_channel(CHUNKS);
        for _ in 1..CHUNKS {
            let _there_is_room = back.try_send(Vec::with_capacity(CHUNK_BYTES));
        }
        let shared = Arc::<Shared>::default();
        let seen = shared.clone();
        let work = move || work(&pressed, &back, press, &seen);
        let thread = crate::vital::spawn(name.to_owned(), work)?;
        Ok(BackgroundWriter {
            current: Vec::with_capacity(CHUNK_BYTES),
            full,
            empty,
            shared,
            thread,
        })
    }

    /// Whether there is room for `bytes` more, in one chunk.
    #[inline]
    pub(crate) fn room(&mut self, bytes: usize) -> bool {
        CHUNK_BYTES - self.current.len() >= bytes
            || (bytes <= CHUNK_BYTES && self.hand_over() && !self.has_failed())
    }

    /// The buffer to write to, at most as much as there was room for.
    #[inline]
    pub(crate) const fn current(&mut self) -> &mut Vec<u8> {
        &mut self.current
    }

    /// Passes on what is there, if an empty chunk is free.
    pub(crate) fn hand_over(&mut self) -> bool {
        if self.current.is_empty() {
            return true;
        }
        let Ok(next) = self.empty.try_recv() else { return false };
        let chunk = mem::replace(&mut self.current, next);
        self.full.try_send(chunk).is_ok()
    }

    /// Whether the [`Press`] has failed; [`Ending::wait`] says how.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Passes on everything, and then `word`.
    pub(crate) fn end(self, word: u8) -> Ending {
        let BackgroundWriter { current, full, empty: _, shared, thread } = self;
        shared.word.store(word, Ordering::Release);
        let _gone_if_it_failed = full.try_send(current);
        Ending { thread }
    }
}

/// The thread: it ends when nothing follows, or with the first failure.
fn work(
    full: &Receiver<Vec<u8>>,
    back: &SyncSender<Vec<u8>>,
    mut press: impl Press,
    shared: &Shared,
) -> io::Result<()> {
    let failed = |_: &io::Error| shared.failed.store(true, Ordering::Relaxed);
    press.begin().inspect_err(failed)?;
    while let Ok(mut chunk) = full.recv() {
        press.chunk(&chunk).inspect_err(failed)?;
        chunk.clear();
        // At the end it is not needed any more.
        let _nobody = back.try_send(chunk);
    }
    press.end(shared.word.load(Ordering::Acquire))
}

/// A background writer whose last chunk is on its way.
#[derive(Debug)]
pub(crate) struct Ending {
    thread: JoinHandle<io::Result<()>>,
}

impl Ending {
    /// Waits until everything is written; as long as the disk takes.
    ///
    /// # Errors
    /// What the press failed with.
    pub(crate) fn wait(self) -> io::Result<()> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    /// Keeps what it gets; takes a chunk only on command.
    struct Slow {
        go: Receiver<()>,
        kept: Arc<Mutex<Vec<u8>>>,
    }

    impl Press for Slow {
        fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.go.recv().map_err(|_| io::Error::other("no disk"))?;
            self.kept.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        }

        fn end(&mut self, word: u8) -> io::Result<()> {
            self.kept.lock().unwrap().push(word);
            Ok(())
        }
    }

    fn slow() -> (BackgroundWriter, Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (sender, go) = channel();
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        let background_writer =
            BackgroundWriter::start("slow", Slow { go, kept: kept.clone() }).unwrap();
        (background_writer, sender, kept)
    }

    /// Is a slow disk not waited for, and does what was taken in arrive in order, then the word?
    #[test]
    fn a_slow_disk_is_not_waited_for() {
        let (mut background_writer, go, kept) = slow();
        let mut taken = 0usize;
        while background_writer.room(1000) {
            let number = u8::try_from(taken % 251).unwrap();
            background_writer.current().extend_from_slice(&[number; 1000]);
            taken += 1;
        }
        // 65 pieces of 1000 fit into a chunk of 65,536, and there are 64 chunks.
        assert_eq!(taken, 65 * 64);
        (0..64).for_each(|_| go.send(()).unwrap());
        background_writer.end(7).wait().unwrap();
        let kept = kept.lock().unwrap();
        assert_eq!(kept.len(), taken * 1000 + 1);
        let in_order = |(place, bytes): (usize, &[u8])| bytes[0] as usize == place % 251;
        assert!(kept[..taken * 1000].chunks(1000).enumerate().all(in_order));
        assert_eq!(kept.last(), Some(&7));
    }

    /// Does a failing disk end it, with what went wrong?
    #[test]
    fn a_failing_disk_is_noticed() {
        let (mut background_writer, go, _) = slow();
        drop(go);
        while background_writer.room(40_000) {
            background_writer.current().extend_from_slice(&[0; 40_000]);
        }
        assert_eq!(background_writer.end(1).wait().unwrap_err().to_string(), "no disk");
    }
}
