// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: what one process tells the other, and in which form.
//!
//! | kind | from | payload | descriptors |
//! |---|---|---|---|
//! | 1 listener | old | `{"at":"unix:/run/s"}`, as configured | the socket |
//! | 2 control, 3 metrics, 4 pidfile | old | `{"at":"/run/ctl"}` | the socket or file |
//! | 5 claim | old | [`ClaimState`] | what has the locks; a whole disk |
//! | 6 file | old | `{"lost":0}`: the errno of a failed flush | data; flushes |
//! | 7 all of that | old | `{"pid":4711}` | |
//! | 8 tenant | old | name, figures, how far it is above its caps | |
//! | 9 connection | old | [`ConnectionState`] | its socket |
//! | 10, 11, 12 | old | bytes of the last connection: unread, unsent, unsent after an open read | |
//! | 13 all of that | old | `{"guests":3}` | |
//! | 20 refused | either | `{"why":"…"}`: the old one goes on serving | |
//! | 32 ready, 33 have, 35 mine | new | | |
//! | 34 go, 36 unmounted | old | | |
//!
//! Payloads are JSON but for bytes. A field that is not known, or is missing, is an error: versions
//! differ by the number that the order names, and by nothing else.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::printable;
use crate::config::Identity;
use crate::control::snapshot::Figures;
use crate::device::Thing;
use crate::nbd::Negotiated;
use crate::nbd::transmission::{HEADER, Kind, Request, parse};
use crate::nbd::wire::{MAGIC_REQUEST, command};

pub(super) const LISTENER: u8 = 1;
pub(crate) const CONTROL: u8 = 2;
pub(crate) const METRICS: u8 = 3;
pub(super) const PIDFILE: u8 = 4;
pub(super) const CLAIM: u8 = 5;
pub(super) const FILE: u8 = 6;
pub(super) const INVENTORY: u8 = 7;
pub(super) const TENANT: u8 = 8;
pub(super) const CONNECTION: u8 = 9;
pub(super) const INPUT: u8 = 10;
pub(super) const OUTPUT: u8 = 11;
pub(super) const BEHIND: u8 = 12;
pub(super) const CONNECTIONS: u8 = 13;
pub(super) const REFUSED: u8 = 20;
pub(super) const READY: u8 = 32;
pub(super) const HAVE: u8 = 33;
pub(super) const GO: u8 = 34;
pub(super) const MINE: u8 = 35;
pub(super) const UNMOUNTED: u8 = 36;

/// Where a socket or a file is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    pub at: String,
}

/// The locks that an image has.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimState {
    pub writes: bool,
    pub shared: bool,
    /// The last of its files is open exclusively in addition to the others. Servers before this
    /// field had the exclusive one first, and it stays so until the end.
    #[serde(default)]
    pub alone: bool,
}

/// What is known of a volume's file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileState {
    pub lost: i32,
}

/// The process that hands over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inventory {
    pub pid: u32,
    /// The service manager's socket, and within how many nanoseconds it wants a sign of life.
    pub notify: Option<String>,
    pub watchdog: Option<u64>,
}

/// What a tenant got, and how far it is above its caps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantState {
    pub device: String,
    pub name: String,
    pub figures: Figures,
    /// Nanoseconds from now on until which what it had is paid for: bytes, requests.
    pub ahead: [u64; 2],
}

/// The number of connections.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Connections {
    #[serde(rename = "guests")]
    pub connections: u64,
}

/// Why not.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Refused {
    pub why: String,
}

/// A request that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    pub kind: u16,
    pub flags: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl Asked {
    pub(crate) const fn of(request: &Request) -> Asked {
        let Request { kind, flags, cookie, offset, length } = *request;
        Asked { kind: number_of(kind), flags: flags.0, cookie, offset, length }
    }

    /// As a client would have sent it.
    pub(crate) fn request(&self) -> Result<Request, String> {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&MAGIC_REQUEST.to_be_bytes());
        header[4..6].copy_from_slice(&self.flags.to_be_bytes());
        header[6..8].copy_from_slice(&self.kind.to_be_bytes());
        header[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        header[16..24].copy_from_slice(&self.offset.to_be_bytes());
        header[24..28].copy_from_slice(&self.length.to_be_bytes());
        parse(&header).map_err(|wrong| wrong.to_string())
    }
}

const fn number_of(kind: Kind) -> u16 {
    match kind {
        Kind::Read => command::READ,
        Kind::Write => command::WRITE,
        Kind::Disconnect => command::DISC,
        Kind::Flush => command::FLUSH,
        Kind::Trim => command::TRIM,
        Kind::Cache => command::CACHE,
        Kind::WriteZeroes => command::WRITE_ZEROES,
        Kind::BlockStatus => command::BLOCK_STATUS,
        Kind::Unknown(number) => number,
    }
}

/// How far the reading of a connection has got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "at", rename_all = "lowercase")]
pub(crate) enum Reading {
    /// At a request's first byte, or after a part of its header, which is in the unread bytes.
    Header,
    /// A request was begun, and `cut` bytes of it are done: for a write, the following payload is
    /// in the unread bytes as far as it has come.
    Within {
        asked: Asked,
        cut: u64,
        /// The first error, as errno of Linux.
        error: i32,
        /// Parts of a read whose data were answered.
        answered: u32,
        /// Bytes of data that an open read still owes.
        owed: u64,
    },
    /// Payload of a request that is refused, and the reply that follows it.
    Skipping { left: u64, asked: Asked, errno: u32, text: String },
    /// The connection needs nothing more.
    Over,
}

/// A connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectionState {
    /// A description in words, for the log.
    pub words: String,
    pub identity: Identity,
    pub negotiated: Negotiated,
    pub reading: Reading,
    pub figures: Figures,
    /// The bytes that it has open. Servers before this field did not tell.
    #[serde(default)]
    pub bytes: Option<VolumeBytes>,
}

/// Where the bytes of a volume are: a name may be of others at the other process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeBytes {
    /// Its file or block device, if that is known.
    pub thing: Option<Thing>,
    /// The first byte of it.
    pub start: u64,
}

impl VolumeBytes {
    /// Whether they begin elsewhere, for all one knows.
    pub(crate) fn are_others(&self, here: &VolumeBytes) -> bool {
        let things = self.thing.zip(here.thing);
        self.start != here.start || things.is_some_and(|(there, here)| there != here)
    }
}

impl ConnectionState {
    /// Unless the names differ that it has for its volume.
    pub(super) fn checked(self) -> Result<ConnectionState, String> {
        let Negotiated { export, facts, .. } = &self.negotiated;
        if [&facts.name, &self.identity.export].iter().any(|name| *name != export) {
            return Err(format!(
                "a record of kind {CONNECTION}: its volume has more than one name"
            ));
        }
        Ok(self)
    }
}

/// A connection with its socket, and the bytes that are of it.
#[derive(Debug)]
pub(crate) struct HandedConnection<S> {
    pub socket: S,
    pub state: ConnectionState,
    /// Read and not understood.
    pub input: Vec<u8>,
    /// Bytes not sent yet.
    pub output: Vec<u8>,
    /// To be sent after an open read.
    pub behind: Vec<u8>,
}

/// A payload as what it is of.
pub(super) fn parsed<T: DeserializeOwned>(kind: u8, payload: &[u8]) -> Result<T, String> {
    serde_json::from_slice(payload).map_err(|error| {
        // It quotes what is wrong, as long as that is.
        format!("a record of kind {kind}: {}", printable(&error.to_string()))
    })
}
