// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate from outside: its interface, laws that hold for random loads, threads and tasks.
#![cfg(not(feature = "shuttle"))]

mod face;
mod laws;
mod rates;
mod shell;
