// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options: btt's options, with its own letters.

use std::collections::BTreeMap;

use super::device::Device;
use crate::blktrace::DeviceNumber;

/// What to analyse, and which outputs to make. The default is btt's without options.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `-o`: reports and side files get this name; without it they go to the standard output.
    pub output: Option<String>,
    /// `-A`: figures per process and per device, and a histogram of the times from Q to D.
    pub all: bool,
    /// `-a`: seek distances are always from the end of the last I/O.
    pub absolute_seeks: bool,
    /// `-d`: a pause longer than this ends a range of activity, in seconds.
    pub range_delta: f64,
    /// `-D`: tables have rows for these devices only, in this order; for all if empty. Others count
    /// all the same in figures of the whole system, and have their side files.
    pub devices: Vec<DeviceNumber>,
    /// `-M`: what devices are called.
    pub names: BTreeMap<DeviceNumber, String>,
    /// `-r`: remaps are ignored.
    pub no_remaps: bool,
    /// `-t`: nothing before this, in seconds.
    pub start: Option<f64>,
    /// `-T`: nothing after this, in seconds.
    pub end: Option<f64>,
    /// `-X`: the averages as words, next to the report.
    pub easy: bool,
    /// `-s`: seeks by time.
    pub seeks: Option<String>,
    /// `-m`: seeks per second; only with `-s`.
    pub seeks_per_second: Option<String>,
    /// `-B`: sectors by time.
    pub blocks: Option<String>,
    /// `-q`: times from Q to C.
    pub q2c: Option<String>,
    /// `-l`: times from D to C.
    pub d2c: Option<String>,
    /// `-z`: times from Q to D.
    pub q2d: Option<String>,
    /// `-L`: averages of these times over as many seconds.
    pub periodic: Option<f64>,
    /// `-Q`: how many requests are in the device, by time.
    pub depth: Option<String>,
    /// `-u`: histogram of requests per unplug.
    pub unplugs: Option<String>,
    /// `-Z`: periods of activity.
    pub live: bool,
    /// `-p`: the steps of each I/O.
    pub per_io: Option<String>,
    /// `-P`: times of Q, D, C of each request; the name does not matter.
    pub per_io_trees: bool,
    /// `-I`: figures like iostat's.
    pub iostat: Option<String>,
    /// `-S`: their interval, in seconds.
    pub iostat_interval: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            output: None,
            all: false,
            absolute_seeks: false,
            range_delta: 0.1,
            devices: Vec::new(),
            names: BTreeMap::new(),
            no_remaps: false,
            start: None,
            end: None,
            easy: false,
            seeks: None,
            seeks_per_second: None,
            blocks: None,
            q2c: None,
            d2c: None,
            q2d: None,
            periodic: None,
            depth: None,
            unplugs: None,
            live: false,
            per_io: None,
            per_io_trees: false,
            iostat: None,
            iostat_interval: 1,
        }
    }
}

impl Options {
    /// What files and tables call a device.
    pub(super) fn label(&self, device: DeviceNumber) -> String {
        self.names.get(&device).cloned().unwrap_or_else(|| device.to_string())
    }

    /// What tables call a device.
    pub(super) fn row(&self, device: DeviceNumber) -> String {
        let (major, minor) = (device.major(), device.minor());
        let name = self.names.get(&device).cloned();
        name.unwrap_or_else(|| format!("({major:3},{minor:3})"))
    }

    /// Keeps the devices that tables have a row for, in the tables' order.
    pub(super) fn select(&self, devices: &mut Vec<Device>) {
        if !self.devices.is_empty() {
            devices.retain(|device| self.devices.contains(&device.number));
            devices.sort_by_key(|one| self.devices.iter().position(|own| *own == one.number));
        }
    }

    /// Reads the map of `-M`: lines `NAME MAJOR,MINOR`, possibly below a heading with the word
    /// `Device`.
    ///
    /// # Errors
    /// Says which line is wrong, and what would be right.
    pub fn read_names(text: &str) -> Result<BTreeMap<DeviceNumber, String>, String> {
        let mut names = BTreeMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() || text.contains("Device") {
                continue;
            }
            let (name, device) = name_line(text).ok_or_else(|| {
                let quoted = crate::source::quote(text.as_bytes());
                format!("line {line}: {quoted} is not a name and a device, as in `sda 8,0`")
            })?;
            names.insert(device, name);
        }
        Ok(names)
    }
}

fn name_line(text: &str) -> Option<(String, DeviceNumber)> {
    let mut words = text.split_whitespace();
    let (name, number) = (words.next()?, words.next()?);
    let (major, minor) = number.split_once(',')?;
    Some((name.to_owned(), DeviceNumber::new(major.parse().ok()?, minor.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a map read with and without its heading, and a wrong line named?
    #[test]
    fn maps_are_read() {
        let names = Options::read_names("Device   dev\n\nsda  8,0\n/dev/x 253,1\n").unwrap();
        assert_eq!(names[&DeviceNumber::new(8, 0)], "sda");
        assert_eq!(names[&DeviceNumber::new(253, 1)], "/dev/x");
        let wrong = Options::read_names("sda 8,0\nsdb 8:16\n").unwrap_err();
        assert_eq!(wrong, "line 2: `sdb 8:16` is not a name and a device, as in `sda 8,0`");
    }
}
