// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures as a browser shows them, and as PNG. Needs chromium, which `./test --full` installs:
//!
//! ```text
//! cargo test -p paternoster-trace --features png --test pictures
//! ```

#[path = "../all/common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "pictures need few of them")]
mod common;

mod browser;
// Only if the crate can draw them.
#[cfg(feature = "png")]
mod png;
mod scenes;
