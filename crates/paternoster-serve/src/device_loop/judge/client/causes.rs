// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes: whether a reply's error is justified by what the judge knows about the medium.
//!
//! ```text
//! bytes  ─▶ data        in the request's range, once each, and admissible   S2, S5
//! extents ─▶ holes      in the request, and zeroes                          S7
//! done   ─▶ is_durable  a trim with FUA was followed by a flush             S8
//! error  ─▶ is_due      a call of its range has failed, with this errno     S4
//!                       (or zeroes that must be fast would be slow)
//! ```

use super::super::book::zeroes;
use super::super::plan::{ENOTSUP, FAST_ZERO, FLUSH, FUA, REQ_ONE, ZEROES};
use super::{Open, World};
use crate::nbd::reply::errno;

/// S2 and S5.
pub(super) fn data(
    open: &mut Open,
    base: u64,
    payload: &[u8],
    world: &World<'_>,
) -> Result<(), String> {
    let at = u64::from_be_bytes(payload[..8].try_into().unwrap());
    let bytes = &payload[8..];
    let (end, ask) = (at + bytes.len() as u64, open.ask);
    let before = open.got.range(..end).next_back().map_or(0, |(&from, &length)| from + length);
    if at < ask.at || end > ask.at + u64::from(ask.length) || before > at {
        return Err(format!("S2: bytes {at} to {end} for {ask:?}"));
    }
    open.got.insert(at, bytes.len() as u64);
    match world.book.wrong(base + at, bytes, Some(open.begin)) {
        Some(wrong) => Err(format!("S5: {ask:?}: {wrong}")),
        None => Ok(()),
    }
}

/// S7.
pub(super) fn holes(open: &Open, runs: &[(u32, u32)], world: &World<'_>) -> Result<(), String> {
    let (ask, mut at) = (open.ask, open.at);
    let end = at + u64::from(ask.length);
    if runs.is_empty() || (ask.flags & REQ_ONE != 0 && runs.len() != 1) {
        return Err(format!("{} runs", runs.len()));
    }
    for &(length, flags) in runs {
        if length == 0 || at + u64::from(length) > end || !matches!(flags, 0 | 3) {
            return Err(format!("{length} bytes at {at} are {flags}"));
        }
        let nothing = zeroes(length as usize);
        if flags == 3
            && let Some(wrong) = world.book.wrong(at, nothing, Some(open.begin))
        {
            return Err(format!("a hole of {length} bytes at {at}, but {wrong}"));
        }
        at += u64::from(length);
    }
    Ok(())
}

/// S8. Discards cannot be matched to requests: one of this range has to be safe, if there are any.
pub(super) fn is_durable(Open { ask, at, begin, .. }: &Open, world: &World<'_>) -> bool {
    let end = at + u64::from(ask.length);
    let mut own = world
        .medium
        .forgotten
        .iter()
        .filter(|range| range.beat >= *begin && *at <= range.start && range.end <= end);
    own.clone().next().is_none() || own.any(|range| range.is_durable)
}

/// S4: whether a reported error has a cause, with the same errno.
pub(super) fn is_due(open: &Open, world: &World<'_>, told: Option<u32>) -> bool {
    let ask = open.ask;
    // The medium may know no fast way, for this range or at all.
    if ask.kind == ZEROES && ask.flags & FAST_ZERO != 0 && told == Some(ENOTSUP) {
        return true;
    }
    let promises = ask.kind == FLUSH || ask.flags & FUA != 0;
    // The rest of its blocks is read, too.
    let (start, end) =
        (open.at / 4096 * 4096, (open.at + u64::from(ask.length)).next_multiple_of(4096));
    world.medium.log.iter().any(|failure| {
        let beside = failure.beat >= open.begin;
        let touches = failure.start < end && start < failure.end;
        // Losses of others are reported as EIO, or with the first report's errno.
        let is_told = |told| told == errno(failure.errno) || (failure.durable && told == 5);
        ((beside && touches) || (promises && failure.durable)) && told.is_none_or(is_told)
    })
}
