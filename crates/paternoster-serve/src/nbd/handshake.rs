// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake: frames, TLS and limits; what options are answered is in `options`.
//!
//! ```text
//!  greet                 flags        IHAVEOPT code length data        GO, EXPORT_NAME
//!    │                     │                  │      ▲                       │
//!    ▼                     ▼                  ▼      │ answered              ▼
//!  Flags ──────────────▶ Option ────────────────────▶┘ ─────────────────▶ Over: Chosen
//!                          │  ▲ │ refused by its header: told at once, ▲
//!                 STARTTLS │  │ ▼ its data skipped                     │ ABORT, nonsense:
//!                          ▼  │ Skip ──▶ Option                        │ Closed
//!                      AwaitTls ── secured ──▶ Option ─────────────────┘
//! ```
//!
//! # Invariants
//! I1  What is refused for its header (unknown, too long, before TLS) is never kept in memory.
//! I2  Where TLS is required, only STARTTLS and ABORT have an effect before it is there.
//! I3  What was agreed in plain text is forgotten when TLS begins, and no byte that came in plain
//!     text is taken afterwards: a client that does not wait for the answer to STARTTLS is cut off.
//!     Otherwise an attacker in between could put options into a client's session.
//! I4  While [`ANSWERS_MOST`] bytes wait to be sent, nothing is taken.
//!
//! Source: `doc/proto.md`, "Fixed newstyle negotiation" and "TLS support".

use super::answer as say;
use super::export::{Exports, Negotiated};
use super::options::{Agreed, Asked, Outcome, known};
use super::wire::{MAGIC, MAGIC_OPTION, answer, handshake_flag, option};
use crate::config::TlsMode;

/// Bytes of an option before its data: magic, code, length.
const HEADER: usize = 16;
/// Most bytes of data that an option may have: a name and three queries of the longest sort.
pub const OPTION_MOST: usize = 16 << 10;
/// Room that a caller's buffer needs so that the longest option fits.
pub const INPUT_MOST: usize = HEADER + OPTION_MOST;
/// Longest data that are skipped to be able to answer; a client that sends more is cut off.
const SKIP_MOST: usize = 1 << 20;
/// Options of one handshake. Clients need about ten; a shell with the protocol at hand some more.
pub const OPTIONS_MOST: u32 = 1000;
/// Bytes of answers that may wait to be sent before the next option is looked at.
pub const ANSWERS_MOST: usize = 64 << 10;

/// The state of one client's handshake.
#[derive(Debug, Clone)]
pub struct Handshake {
    tls: TlsMode,
    tls_active: bool,
    stopping: bool,
    stage: Stage,
    /// The client speaks fixed newstyle: it understands answers.
    fixed: bool,
    /// The answer to EXPORT_NAME ends with 124 zeroes.
    zeroes: bool,
    options: u32,
    agreed: Agreed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Flags,
    Option,
    /// Remaining bytes of a refused option.
    Skip(usize),
    AwaitTls,
    Over,
}

/// What to do next in a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// More input is needed; or, if input is left over, `out` has to be sent first.
    More,
    /// Send `out`, then do the TLS handshake, then call [`Handshake::secured`].
    StartTls,
    /// Send `out`; what is left of the input is the first requests.
    Chosen(Negotiated),
    /// Send `out`, then hang up. Why, for the log; empty if the client left as it should.
    Closed(String),
}

/// What became of the beginning of the input.
enum Progress {
    Starved,
    Took(usize),
    Ended(usize, Step),
}

/// An option as its header has it.
#[derive(Clone, Copy)]
struct Header {
    code: u32,
    length: usize,
}

impl Handshake {
    /// A handshake. `tls_active`: the connection is in TLS from its first byte.
    pub fn new(tls: TlsMode, tls_active: bool) -> Handshake {
        Handshake {
            tls,
            tls_active,
            stopping: false,
            stage: Stage::Flags,
            fixed: false,
            zeroes: true,
            options: 0,
            agreed: Agreed::default(),
        }
    }

    /// Writes the server's first bytes.
    pub fn greet(&mut self, out: &mut Vec<u8>) {
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&MAGIC_OPTION.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
    }

    /// TLS is established: what was agreed before is forgotten.
    ///
    /// Bytes that were read before and not taken must not be given to [`Handshake::take`] now;
    /// there are none unless the client broke the rules.
    pub fn secured(&mut self) {
        debug_assert_eq!(self.stage, Stage::AwaitTls, "only STARTTLS leads to TLS");
        if self.stage == Stage::AwaitTls {
            self.tls_active = true;
            self.agreed = Agreed::default();
            self.stage = Stage::Option;
        }
    }

