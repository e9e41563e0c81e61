// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout: where the files of a run lie on its device.
//!
//! Every file is one contiguous extent; files follow one another in the order in which the jobs
//! first name them, each at a multiple of 1 MiB. A name below `/dev/` is the device itself. Jobs
//! that name the same file share it.
//!
//! ```text
//! device   |a.dat 64 MiB      |b.dat 10 MiB |            … capacity
//!          0                  64            74 MiB
//! job a, offset=16m size=8m:  region [16, 24) MiB of a.dat
//! ```
//!
//! Source: spec `fio.md` 3.3.

use crate::fio::job::{Job, is_device};
use crate::fio::jobfile::Problem;

/// Files begin at multiples of this.
const ALIGNMENT: u64 = 1 << 20;

/// Where one clone of a job works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where its file begins on the device, in bytes.
    pub file_at: u64,
    /// Where it works in the file, in bytes.
    pub start: u64,
    /// How many bytes from there.
    pub bytes: u64,
    /// How many bytes it reads and writes in one pass.
    pub io_bytes: u64,
}

struct File {
    name: String,
    at: u64,
    bytes: u64,
}

/// The regions of all clones of all jobs, in their order.
///
/// # Errors
/// A [`Problem`] at the job whose file does not fit.
pub fn plan(jobs: &[Job], capacity: u64) -> Result<Vec<Vec<Region>>, Problem> {
    if let Some(job) = jobs.iter().find(|job| job.filenames.len() > 1) {
        return Err(several_files(job));
    }
    let mut files: Vec<File> = Vec::new();
    // First the sizes: a file is as long as the jobs that share it need it.
    for job in jobs {
        for clone in 0..job.numjobs {
            let name = file_name(job, clone);
            let (start, bytes, _) = extent(job, clone, whole_of(job, &name, capacity));
            let needed = start.saturating_add(bytes).max(job.filesize.unwrap_or(0));
            match files.iter_mut().find(|file| file.name == name) {
                Some(file) => file.bytes = file.bytes.max(needed),
                None => files.push(File { name, at: 0, bytes: needed }),
            }
        }
    }
    let mut at = 0u64;
    for file in files.iter_mut().filter(|file| !is_device(&file.name)) {
        file.at = at;
        at = at.saturating_add(file.bytes).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
    }
    jobs.iter().map(|job| regions(job, &files, capacity)).collect()
}

fn regions(job: &Job, files: &[File], capacity: u64) -> Result<Vec<Region>, Problem> {
    (0..job.numjobs)
        .map(|clone| {
            let name = file_name(job, clone);
            let found = files.iter().find(|file| file.name == name);
            let file_at = found.map_or(0, |file| file.at);
            let (start, bytes, io_bytes) = extent(job, clone, whole_of(job, &name, capacity));
            let end = file_at.saturating_add(start).saturating_add(bytes);
            if end > capacity {
                return Err(too_large(job, &name, end, capacity));
            }
            let block = job.block_size.iter().map(|&(least, _)| least).min().unwrap_or(0);
            if bytes < block {
                return Err(too_small(job, bytes, block));
            }
            Ok(Region { file_at, start, bytes, io_bytes })
        })
        .collect()
}

fn too_large(job: &Job, name: &str, end: u64, capacity: u64) -> Problem {
    Problem {
        file: job.file.clone(),
        line: job.line,
        text: format!("[{}]", job.name),
        message: format!(
            "file `{name}` would end at byte {end} of a device of {capacity}; make `size` \
             smaller or let jobs \
             share a `filename`"
        ),
    }
}

fn too_small(job: &Job, bytes: u64, block: u64) -> Problem {
    Problem {
        file: job.file.clone(),
        line: job.line,
        text: format!("[{}]", job.name),
        message: format!(
            "job `{}` has {bytes} bytes to work on, less than one block of {block}; make `size` \
             larger or `bs` smaller",
            job.name
        ),
    }
}

fn several_files(job: &Job) -> Problem {
    Problem {
        file: job.file.clone(),
        line: job.line,
        text: format!("filename={}", job.filenames.join(":")),
        message: "several files in one job are not supported yet; give each its own job".to_owned(),
    }
}

fn file_name(job: &Job, clone: u32) -> String {
    job.file_names(clone).into_iter().next().unwrap_or_default()
}

/// What percentages are of: the device, or the file.
fn whole_of(job: &Job, name: &str, capacity: u64) -> u64 {
    if is_device(name) { capacity } else { job.filesize.unwrap_or(capacity) }
}

/// Start, length and bytes of I/O of a clone in a file of `whole` bytes.
fn extent(job: &Job, clone: u32, whole: u64) -> (u64, u64, u64) {
    let step = job.offset_increment.of(whole).saturating_mul(clone.into());
    let start = job.offset.of(whole).saturating_add(step);
    let bytes = match job.size {
        Some(size) => size.of(whole),
        None => whole.saturating_sub(start),
    };
    let io_bytes = job.io_size.map_or(bytes, |io_size| io_size.of(bytes));
    (start, bytes, io_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::jobfile::{Source, parse};

    fn jobs(text: &str) -> Vec<Job> {
        let none = |_: &str| None;
        let include = |_: &str, _: &str| Err(String::new());
        parse(&[Source { name: "t.fio", text }], &[], &[], &none, &include).unwrap().jobs
    }

    /// Do files follow one another, and do jobs that name the same one share it?
    #[test]
    fn files_follow_one_another() {
        let jobs = jobs(
            "[a]\nfilename=x\nsize=3m\noffset=1m\n[b]\nfilename=y\nsize=1m\n\
             [c]\nfilename=x\nsize=1m\n\
             [d]\nfilename=/dev/sda\noffset=2m\n",
        );
        let plan = plan(&jobs, 10 << 20).unwrap();
        let mib = |region: Region| (region.file_at >> 20, region.start >> 20, region.bytes >> 20);
        let all: Vec<_> = plan.iter().map(|regions| mib(regions[0])).collect();
        // x is 4 MiB long, because a reaches that far; y lies behind it; the device is itself.
        assert_eq!(all, [(0, 1, 3), (4, 0, 1), (0, 0, 1), (0, 2, 8)]);
    }

    /// Does each clone get its own file, or its own place in a shared one?
    #[test]
    fn clones_get_their_own_place() {
        let jobs = jobs(
            "[a]\nsize=2m\nnumjobs=2\n[b]\nfilename=z\nsize=1m\nnumjobs=2\noffset_increment=4m\n",
        );
        let plan = plan(&jobs, 64 << 20).unwrap();
        assert_eq!(plan[0].iter().map(|r| r.file_at >> 20).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(plan[1].iter().map(|r| r.start >> 20).collect::<Vec<_>>(), [0, 4]);
    }

    /// Is a file that does not fit refused, with the job and the remedy?
    #[test]
    fn a_file_that_does_not_fit_is_refused() {
        let problem = plan(&jobs("[big]\nfilename=x\nsize=2m\n"), 1 << 20).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "t.fio:1: file `x` would end at byte 2097152 of a device of 1048576; make \
             `size` smaller or \
             let jobs share a `filename`: `[big]`"
        );
    }
}
