// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reliability: a test for each thing that clients, devices and administrators do wrong.
//!
//! | who | does | where |
//! |---|---|---|
//! | a client | dies, stalls, sends garbage, asks past the end, floods | `clients` |
//! | a client | wants all of the memory, all of one block | `greed` |
//! | many clients | come at once, or are too many | `crowd` |
//! | a device | fails, refuses, returns short, is full | `devices` |
//! | an administrator | drains, stops, kills, starts again | `ends` |
//! | a client | does so under TLS | `secure` |
//! | a client | speaks to the wrong socket | `doors` |
//! | a client | never chooses, or stalls, against the clock | `tests/real_time/patience.rs` |
//!
//! Next to each of them a client behaves well and must not notice. At the end no memory is in use,
//! nothing is under way, and no departed client is connected.

mod clients;
mod crowd;
mod devices;
mod doors;
mod ends;
mod greed;
mod secure;
