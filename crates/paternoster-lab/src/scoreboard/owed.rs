// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owed: what each client of a run was entitled to, what the worst-off of them missed, and whether
//! one waited too long.
//!
//! ```text
//! rate       of a process in a window, divided by that of its kind when the device is full of it:
//!            its cost
//! client     a process, or all of a cgroup
//! entitled   water-filling of the sum of costs by weights, no client beyond what it does alone;
//!            class by class (`paternoster_workload::entitlement`)
//! error      the largest (entitled - got) / entitled of those that are backlogged, of all windows
//! wait       the longest time in which a process has requests outstanding and none ends, divided
//!            by the longest of 1 s, 10 times noop's, and 3 times depth / entitled rate
//! ```
//!
//! A client is backlogged if it asks again as soon as a request ends, or has requests outstanding
//! for 95 % of the time although it paces itself. The idle class is owed no part; it may wait for
//! 0.4 s for each request of its class. While there is a real-time client no other is promised
//! service in time.
//!
//! Source: the schedulers' review, "The measure".

use paternoster_core::Nanos;
use paternoster_workload::entitlement::{Party, Use, entitled_by_class, tree_of};
use paternoster_workload::fio::job::{Engine, Job};

use super::cell::{Process, as_f64};
use super::reach::States;
use super::windows::{Standing, Window};

/// A client counts as having requests outstanding throughout if it has some for this much of the
/// time.
const THROUGHOUT: f64 = 0.95;
/// The bounds of waits: seconds, times noop's, times what entitled rate and depth imply.
const WAIT_SECONDS: f64 = 1.0;
const WAIT_NOOP: f64 = 10.0;
const WAIT_ENTITLED: f64 = 3.0;
/// Of all requests of the idle class one goes in 200 ms; twice that is allowed.
const IDLERS_TURN: f64 = 0.4;
const REAL_TIME: u8 = 1;
const IDLE: u8 = 3;
const CLASSES: [u8; 3] = [REAL_TIME, 2, IDLE];

/// What a process's kind of request does alone where its file lies, in bytes a second, and a single
/// I/O of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    pub(super) alone: f64,
    pub(super) saturated: f64,
    pub(super) io_bytes: f64,
}

/// A client in a window.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Owed {
    /// The cgroup, or the job.
    pub(super) name: String,
    pub(super) got: f64,
    pub(super) entitled: f64,
    pub(super) backlogged: bool,
}

impl Owed {
    fn error(&self) -> f64 {
        if self.entitled > 0.0 { (1.0 - self.got / self.entitled).max(0.0) } else { 0.0 }
    }
}

/// Requests at a time of a job.
pub(super) fn depth(job: &Job) -> u32 {
    if job.queue.engine == Engine::Sync { 1 } else { job.queue.iodepth }
}

fn asks_at_once(job: &Job) -> bool {
    let paced = job.pacing.rate.iter().chain(&job.pacing.rate_iops).any(Option::is_some);
    job.think.thinktime == Nanos::ZERO && !paced
}

/// The processes present in a window: the index of each, and what it is.
fn present(window: &Window, of: &[usize]) -> Vec<(usize, Standing)> {
    let there = of.iter().enumerate();
    there.filter_map(|(place, &job)| Some((place, window.jobs[job]?))).collect()
}

/// Clients of a window as parties, by class; `of` is the job of each process.
fn parties(jobs: &[Job], of: &[usize], window: &Window) -> Vec<Vec<Party>> {
    let there = present(window, of);
    let mut clients = vec![(None, 0.0); of.len()];
    for &(place, standing) in &there {
        clients[place] = (jobs[of[place]].priority.cgroup.as_deref(), standing.weight);
    }
    let class = |class: &u8| {
        let own = there.iter().filter(|(_, standing)| standing.class == *class);
        tree_of(&own.map(|(place, _)| *place).collect::<Vec<_>>(), &clients)
    };
    CLASSES.iter().map(class).collect()
}

/// Each process's part in a window, if all asked for everything; 0 for one that is not there.
pub(super) fn plain_parts(jobs: &[Job], of: &[usize], window: &Window) -> Vec<f64> {
    let there = present(window, of);
    let mut greedy = vec![Use { rate: 0.0, alone: 1.0, saturated: 1.0 }; of.len()];
    // The whole device is used.
    if let Some((place, _)) = there.first() {
        greedy[*place].rate = 1.0;
    }
    entitled_by_class(&parties(jobs, of, window), &greedy)
}

