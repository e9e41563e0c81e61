// SPDX-License-Identifier: MIT OR Apache-2.0
//! Floods: connections that always have a fixed number of random reads of 4 KiB outstanding.
//!
//! Replies are counted by their bytes, many with one call, so that the client costs little compared
//! with a server on the same two processors.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Client, READ, request};

/// Bytes of a request's data.
pub(crate) const BLOCK: u32 = 4096;
/// A simple reply: its header, and the data.
const REPLY: usize = 16 + BLOCK as usize;

/// A connection with a thread of its own.
#[derive(Debug)]
pub(crate) struct Flood {
    stream: UnixStream,
    thread: Option<JoinHandle<Vec<Duration>>>,
}

impl Flood {
    /// Keeps `depth` reads outstanding, from now on, until it is stopped.
    pub(crate) fn start(socket: &Path, export: &str, depth: usize, seed: u64) -> Flood {
        let client = Client::negotiate(socket, export, false).expect("a connection");
        let stream = client.stream.try_clone().expect("a second handle");
        let blocks = client.size / u64::from(BLOCK);
        let thread = std::thread::spawn(move || flood(client.stream, depth, blocks, seed));
        Flood { stream, thread: Some(thread) }
    }

    /// Ends it; how long each request of a flood of depth 1 took.
    pub(crate) fn stop(mut self) -> Vec<Duration> {
        let _gone = self.stream.shutdown(Shutdown::Both);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("a flood ends in good order")
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _gone = self.stream.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn flood(mut stream: UnixStream, depth: usize, blocks: u64, seed: u64) -> Vec<Duration> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut took = Vec::new();
    let mut bytes = vec![0; 16 * REPLY];
    let (mut have, mut wanted, mut asked) = (0, depth, Instant::now());
    let mut requests = Vec::new();
    loop {
        requests.clear();
        for _ in 0..wanted {
            let offset = dice.below(blocks) * u64::from(BLOCK);
            requests.extend(request(READ, 0, 0, offset, BLOCK, &[]));
        }
        if wanted != 0 && stream.write_all(&requests).is_err() {
            return took;
        }
        if wanted != 0 && depth == 1 {
            asked = Instant::now();
        }
        let Ok(read @ 1..) = stream.read(&mut bytes[have..]) else { return took };
        have += read;
        wanted = have / REPLY;
        for reply in bytes[..have].chunks_exact(REPLY) {
            assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a read failed");
        }
        if wanted != 0 && depth == 1 {
            took.push(asked.elapsed());
        }
        bytes.copy_within(wanted * REPLY..have, 0);
        have -= wanted * REPLY;
    }
}

/// Marsaglia's xorshift: that is enough for places.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
