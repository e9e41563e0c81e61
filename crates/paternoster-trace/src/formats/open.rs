// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open: a trace of any format, from a stream or by its path.
//!
//! ```text
//! stream ─▶ head (64 KiB) ─▶ recognise ─▶ reader of the format, which reads the head again first
//! packed ─▶ gzip and zstd are unpacked on the way (packed.rs)
//! path   ─▶ `-`: standard input
//!        ├▶ sda, sda.blktrace.3: all of sda.blktrace.0, .1 … up to the first that is missing
//!        └▶ a file
//! ```
//!
//! An existing file takes precedence over a prefix of the same name.

use core::fmt;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use super::alibaba::Alibaba;
use super::biosnoop::{self, Biosnoop};
use super::blkreplay::Blkreplay;
use super::cloudphysics::{Blocks, CloudPhysics};
use super::disksim::{Disksim, Validation};
use super::events::Events;
use super::fiu::Fiu;
use super::form::{Form, Lined};
use super::iolog::Iolog;
use super::k5::K5;
use super::mqsim::Mqsim;
use super::msr::Msr;
use super::packed::unpacked;
use super::recognise::{HEAD, recognise};
use super::spc::Spc;
use super::spread::Spread;
use super::startup::Startup;
use super::systor::Systor;
use super::tencent::Tencent;
use super::vscsi::Vscsi;
use super::{Format, blkparse_text, ftrace_text};
use crate::blktrace;
use crate::source::{Source, quote};

/// Files of one trace, one for each processor.
const FILES_MAX: u32 = 8192;

/// Why a trace cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The trace cannot be opened or read.
    Io {
        /// The trace, as it was named.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// No file has this name.
    Missing {
        /// The trace, as it was named.
        name: String,
        /// Prefixes of traces that begin with it.
        longer: Vec<String>,
    },
    /// It is not a file.
    NoFile {
        /// The trace, as it was named.
        name: String,
        /// What it is, and what would be right.
        what: &'static str,
    },
    /// The file is empty.
    Empty {
        /// The trace, as it was named.
        name: String,
    },
    /// It is compressed, and not by gzip or zstd.
    Packed {
        /// The trace, as it was named.
        name: String,
        /// The program that unpacks it.
        by: &'static str,
    },
    /// The file has latencies and no places.
    LatencyOnly {
        /// The trace, as it was named.
        name: String,
    },
    /// Its format is not known.
    Unknown {
        /// The trace, as it was named.
        name: String,
        /// The first bytes, in printable form.
        first: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io { name, source } => write!(f, "{name}: cannot be read: {source}"),
            OpenError::Missing { name, longer } if !longer.is_empty() => {
                write!(f, "{name}: there is no such trace; there are {}", longer.join(", "))
            }
            OpenError::Missing { name, .. } => write!(
                f,
                "{name}: there is no such file, and no {name}.blktrace.0 either; a trace is a \
                 file, a prefix of files that blktrace wrote, or `-` for standard input"
            ),
            OpenError::NoFile { name, what } => write!(f, "{name}: this is {what}"),
            OpenError::Empty { name } => write!(f, "{name}: the trace is empty"),
            OpenError::Packed { name, by } => write!(
                f,
                "{name}: the trace is packed; `{by} -dc` unpacks it to a pipe, and `-` reads one"
            ),
            OpenError::LatencyOnly { name } => write!(
                f,
                "{name}: this is the output of bpftrace's biosnoop.bt, which prints neither sector \
                 nor length; bcc's biosnoop prints both"
            ),
            OpenError::Unknown { name, first } => {
                write!(f, "{name}: no known format begins with {first}; what can be read:")?;
                for (place, format) in Format::ALL.iter().enumerate() {
                    write!(f, "{}{}", if place == 0 { " " } else { ", " }, format.name())?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Opens one stream, which messages call `name`, as this format, or as the one that it has.
///
/// # Errors
/// If it cannot be read, is empty, or of no known format. Problems after its beginning are among
/// the source's problems.
pub fn open<'a>(
    name: &str,
    input: impl Read + 'a,
    format: Option<Format>,
) -> Result<Box<dyn Source + 'a>, OpenError> {
    let wrong = |source| OpenError::Io { name: name.to_owned(), source };
    let mut input = unpacked(Box::new(input)).map_err(wrong)?;
    if let Some(format) = format {
        return Ok(reader(format, name, input));
    }
    let mut head = Vec::new();
    match input.by_ref().take(HEAD as u64).read_to_end(&mut head) {
        Ok(_) => {}
        // A packed stream that is cut off: what it has is read, then its error.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof && !head.is_empty() => {
            input = Box::new(Cut(error.to_string()));
        }
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            let text = format!("{error}, and nothing of it can be unpacked");
            return Err(wrong(io::Error::new(error.kind(), text)));
        }
        Err(error) => return Err(wrong(error)),
    }
    let Some(format) = recognise(&head) else {
        let name = name.to_owned();
        return Err(match head.as_slice() {
            [] => OpenError::Empty { name },
            [0xfd, b'7', b'z', b'X', b'Z', ..] => OpenError::Packed { name, by: "xz" },
            [b'B', b'Z', b'h', ..] => OpenError::Packed { name, by: "bzip2" },
            head if biosnoop::latency_only(head) => OpenError::LatencyOnly { name },
            head => OpenError::Unknown { name, first: quote(head) },
        });
    };
    Ok(reader(format, name, Box::new(io::Cursor::new(head).chain(input))))
}

/// Where a stream is cut off: each read says so.
struct Cut(String);

