// SPDX-License-Identifier: MIT OR Apache-2.0
//! Course: clones, when a job runs, how fast it goes, and what schedulers know of it.
//!
//! Fields have the names of fio's options.
//!
//! Source: FIO-19; fio's manual.

use paternoster_core::Nanos;

use super::super::cmdprio::CommandPriority;
use super::super::ending::Ending;
use super::super::flow::FlowShare;
use super::super::latency_target::LatencyGoal;
use super::super::pace::RateRules;

/// Its clones, and its place among other jobs.
#[derive(Debug, Clone)]
pub struct Clones {
    /// Clones, at least 1.
    pub numjobs: u32,
    /// Report clones as one.
    pub group_reporting: bool,
    /// Begin a new reporting group.
    pub new_group: bool,
    /// Start after all earlier jobs have ended.
    pub stonewall: bool,
    /// How its end ends others, and whose end it waits for.
    pub ending: Ending,
}

impl Default for Clones {
    fn default() -> Clones {
        Clones {
            numjobs: 1,
            group_reporting: false,
            new_group: false,
            stonewall: false,
            ending: Ending::default(),
        }
    }
}

/// When it runs.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// Least and greatest delay of the start.
    pub start_delay: (Nanos, Nanos),
    /// Stop after this long, counted from the end of `ramp_time`.
    pub runtime: Option<Nanos>,
    /// Only `runtime` ends the job.
    pub time_based: bool,
    /// Time before anything is counted.
    pub ramp_time: Nanos,
}

/// Pauses between I/Os.
#[derive(Debug, Clone, Default)]
pub struct Thinking {
    /// Pause after `thinktime_blocks` I/Os.
    pub thinktime: Nanos,
    /// Part of the pause that burns CPU.
    pub thinktime_spin: Nanos,
    /// I/Os between two pauses; if not given one, or as many as `think_io_time` lets pass.
    pub thinktime_blocks: Option<u32>,
    /// `thinktime_blocks` counts I/Os issued, not completed.
    pub think_at_issue: bool,
    /// Time of I/O between two pauses; zero is not given.
    pub think_io_time: Nanos,
}

/// How fast it may go, and must.
#[derive(Debug, Clone, Default)]
pub struct Pacing {
    /// Bytes per second: reads, writes, trims.
    pub rate: [Option<u64>; 3],
    /// I/Os per second: reads, writes, trims.
    pub rate_iops: [Option<u64>; 3],
    /// Least rates, and how the rates are kept.
    pub rates: RateRules,
    /// The job's part in a shared flow.
    pub flow: FlowShare,
    /// The latency for which a depth is searched.
    pub latency_goal: LatencyGoal,
    /// The job fails if an I/O takes longer: reads, writes, trims.
    pub max_latency: [Option<Nanos>; 3],
}

/// Options of priority and cgroup, which schedulers see.
#[derive(Debug, Clone, Default)]
pub struct Priorities {
    /// I/O priority, 0 to 7.
    pub prio: Option<u8>,
    /// I/O class, 0 to 3.
    pub prioclass: Option<u8>,
    /// CPU priority, -20 to 19.
    pub nice: i8,
    /// Control group.
    pub cgroup: Option<String>,
    /// Its weight, 100 to 1000.
    pub cgroup_weight: Option<u32>,
    /// I/Os with another priority than the job's.
    pub command_priority: CommandPriority,
}
