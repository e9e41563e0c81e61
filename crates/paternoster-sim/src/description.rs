// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device files: a model and its numbers, each with its source.
//!
//! ```toml
//! name = "flash-card-2010"
//! model = "linear"
//! summary = "flash card without command queueing"
//! valid = "random reads of 4 to 64 KiB"
//!
//! [facts]                     # what the device reports about itself
//! capacity = { value = "4 GiB", source = "assumed" }
//! depth = { value = 1, source = "seed 000: non-ncq" }
//!
//! [linear]                    # the model's own numbers
//! servers = { value = 1, source = "seed 000" }
//! base = { value = "1.116 ms", source = "fitted" }
//! rate = { value = "46.04 us/KiB", source = "fitted" }
//!
//! [faults]                    # injected faults, if any: see `faults`
//! rules = { value = ["error every=1000 op=write"], source = "assumed" }
//!
//! [host]                      # of the experiment, not of the device
//! submit_cost = { value = "20 us", source = "assumed" }
//! ```
//!
//! `sections.rs` reads the sections and refuses mistakes. Each model's file says which sections the
//! model has and what they hold; `MODELS` lists them all.

use std::sync::Arc;

use paternoster_core::{DeviceFacts, Nanos};
use toml::Value;

use crate::array::Array;
use crate::faults::{Faulty, Rule};
use crate::hdd::Hdd;
use crate::linear::Linear;
use crate::model::{Blueprint, Model};
use crate::null::Null;
use crate::quantity;
use crate::sections::{self, DEPTH_MAX, RawDescription, Sections};
use crate::ssd::Ssd;

pub use crate::sections::DeviceFileError;

/// Larger files are refused before they are parsed.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The remedy named when a file does not even have the right shape.
const REMEDY: &str = "a device file has name, model, summary, valid and sections of numbers, \
                      each as `name = { value = …, source = \"…\" }`";

/// Reads a model's own sections.
type Read = fn(&mut Sections<'_>, &DeviceFacts) -> Result<Arc<dyn Blueprint>, DeviceFileError>;

/// Every model, with the reader of its numbers.
const MODELS: &[(&str, Read)] = &[
    ("array", Array::read),
    ("hdd", Hdd::read),
    ("linear", Linear::read),
    ("null", Null::read),
    ("ssd", Ssd::read),
];

/// One number of a device file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Section and name: `linear.base`.
    pub name: String,
    /// The value as written.
    pub value: String,
    /// The source of the number.
    pub source: String,
}

/// A device file, read and checked.
#[derive(Debug, Clone)]
pub struct Description {
    /// The name that selects it.
    pub name: String,
    /// A description in one sentence.
    pub summary: String,
    /// Where the model stops being valid.
    pub valid: String,
    /// What the device reports about itself.
    pub facts: DeviceFacts,
    /// CPU time between a completion and the next submission.
    pub submit_cost: Nanos,
    /// Every number with its source, in the order of their names.
    pub parameters: Vec<Parameter>,
    model: &'static str,
    blueprint: Arc<dyn Blueprint>,
    faults: Vec<Rule>,
}

impl Description {
    /// Reads a device file's text; `file` is named in messages.
    ///
    /// # Errors
    /// [`DeviceFileError`] with the line and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Description, DeviceFileError> {
        if text.len() > FILE_BYTES_MAX {
            let message = format!("{} bytes where {FILE_BYTES_MAX} are allowed", text.len());
            return Err(sections::error(file, text, None, message));
        }
        let raw: RawDescription = toml::from_str(text).map_err(|error| {
            let message = format!("{}; {REMEDY}", error.message());
            sections::error(file, text, error.span().map(|span| span.start), message)
        })?;
        let Some((model, read)) = MODELS.iter().find(|(name, _)| name == raw.model.as_ref()) else {
            let names: Vec<String> = MODELS.iter().map(|(name, _)| format!("`{name}`")).collect();
            let message = format!(
                "there is no model `{}`; there are {}",
                raw.model.as_ref(),
                names.join(", ")
            );
            return Err(sections::error(file, text, Some(raw.model.span().start), message));
        };
        let mut sections = Sections::new(file, text, &raw);
        let facts = facts(&mut sections)?;
        let blueprint = read(&mut sections, &facts)?;
        let faults = faults(&mut sections)?;
        let mut host = sections.open("host");
        let submit_cost = host.time("submit_cost", Some(Nanos::from_micros(20)))?;
        host.finish()?;
        sections.finish(model)?;
        Ok(Description {
            facts,
            submit_cost,
            model,
            blueprint,
            faults,
            parameters: parameters(&raw),
            name: raw.name,
            summary: raw.summary,
            valid: raw.valid,
        })
    }

    /// A fresh device of this kind.
    #[must_use]
    pub fn model(&self) -> Box<dyn Model> {
        self.faulty_model(&[], 0)
    }

    /// A fresh device of this kind, with the faults of its file and `more`; `seed` determines the
    /// random choices of both.
    #[must_use]
    pub fn faulty_model(&self, more: &[Rule], seed: u64) -> Box<dyn Model> {
        if self.faults.is_empty() && more.is_empty() {
            self.blueprint.build_seeded(self.facts, seed)
        } else {
            Box::new(self.faulty(more, seed))
        }
    }

    /// A fresh device of this kind with an injector in front of it, which has the faults of its
    /// file and `more`, to which further rules can be added.
    #[must_use]
    pub fn faulty(&self, more: &[Rule], seed: u64) -> Faulty {
        let rules = [self.faults.as_slice(), more].concat();
        Faulty::new(self.blueprint.build_seeded(self.facts, seed), &rules, seed)
    }

    /// A fresh device of this kind without the faults of its file; its draws are those of seed 0.
    #[must_use]
    pub fn sound_model(&self) -> Box<dyn Model> {
        self.blueprint.build(self.facts)
    }

    /// The model's name.
    #[must_use]
    pub const fn model_name(&self) -> &'static str {
        self.model
    }
}

/// The section with what a device reports about itself.
fn facts(sections: &mut Sections<'_>) -> Result<DeviceFacts, DeviceFileError> {
    let default = DeviceFacts::default();
    let mut fields = sections.open("facts");
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

/// The section of faults.
fn faults(sections: &mut Sections<'_>) -> Result<Vec<Rule>, DeviceFileError> {
    let mut fields = sections.open("faults");
    let rules = fields.list("rules", |rule| {
        let text = rule.as_str().ok_or("each rule is a text, as `\"error every=100\"`")?;
        text.parse()
    })?;
    fields.finish()?;
    Ok(rules.unwrap_or_default())
}

/// Every number: the device's facts, the model's own, the faults, the host's.
fn parameters(raw: &RawDescription) -> Vec<Parameter> {
    let rank = |section: &str| match section {
        "facts" => 0,
        "faults" => 2,
        "host" => 3,
        _ => 1,
    };
    let mut names: Vec<&String> = raw.sections.keys().collect();
    names.sort_by_key(|name| rank(name));
    let mut all = Vec::new();
    for section in names {
        for (name, parameter) in raw.sections[section].as_ref() {
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

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = include_str!("../devices/flash-card-2010.toml");

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
                "card.toml:4: there is no model `cubic`; there are `array`, `hdd`, `linear`, \
                 `null`, `ssd`",
            ),
        ] {
            assert_eq!(refusal(from, to), expected);
        }
        assert!(refusal(", source = \"fitted: with base\"", "").contains("missing field `source`"));
        assert!(refusal("[facts]", "[facts").starts_with("card.toml:"));
    }
}
