// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: devices and processes that a trace names, and the numbers that represent them.
//!
//! ```text
//! hm_0   ▶ 240,0      in order of appearance; 240 is one of the majors that Linux leaves to
//! hm_1   ▶ 240,1      local use, so that no real device is meant
//! ```
//!
//! A process is identified by its number and its name: one that changes its name is announced
//! again.
//!
//! Invariants: I1 at most [`DEVICES_MAX`] devices and [`PROCESSES_MAX`] names of processes are
//! kept; I2 a name has one number, as long as the trace lasts.

use std::collections::HashMap;

use super::fields::Wrong;
use crate::blktrace::DeviceNumber;

/// Major number of devices that have a name and no number.
pub const MAJOR: u32 = 240;
/// Devices of one trace; lines of further ones are refused.
pub const DEVICES_MAX: usize = 1 << 16;
/// Process names that are kept for one trace; further processes have none.
pub const PROCESSES_MAX: usize = 1 << 16;
/// Bytes of a process's name, as the kernel has it.
pub(super) const COMM: usize = 16;

/// The names of one trace.
#[derive(Debug, Default)]
pub(super) struct Names {
    devices: Vec<String>,
    /// Number of a device by what the trace writes.
    numbers: HashMap<Box<[u8]>, DeviceNumber>,
    /// The device of the last line, which mostly is the next one's too.
    last_key: Vec<u8>,
    last_device: Option<DeviceNumber>,
    processes: Vec<(u32, [u8; COMM])>,
    process_numbers: HashMap<(u32, [u8; COMM]), u32>,
}

impl Names {
    /// The number of the device for which the trace writes `key`; `name` makes its name of that.
    #[inline]
    pub(super) fn device<'t>(
        &mut self,
        key: &'t [u8],
        name: impl FnOnce(&str) -> String,
    ) -> Result<DeviceNumber, Wrong<'t>> {
        if let Some(device) = self.last_device.filter(|_| self.last_key == key) {
            return Ok(device);
        }
        let device = match self.numbers.get(key) {
            Some(device) => *device,
            None => self.new_device(key, name)?,
        };
        self.last_device = Some(device);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(device)
    }

    fn new_device<'t>(
        &mut self,
        key: &'t [u8],
        name: impl FnOnce(&str) -> String,
    ) -> Result<DeviceNumber, Wrong<'t>> {
        let room = self.devices.len() < DEVICES_MAX;
        let minor = u32::try_from(self.devices.len()).ok().filter(|_| room && !key.is_empty());
        let Some(minor) = minor else {
            return Err(Wrong { text: key, right: "one of the first 65536 devices" });
        };
        let device = DeviceNumber::new(MAJOR, minor);
        self.devices.push(name(&String::from_utf8_lossy(key)));
        self.numbers.insert(key.into(), device);
        Ok(device)
    }

    /// The name of a device that got its number here.
    pub(super) fn of_device(&self, device: DeviceNumber) -> Option<&str> {
        let place = (device.major() == MAJOR).then_some(device.minor() as usize)?;
        self.devices.get(place).map(String::as_str)
    }

    /// The number of a process's name, from 1; 0 if it has none or there are too many.
    pub(super) fn process(&mut self, pid: u32, name: &[u8]) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let mut comm = [0; COMM];
        // The kernel keeps fifteen bytes and a zero.
        let kept = name.len().min(COMM - 1);
        comm[..kept].copy_from_slice(&name[..kept]);
        if let Some(number) = self.process_numbers.get(&(pid, comm)) {
            return *number;
        }
        if self.processes.len() >= PROCESSES_MAX {
            return 0;
        }
        self.processes.push((pid, comm));
        let number = u32::try_from(self.processes.len()).unwrap_or(0);
        self.process_numbers.insert((pid, comm), number);
        number
    }

    /// A process's name from its number, filled with zeros.
    pub(super) fn of_process(&self, number: u32) -> Option<[u8; COMM]> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.processes.get(place).map(|(_, comm)| *comm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Do devices get numbers in order of appearance, and keep them?
    #[test]
    fn devices_are_numbered_in_order_of_appearance() {
        let mut names = Names::default();
        for (key, minor) in [("hm", 0), ("src1", 1), ("hm", 0), ("src1", 1), ("web", 2)] {
            let device = names.device(key.as_bytes(), |name| format!("{name}_0"));
            assert_eq!(device, Ok(DeviceNumber::new(MAJOR, minor)));
        }
        assert_eq!(names.of_device(DeviceNumber::new(240, 1)), Some("src1_0"));
        assert_eq!(names.of_device(DeviceNumber::new(240, 3)), None);
        assert_eq!(names.of_device(DeviceNumber::new(8, 0)), None);
    }

    /// Is the number of devices and processes limited?
    #[test]
    fn there_is_an_end_to_names() {
        let mut names = Names::default();
        for number in 0..u32::try_from(DEVICES_MAX).unwrap() {
            let key = number.to_string();
            assert!(names.device(key.as_bytes(), str::to_owned).is_ok());
            assert_eq!(names.process(number, b"fio"), number + 1);
        }
        assert!(names.device(b"one more", str::to_owned).is_err());
        assert!(names.device(b"7", str::to_owned).is_ok());
        assert_eq!(names.process(99_999, b"fio"), 0);
    }

    /// Is a process with another name another one, and a long name cut as the kernel does?
    #[test]
    fn processes_are_number_and_name() {
        let mut names = Names::default();
        let numbers = [names.process(5, b"bash"), names.process(5, b"ls"), names.process(5, b"")];
        assert_eq!(numbers, [1, 2, 0]);
        assert_eq!(names.process(5, b"bash"), 1);
        let long = names.process(6, b"seventeen letters");
        assert_eq!(names.of_process(long), Some(*b"seventeen lette\0"));
        assert_eq!(names.of_process(0), None);
    }
}
