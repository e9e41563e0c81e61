// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk of ours as a block device of this machine.
//!
//! ```text
//! image ── paternoster serve ──┬─ NBD ── nbdfuse ──┬── file ── loop device
//!                              └──── own FUSE ─────┘
//! ```
//!
//! It is taken down from right to left, even after a panic, and after the server has been killed:
//! then everything that uses it gets errors, which frees it. Only one test at a time has a disk:
//! mounts and loop devices belong to the machine, and two tests would slow each other down.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::process::{Process, Watch, until};
use super::tools::{command, command_within, find, installed, may_mount, succeeds, tried};

/// How long a server may take to show its disk.
const START: Duration = Duration::from_secs(60);
/// The export's name, and therefore the file's.
const NAME: &str = "disk";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How the export becomes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through NBD and libnbd's nbdfuse.
    Nbd,
    /// Shown by the server itself.
    Fuse,
}

/// The place of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a disk: the server bypasses the page cache, and a flush takes its real time there.
    OnDisk,
    /// In memory, if there is room: for tests that flush a thousand times.
    InMemory,
}

impl Place {
    fn folder(self, mib: u64) -> &'static Path {
        let memory = Path::new("/dev/shm");
        let room = || {
            let mut df = command("df");
            let said = succeeds(df.args(["--output=avail", "-B", "1M"]).arg(memory));
            said.lines().last().and_then(|room| room.trim().parse().ok()).unwrap_or(0)
        };
        if self == Place::InMemory && memory.is_dir() && mib < room() {
            return memory;
        }
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    }
}

/// An image, its server, and the loop device that it is seen through.
#[derive(Debug)]
pub(crate) struct Disk {
    way: Way,
    image: PathBuf,
    /// The socket, the log and the two folders that are mounted on.
    folder: PathBuf,
    up: Option<Up>,
    _turn: MutexGuard<'static, ()>,
}

/// What runs while the disk exists.
#[derive(Debug)]
struct Up {
    /// Empty while it is being made.
    device: PathBuf,
    server: Process,
    nbdfuse: Option<Process>,
    watch: Watch,
}

