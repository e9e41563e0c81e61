// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queueing: how much a job has in flight, and by which engine.
//!
//! Fields have the names of fio's options.
//!
//! Source: fio's manual.

use super::super::cpu_load::CpuLoad;

/// How a job waits for its I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// One I/O at a time.
    Sync,
    /// Up to `iodepth` in flight.
    Async,
    /// Every I/O completes at once and never reaches a device.
    Null,
    /// No I/O: the job burns CPU.
    Cpu,
}

/// The option `io_submit_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubmitMode {
    /// The process submits, and a full queue holds it up.
    #[default]
    Inline,
    /// Others submit for it: an open loop, where I/Os come only at the given rate.
    Offload,
}

/// How much is in flight, and by which engine.
#[derive(Debug, Clone)]
pub struct Queueing {
    /// The I/O engine: how the job waits.
    pub engine: Engine,
    /// The engine's name as given.
    pub engine_name: String,
    /// I/Os in flight as given; a synchronous engine has one whatever this says.
    pub iodepth: u32,
    /// How far the depth falls before it is filled again: 1 to `iodepth`.
    pub iodepth_low: u32,
    /// I/Os submitted together: 1 to `iodepth`.
    pub iodepth_batch_submit: u32,
    /// Completions waited for: 0 (poll) to `iodepth`.
    pub iodepth_batch_complete_min: u32,
    /// Completions taken at most: 1 to `iodepth`, not below the least.
    pub iodepth_batch_complete_max: u32,
    /// The thread that submits.
    pub submit_mode: SubmitMode,
    /// No two I/Os in flight on the same bytes.
    pub serialize_overlap: bool,
    /// Options of `cpuio`.
    pub cpu_load: CpuLoad,
}

impl Default for Queueing {
    /// fio's defaults. The depths 0 mean "not said" until the job is complete.
    fn default() -> Queueing {
        Queueing {
            engine: Engine::Sync,
            engine_name: "psync".to_owned(),
            iodepth: 1,
            iodepth_low: 0,
            iodepth_batch_submit: 1,
            iodepth_batch_complete_min: 1,
            iodepth_batch_complete_max: 0,
            submit_mode: SubmitMode::Inline,
            serialize_overlap: false,
            cpu_load: CpuLoad::default(),
        }
    }
}
