// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bound: the plainest NBD server of one file, to compare ours with.
//!
//! ```text
//! client ──requests──▶ its thread: recv, pread or pwrite ──answers──▶ client
//! ```
//!
//! One thread a client, that sleeps in `recv`. No queue, no scheduler, nothing is checked or
//! counted, and requests that came together are answered by one call: so its rate is the most that
//! a server of these calls reaches.
//!
//! `benches/serve` runs it: `cargo bench --bench bound -- FILE SOCKET` serves FILE under every name
//! until it is killed. Source: the NBD protocol, `doc/proto.md` of NetworkBlockDevice.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

/// Bytes of a request's header.
const HEAD: usize = 28;
/// Bytes that are read at once at most: the largest request, too.
const INPUT: usize = 256 << 10;
/// Bytes of answers that are sent, though more requests are there.
const ENOUGH: usize = 128 << 10;
const OPTION_GO: u32 = 7;
/// Has flags, takes flushes, takes several clients.
const FLAGS: u16 = 1 | 1 << 2 | 1 << 8;

/// The number at `at`.
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The handshake: every option but GO is unknown.
fn negotiate(client: &mut UnixStream, size: u64) -> Result<()> {
    client.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    client.read_exact(&mut [0; 4])?;
    loop {
        let mut option = [0; 16];
        client.read_exact(&mut option)?;
        let kind = number(&option, 8);
        client.read_exact(&mut vec![0; number(&option, 12) as usize])?;
        let mut answer = |answer: u32, data: &[u8]| {
            let mut bytes = 0x0003_e889_0455_65a9u64.to_be_bytes().to_vec();
            for word in [kind, answer, u32::try_from(data.len()).expect("some bytes")] {
                bytes.extend(word.to_be_bytes());
            }
            bytes.extend(data);
            client.write_all(&bytes)
        };
        if kind != OPTION_GO {
            answer(0x8000_0001, &[])?;
            continue;
        }
        answer(3, &[&[0; 2][..], &size.to_be_bytes(), &FLAGS.to_be_bytes()].concat())?;
        return answer(1, &[]);
    }
}

/// What a client has sent and was not answered.
struct Input {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Input {
    /// Whether this many bytes have been received.
    fn has(&self, length: usize) -> bool {
        self.end - self.begin >= length
    }

    /// Sleeps until they are.
    fn wait(&mut self, client: &mut UnixStream, length: usize) -> Result<()> {
        if self.bytes.len() - self.begin < length || self.begin == self.end {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        while !self.has(length) {
            let read = client.read(&mut self.bytes[self.end..])?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.end += read;
        }
        Ok(())
    }
}

/// Serves a client until it goes.
fn serve(mut client: UnixStream, file: &File) -> Result<()> {
    negotiate(&mut client, file.metadata()?.len())?;
    let mut input = Input { bytes: vec![0; HEAD + INPUT], begin: 0, end: 0 };
    let mut output: Vec<u8> = Vec::new();
    loop {
        if !output.is_empty() && (output.len() > ENOUGH || !input.has(HEAD)) {
            client.write_all(&output)?;
            output.clear();
        }
        input.wait(&mut client, HEAD)?;
        let head: [u8; HEAD] = input.bytes[input.begin..][..HEAD].try_into().expect("a header");
        let offset = u64::from(number(&head, 16)) << 32 | u64::from(number(&head, 20));
        let length = number(&head, 24) as usize;
        if length > INPUT {
            return Err(Error::other("a request is too large"));
        }
        input.begin += HEAD;
        output.extend(0x6744_6698u32.to_be_bytes());
        output.extend([0; 4]);
        output.extend(&head[8..16]);
        match number(&head, 4) & 0xffff {
            0 => {
                let begin = output.len();
                output.resize(begin + length, 0);
                file.read_exact_at(&mut output[begin..], offset)?;
            }
            1 => {
                input.wait(&mut client, length)?;
                file.write_all_at(&input.bytes[input.begin..][..length], offset)?;
                input.begin += length;
            }
            3 => file.sync_data()?,
            _ => return Ok(()),
        }
    }
}

fn listen(file: &str, socket: &str) -> Result<()> {
    let file: &'static File =
        Box::leak(Box::new(File::options().read(true).write(true).open(file)?));
    for client in UnixListener::bind(socket)?.incoming() {
        let client = client?;
        std::thread::spawn(move || serve(client, file));
    }
    Ok(())
}

fn main() -> ExitCode {
    // Cargo adds words of its own, which begin with dashes.
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let [file, socket] = words.as_slice() else {
        // `cargo bench` without arguments runs every bench; this one is a server.
        println!("bound: FILE SOCKET serves FILE at SOCKET; see benches/serve");
        return ExitCode::SUCCESS;
    };
    match listen(file, socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bound: {file} at {socket}: {error}");
            ExitCode::FAILURE
        }
    }
}
