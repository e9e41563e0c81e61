// SPDX-License-Identifier: MIT OR Apache-2.0
//! A private folder: a place for a socket that only its owner reaches.
//!
//! Made with mode 0700 under a new name: making it fails if the name exists, and then another name
//! is tried.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// An attacker who takes this many names in advance has won.
const TRIES: usize = 100;

/// A folder that goes away with its value, if it is empty by then.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
}

impl PrivateFolder {
    /// A new folder in the system's place for temporary files.
    ///
    /// # Errors
    /// Where it cannot be, and why.
    pub fn new(prefix: &str) -> Result<PrivateFolder, String> {
        let place = std::env::temp_dir();
        let mut failure = Error::from(ErrorKind::AlreadyExists);
        for _ in 0..TRIES {
            // The standard library seeds its hashers from the system's random numbers.
            let random = RandomState::new().build_hasher().finish();
            let path = place.join(format!("{prefix}-{random:016x}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(PrivateFolder { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => failure = error,
                Err(error) => {
                    failure = error;
                    break;
                }
            }
        }
        Err(format!("no private folder can be made in {}: {failure}", place.display()))
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // Files that others left in it stay theirs.
        let _gone = std::fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Is it ours alone, and gone afterwards?
    #[test]
    fn it_is_private() {
        let folder = PrivateFolder::new("paternoster-test").unwrap();
        let path = folder.path().to_owned();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_ne!(PrivateFolder::new("paternoster-test").unwrap().path(), path);
        drop(folder);
        assert!(!path.exists());
    }
}
