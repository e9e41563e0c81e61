// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `replay --decisions` says in a program built without `serve`, which reads the records of a
//! server's decisions.

use std::path::Path;

use paternoster_frame::Failure;
use paternoster_frame::setting::SettingOptions;

pub(super) fn replay(_: &str, _: Option<&Path>, _: &SettingOptions) -> Result<(), Failure> {
    Err(Failure::left_out("replay --decisions", "serve"))
}
