// SPDX-License-Identifier: MIT OR Apache-2.0
//! Split: a job file in the form in which real fio runs it on one block device.
//!
//! Ours lays out a file for each clone of a job; on a loop device there are no files, so each clone
//! becomes a section of its own with the region of the device where ours has its file:
//!
//! ```text
//! [a] numjobs=2 size=64m          [a] filename=/dev/loop0 offset=0        size=67108864
//! [b] size=64m             ──▶    [a] filename=/dev/loop0 offset=67108864 size=67108864
//!                                 [b] filename=/dev/loop0 offset=…        size=67108864
//! ```
//!
//! Clones of jobs with a cgroup go to a fio of their own for each cgroup, because a process is in
//! one; the others share a fio. Clones are threads of it: ending fio ends all of them.
//!
//! # Invariants
//! I1  Each clone is in exactly one part, in the order of jobs and clones.
//! I2  Place, size, number and reporting are only set by us; everything else is the job's.

use std::fmt::Write as _;
use std::path::Path;

use paternoster_core::Nanos;
use paternoster_workload::fio::jobfile::JobFile;
use paternoster_workload::layout::{self, Placement};

/// Options that are not passed on: where, how large, how many, for how long, in which cgroup, and
/// what is reported.
const OURS: [&str; 41] = [
    "filename",
    "directory",
    "filename_format",
    "filename_fmt",
    "nrfiles",
    "nr_files",
    "openfiles",
    "file_service_type",
    "filesize",
    "size",
    "offset",
    "fileoffset",
    "offset_increment",
    "offset_align",
    "numjobs",
    "thread",
    "name",
    "direct",
    "buffered",
    "odirect",
    "cgroup",
    "cgroup_weight",
    "cgroup_nodelete",
    "group_reporting",
    "unified_rw_reporting",
    "mixed",
    "percentile_list",
    "lat_percentiles",
    "clat_percentiles",
    "slat_percentiles",
    "status_interval",
    "status-interval",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "create_serialize",
    "create_on_open",
    "unlink",
    "fallocate",
    "ioscheduler",
];
/// Options of times.
const TIME: [&str; 4] = ["runtime", "timeout", "time_based", "loops"];

/// The part of a job file that one fio process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Its cgroup, if it is in one.
    pub(super) group: Option<Group>,
    /// Its job file.
    pub(super) text: String,
    /// The indices of its clones among all, in the order of its sections.
    pub(super) clones: Vec<usize>,
    /// When the whole section ends, if every clone is counted from the end of its ramp on; `None`
    /// without a ramp, without a runtime, and for jobs that wait for others.
    pub(super) ends: Option<Nanos>,
}

/// A cgroup and its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) weight: u32,
}

/// The default weight of a cgroup.
const WEIGHT: u32 = 100;

/// The parts of a job file on the block device `device` of `capacity` bytes; `runtime` replaces the
/// jobs' own, if given.
///
/// # Errors
/// What cannot be passed to the kernel's side, with its place.
pub(super) fn split(
    file: &JobFile,
    device: &Path,
    capacity: u64,
    runtime: Option<Nanos>,
) -> Result<Vec<Part>, String> {
    let layout = layout::plan(&file.jobs, capacity, Placement::Near, 0);
    let layout = layout.map_err(|problem| problem.to_string())?;
    let grouped = file.jobs.iter().any(|job| job.priority.cgroup.is_some());
    let mut global = format!(
        "[global]\nthread=1\ndirect=1\nfilename={}\nlat_percentiles=1\nclat_percentiles=0\n\
         percentile_list=50:99\n",
        device.display()
    );
    tell(&mut global, &file.global, runtime);
    let ends = ends(file, runtime);
    let mut parts: Vec<Part> = Vec::new();
    let mut number = 0;
    for (place, job) in file.jobs.iter().enumerate() {
        if grouped && place > 0 && job.clones.stonewall {
            let why = "jobs of different cgroups are run by a fio each, which know nothing of \
                       each other's stonewall";
            return Err(job.problem(why.to_owned()).to_string());
        }
        let group = job.priority.cgroup.as_ref().map(|name| Group {
            name: name.clone(),
            weight: job.priority.cgroup_weight.unwrap_or(WEIGHT),
        });
        if let Some(group) = group.as_ref().filter(|group| group.name.contains('/')) {
            let why = format!("cgroup={}: a cgroup within another is not made here", group.name);
            return Err(job.problem(why).to_string());
        }
        for region in &layout.regions[place] {
            let [file] = region.files.as_slice() else {
                let why = "a clone works in one region of a block device: no nrfiles";
                return Err(job.problem(why.to_owned()).to_string());
            };
            let at = layout.files[file.file as usize].locate(file.start).0;
            let found = parts.iter().position(|part| {
                part.group.as_ref().map(|group| &group.name) == job.priority.cgroup.as_ref()
            });
            let nth = found.unwrap_or_else(|| {
                let clones = Vec::new();
                parts.push(Part { group: group.clone(), text: global.clone(), clones, ends });
                parts.len() - 1
            });
            let part = &mut parts[nth];
            let _infallible = writeln!(part.text, "[{}]", job.name);
            tell(&mut part.text, &job.section.given, runtime);
            let _infallible = writeln!(part.text, "offset={at}\nsize={}", file.bytes);
            // Ours also numbers its threads over all jobs.
            if job.random.randseed.is_none() && job.random.randrepeat {
                let _infallible = writeln!(part.text, "randseed={}", 1 + 7919 * number);
            }
            if let Some(runtime) = runtime {
                let _infallible =
                    writeln!(part.text, "time_based=1\nruntime={}ms", runtime.as_millis());
            }
            part.clones.push(number);
            number += 1;
        }
    }
    Ok(parts)
}

