// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emulate: a modelled device in real time, as a file for any program.
//!
//! ```text
//! process ──read, write, fsync──▶ kernel ──▶ file_system ──request, when asked──▶ model_thread
//!    ▲                                       (reads from FUSE,                     line ▶ model
//!    └────────────────── answer at the model's time ───── data in memory or file ────┘
//! ```
//!
//! Two threads with only a list between them, because precision needs the shortest path:
//!
//! * `file_system`: one file over FUSE. `fuse/mount.rs`: the folder it is in.
//! * `model_thread`: lets the model live in real time. `model_queue`: which requests wait for the
//!   model, and how they become its commands. `shared`: what both use.
//! * `data`: the bytes. `overhead`: the cost of the path through the kernel, taken off the wait.
//! * `spread`: how precise it was. `forecast`: how precise it can be. `urgency`: how threads wake
//!   in time.
//!
//! # Invariants
//! I1  No command is answered before the model is done with it, and the model never gets
//!     it earlier than by one overhead before the file system has read it.
//! I2  An emulation that is dropped, for any reason, leaves no mount behind.
//! I3  No process waits for ever: what can no longer be answered gets EIO.

mod data;
mod file_system;
mod forecast;
mod model_queue;
mod model_thread;
mod overhead;
mod shared;
mod spread;
mod urgency;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use fuser::Session;
use paternoster_core::Nanos;
use paternoster_sim::Description;

pub use forecast::{expected, typical_read};
pub use urgency::Urgency;

use data::Data;
use file_system::FileSystem;
use overhead::Overhead;
use shared::Shared;

use crate::fuse::mount;

/// How long to wait for the last user to close the file: a loop device does so some time after it
/// was ordered to.
const PATIENCE: Duration = Duration::from_secs(2);
const SECTOR: u64 = 512;

/// What to emulate, and where.
#[derive(Debug, Clone)]
pub struct Emulated {
    /// The device.
    pub device: Description,
    /// The mount point: an existing, empty folder.
    pub mount: PathBuf,
    /// Where the data are: a file (made sparse if it is not there), or memory.
    pub data: Option<PathBuf>,
    /// Bytes of the file; `None`: as large as the device.
    pub size: Option<u64>,
    /// Users besides our own may open the file.
    pub allow_other: bool,
}

/// How long a kind of command took, as set by the model and as served, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    /// The median.
    pub p50: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
}

/// How precise an emulation was. Every figure is within 0.8 % of what was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Precision {
    /// Commands that were measured.
    pub commands: u64,
    /// How long the commands should take.
    pub set: Spread,
    /// How long they took, from the kernel's request to our answer.
    pub served: Spread,
    /// Served time beyond the set time, of each command.
    pub late: Spread,
    /// The time for the path through the kernel, measured at the start: a command is assumed to
    /// have been issued this long before it was read.
    pub overhead: Nanos,
    /// The same for each kind of command that occurred.
    pub kinds: Vec<KindPrecision>,
}

/// How precise an emulation was with one kind of command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindPrecision {
    /// `read`, `write`, `discard` or `flush`.
    pub name: &'static str,
    /// Number of commands.
    pub commands: u64,
    /// How long they should have taken.
    pub set: Spread,
    /// How long they took.
    pub served: Spread,
    /// Served time beyond the set time.
    pub late: Spread,
}

/// A device that is being emulated.
#[derive(Debug)]
pub struct Emulation {
    file: PathBuf,
    mount: PathBuf,
    size: u64,
    shared: Arc<Shared>,
    urgency: Urgency,
    front: Option<JoinHandle<()>>,
    model_thread: Option<JoinHandle<()>>,
    unmounted: bool,
}

impl Emulation {
    /// Mounts it.
    ///
    /// # Errors
    /// What is missing or was refused, in words.
    pub fn start(emulated: &Emulated) -> Result<Emulation, String> {
        let Emulated { device, allow_other: others, .. } = emulated;
        let mount = mount::check(&emulated.mount)?;
        let size = size(emulated)?;
        let data = match &emulated.data {
            Some(path) => Data::in_file(path, size)?,
            None => Data::in_memory(size)?,
        };
        let shared = Arc::new(Shared::new(data));
        let name = file_name(&device.name);
        let file = mount.join(&name);
        let front = FileSystem {
            shared: Arc::clone(&shared),
            name: name.clone().into(),
            size,
            write_cache: device.facts.write_cache,
            others: *others,
            began: SystemTime::now(),
        };
        let session =
            Session::new(front, &mount, &mount::options(&format!("paternoster:{name}"), *others))
                .map_err(|error| mount::explain(&mount, &error, *others))?;
        let wrong = |error: io::Error| format!("no thread for the emulation: {error}");
        let (model_thread, urgency) = start_model_thread(&shared, device).map_err(wrong)?;
        // If there is no second thread, the session unmounts as it is dropped.
        let front = start_front(&shared, session).inspect_err(|_| shared.close()).map_err(wrong)?;
        let (front, model_thread) = (Some(front), Some(model_thread));
        let unmounted = false;
        let emulation =
            Emulation { file, mount, size, shared, urgency, front, model_thread, unmounted };
        emulation.calibrate()?;
        Ok(emulation)
    }