impl Read for Cut {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(ErrorKind::UnexpectedEof, self.0.clone()))
    }
}

/// The reader of a format.
fn reader<'a>(format: Format, name: &str, input: Box<dyn Read + 'a>) -> Box<dyn Source + 'a> {
    fn lines<'a, F: Form + 'a>(name: &str, input: Box<dyn Read + 'a>) -> Box<dyn Source + 'a> {
        Box::new(Events::new(Lined::<_, F>::new(name, input)))
    }
    fn spread<'a, F: Form + 'a>(name: &str, input: Box<dyn Read + 'a>) -> Box<dyn Source + 'a> {
        Box::new(Events::new(Spread::new(Lined::<_, F>::new(name, input))))
    }
    match format {
        Format::Blktrace => Box::new(blktrace::Ordered::new(name, input)),
        Format::Blkparse => Box::new(blkparse_text::Reader::new(name, BufReader::new(input))),
        Format::Ftrace => Box::new(ftrace_text::Reader::new(name, BufReader::new(input))),
        Format::Vscsi => Box::new(Events::new(Vscsi::new(name, input))),
        Format::Iolog => lines::<Iolog>(name, input),
        Format::Biosnoop => lines::<Biosnoop>(name, input),
        Format::Msr => lines::<Msr>(name, input),
        Format::Spc => lines::<Spc>(name, input),
        Format::Alibaba => lines::<Alibaba>(name, input),
        Format::Tencent => spread::<Tencent>(name, input),
        Format::Systor => lines::<Systor>(name, input),
        Format::K5 => lines::<K5>(name, input),
        Format::CloudPhysics => spread::<CloudPhysics>(name, input),
        Format::Mqsim => lines::<Mqsim>(name, input),
        Format::Disksim => lines::<Disksim>(name, input),
        Format::Validation => lines::<Validation>(name, input),
        Format::Fiu => lines::<Fiu>(name, input),
        Format::Startup => lines::<Startup>(name, input),
        Format::Blocks => lines::<Blocks>(name, input),
        Format::Blkreplay => lines::<Blkreplay>(name, input),
    }
}

/// Opens a trace by its path, in this format, or in the one recognised.
///
/// # Errors
/// If there is no such trace, or as [`open()`].
pub fn open_path(path: &Path, format: Option<Format>) -> Result<Box<dyn Source>, OpenError> {
    let name = path.display().to_string();
    if name == "-" {
        return open("standard input", io::stdin().lock(), format);
    }
    let binary = format.is_none_or(|format| format == Format::Blktrace);
    if let Some(prefix) = processors_of(&name).filter(|_| binary && path.exists())
        && let Some(files) = files_of(prefix)?
    {
        return Ok(Box::new(files));
    }
    match std::fs::metadata(path) {
        Ok(metadata) => check_file(&name, &metadata)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let files = if binary { files_of(&name)? } else { None };
            return match files {
                Some(files) => Ok(Box::new(files)),
                None => Err(OpenError::Missing { longer: longer(path), name }),
            };
        }
        Err(source) => return Err(OpenError::Io { name, source }),
    }
    match File::open(path) {
        Ok(file) => open(&name, file, format),
        Err(source) => Err(OpenError::Io { name, source }),
    }
}

/// The traces whose prefixes begin with this name and a dot, as several runs write them.
fn longer(path: &Path) -> Vec<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return vec![] };
    let begin = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let named = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ours = named.filter(|name| name.starts_with(&begin));
    let ours = ours.filter_map(|name| processors_of(&name).map(str::to_owned));
    let mut all: Vec<String> =
        ours.map(|name| path.with_file_name(name).display().to_string()).collect();
    all.sort_unstable();
    all.dedup();
    all.truncate(8);
    all
}

/// What stands before `.blktrace.` and a processor's number: such files are read together.
#[must_use]
pub fn processors_of(name: &str) -> Option<&str> {
    let plain = PACKED.iter().find_map(|end| name.strip_suffix(end).filter(|_| !end.is_empty()));
    let (prefix, number) = plain.unwrap_or(name).rsplit_once(".blktrace.")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(prefix)
}

/// Suffixes that the name of a processor's file may have, in the order in which they are looked
/// for.
const PACKED: [&str; 3] = ["", ".gz", ".zst"];

/// The files of all processors, from the first on, packed or not; `None` if there is none.
fn files_of(prefix: &str) -> Result<Option<blktrace::Merged<Box<dyn Read>>>, OpenError> {
    let mut files = Vec::new();
    for cpu in 0..FILES_MAX {
        let names = PACKED.map(|end| format!("{prefix}.blktrace.{cpu}{end}"));
        let Some(name) = names.into_iter().find(|name| Path::new(name).exists()) else { break };
        let opened = File::open(&name).and_then(|file| unpacked(Box::new(file)));
        match opened {
            Ok(file) => files.push((name, Some(cpu), file)),
            Err(source) => return Err(OpenError::Io { name, source }),
        }
    }
    Ok((!files.is_empty()).then(|| blktrace::Merged::new(files)))
}

/// Whether something can be read like a file: also a pipe, but no folder and no disk.
fn check_file(name: &str, metadata: &Metadata) -> Result<(), OpenError> {
    let what = if metadata.is_dir() {
        "a folder; name a trace in it"
    } else if is_disk(metadata) {
        "a device, and no trace of it; `blktrace -d` makes one"
    } else {
        return Ok(());
    };
    Err(OpenError::NoFile { name: name.to_owned(), what })
}

#[cfg(unix)]
fn is_disk(metadata: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_disk(_: &Metadata) -> bool {
    false
}
