// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file or block device on which jobs run for real.
//!
//! It is opened once before anything runs, so that everything that is wrong is said first, and
//! again for each run. Jobs that only read get a file that is open only to be read. Jobs that write
//! are refused where something else lives on the device, unless `--force` says otherwise.

use std::path::PathBuf;

use paternoster::{Device, DeviceFacts};
use paternoster_serve::device::in_use::in_use;
use paternoster_serve::device::real::RealDevice;

use crate::Failure;

/// A file or block device.
#[derive(Debug, Clone)]
pub(crate) struct RealFile {
    path: PathBuf,
    readonly: bool,
    /// I/Os are multiples of so many bytes.
    block: u32,
    /// What it runs on, and what one should know of it.
    notes: Vec<String>,
}

impl RealFile {
    /// The file of this name, and what it says of itself.
    pub(crate) fn find(
        name: &str,
        writes: bool,
        force: bool,
        seed: u64,
    ) -> Result<(RealFile, DeviceFacts), Failure> {
        let path = PathBuf::from(name);
        let uses = in_use(&path).map_err(|error| Failure::Request(format!("{name}: {error}")))?;
        if writes && !force && !uses.is_empty() {
            return Err(Failure::Request(format!(
                "{}: these jobs would write over it; --force does so all the same",
                uses.join(", ")
            )));
        }
        let (device, note) = RealDevice::open(&path, !writes, seed)?;
        let how = format!("{name}: for real: {}", device.describe());
        let notes = [how].into_iter().chain(note).collect();
        let file = RealFile { path, readonly: !writes, block: device.file().block, notes };
        Ok((file, device.facts()))
    }

    /// Opens it for a run.
    pub(crate) fn open(&self, seed: u64) -> Result<RealDevice, Failure> {
        Ok(RealDevice::open(&self.path, self.readonly, seed)?.0)
    }

    /// I/Os are multiples of so many bytes.
    pub(crate) const fn block(&self) -> u32 {
        self.block
    }

    /// What one should know before a run.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}