    /// The server is about to end: options are refused from now on, so that clients leave.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Takes what it can of the input, and adds the answers to `out`.
    ///
    /// Returns how many bytes it took; the caller passes the others again, followed by what has
    /// come since. It never needs more than [`INPUT_MOST`] at a time. It takes nothing while `out`
    /// holds [`ANSWERS_MOST`] bytes or more: call again once they are sent.
    pub fn take(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> (usize, Step) {
        let mut taken = 0;
        while out.len() < ANSWERS_MOST {
            match self.once(&input[taken..], exports, out) {
                Progress::Starved => break,
                Progress::Took(count) => taken += count,
                Progress::Ended(count, step) => return (taken + count, step),
            }
        }
        (taken, Step::More)
    }

    fn once(&mut self, input: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        match self.stage {
            Stage::Flags => self.client_flags(input),
            Stage::Option => self.option(input, exports, out),
            Stage::Skip(_) | Stage::AwaitTls if input.is_empty() => Progress::Starved,
            Stage::Skip(left) => {
                let skipped = left.min(input.len());
                self.skip(left - skipped);
                Progress::Took(skipped)
            }
            Stage::AwaitTls => self.close("plain text where TLS should begin".to_owned()),
            Stage::Over => self.close("bytes behind the end of the handshake".to_owned()),
        }
    }

    fn client_flags(&mut self, input: &[u8]) -> Progress {
        let Some(flags) = input.first_chunk::<4>() else { return Progress::Starved };
        let flags = u32::from_be_bytes(*flags);
        let fixed = u32::from(handshake_flag::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake_flag::NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return self.close(format!("client flags {flags:#x}; only bits 0 and 1 are known"));
        }
        self.fixed = flags & fixed != 0;
        self.zeroes = flags & no_zeroes == 0;
        self.stage = Stage::Option;
        Progress::Took(flags.to_be_bytes().len())
    }

    fn option(&mut self, input: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        let header = match Header::read(input) {
            Ok(Some(header)) => header,
            Ok(None) => return Progress::Starved,
            Err(why) => return self.close(why),
        };
        if let Some(why) = self.hopeless(header) {
            return self.close(why);
        }
        if let Some((kind, why)) = self.unwelcome(header) {
            say::refuse(out, header.code, kind, &why);
            self.agreed.refused(header.code);
            self.options += 1;
            self.skip(header.length);
            return Progress::Took(HEADER);
        }
        let Some(data) = input[HEADER..].get(..header.length) else { return Progress::Starved };
        self.options += 1;
        let asked = Asked { code: header.code, data, zeroes: self.zeroes };
        let taken = HEADER + header.length;
        match self.agreed.answer(asked, exports, out) {
            Outcome::Answered => Progress::Took(taken),
            Outcome::StartTls if input.len() > taken => {
                self.close("plain text behind STARTTLS, before its answer".to_owned())
            }
            Outcome::StartTls => {
                self.stage = Stage::AwaitTls;
                Progress::Ended(taken, Step::StartTls)
            }
            Outcome::Chosen(negotiated) => {
                self.stage = Stage::Over;
                Progress::Ended(taken, Step::Chosen(negotiated))
            }
            Outcome::Left => {
                self.stage = Stage::Over;
                Progress::Ended(taken, Step::Closed(String::new()))
            }
            Outcome::Close(why) => self.close(why),
        }
    }

    /// Why this option ends the session, if it does: nothing that could be answered would be
    /// understood, or the client asks for too much.
    fn hopeless(&self, Header { code, length }: Header) -> Option<String> {
        if self.options >= OPTIONS_MOST {
            return Some(format!("more than {OPTIONS_MOST} options"));
        }
        if length > SKIP_MOST {
            return Some(format!("option {code} has {length} bytes; {OPTION_MOST} is the most"));
        }
        if code != option::EXPORT_NAME {
            return (!self.fixed)
                .then(|| format!("option {code} of a client without fixed newstyle"));
        }
        // The only option that cannot be answered with an error.
        self.unwelcome(Header { code, length }).map(|(_, why)| why)
    }

    /// Why this option is refused whatever its data, if it is.
    fn unwelcome(&self, Header { code, length }: Header) -> Option<(u32, String)> {
        if code == option::ABORT && length <= OPTION_MOST {
            return None;
        }
        let needs_tls = self.tls == TlsMode::Required && !self.tls_active;
        if needs_tls && code != option::STARTTLS {
            let why = format!("option {code} needs TLS here: send STARTTLS first");
            return Some((answer::ERR_TLS_REQD, why));
        }
        if self.stopping {
            return Some((answer::ERR_SHUTDOWN, "the server is stopping".to_owned()));
        }
        if !known(code) {
            return Some((answer::ERR_UNSUP, format!("option {code} is not known here")));
        }
        if code == option::STARTTLS && self.tls_active {
            return Some((answer::ERR_INVALID, "TLS stands already".to_owned()));
        }
        if code == option::STARTTLS && self.tls == TlsMode::Off {
            return Some((answer::ERR_POLICY, "TLS is not offered here".to_owned()));
        }
        (length > OPTION_MOST).then(|| {
            let why = format!("option {code} has {length} bytes; {OPTION_MOST} is the most");
            (answer::ERR_TOO_BIG, why)
        })
    }

    fn skip(&mut self, left: usize) {
        self.stage = if left == 0 { Stage::Option } else { Stage::Skip(left) };
    }

    fn close(&mut self, why: String) -> Progress {
        self.stage = Stage::Over;
        Progress::Ended(0, Step::Closed(why))
    }
}

impl Header {
    /// The header at the beginning of the input, if it is all there.
    fn read(input: &[u8]) -> Result<Option<Header>, String> {
        let Some((magic, rest)) = input.split_first_chunk::<8>() else { return Ok(None) };
        let magic = u64::from_be_bytes(*magic);
        if magic != MAGIC_OPTION {
            return Err(format!("{magic:#018x} where an option should begin: {MAGIC_OPTION:#x}"));
        }
        let Some((code, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some(length) = rest.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        Ok(Some(Header { code: u32::from_be_bytes(*code), length }))
    }
}

#[cfg(test)]
mod tests;