/// When the last job has ended by its ramp and runtime.
fn ends(file: &JobFile, runtime: Option<Nanos>) -> Option<Nanos> {
    let jobs = &file.jobs;
    let waits = jobs.iter().any(|job| job.clones.stonewall || job.clones.ending.wait_for.is_some());
    if waits || jobs.iter().all(|job| job.time.ramp_time == Nanos::ZERO) {
        return None;
    }
    let all = jobs.iter().map(|job| {
        Some(job.time.start_delay.1 + job.time.ramp_time + runtime.or(job.time.runtime)?)
    });
    all.collect::<Option<Vec<Nanos>>>()?.into_iter().max()
}

/// Writes the options that are passed on.
fn tell(text: &mut String, options: &[(String, String)], runtime: Option<Nanos>) {
    for (name, value) in options {
        let lower = name.to_ascii_lowercase();
        let time = runtime.is_some() && TIME.contains(&lower.as_str());
        if OURS.contains(&lower.as_str()) || time {
            continue;
        }
        let _infallible = match value.as_str() {
            "" => writeln!(text, "{name}"),
            value => writeln!(text, "{name}={value}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use paternoster_workload::fio::jobfile::{Source, parse};

    use super::*;

    fn read(text: &str) -> JobFile {
        let source = Source { name: "jobs", text };
        parse(&[source], &[], &[], &|_| None, &|_, _| Err(String::new())).unwrap()
    }

    fn parts(text: &str, runtime: Option<Nanos>) -> Result<Vec<Part>, String> {
        split(&read(text), Path::new("/dev/loop9"), 1 << 30, runtime)
    }

    /// Does each clone have the region of its file? Files of 3 MiB begin at multiples of 1 MiB: 0,
    /// 3 and 6 MiB; b's region is 1 MiB after the beginning of its file.
    #[test]
    fn clones_become_sections() {
        let text = "[global]\nrw=randread\nbs=4k\nnumjobs=2\nsize=3m\n[a]\niodepth=2\n\
                    [b]\nnumjobs=1\noffset=1m\nsize=2m\ngroup_reporting\n";
        let parts = parts(text, None).unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].clones.clone(), parts[0].group.clone()), (vec![0, 1, 2], None));
        let global = "[global]\nthread=1\ndirect=1\nfilename=/dev/loop9\nlat_percentiles=1\n\
                      clat_percentiles=0\npercentile_list=50:99\nrw=randread\nbs=4k\n";
        let sections = "[a]\niodepth=2\noffset=0\nsize=3145728\nrandseed=1\n\
                        [a]\niodepth=2\noffset=3145728\nsize=3145728\nrandseed=7920\n\
                        [b]\noffset=7340032\nsize=2097152\nrandseed=15839\n";
        assert_eq!(parts[0].text, format!("{global}{sections}"));
    }

    /// Is there a fio for each cgroup, with all clones of it, and one for the rest?
    #[test]
    fn cgroups_are_parts() {
        let text = "[global]\nrw=read\nsize=1m\n[a]\ncgroup=x\ncgroup_weight=300\n[b]\n\
                    [c]\ncgroup=x\n[d]\ncgroup=y\n";
        let parts = parts(text, None).unwrap();
        let group = |name: &str, weight| Some(Group { name: name.to_owned(), weight });
        let found: Vec<_> = parts.iter().map(|part| (part.group.clone(), &part.clones)).collect();
        let expected =
            [(group("x", 300), &vec![0, 2]), (None, &vec![1]), (group("y", 100), &vec![3])];
        assert_eq!(found, expected);
        assert!(!parts[0].text.contains("cgroup"), "{}", parts[0].text);
    }

    /// Does a runtime replace the jobs' own, in fio's words?
    #[test]
    fn a_runtime_is_everybodys() {
        let text = "[global]\nrw=read\nsize=1m\nruntime=60\n[a]\nloops=3\nramp_time=2\n";
        let text = parts(text, Some(Nanos::from_millis(1500))).unwrap().remove(0).text;
        assert!(!text.contains("runtime=60") && !text.contains("loops"), "{text}");
        assert!(text.contains("ramp_time=2\n") && text.ends_with("runtime=1500ms\n"), "{text}");
    }

    /// Is it known when all have ended, if no job waits for others?
    #[test]
    fn ends_are_known() {
        let global = "[global]\nrw=read\nsize=1m\nruntime=6\n";
        let ends =
            |jobs: &str, runtime| parts(&format!("{global}{jobs}"), runtime).unwrap()[0].ends;
        let ramped = "[a]\nramp_time=1\n[b]\n";
        assert_eq!(ends(ramped, None), Some(Nanos::from_secs(7)));
        assert_eq!(ends(ramped, Some(Nanos::from_secs(2))), Some(Nanos::from_secs(3)));
        assert_eq!(ends("[a]\n[b]\n", None), None, "no ramp");
        assert_eq!(ends("[a]\nramp_time=1\n[b]\nstonewall\n", None), None);
    }

    /// Is what cannot be done refused with its place?
    #[test]
    fn refusals_say_where() {
        let wrong = parts("[a]\nrw=read\nsize=4m\nnrfiles=2\n", None).unwrap_err();
        assert!(wrong.contains("jobs:1: ") && wrong.contains("no nrfiles"), "{wrong}");
        let walls = "[global]\nrw=read\nsize=1m\n[a]\ncgroup=x\n[b]\nstonewall\n";
        let wrong = parts(walls, None).unwrap_err();
        assert!(wrong.contains("jobs:6: ") && wrong.contains("stonewall"), "{wrong}");
        let wrong = parts("[a]\nrw=read\nsize=2g\n", None).unwrap_err();
        assert!(wrong.contains("2147483648"), "{wrong}");
    }
}
