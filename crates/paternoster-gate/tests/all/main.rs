// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate from outside: its face, laws that hold for loads that nobody chose, threads and tasks.
#![cfg(not(feature = "shuttle"))]

mod face;
mod laws;
mod rates;
mod shell;
