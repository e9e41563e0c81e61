// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout: where the files of a run lie on its device.
//!
//! Files follow one another in the order in which the jobs first name them, each at a multiple of
//! 1 MiB; or elsewhere, as [`Placement`] says. A name below `/dev/` is the device itself. Jobs that
//! name the same file share it.
//!
//! ```text
//! near          |aaaa|bbbb|cccc|                                … capacity
//! far           |aaaa|            |bbbb|            |cccc|      … capacity
//! interleaved   |a|b|c|a|b|c|a|b|c|a|b|c|                       … capacity
//!
//! job a, offset=16m size=8m:  region [16, 24) MiB of its file
//! ```
//!
//! Source: spec `fio.md` 3.3; seed 001, whose authors argue whether files that lie far from each
//! other, or grew together, explain what they measure.

use crate::fio::job::{Job, is_device};
use crate::fio::jobfile::Problem;
use crate::page_cache::extent::Extent;

/// Files begin at multiples of this.
const ALIGNMENT: u64 = 1 << 20;

/// How files lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// One behind the other.
    #[default]
    Near,
    /// At equal distances over the whole device.
    Far,
    /// In pieces of so many bytes, by turns, as files that grew at the same time.
    Interleaved(u64),
}

/// Where one clone of a job works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its file, by its number in the layout.
    pub file: u32,
    /// Where it works in the file, in bytes.
    pub start: u64,
    /// How many bytes from there.
    pub bytes: u64,
    /// How many bytes it reads and writes in one pass.
    pub io_bytes: u64,
}

/// The files of a run, and who works where in them.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Where each file lies.
    pub files: Vec<Extent>,
    /// By job and clone.
    pub regions: Vec<Vec<Region>>,
}

struct File {
    name: String,
    bytes: u64,
}

/// Lays out the files of all jobs on a device of `capacity` bytes.
///
/// # Errors
/// A [`Problem`] at the job whose file does not fit.
pub fn plan(jobs: &[Job], capacity: u64, placement: Placement) -> Result<Layout, Problem> {
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
                None => files.push(File { name, bytes: needed }),
            }
        }
    }
    let extents = place(&files, capacity, placement);
    let regions = jobs.iter().map(|job| regions(job, &files, &extents, capacity));
    Ok(Layout { regions: regions.collect::<Result<_, _>>()?, files: extents })
}

/// Where each file lies, whether or not it fits.
fn place(files: &[File], capacity: u64, placement: Placement) -> Vec<Extent> {
    let aligned = |bytes: u64| bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
    let count = files.iter().filter(|file| !is_device(&file.name)).count() as u64;
    let (mut number, mut near) = (0, 0u64);
    let mut extents = Vec::with_capacity(files.len());
    for file in files {
        if is_device(&file.name) {
            extents.push(Extent::whole(0, file.bytes));
            continue;
        }
        extents.push(match placement {
            Placement::Near => Extent::whole(near, file.bytes),
            Placement::Far => {
                let at = capacity / count / ALIGNMENT * ALIGNMENT * number;
                Extent::whole(at, file.bytes)
            }
            Placement::Interleaved(piece) => Extent {
                at: number.saturating_mul(piece),
                bytes: file.bytes,
                piece,
                stride: count.saturating_mul(piece),
            },
        });
        number += 1;
        near = aligned(near.saturating_add(file.bytes));
    }
    extents
}

fn regions(
    job: &Job,
    files: &[File],
    extents: &[Extent],
    capacity: u64,
) -> Result<Vec<Region>, Problem> {
    (0..job.numjobs)
        .map(|clone| {
            let name = file_name(job, clone);
            let file = files.iter().position(|file| file.name == name).unwrap_or(0);
            let (start, bytes, io_bytes) = extent(job, clone, whole_of(job, &name, capacity));
            let end = extents[file].end().max(extents[file].at.saturating_add(bytes));
            if end > capacity || start.saturating_add(bytes) > capacity {
                return Err(too_large(job, &name, end, capacity));
            }
            let block = job.block_size.iter().map(|&(least, _)| least).min().unwrap_or(0);
            if bytes < block {
                return Err(too_small(job, bytes, block));
            }
            let file = u32::try_from(file).unwrap_or(u32::MAX);
            Ok(Region { file, start, bytes, io_bytes })
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

    const MIB: u64 = 1 << 20;

    /// Do files follow one another, and do jobs that name the same one share it?
    #[test]
    fn files_follow_one_another() {
        let jobs = jobs(
            "[a]\nfilename=x\nsize=3m\noffset=1m\n[b]\nfilename=y\nsize=1m\n\
             [c]\nfilename=x\nsize=1m\n\
             [d]\nfilename=/dev/sda\noffset=2m\n",
        );
        let plan = plan(&jobs, 10 * MIB, Placement::Near).unwrap();
        let mib = |region: Region| {
            (plan.files[region.file as usize].at / MIB, region.start / MIB, region.bytes / MIB)
        };
        let all: Vec<_> = plan.regions.iter().map(|regions| mib(regions[0])).collect();
        // x is 4 MiB long, because a reaches that far; y lies behind it; the device is itself.
        assert_eq!(all, [(0, 1, 3), (4, 0, 1), (0, 0, 1), (0, 2, 8)]);
    }

    /// Does each clone get its own file, or its own place in a shared one?
    #[test]
    fn clones_get_their_own_place() {
        let jobs = jobs(
            "[a]\nsize=2m\nnumjobs=2\n\
             [b]\nfilename=z\nsize=1m\nnumjobs=2\noffset_increment=4m\n",
        );
        let plan = plan(&jobs, 64 * MIB, Placement::Near).unwrap();
        assert_eq!(plan.files.iter().map(|file| file.at / MIB).collect::<Vec<_>>(), [0, 2, 4]);
        let starts: Vec<_> = plan.regions[1].iter().map(|region| region.start / MIB).collect();
        assert_eq!(starts, [0, 4]);
    }

    /// Two files of 2 MiB on 64 MiB: far apart at 0 and 32; in pieces of 1 MiB at 0 2 and 1 3.
    #[test]
    fn files_lie_as_they_are_placed() {
        let jobs = jobs("[a]\nsize=2m\nnumjobs=2\n");
        let at = |placement, offset: u64| {
            let plan = plan(&jobs, 64 * MIB, placement).unwrap();
            plan.files.iter().map(|file| file.locate(offset).0 / MIB).collect::<Vec<_>>()
        };
        assert_eq!(at(Placement::Far, MIB), [1, 33]);
        assert_eq!(at(Placement::Interleaved(MIB), 0), [0, 1]);
        assert_eq!(at(Placement::Interleaved(MIB), MIB), [2, 3]);
    }

    /// Is a file that does not fit refused, with the job and the remedy?
    #[test]
    fn a_file_that_does_not_fit_is_refused() {
        let problem =
            plan(&jobs("[big]\nfilename=x\nsize=2m\n"), MIB, Placement::Near).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "t.fio:1: file `x` would end at byte 2097152 of a device of 1048576; make \
             `size` smaller or \
             let jobs share a `filename`: `[big]`"
        );
    }
}
