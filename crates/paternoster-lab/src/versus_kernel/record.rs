// SPDX-License-Identifier: MIT OR Apache-2.0
//! Record: the kernel scheduler's decisions while a job runs, as text.
//!
//! The kernel's tracer `blk` prints a line for each step of a request, and between them what bfq
//! says (`set_in_service_queue`, `expire`, `calc_finish` …). `paternoster_trace::ftrace` reads it.
//! tracefs is mounted if it is not, and unmounted again.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use paternoster_frame::Failure;
use paternoster_frame::tracefs::stream::Stream;
use paternoster_frame::tracefs::{Form, Tracing};

use super::undo::{Undo, tool};

/// KiB of the kernel's buffer, for each processor.
const BUFFER_KIB: u32 = 16_384;
/// Where tracefs is mounted.
const FOLDER: &str = "/sys/kernel/tracing";

/// A recording in progress. Dropping it resets the tracer.
#[derive(Debug)]
pub(super) struct Recording {
    tracing: Option<Tracing>,
    over: Arc<AtomicBool>,
    writer: Option<JoinHandle<io::Result<u64>>>,
    file: PathBuf,
}

/// Mounts tracefs, if it is not.
pub(super) fn mount(undo: &mut Undo) -> Result<(), String> {
    let folder = Path::new(FOLDER);
    let debug = Path::new("/sys/kernel/debug/tracing");
    if [folder, debug].iter().any(|folder| folder.join("available_tracers").exists()) {
        return Ok(());
    }
    tool(Command::new("mount").args(["-t", "tracefs", "nodev", FOLDER]))?;
    undo.mounted(folder);
    Ok(())
}

impl Recording {
    /// Records a block device's events into `file`.
    pub(super) fn start(device: &str, file: &Path) -> Result<Recording, Failure> {
        let named = |error: io::Error| Failure::Request(format!("{}: {error}", file.display()));
        let mut writer = BufWriter::new(File::create(file).map_err(named)?);
        let tracing = Tracing::start(device, BUFFER_KIB, Form::Text)?;
        let over = Arc::new(AtomicBool::new(false));
        let mut stream = Stream::new(tracing.pipe()?, Arc::clone(&over));
        let writer = std::thread::spawn(move || {
            let bytes = io::copy(&mut stream, &mut writer)?;
            writer.flush().map(|()| bytes)
        });
        let (tracing, writer) = (Some(tracing), Some(writer));
        Ok(Recording { tracing, over, writer, file: file.to_owned() })
    }

    /// Ends the recording; returns notes about it.
    pub(super) fn finish(mut self) -> Result<Option<String>, Failure> {
        let lost = self.tracing.as_ref().map_or(0, |tracing| {
            tracing.pause();
            tracing.lost()
        });
        let file = self.file.display().to_string();
        match self.end() {
            Some(Ok(0)) => Ok(Some(format!("{file}: the kernel's tracer said nothing"))),
            Some(Ok(_)) if lost > 0 => Ok(Some(format!("{file}: {lost} lines found no room"))),
            Some(Ok(_)) => Ok(None),
            Some(Err(error)) => Err(Failure::Job(format!("{file}: {error}"))),
            None => Err(Failure::Job(format!("{file}: its writer has ended"))),
        }
    }

    fn end(&mut self) -> Option<io::Result<u64>> {
        if let Some(tracing) = &self.tracing {
            tracing.pause();
        }
        self.over.store(true, Ordering::Relaxed);
        let done = self.writer.take().and_then(|writer| writer.join().ok());
        self.tracing = None;
        done
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ended_before = self.end();
    }
}
