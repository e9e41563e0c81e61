// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers: what the server says to an option.
//!
//! ```text
//! 0            8        12      16       20
//! │ 3e889045565a9 │ option │ type │ length │ data … │
//! ```

use super::export::ExportFacts;
use super::text::clip;
use super::wire::{ALLOCATION_NAME, MAGIC_ANSWER, STRING_MOST, answer, info};

/// An answer whose data are several pieces, one after the other.
fn put(out: &mut Vec<u8>, option: u32, kind: u32, pieces: &[&[u8]]) {
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let length = u32::try_from(length).expect("our own texts are short");
    out.extend_from_slice(&MAGIC_ANSWER.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Acknowledges an option.
pub(super) fn ack(out: &mut Vec<u8>, option: u32) {
    put(out, option, answer::ACK, &[]);
}

/// Not done, and why, in words that a user can be shown.
pub(super) fn refuse(out: &mut Vec<u8>, option: u32, kind: u32, why: &str) {
    put(out, option, kind, &[clip(why, STRING_MOST).as_bytes()]);
}

/// An export of a list.
pub(super) fn server(out: &mut Vec<u8>, option: u32, name: &str, description: &str) {
    let name = clip(name, STRING_MOST);
    let length = u32::try_from(name.len()).expect("clipped");
    let description = clip(description, STRING_MOST).as_bytes();
    put(out, option, answer::SERVER, &[&length.to_be_bytes(), name.as_bytes(), description]);
}

/// Size and transmission flags.
pub(super) fn info_export(out: &mut Vec<u8>, option: u32, facts: &ExportFacts, flags: u16) {
    let kind = info::EXPORT.to_be_bytes();
    let pieces: [&[u8]; 3] = [&kind, &facts.size.to_be_bytes(), &flags.to_be_bytes()];
    put(out, option, answer::INFO, &pieces);
}

/// The name, or the description.
pub(super) fn info_text(out: &mut Vec<u8>, option: u32, kind: u16, text: &str) {
    let text = clip(text, STRING_MOST).as_bytes();
    put(out, option, answer::INFO, &[&kind.to_be_bytes(), text]);
}

/// Least, preferred and largest block.
pub(super) fn info_block_size(out: &mut Vec<u8>, option: u32, facts: &ExportFacts) {
    let kind = info::BLOCK_SIZE.to_be_bytes();
    let sizes = [facts.block, facts.preferred, facts.most].map(u32::to_be_bytes);
    put(out, option, answer::INFO, &[&kind, sizes.as_flattened()]);
}

/// `base:allocation`, under that number.
pub(super) fn allocation(out: &mut Vec<u8>, option: u32, id: u32) {
    let name = ALLOCATION_NAME.as_bytes();
    put(out, option, answer::META_CONTEXT, &[&id.to_be_bytes(), name]);
}
