// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual time: devices that exist only as models.
//!
//! ```text
//! devices/NAME.toml ── description ──▶ Box<dyn Model> ── Simulated ──▶ impl Device
//!                       (numbers, each with its source)   (the clock)
//! ```
//!
//! * [`model`]: what a model is, and the virtual clock in front of it.
//! * [`null`], [`linear`], [`hdd`], [`ssd`], [`mod@array`]: the models.
//! * [`faults`]: errors, delays and stalls in front of any of them.
//! * [`power`]: a disk whose power fails, for the crash test; [`chance`]: random numbers.
//! * [`description`], [`sections`]: device files; [`catalog`]: those that come with the program.
//! * [`mod@drive`]: runs a queue and a model until nothing is left to do, for tests and first
//!   trials.
//! * [`schedulers`]: elevators by name, ours and those that a program registers.
#![forbid(unsafe_code)]

pub mod array;
pub mod catalog;
pub mod description;
pub mod drive;
pub mod faults;
pub mod hdd;
pub mod linear;
pub mod model;
pub mod null;
pub mod power;
mod quantiles;
mod quantity;
pub mod sections;
pub mod ssd;
pub mod transfer;

pub use paternoster_base::{chance, schedulers};

pub use description::{Description, DeviceFileError};
pub use drive::drive;
pub use faults::Rule;
pub use model::{Blueprint, Figure, Model, Simulated};
