// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sandbox: what a server gives up for good, so that a client that takes it over gets little.
//!
//! ```text
//! claims, certificates, accounts      as before
//! [`files`]    Landlock, no_new_privs: no file but what is configured, no TCP   before any thread
//! devices, control, threads, user     opened within
//! [`calls`]    seccomp, all threads: no exec, no new ring, no socket but unix   before a client
//! ```
//!
//! io_uring bypasses seccomp: the kernel executes a ring's entries without system calls. So each
//! ring is bound to its few operations and to the files that it knows (`device/uring/ring.rs`), and
//! no new one can be made. What the kernel lacks is logged in a line, and the server starts.
//!
//! Landlock lets no process unmount. What `[server.fuse]` mounts is mounted and unmounted by a
//! process that is forked before (`fuse/helper.rs`); where none can be, files are not bounded, and
//! a line says so.

mod calls;
mod files;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Config;

/// Whether files are bounded.
static FILES: AtomicBool = AtomicBool::new(false);

/// A sandbox, besides what the configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Folders whose files may be read later, as that of the configuration.
    pub reads: Vec<PathBuf>,
    /// Folders in which a file may be replaced, as `ctl save` replaces the configuration.
    pub replaces: Vec<PathBuf>,
    /// Folders in which something is removed at the end.
    pub removes: Vec<PathBuf>,
}

impl Sandbox {
    /// Bounds the files and ports that this thread, and those that it starts, can open. What the
    /// kernel lacks, in words.
    pub(crate) fn bound_files(&self, config: &Config, decisions: Option<&Path>) -> Option<String> {
        let bounded = files::bound(&files::allowed(self, config, decisions), config);
        FILES.store(bounded != files::Bounded::No, Ordering::Relaxed);
        bounded.missing().or_else(|| {
            // Landlock is of the thread that asks for it, and of what that one starts.
            (!is_alone()).then(|| {
                "sandbox: files are bounded for what this thread starts, not for threads that were \
                 there before"
                    .to_owned()
            })
        })
    }

    /// Takes calls from all threads of the process that a server never makes; `unmounts`: but for
    /// those by which this one unmounts. What the kernel lacks, in words.
    #[allow(clippy::unused_self, reason = "only where there is a sandbox")]
    pub(crate) fn bound_calls(&self, unmounts: bool) -> Option<String> {
        calls::bound(unmounts).err()
    }
}

/// Whether this process has no other thread.
pub(crate) fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// The message for when files are not bounded because this process must unmount the folder itself.
pub(crate) fn not_bounded(why: &str) -> String {
    format!(
        "sandbox: files are not bounded: with Landlock the folder of [server.fuse] could not be \
         unmounted, and {why}"
    )
}

/// Folders of images that are not there, in words: a reload could add nothing from them, not even
/// if they came later.
#[must_use]
pub fn missing_image_folders(config: &Config) -> Vec<String> {
    let folders = config.server.image_folders.iter().filter(|folder| !folder.is_dir());
    let folders = folders.filter(|_| config.server.sandbox);
    folders.map(|it| format!("image-folders: {}: there is no such folder", it.display())).collect()
}

/// What to say of a file that cannot be opened, if that may be the sandbox.
pub(crate) fn hint() -> &'static str {
    if FILES.load(Ordering::Relaxed) {
        " (outside of the sandbox nothing can be opened: images are those of the start and what is \
         in a folder of `image-folders` of `[server]`, traces go into its folder `traces`, \
         /var/tmp unless told otherwise; a server that is started with `--take-over` opens what \
         else its file names, and `sandbox = false` is without)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
