// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open: from a configured device to the backend that does its commands.
//!
//! ```text
//! engine auto    all files in memory ─▶ inline
//!                io_uring allowed ────▶ uring
//!                otherwise ───────────▶ threads, and a note that says why
//! uring, threads, model NAME            that one or an error
//! ```
//!
//! Each volume is one file of the backend, at the place that it has in the configuration; a path
//! that several volumes name is opened for each. A file is all of what is at the path: where in it
//! a volume begins is the loop's business.

use std::io;
use std::path::PathBuf;

use paternoster_core::DeviceFacts;

use super::files::{self, File};
use super::handed::Handed;
use super::inline::Inline;
use super::model;
use super::pieces::VECTORS;
use super::system::System;
use super::threads::Threads;
use super::uring::Uring;
use super::{Backend, FileFacts, NewFile};
use crate::config::{Device, Direct, Engine, Volume};

/// Jobs at a time by default.
const DEPTH: u32 = 32;
/// And where a job is done as soon as it is given.
const DEPTH_INLINE: u32 = 128;
/// The largest depth that a ring and a queue's tags allow.
const DEPTH_MAX: u32 = 10_240;
/// 1 MiB.
const MAX_SECTORS: u32 = 2048;

/// What does the commands of a device.
pub struct Opened {
    /// The backend.
    pub backend: Box<dyn Backend>,
    /// Notes for the administrator: what is otherwise than the configuration suggests.
    pub note: Option<String>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Opened { backend, note } = self;
        f.debug_struct("Opened").field("backend", &backend.describe()).field("note", note).finish()
    }
}

/// A device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refused something.
    #[error("{}: {doing}: {error}", path.display())]
    System {
        /// Path of the file.
        path: PathBuf,
        /// The operation that failed, as a word.
        doing: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The path leads to something that is neither a file nor a block device.
    #[error("{}: it is {found}; a volume is a regular file or a block device", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What the path leads to, in words.
        found: &'static str,
    },
    /// The file is empty.
    #[error(
        "{}: it has {bytes} bytes, and a volume has at least one block of {block}; \
         `truncate -s 1G` makes it larger", path.display()
    )]
    Empty {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file in bytes.
        bytes: u64,
        /// The least size.
        block: u32,
    },
    /// io_uring was requested.
    #[error(
        "device {device}: io_uring is refused here ({error}); `engine = \"threads\"` does without"
    )]
    Uring {
        /// Name of the device.
        device: String,
        /// The system's error.
        error: io::Error,
    },
    /// Threads could not be had.
    #[error("device {device}: starting its threads: {error}")]
    Threads {
        /// Name of the device.
        device: String,
        /// The system's error.
        error: io::Error,
    },
    /// The model is not there or wrong.
    #[error("model {name}: {why}")]
    Model {
        /// Name of the model.
        name: String,
        /// Why it cannot be used.
        why: String,
    },
    /// The configuration asks for what cannot be.
    #[error("device {device}: {why}")]
    Device {
        /// Name of the device.
        device: String,
        /// What is wrong, and what would be right.
        why: String,
    },
}

/// Opens the files of a device's volumes and makes the backend that it asks for.
///
/// # Errors
/// [`OpenError`]: the file, what was done with it, what would be right.
pub fn open(config: &Device) -> Result<Opened, OpenError> {
    open_with(&System::default(), config, None)
}

