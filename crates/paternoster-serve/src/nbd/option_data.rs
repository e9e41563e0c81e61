// SPDX-License-Identifier: MIT OR Apache-2.0
//! Option data: what follows an option's header, taken apart.
//!
//! ```text
//! EXPORT_NAME             name
//! INFO, GO                u32 length, name, u16 n, n times u16 kind of information
//! LIST, SET_META_CONTEXT  u32 length, name, u32 n, n times (u32 length, query)
//! ```
//!
//! Lengths inside must add up to the length outside, to the byte. Nothing is allocated by a
//! number that a client wrote: what is counted is walked, not collected.

use super::text::quote;
use super::wire::{STRING_MOST, answer};

/// Why data cannot be read: the kind of answer, and the words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) kind: u32,
    pub(super) why: String,
}

impl Malformed {
    fn invalid(why: String) -> Malformed {
        Malformed { kind: answer::ERR_INVALID, why }
    }
}

/// Data of INFO and GO.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InfoRequest<'a> {
    /// The export.
    pub(super) name: &'a str,
    /// The requested information: two bytes each.
    kinds: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    pub(super) fn read(data: &'a [u8]) -> Result<InfoRequest<'a>, Malformed> {
        let mut rest = Rest(data);
        let name = rest.string("export name")?;
        let count = rest.array("count of informations").map(u16::from_be_bytes)?;
        let kinds = rest.bytes(usize::from(count) * 2, "list of informations")?;
        rest.end()?;
        Ok(InfoRequest { name, kinds })
    }

    /// Whether that information is requested.
    pub(super) fn asks(&self, kind: u16) -> bool {
        self.kinds.chunks_exact(2).any(|asked| asked == kind.to_be_bytes())
    }
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetaRequest<'a> {
    /// The export.
    pub(super) name: &'a str,
    /// Number of queries.
    pub(super) count: u32,
    queries: &'a [u8],
}

impl<'a> MetaRequest<'a> {
    pub(super) fn read(data: &'a [u8]) -> Result<MetaRequest<'a>, Malformed> {
        let mut rest = Rest(data);
        let name = rest.string("export name")?;
        let count = rest.array("count of queries").map(u32::from_be_bytes)?;
        let queries = rest.0;
        // Each query has at least its length of four bytes: a false count ends the loop.
        for _ in 0..count {
            let query = rest.string("query")?;
            if !query.contains(':') {
                let query = quote(query);
                let why = format!("query {query} has no namespace; base:allocation has one");
                return Err(Malformed::invalid(why));
            }
        }
        rest.end()?;
        Ok(MetaRequest { name, count, queries })
    }

    /// Whether one of the queries is one of these.
    pub(super) fn asks(&self, wanted: &[&str]) -> bool {
        let mut rest = Rest(self.queries);
        let mut queries = (0..self.count).map_while(|_| rest.string("query").ok());
        queries.any(|query| wanted.contains(&query))
    }
}

/// A string that is all of the data: the name of EXPORT_NAME.
pub(super) fn string<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Malformed> {
    if bytes.len() > STRING_MOST {
        let length = bytes.len();
        let why = format!("{what} has {length} bytes; {STRING_MOST} is the most");
        return Err(Malformed { kind: answer::ERR_TOO_BIG, why });
    }
    let Ok(text) = str::from_utf8(bytes) else {
        let shown = quote(&String::from_utf8_lossy(bytes));
        return Err(Malformed::invalid(format!("{what} {shown} is not UTF-8")));
    };
    if text.contains('\0') {
        let text = quote(text);
        return Err(Malformed::invalid(format!("{what} {text} has a NUL in it")));
    }
    Ok(text)
}

/// The bytes that are not parsed yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, length: usize, what: &str) -> Result<&'a [u8], Malformed> {
        let Some((bytes, rest)) = self.0.split_at_checked(length) else {
            let left = self.0.len();
            let why = format!("{what} should have {length} bytes; {left} are left");
            return Err(Malformed::invalid(why));
        };
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Malformed> {
        Ok(self.bytes(N, what)?.try_into().expect("as long as asked for"))
    }

    /// A string with its length before it.
    fn string(&mut self, what: &str) -> Result<&'a str, Malformed> {
        let length = self.array(what).map(u32::from_be_bytes)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        string(self.bytes(length, what)?, what)
    }

    fn end(&self) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Malformed::invalid(format!("{left} bytes too many"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are name and kinds found, and is every byte accounted for?
    #[test]
    fn info_requests_add_up() {
        let data = [
            0, 0, 0, 2, b'd', b'b', // the name has 2 bytes: db
            0, 2, // two kinds
            0, 3, // BLOCK_SIZE
            0xab, 0xcd, // an unknown one: allowed
        ];
        let request = InfoRequest::read(&data).unwrap();
        assert_eq!(request.name, "db");
        assert!(request.asks(3) && request.asks(0xabcd) && !request.asks(1));
        for end in 0..data.len() {
            let short = InfoRequest::read(&data[..end]).unwrap_err();
            assert_eq!(short.kind, answer::ERR_INVALID, "{end}: {}", short.why);
        }
        let long = InfoRequest::read(&[&data[..], &[0]].concat()).unwrap_err();
        assert_eq!(long.why, "1 bytes too many");
    }

    /// Is a count of four thousand million queries just wrong, and quickly so?
    #[test]
    fn counts_that_lie_are_refused() {
        let data = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        let wrong = MetaRequest::read(&data).unwrap_err();
        assert_eq!(wrong.kind, answer::ERR_INVALID);
        assert_eq!(wrong.why, "query should have 4 bytes; 0 are left");
    }

    /// Are queries compared whole?
    #[test]
    fn queries_match_whole() {
        let query = b"base:allocation";
        let data = [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15], &query[..]].concat();
        let request = MetaRequest::read(&data).unwrap();
        assert_eq!(request.count, 1);
        assert!(request.asks(&["base:", "base:allocation"]));
        assert!(!request.asks(&["base:alloc"]));
    }

    /// Which strings are refused?
    #[test]
    fn strings_are_checked() {
        assert_eq!(string(&[b'x'; 4096], "name").unwrap().len(), 4096);
        assert_eq!(string(&[b'x'; 4097], "name").unwrap_err().kind, answer::ERR_TOO_BIG);
        assert_eq!(string(b"a\xff", "name").unwrap_err().why, "name \"a\u{fffd}\" is not UTF-8");
        assert_eq!(string(b"a\0", "name").unwrap_err().kind, answer::ERR_INVALID);
    }
}
