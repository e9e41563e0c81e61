// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: the language of the control socket, one JSON object a line.
//!
//! ```text
//! {"do":"weight","name":"db","weight":300}   ──▶ Request { device: None, what: Order(Weight …) }
//!   │     │       └ fields, of the forms below
//!   │     └ which form
//!   └ always
//! ```
//!
//! Objects are flat: texts, whole numbers, true and false. That leaves nothing that could nest, so
//! depth is bounded by one; length is bounded by [`LINE_LIMIT`].
//!
//! Invariants: I1 a refusal names the field, its value, and what would be right; I2 an unknown
//! field is refused: a typing error must not pass for an order.

use std::fmt::Write as _;
use std::path::PathBuf;

use paternoster_core::Class;

use super::order::Order;
use crate::config::ServiceClass;
use fields::{Fields, shown};

mod fields;

/// Bytes of a line at most, without its end.
pub const LINE_LIMIT: usize = 64 << 10;
/// Weights are at most this.
pub const MAX_WEIGHT: u32 = 10_000;
/// Levels are at most this.
pub const MAX_LEVEL: u8 = 7;
/// The default level.
const DEFAULT_LEVEL: u8 = 4;

/// A parsed line of the control language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The only device that it concerns; `None`: all.
    pub device: Option<String>,
    /// The request itself.
    pub what: What,
}

/// A request to the server or its loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The requests that there are.
    Help,
    /// Devices, volumes, tenants, connections, without figures.
    List,
    /// The server ends once its connections have finished.
    Stop,
    /// The server reads its configuration again.
    Reload,
    /// The server writes what was ordered into its configuration.
    Save,
    /// Another process takes over, by this version.
    Handover(u32),
    /// Something of one loop or several.
    Order(Order),
}

impl What {
    /// Whether it changes nothing. What is not here is an order, so that a new one is, too.
    #[must_use]
    pub const fn only_asks(&self) -> bool {
        match self {
            What::Help | What::List => true,
            What::Order(order) => matches!(
                order,
                Order::Snapshot
                    | Order::Attributes
                    | Order::Attribute { value: None, .. }
                    | Order::Explain { .. }
            ),
            What::Stop | What::Reload | What::Save | What::Handover(_) => false,
        }
    }
}

/// One request of the language, for the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The value of `"do"`.
    pub name: &'static str,
    /// Fields of the request.
    pub fields: &'static [Field],
    /// What the request does, in words.
    pub meaning: &'static str,
}

/// A field of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// The values that the field takes.
    pub takes: &'static str,
    /// Whether the field may be left out.
    pub optional: bool,
}

const fn needs(name: &'static str, takes: &'static str) -> Field {
    Field { name, takes, optional: false }
}

const fn may(name: &'static str, takes: &'static str) -> Field {
    Field { name, takes, optional: true }
}

const DEVICE: Field = may("device", "a device's name");
const VOLUME: Field = needs("volume", "a volume's name");
const ATTRIBUTE: Field = needs("attribute", "an attribute's name, as in sysfs");

/// The whole language.
pub const FORMS: &[Form] = &[
    Form { name: "help", fields: &[], meaning: "what can be asked" },
    Form {
        name: "list",
        fields: &[DEVICE],
        meaning: "devices, volumes, tenants, connections, without figures",
    },
    Form { name: "snapshot", fields: &[DEVICE], meaning: "the same with all figures" },
    Form {
        name: "weight",
        fields: &[
            needs("name", "a tenant or a group"),
            needs("weight", "a whole number from 1 to 10000"),
            DEVICE,
        ],
        meaning: "a tenant's or a group's weight, on every device that knows it",
    },
    Form {
        name: "class",
        fields: &[
            needs("name", "a tenant"),
            needs("class", "best-effort, realtime, idle or background"),
            may("minimum", "a percentage like 5%, for background"),
            may("level", "a whole number from 0 to 7"),
            DEVICE,
        ],
        meaning: "a tenant's class and level, on every device that knows it",
    },
    Form {
        name: "scheduler",
        fields: &[needs("name", "a scheduler"), DEVICE],
        meaning: "another scheduler; what waits is handed over",
    },
    Form { name: "attributes", fields: &[DEVICE], meaning: "all attributes with their values" },
    Form { name: "get", fields: &[ATTRIBUTE, DEVICE], meaning: "an attribute's value" },
    Form {
        name: "set",
        fields: &[ATTRIBUTE, needs("value", "what the attribute takes"), DEVICE],
        meaning: "sets an attribute",
    },
    Form {
        name: "drain",
        fields: &[VOLUME, DEVICE],
        meaning: "a volume takes no more requests; answers when the last has ended",
    },
    Form {
        name: "resume",
        fields: &[VOLUME, DEVICE],
        meaning: "a drained volume takes requests again",
    },
    Form {
        name: "explain",
        fields: &[may("tenant", "only this tenant"), DEVICE],
        meaning: "the effective weight at every level and why; who waits for what",
    },
    Form {
        name: "trace",
        fields: &[
            may("prefix", "an absolute path: begins PREFIX.blktrace.0"),
            may("stop", "true: ends the trace"),
            DEVICE,
        ],
        meaning: "begins a blktrace of a device, or ends it",
    },
    Form {
        name: "reload",
        fields: &[],
        meaning: "reads the configuration file again and takes over what can be changed",
    },
    Form {
        name: "save",
        fields: &[],
        meaning: "writes what was ordered of tenants, schedulers and attributes into the file",
    },
    Form {
        name: "handover",
        fields: &[needs("version", "a whole number: how both are to speak")],
        meaning: "gives everything to the process that asks: `paternoster serve --take-over`",
    },
    Form { name: "stop", fields: &[], meaning: "connections finish, then the server ends" },
];

