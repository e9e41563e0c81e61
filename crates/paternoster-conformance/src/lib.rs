// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of what real kernels decided, and nothing else: this crate's tests hold our elevators
//! to them.
//!
//! ```text
//! recordings/cfq-decisions/B.log.coop.log.zst
//!            └ folder      └ name
//! ```
//!
//! They are part of this crate and must exist: requesting a missing one panics.
//!
//! Source: `recordings/README.md`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::{File, read_to_string};
use std::io::Read;
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;

// The example on the project's front page. It is tried here because this crate is never packed, and
// a package has no README but its own.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeOfTheProject;

/// What a log's file ends with.
const ENDING: &str = ".log.zst";

/// The folder of a kernel's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Linux 4.19.1: cfq, deadline and noop, with flushes.
    Cfq,
    /// Linux 6.18: bfq.
    Bfq,
}

impl Folder {
    /// Where it lies.
    #[must_use]
    pub fn path(self) -> PathBuf {
        let name = match self {
            Folder::Cfq => "cfq-decisions",
            Folder::Bfq => "bfq-decisions",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings").join(name)
    }

    /// The names of its logs, in the order of their files.
    ///
    /// # Panics
    /// If the folder cannot be read.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let path = self.path();
        let files = path.read_dir().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut names: Vec<String> = files
            .map(|file| file.expect("a folder's entry").file_name().into_string().expect("a name"))
            .filter(|name| name.ends_with(ENDING))
            .collect();
        names.sort();
        names.iter_mut().for_each(|name| name.truncate(name.len() - ENDING.len()));
        names
    }

    /// The text of a log.
    ///
    /// # Panics
    /// If it is not there, or not what it was.
    #[must_use]
    pub fn log(self, name: &str) -> String {
        let path = self.path().join(format!("{name}{ENDING}"));
        unpacked(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

fn unpacked(path: &Path) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    StreamingDecoder::new(File::open(path)?)?.read_to_string(&mut text)?;
    Ok(text)
}

/// What the processes of Linux 4.19.1 got, in each run of a table: JSON.
///
/// # Panics
/// If it is not there.
#[must_use]
pub fn results() -> String {
    let path = Folder::Cfq.path().join("results.json");
    read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