/// D*: the most commands with which each backlogged client can have its part.
pub(super) fn exact_depth(jobs: &[Job], of: &[usize], windows: &[Window]) -> f64 {
    let mut least = f64::INFINITY;
    for window in windows {
        for (part, &job) in plain_parts(jobs, of, window).iter().zip(of) {
            if *part > 0.0 && asks_at_once(&jobs[job]) {
                least = least.min(f64::from(depth(&jobs[job])) / part);
            }
        }
    }
    least
}

/// The clients of a window, and the sum of their costs.
pub(super) fn owed(
    jobs: &[Job],
    processes: &[Process],
    kinds: &[Kind],
    window: (usize, &Window),
) -> (Vec<Owed>, f64) {
    let (nth, window) = window;
    let of: Vec<usize> = processes.iter().map(|process| process.job).collect();
    let there = present(window, &of);
    let mut uses = vec![Use { rate: 0.0, alone: 0.0, saturated: 0.0 }; of.len()];
    for &(place, _) in &there {
        let Kind { alone, saturated, .. } = kinds[place];
        let rate = as_f64(processes[place].bytes[nth]) / window.seconds();
        uses[place] = Use { rate, alone, saturated };
    }
    let entitled = entitled_by_class(&parties(jobs, &of, window), &uses);
    let mut clients: Vec<Owed> = Vec::new();
    let mut groups: Vec<Option<&str>> = Vec::new();
    for (place, standing) in there {
        let (job, process) = (&jobs[of[place]], &processes[place]);
        let (got, entitled) = (uses[place].cost(), entitled[place]);
        let backlogged =
            standing.class != IDLE && (asks_at_once(job) || process.outstanding >= THROUGHOUT);
        let group = job.priority.cgroup.as_deref();
        match groups.iter().position(|other| group.is_some() && *other == group) {
            Some(known) => {
                let client = &mut clients[known];
                client.got += got;
                client.entitled += entitled;
                client.backlogged |= backlogged;
            }
            None => {
                groups.push(group);
                let name = group.unwrap_or(&job.name).to_owned();
                clients.push(Owed { name, got, entitled, backlogged });
            }
        }
    }
    let all = uses.iter().map(Use::cost).sum();
    (clients, all)
}

/// What is known of a window without the states: what each process uses alone, and its client.
pub(super) fn states(
    jobs: &[Job],
    processes: &[Process],
    kinds: &[Kind],
    window: (usize, &Window),
) -> States {
    let of: Vec<usize> = processes.iter().map(|process| process.job).collect();
    let (mut demands, mut clients) = (vec![0.0; of.len()], vec![None; of.len()]);
    let mut groups: Vec<Option<&str>> = Vec::new();
    for (place, _) in present(window.1, &of) {
        let Kind { alone, saturated, .. } = kinds[place];
        demands[place] = Use { rate: 0.0, alone, saturated }.demand();
        let group = jobs[of[place]].priority.cgroup.as_deref();
        let known = groups.iter().position(|other| group.is_some() && *other == group);
        clients[place] = Some(known.unwrap_or(groups.len()));
        if known.is_none() {
            groups.push(group);
        }
    }
    let (all, _) = owed(jobs, processes, kinds, window);
    States {
        seconds: window.1.seconds(),
        parties: parties(jobs, &of, window.1),
        demands,
        clients,
        backlogged: all.iter().map(|one| one.backlogged).collect(),
        costs: Vec::new(),
        laws: Vec::new(),
    }
}

/// For each process: the part of the device that it used in a window.
pub(super) fn costs(processes: &[Process], kinds: &[Kind], window: (usize, &Window)) -> Vec<f64> {
    let cost = |(process, kind): (&Process, &Kind)| {
        let there = window.1.jobs[process.job].is_some();
        let rate = as_f64(process.bytes[window.0]) / window.1.seconds();
        let own = Use { rate, alone: kind.alone, saturated: kind.saturated };
        if there { own.cost() } else { 0.0 }
    };
    processes.iter().zip(kinds).map(cost).collect()
}

/// What the worst-off backlogged client misses.
pub(super) fn error(clients: &[Owed]) -> f64 {
    clients.iter().filter(|one| one.backlogged).map(Owed::error).fold(0.0, f64::max)
}

