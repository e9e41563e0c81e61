// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acceptors: connections of people and monitors, few at a time, each with a thread of its own.
//!
//! ```text
//! Acceptor ── thread ──▶ poll(listener, bell) ── accept ──▶ thread: serve(Peer)
//!   │                                   └─ too many ──▶ refuse(Peer), closed
//!   └ the other end of the bell: closed at the end, which wakes everyone at once
//! ```
//!
//! A thread that waits for a peer also waits for the bell, and only until a deadline: a peer that
//! sends nothing, reads nothing or never ends holds one of a few places for a bounded time.
//!
//! Invariants: I1 at most `most` threads serve; I2 no read or write outlasts its deadline; I3 after
//! [`Acceptor::close`] no thread is left.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// After an accept that failed (no descriptor was free, perhaps): not again before this time.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that connections come from.
pub(super) trait Listener: AsFd + Send + 'static {
    /// A connection.
    type Stream: Stream;

    /// The next one, without waiting.
    fn accept_one(&self) -> io::Result<Self::Stream>;
}

/// A connection.
pub(super) trait Stream: AsFd + Read + Write + Send + 'static {
    /// Reads and writes do not wait.
    fn never_waits(&self) -> io::Result<()>;

    /// Says that nothing more will be written.
    fn end_writing(&mut self);

    /// What the socket must wait for first, if that differs from the call (TLS may have to write in
    /// order to read).
    fn needs(&self) -> Option<PollFlags> {
        None
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    fn accept_one(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn accept_one(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Stream for UnixStream {
    fn never_waits(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }

    fn end_writing(&mut self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for TcpStream {
    fn never_waits(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }

    fn end_writing(&mut self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// A connection whose reads and writes have deadlines and end when the acceptor closes.
#[derive(Debug)]
pub(super) struct Peer<S> {
    stream: S,
    bell: Arc<UnixStream>,
}

impl<S: Stream> Peer<S> {
    /// The connection.
    pub(super) const fn stream(&self) -> &S {
        &self.stream
    }

    /// Reads what is there, waiting for it until `deadline`; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            match self.stream.read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, deadline)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Writes all bytes by `deadline`.
    pub(super) fn write_all(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, deadline)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.stream.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, deadline)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Ends writing and reads on for a moment: a peer whose socket is closed while it still sends
    /// may never see the answer.
    pub(super) fn close_finished(&mut self, deadline: Instant) {
        self.stream.end_writing();
        let mut rest = [0; 4096];
        for _ in 0..64 {
            match self.read(&mut rest, deadline) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn wait(&self, what: PollFlags, deadline: Instant) -> io::Result<()> {
        let what = self.stream.needs().unwrap_or(what);
        let (ready, rung) = wait(&self.stream, what, &self.bell, Some(deadline))?;
        match (ready, rung) {
            (_, true) => Err(ErrorKind::ConnectionAborted.into()),
            (true, _) => Ok(()),
            _ => Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// Waits until a socket is ready for `what`, or for the bell; returns which of them came.
fn wait(
    one: &impl AsFd,
    what: PollFlags,
    bell: &UnixStream,
    deadline: Option<Instant>,
) -> io::Result<(bool, bool)> {
    let mut both = [PollFd::new(one, what), PollFd::new(bell, PollFlags::IN)];
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left =
        left.map(|left| Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 }));
    match poll(&mut both, left.as_ref()) {
        Ok(_) => Ok((!both[0].revents().is_empty(), !both[1].revents().is_empty())),
        // The caller checks again.
        Err(rustix::io::Errno::INTR) => Ok((true, false)),
        Err(error) => Err(error.into()),
    }
}

/// A thread that accepts.
#[derive(Debug)]
pub(super) struct Acceptor {
    bell: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Lets at most `most` connections in at a time; `refuse` may say a word to others, without
    /// waiting.
    pub(super) fn open<L: Listener>(
        name: &str,
        listener: L,
        most: usize,
        paused: Arc<AtomicBool>,
        serve: impl Fn(&mut Peer<L::Stream>) + Send + Sync + 'static,
        refuse: impl Fn(&mut Peer<L::Stream>) + Send + 'static,
    ) -> io::Result<Acceptor> {
        let (bell, hears) = UnixStream::pair()?;
        let keeper = Keeper {
            listener,
            bell: Arc::new(hears),
            most,
            paused,
            serve: Arc::new(serve),
            refuse,
            connections: Vec::new(),
        };
        let thread = crate::vital::spawn(name.to_owned(), move || keeper.keep())?;
        Ok(Acceptor { bell: Some(bell), thread: Some(thread) })
    }

    /// Accepts no more peers, ends all waits, and joins the threads.
    pub(super) fn close(&mut self) {
        drop(self.bell.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.close();
    }
}

struct Keeper<L, F, R> {
    listener: L,
    bell: Arc<UnixStream>,
    most: usize,
    /// Connections wait outside meanwhile.
    paused: Arc<AtomicBool>,
    serve: Arc<F>,
    refuse: R,
    connections: Vec<JoinHandle<()>>,
}

impl<L, F, R> Keeper<L, F, R>
where
    L: Listener,
    F: Fn(&mut Peer<L::Stream>) + Send + Sync + 'static,
    R: Fn(&mut Peer<L::Stream>),
{
    fn keep(mut self) {
        // The bell ends it, and so does a listener that cannot be waited for.
        while let Ok((_, false)) = wait(&self.listener, PollFlags::IN, &self.bell, None) {
            if self.paused.load(Ordering::SeqCst) {
                self.rest();
            } else {
                self.accept();
            }
        }
        for connection in self.connections {
            let _ = connection.join();
        }
    }

    /// Not again for a moment, unless the bell rings.
    fn rest(&self) {
        let _ = wait(&*self.bell, PollFlags::IN, &self.bell, Some(Instant::now() + PAUSE));
    }

    fn accept(&mut self) {
        self.connections.retain(|connection| !connection.is_finished());
        let stream = match self.listener.accept_one() {
            Ok(stream) => stream,
            // Gone again, or the poll was interrupted.
            Err(error)
                if [
                    ErrorKind::WouldBlock,
                    ErrorKind::Interrupted,
                    ErrorKind::ConnectionAborted,
                ]
                .contains(&error.kind()) =>
            {
                return;
            }
            Err(_) => return self.rest(),
        };
        if stream.never_waits().is_err() {
            return;
        }
        let mut peer = Peer { stream, bell: Arc::clone(&self.bell) };
        if self.connections.len() >= self.most {
            return (self.refuse)(&mut peer);
        }
        let serve = Arc::clone(&self.serve);
        let connection = thread::Builder::new().name("connection of control".to_owned());
        // Without a thread the connection is closed.
        if let Ok(connection) = connection.spawn(move || serve(&mut peer)) {
            self.connections.push(connection);
        }
    }
}
