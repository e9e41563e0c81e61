// SPDX-License-Identifier: MIT OR Apache-2.0
//! Body: the part of a line after action and flags, `800 + 8 [dd]`.
//!
//! ```text
//! Q I D B M F G S   SECTOR + SECTORS [NAME]      nothing before [ if there is no data
//! Q I D             BYTES (COMMAND) [NAME]       passed through to the device
//! C R               SECTOR + SECTORS [ERROR]     or SECTOR [ERROR], (COMMAND) [ERROR]
//! P, U UT           [NAME], [NAME] REQUESTS
//! X                 SECTOR / SECTOR [NAME]
//! A                 SECTOR + SECTORS <- (MAJOR,MINOR) SECTOR
//! ```
//!
//! A time that it took, in parentheses before the bracket, is passed over. Flags are those of
//! blkparse, and what newer kernels add: `E` erases, `Z…` is about zones, `B` was a barrier.
//!
//! Source: PARSE-3 to PARSE-7, TRACE-22, TRACE-23, TRACE-25.

use super::words::{device, errno, split, split_last, whole, whole_u32};
use crate::blktrace::{Categories, Code, DeviceNumber};

/// The contents of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::formats) struct Body<'a> {
    pub(in crate::formats) sector: u64,
    pub(in crate::formats) bytes: u32,
    pub(in crate::formats) error: u16,
    /// A passthrough command.
    pub(in crate::formats) passthrough: bool,
    pub(in crate::formats) payload: Vec<u8>,
    /// The text in the brackets, if it is a name.
    pub(in crate::formats) name: Option<&'a [u8]>,
}

/// The action of these letters.
pub(in crate::formats) fn action(letters: &[u8]) -> Option<Code> {
    Some(match letters {
        b"Q" => Code::QUEUE,
        b"M" => Code::BACK_MERGE,
        b"F" => Code::FRONT_MERGE,
        b"G" => Code::GET,
        b"S" => Code::SLEEP,
        b"R" => Code::REQUEUE,
        b"D" => Code::ISSUE,
        b"C" => Code::COMPLETE,
        b"P" => Code::PLUG,
        b"U" => Code::UNPLUG,
        b"UT" | b"T" => Code::UNPLUG_TIMER,
        b"I" => Code::INSERT,
        b"X" => Code::SPLIT,
        b"B" => Code::BOUNCE,
        b"A" => Code::REMAP,
        _ => return None,
    })
}

/// What an action adds to the categories of its I/O.
pub(in crate::formats) fn category_of(code: Code) -> Categories {
    match code {
        Code::REQUEUE => Categories::REQUEUE,
        Code::ISSUE => Categories::ISSUE,
        Code::COMPLETE => Categories::COMPLETE,
        Code::SPLIT | Code::BOUNCE => Categories(0),
        _ => Categories::QUEUE,
    }
}

/// The kind of I/O that flags give, `FWFSM`.
pub(in crate::formats) fn flags(text: &[u8]) -> Option<Categories> {
    let mut categories = Categories::default();
    // An F before the operation is a flush; newer kernels write the operation of one as F, too.
    let (operation, rest) = match text {
        [b'F', rest @ ..] => {
            categories |= Categories::FLUSH;
            match rest.split_first() {
                Some((operation, rest)) if b"RWDENFZ".contains(operation) => (operation, rest),
                _ => (&b'N', rest),
            }
        }
        _ => text.split_first()?,
    };
    let rest = match operation {
        b'R' => {
            categories |= Categories::READ;
            rest
        }
        b'W' => {
            categories |= Categories::WRITE;
            rest
        }
        b'D' | b'E' => {
            categories |= Categories::WRITE | Categories::DISCARD;
            rest
        }
        b'N' | b'F' => rest,
        // Zones: append writes; what resets, opens, closes and finishes has no data.
        b'Z' => {
            if rest.first() == Some(&b'A') {
                categories |= Categories::WRITE;
            }
            let end = rest.iter().position(|letter| !b"RAOCF".contains(letter));
            &rest[end.unwrap_or(rest.len())..]
        }
        _ => return None,
    };
    for letter in rest {
        categories |= match letter {
            b'F' => Categories::FUA,
            b'A' => Categories::AHEAD,
            b'S' => Categories::SYNC,
            b'M' => Categories::META,
            b'B' => Categories::FLUSH,
            _ => return None,
        };
    }
    Some(categories)
}