/// The longest wait of a process divided by its bound; `noop` has the same processes.
pub(super) fn longest_wait(
    jobs: &[Job],
    processes: &[Process],
    noop: &[Process],
    kinds: &[Kind],
    windows: &[Window],
) -> f64 {
    let of: Vec<usize> = processes.iter().map(|process| process.job).collect();
    let mut parts = vec![f64::INFINITY; of.len()];
    let (mut idlers, mut first) = (0, false);
    let mut classes = vec![2; of.len()];
    for window in windows {
        for (place, standing) in present(window, &of) {
            classes[place] = standing.class;
            first |= standing.class == REAL_TIME;
        }
        for (place, part) in plain_parts(jobs, &of, window).into_iter().enumerate() {
            if window.jobs[of[place]].is_some() {
                parts[place] = parts[place].min(part);
            }
        }
    }
    for (place, class) in classes.iter().enumerate() {
        idlers += if *class == IDLE { depth(&jobs[of[place]]) } else { 0 };
    }
    let ratio = |place: usize| {
        let (job, Kind { alone, saturated, io_bytes }) = (&jobs[of[place]], kinds[place]);
        let rate = alone.min(parts[place] * saturated) / io_bytes;
        let mut bound = WAIT_SECONDS.max(WAIT_NOOP * noop[place].longest);
        match classes[place] {
            IDLE => bound += IDLERS_TURN * f64::from(idlers),
            class if first && class > REAL_TIME => return 0.0,
            _ => bound = bound.max(WAIT_ENTITLED * f64::from(depth(job)) / rate),
        }
        processes[place].longest / bound
    };
    (0..of.len()).map(ratio).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::cell::{self, Times};
    use super::super::windows::windows;
    use super::super::workloads::by_name;
    use super::*;
    use paternoster_frame::target::{Real, Target};

    fn load(name: &str) -> (Vec<Job>, Vec<usize>, Vec<Window>) {
        let drive = Target::find("nvme-pm9a3", Real::Refused, 0).expect("it is there");
        let workload = by_name(name)[0];
        let times = Times::of(&drive.facts, &workload);
        let jobs = cell::jobs(&workload, &drive.facts, times).expect("jobs");
        let clones = |(place, job): (usize, &Job)| vec![place; job.clones.numjobs as usize];
        let of = jobs.iter().enumerate().flat_map(clones).collect();
        let windows = windows(&jobs, times);
        (jobs, of, windows)
    }

    /// Is D* the least of requests divided by part? W11: 32 / (4/16) = 128. W12: 16 / (1/8) = 128.
    /// W13: 128 / (8/9) = 144. W3: one / (5/15) = 3. W7-256: the victim's 32 / (1/2) = 64. W21f:
    /// the first class has all of it with its 32. W24: 64 / (4/5) = 80.
    #[test]
    fn exact_shares_have_a_depth() {
        let exact = |name| {
            let (jobs, of, windows) = load(name);
            exact_depth(&jobs, &of, &windows)
        };
        for (name, wanted) in [
            ("W11r", 128.0),
            ("W12r", 128.0),
            ("W13r", 144.0),
            ("W3", 3.0),
            ("W7-256", 64.0),
            ("W21f", 32.0),
            ("W24", 80.0),
        ] {
            assert!((exact(name) - wanted).abs() < 1e-6, "{name}: {}", exact(name));
        }
    }

    fn process(job: usize, bytes: u64, longest: f64) -> Process {
        Process {
            job,
            rate: 0.0,
            ios: 0.0,
            tail: 0.0,
            longest,
            outstanding: 1.0,
            bytes: vec![bytes],
        }
    }

    /// Is the error that of the docs' worked number? W13r, 8 to 1, both able to fill the drive:
    /// halves of what is used are 0.5 got of 0.889 entitled: 43.75 % short. The wait: 2 s with a
    /// bound of ten times noop's 0.15 s is 2 / 1.5.
    #[test]
    fn what_is_owed_is_a_sum_of_costs() {
        let (jobs, of, windows) = load("W13r");
        let bytes = as_f64(windows[0].end.0 - windows[0].begin.0) / 1e9 * 500e6;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes")]
        let processes: Vec<Process> =
            of.iter().map(|&job| process(job, bytes as u64, 2.0)).collect();
        let kinds = [Kind { alone: 1e9, saturated: 1e9, io_bytes: 4096.0 }; 2];
        let (clients, used) = owed(&jobs, &processes, &kinds, (0, &windows[0]));
        assert!((used - 1.0).abs() < 1e-3 && (error(&clients) - 0.4375).abs() < 1e-3);
        let noop: Vec<Process> = of.iter().map(|&job| process(job, 0, 0.15)).collect();
        let wait = longest_wait(&jobs, &processes, &noop, &kinds, &windows);
        assert!((wait - 2.0 / 1.5).abs() < 1e-9, "{wait}");
    }
}
