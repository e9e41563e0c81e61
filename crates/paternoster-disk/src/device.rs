// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device: which device a disk imitates, and what of it is simulated.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use paternoster_core::near;
use paternoster_sim::{Description, catalog};

/// Operations that may wait for a place in the device, by default.
const QUEUE: usize = 1 << 16;

/// A device that disks can be made of: a built-in one, or one from the text of a device file.
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) description: Description,
    pub(crate) keeps_data: bool,
    pub(crate) queue: usize,
}

impl Device {
    /// A built-in device, such as `ssd-870evo`; [`Device::names`] lists them all.
    ///
    /// # Errors
    /// [`DeviceError`] with the names that exist, if `name` is not one of them.
    pub fn named(name: &str) -> Result<Device, DeviceError> {
        match catalog::by_name(name) {
            Some(description) => Device::of(description),
            None => {
                let hint = near::hint(name, Device::names());
                Err(DeviceError(format!("no built-in device is called `{name}`{hint}")))
            }
        }
    }

    /// A device from the text of a device file; `file` is its name in messages. The repository's
    /// page `docs/own-device.md` has the format.
    ///
    /// # Errors
    /// [`DeviceError`] with the line and what would be valid.
    pub fn parse(file: &str, text: &str) -> Result<Device, DeviceError> {
        Device::of(Description::parse(file, text))
    }

    fn of<E: ToString>(description: Result<Description, E>) -> Result<Device, DeviceError> {
        match description {
            Ok(description) => Ok(Device { description, keeps_data: true, queue: QUEUE }),
            Err(error) => Err(DeviceError(error.to_string())),
        }
    }

    /// The names of the built-in devices.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        catalog::FILES.iter().map(|(name, _)| *name)
    }

    /// Only time is simulated: writes need no data, reads return none, images are empty. The disk's
    /// memory does not grow then.
    #[must_use]
    pub fn without_data(mut self) -> Device {
        self.keeps_data = false;
        self
    }

    /// How many operations may wait for a place in the device (at least 1; 65,536 by default): more
    /// are refused as [`crate::Refusal::Full`]. Operations in the device do not count.
    #[must_use]
    pub fn queue(mut self, operations: usize) -> Device {
        self.queue = operations.max(1);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// One sentence about it.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.description.summary
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.description.facts.capacity * 512
    }

    /// Commands that the device does at a time; more wait.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.description.facts.depth
    }

    /// Whether a completed write may be lost with the power until a flush has completed.
    #[must_use]
    pub const fn has_volatile_cache(&self) -> bool {
        self.description.facts.write_cache
    }
}

/// Why there is no such device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceError(String);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for DeviceError {}

/// Why an episode is invalid: the text, the word, and what would be valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeError(pub(crate) String);

impl EpisodeError {
    pub(crate) fn without_data(text: &str) -> EpisodeError {
        EpisodeError(format!("the rule `{}`: this disk keeps no data", text.trim()))
    }
}

impl fmt::Display for EpisodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for EpisodeError {}
