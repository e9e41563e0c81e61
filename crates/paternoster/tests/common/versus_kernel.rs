// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster versus-kernel` in a folder that is removed with its test.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Jobs and devices of the comparison.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs/versus-kernel");

const JOBS: &str = "[global]\nioengine=psync\nrw=randread\nbs=4k\nsize=8m\ntime_based\n\
                    runtime=400ms\n[plain]\n[heavy]\ncgroup=heavy\ncgroup_weight=300\n";

/// A folder that is removed with its test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let name = format!("paternoster-test-versus-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a temporary folder");
        fs::write(folder.join("jobs.fio"), JOBS).expect("a job file");
        Folder(folder)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// The program; its jobs, on parallel flash.
pub(crate) fn program(folder: &Folder, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(["versus-kernel", &folder.file("jobs.fio"), "-q"]);
    command.args(["--device", &format!("{FOLDER}/slow-flash.toml")]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
