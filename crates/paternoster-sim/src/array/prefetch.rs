// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetch: what the controller reads ahead for sequential streams, and which chunks it holds.
//!
//! A read that begins where an earlier one ended continues a stream. The controller keeps a window
//! of chunks ahead of the reader of such a stream:
//!
//! ```text
//! reads      0──▶ 1──▶          continued: a stream
//! chunks     0    1    2    3    4    5         window 4
//!            read read  reading ahead ─────▶
//! ```
//!
//! Chunks stay until newer ones need their room. A table holds a fixed number of streams; a new one
//! replaces the least recently used. Random readers make streams that no read continues.
//!
//! # Invariants
//! I1  A chunk is listed once: being read, or in the cache.
//! I2  At most `capacity` chunks are listed, not counting those being read.

use std::collections::{BTreeMap, VecDeque};

/// The state of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkState {
    /// A member reads it.
    Reading,
    /// The chunk is in the cache.
    There,
}

/// Chunks in the controller's cache.
#[derive(Debug)]
pub(super) struct ChunkCache {
    chunks: BTreeMap<u64, ChunkState>,
    /// Chunks in the cache, oldest first.
    ages: VecDeque<u64>,
    capacity: usize,
}

impl ChunkCache {
    pub(super) fn new(capacity: usize) -> ChunkCache {
        let ages = VecDeque::with_capacity(capacity + 1);
        ChunkCache { chunks: BTreeMap::new(), ages, capacity: capacity.max(1) }
    }

    pub(super) fn state(&self, chunk: u64) -> Option<ChunkState> {
        self.chunks.get(&chunk).copied()
    }

    /// A member begins to read it.
    pub(super) fn begin(&mut self, chunk: u64) {
        self.chunks.insert(chunk, ChunkState::Reading);
    }

    /// The chunk has arrived.
    pub(super) fn arrive(&mut self, chunk: u64) {
        self.chunks.insert(chunk, ChunkState::There);
        self.ages.push_back(chunk);
        if self.ages.len() > self.capacity
            && let Some(oldest) = self.ages.pop_front()
        {
            self.chunks.remove(&oldest);
        }
    }
}

/// A sequence of reads.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The sector after its last read.
    next: u64,
    /// The end of the chunks that were read ahead, exclusive.
    ahead: u64,
    /// Whether a read has continued it.
    continued: bool,
    used: u64,
}

/// The streams that the controller follows.
#[derive(Debug)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    capacity: usize,
    uses: u64,
}

impl Streams {
    pub(super) fn new(capacity: usize) -> Streams {
        Streams { streams: Vec::with_capacity(capacity), capacity: capacity.max(1), uses: 0 }
    }

    /// A read of these sectors came. Returns the chunks to read ahead, up to `window` past the last
    /// that it touches, as `(first, end)`; empty if it continues no stream.
    pub(super) fn follow(
        &mut self,
        sector: u64,
        end: u64,
        chunk_sectors: u64,
        window: u64,
    ) -> (u64, u64) {
        self.uses += 1;
        let last = (end - 1) / chunk_sectors;
        // A reader may skip a little, or read a part again.
        let near = |stream: &Stream| {
            sector <= stream.next && stream.next <= sector + chunk_sectors && end > stream.next
        };
        let Some(stream) = self.streams.iter_mut().find(|stream| near(stream)) else {
            self.begin(end, last);
            return (0, 0);
        };
        let first = stream.ahead.max(last + 1);
        *stream = Stream {
            next: end,
            ahead: first.max(last + 1 + window),
            continued: true,
            used: self.uses,
        };
        (first, stream.ahead)
    }

    fn begin(&mut self, next: u64, last: u64) {
        let stream = Stream { next, ahead: last + 1, continued: false, used: self.uses };
        if self.streams.len() < self.capacity {
            self.streams.push(stream);
            return;
        }
        // Streams that were never continued are replaced first.
        let oldest = self.streams.iter_mut().min_by_key(|stream| (stream.continued, stream.used));
        if let Some(oldest) = oldest {
            *oldest = stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of 8 sectors, a window of 3: the first read begins a stream, the second (8-15, chunk
    /// 1) reads chunks 2 to 4 ahead, the third (16-23, chunk 2) one more.
    #[test]
    fn a_continued_stream_keeps_its_window() {
        let mut streams = Streams::new(4);
        assert_eq!(streams.follow(0, 8, 8, 3), (0, 0));
        assert_eq!(streams.follow(8, 16, 8, 3), (2, 5));
        assert_eq!(streams.follow(16, 24, 8, 3), (5, 6));
        // A random read between them changes nothing.
        assert_eq!(streams.follow(800, 808, 8, 3), (0, 0));
        assert_eq!(streams.follow(24, 32, 8, 3), (6, 7));
    }

    /// Do random readers evict each other and not a stream that goes on?
    #[test]
    fn random_reads_do_not_push_out_a_stream() {
        let mut streams = Streams::new(2);
        streams.follow(0, 8, 8, 3);
        streams.follow(8, 16, 8, 3);
        for far in 100..200 {
            streams.follow(far * 1000, far * 1000 + 8, 8, 3);
        }
        assert_eq!(streams.follow(16, 24, 8, 3), (5, 6));
    }

    /// Does the oldest chunk leave when there is no room?
    #[test]
    fn the_oldest_chunk_leaves() {
        let mut cache = ChunkCache::new(2);
        for chunk in 0..3 {
            cache.begin(chunk);
            assert_eq!(cache.state(chunk), Some(ChunkState::Reading));
            cache.arrive(chunk);
        }
        assert_eq!(cache.state(0), None);
        assert_eq!(cache.state(2), Some(ChunkState::There));
    }
}