    /// The file that is the device.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Size of the file in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// How its threads are scheduled.
    #[must_use]
    pub const fn urgency(&self) -> Urgency {
        self.urgency
    }

    /// Whether another process has unmounted it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.front.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// How precise it has been so far.
    #[must_use]
    pub fn precision(&self) -> Precision {
        let overhead = self.shared.overhead.get().map_or(Nanos::ZERO, |overhead| overhead.base);
        self.shared.tally().precision(overhead)
    }

    /// Unmounts it and says how precise it was.
    ///
    /// # Errors
    /// It could not be unmounted: a process still has the file open. The mount is gone all the
    /// same, and that process gets EIO.
    pub fn finish(mut self) -> Result<Precision, String> {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = mount::unmount(&self.mount, false) {
            let busy = error.kind() == io::ErrorKind::ResourceBusy;
            if !busy || Instant::now() >= until {
                let shown = self.mount.display();
                return Err(if busy {
                    format!("{shown}: a process still has {} open", self.file.display())
                } else {
                    format!("{shown}: it cannot be unmounted: {error}")
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.unmounted = true;
        self.end();
        Ok(self.precision())
    }

    /// Measures the path through the kernel; from then on the model sets the times.
    fn calibrate(&self) -> Result<(), String> {
        let overhead = Overhead::measure(&self.file, &self.shared.measuring)
            .map_err(|error| format!("{}: it cannot be read: {error}", self.file.display()))?;
        // It is set only here.
        let _set = self.shared.overhead.set(overhead);
        Ok(())
    }

    /// Ends both threads, once the mount is gone.
    fn end(&mut self) {
        if let Some(front) = self.front.take() {
            let _ended = front.join();
        }
        self.shared.close();
        if let Some(model_thread) = self.model_thread.take() {
            let _ended = model_thread.join();
        }
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        if self.unmounted {
            return;
        }
        if mount::unmount(&self.mount, false).is_ok() {
            return self.end();
        }
        abandon(&self.mount);
        // The file system stays until the last user has closed the file, and answers EIO until
        // then.
        self.front = None;
        self.end();
    }
}

/// Detaches a mount at once, even if it is in use; for callers that cannot wait.
pub fn abandon(mount: &Path) {
    let _as_good_as_it_gets = mount::unmount(mount, true);
}

/// Size of the emulated file.
fn size(emulated: &Emulated) -> Result<u64, String> {
    let device = emulated.device.facts.capacity.saturating_mul(SECTOR);
    let size = emulated.size.unwrap_or(device);
    let name = &emulated.device.name;
    if size > device {
        return Err(format!("{size} bytes are more than {name} has: {device}"));
    }
    if size == 0 || !size.is_multiple_of(SECTOR) {
        return Err(format!("{size} bytes are no size: a device has sectors of {SECTOR} bytes"));
    }
    Ok(size)
}

/// The name of a device's file: the device's, without characters that are unsuitable in a file or
/// mount name.
fn file_name(device: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_+.".contains(letter);
    let name: String =
        device.chars().map(|letter| if plain(letter) { letter } else { '-' }).take(100).collect();
    if name.trim_matches('.').is_empty() { "device".to_owned() } else { name }
}

fn start_model_thread(
    shared: &Arc<Shared>,
    device: &Description,
) -> io::Result<(JoinHandle<()>, Urgency)> {
    let (model, shared) = (device.model(), Arc::clone(shared));
    let (tell, told) = mpsc::channel();
    let thread =
        thread::Builder::new().name("emulate-model_thread".to_owned()).spawn(move || {
            let _woken_by = shared.model_thread.set(thread::current());
            let _heard = tell.send(urgency::hurry(1));
            model_thread::keep(&shared, model);
        })?;
    Ok((thread, told.recv().unwrap_or(Urgency::Usual)))
}

/// The thread that reads from the kernel; of higher priority than the model thread, which may be
/// polling the clock when a request comes.
fn start_front(shared: &Arc<Shared>, session: Session<FileSystem>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new().name("emulate-front".to_owned()).spawn(move || {
        // The session's own threads inherit it.
        urgency::hurry(2);
        let _unmounted = session.run();
        shared.close();
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the file's name valid, whatever the device's name?
    #[test]
    fn names_are_files() {
        let names = ["hdd-7200", "my disk, 2", "../a", "..", ""].map(file_name);
        assert_eq!(names, ["hdd-7200", "my-disk--2", "..-a", "device", "device"]);
    }

    /// Are sizes that a device cannot have refused, with its real size?
    #[test]
    fn sizes_are_checked() {
        let device = paternoster_sim::catalog::by_name("lab-disk").unwrap().unwrap();
        let asked = |size| {
            let mount = PathBuf::new();
            let device = device.clone();
            super::size(&Emulated { device, mount, data: None, size, allow_other: false })
        };
        assert_eq!(asked(None), Ok(8 << 30));
        assert_eq!(asked(Some(1 << 20)), Ok(1 << 20));
        assert!(asked(Some((8 << 30) + 512)).unwrap_err().ends_with("lab-disk has: 8589934592"));
        assert!(asked(Some(0)).is_err() && asked(Some(1_000)).is_err());
    }
}
