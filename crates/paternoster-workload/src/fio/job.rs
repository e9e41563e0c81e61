// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job: everything that one section of a job file says, in numbers.
//!
//! A job represents `numjobs` clones. Options not given have fio's default; a field is an `Option`
//! only where "not given" differs from every value (`direct`: a simulation may choose).
//!
//! Reporting groups: jobs are numbered by group in the report. The number rises at a job with
//! `stonewall` or `new_group`, unless the group has no member yet:
//!
//! ```text
//! [grp] 0    [one] new_group 1    [two] 1    [three] stonewall 2
//! ```
//!
//! Source: FIO-19 for groups, FIO-40 for the names of files, FIO-45 for the random map.

mod course;
mod order;
mod ours;
mod queueing;
mod reporting;
mod section;
mod space;

use std::sync::Arc;

use super::problem::Problem;
use super::recorded::Recorded;
use super::replay::ReplayRules;
use super::syncs::Syncs;
use super::verify_plan::VerifyRules;

pub use course::{Clones, Pacing, Priorities, Thinking, Timing};
pub use order::{Generator, Kind, Order, Pattern, Randomness, Sequencer};
pub use ours::Ours;
pub use queueing::{Engine, Queueing, SubmitMode};
pub use reporting::{Reporting, Unified};
pub use section::{Origin, Section};
pub use space::{Blocks, Caching, Files, Region};

/// One job: a section with what it inherited.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// Name of the section, or what `name=` says.
    pub name: String,
    /// The place of the job in its file, and the options that the report repeats.
    pub section: Section,
    /// Directions, and the order of offsets.
    pub order: Order,
    /// Options of everything that is random.
    pub random: Randomness,
    /// Options of block sizes.
    pub blocks: Blocks,
    /// Which part of the files, and how much of it.
    pub region: Region,
    /// Options of files and devices.
    pub files: Files,
    /// What the page cache has to do with it.
    pub cache: Caching,
    /// When data are made safe.
    pub syncs: Syncs,
    /// How much is in flight, and by which engine.
    pub queue: Queueing,
    /// A built-in workload to run instead.
    pub profile: Option<String>,
    /// Options of reading back what was written.
    pub verify: VerifyRules,
    /// Replay and recording of logs of I/O.
    pub replay: ReplayRules,
    /// The logs that it replays, once they were read; clones take them by turns.
    pub recorded: Vec<Arc<Recorded>>,
    /// Its clones, and its place among other jobs.
    pub clones: Clones,
    /// When it runs.
    pub time: Timing,
    /// Pauses between I/Os.
    pub think: Thinking,
    /// How fast it may go, and must.
    pub pacing: Pacing,
    /// Options of priority and cgroup.
    pub priority: Priorities,
    /// Options of reports and logs.
    pub report: Reporting,
    /// Options that fio does not have.
    pub ours: Ours,
}

impl Job {
    /// What is wrong with the job as a whole, at the line of its name.
    #[must_use]
    pub fn problem(&self, message: String) -> Problem {
        let text = format!("[{}]", self.name);
        Problem { file: self.section.file.clone(), line: self.section.line, text, message }
    }

    /// The files of clone number `clone`, from 0, with their directory.
    ///
    /// Named files are shared by all clones; otherwise each clone has its own, `job.clone.0` or as
    /// `filename_format` says.
    #[must_use]
    pub fn file_names(&self, clone: u32) -> Vec<String> {
        let own = |number: u32| match &self.files.filename_format {
            None => format!("{}.{clone}.{number}", self.name),
            Some(format) => format
                .replace("$jobname", &self.name)
                .replace("$jobnum", &clone.to_string())
                .replace("$filenum", &number.to_string())
                .replace("$clientuid", "localhost"),
        };
        let names = if self.files.filenames.is_empty() {
            (0..self.files.nrfiles).map(own).collect()
        } else {
            self.files.filenames.clone()
        };
        names.into_iter().map(|name| self.in_directory(name)).collect()
    }

    /// The number of a clone among fio's threads, the job's first one being number `first`. Seeds
    /// derived from it follow another order than one would think: of four clones they are 1, 4, 3
    /// and 2.
    #[must_use]
    pub fn thread_of(&self, first: u32, clone: u32) -> u32 {
        if clone == 0 { first } else { first + self.clones.numjobs.saturating_sub(clone) }
    }

    fn in_directory(&self, name: String) -> String {
        match &self.files.directory {
            // A device's path is whole in itself.
            Some(directory) if !is_device(&name) => {
                format!("{}/{name}", directory.trim_end_matches('/'))
            }
            _ => name,
        }
    }

    /// Whether a map keeps random blocks from being used twice in a pass.
    #[must_use]
    pub fn has_random_map(&self) -> bool {
        // An alignment that is the block itself is none.
        let aligned = self.blocks.block_align.iter().zip(&self.blocks.block_size);
        let mut aligned =
            aligned.map(|(align, (least, _))| align.is_none_or(|align| align == *least));
        self.order.rw.random
            && !self.random.norandommap
            && aligned.all(|one| one)
            && self.random.random_generator != Generator::Lfsr
            && self.random.random_distribution.is_uniform()
    }

    /// Whether the job ends with the last that is not background: by itself, or as `cpuio` with
    /// `exit_on_io_done`.
    #[must_use]
    pub fn is_in_background(&self) -> bool {
        self.ours.background || self.queue.engine == Engine::Cpu && self.queue.cpu_load.ends_with_io
    }

    /// Whether all the job's files are devices, which have a size of their own.
    #[must_use]
    pub fn on_devices(&self) -> bool {
        !self.files.filenames.is_empty() && self.files.filenames.iter().all(|name| is_device(name))
    }
}

/// Whether a file's name is that of a block device.
#[must_use]
pub fn is_device(name: &str) -> bool {
    name.starts_with("/dev/")
}

/// The reporting group of each job, from 0.
#[must_use]
pub fn reporting_groups(jobs: &[Job]) -> Vec<u32> {
    let mut group = 0;
    let mut groups = Vec::with_capacity(jobs.len());
    for job in jobs {
        // After the first job the current group always has a member.
        if (job.clones.stonewall || job.clones.new_group) && !groups.is_empty() {
            group += 1;
        }
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Job {
        Job { name: name.to_owned(), ..Job::default() }
    }

    /// Do groups rise only where the current one has members?
    #[test]
    fn groups_rise_at_walls() {
        let wall = || {
            let mut wall = named("wall");
            wall.clones.stonewall = true;
            wall
        };
        let mut new = named("new");
        new.clones.new_group = true;
        let jobs = [wall(), named("a"), new, named("b"), wall(), wall()];
        assert_eq!(reporting_groups(&jobs), [0, 0, 1, 1, 2, 3]);
    }

    /// Are files named as fio names them?
    #[test]
    fn files_are_named_after_job_and_clone() {
        let mut job = named("rdwr");
        assert_eq!(job.file_names(0), ["rdwr.0.0"]);
        job.files.directory = Some("/tmp/".to_owned());
        assert_eq!(job.file_names(1), ["/tmp/rdwr.1.0"]);
        job.files.filename_format = Some("$jobname-$jobnum-$filenum".to_owned());
        assert_eq!(job.file_names(2), ["/tmp/rdwr-2-0"]);
        job.files.filenames = vec!["/dev/sda".to_owned(), "b".to_owned()];
        assert_eq!(job.file_names(2), ["/dev/sda", "/tmp/b"]);
        assert!(!job.on_devices());
    }
}
