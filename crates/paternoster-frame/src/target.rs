// SPDX-License-Identifier: MIT OR Apache-2.0
//! Target: what jobs run on: a model in virtual time, or a file or block device in real time.
//!
//! ```text
//! --device hdd-7200      a name of the catalog   ─▶ model
//! --device my-disk.toml  a device file           ─▶ model
//! --device disk.img      any other regular file  ─▶ for real
//! --device /dev/sdb      a block device          ─▶ for real
//! ```
//!
//! A real target is opened once before anything runs, so that everything that is wrong is reported
//! first. For jobs that only read, the file is opened read-only. Jobs that write are refused where
//! the device is in use, unless `--force` says otherwise.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use paternoster_core::{DeviceFacts, Nanos};
use paternoster_sim::{Description, Model, Rule, Simulated, catalog};
use paternoster_workload::fio::job::{Job, Kind};

use crate::real::RealFile;
use crate::{Failure, choice};

/// A device that jobs run on.
#[derive(Debug, Clone)]
pub struct Target {
    /// The name, as given.
    pub name: String,
    /// What the device reports about itself.
    pub facts: DeviceFacts,
    /// CPU time between a completion and the next submission.
    pub submit_cost: Nanos,
    kind: Found,
}

/// What a name leads to.
#[derive(Debug, Clone)]
enum Found {
    Model(Description),
    Real(RealFile),
}

/// Whether targets may be real, and what may be done to them.
#[derive(Debug, Clone, Copy)]
pub enum Real {
    /// Real targets are refused: jobs run on models alone.
    Refused,
    /// Jobs run on it.
    Allowed {
        /// Whether some jobs write.
        writes: bool,
        /// Even if it is in use.
        force: bool,
    },
}

impl From<Description> for Target {
    fn from(model: Description) -> Target {
        let Description { facts, submit_cost, .. } = model;
        Target { name: model.name.clone(), facts, submit_cost, kind: Found::Model(model) }
    }
}

impl Target {
    /// The target that a user means by `name`.
    pub fn find(name: &str, real: Real, seed: u64) -> Result<Target, Failure> {
        if !is_real(name) {
            return Ok(choice::device(name)?.into());
        }
        match real {
            Real::Refused => Err(only_run(name)),
            Real::Allowed { writes, force } => Target::real(name, writes, force, seed),
        }
    }

    fn real(name: &str, writes: bool, force: bool, seed: u64) -> Result<Target, Failure> {
        let (file, facts) = RealFile::find(name, writes, force, seed)?;
        // What the CPU does costs its time anyway.
        let submit_cost = Nanos::ZERO;
        Ok(Target { name: name.to_owned(), facts, submit_cost, kind: Found::Real(file) })
    }

    /// A fresh model, with its faults.
    pub fn model(&self, faults: &[Rule], seed: u64) -> Result<Simulated<Box<dyn Model>>, Failure> {
        match &self.kind {
            Found::Model(model) => Ok(Simulated::new(model.faulty_model(faults, seed))),
            Found::Real(_) => Err(only_run(&self.name)),
        }
    }

    /// The same model with a limit on the commands it takes.
    pub fn with_depth(&self, depth: u32) -> Target {
        match &self.kind {
            Found::Model(model) => {
                let mut model = model.clone();
                model.facts.depth = depth;
                Target { name: self.name.clone(), ..model.into() }
            }
            Found::Real(_) => self.clone(),
        }
    }

    /// The file or block device, if the target is one.
    pub const fn as_real(&self) -> Option<&RealFile> {
        match &self.kind {
            Found::Real(file) => Some(file),
            Found::Model(_) => None,
        }
    }

    /// Whether jobs suit a real device; models take everything.
    pub fn check(&self, jobs: &[Job]) -> Result<(), Failure> {
        let Some(block) = self.as_real().map(RealFile::block) else { return Ok(()) };
        let odd = |job: &&Job| {
            let mut sizes = job.blocks.block_size.iter().flat_map(|&(low, high)| [low, high]);
            sizes.any(|size| !size.is_multiple_of(u64::from(block)))
        };
        match jobs.iter().find(odd) {
            None => Ok(()),
            Some(job) => {
                let message =
                    format!("{} takes multiples of {block} bytes: make `bs` one", self.name);
                Err(Failure::Request(job.problem(message).to_string()))
            }
        }
    }
}

/// Whether it is a regular file other than a device file, or a block device.
fn is_real(name: &str) -> bool {
    if catalog::by_name(name).is_some() || Path::new(name).extension().is_some_and(is_toml) {
        return false;
    }
    fs::metadata(name).is_ok_and(|it| it.is_file() || it.file_type().is_block_device())
}

fn is_toml(extension: &std::ffi::OsStr) -> bool {
    extension == "toml"
}

fn only_run(name: &str) -> Failure {
    let message = "it is no model: only `paternoster run` works for real (a device file ends in \
                   .toml)";
    Failure::Request(format!("--device {name}: {message}"))
}

/// Whether any of these jobs may write or discard.
pub fn writes(jobs: &[Job]) -> bool {
    let only_reads = |job: &Job| {
        job.order.rw.kind == Kind::ReadOnly
            && job.replay.logs.is_empty()
            && job.profile.is_none()
            && job.ours.generated.is_none()
            && job.ours.relay.is_empty()
    };
    !jobs.iter().all(only_reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a job that reads distinguished from one that writes?
    #[test]
    fn writing_jobs_are_known() {
        let of = |kind| {
            let mut job = Job::default();
            job.order.rw.kind = kind;
            job
        };
        assert!(!writes(&[of(Kind::ReadOnly), of(Kind::ReadOnly)]));
        for kind in [Kind::WriteOnly, Kind::TrimOnly, Kind::ReadWrite, Kind::TrimWrite] {
            assert!(writes(&[of(Kind::ReadOnly), of(kind)]), "{kind:?}");
        }
    }

    /// Are names of models, device files and real files distinguished?
    #[test]
    fn targets_are_told_apart() {
        let target = |name| Target::find(name, Real::Refused, 0);
        assert!(target("null").is_ok_and(|target| target.as_real().is_none()));
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices/null.toml");
        assert!(target(own).is_ok_and(|target| target.as_real().is_none()));
        match target(concat!(env!("CARGO_MANIFEST_DIR"), "/src/target.rs")) {
            Err(Failure::Request(message)) => assert!(message.contains("only `paternoster run`")),
            other => panic!("{other:?}"),
        }
    }
}
