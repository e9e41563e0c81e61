// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device files: a model and its numbers, each with its source.
//!
//! ```toml
//! name = "flash-card-2010"
//! model = "linear"
//! summary = "flash card without command queueing"
//! valid = "random reads of 4 to 64 KiB"
//!
//! [facts]                     # what the device says of itself
//! capacity = { value = "4 GiB", source = "assumed" }
//! depth = { value = 1, source = "seed 000: non-ncq" }
//!
//! [linear]                    # the model's own numbers
//! servers = { value = 1, source = "seed 000" }
//! base = { value = "1.116 ms", source = "fitted" }
//! rate = { value = "46.04 us/KiB", source = "fitted" }
//!
//! [host]                      # of the experiment, not of the device
//! submit_cost = { value = "20 us", source = "assumed" }
//! ```
//!
//! A number without a source is refused: a reproduced figure is worth what the numbers behind it
//! are. Say "assumed" or "fitted" where that is the truth.

use std::collections::BTreeMap;
use std::fmt;

use paternoster::{DeviceFacts, Nanos};
use serde::Deserialize;
use toml::{Spanned, Value};

use crate::linear::{Linear, LinearCosts};
use crate::model::Model;
use crate::null::Null;
use crate::quantity;

/// Larger files are refused before they are parsed.
const FILE_BYTES_MAX: usize = 1 << 20;
/// What is said when a file is not even of the right shape.
const REMEDY: &str = "a device file has name, model, summary, valid and sections of numbers, \
                      each as `name = { value = …, source = \"…\" }`";
/// A device with more tags would need tables that nobody wants (blk-mq's own limit, BLK-8).
const DEPTH_MAX: u64 = 10_240;

/// A device file cannot be used: where, what, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DeviceFileError {
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1; 0 if it concerns the whole file.
    pub line: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for DeviceFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawParameter {
    value: Value,
    source: String,
}

type Section = BTreeMap<String, Spanned<RawParameter>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDescription {
    name: String,
    model: Spanned<String>,
    summary: String,
    valid: String,
    #[serde(default)]
    facts: Section,
    linear: Option<Section>,
    null: Option<Section>,
    #[serde(default)]
    host: Section,
}

/// One number of a device file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Section and name: `linear.base`.
    pub name: String,
    /// As written.
    pub value: String,
    /// Where it comes from.
    pub source: String,
}

/// A device file, read and checked.
#[derive(Debug, Clone)]
pub struct Description {
    /// What it is chosen by.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// Where the model stops being valid.
    pub valid: String,
    /// What the device says of itself.
    pub facts: DeviceFacts,
    /// CPU time between a completion and the next submission.
    pub submit_cost: Nanos,
    /// Every number with its source, in the order of their names.
    pub parameters: Vec<Parameter>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Null(Nanos),
    Linear(LinearCosts),
}

impl Description {
    /// Reads a device file's text; `file` is named in messages.
    ///
    /// # Errors
    /// [`DeviceFileError`] with the line and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Description, DeviceFileError> {
        let reader = Reader { file, text };
        if text.len() > FILE_BYTES_MAX {
            let message = format!("{} bytes where {FILE_BYTES_MAX} are allowed", text.len());
            return Err(reader.error(None, message));
        }
        let raw: RawDescription = toml::from_str(text).map_err(|error| {
            let message = format!("{}; {REMEDY}", error.message());
            reader.error(error.span().map(|span| span.start), message)
        })?;
        let kind = reader.kind(&raw)?;
        let facts = reader.facts(&raw.facts)?;
        let mut host = Fields::new(&reader, "host", &raw.host);
        let submit_cost = host.time("submit_cost", Some(Nanos::from_micros(20)))?;
        host.finish()?;
        Ok(Description {
            facts,
            submit_cost,
            kind,
            parameters: parameters(&raw),
            name: raw.name,
            summary: raw.summary,
            valid: raw.valid,
        })
    }

    /// A fresh device of this kind.
    #[must_use]
    pub fn model(&self) -> Box<dyn Model> {
        match self.kind {
            Kind::Null(latency) => Box::new(Null::new(self.facts, latency)),
            Kind::Linear(costs) => Box::new(Linear::new(self.facts, costs)),
        }
    }

    /// The model's name.
    #[must_use]
    pub const fn model_name(&self) -> &'static str {
        match self.kind {
            Kind::Null(_) => "null",
            Kind::Linear(_) => "linear",
        }
    }
}