/// As [`open`], with files that another process has handed over.
pub(crate) fn open_with(
    system: &System,
    config: &Device,
    handed: Option<&Handed>,
) -> Result<Opened, OpenError> {
    let wrong = |why: String| OpenError::Device { device: config.name.clone(), why };
    if config.volumes.is_empty() || config.volumes.len() > usize::from(u16::MAX) {
        let count = config.volumes.len();
        return Err(wrong(format!("it has {count} volumes where 1 to 65535 can be")));
    }
    if let Some(depth) = config.depth.filter(|depth| !(1..=DEPTH_MAX).contains(depth)) {
        return Err(wrong(format!("its depth is {depth} where 1 to {DEPTH_MAX} can be")));
    }
    let description = match &config.engine {
        Engine::Model(name) => Some(model::find(name)?),
        Engine::Auto | Engine::Uring | Engine::Threads => None,
    };
    let direct = direct(config);
    let files = config.volumes.iter();
    let files = files.map(|volume| File::open(system, &volume.path, direct, volume.readonly));
    let files = files.map(|file| {
        Ok(match handed {
            Some(handed) => handed.put_into(file?),
            None => file?,
        })
    });
    let files = files::all_beside(files.collect::<Result<_, OpenError>>()?);
    let mut notes = rounded(config, &files);
    let backend: Box<dyn Backend> = match description {
        Some(model) => model::backend(files, &model, config.depth),
        None => real(config, files, &mut notes)?,
    };
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(Opened { backend, note })
}

/// Opens the file of a volume for a device that runs already.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_one(
    system: &System,
    config: &Device,
    volume: &Volume,
) -> Result<NewFile, OpenError> {
    File::open(system, &volume.path, direct(config), volume.readonly).map(NewFile)
}

/// Whether its files bypass the page cache. Not those of a model: its time passes while its data
/// are copied, and copying through the cache is faster.
fn direct(config: &Device) -> Direct {
    match (&config.engine, config.direct) {
        (Engine::Model(_), Direct::Auto) => Direct::No,
        (_, direct) => direct,
    }
}

/// Makes the backend of a device without a model.
fn real(
    config: &Device,
    files: Vec<File>,
    notes: &mut Vec<String>,
) -> Result<Box<dyn Backend>, OpenError> {
    let depth = config.depth.unwrap_or(DEPTH);
    let automatic = config.engine == Engine::Auto;
    if automatic && files.iter().all(|file| file.in_memory) {
        return Ok(Box::new(Inline::new(files, config.depth.unwrap_or(DEPTH_INLINE))));
    }
    let files = if config.engine == Engine::Threads {
        files
    } else {
        match Uring::new(files, depth) {
            Ok(uring) => return Ok(Box::new(uring)),
            Err((files, error)) if automatic => {
                notes.push(refused(&error));
                files
            }
            Err((_, error)) => {
                return Err(OpenError::Uring { device: config.name.clone(), error });
            }
        }
    };
    let threads = Threads::new(files, depth);
    let threads =
        threads.map_err(|error| OpenError::Threads { device: config.name.clone(), error })?;
    Ok(Box::new(threads))
}

fn refused(error: &io::Error) -> String {
    format!("io_uring is refused here ({error}): plain threads")
}

/// The files whose last bytes are left out.
fn rounded(config: &Device, files: &[File]) -> Vec<String> {
    let rounded = config.volumes.iter().zip(files).filter(|(_, file)| file.left_out > 0);
    let told = rounded.map(|(volume, file)| {
        let (path, FileFacts { size, block, .. }) = (volume.path.display(), file.facts());
        let left_out = file.left_out;
        format!("{path}: the last {left_out} bytes are no block of {block}: it has {size} here")
    });
    told.collect()
}

/// What a queue must know of a device with these files.
pub(crate) fn facts(files: &[File], depth: u32) -> DeviceFacts {
    DeviceFacts {
        capacity: files.iter().map(|file| file.facts().size / 512).sum(),
        depth,
        rotational: files.iter().any(|file| file.facts().rotational),
        write_cache: true,
        fua: true,
        flush_queueable: true,
        max_sectors: MAX_SECTORS,
        max_segments: u16::try_from(VECTORS).unwrap_or(u16::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is it said why there are threads where io_uring was to be?
    #[test]
    fn a_refused_ring_is_told() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        assert!(refused(&error).contains("Operation not permitted"), "{}", refused(&error));
        assert!(refused(&error).ends_with(": plain threads"));
    }
}
