// SPDX-License-Identifier: MIT OR Apache-2.0
//! A judge of one connection's stream: simple or structured replies, each to an open request,
//! whole, and with every byte of a read once.
//!
//! Source: the NBD protocol (spec/nbd), "Reply message".

use std::collections::BTreeMap;
use std::io::{Error, Read, Result, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::result::Result as Outcome;

use crate::upgrade::PATIENCE;

pub(crate) const TRIM: u16 = 4;
pub(crate) const ZEROES: u16 = 6;
pub(crate) const FUA: u16 = 1;

const STRUCTURED: u32 = 0x668e_33ef;
const SIMPLE: u32 = 0x6744_6698;

/// Where a client connects.
#[derive(Clone)]
pub(crate) enum Door {
    Unix(String),
    Tcp(u16),
}

/// Bytes there and back.
trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

/// A connection that has chosen its export.
pub(crate) struct Stream {
    stream: Box<dyn Both>,
    is_structured: bool,
    /// The export takes trims.
    pub(crate) can_trim: bool,
    halves: BTreeMap<u64, Half>,
}

/// An answer: to which request, its errno, and what was read.
pub(crate) struct Answer {
    pub(crate) cookie: u64,
    pub(crate) errno: u32,
    pub(crate) data: Vec<u8>,
}

/// A wrong stream is not one that has ended.
fn wrong(what: String) -> Error {
    Error::other(what)
}

impl Stream {
    pub(crate) fn open(door: &Door, export: &str, is_structured: bool) -> Result<Stream> {
        let stream: Box<dyn Both> = match door {
            Door::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            Door::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let mut stream = Stream { stream, is_structured, can_trim: false, halves: BTreeMap::new() };
        stream.take(18)?;
        stream.send(&[0, 0, 0, 3])?;
        if is_structured {
            stream.send(b"IHAVEOPT\0\0\0\x08\0\0\0\0")?;
            let reply = stream.take(20)?;
            if reply[12..16] != [0, 0, 0, 1] {
                return Err(wrong(format!("structured replies are refused: {reply:?}")));
            }
        }
        let length = u32::try_from(export.len()).expect("short").to_be_bytes();
        stream.send(&[b"IHAVEOPT\0\0\0\x01", &length[..], export.as_bytes()].concat())?;
        let told = stream.take(10)?;
        stream.can_trim = told[9] >> 5 & 1 == 1;
        Ok(stream)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes)
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(*self.take(4)?.first_chunk().expect("four")))
    }

    fn long(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(*self.take(8)?.first_chunk().expect("eight")))
    }

    /// The next complete answer; `asked` gives what the request with that cookie reads: where and
    /// how much, or nothing. Chunks of several answers may be interleaved.
    pub(crate) fn hear(&mut self, asked: impl Fn(u64) -> Option<Option<Span>>) -> Result<Answer> {
        let of = |cookie| asked(cookie).ok_or_else(|| wrong(format!("who is {cookie}?")));
        loop {
            let magic = self.number()?;
            if magic == SIMPLE {
                let (errno, cookie) = (self.number()?, self.long()?);
                let data = match of(cookie)? {
                    Some(_) if self.is_structured => {
                        return Err(wrong(format!("a simple reply to read {cookie}")));
                    }
                    Some(span) if errno == 0 => self.take(span.length)?,
                    _ => Vec::new(),
                };
                return Ok(Answer { cookie, errno, data });
            }
            if magic != STRUCTURED || !self.is_structured {
                return Err(wrong(format!("magic {magic:#x}")));
            }
            let (what, cookie, length) = (self.number()?, self.long()?, self.number()?);
            let body = self.take(usize::try_from(length).expect("short"))?;
            let span = of(cookie)?;
            let half = self.halves.entry(cookie).or_insert_with(|| {
                let length = span.map_or(0, |span| span.length);
                Half { errno: 0, data: vec![0; length], come: vec![false; length] }
            });
            half.chunk(what & 0xffff, &body, span)
                .map_err(|what| wrong(format!("{cookie}: {what}")))?;
            if what >> 16 & 1 == 1 {
                let Half { errno, data, come } = self.halves.remove(&cookie).expect("it is there");
                if errno == 0 && !come.iter().all(|come| *come) {
                    return Err(wrong(format!("{cookie}: bytes are missing")));
                }
                return Ok(Answer { cookie, errno, data });
            }
        }
    }
}

/// Bytes of a volume.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) at: u64,
    pub(crate) length: usize,
}

/// An answer with chunks still to come.
struct Half {
    errno: u32,
    data: Vec<u8>,
    /// Whether each byte has come.
    come: Vec<bool>,
}

impl Half {
    fn chunk(&mut self, kind: u32, body: &[u8], span: Option<Span>) -> Outcome<(), String> {
        let short = || format!("a chunk of type {kind} with {} bytes", body.len());
        let number = |at: usize| body.get(at..).and_then(<[u8]>::first_chunk);
        match kind {
            0 => {}
            1 | 2 => {
                let from = body.first_chunk().map(|from| u64::from_be_bytes(*from));
                let from = from.ok_or_else(short)?;
                let span = span.ok_or("data for what is no read")?;
                let hole = match kind {
                    1 => Vec::new(),
                    _ => vec![0; u32::from_be_bytes(*number(8).ok_or_else(short)?) as usize],
                };
                let bytes = if kind == 1 { &body[8..] } else { &hole[..] };
                let at = from.checked_sub(span.at).and_then(|at| usize::try_from(at).ok());
                let at = at.ok_or("data before it")?;
                let place = self.data.get_mut(at..at + bytes.len()).ok_or("data beyond it")?;
                place.copy_from_slice(bytes);
                for come in &mut self.come[at..at + bytes.len()] {
                    if std::mem::replace(come, true) {
                        return Err("a byte comes twice".to_owned());
                    }
                }
            }
            0x8001 | 0x8002 => self.errno = u32::from_be_bytes(*number(0).ok_or_else(short)?),
            kind => return Err(format!("a chunk of type {kind}")),
        }
        Ok(())
    }
}
