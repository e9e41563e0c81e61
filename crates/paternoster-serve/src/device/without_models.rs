// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stands in for models of devices in a program built without the feature `instruments`: a
//! configuration that asks for a model is refused.

use std::convert::Infallible;

use super::Backend;
use super::files::File;
use super::open::OpenError;

const ABSENT: &str = "this program was built without models of devices; build it with \
                      `--features instruments`, or with the default features";

/// No model can exist.
pub(super) type Description = Infallible;

pub(super) fn find(name: &str) -> Result<Description, OpenError> {
    Err(OpenError::Model { name: name.to_owned(), why: ABSENT.to_owned() })
}

/// The message: this program was built without models.
pub(crate) fn known() -> Result<Vec<&'static str>, &'static str> {
    Err(ABSENT)
}

pub(super) fn backend(_: Vec<File>, model: &Description, _: Option<u32>) -> Box<dyn Backend> {
    match *model {}
}