/// What would be right after an action.
pub(in crate::formats) const fn wanted(code: Code) -> &'static str {
    match code {
        Code::COMPLETE | Code::REQUEUE => "SECTOR + SECTORS [ERROR]",
        Code::PLUG => "[NAME]",
        Code::UNPLUG | Code::UNPLUG_TIMER => "[NAME] REQUESTS",
        Code::SPLIT => "SECTOR / SECTOR [NAME]",
        Code::REMAP => "SECTOR + SECTORS <- (MAJOR,MINOR) SECTOR",
        _ => "SECTOR + SECTORS [NAME]",
    }
}

/// Reads a body as blkparse and the tracer `blk` print it; `to` is the line's device.
pub(in crate::formats) fn read(code: Code, to: DeviceNumber, text: &[u8]) -> Option<Body<'_>> {
    if code == Code::REMAP {
        return remap(to, text);
    }
    let (before, name, behind) = brackets(text)?;
    let before = before.trim_ascii();
    let mut body = Body::default();
    match code {
        Code::COMPLETE | Code::REQUEUE => {
            body.error = errno(name)?;
            completed(&mut body, before)?;
        }
        Code::UNPLUG | Code::UNPLUG_TIMER => {
            body.payload = whole(behind.trim_ascii())?.to_be_bytes().to_vec();
            body.name = Some(name);
            return before.is_empty().then_some(body);
        }
        Code::SPLIT => {
            let (sector, second) = split(before, b" / ")?;
            body.sector = whole(sector)?;
            body.payload = whole(second)?.to_be_bytes().to_vec();
            body.name = Some(name);
        }
        _ => {
            body.name = Some(name);
            requested(&mut body, before)?;
        }
    }
    behind.is_empty().then_some(body)
}

/// The text before, in and after the brackets; a name may hold some.
pub(in crate::formats) fn brackets(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (before, rest) = split(text, b"[")?;
    let (name, behind) = split_last(rest, b']')?;
    Some((before, name, behind))
}

/// `SECTOR + SECTORS`, `SECTOR`, `(COMMAND)` or nothing, and a time.
fn completed(body: &mut Body<'_>, text: &[u8]) -> Option<()> {
    if text.is_empty() || text.starts_with(b"(") {
        body.passthrough = true;
        return if text.is_empty() { Some(()) } else { command(body, text) };
    }
    extent(body, without_time(text)?)
}

/// `SECTOR + SECTORS`, `BYTES (COMMAND)` or nothing, and a time.
fn requested(body: &mut Body<'_>, text: &[u8]) -> Option<()> {
    if text.is_empty() {
        return Some(());
    }
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let behind = text[end..].trim_ascii_start();
    if behind.starts_with(b"+") || text.starts_with(b"(") {
        let text = without_time(text)?;
        return if text.is_empty() { Some(()) } else { extent(body, text) };
    }
    body.passthrough = true;
    body.bytes = whole_u32(&text[..end])?;
    if behind.is_empty() { Some(()) } else { command(body, behind) }
}

/// Without `(     400)` at its end.
fn without_time(text: &[u8]) -> Option<&[u8]> {
    let Some(inner) = text.strip_suffix(b")") else { return Some(text) };
    let (before, time) = split_last(inner, b'(')?;
    whole(time.trim_ascii())?;
    Some(before.trim_ascii_end())
}

/// `800 + 8`, or `800`.
pub(in crate::formats) fn extent(body: &mut Body<'_>, text: &[u8]) -> Option<()> {
    let (sector, sectors) = split(text, b" + ").unwrap_or((text, b"0"));
    body.sector = whole(sector)?;
    body.bytes = whole_u32(sectors)?.checked_mul(512)?;
    Some(())
}

/// `(12 00 00 ..)`.
pub(in crate::formats) fn command(body: &mut Body<'_>, text: &[u8]) -> Option<()> {
    let inner = text.strip_prefix(b"(")?.strip_suffix(b")")?;
    for byte in inner.split(|&byte| byte == b' ').filter(|byte| !byte.is_empty()) {
        if byte != b".." {
            let [high, low] = byte else { return None };
            let digit = |digit: u8| char::from(digit).to_digit(16);
            body.payload.push(u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?);
        }
    }
    Some(())
}

