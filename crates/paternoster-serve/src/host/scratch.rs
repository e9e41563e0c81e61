// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder for one test, gone with it.

use std::path::PathBuf;

use super::private_folder::PrivateFolder;

/// The folder removes what was left in it.
pub(crate) struct Scratch(PrivateFolder);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(PrivateFolder::new("paternoster-test").expect("a folder for the test"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(self.0.path());
    }
}
