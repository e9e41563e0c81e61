// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls: what a request of depth 1 costs where neither client nor server does anything but calls.
//!
//! ```text
//! client: send, poll, recv, recv      (a write: send, send, poll, recv)     as fio's engine does
//! server: recv, pread, send           (a write: recv, recv, pwrite, send)
//! ```
//!
//! First the calls of both sides in one thread, where nothing ever waits; then by two threads over
//! the same socket, on one processor, on two, and where the system puts them. What the latter take
//! longer is two wake-ups. `benches/serve` runs it in each sitting, which gives a bound for any
//! server there: `cargo bench --bench calls -- FILE`.
//!
//! Prints lines of a name and microseconds, the median of [`ROUNDS`].

use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const ROUNDS: usize = 5;
/// How long two threads play.
const GAME: Duration = Duration::from_millis(60);
/// Requests in a socket at once, where one thread plays both.
const TOGETHER: u32 = 16;
const REQUEST: usize = 28;
const ANSWER: usize = 16;
const BLOCK: usize = 4096;

/// What a request does.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
}

/// A side of a socket, and what moves through it.
struct Side<'a> {
    socket: UnixStream,
    file: &'a File,
    kind: Kind,
    bytes: Vec<u8>,
    /// Blocks of the file, and where the next request goes.
    blocks: u64,
    seed: u64,
}

impl<'a> Side<'a> {
    fn pair(file: &'a File, kind: Kind) -> Result<(Side<'a>, Side<'a>)> {
        let (client, server) = UnixStream::pair()?;
        let blocks = file.metadata()?.len() / BLOCK as u64;
        let side =
            |socket| Side { socket, file, kind, bytes: vec![0; ANSWER + BLOCK], blocks, seed: 1 };
        Ok((side(client), side(server)))
    }

    fn take(&mut self, length: usize, flags: RecvFlags) -> Result<usize> {
        let mut at = 0;
        while at < length {
            match recv(&self.socket, &mut self.bytes[at..length], flags)?.0 {
                0 => return Ok(0),
                read => at += read,
            }
        }
        Ok(at)
    }

    fn give(&self, length: usize) -> Result<()> {
        send(&self.socket, &self.bytes[..length], SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn ask(&mut self) -> Result<()> {
        self.give(REQUEST)?;
        if matches!(self.kind, Kind::Write) { self.give(BLOCK) } else { Ok(()) }
    }

    /// Takes an answer, which comes in its time.
    fn hear(&mut self) -> Result<()> {
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None)?;
        self.take(ANSWER, RecvFlags::empty())?;
        if matches!(self.kind, Kind::Read) {
            self.take(BLOCK, RecvFlags::empty())?;
        }
        Ok(())
    }

    /// Takes a request and answers it; false where the client has gone.
    fn answer(&mut self, looks: bool) -> Result<bool> {
        let flags = if looks { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let taken = loop {
            match self.take(REQUEST, flags) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    (0..16).for_each(|_| std::hint::spin_loop());
                }
                taken => break taken?,
            }
        };
        if taken == 0 {
            return Ok(false);
        }
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (self.seed >> 33) % self.blocks * BLOCK as u64;
        if matches!(self.kind, Kind::Read) {
            self.file.read_exact_at(&mut self.bytes[ANSWER..], at)?;
            self.give(ANSWER + BLOCK)?;
        } else {
            self.take(BLOCK, RecvFlags::empty())?;
            self.file.write_all_at(&self.bytes[..BLOCK], at)?;
            self.give(ANSWER)?;
        }
        Ok(true)
    }
}

/// Microseconds of the client's calls and of the server's, for a request; nothing ever waits.
fn alone(file: &File, kind: Kind) -> Result<(f64, f64)> {
    let (mut client, mut server) = Side::pair(file, kind)?;
    let (mut asking, mut answering, mut requests) = (Duration::ZERO, Duration::ZERO, 0);
    while asking + answering < GAME {
        let begin = Instant::now();
        (0..TOGETHER).try_for_each(|_| client.ask())?;
        let asked = Instant::now();
        (0..TOGETHER).try_for_each(|_| server.answer(false).map(drop))?;
        let answered = Instant::now();
        (0..TOGETHER).try_for_each(|_| client.hear())?;
        asking += (asked - begin) + answered.elapsed();
        answering += answered - asked;
        requests += TOGETHER;
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(requests);
    Ok((micros(asking), micros(answering)))
}

/// Leaves this thread one processor, or all.
fn place(which: Option<usize>, all: &CpuSet) -> Result<()> {
    let mut set = *all;
    if let Some(which) = which {
        set.clear();
        set.set(which);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Microseconds for a request between two threads on these processors; the server sleeps in
/// between, or looks without a pause.
fn game(file: &File, kind: Kind, on: [Option<usize>; 2], looks: bool) -> Result<f64> {
    let all = sched_getaffinity(None)?;
    let (mut client, mut server) = Side::pair(file, kind)?;
    let result = std::thread::scope(|threads| {
        let answering = threads.spawn(move || {
            place(on[1], &all)?;
            while server.answer(looks)? {}
            Ok::<_, Error>(())
        });
        place(on[0], &all)?;
        let mut requests = 0u32;
        let begin = Instant::now();
        while begin.elapsed() < GAME {
            client.ask()?;
            client.hear()?;
            requests += 1;
        }
        let each = begin.elapsed().as_secs_f64() * 1e6 / f64::from(requests);
        drop(client);
        answering.join().map_err(|_| Error::other("the server has failed"))??;
        Ok(each)
    });
    place(None, &all)?;
    result
}

fn median(mut each: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut all = (0..ROUNDS).map(|_| each()).collect::<Result<Vec<f64>>>()?;
    all.sort_by(f64::total_cmp);
    Ok(all[ROUNDS / 2])
}

fn measure(path: &str) -> Result<()> {
    let file = &File::options().read(true).write(true).open(path)?;
    for (name, kind) in [("randread", Kind::Read), ("randwrite", Kind::Write)] {
        let tell = |what: &str, each: f64| println!("{name} {what} {each:.2}");
        tell("client", median(|| Ok(alone(file, kind)?.0))?);
        tell("server", median(|| Ok(alone(file, kind)?.1))?);
        let places = [
            ("one", [Some(0); 2], false),
            ("two", [Some(0), Some(1)], false),
            ("free", [None; 2], false),
            ("two-looks", [Some(0), Some(1)], true),
            ("free-looks", [None; 2], true),
        ];
        for (what, on, looks) in places {
            tell(what, median(|| game(file, kind, on, looks))?);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    // Cargo adds words of its own, which begin with dashes.
    let Some(path) = std::env::args().skip(1).find(|word| !word.starts_with("--")) else {
        println!("calls: FILE measures calls and wake-ups of a request; see benches/serve");
        return ExitCode::SUCCESS;
    };
    match measure(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calls: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
