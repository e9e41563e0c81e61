// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inline: files in memory, done at once.
//!
//! A page of tmpfs is copied faster than a job is handed to another thread and back. A job is done
//! within [`Backend::submit`] and reported at the next [`Backend::reap`], which is due at once:
//! there is nothing to wait for.

use std::os::fd::BorrowedFd;

use paternoster_core::{DeviceFacts, Nanos};

use super::files::{self, File};
use super::holes::Holes;
use super::open::facts;
use super::{Backend, FileFacts, Finished, Full, Job, NewFile, plain};

/// Does jobs at once, by plain system calls.
pub(crate) struct Inline {
    files: Vec<File>,
    depth: u32,
    finished: Vec<Finished>,
}

impl Inline {
    pub(crate) fn new(files: Vec<File>, depth: u32) -> Inline {
        Inline { files, depth, finished: Vec::with_capacity(depth as usize) }
    }
}

// SAFETY: a job has been done before it is reported.
unsafe impl Backend for Inline {
    fn describe(&self) -> String {
        format!("at once, {}", files::how(&self.files))
    }

    fn facts(&self) -> DeviceFacts {
        facts(&self.files, self.depth)
    }

    fn file(&self, file: u16) -> FileFacts {
        self.files[usize::from(file)].facts()
    }

    unsafe fn submit(&mut self, _: Nanos, job: Job<'_>) -> Result<(), Full> {
        if self.finished.len() >= self.depth as usize {
            return Err(Full);
        }
        // SAFETY: the caller's promise for the pieces.
        let error = unsafe { plain::perform(&self.files, &job) };
        self.finished.push(Finished { slot: job.slot, error });
        Ok(())
    }

    fn kick(&mut self) {}

    fn reap(&mut self, _: Nanos, finished: &mut Vec<Finished>) {
        finished.append(&mut self.finished);
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn does_at_once(&self) -> bool {
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        (!self.finished.is_empty()).then_some(Nanos::ZERO)
    }

    fn can_add(&self, files: &[NewFile]) -> bool {
        files.iter().all(|file| file.0.in_memory)
    }

    fn add(&mut self, file: NewFile) -> Option<u16> {
        files::add(&mut self.files, file)
    }

    fn remove(&mut self, file: u16) -> Option<NewFile> {
        files::remove(&mut self.files, file)
    }

    fn lost(&self) -> Option<i32> {
        files::lost(&self.files)
    }

    fn to_hand_over(&self) -> Vec<super::Giving> {
        files::to_hand_over(&self.files)
    }

    fn holes(&self, file: u16) -> Option<Holes> {
        Some(self.files[usize::from(file)].holes())
    }
}
