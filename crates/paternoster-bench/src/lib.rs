// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing: criterion's benches are in `benches/`. They are a separate crate so that tests of the
//! others need not build criterion.
