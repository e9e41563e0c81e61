// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder of a test's own, which is removed with it.

use std::path::{Path, PathBuf};

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let name = format!("paternoster-traces-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _none = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A folder within.
    pub(crate) fn sub(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}
