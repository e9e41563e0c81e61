// SPDX-License-Identifier: MIT OR Apache-2.0
//! Section: where a job was said, and what of it the report repeats.
//!
//! Fields have the names of fio's options.
//!
//! Source: FIO-19.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Where an option of a job was given.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    /// Source, or `command line`.
    pub file: String,
    /// Line in it; on the command line the number of the argument.
    pub line: u32,
    /// The line's text.
    pub text: String,
}

/// The place of the job in its file, and the options that the report repeats.
#[derive(Debug, Clone)]
pub struct Section {
    /// This section's options with a value, in order, variables replaced: the report's `job
    /// options`.
    pub given: Vec<(String, String)>,
    /// Source that holds the section.
    pub file: String,
    /// Line of its header.
    pub line: u32,
    /// Where each option was given last, by its own name; inherited ones too.
    pub origins: BTreeMap<&'static str, Arc<Origin>>,
    /// Free text.
    pub description: Option<String>,
}

impl Default for Section {
    fn default() -> Section {
        Section {
            given: Vec::new(),
            file: String::new(),
            line: 1,
            origins: BTreeMap::new(),
            description: None,
        }
    }
}
