// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options: what the server answers to each.
//!
//! | option | answers | then |
//! |---|---|---|
//! | EXPORT_NAME | size, flags, 124 zeroes; nothing if it fails | transmission, or the end |
//! | ABORT | ACK | the end |
//! | LIST | SERVER each, ACK | |
//! | STARTTLS | ACK | TLS |
//! | INFO, GO | INFO each, ACK | GO: transmission |
//! | STRUCTURED_REPLY | ACK | replies in chunks |
//! | LIST_, SET_META_CONTEXT | META_CONTEXT each, ACK | |
//!
//! An option that fails has one answer, an error with a text, and the client may go on; whatever
//! SET_META_CONTEXT had chosen is forgotten as soon as it is tried again.

use super::answer as say;
use super::export::{Absent, ExportFacts, Exports, Negotiated};
use super::option_data::{InfoRequest, Malformed, MetaRequest, string};
use super::text::quote;
use super::wire::{ALLOCATION_ID, ALLOCATION_NAME, LEGACY_ZEROES, answer, info, option};

/// What was agreed so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Agreed {
    /// Replies in chunks.
    pub(super) structured: bool,
    /// The export for which `base:allocation` was chosen, by its own name.
    pub(super) allocation: Option<String>,
}

/// What follows an option.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The next option.
    Answered,
    /// Transmission.
    Chosen(Negotiated),
    /// TLS: it begins with the client's next byte; the answer has been written.
    StartTls,
    /// The end, as the client asked for it.
    Left,
    /// The end: this option gets no answer.
    Close(String),
}

/// Whether this server knows an option.
pub(super) fn known(code: u32) -> bool {
    use option::*;
    matches!(
        code,
        EXPORT_NAME
            | ABORT
            | LIST
            | STARTTLS
            | INFO
            | GO
            | STRUCTURED_REPLY
            | LIST_META_CONTEXT
            | SET_META_CONTEXT
    )
}

/// An option that is there as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    /// Number of the option.
    pub(super) code: u32,
    /// Data of the option.
    pub(super) data: &'a [u8],
    /// The answer to EXPORT_NAME ends with 124 zeroes.
    pub(super) zeroes: bool,
}

impl Agreed {
    /// Answers an option that is known.
    pub(super) fn answer(
        &mut self,
        asked: Asked<'_>,
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let answered = match asked.code {
            option::EXPORT_NAME => return self.export_name(asked, exports, out),
            option::ABORT => {
                say::ack(out, asked.code);
                return Outcome::Left;
            }
            option::LIST => nothing_behind(asked).map(|()| list(exports, out)),
            option::STARTTLS => nothing_behind(asked).map(|()| {
                say::ack(out, asked.code);
                Outcome::StartTls
            }),
            option::INFO | option::GO => self.info(asked, exports, out),
            option::STRUCTURED_REPLY => nothing_behind(asked).map(|()| {
                self.structured = true;
                say::ack(out, asked.code);
                Outcome::Answered
            }),
            _ => self.meta_context(asked, exports, out),
        };
        answered.unwrap_or_else(|problem| {
            say::refuse(out, asked.code, problem.kind, &problem.why);
            Outcome::Answered
        })
    }

    /// An option was refused before it came here.
    pub(super) fn refused(&mut self, code: u32) {
        if code == option::SET_META_CONTEXT {
            self.allocation = None;
        }
    }

    fn export_name(&self, asked: Asked<'_>, exports: &dyn Exports, out: &mut Vec<u8>) -> Outcome {
        let found = string(asked.data, "export name")
            .and_then(|name| find(exports, name))
            .and_then(|facts| with_room(exports, facts));
        let facts = match found {
            Ok(facts) => facts,
            Err(problem) => return Outcome::Close(problem.why),
        };
        out.extend_from_slice(&facts.size.to_be_bytes());
        out.extend_from_slice(&facts.transmission_flags(self.structured).to_be_bytes());
        if asked.zeroes {
            out.extend_from_slice(&[0; LEGACY_ZEROES]);
        }
        Outcome::Chosen(self.chosen(facts, false))
    }

