// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that may say anything: requests as bytes, replies taken apart.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE: u32 = 0x6744_6698;
const STRUCTURED: u32 = 0x668e_33ef;

/// Numbers of the protocol's requests.
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const ZEROES: u16 = 6;
pub(crate) const STATUS: u16 = 7;

/// What a server told of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Told {
    pub cookie: u64,
    /// The protocol's errno, 0 if done.
    pub errno: u32,
    pub text: String,
    /// Data with their offsets; simple replies have offset 0.
    pub data: Vec<(u64, Vec<u8>)>,
    /// Lengths and flags of block status.
    pub runs: Vec<(u32, u32)>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub stream: UnixStream,
    structured: bool,
    pub size: u64,
    pub flags: u16,
    next: u64,
}

impl Client {
    /// Connects and chooses an export, with structured replies and `base:allocation`.
    pub(crate) fn connect(socket: &Path, export: &str) -> io::Result<Client> {
        Client::negotiate(socket, export, true)
    }

    /// Connects and chooses an export.
    pub(crate) fn negotiate(socket: &Path, export: &str, structured: bool) -> io::Result<Client> {
        let mut client = Client::greet(socket)?;
        if structured {
            client.option(8, &[])?;
            assert_eq!(client.answer()?.1, 1, "structured replies");
            let mut contexts = name(export);
            contexts.extend(1u32.to_be_bytes());
            contexts.extend(name("base:allocation"));
            client.option(10, &contexts)?;
            loop {
                match client.answer()? {
                    (_, 1, _) => break,
                    (_, 4, _) => {}
                    (_, refused, _) => {
                        return Err(io::Error::other(format!("refused with {refused:#x}")));
                    }
                }
            }
            client.structured = true;
        }
        let mut go = name(export);
        go.extend(0u16.to_be_bytes());
        client.option(7, &go)?;
        loop {
            let (_, kind, data) = client.answer()?;
            match kind {
                1 => return Ok(client),
                3 if data[..2] == [0, 0] => {
                    client.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    client.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                refused => {
                    let text = String::from_utf8_lossy(&data).into_owned();
                    return Err(io::Error::other(format!("refused with {refused:#x}: {text}")));
                }
            }
        }
    }

    /// Connects and exchanges greetings.
    pub(crate) fn greet(socket: &Path) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        // Long enough for any machine: a test that waits for ever tells nothing.
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        stream.write_all(&3u32.to_be_bytes())?;
        Ok(Client { stream, structured: false, size: 0, flags: 0, next: 1 })
    }

    /// Sends an option.
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = IHAVEOPT.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// Reads an answer to an option: which option, kind, data.
    pub(crate) fn answer(&mut self) -> io::Result<(u32, u32, Vec<u8>)> {
        self.bytes::<8>()?;
        let option = self.number()?;
        let kind = self.number()?;
        let length = self.number()?;
        Ok((option, kind, self.data(length)?))
    }

    /// Sends a request; its cookie.
    pub(crate) fn send(
        &mut self,
        kind: u16,
        flags: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<u64> {
        let cookie = self.next;
        self.next += 1;
        self.stream.write_all(&request(kind, flags, cookie, offset, length, payload))?;
        Ok(cookie)
    }

    /// Reads the answer to one request: whichever comes first.
    pub(crate) fn told(&mut self) -> io::Result<Told> {
        let mut told = Told::default();
        loop {
            let magic = self.number()?;
            if magic == SIMPLE {
                told.errno = self.number()?;
                told.cookie = u64::from_be_bytes(self.bytes()?);
                return Ok(told);
            }
            assert_eq!(magic, STRUCTURED, "neither kind of reply");
            let head = u32::from_be_bytes(self.bytes()?);
            let cookie = u64::from_be_bytes(self.bytes()?);
            assert!(told.cookie == 0 || told.cookie == cookie, "chunks of two replies");
            told.cookie = cookie;
            let length = self.number()?;
            let data = self.data(length)?;
            self.chunk(&mut told, head & 0xffff, &data);
            if head >> 16 & 1 != 0 {
                return Ok(told);
            }
        }
    }

    fn chunk(&self, told: &mut Told, kind: u32, data: &[u8]) {
        let number = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
        match kind {
            0 => {}
            1 => {
                let offset = u64::from_be_bytes(data[..8].try_into().unwrap());
                told.data.push((offset, data[8..].to_vec()));
            }
            5 => {
                let runs = (4..data.len()).step_by(8);
                told.runs = runs.map(|at| (number(at), number(at + 4))).collect();
            }
            error if error >> 15 == 1 => {
                told.errno = number(0);
                told.text = String::from_utf8_lossy(&data[6..]).into_owned();
            }
            other => panic!("a chunk of kind {other}"),
        }
    }

    /// Asks and waits for the answer; data of simple replies, too.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        offset: u64,
        length: u32,
    ) -> io::Result<Told> {
        self.send(kind, flags, offset, length, &[])?;
        let mut told = self.told()?;
        if kind == READ && !self.structured && told.errno == 0 {
            told.data.push((offset, self.data(length)?));
        }
        Ok(told)
    }

    /// Reads bytes, put together.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let told = self.ask(READ, 0, offset, length)?;
        assert_eq!(told.errno, 0, "{told:?}");
        let mut bytes = vec![0; length as usize];
        for (at, data) in told.data {
            let at = usize::try_from(at - offset).unwrap();
            bytes[at..at + data.len()].copy_from_slice(&data);
        }
        Ok(bytes)
    }

    /// Writes; the errno.
    pub(crate) fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> io::Result<u32> {
        self.send(WRITE, flags, offset, u32::try_from(data.len()).unwrap(), data)?;
        Ok(self.told()?.errno)
    }

    /// A flush; the errno.
    pub(crate) fn flush(&mut self) -> io::Result<u32> {
        Ok(self.ask(FLUSH, 0, 0, 0)?.errno)
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self) -> io::Result<u32> {
        Ok(u32::from_be_bytes(self.bytes()?))
    }

    fn data(&mut self, length: u32) -> io::Result<Vec<u8>> {
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }
}

/// A request as bytes.
pub(crate) fn request(
    kind: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    length: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = REQUEST.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn name(name: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(name.as_bytes());
    bytes
}
