// SPDX-License-Identifier: MIT OR Apache-2.0
//! tracefs: the files that control the kernel's tracer.
//!
//! All changes are undone at the end, in reverse order: the buffer gets its previous size, the rest
//! what a kernel has without tracing (a tracer that was killed may have left it otherwise):
//!
//! ```text
//! start  tracing_on 0, buffer, options, act_mask, enable 1, current_tracer blk, tracing_on 1
//! end    tracing_on 0, current_tracer nop, enable 0, …, tracing_on 1
//! ```

pub mod stream;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Failure;

/// Folders in which the tracer may be mounted.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Reading gives an error instead of waiting.
const O_NONBLOCK: i32 = 0o4000;
/// Every kind of event.
const EVERYTHING: &str = "0xffff";

/// The tracer's output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Events as blktrace's records.
    Records,
    /// As lines of text, with the scheduler's messages.
    Text,
}

/// The tracer at work for one device.
#[derive(Debug)]
pub struct Tracing {
    folder: PathBuf,
    /// The previous contents of files, in the order in which they were changed.
    before: Vec<(PathBuf, String)>,
}

impl Tracing {
    /// Begins to trace the device of this name.
    pub fn start(device: &str, buffer: u32, form: Form) -> Result<Tracing, Failure> {
        let found = FOLDERS
            .iter()
            .map(Path::new)
            .find(|folder| std::fs::read_to_string(folder.join("available_tracers")).is_ok());
        let Some(folder) = found else {
            return Err(Failure::Request(
                "the kernel's tracer cannot be reached: it needs root, and \
                 `mount -t tracefs nodev /sys/kernel/tracing`"
                    .to_owned(),
            ));
        };
        let tracers = std::fs::read_to_string(folder.join("available_tracers"))?;
        if !tracers.split_whitespace().any(|tracer| tracer == "blk") {
            let message = "this kernel has no block tracer (CONFIG_BLK_DEV_IO_TRACE)";
            return Err(Failure::Request(message.to_owned()));
        }
        let current = std::fs::read_to_string(folder.join("current_tracer"))?;
        if current.trim() != "nop" {
            let message = format!(
                "the tracer {} is at work; `echo nop > {}/current_tracer` ends it",
                current.trim(),
                folder.display()
            );
            return Err(Failure::Request(message));
        }
        let mut tracing = Tracing { folder: folder.to_owned(), before: Vec::new() };
        tracing.set_up(device, buffer, form)?;
        Ok(tracing)
    }

    fn set_up(&mut self, device: &str, buffer: u32, form: Form) -> Result<(), Failure> {
        let folder = self.folder.clone();
        let block = PathBuf::from("/sys/class/block").join(device).join("trace");
        self.set(&folder.join("tracing_on"), "0", Some("1"))?;
        self.set(&folder.join("buffer_size_kb"), &buffer.to_string(), None)?;
        let (bin, context) = if form == Form::Records { ("1", "0") } else { ("0", "1") };
        let options =
            [("bin", bin, "0"), ("blk_classic", "0", "0"), ("context-info", context, "1")];
        for (option, value, usual) in options {
            let file = folder.join("options").join(option);
            // An old kernel may not have all of them.
            if file.exists() {
                self.set(&file, value, Some(usual))?;
            }
        }
        self.set(&block.join("enable"), "1", Some("0"))?;
        self.set(&block.join("act_mask"), EVERYTHING, Some(EVERYTHING))?;
        self.set(&folder.join("current_tracer"), "blk", Some("nop"))?;
        std::fs::write(folder.join("tracing_on"), "1")?;
        Ok(())
    }

    /// Sets a file, and remembers what to restore: the usual value, or the previous one.
    fn set(&mut self, file: &Path, value: &str, usual: Option<&str>) -> Result<(), Failure> {
        let wrong = |error: std::io::Error| {
            Failure::Request(format!("{}: {error}; recording needs root", file.display()))
        };
        let before = std::fs::read_to_string(file).map_err(wrong)?;
        std::fs::write(file, value).map_err(wrong)?;
        self.before.push((file.to_owned(), usual.unwrap_or(before.trim()).to_owned()));
        Ok(())
    }

    /// The stream of events.
    pub fn pipe(&self) -> Result<File, Failure> {
        let file = self.folder.join("trace_pipe");
        let opened = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&file);
        opened.map_err(|error| Failure::Request(format!("{}: {error}", file.display())))
    }

    /// No more events come; those that have come stay.
    pub fn pause(&self) {
        let _best_effort = std::fs::write(self.folder.join("tracing_on"), "0");
    }

    /// How many events found no room in the kernel's buffer.
    pub fn lost(&self) -> u64 {
        let cpus = 0..processors();
        let lost = cpus.map(|cpu| {
            let stats = self.folder.join(format!("per_cpu/cpu{cpu}/stats"));
            let text = std::fs::read_to_string(stats).unwrap_or_default();
            let number = |head: &str| -> u64 {
                let line = text.lines().find_map(|line| line.strip_prefix(head));
                line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
            };
            number("overrun:") + number("dropped events:")
        });
        lost.sum()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        self.pause();
        for (file, value) in self.before.iter().rev() {
            // The first word: a buffer of its initial size says more than the number.
            let value = value.split_whitespace().next().unwrap_or("");
            let _best_effort = std::fs::write(file, value);
        }
    }
}

/// How many processors files are written for.
pub fn processors() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok());
    last.map_or(1, |last: u32| last.min(4095) + 1)
}

/// The kernel's name of a device file.
pub fn device_name(device: &Path) -> Result<String, Failure> {
    let shown = device.display();
    let file = device.canonicalize();
    let file = file.map_err(|error| Failure::Request(format!("{shown}: {error}")))?;
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if Path::new("/sys/class/block").join(&name).join("trace").is_dir() {
        Ok(name)
    } else {
        let message = format!("{shown} is no block device of this machine that can be traced");
        Err(Failure::Request(message))
    }
}

/// The names of processes, as far as the kernel remembers them.
#[derive(Debug, Default)]
pub struct Names {
    saved: BTreeMap<u32, String>,
}

impl Names {
    /// What a process is called, or was.
    pub fn of(&mut self, pid: u32) -> Option<String> {
        if let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/comm")) {
            return Some(name.trim_end().to_owned());
        }
        if !self.saved.contains_key(&pid) {
            self.read_saved();
        }
        self.saved.get(&pid).cloned()
    }

    fn read_saved(&mut self) {
        for folder in FOLDERS {
            let text = std::fs::read_to_string(Path::new(folder).join("saved_cmdlines"));
            for line in text.unwrap_or_default().lines() {
                if let Some((pid, name)) = line.trim().split_once(' ')
                    && let Ok(pid) = pid.parse()
                {
                    self.saved.entry(pid).or_insert_with(|| name.to_owned());
                }
            }
        }
    }
}
