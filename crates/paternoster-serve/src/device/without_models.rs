// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of devices, in a program that was built without them (feature `instruments`): a
//! configuration that asks for one is refused.

use std::convert::Infallible;

use super::Backend;
use super::files::File;
use super::open::OpenError;

const ABSENT: &str = "this program was built without models of devices; build it with \
                      `--features instruments`, or with the default features";

/// There is none.
pub(super) type Description = Infallible;

pub(super) fn find(name: &str) -> Result<Description, OpenError> {
    Err(OpenError::Model { name: name.to_owned(), why: ABSENT.to_owned() })
}

/// Why there are none.
pub(crate) fn known() -> Result<Vec<&'static str>, &'static str> {
    Err(ABSENT)
}

pub(super) fn backend(_: Vec<File>, model: &Description, _: Option<u32>) -> Box<dyn Backend> {
    match *model {}
}
