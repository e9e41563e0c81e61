// SPDX-License-Identifier: MIT OR Apache-2.0
//! Document: a TOML text whose keys are taken one by one, each with its place.
//!
//! ```text
//! [device.disk]                root.named("device")? -> ("disk", section)
//! depth = 32                     section.number("depth", 1..=4096)?
//! shceduler = "bfq"              section.finish()?   `device.disk.shceduler` is not known here
//! ```
//!
//! A section notes which keys were read; a key left at its end is unknown and refused with its line
//! and the nearest known key. TOML's own parser bounds how deep values nest.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::ConfigError;
use super::limits::TEXT_BYTES;
use super::near;
use super::settle::Complaint;

/// Longer texts are cut in messages.
const SHOWN_LETTERS: usize = 60;

/// One of a list, as people count: `rule #1` is the first.
pub(super) fn numbered(key: &str, place: usize) -> String {
    format!("{key} #{}", place + 1)
}

/// The text and its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// An error at a place in the text.
    pub(super) fn error(&self, at: Option<usize>, message: String) -> ConfigError {
        let line = at.map_or(0, |at| {
            let before = &self.text.as_bytes()[..at.min(self.text.len())];
            before.iter().filter(|&&byte| byte == b'\n').count() + 1
        });
        ConfigError { file: self.file.to_owned(), line, message }
    }

    /// An error of TOML itself.
    pub(super) fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        let at = error.span().map_or(0, |span| span.start.min(self.text.len()));
        let start = self.text.as_bytes()[..at].iter().rposition(|&byte| byte == b'\n');
        let line = &self.text.as_bytes()[start.map_or(0, |start| start + 1)..];
        let line = String::from_utf8_lossy(line);
        let shown = cut(line.lines().next().unwrap_or("").trim());
        let message = error.message().trim().replace('\n', ", ");
        if let Some(remedy) = self.remedy(at, &shown, &message) {
            return self.error(Some(at), remedy);
        }
        let message = format!(
            "`{shown}` is not TOML: {message}; sections are `[device.NAME]`, entries \
             `key = \"text\"`, `key = 1` or `key = true`"
        );
        self.error(Some(at), message)
    }

    /// The message that replaces the TOML parser's, where we know what was meant.
    fn remedy(&self, at: usize, shown: &str, message: &str) -> Option<String> {
        if message.contains("leading zero") {
            // The entry around it, which may be one of several in a table of one line.
            let equals = self.text.get(..at)?.rfind('=')?;
            let key = self.text[..equals].rsplit(['{', ',', '\n']).next()?.trim();
            let ends = |letter: char| letter.is_whitespace() || ",}#".contains(letter);
            let value = self.text[equals + 1..].trim_start().split(ends).next()?;
            return Some(format!(
                "`{key}` cannot be `{value}`: a number has no zero in front; permission bits are a \
                 text, `{key} = \"{value}\"`"
            ));
        }
        if !message.contains("duplicate key") {
            return None;
        }
        // A section is in the whole file once, a key in its section.
        let is_section = shown.starts_with('[');
        let name = if is_section { shown } else { shown.split('=').next()?.trim() };
        let before: Vec<&str> = self.text.get(..at)?.lines().collect();
        let mut above = before.iter().enumerate().rev();
        let is_it = |line: &str| match is_section {
            true => line.split('#').next().unwrap_or("").trim() == name,
            false => line.split_once('=').is_some_and(|(key, _)| key.trim() == name),
        };
        let own =
            self.text.get(..at)?.rfind('\n').map_or(0, |end| self.text[..end].lines().count());
        let (line, _) = above.find(|(line, text)| *line < own && is_it(text))?;
        Some(format!("`{name}` is there already, in line {}", line + 1))
    }

    /// The text at that place, as it was written.
    pub(super) fn shown(&self, span: Range<usize>) -> String {
        cut(self.text.get(span).unwrap_or("").trim())
    }

    /// A complaint about the whole, at the place that it names or the nearest above it.
    pub(super) fn complaint(&self, root: &DeTable<'_>, complaint: &Complaint) -> ConfigError {
        let (span, exact) = locate(root, &complaint.place);
        let mut complaint = complaint.clone();
        if let Some(span) = exact {
            complaint.text = self.shown(span);
        }
        self.error(span.map(|span| span.start), complaint.to_string())
    }
}