fn parameters(raw: &RawDescription) -> Vec<Parameter> {
    let sections = [
        ("facts", Some(&raw.facts)),
        ("linear", raw.linear.as_ref()),
        ("null", raw.null.as_ref()),
        ("host", Some(&raw.host)),
    ];
    let mut all = Vec::new();
    for (section, fields) in sections {
        for (name, parameter) in fields.into_iter().flatten() {
            let parameter = parameter.as_ref();
            let value = match &parameter.value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let name = format!("{section}.{name}");
            all.push(Parameter { name, value, source: parameter.source.clone() });
        }
    }
    all
}

/// The file that is being read, for messages.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, at: Option<usize>, message: String) -> DeviceFileError {
        let line = at.map_or(0, |at| {
            let at = at.min(self.text.len());
            self.text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
        });
        DeviceFileError { file: self.file.to_owned(), line, message }
    }

    fn facts(&self, section: &Section) -> Result<DeviceFacts, DeviceFileError> {
        let default = DeviceFacts::default();
        let mut fields = Fields::new(self, "facts", section);
        let facts = DeviceFacts {
            capacity: fields.read("capacity", |text| match quantity::size(text)? / 512 {
                0 => Err("a device has at least one sector of 512 bytes".to_owned()),
                sectors => Ok(sectors),
            })?,
            depth: fields.number("depth", None, 1..=DEPTH_MAX)?,
            rotational: fields.switch("rotational", default.rotational)?,
            write_cache: fields.switch("write_cache", default.write_cache)?,
            fua: fields.switch("fua", default.fua)?,
            flush_queueable: fields.switch("flush_queueable", default.flush_queueable)?,
            max_sectors: fields.number("max_sectors_kb", Some(1280), 4..=1 << 20)? * 2,
            max_segments: u16::try_from(fields.number("max_segments", Some(128), 1..=65_535)?)
                .unwrap_or(u16::MAX),
        };
        fields.finish()?;
        Ok(facts)
    }

    fn kind(&self, raw: &RawDescription) -> Result<Kind, DeviceFileError> {
        let (model, at) = (raw.model.as_ref().as_str(), raw.model.span().start);
        let own = match model {
            "null" => &raw.null,
            "linear" => &raw.linear,
            _ => {
                let message = format!("there is no model `{model}`: it is `linear` or `null`");
                return Err(self.error(Some(at), message));
            }
        };
        let other = if model == "null" { &raw.linear } else { &raw.null };
        if other.is_some() {
            let message = format!("model `{model}` has its numbers in [{model}] and nowhere else");
            return Err(self.error(Some(at), message));
        }
        let section = own.as_ref().ok_or_else(|| {
            self.error(Some(at), format!("model `{model}` needs a section [{model}]"))
        })?;
        let mut fields =
            Fields::new(self, if model == "null" { "null" } else { "linear" }, section);
        let kind = if model == "null" {
            Kind::Null(fields.time("latency", None)?)
        } else {
            Kind::Linear(LinearCosts {
                servers: fields.number("servers", None, 1..=DEPTH_MAX)?,
                base: fields.time("base", None)?,
                transfer: fields.read("rate", quantity::transfer)?,
                penalty: fields.time("penalty", Some(Nanos::ZERO))?,
                flush: fields.time("flush", Some(Nanos::ZERO))?,
            })
        };
        fields.finish()?;
        Ok(kind)
    }
}

