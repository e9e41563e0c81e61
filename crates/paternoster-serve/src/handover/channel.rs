// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channel: records with descriptors over a unix socket, each by a deadline.
//!
//! ```text
//! 0      1      2      4          8
//! │ kind │ fds  │ 0 0  │ length   │ payload …          length: little-endian, at most 1 MiB
//! ```
//!
//! The descriptors of a record come with its first byte (SCM_RIGHTS). A head is read by a call of
//! its own, so that the descriptors that come with it are that record's.
//!
//! Invariants: I1 no record makes more than [`RECORD_MOST`] bytes of memory, whatever its head
//! says; I2 a record has as many descriptors as its head says, or is refused; I3 what came and is
//! refused is closed.
//!
//! Source: unix(7), cmsg(3).

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Bytes of a record at most; what is longer comes in several.
pub(crate) const RECORD_MOST: usize = 1 << 20;
/// Descriptors of a record at most. (The kernel takes 253 with a message.)
pub(crate) const FDS_MOST: usize = 2;
const HEAD: usize = 8;
/// If the system has too many descriptors under way, the call is tried again after this time.
const PAUSE: Duration = Duration::from_millis(1);

/// A record as it came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) payload: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// The other process.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: UnixStream,
}

impl Channel {
    /// Over a connected stream, which does not block from now on.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Channel> {
        stream.set_nonblocking(true)?;
        Ok(Channel { stream })
    }

    /// The stream.
    pub(crate) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a record, all of it, by then.
    ///
    /// # Errors
    /// The other side has gone, or does not keep up.
    pub(crate) fn send(
        &self,
        kind: u8,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
        by: Instant,
    ) -> io::Result<()> {
        let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= RECORD_MOST);
        let (Some(length), true) = (length, fds.len() <= FDS_MOST) else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a record is too long"));
        };
        let mut head = [0; HEAD];
        head[0] = kind;
        #[allow(clippy::cast_possible_truncation, reason = "at most FDS_MOST")]
        {
            head[1] = fds.len() as u8;
        }
        head[4..].copy_from_slice(&length.to_le_bytes());
        let (mut sent, whole) = (0, HEAD + payload.len());
        while sent < whole {
            let slices = [
                IoSlice::new(&head[sent.min(HEAD)..]),
                IoSlice::new(&payload[sent.saturating_sub(HEAD)..]),
            ];
            // They go with the first byte.
            let with = if sent == 0 { fds } else { &[] };
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MOST))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !with.is_empty() && !control.push(SendAncillaryMessage::ScmRights(with)) {
                return Err(io::Error::other("no room for descriptors"));
            }
            match sendmsg(&self.stream, &slices, &mut control, SendFlags::NOSIGNAL) {
                Ok(taken) => sent += taken,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, Some(by))?,
                Err(Errno::TOOMANYREFS) if Instant::now() < by => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next record, by then; without a time it is waited for.
    ///
    /// # Errors
    /// `UnexpectedEof`: the other side has gone; `InvalidData`: it speaks otherwise; `TimedOut`.
    pub(crate) fn receive(&self, by: Option<Instant>) -> io::Result<Frame> {
        let mut head = [0; HEAD];
        let mut fds = Vec::new();
        self.fill(&mut head, &mut fds, by)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if length > RECORD_MOST || head[2..4] != [0, 0] || fds.len() != usize::from(head[1]) {
            let why = format!(
                "a record of kind {} with {length} bytes and {} descriptors, of which {} came: at \
                 most {RECORD_MOST} and {FDS_MOST}",
                head[0],
                head[1],
                fds.len()
            );
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        let mut payload = vec![0; length];
        let mut more = Vec::new();
        self.fill(&mut payload, &mut more, by)?;
        if !more.is_empty() {
            let why = "descriptors in the middle of a record";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        Ok(Frame { kind: head[0], payload, fds })
    }

    fn fill(&self, into: &mut [u8], fds: &mut Vec<OwnedFd>, by: Option<Instant>) -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MOST))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC;
            let slices = &mut [IoSliceMut::new(&mut into[filled..])];
            match recvmsg(&self.stream, slices, &mut control, flags) {
                Ok(read) => {
                    for message in control.drain() {
                        if let RecvAncillaryMessage::ScmRights(found) = message {
                            fds.extend(found);
                        }
                    }
                    if read.bytes == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    filled += read.bytes;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, by)?,
                Err(error) => return Err(error.into()),
            }
            if fds.len() > FDS_MOST {
                return Err(io::Error::new(ErrorKind::InvalidData, "too many descriptors"));
            }
        }
        Ok(())
    }

    fn wait(&self, what: PollFlags, by: Option<Instant>) -> io::Result<()> {
        let left = by.map(|by| by.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(ErrorKind::TimedOut.into());
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&self.stream, what)], left.as_ref()) {
            // A time that is over is seen above, the next time round.
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
