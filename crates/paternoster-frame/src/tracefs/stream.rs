// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream: the kernel's pipe of events, which ends when it is over and not when it is empty.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long to wait for more.
const PAUSE: Duration = Duration::from_millis(5);

/// Reads a pipe that does not block.
#[derive(Debug)]
pub struct Stream {
    pipe: File,
    over: Arc<AtomicBool>,
}

impl Stream {
    /// Until `over` is set and the pipe is empty.
    pub const fn new(pipe: File, over: Arc<AtomicBool>) -> Stream {
        Stream { pipe, over }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Checked before reading: what has come until then is read.
            let over = self.over.load(Ordering::Relaxed);
            match self.pipe.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) => {}
                done => return done,
            }
            if over {
                return Ok(0);
            }
            std::thread::sleep(PAUSE);
        }
    }
}
