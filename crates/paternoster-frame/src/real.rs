// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file or block device on which jobs run for real.
//!
//! It is opened once before anything runs, so that everything that is wrong is reported first, and
//! again for each run. For jobs that only read, the file is opened read-only. Jobs that write are
//! refused where the device is in use or another program has it open for writing, unless `--force`
//! says otherwise.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paternoster_core::{Device, DeviceFacts};
use paternoster_serve::config::{Device as Served, Volume};
use paternoster_serve::device::claim::{ClaimError, Claims};
use paternoster_serve::device::in_use::in_use;
use paternoster_serve::device::real::RealDevice;

use crate::Failure;

/// A file or block device.
#[derive(Debug, Clone)]
pub struct RealFile {
    path: PathBuf,
    readonly: bool,
    /// I/Os are multiples of this many bytes.
    block: u32,
    /// What the job runs on, and notes about it.
    notes: Vec<String>,
    /// Keeps others off it while jobs write to it.
    _claim: Arc<Claims>,
}

impl RealFile {
    /// The file of this name, and what it reports of itself.
    pub fn find(
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
        let (claim, claimed) = claim(&path, writes, force)?;
        let (device, note) = RealDevice::open(&path, !writes, seed)?;
        let how = format!("{name}: for real: {}", device.describe());
        let notes = [how].into_iter().chain(note).chain(claimed).collect();
        let block = device.file().block;
        let file = RealFile { path, readonly: !writes, block, notes, _claim: claim };
        Ok((file, device.facts()))
    }

    /// Opens it for a run.
    pub fn open(&self, seed: u64) -> Result<RealDevice, Failure> {
        Ok(RealDevice::open(&self.path, self.readonly, seed)?.0)
    }

    /// I/Os are multiples of this many bytes.
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// What to know before a run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Claims a file that is written to, so that other programs keep off it; the error says what was in
/// the way. Jobs that only read need no claim.
fn claim(path: &Path, writes: bool, force: bool) -> Result<(Arc<Claims>, Vec<String>), Failure> {
    if !writes {
        return Ok(Default::default());
    }
    let mut device = Served::new("run");
    device.volumes.push(Volume::new("run", path));
    let mut claims = Claims::take(&[device], force).map_err(|error| match error {
        ClaimError::Taken { path, what } => Failure::Request(format!(
            "{}: {what}; these jobs would write over it; --force does so all the same",
            path.display()
        )),
        error => Failure::Request(error.to_string()),
    })?;
    let notes = std::mem::take(&mut claims.notes);
    Ok((Arc::new(claims), notes))
}
