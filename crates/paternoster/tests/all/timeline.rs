// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timelines: what jobs did, event by event, on a device where every command takes 1 ms.
//!
//! ```text
//! 1000 D FWFSM 2056+8 journal      time in us, action, what as blktrace writes it, sectors, client
//! ```
//!
//! `F` in front: a flush before the data, or nothing else; then `W` or `R`; `F` after it: FUA, `S`
//! sync, `M` metadata. The host's own times are a few ns, so they do not show in whole us.

use paternoster_core::{Action, Event, Flags, Nanos, Note, Observer, Op};
use paternoster_sim::{Description, Rule, Simulated};
use paternoster_workload::fio::jobfile::{Source, parse};
use paternoster_workload::page_cache::HostSettings;
use paternoster_workload::page_cache::journal::{JournalMode, JournalSettings};
use paternoster_workload::run::{NoWatcher, RunError, RunResult, Settings};
use std::collections::BTreeMap;

/// The device's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Writes are durable.
    None,
    /// Its writes need a flush.
    Volatile,
    /// Its writes need a flush or FUA.
    Fua,
}

/// Every command takes 1 ms, up to 32 at a time.
pub(crate) fn millisecond(cache: Cache) -> Description {
    let text = include_str!("../millisecond.toml");
    let (write_cache, fua) = (cache != Cache::None, cache == Cache::Fua);
    let more = format!(
        "depth = {{ value = 32, source = \"test\" }}\n\
         write_cache = {{ value = {write_cache}, source = \"test\" }}\n\
         fua = {{ value = {fua}, source = \"test\" }}"
    );
    let text = text.replace("depth = { value = 32, source = \"assumed\" }", &more);
    let flush = "[linear]\nflush = { value = \"1 ms\", source = \"test\" }";
    Description::parse("millisecond", &text.replace("[linear]", flush)).expect("a device file")
}

/// A host whose own work takes almost no time.
pub(crate) fn quick_host() -> HostSettings {
    HostSettings { copy_cost: Nanos(1), ..HostSettings::default() }
}

/// The same with a journal.
pub(crate) fn journalling_host() -> HostSettings {
    let journal = JournalSettings { mode: JournalMode::Ordered, ..JournalSettings::default() };
    HostSettings { journal, ..quick_host() }
}

/// An event as a line, with accessors for tests.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) event: Event,
    pub(crate) who: String,
}

impl Line {
    /// What is done, in blktrace's letters.
    pub(crate) fn what(&self) -> String {
        let flags = self.event.flags;
        let mut what = String::new();
        let mut put = |has: bool, letter: char| what.extend(has.then_some(letter));
        put(flags.contains(Flags::PREFLUSH) || self.event.op == Op::Flush, 'F');
        put(self.event.op == Op::Write, 'W');
        put(self.event.op == Op::Read, 'R');
        put(flags.contains(Flags::FUA), 'F');
        put(flags.contains(Flags::SYNC), 'S');
        put(flags.contains(Flags::META), 'M');
        what
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Event { at, action, sector, sectors, .. } = self.event;
        let (us, letter) = (at.0 / 1000, action.letter());
        write!(f, "{us} {letter} {} {sector}+{sectors} {}", self.what(), self.who)
    }
}

/// What happened in a run.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) lines: Vec<Line>,
    pub(crate) result: RunResult,
}

#[derive(Debug, Default)]
struct Events(Vec<Event>);

impl Observer for Events {
    fn event(&mut self, event: &Event) {
        self.0.push(*event);
    }

    fn note(&mut self, _at: Nanos, _sequence: u64, _note: &Note) {}
}

/// Runs jobs on a device under noop. Clients have the names of their jobs, with the number of the
/// clone if there are several.
pub(crate) fn run(device: &Description, host: HostSettings, jobs: &str) -> Timeline {
    run_with(device, &[], host, jobs)
}

/// The same with faults in the device.
pub(crate) fn run_with(
    device: &Description,
    faults: &[&str],
    host: HostSettings,
    jobs: &str,
) -> Timeline {
    let faults: Vec<Rule> = faults.iter().map(|text| text.parse().expect("a rule")).collect();
    let (mut lines, result) = events(device, &faults, host, jobs);
    lines.retain(|line| {
        matches!(line.event.action, Action::Queue | Action::Issue | Action::Complete)
    });
    Timeline { lines, result }
}

fn events(
    device: &Description,
    faults: &[Rule],
    host: HostSettings,
    text: &str,
) -> (Vec<Line>, RunResult) {
    let source = Source { name: "test.fio", text };
    let parsed = parse(&[source], &[], &[], &|_| None, &|_, name| Err(name.to_owned()));
    let jobs = parsed.unwrap_or_else(|problems| panic!("{problems:?}")).jobs;
    let mut names = BTreeMap::new();
    for job in &jobs {
        for clone in 0..job.clones.numjobs {
            let several = job.clones.numjobs > 1;
            let name = if several { format!("{}.{clone}", job.name) } else { job.name.clone() };
            names.insert(names.len(), name);
        }
    }
    names.insert(names.len(), "flusher".to_owned());
    names.insert(names.len(), "journal".to_owned());
    let settings = Settings { host, submit_cost: device.submit_cost, ..Settings::default() };
    let (result, events, _) = paternoster_workload::run(
        &jobs,
        &settings,
        &mut Simulated::new(device.faulty_model(faults, 0)),
        paternoster_schedulers::by_name("noop").expect("noop"),
        Events::default(),
        |_| Ok::<(), RunError>(()),
        &mut NoWatcher,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let who = |event: &Event| names[&(event.client.index() as usize)].clone();
    let lines = events.0.iter().map(|event| Line { event: *event, who: who(event) }).collect();
    (lines, result)
}

impl Timeline {
    /// The lines of one action.
    pub(crate) fn of(&self, action: Action) -> Vec<String> {
        let wanted = self.lines.iter().filter(|line| line.event.action == action);
        wanted.map(Line::to_string).collect()
    }

    /// What the device got: all lines of `D`.
    pub(crate) fn issued(&self) -> Vec<String> {
        self.of(Action::Issue)
    }

    /// How many commands of a kind the device got.
    pub(crate) fn count(&self, what: &str) -> usize {
        let issued = self.lines.iter().filter(|line| line.event.action == Action::Issue);
        issued.filter(|line| line.what() == what).count()
    }
}