impl Disk {
    /// An empty disk of this many MiB; `None`, which is reported, where the machine cannot have
    /// one.
    pub(crate) fn new(way: Way, place: Place, mib: u64) -> Option<Disk> {
        let nbdfuse: &[_] = if way == Way::Nbd { &[("nbdfuse", "libnbd-bin")] } else { &[] };
        let always = [("losetup", "mount"), ("mount", "mount"), ("timeout", "coreutils")];
        if !may_mount() || !installed(&always) || !installed(nbdfuse) {
            return None;
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("paternoster-disk-{}-{count}", std::process::id());
        let image = place.folder(mib).join(format!("{name}.img"));
        // Where every user has access, because PostgreSQL does not run as root.
        let folder = std::env::temp_dir().join(name);
        for folder in [folder.join("shown"), folder.join("mount")] {
            std::fs::create_dir_all(folder).expect("a folder for the test");
        }
        File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("room");
        let mut disk = Disk { way, image, folder, up: None, _turn: turn };
        disk.attach();
        Some(disk)
    }

    /// Starts the server and makes the block device.
    pub(crate) fn attach(&mut self) {
        assert!(self.up.is_none(), "it is there already");
        let server = self.serve();
        let nbdfuse = (self.way == Way::Nbd).then(|| self.nbdfuse());
        let watch = Watch::over(std::iter::once(server.clone()).chain(nbdfuse.clone()).collect());
        self.up = Some(Up { device: PathBuf::new(), server, nbdfuse, watch });
        let wanted = self.image.metadata().expect("the image").len();
        let shown = || self.file().metadata().is_ok_and(|file| file.len() == wanted);
        assert!(until(START, shown), "no file {}: {}", self.file().display(), self.log());
        let device = succeeds(command("losetup").args(["-f", "--show"]).arg(self.file()));
        self.up.as_mut().expect("just made").device = PathBuf::from(device);
    }

    fn serve(&self) -> Process {
        let shows = match self.way {
            Way::Nbd => format!("listen = \"unix:{}\"", self.socket().display()),
            Way::Fuse => {
                format!("fuse = {{ mount = \"{}\", processes = 4 }}", self.shown().display())
            }
        };
        // With auditing, the queue checks all its contents after every call: keep them few.
        let image = self.image.display();
        let configuration = format!(
            "[server]\nconnections = 4\n{shows}\n[device.d]\nmemory = \"4MiB\"\n\
             [volume.{NAME}]\ndevice = \"d\"\npath = \"{image}\"\n"
        );
        let file = self.folder.join("serve.toml");
        std::fs::write(&file, configuration).expect("a file");
        let mut serve = Command::new(env!("CARGO_BIN_EXE_paternoster"));
        serve.arg("serve").arg(file).env("LC_ALL", "C");
        Process::start(&mut serve, &self.folder.join("log"))
    }

    fn nbdfuse(&self) -> Process {
        let there = until(START, || self.socket().exists());
        assert!(there, "no socket {}: {}", self.socket().display(), self.log());
        let program = find("nbdfuse").expect("asked for before");
        let mut command = Command::new(program);
        command.arg(self.file()).arg("--unix").arg(self.socket());
        Process::start(&mut command, &self.folder.join("log"))
    }

    /// The block device.
    pub(crate) fn device(&self) -> &Path {
        &self.up.as_ref().expect("the disk is there").device
    }

    /// The file that is the disk.
    pub(crate) fn file(&self) -> PathBuf {
        self.shown().join(NAME)
    }

    /// An empty folder to mount it on.
    pub(crate) fn mount_point(&self) -> PathBuf {
        self.folder.join("mount")
    }

    /// A place for what must not be on the disk.
    pub(crate) fn aside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn shown(&self) -> PathBuf {
        self.folder.join("shown")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// The servers' output.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// `kill -9` of the server, whatever it is doing.
    pub(crate) fn kill(&self) {
        self.up.as_ref().expect("the disk is there").server.kill();
    }

    /// Takes the disk down in good order, which must succeed.
    pub(crate) fn detach(&mut self) {
        let up = self.up.take().expect("the disk is there");
        let killed = !up.server.is_running();
        let detached = tried(command("losetup").arg("-d").arg(&up.device));
        let unmounted = until(START, || tried(command("umount").arg(self.shown())));
        let nbdfuse = up.nbdfuse.as_ref().is_none_or(Process::ends_by_itself);
        let server = up.server.end("-TERM");
        drop(up);
        self.take_down();
        let said = self.log();
        assert!(detached, "the loop device could not be detached: {said}");
        assert!(killed || (unmounted && nbdfuse && server), "no good end: {said}");
    }

    /// Takes down what exists, in whatever state; nothing here may panic.
    fn take_down(&mut self) {
        if let Some(Up { device, server, nbdfuse, watch }) = self.up.take() {
            // First of all, because then nothing can hang.
            server.kill();
            nbdfuse.iter().for_each(Process::kill);
            drop(watch);
            if !device.as_os_str().is_empty() {
                tried(command_within(10, "losetup").arg("-d").arg(device));
            }
        }
        // If there is a dead mount, or none at all, this fails, which is fine.
        tried(command_within(10, "umount").arg("-l").arg(self.shown()));
        let _is_gone = std::fs::remove_file(self.socket());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.take_down();
        let _gone = std::fs::remove_file(&self.image);
        // What is still mounted is not emptied: a mount point goes only when nothing is on it.
        let points = [self.shown(), self.mount_point()];
        if points.iter().all(|point| std::fs::remove_dir(point).is_ok()) {
            let _gone = std::fs::remove_dir_all(&self.folder);
        }
    }
}