    /// INFO and GO: requested information is sent once, however often it is requested.
    fn info(
        &self,
        asked: Asked<'_>,
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, Malformed> {
        let request = InfoRequest::read(asked.data)?;
        let mut facts = find(exports, request.name)?;
        if asked.code == option::GO {
            facts = with_room(exports, facts)?;
        }
        let block_sizes_known = request.asks(info::BLOCK_SIZE);
        let code = asked.code;
        say::info_export(out, code, &facts, facts.transmission_flags(self.structured));
        if request.asks(info::NAME) {
            say::info_text(out, code, info::NAME, &facts.name);
        }
        if request.asks(info::DESCRIPTION) && !facts.description.is_empty() {
            say::info_text(out, code, info::DESCRIPTION, &facts.description);
        }
        if block_sizes_known {
            say::info_block_size(out, code, &facts);
        }
        say::ack(out, code);
        if code == option::INFO {
            return Ok(Outcome::Answered);
        }
        Ok(Outcome::Chosen(self.chosen(facts, block_sizes_known)))
    }

    fn chosen(&self, facts: ExportFacts, block_sizes_known: bool) -> Negotiated {
        Negotiated {
            export: facts.name.clone(),
            structured: self.structured,
            // A context chosen for another export does not count for this one.
            allocation: self.allocation.as_ref() == Some(&facts.name),
            facts,
            block_sizes_known,
        }
    }

    fn meta_context(
        &mut self,
        asked: Asked<'_>,
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, Malformed> {
        let set = asked.code == option::SET_META_CONTEXT;
        if set {
            self.allocation = None;
        }
        if !self.structured {
            let why = "metadata contexts need structured replies: ask for those first";
            return Err(Malformed { kind: answer::ERR_INVALID, why: why.to_owned() });
        }
        let request = MetaRequest::read(asked.data)?;
        let facts = find(exports, request.name)?;
        // To list, no query means all, and a namespace all that is in it; to set, names only.
        let told = if set {
            request.asks(&[ALLOCATION_NAME])
        } else {
            request.count == 0 || request.asks(&[ALLOCATION_NAME, "base:"])
        };
        if told {
            say::allocation(out, asked.code, if set { ALLOCATION_ID } else { 0 });
        }
        if told && set {
            self.allocation = Some(facts.name);
        }
        say::ack(out, asked.code);
        Ok(Outcome::Answered)
    }
}

fn list(exports: &dyn Exports, out: &mut Vec<u8>) -> Outcome {
    for (name, description) in exports.list() {
        say::server(out, option::LIST, &name, &description);
    }
    say::ack(out, option::LIST);
    Outcome::Answered
}

fn find(exports: &dyn Exports, name: &str) -> Result<ExportFacts, Malformed> {
    exports.find(name).map_err(|absent| match (absent, name) {
        (Absent::Unknown, "") => {
            let why = "there is no default export: give a name".to_owned();
            Malformed { kind: answer::ERR_UNKNOWN, why }
        }
        (Absent::Unknown, _) => {
            let why = format!("there is no export {}; nbdinfo --list shows all", quote(name));
            Malformed { kind: answer::ERR_UNKNOWN, why }
        }
        // The same for what is not there and for what is another's.
        (Absent::Closed, _) => {
            let quoted = quote(name);
            let why = format!("no export {quoted} is open to you; nbdinfo --list shows those");
            Malformed { kind: answer::ERR_POLICY, why }
        }
    })
}

/// The export, if one more client may open it.
fn with_room(exports: &dyn Exports, facts: ExportFacts) -> Result<ExportFacts, Malformed> {
    match exports.is_full(&facts) {
        Some(why) => Err(Malformed { kind: answer::ERR_POLICY, why }),
        None => Ok(facts),
    }
}

fn nothing_behind(asked: Asked<'_>) -> Result<(), Malformed> {
    if asked.data.is_empty() {
        return Ok(());
    }
    let (code, length) = (asked.code, asked.data.len());
    let why = format!("option {code} has no data; {length} bytes came");
    Err(Malformed { kind: answer::ERR_INVALID, why })
}
