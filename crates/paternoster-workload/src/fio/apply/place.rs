// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where: options of files and regions.
//!
//! Source: FIO-40 to FIO-44, FIO-49.

use crate::fio::file_choice::FileService;
use crate::fio::job::Job;
use crate::fio::value::{self, Amount, Reader};

/// Files that one job may name. Each of 4096 jobs may inherit a list, so it must not be long.
const FILES_MAX: usize = 256;
/// The most files that `nrfiles` may give. They have no names of their own until the job runs.
const FILES_MAX_NUMBER: u64 = 1 << 16;

/// Options of files and regions.
pub(super) fn place(
    job: &mut Job,
    name: &str,
    text: &str,
    read: &mut Reader<'_>,
) -> Result<bool, String> {
    match name {
        "filename" => job.files.filenames = filenames(text)?,
        "directory" => job.files.directory = Some(text.to_owned()),
        "filename_format" => job.files.filename_format = Some(text.to_owned()),
        // Zero is fio's way to say "not given".
        "size" => {
            job.region.size = Some(read.amount(text)?).filter(|size| *size != Amount::Bytes(0));
        }
        "io_size" => {
            job.region.io_size = Some(read.amount(text)?).filter(|size| *size != Amount::Bytes(0));
        }
        "offset" => job.region.offset = read.amount(text)?,
        "offset_increment" => job.region.offset_increment = read.amount(text)?,
        "filesize" => {
            let (low, high) = read.range_of_files(text)?;
            job.files.filesize = Some(high.max(low)).filter(|size| *size > 0);
            job.files.filesize_range = Some((low, high)).filter(|_| low != high);
        }
        "offset_align" => job.region.offset_align = read.size(text)?,
        "nrfiles" => job.files.nrfiles = read.small(text, 1, FILES_MAX_NUMBER)?,
        "openfiles" => {
            let most = read.small::<u32>(text, 0, FILES_MAX_NUMBER)?;
            job.files.open_files = usize::try_from(most).ok().filter(|most| *most > 0);
        }
        "file_service_type" => job.files.file_service = FileService::read(text)?,
        "pre_read" => job.cache.pre_read = value::boolean(text)?,
        "invalidate" => job.cache.invalidate = value::boolean(text)?,
        "overwrite" => job.cache.overwrite = value::boolean(text)?,
        _ => return job.region.strides.set(name, text, read),
    }
    Ok(true)
}

fn filenames(text: &str) -> Result<Vec<String>, String> {
    let names = value::names(text);
    if names.len() > FILES_MAX {
        return Err(format!("there are {} files, at most {FILES_MAX} fit", names.len()));
    }
    Ok(names)
}