/// A section whose fields are taken one after the other; what is left at the end is unknown.
struct Fields<'a> {
    reader: &'a Reader<'a>,
    section: &'static str,
    fields: &'a Section,
    taken: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    const fn new(reader: &'a Reader<'a>, section: &'static str, fields: &'a Section) -> Fields<'a> {
        Fields { reader, section, fields, taken: Vec::new() }
    }

    fn wrong(
        &self,
        name: &str,
        field: Option<&Spanned<RawParameter>>,
        why: &str,
    ) -> DeviceFileError {
        let shown =
            field.map_or(String::new(), |field| format!(" cannot be `{}`:", field.as_ref().value));
        let message = format!("`{}.{name}`{shown} {why}", self.section);
        self.reader.error(field.map(|field| field.span().start), message)
    }

    /// The field's value, if it is there and has a source.
    fn take(
        &mut self,
        name: &'static str,
    ) -> Result<Option<&'a Spanned<RawParameter>>, DeviceFileError> {
        self.taken.push(name);
        let Some(field) = self.fields.get(name) else { return Ok(None) };
        if field.as_ref().source.trim().is_empty() {
            let why = "its source is empty; say where it comes from, or \"assumed\" or \"fitted\"";
            return Err(self.wrong(name, Some(field), why));
        }
        Ok(Some(field))
    }

    fn missing(&self, name: &str) -> DeviceFileError {
        let section = self.section;
        let message =
            format!("`{section}.{name}` is missing: `{name} = {{ value = …, source = \"…\" }}`");
        // At the section's first number, if it has any.
        let near = self.fields.values().map(|field| field.span().start).min();
        self.reader.error(near, message)
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, DeviceFileError> {
        let field = self.take(name)?.ok_or_else(|| self.missing(name))?;
        let text = field.as_ref().value.as_str().unwrap_or("");
        parse(text).map_err(|why| self.wrong(name, Some(field), &why))
    }

    fn time(
        &mut self,
        name: &'static str,
        default: Option<Nanos>,
    ) -> Result<Nanos, DeviceFileError> {
        match default {
            Some(default) if !self.fields.contains_key(name) => {
                self.taken.push(name);
                Ok(default)
            }
            _ => self.read(name, quantity::time),
        }
    }

    fn number(
        &mut self,
        name: &'static str,
        default: Option<u32>,
        allowed: std::ops::RangeInclusive<u64>,
    ) -> Result<u32, DeviceFileError> {
        let Some(field) = self.take(name)? else {
            return default.ok_or_else(|| self.missing(name));
        };
        let value = field.as_ref().value.as_integer().and_then(|value| u64::try_from(value).ok());
        let value = value.filter(|value| allowed.contains(value));
        value.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| {
            let why = format!("a whole number from {} to {}", allowed.start(), allowed.end());
            self.wrong(name, Some(field), &why)
        })
    }

    fn switch(&mut self, name: &'static str, default: bool) -> Result<bool, DeviceFileError> {
        let Some(field) = self.take(name)? else { return Ok(default) };
        let value = field.as_ref().value.as_bool();
        value.ok_or_else(|| self.wrong(name, Some(field), "it is true or false"))
    }

    fn finish(self) -> Result<(), DeviceFileError> {
        let unknown = self.fields.iter().find(|(name, _)| !self.taken.contains(&name.as_str()));
        match unknown {
            None => Ok(()),
            Some((name, field)) => {
                let why = format!("is not known here; known are {}", self.taken.join(", "));
                let message = format!("`{}.{name}` {why}", self.section);
                Err(self.reader.error(Some(field.span().start), message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = include_str!("../../../devices/flash-card-2010.toml");

    /// Does the card of seed 000 come out as it was written?
    #[test]
    fn the_card_of_seed_000() {
        let card = Description::parse("card", CARD).unwrap();
        assert_eq!(card.facts.depth, 1);
        assert_eq!(card.facts.capacity, (4 << 30) / 512);
        assert_eq!(card.submit_cost, Nanos::from_micros(20));
        let base = card.parameters.iter().find(|p| p.name == "linear.base").unwrap();
        assert_eq!(base.value, "1.116 ms");
        assert!(base.source.starts_with("fitted"));
    }

    fn refusal(from: &str, to: &str) -> String {
        assert!(CARD.contains(from), "{from}");
        Description::parse("card.toml", &CARD.replacen(from, to, 1)).unwrap_err().to_string()
    }

    /// Does every refusal name file, line, the text and the remedy?
    #[test]
    fn refusals_say_where_and_what_would_be_right() {
        for (from, to, expected) in [
            (
                "1.116 ms",
                "1.116 hours",
                "card.toml:18: `linear.base` cannot be `\"1.116 hours\"`: not a span of \
                 time: a number and \
                 one of ns, us, ms, s (as `1.116 ms`)",
            ),
            (
                "depth = { value = 1,",
                "depth = { value = 0,",
                "card.toml:10: `facts.depth` cannot be `0`: a whole number from 1 to 10240",
            ),
            (
                "servers = { value = 1",
                "serverz = { value = 1",
                "card.toml:17: `linear.servers` is missing: \
                 `servers = { value = …, source = \"…\" }`",
            ),
            (
                "penalty = {",
                "penalti = {",
                "card.toml:20: `linear.penalti` is not known here; known are servers, base, rate, \
                 penalty, flush",
            ),
            (
                "source = \"fitted: with base\"",
                "source = \"\"",
                "card.toml:19: `linear.rate` cannot be `\"46.04 us/KiB\"`: its source is \
                 empty; say where it \
                 comes from, or \"assumed\" or \"fitted\"",
            ),
            (
                "model = \"linear\"",
                "model = \"cubic\"",
                "card.toml:4: there is no model `cubic`: it is `linear` or `null`",
            ),
        ] {
            assert_eq!(refusal(from, to), expected);
        }
        assert!(refusal(", source = \"fitted: with base\"", "").contains("missing field `source`"));
        assert!(refusal("[facts]", "[facts").starts_with("card.toml:"));
    }
}