/// Reads a line, without its end.
///
/// # Errors
/// What is wrong, where, and what would be right.
pub fn parse(line: &[u8]) -> Result<Request, String> {
    if line.len() > LINE_LIMIT {
        return Err(format!("the line is longer than {LINE_LIMIT} bytes"));
    }
    let mut fields = Fields::parse(line)?;
    let word = fields.take("do").ok_or_else(|| {
        format!("there is no field \"do\": it says what to do, one of {}", names())
    })?;
    let word = word.text("do", "a text")?;
    let form = FORMS
        .iter()
        .find(|form| form.name == word)
        .ok_or_else(|| format!("field \"do\" is {}: it takes one of {}", shown(&word), names()))?;
    fields.only(form)?;
    let device = fields.optional(&DEVICE)?;
    Ok(Request { device, what: what(form, &mut fields)? })
}

fn names() -> String {
    let mut names = String::new();
    for form in FORMS {
        let between = if names.is_empty() { "" } else { ", " };
        let _ = write!(names, "{between}{}", form.name);
    }
    names
}

fn what(form: &Form, fields: &mut Fields) -> Result<What, String> {
    Ok(What::Order(match form.name {
        "help" => return Ok(What::Help),
        "list" => return Ok(What::List),
        "stop" => return Ok(What::Stop),
        "reload" => return Ok(What::Reload),
        "save" => return Ok(What::Save),
        "handover" => {
            let version = fields.number(form, "version", 0, u32::MAX)?;
            let missing = || "\"handover\" wants the field \"version\": a whole number".to_owned();
            return Ok(What::Handover(version.ok_or_else(missing)?));
        }
        "snapshot" => Order::Snapshot,
        "weight" => weight(form, fields)?,
        "class" => class(form, fields)?,
        "scheduler" => Order::Scheduler { name: fields.needed(form, "name")? },
        "attributes" => Order::Attributes,
        "get" => Order::Attribute { name: fields.needed(form, "attribute")?, value: None },
        "set" => Order::Attribute {
            name: fields.needed(form, "attribute")?,
            value: Some(fields.plain(form, "value")?),
        },
        "drain" => Order::Drain { volume: fields.needed(form, "volume")? },
        "resume" => Order::Resume { volume: fields.needed(form, "volume")? },
        "explain" => Order::Explain { tenant: fields.optional(&form.fields[0])? },
        _ => trace(form, fields)?,
    }))
}

fn weight(form: &Form, fields: &mut Fields) -> Result<Order, String> {
    let name = fields.needed(form, "name")?;
    let weight = fields.number(form, "weight", 1, MAX_WEIGHT)?;
    let missing = || format!("\"weight\" wants the field \"weight\": {}", form.fields[1].takes);
    Ok(Order::Weight { name, weight: weight.ok_or_else(missing)? })
}

fn class(form: &Form, fields: &mut Fields) -> Result<Order, String> {
    let name = fields.needed(form, "name")?;
    let word = fields.needed(form, "class")?;
    let minimum = fields.optional(&form.fields[2])?;
    let minimum = minimum.map(|text| {
        let takes = form.fields[2].takes;
        thousandths(&text)
            .ok_or_else(|| format!("field \"minimum\" is {}: it takes {takes}", shown(&text)))
    });
    let class = match (word.as_str(), minimum.transpose()?) {
        ("background", Some(minimum)) => ServiceClass::Background { minimum },
        ("background", None) => {
            return Err(
                "class background wants the field \"minimum\": the part of the device that \
                        it never gets less of, like 5%"
                    .to_owned(),
            );
        }
        ("best-effort" | "realtime" | "idle", Some(_)) => {
            return Err(format!("field \"minimum\" is for class background, not for {word}"));
        }
        ("best-effort", None) => ServiceClass::Kernel(Class::BestEffort),
        ("realtime", None) => ServiceClass::Kernel(Class::Realtime),
        ("idle", None) => ServiceClass::Kernel(Class::Idle),
        _ => {
            let takes = form.fields[1].takes;
            return Err(format!("field \"class\" is {}: it takes {takes}", shown(&word)));
        }
    };
    let level = fields.number(form, "level", 0, u32::from(MAX_LEVEL))?;
    let level = level.and_then(|level| u8::try_from(level).ok()).unwrap_or(DEFAULT_LEVEL);
    Ok(Order::Class { name, class, level })
}

fn trace(form: &Form, fields: &mut Fields) -> Result<Order, String> {
    let prefix = fields.optional(&form.fields[0])?;
    match (prefix, fields.flag("stop")?) {
        (Some(prefix), false) if prefix.starts_with('/') => {
            Ok(Order::Trace { prefix: Some(PathBuf::from(prefix)) })
        }
        (Some(prefix), false) => {
            let takes = form.fields[0].takes;
            Err(format!("field \"prefix\" is {}: it takes {takes}", shown(&prefix)))
        }
        (None, true) => Ok(Order::Trace { prefix: None }),
        _ => Err("\"trace\" wants either \"prefix\", to begin, or \"stop\": true".to_owned()),
    }
}

/// `5%` and `2.5%` in thousandths.
fn thousandths(text: &str) -> Option<u16> {
    let number = text.strip_suffix('%')?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(tenths) || tenths.len() != 1 {
        return None;
    }
    let whole: u16 = whole.parse().ok().filter(|whole| *whole <= 100)?;
    let thousandths = whole * 10 + tenths.parse::<u16>().ok()?;
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests;
