// SPDX-License-Identifier: MIT OR Apache-2.0
//! In a program built without `serve` no file or block device can be found: there is no value of
//! this type.

use paternoster_core::DeviceFacts;
use paternoster_sim::{Model, Simulated};

use crate::Failure;

/// A file or block device, which never exists.
#[derive(Debug, Clone)]
pub enum RealFile {}

impl RealFile {
    /// The refusal.
    pub fn find(name: &str, _: bool, _: bool, _: u64) -> Result<(RealFile, DeviceFacts), Failure> {
        Err(Failure::left_out(&format!("--device {name}, for real"), "serve"))
    }

    /// No target can be opened.
    pub fn open(&self, _: u64) -> Result<Simulated<Box<dyn Model>>, Failure> {
        match *self {}
    }

    /// No target can be asked.
    pub const fn block(&self) -> u32 {
        match *self {}
    }

    /// No target has notes.
    pub fn notes(&self) -> &[String] {
        match *self {}
    }
}
