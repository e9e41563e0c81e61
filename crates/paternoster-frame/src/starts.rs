// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts: a program is started several times, while other jobs run and alone.
//!
//! ```text
//! seed 0, 1, 2 …    with the others   ──▶ time, what the others got, queues that were merged
//!                   alone             ──▶ time
//! ```
//!
//! Each is a run of its own on a fresh device, with the same requests; a command, or an experiment,
//! observes them as it likes.

use paternoster_core::{Nanos, NoObserver, Observer};
use paternoster_workload::builtin::startup::{Start, StartWatch, Startup, Summary};
use paternoster_workload::fio::job::Job;
use paternoster_workload::run::Settings;
use paternoster_workload::{Queue, layout};

use crate::Failure;
use crate::choice::SchedulerChoice;
use crate::setting::Setting;
use crate::target::Target;

/// One start, with the others and alone.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// Says where the files of the program lie.
    pub seed: u64,
    /// The start while other jobs run.
    pub beside: Start,
    /// The start with the device to itself.
    pub alone: Start,
}

/// Starts a program `repeat` times under one scheduler on one device, with seeds counting up from
/// the setting's. For each start, `observe` makes an observer for the run with other jobs, and
/// `keep` gets it back with the queue.
///
/// # Errors
/// The files do not fit on the device, or a process fails.
pub fn starts<O: Observer + 'static>(
    (setting, device, scheduler): (&Setting, &Target, &SchedulerChoice),
    startup: &Startup,
    repeat: u32,
    mut observe: impl FnMut(u64, &[Job]) -> Result<O, Failure>,
    mut keep: impl FnMut(u64, O, &Queue) -> Result<(), Failure>,
) -> Result<Vec<Pair>, Failure> {
    let first = setting.on(device).seed;
    let mut pairs = Vec::new();
    for seed in (0..u64::from(repeat)).map(|nth| first.wrapping_add(nth)) {
        let setting = setting.with_seed(seed);
        let on = (&setting, device, scheduler);
        let scene = startup.beside_others(&device.facts, seed);
        let (beside, observer, queue) = one(on, startup, &scene, observe(seed, &scene.0)?)?;
        keep(seed, observer, &queue)?;
        let (alone, ..) = one(on, startup, &startup.alone(&device.facts, seed), NoObserver)?;
        pairs.push(Pair { seed, beside, alone });
    }
    Ok(pairs)
}

/// Does one run.
fn one<O: Observer + 'static>(
    (setting, device, scheduler): (&Setting, &Target, &SchedulerChoice),
    startup: &Startup,
    (jobs, watch): &(Vec<Job>, StartWatch),
    observer: O,
) -> Result<(Start, O, Queue), Failure> {
    let Settings { placement, seed, .. } = setting.on(device);
    layout::plan(jobs, device.facts.capacity * 512, placement, seed)
        .map_err(|problem| Failure::Request(problem.message))?;
    let observer = (watch.clone(), observer);
    let (result, (watch, observer), queue) =
        setting.run(jobs, device, scheduler, observer, &mut |_| {})?;
    if let Some(failed) = result.processes.iter().find(|process| process.error != 0) {
        let name = &jobs[failed.job].name;
        return Err(Failure::Job(format!("{name} failed with errno {}", failed.error)));
    }
    Ok((startup.outcome(&result, &watch), observer, queue))
}

/// A summary of several starts.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Summary of the starts alone.
    pub alone: Summary,
    /// Summary of the starts with other jobs.
    pub beside: Summary,
    /// The median with the others divided by the one alone.
    pub slowdown: Option<f64>,
    /// How many starts took longer than they may.
    pub given_up: usize,
    /// Bytes per second that others have read and written meanwhile.
    pub others: [f64; 2],
    /// Queues merged with the program's, in all starts.
    pub merges: u64,
}

impl Figures {
    /// The figures of these starts.
    pub fn of(pairs: &[Pair]) -> Figures {
        let beside: Vec<Start> = pairs.iter().map(|pair| pair.beside).collect();
        let alone: Vec<Start> = pairs.iter().map(|pair| pair.alone).collect();
        let (summary, alone) = (Summary::of(&beside), Summary::of(&alone));
        let by_alone = summary.median.zip(alone.median).filter(|(_, alone)| *alone > Nanos::ZERO);
        Figures {
            alone,
            beside: summary,
            slowdown: by_alone.map(|(beside, alone)| seconds(beside) / seconds(alone)),
            given_up: beside.iter().filter(|start| start.time.is_none()).count(),
            others: Start::others_per_second(&beside),
            merges: beside.iter().map(|start| start.merges).sum(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}
