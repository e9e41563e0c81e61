// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emulate: a modelled device in real time, as a file that anything can be set upon.

use std::path::{Path, PathBuf};

use paternoster::Nanos;
use paternoster_sim::Description;

/// What is emulated, and where.
#[derive(Debug, Clone)]
pub struct Emulated {
    /// The device.
    pub device: Description,
    /// The folder that is mounted on; it is there and empty.
    pub mount: PathBuf,
    /// Where the data are: a file (made sparse if it is not there), or memory.
    pub data: Option<PathBuf>,
    /// Bytes of the file; `None`: as large as the device.
    pub size: Option<u64>,
    /// Users besides our own may open the file.
    pub allow_other: bool,
}

/// How long a kind of command took, as set by the model and as served, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    /// The median.
    pub p50: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
}

/// How precise an emulation was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Precision {
    /// Commands that were measured.
    pub commands: u64,
    /// How long they were to take.
    pub set: Spread,
    /// How long they took, from the kernel's asking to our answer.
    pub served: Spread,
    /// Served time beyond the set time, of each command.
    pub late: Spread,
}

/// A device that is being emulated.
#[derive(Debug)]
pub struct Emulation {
    file: PathBuf,
}

impl Emulation {
    /// Mounts it.
    ///
    /// # Errors
    /// What is missing or was refused, in words.
    pub fn start(_emulated: &Emulated) -> Result<Emulation, String> {
        Err("not yet".to_owned())
    }

    /// The file that is the device.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// How precise it has been so far.
    #[must_use]
    pub fn precision(&self) -> Precision {
        Precision::default()
    }

    /// Unmounts it and says how precise it was.
    ///
    /// # Errors
    /// It could not be unmounted: somebody still has the file open.
    pub fn finish(self) -> Result<Precision, String> {
        Ok(Precision::default())
    }
}
