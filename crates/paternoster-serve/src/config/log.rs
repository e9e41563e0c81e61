// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the log tells (`log-level`), and how its lines are written (`log-format`).

use std::fmt;
use std::str::FromStr;

use super::near;

/// How much a line matters; the log tells those up to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Data may be lost, or something is not served.
    Error,
    /// A device, a client or the configuration is not as it should be.
    Warning,
    /// What happens: clients come and go, orders are carried out.
    #[default]
    Info,
    /// Also logs each request.
    Debug,
}

/// How a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Level {
    const ALL: [Level; 4] = [Level::Error, Level::Warning, Level::Info, Level::Debug];

    /// The level's name, as in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        Level::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| {
            let hint = near::hint(text, Level::ALL.map(Level::name));
            format!("`error`, `warning`, `info` or `debug`{hint}")
        })
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("`text` or `json`".to_owned()),
        }
    }
}
