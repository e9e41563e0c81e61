// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections: the numbers of a device file, taken one by one, each with its source.
//!
//! A model takes the sections that it knows, and from each the numbers that it knows; anything left
//! over at the end is unknown and refused with its line:
//!
//! ```text
//! [linear]                                         sections.open("linear")?
//! servers = { value = 1, source = "seed 000" }       .number("servers", None, 1..=64)?
//! base = { value = "1.1 ms", source = "fitted" }     .time("base", None)?
//! bose = { value = "1 ms", source = "assumed" }      .finish()?   `linear.bose` is not known here
//! ```
//!
//! A number without a source is refused: a reproduced figure is only as good as the numbers that it
//! comes from. Write "assumed" or "fitted" where that is the truth.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use paternoster_core::Nanos;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use toml::{Spanned, Value};

use crate::quantity;
use crate::transfer::Transfer;

/// A device with more tags would need very large tables (blk-mq's own limit, BLK-8).
pub(crate) const DEPTH_MAX: u64 = 10_240;
/// The longest span of time in a device file: sums of them must stay far from the end of time.
const LONGEST: Nanos = Nanos::from_secs(3600);
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// A device file cannot be used: where, what is wrong, and what would be valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DeviceFileError {
    /// The file's name as given.
    pub file: String,
    /// Counted from 1; 0 if the error concerns the whole file.
    pub line: usize,
    /// What is wrong and what would be valid.
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
pub(crate) struct RawParameter {
    pub(crate) value: Value,
    pub(crate) source: String,
}

pub(crate) type RawSection = BTreeMap<String, Spanned<RawParameter>>;

/// A device file as it was written.
#[derive(Debug)]
pub(crate) struct RawDescription {
    pub(crate) name: String,
    pub(crate) model: Spanned<String>,
    pub(crate) summary: String,
    pub(crate) valid: String,
    pub(crate) sections: BTreeMap<String, Spanned<RawSection>>,
}

impl<'de> Deserialize<'de> for RawDescription {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawDescription, D::Error> {
        deserializer.deserialize_map(RawVisitor)
    }
}

/// Reads words as words and everything else as a section, so that each keeps its place in the text.
struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawDescription;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a device file")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawDescription, A::Error> {
        let (mut name, mut model, mut summary, mut valid) = (None, None, None, None);
        let mut sections = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => name = Some(map.next_value()?),
                "model" => model = Some(map.next_value()?),
                "summary" => summary = Some(map.next_value()?),
                "valid" => valid = Some(map.next_value()?),
                _ => {
                    sections.insert(key, map.next_value()?);
                }
            }
        }
        let missing = |word| A::Error::missing_field(word);
        Ok(RawDescription {
            name: name.ok_or_else(|| missing("name"))?,
            model: model.ok_or_else(|| missing("model"))?,
            summary: summary.ok_or_else(|| missing("summary"))?,
            valid: valid.ok_or_else(|| missing("valid"))?,
            sections,
        })
    }
}

/// The file that is being read, and which of its sections were opened.
#[derive(Debug)]
pub struct Sections<'a> {
    file: &'a str,
    text: &'a str,
    sections: &'a BTreeMap<String, Spanned<RawSection>>,
    opened: Vec<&'static str>,
}

impl<'a> Sections<'a> {
    pub(crate) const fn new(file: &'a str, text: &'a str, raw: &'a RawDescription) -> Sections<'a> {
        Sections { file, text, sections: &raw.sections, opened: Vec::new() }
    }

    /// The section `name`; an empty one if the file has none.
    pub fn open(&mut self, name: &'static str) -> Fields<'a> {
        self.opened.push(name);
        Fields {
            file: self.file,
            text: self.text,
            section: name,
            raw: self.sections.get(name),
            taken: Vec::new(),
        }
    }

    /// Whether the file has a section `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.sections.contains_key(name)
    }

    /// Checks that every section was opened.
    ///
    /// # Errors
    /// [`DeviceFileError`] at the first that is unknown.
    pub fn finish(self, model: &str) -> Result<(), DeviceFileError> {
        let known = |name: &str| self.opened.contains(&name);
        match self.sections.iter().find(|(name, _)| !known(name)) {
            None => Ok(()),
            Some((name, section)) => {
                let at = section.span().start;
                let message = format!(
                    "section [{name}] is not known to model `{model}`; known are {}",
                    self.opened.join(", ")
                );
                Err(error(self.file, self.text, Some(at), message))
            }
        }
    }
}

/// An error at a place in the text.
pub(crate) fn error(file: &str, text: &str, at: Option<usize>, message: String) -> DeviceFileError {
    let line = at.map_or(0, |at| {
        let at = at.min(text.len());
        text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
    });
    DeviceFileError { file: file.to_owned(), line, message }
}

/// A section whose fields are taken one after the other; what is left at the end is unknown.
#[derive(Debug)]
pub struct Fields<'a> {
    file: &'a str,
    text: &'a str,
    section: &'static str,
    raw: Option<&'a Spanned<RawSection>>,
    taken: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a Spanned<RawParameter>> {
        self.raw.and_then(|raw| raw.as_ref().get(name))
    }

