// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts: a folder that the kernel asks us for, from start to end.
//!
//! A server that was killed leaves a folder behind of which every use fails with "Transport
//! endpoint is not connected": the next server unmounts that first. At the end a folder still in
//! use is detached at once, and goes with its last user.
//!
//! Invariant: after [`Mounted::end`], or a panic, the folder's files are no longer found there.

use std::io;
use std::path::{Path, PathBuf};

use fuser::{BackgroundSession, Filesystem, Session};

use super::helper::Helper;
use super::mount;

/// A folder that is mounted.
#[derive(Debug)]
pub(crate) struct Mounted {
    at: PathBuf,
    session: Option<BackgroundSession>,
    /// The helper that mounts and unmounts, if this process has given up the right to.
    helper: Option<Helper>,
}

impl Mounted {
    /// Mounts at a folder that is there; the kernel's questions are answered on a thread.
    ///
    /// # Errors
    /// What is missing or was refused, in words.
    pub(crate) fn start(
        files: impl Filesystem,
        at: &Path,
        allow_other: bool,
        helper: Option<Helper>,
    ) -> Result<Mounted, String> {
        let options = mount::options("paternoster", allow_other);
        let (at, session) = if let Some(helper) = &helper {
            let (at, device) = helper.mount()?;
            let acl = options.acl;
            (at, Session::from_fd(files, device, acl, options))
        } else {
            let at = mount::check(at)?;
            let session = Session::new(files, &at, &options);
            (at, session)
        };
        // Dropped on the way, a helper takes away what no server serves.
        let session = session
            .and_then(Session::spawn)
            .map_err(|error| mount::explain(&at, &error, allow_other))?;
        Ok(Mounted { at, session: Some(session), helper })
    }

    /// Unmounts it, and waits until the last request is answered if it is not in use.
    ///
    /// # Errors
    /// It is in use; or it could not be unmounted.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), String> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let shown = self.at.display();
        match self.unmount(false) {
            Ok(()) => session.join().map_err(|error| format!("{shown}: {error}")),
            Err(error) => {
                // It goes with its last user; the thread that serves it then ends by itself.
                let gone = self.unmount(true);
                std::mem::forget(session);
                gone.map_err(|_| format!("{shown}: {error}"))?;
                Err(format!("{shown}: a process still uses its files, which fail from now on"))
            }
        }
    }
}

impl Mounted {
    fn unmount(&self, detached: bool) -> io::Result<()> {
        match &self.helper {
            Some(helper) => helper.unmount(detached),
            None => mount::unmount(&self.at, detached),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Callers that need the result call `end`.
        let _result = self.take_down();
    }
}