/// The first line of `text`, and not too much of it.
fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    let mut shown: String = line.chars().take(SHOWN_LETTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The deepest part of `place` that is there; and its value, if all of it is there and is not a
/// table.
fn locate(root: &DeTable<'_>, place: &[String]) -> (Option<Range<usize>>, Option<Range<usize>>) {
    let (mut found, mut table, mut array) = (None, Some(root), None);
    for (depth, step) in place.iter().enumerate() {
        let value = match (table, array) {
            (Some(table), _) => {
                let entry = table.iter().find(|(key, _)| key.get_ref() == step);
                entry.map(|(key, value)| (key.span(), value))
            }
            (None, Some(array)) => {
                let values: &[Spanned<DeValue<'_>>] = array;
                let value = step.parse().ok().and_then(|place: usize| values.get(place));
                value.map(|value| (value.span(), value))
            }
            (None, None) => None,
        };
        let Some((span, value)) = value else { return (found, None) };
        found = Some(span);
        table = value.get_ref().as_table();
        array = value.get_ref().as_array().map(|array| &**array);
        if depth + 1 == place.len() && table.is_none() {
            return (found, Some(value.span()));
        }
    }
    (found, None)
}

/// A table whose keys are taken one after the other; what is left at the end is unknown.
#[derive(Debug)]
pub(super) struct Section<'a> {
    source: Source<'a>,
    /// `device.disk`; empty for the whole file.
    name: String,
    at: usize,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(super) fn root(source: Source<'a>, table: &'a DeTable<'a>) -> Section<'a> {
        Section { source, name: String::new(), at: 0, table, known: Vec::new() }
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn entry(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn take(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.entry(key)
    }

    /// An error at the key: its value cannot be used, because `why`.
    pub(super) fn wrong(&self, key: &str, why: &str) -> ConfigError {
        let Some(value) = self.entry(key) else { return self.missing(key, why) };
        self.refused(&self.path(key), value.span(), why)
    }

    fn refused(&self, path: &str, span: Range<usize>, why: &str) -> ConfigError {
        let shown = self.source.shown(span.clone());
        self.source.error(Some(span.start), format!("`{path}` cannot be `{shown}`: {why}"))
    }

    /// An error at the section: it has no such key.
    pub(super) fn missing(&self, key: &str, why: &str) -> ConfigError {
        self.source.error(Some(self.at), format!("`{}` is missing: {why}", self.path(key)))
    }

    /// A value that `parse` understands; `None` if it is not there.
    pub(super) fn value<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'a DeValue<'a>) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        parse(value.get_ref()).map(Some).map_err(|why| self.wrong(key, &why))
    }

    /// A text that `parse` understands.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        self.value(key, |value| {
            let text = value.as_str();
            // A user who forgot the quotes sees what belongs between them.
            text.map_or_else(|| Err("a text between quotes".to_owned()), parse)
        })
    }

    /// A text of bounded length without control characters.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigError> {
        self.parsed(key, plain)
    }

    /// A whole number in a range.
    pub(super) fn number<T>(
        &mut self,
        key: &'static str,
        allowed: &RangeInclusive<T>,
    ) -> Result<Option<T>, ConfigError>
    where
        T: TryFrom<u64> + PartialOrd + std::fmt::Display,
    {
        self.value(key, |value| {
            let number = value.as_integer().and_then(|integer| {
                let digits = integer.as_str().replace('_', "");
                u64::from_str_radix(&digits, integer.radix()).ok()
            });
            let number = number.and_then(|number| T::try_from(number).ok());
            number.filter(|number| allowed.contains(number)).ok_or_else(|| {
                format!("a whole number from {} to {}", allowed.start(), allowed.end())
            })
        })
    }

    /// `true` or `false`.
    pub(super) fn switch(&mut self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        self.value(key, |value| value.as_bool().ok_or_else(|| "true or false".to_owned()))
    }

    /// The section below this one of that name.
    pub(super) fn child(&mut self, key: &'static str) -> Result<Option<Section<'a>>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let path = self.path(key);
        self.section(path.clone(), value, &format!("a section, `[{path}]`")).map(Some)
    }

    /// The sections `[key.NAME]`, in the order of the file.
    pub(super) fn named(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> Result<Vec<(String, Section<'a>)>, ConfigError> {
        let Some(all) = self.child(key)? else { return Ok(Vec::new()) };
        let mut entries: Vec<_> = all.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        if let Some((name, _)) = entries.get(most) {
            let message = format!("{} {key}s where {most} are allowed", entries.len());
            return Err(self.source.error(Some(name.span().start), message));
        }
        let sections = entries.into_iter().map(|(name, value)| {
            let at = name.span().start;
            let text = plain(name.get_ref()).map_err(|why| {
                let shown = cut(name.get_ref());
                self.source.error(Some(at), format!("a {key} cannot be named `{shown}`: {why}"))
            })?;
            let remedy = format!("a section, `[{key}.NAME]`");
            let mut section = self.section(format!("{key}.{text}"), value, &remedy)?;
            section.at = at;
            Ok((text, section))
        });
        sections.collect()
    }

    /// The sections `[[key]]`.
    pub(super) fn list(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let remedy = format!("sections, each `[[{key}]]`");
        let Some(array) = value.get_ref().as_array() else { return Err(self.wrong(key, &remedy)) };
        if let Some(entry) = array.get(most) {
            let message = format!("{} {key}s where {most} are allowed", array.len());
            return Err(self.source.error(Some(entry.span().start), message));
        }
        let sections = array.iter().enumerate();
        sections.map(|(place, value)| self.section(numbered(key, place), value, &remedy)).collect()
    }

    /// Whether the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The values of a list, or a single value without brackets, each as a section (if it is a
    /// table) or a text.
    pub(super) fn texts_or_sections(
        &mut self,
        key: &'static str,
        most: usize,
        remedy: &str,
    ) -> Result<Vec<TextOrSection<'a>>, ConfigError> {
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let one = std::slice::from_ref(value);
        let values = value.get_ref().as_array().map_or(one, |array| &**array);
        if values.len() > most {
            return Err(self.wrong(key, &format!("at most {most} of: {remedy}")));
        }
        let each = |(place, value): (usize, &'a Spanned<DeValue<'a>>)| {
            let path = self.path(&numbered(key, place));
            match value.get_ref().as_str() {
                Some(text) => Ok(TextOrSection::Text(text, value.span())),
                None => self.section(path, value, remedy).map(TextOrSection::Section),
            }
        };
        values.iter().enumerate().map(each).collect()
    }

    fn section(
        &self,
        name: String,
        value: &'a Spanned<DeValue<'a>>,
        remedy: &str,
    ) -> Result<Section<'a>, ConfigError> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.refused(&name, value.span(), remedy));
        };
        Ok(Section { source: self.source, name, at: value.span().start, table, known: Vec::new() })
    }

    /// An error at a place of the text, about a value of the key.
    pub(super) fn wrong_at(&self, key: &str, span: Range<usize>, why: &str) -> ConfigError {
        self.refused(&self.path(key), span, why)
    }

    /// Every key with its value, in the order of the file; for sections whose keys are not ours.
    pub(super) fn all(&self) -> Vec<(&'a str, &'a Spanned<DeValue<'a>>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| (&**key.get_ref(), value)).collect()
    }

    /// Checks that every key was read.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        self.only(&self.known)
    }

    /// Refuses keys other than these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ConfigError> {
        let unknown = self.table.iter().filter(|(key, _)| !known.contains(&&**key.get_ref()));
        let Some((key, _)) = unknown.min_by_key(|(key, _)| key.span().start) else { return Ok(()) };
        let path = cut(&self.path(key.get_ref()));
        let hint = near::hint(key.get_ref(), known.iter().copied());
        let message = format!("`{path}` is not known here{hint}");
        Err(self.source.error(Some(key.span().start), message))
    }
}

/// An entry of a list that may be short or long.
#[derive(Debug)]
pub(super) enum TextOrSection<'a> {
    /// A text and its place.
    Text(&'a str, Range<usize>),
    /// A table.
    Section(Section<'a>),
}

/// A text of bounded length, not empty, without control characters.
pub(super) fn plain(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty; leave the key out if there is nothing to say".to_owned()),
        text if text.len() > TEXT_BYTES => {
            Err(format!("{} bytes where {TEXT_BYTES} are allowed", text.len()))
        }
        text if text.contains(char::is_control) => {
            Err("it has a control character; printable text would be right".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}