    /// Whether the section has a field `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// An error at the field `name`: its value cannot be used, because `why`.
    #[must_use]
    pub fn wrong(&self, name: &str, why: &str) -> DeviceFileError {
        let field = self.get(name);
        let shown =
            field.map_or(String::new(), |field| format!(" cannot be `{}`:", field.as_ref().value));
        let message = format!("`{}.{name}`{shown} {why}", self.section);
        error(self.file, self.text, field.map(|field| field.span().start), message)
    }

    /// The field's value, if it is there and has a source.
    fn take(&mut self, name: &'static str) -> Result<Option<&'a Value>, DeviceFileError> {
        self.taken.push(name);
        let Some(field) = self.get(name) else { return Ok(None) };
        if field.as_ref().source.trim().is_empty() {
            let why = "its source is empty; say where it comes from, or \"assumed\" or \"fitted\"";
            return Err(self.wrong(name, why));
        }
        Ok(Some(&field.as_ref().value))
    }

    fn missing(&self, name: &str) -> DeviceFileError {
        let section = self.section;
        let message =
            format!("`{section}.{name}` is missing: `{name} = {{ value = …, source = \"…\" }}`");
        // At the section's first number, if it has any.
        let raw = self.raw.into_iter().flat_map(|raw| raw.as_ref().values());
        let near = raw.map(|field| field.span().start).min();
        error(self.file, self.text, near, message)
    }

    /// A text that `parse` understands.
    ///
    /// # Errors
    /// [`DeviceFileError`] if it is missing, or `parse` says why it is wrong.
    pub fn read<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, DeviceFileError> {
        let value = self.take(name)?.ok_or_else(|| self.missing(name))?;
        parse(value.as_str().unwrap_or("")).map_err(|why| self.wrong(name, &why))
    }

    /// A text that `parse` understands, or a default if it is missing.
    ///
    /// # Errors
    /// [`DeviceFileError`] if `parse` says why it is wrong.
    pub fn read_or<T>(
        &mut self,
        name: &'static str,
        default: Option<T>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, DeviceFileError> {
        match default {
            Some(default) if !self.has(name) => {
                self.taken.push(name);
                Ok(default)
            }
            _ => self.read(name, parse),
        }
    }

    /// A span of time, as `1.116 ms`.
    ///
    /// # Errors
    /// [`DeviceFileError`] if it is none, or missing without a default.
    pub fn time(
        &mut self,
        name: &'static str,
        default: Option<Nanos>,
    ) -> Result<Nanos, DeviceFileError> {
        let time = self.read_or(name, default, quantity::time)?;
        if time > LONGEST {
            return Err(self.wrong(name, "no part of a device takes more than an hour"));
        }
        Ok(time)
    }

    /// A size in bytes, as `4 GiB`.
    ///
    /// # Errors
    /// [`DeviceFileError`] if it is none, or missing without a default.
    pub fn size(
        &mut self,
        name: &'static str,
        default: Option<u64>,
    ) -> Result<u64, DeviceFileError> {
        self.read_or(name, default, quantity::size)
    }

    /// A rate, as `150 MB/s` or `46.04 us/KiB`.
    ///
    /// # Errors
    /// [`DeviceFileError`] if it is none, or missing without a default.
    pub fn rate(
        &mut self,
        name: &'static str,
        default: Option<Transfer>,
    ) -> Result<Transfer, DeviceFileError> {
        let rate = self.read_or(name, default, quantity::transfer)?;
        if rate.time(SECTOR) > LONGEST {
            return Err(self.wrong(name, "a sector takes more than an hour"));
        }
        Ok(rate)
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// [`DeviceFileError`] if it is none, or missing without a default.
    pub fn number(
        &mut self,
        name: &'static str,
        default: Option<u32>,
        allowed: RangeInclusive<u64>,
    ) -> Result<u32, DeviceFileError> {
        let Some(value) = self.take(name)? else {
            return default.ok_or_else(|| self.missing(name));
        };
        let value = value.as_integer().and_then(|value| u64::try_from(value).ok());
        let value = value.filter(|value| allowed.contains(value));
        value.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| {
            self.wrong(
                name,
                &format!("a whole number from {} to {}", allowed.start(), allowed.end()),
            )
        })
    }

    /// True or false.
    ///
    /// # Errors
    /// [`DeviceFileError`] if it is neither.
    pub fn switch(&mut self, name: &'static str, default: bool) -> Result<bool, DeviceFileError> {
        let Some(value) = self.take(name)? else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(name, "it is true or false"))
    }

    /// A list, each entry read by `parse`; `None` if it is missing.
    ///
    /// # Errors
    /// [`DeviceFileError`] if it is no list, or `parse` says why an entry is wrong.
    pub fn list<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, DeviceFileError> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        let entries = value.as_array().ok_or_else(|| self.wrong(name, "it is a list: `[…, …]`"))?;
        let all: Result<Vec<T>, String> = entries.iter().map(parse).collect();
        all.map(Some).map_err(|why| self.wrong(name, &why))
    }

    /// Checks that every field was taken.
    ///
    /// # Errors
    /// [`DeviceFileError`] at the first that is unknown.
    pub fn finish(self) -> Result<(), DeviceFileError> {
        let mut fields = self.raw.into_iter().flat_map(|raw| raw.as_ref());
        match fields.find(|(name, _)| !self.taken.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, field)) => {
                let why = format!("is not known here; known are {}", self.taken.join(", "));
                let message = format!("`{}.{name}` {why}", self.section);
                Err(error(self.file, self.text, Some(field.span().start), message))
            }
        }
    }
}
