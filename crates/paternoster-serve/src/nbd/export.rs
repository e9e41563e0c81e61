// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports: a disk as a client sees it, and what both sides agreed on.

use serde::{Deserialize, Serialize};

use super::wire::export_flag;

/// The facts about a disk for a client.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportFacts {
    /// The name under which the server knows it.
    pub name: String,
    /// A description for people; may be empty.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Writes are refused.
    pub readonly: bool,
    /// Clients that ask for block sizes must keep to multiples of this many bytes: a power of two,
    /// up to 64 KiB. Other clients never learn of it.
    pub block: u32,
    /// The size that it likes best: a power of two, `block` or more.
    pub preferred: u32,
    /// Most bytes of data that one request can carry: a multiple of `block`.
    pub most: u32,
    /// FLUSH is done.
    pub flush: bool,
    /// The flag FUA is heeded.
    pub fua: bool,
    /// TRIM is done.
    pub trim: bool,
    /// WRITE_ZEROES is done.
    pub zeroes: bool,
    /// The flag FAST_ZERO is heeded.
    pub fast_zero: bool,
    /// CACHE is done.
    pub cache: bool,
    /// A flush on one connection covers the writes of all.
    pub multi_conn: bool,
    /// The device is rotational.
    pub rotational: bool,
}

impl ExportFacts {
    /// The transmission flags; `structured`: replies come in chunks, so that DF has a sense.
    ///
    /// What writes is not offered where nothing may be written.
    pub fn transmission_flags(&self, structured: bool) -> u16 {
        let writes = !self.readonly;
        let flags = [
            (true, export_flag::HAS_FLAGS),
            (self.readonly, export_flag::READ_ONLY),
            (self.flush, export_flag::SEND_FLUSH),
            (self.fua, export_flag::SEND_FUA),
            (self.rotational, export_flag::ROTATIONAL),
            (writes && self.trim, export_flag::SEND_TRIM),
            (writes && self.zeroes, export_flag::SEND_WRITE_ZEROES),
            (structured, export_flag::SEND_DF),
            (self.multi_conn, export_flag::CAN_MULTI_CONN),
            (self.cache, export_flag::SEND_CACHE),
            (writes && self.zeroes && self.fast_zero, export_flag::SEND_FAST_ZERO),
        ];
        flags.iter().filter(|(set, _)| *set).fold(0, |sum, (_, flag)| sum | flag)
    }
}

/// Why there is no export of a name for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// There is no such export, and nothing is hidden from the client.
    Unknown,
    /// There is no such export, or the client may not open it; it is not told which.
    Closed,
}

/// Where a handshake learns of exports: of those that its client may open.
pub trait Exports {
    /// Name and description of each, in the order of the list.
    fn list(&self) -> Vec<(String, String)>;

    /// The export of that name; the empty name asks for the default export, if there is one.
    ///
    /// # Errors
    /// There is no export for this client.
    fn find(&self, name: &str) -> Result<ExportFacts, Absent>;

    /// Why no more clients can open it now, if so.
    fn is_full(&self, _export: &ExportFacts) -> Option<String> {
        None
    }
}

/// What client and server agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Negotiated {
    /// The name under which the server knows the export: never empty for a default export that
    /// has a name.
    pub export: String,
    /// The facts that the client was given.
    pub facts: ExportFacts,
    /// Replies come in chunks; a read must have no other.
    pub structured: bool,
    /// `base:allocation` was chosen for this export.
    pub allocation: bool,
    /// The client knows the block sizes, and must keep to them.
    pub block_sizes_known: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are flags those of the protocol, and is nothing offered that a read-only export refuses?
    #[test]
    fn flags_follow_the_facts() {
        let mut facts = ExportFacts {
            flush: true,
            fua: true,
            trim: true,
            zeroes: true,
            fast_zero: true,
            cache: true,
            multi_conn: true,
            rotational: true,
            ..ExportFacts::default()
        };
        // Bits 0 2 3 4 5 6 8 10 11 and, with structured replies, 7.
        assert_eq!(facts.transmission_flags(false), 0b1101_0111_1101);
        assert_eq!(facts.transmission_flags(true), 0b1101_1111_1101);
        // Bit 1 comes; 5, 6 and 11 go.
        facts.readonly = true;
        assert_eq!(facts.transmission_flags(false), 0b0101_0001_1111);
        assert_eq!(ExportFacts::default().transmission_flags(false), 1);
    }
}
