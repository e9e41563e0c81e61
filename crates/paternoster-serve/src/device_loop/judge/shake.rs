// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shake: how a client comes in: what it says in the handshake, and the answers it must get.
//!
//! ```text
//! flags │ detours: LIST, unknown option, wrong name │ STRUCTURED_REPLY, SET_META_CONTEXT │ GO
//!       └ each is answered, in order; the last answer to each is the one that is due
//! lies: nothing at all, wrong flags, a wrong magic, too long an option, half an option
//! ```
//!
//! Laws: H1 the greeting and every answer are as due, in order; H2 the reported export has the
//! volume's size, and is read-only if the volume is; H3 a client that lies is disconnected, at the
//! latest when its time for the handshake is over, and an honest one is not.

use paternoster_sim::chance::Chance;

use crate::nbd::wire::{
    ALLOCATION_NAME, LEGACY_ZEROES, MAGIC, MAGIC_ANSWER, MAGIC_OPTION, answer, export_flag,
    handshake_flag, info, option,
};

/// Options that are sent before the export is chosen.
#[derive(Debug, Clone, Copy)]
pub(super) enum Detour {
    List,
    Unknown,
    WrongName,
}

/// How a client breaks off, or what it says that cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    Silence,
    Flags,
    Magic,
    TooLong,
    Half,
    /// The client hangs up.
    Leaves,
}

/// A planned handshake.
#[derive(Debug, Clone)]
pub(super) struct ShakePlan {
    /// The client connects after this many rounds.
    pub(super) comes: u64,
    pub(super) detours: Vec<Detour>,
    pub(super) lie: Option<Lie>,
    /// By EXPORT_NAME, not GO; the answer with the 124 zeroes or without.
    pub(super) old: Option<bool>,
    /// It sends requests before the server has allowed it.
    pub(super) is_eager: bool,
}

impl ShakePlan {
    pub(super) fn draw(chance: &mut Chance, knows_blocks: bool) -> ShakePlan {
        let detours = if chance.once_in(4) { chance.below(4) } else { 0 };
        let each = |chance: &mut Chance| match chance.below(3) {
            0 => Detour::List,
            1 => Detour::Unknown,
            _ => Detour::WrongName,
        };
        let detours = (0..detours).map(|_| each(chance)).collect();
        let lie = match chance.below(60) {
            0 => Some(Lie::Silence),
            1 => Some(Lie::Flags),
            2 => Some(Lie::Magic),
            3 => Some(Lie::TooLong),
            4 => Some(Lie::Half),
            5 => Some(Lie::Leaves),
            _ => None,
        };
        ShakePlan {
            comes: if chance.once_in(3) { chance.below(60) } else { 0 },
            detours,
            lie,
            old: (!knows_blocks && chance.once_in(4)).then(|| chance.once_in(2)),
            is_eager: chance.once_in(3),
        }
    }
}

/// The access that a client wants to its volume.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) readonly: bool,
    pub(super) structured: bool,
    pub(super) knows_blocks: bool,
}

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Shake {
    wanted: Wanted,
    is_greeted: bool,
    /// Options that are not answered, and the last answer that is due to each.
    due: Vec<(u32, u32)>,
    old: Option<bool>,
}

