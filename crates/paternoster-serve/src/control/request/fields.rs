// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields: a flat JSON object, taken apart by name.
//!
//! `{"do":"weight","name":"db","weight":300}` is three fields. Lists and objects inside are refused
//! where they begin, so that nothing is built of them; a repeated name is refused, too, since only
//! one of the two was meant.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::Form;

/// More fields than any form has.
const MOST: usize = 16;
/// Characters of an offending text that a message repeats.
const SHOWN: usize = 60;

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Text(String),
    Number(u64),
    Flag(bool),
    /// Another number, or null: as it is shown.
    Other(String),
}

impl Scalar {
    /// The text, or why the field has none.
    pub(super) fn text(self, name: &str, takes: &str) -> Result<String, String> {
        match self {
            Scalar::Text(text) if !text.is_empty() => Ok(text),
            other => Err(format!("field \"{name}\" is {other}: it takes {takes}")),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Text(text) => f.write_str(&shown(text)),
            Scalar::Number(number) => write!(f, "{number}"),
            Scalar::Flag(flag) => write!(f, "{flag}"),
            Scalar::Other(text) => f.write_str(text),
        }
    }
}

/// A text as messages show it: quoted, without control characters, not too long.
pub(super) fn shown(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return format!("{text:?}");
    }
    let beginning: String = text.chars().take(SHOWN).collect();
    format!("{beginning:?}…")
}

/// The fields that have not been read yet.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, Scalar)>);

impl Fields {
    pub(super) fn parse(line: &[u8]) -> Result<Fields, String> {
        serde_json::from_slice(line).map_err(|error| {
            let place = error.to_string().replace(" at line 1 column ", " at column ");
            format!("{place}; a line is one JSON object, as {{\"do\":\"help\"}}")
        })
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Scalar> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Refuses fields that the form does not have.
    pub(super) fn only(&self, form: &Form) -> Result<(), String> {
        let known = |name: &str| form.fields.iter().any(|field| field.name == name);
        let Some((name, _)) = self.0.iter().find(|(name, _)| !known(name)) else { return Ok(()) };
        let names: Vec<&str> = form.fields.iter().map(|field| field.name).collect();
        let takes = if names.is_empty() { "no fields".to_owned() } else { names.join(", ") };
        Err(format!("there is no field {} in \"{}\": it takes {takes}", shown(name), form.name))
    }

    /// A text that may be left out.
    pub(super) fn optional(&mut self, field: &super::Field) -> Result<Option<String>, String> {
        self.take(field.name).map(|value| value.text(field.name, field.takes)).transpose()
    }

    /// A text that the form cannot do without.
    pub(super) fn needed(&mut self, form: &Form, name: &str) -> Result<String, String> {
        let takes = takes(form, name);
        match self.take(name) {
            Some(value) => value.text(name, takes),
            None => Err(format!("\"{}\" wants the field \"{name}\": {takes}", form.name)),
        }
    }

    /// A text, or a number or truth as text, that the form cannot do without; may be empty.
    pub(super) fn plain(&mut self, form: &Form, name: &str) -> Result<String, String> {
        match self.take(name) {
            Some(Scalar::Text(text)) => Ok(text),
            Some(value) => Ok(value.to_string()),
            None => {
                let takes = takes(form, name);
                Err(format!("\"{}\" wants the field \"{name}\": {takes}", form.name))
            }
        }
    }

    /// A number within bounds that may be left out.
    pub(super) fn number(
        &mut self,
        form: &Form,
        name: &str,
        least: u32,
        most: u32,
    ) -> Result<Option<u32>, String> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = match value {
            Scalar::Number(number) => u32::try_from(number).ok(),
            _ => None,
        };
        let within = number.filter(|number| (least..=most).contains(number));
        let takes = takes(form, name);
        let wrong = || format!("field \"{name}\" is {value}: it takes {takes}");
        Ok(Some(within.ok_or_else(wrong)?))
    }

    /// True or false; false if left out.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(false),
            Some(Scalar::Flag(flag)) => Ok(flag),
            Some(value) => Err(format!("field \"{name}\" is {value}: it takes true or false")),
        }
    }
}

fn takes(form: &Form, name: &str) -> &'static str {
    let field = form.fields.iter().find(|field| field.name == name);
    field.map_or("a text", |field| field.takes)
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields: Vec<(String, Scalar)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if fields.len() == MOST {
                return Err(de::Error::custom(format!("more than {MOST} fields")));
            }
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(de::Error::custom(format!("field {} stands twice", shown(&name))));
            }
            let value = map.next_value().map_err(|error: A::Error| {
                let whole = error.to_string();
                let what = whole.split(" at line ").next().unwrap_or("");
                de::Error::custom(format!("field {}: {what}", shown(&name)))
            })?;
            fields.push((name, value));
        }
        Ok(Fields(fields))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true or false")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Other(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Other(number.to_string()))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other("null".to_owned()))
    }
}