fn remap(to: DeviceNumber, text: &[u8]) -> Option<Body<'_>> {
    let mut body = Body::default();
    let (before, from) = split(text, b" <- (")?;
    let (number, sector) = split(from, b") ")?;
    extent(&mut body, before.trim_ascii())?;
    body.payload.extend(device(number)?.0.to_be_bytes());
    body.payload.extend(to.0.to_be_bytes());
    body.payload.extend(whole(sector.trim_ascii_end())?.to_be_bytes());
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(code: Code, text: &str) -> Option<Body<'_>> {
        read(code, DeviceNumber::new(8, 0), text.as_bytes())
    }

    /// Are extents, commands, errors and names distinguished?
    #[test]
    fn bodies_are_told_apart() {
        let at = |sector, bytes| Body { sector, bytes, name: Some(b"a [b] c"), ..Body::default() };
        assert_eq!(body(Code::QUEUE, "800 + 8 [a [b] c]"), Some(at(800, 4096)));
        assert_eq!(body(Code::ISSUE, "800 + 8 (     400) [a [b] c]"), Some(at(800, 4096)));
        assert_eq!(body(Code::INSERT, "(     400) [a [b] c]"), Some(at(0, 0)));
        assert_eq!(body(Code::GET, "[a [b] c]"), Some(at(0, 0)));
        let command = body(Code::ISSUE, "36 (12 00 ..) [x]").unwrap();
        assert!(command.passthrough);
        assert_eq!((command.bytes, &command.payload[..]), (36, &[0x12, 0][..]));
        let error = body(Code::COMPLETE, "4128 + 128 (  118900) [65531]").unwrap();
        assert_eq!((error.sector, error.error, error.name), (4128, 65531, None));
        assert_eq!(body(Code::COMPLETE, "0 [0]"), Some(Body::default()));
        assert!(body(Code::COMPLETE, "(12 00 ..) [0]").unwrap().passthrough);
        assert_eq!(body(Code::UNPLUG, "[x] 3").unwrap().payload, 3_u64.to_be_bytes());
        assert_eq!(body(Code::SPLIT, "64 / 99 [x]").unwrap().payload, 99_u64.to_be_bytes());
        let remap = body(Code::REMAP, "88 + 8 <- (253,1) 77").unwrap();
        assert_eq!(remap.payload[..4], DeviceNumber::new(253, 1).0.to_be_bytes());
        for (code, wrong) in [
            (Code::QUEUE, "800 + [x]"),
            (Code::QUEUE, "800 + 8388608 [x]"),
            (Code::QUEUE, "800 + 8"),
            (Code::COMPLETE, "800 + 8 [x]"),
            (Code::UNPLUG, "[x]"),
            (Code::SPLIT, "64 [x]"),
            (Code::REMAP, "88 + 8 [x]"),
        ] {
            assert_eq!(body(code, wrong), None, "{wrong}");
        }
    }

    /// Are flags understood, old and new ones, and others refused?
    #[test]
    fn flags_are_understood() {
        let write = Categories::WRITE;
        assert_eq!(flags(b"FWFSM").unwrap(), {
            Categories::FLUSH | write | Categories::FUA | Categories::SYNC | Categories::META
        });
        assert_eq!(flags(b"DS").unwrap(), write | Categories::DISCARD | Categories::SYNC);
        assert_eq!(flags(b"RA").unwrap(), Categories::READ | Categories::AHEAD);
        assert_eq!(flags(b"N").unwrap(), Categories(0));
        assert_eq!(flags(b"FN").unwrap(), Categories::FLUSH);
        assert_eq!(flags(b"FF").unwrap(), Categories::FLUSH);
        assert_eq!(flags(b"FS").unwrap(), Categories::FLUSH | Categories::SYNC);
        assert_eq!(flags(b"F").unwrap(), Categories::FLUSH);
        assert_eq!(flags(b"ZRAS").unwrap(), Categories::SYNC);
        assert_eq!(flags(b"ZA").unwrap(), write);
        assert_eq!((flags(b""), flags(b"X"), flags(b"Wx")), (None, None, None));
    }
}