impl Shake {
    /// Begins one; what the client says.
    pub(super) fn begin(plan: &ShakePlan, wanted: Wanted) -> (Shake, Vec<u8>) {
        let mut due = Vec::new();
        let zeroes = plan.old == Some(true);
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake_flag::NO_ZEROES);
        let flags = if zeroes { known } else { known | no_zeroes };
        let flags = if plan.lie == Some(Lie::Flags) { 0x8000_0001 } else { flags };
        let mut out = flags.to_be_bytes().to_vec();
        let mut ask = |code: u32, data: &[u8], last: u32| {
            out.extend(MAGIC_OPTION.to_be_bytes());
            out.extend(code.to_be_bytes());
            out.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
            out.extend_from_slice(data);
            due.push((code, last));
        };
        for detour in &plan.detours {
            match detour {
                Detour::List => ask(option::LIST, &[], answer::ACK),
                Detour::Unknown => ask(4711, &[0; 100], answer::ERR_UNSUP),
                Detour::WrongName => ask(option::GO, &named("none", &[]), answer::ERR_UNKNOWN),
            }
        }
        if wanted.structured {
            ask(option::STRUCTURED_REPLY, &[], answer::ACK);
            let mut data = string(&wanted.name);
            data.extend(1u32.to_be_bytes());
            data.extend(string(ALLOCATION_NAME));
            ask(option::SET_META_CONTEXT, &data, answer::ACK);
        }
        match plan.old {
            Some(_) => ask(option::EXPORT_NAME, wanted.name.as_bytes(), answer::ACK),
            None => {
                let asked = if wanted.knows_blocks { &[info::BLOCK_SIZE][..] } else { &[] };
                ask(option::GO, &named(&wanted.name, asked), answer::ACK);
            }
        }
        match plan.lie {
            // Nothing is answered from the middle of the last option on.
            Some(Lie::Half | Lie::Leaves) => out.truncate(out.len() - 1),
            Some(Lie::Silence) => out.clear(),
            Some(Lie::Magic) => out[4] ^= 0x80,
            Some(Lie::TooLong) => out[16..20].copy_from_slice(&u32::MAX.to_be_bytes()),
            Some(Lie::Flags) | None => {}
        }
        (Shake { wanted, is_greeted: false, due, old: plan.old }, out)
    }

    /// Judges what has come; the bytes of it that are understood, and whether the client is in.
    pub(super) fn hear(&mut self, input: &[u8]) -> Result<(usize, bool), String> {
        let mut used = 0;
        if !self.is_greeted {
            let Some(greeting) = input.first_chunk::<18>() else { return Ok((0, false)) };
            let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
            let words = [&MAGIC.to_be_bytes()[..], &MAGIC_OPTION.to_be_bytes()].concat();
            if greeting[..16] != words[..] || greeting[16..] != flags.to_be_bytes() {
                return Err(format!("H1: the greeting is {greeting:x?}"));
            }
            (self.is_greeted, used) = (true, 18);
        }
        while let Some(&(code, last)) = self.due.first() {
            let rest = &input[used..];
            let taken = match (self.old, code) {
                (Some(zeroes), option::EXPORT_NAME) => self.old_answer(rest, zeroes)?,
                _ => self.answer(rest, code, last)?,
            };
            let Some((taken, is_last)) = taken else { return Ok((used, false)) };
            used += taken;
            if is_last {
                self.due.remove(0);
            }
        }
        Ok((used, true))
    }

    fn old_answer(&self, input: &[u8], zeroes: bool) -> Result<Option<(usize, bool)>, String> {
        let length = if zeroes { 10 + LEGACY_ZEROES } else { 10 };
        let Some(told) = input.get(..length) else { return Ok(None) };
        self.export(told)?;
        Ok(Some((length, true)))
    }

    /// One answer: its bytes, and whether it is the last one to its option.
    fn answer(&self, input: &[u8], code: u32, last: u32) -> Result<Option<(usize, bool)>, String> {
        let Some(head) = input.first_chunk::<20>() else { return Ok(None) };
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let (of, kind, length) = (word(8), word(12), word(16) as usize);
        if head[..8] != MAGIC_ANSWER.to_be_bytes() || of != code || length > 8192 {
            return Err(format!("H1: {head:x?} where option {code} is to be answered"));
        }
        let Some(data) = input.get(20..20 + length) else { return Ok(None) };
        let is_last = kind == last;
        match (code, kind) {
            (option::LIST, answer::SERVER) | (option::SET_META_CONTEXT, answer::META_CONTEXT) => {}
            (option::GO, answer::INFO) if data.len() >= 2 => {
                if data[..2] == info::EXPORT.to_be_bytes() {
                    self.export(&data[2..])?;
                }
            }
            _ if is_last => {}
            _ => return Err(format!("H1: option {code} is told {kind:#x}, not {last:#x}")),
        }
        Ok(Some((20 + length, is_last)))
    }

    /// H2.
    fn export(&self, told: &[u8]) -> Result<(), String> {
        let flags = told.get(8..10).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
        let readonly = flags & export_flag::READ_ONLY != 0;
        let Wanted { size, readonly: is_due, .. } = self.wanted;
        if told[..8] != size.to_be_bytes() || readonly != is_due {
            return Err(format!("H2: {:?} is told as {told:x?}", self.wanted));
        }
        Ok(())
    }
}

fn string(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// A name, and the expected answer about it.
fn named(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend(u16::try_from(asked.len()).unwrap().to_be_bytes());
    asked.iter().for_each(|what| data.extend(what.to_be_bytes()));
    data
}
