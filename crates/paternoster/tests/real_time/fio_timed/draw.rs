// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draw: a slow device, and concurrent jobs whose I/Os depend on the clock.
//!
//! A case is a device of some milliseconds for each command, and one to three sections. A process
//! alone may have to wait for a server; several have enough of them. Each section has one or two of
//! the timed kinds:
//!
//! ```text
//! think    thinktime, _spin, _blocks, _blocks_type, _iotime
//! rate     rate or rate_iops, per direction, linear or Poisson; rate_ignore_thinktime
//! flow     flow, flow_id, flow_sleep: two sections or three
//! delay    startdelay, as a time or a range; exitall, so that the delay shows in the counts
//! target   latency_target, _window, _percentile, _run
//! ```
//!
//! Not drawn: `ramp_time`, which is not fio's here on purpose (docs/workloads.md), and `cgroup`,
//! `prio` and their kin, which are the scheduler's.

/// Draws from a seed (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` to `most`.
    fn number(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// True in this many of a hundred cases.
    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        let last = u64::try_from(all.len()).expect("few") - 1;
        all[usize::try_from(self.number(0, last)).expect("few")]
    }

    /// A time, in one of the forms that fio reads; a bare number of these options is microseconds.
    fn time(&mut self, milliseconds: u64) -> String {
        if self.percent(30) {
            (milliseconds * 1000).to_string()
        } else {
            format!("{milliseconds}ms")
        }
    }

    /// `all`, `reads,writes`, `,writes` or `reads,`.
    fn pair(&mut self, both: bool, mut one: impl FnMut(&mut Chance) -> String) -> String {
        let (first, second) = (one(self), one(self));
        match if both { self.number(0, 5) } else { 0 } {
            0..=2 => first,
            3 => format!("{first},{second}"),
            4 => format!(",{second}"),
            _ => format!("{first},"),
        }
    }
}

/// One option; without a value it is bare.
pub(crate) type Opt = (String, String);

/// The options of one section.
pub(crate) type Section = Vec<Opt>;

/// A device and the jobs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// Commands that the device works on at a time.
    pub(crate) servers: u64,
    /// Milliseconds of each.
    pub(crate) base: u64,
    /// The jobs, which are named `a`, `b`, `c`.
    pub(crate) sections: Vec<Section>,
}

impl Case {
    /// Its sections with their names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &Section)> {
        ["a", "b", "c"].into_iter().zip(&self.sections)
    }

    /// Its jobs on this file.
    pub(crate) fn jobs(&self, file: &str) -> String {
        let mut text = format!("[global]\nfilename={file}\ndirect=1\nsize=32m\n");
        for (name, section) in self.named() {
            text += &format!("[{name}]\n");
            for (name, value) in section {
                let line = if value.is_empty() { name.clone() } else { format!("{name}={value}") };
                text += &format!("{line}\n");
            }
        }
        text
    }

    /// Whether fio burns CPU while its jobs wait.
    pub(crate) fn burns(&self) -> bool {
        let has = |section: &Section, name: &str| section.iter().any(|(other, _)| other == name);
        self.sections.iter().any(|section| {
            has(section, "thinktime_spin") || has(section, "flow") && !has(section, "flow_sleep")
        })
    }

    /// The device's file. It has room for all that the jobs may have in flight.
    pub(crate) fn device(&self) -> String {
        format!(
            "name = \"slow\"\nmodel = \"linear\"\nsummary = \"drawn\"\nvalid = \"tests\"\n\
             [facts]\ncapacity = {{ value = \"1 GiB\", source = \"assumed\" }}\n\
             depth = {{ value = 64, source = \"assumed\" }}\n\
             [linear]\nservers = {{ value = {}, source = \"assumed\" }}\n\
             base = {{ value = \"{} ms\", source = \"assumed\" }}\n\
             rate = {{ value = \"999 TB/s\", source = \"assumed: no time for data\" }}\n\
             [host]\nsubmit_cost = {{ value = \"1 ns\", source = \"assumed: no host\" }}\n",
            self.servers, self.base
        )
    }
}

/// Options whose effect depends on the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timed {
    Think,
    Rate,
    Flow,
    Delay,
    Target,
}

/// A drawn case.
pub(crate) fn case(chance: &mut Chance) -> Case {
    let base = chance.of(&[10, 10, 20, 30]);
    let kinds = [Timed::Think, Timed::Rate, Timed::Flow, Timed::Delay, Timed::Target];
    let main = chance.of(&kinds);
    let count = match (main, chance.number(0, 9)) {
        (Timed::Flow, 0..=5) => 2,
        (Timed::Flow, _) => 3,
        (_, 0..=5) => 1,
        (_, 6..=8) => 2,
        _ => 3,
    };
    let sections = (0..count).map(|_| {
        let mut timed = vec![main];
        if chance.percent(40) {
            timed.push(chance.of(&[Timed::Think, Timed::Rate, Timed::Delay]));
        }
        section(chance, &timed, base)
    });
    let mut sections: Vec<Section> = sections.collect();
    if count > 1 && chance.percent(if main == Timed::Delay { 60 } else { 10 }) {
        sections[0].push(("exitall".to_owned(), String::new()));
    }
    // Which of two that meet at a server goes first is a matter of microseconds.
    let alone = count == 1 && sections[0].iter().all(|(name, _)| name != "numjobs");
    let servers = if alone { chance.of(&[1, 2, 4, 64]) } else { 64 };
    Case { servers, base, sections }
}

fn section(chance: &mut Chance, timed: &[Timed], base: u64) -> Section {
    let mut options = Vec::new();
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    let target = timed.contains(&Timed::Target);
    let (way, both) = chance.of(&[
        ("read", false),
        ("randread", false),
        ("write", false),
        ("randwrite", false),
        ("rw", true),
        ("randrw", true),
    ]);
    if target || chance.percent(60) {
        set("ioengine", "libaio".to_owned());
        let depth = if target { chance.of(&[4, 8, 16]) } else { chance.of(&[1, 2, 4, 8]) };
        set("iodepth", depth.to_string());
    } else {
        set("ioengine", "psync".to_owned());
    }
    set("rw", way.to_owned());
    if both && chance.percent(40) {
        set("rwmixread", chance.number(0, 100).to_string());
    }
    set("bs", chance.of(&["4k", "4k", "4k", "8k", "4k,8k"]).to_owned());
    if chance.percent(10) {
        set("bsrange", "4k-16k".to_owned());
    }
    set("time_based", String::new());
    set("runtime", chance.of(&["2", "2", "1500ms", "2500ms"]).to_owned());
    if chance.percent(8) {
        // Without `time_based` what comes first ends it.
        options.retain(|(name, _)| name != "time_based");
        options.push(("number_ios".to_owned(), chance.number(20, 150).to_string()));
    }
    if chance.percent(8) {
        options.push(("numjobs".to_owned(), "2".to_owned()));
    }
    for kind in [Timed::Think, Timed::Rate, Timed::Flow, Timed::Delay, Timed::Target] {
        if timed.contains(&kind) {
            match kind {
                Timed::Think => think(chance, &mut options),
                Timed::Rate => rate(chance, &mut options, both, timed.contains(&Timed::Think)),
                Timed::Flow => flow(chance, &mut options),
                Timed::Delay => delay(chance, &mut options),
                Timed::Target => latency(chance, &mut options, base),
            }
        }
    }
    options
}

fn think(chance: &mut Chance, options: &mut Section) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    let pause = chance.number(2, 60);
    set("thinktime", chance.time(pause));
    if chance.percent(20) {
        let spin = chance.number(1, pause);
        set("thinktime_spin", chance.time(spin));
    }
    if chance.percent(50) {
        set("thinktime_blocks", chance.number(1, 12).to_string());
    }
    if chance.percent(25) {
        set("thinktime_blocks_type", chance.of(&["issue", "complete"]).to_owned());
    }
    if chance.percent(20) {
        let time = chance.number(50, 500);
        set("thinktime_iotime", format!("{time}ms"));
    }
}

fn rate(chance: &mut Chance, options: &mut Section, both: bool, thinks: bool) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    if chance.percent(50) {
        set("rate_iops", chance.pair(both, |chance| chance.number(8, 300).to_string()));
    } else {
        set("rate", chance.pair(both, |chance| format!("{}k", chance.number(30, 1200))));
    }
    if chance.percent(25) {
        set("rate_process", chance.of(&["poisson", "poisson", "linear"]).to_owned());
    }
    if thinks && chance.percent(50) {
        set("rate_ignore_thinktime", "1".to_owned());
    }
}

fn flow(chance: &mut Chance, options: &mut Section) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    set("flow", chance.number(1, 8).to_string());
    if chance.percent(15) {
        set("flow_id", chance.number(1, 2).to_string());
    }
    if chance.percent(70) {
        set("flow_sleep", chance.number(100, 20_000).to_string());
    }
}

fn delay(chance: &mut Chance, options: &mut Section) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    let first = chance.number(0, 800);
    if chance.percent(5) {
        set("startdelay", format!("{first}ms-{}ms", first + chance.number(0, 400)));
    } else {
        set("startdelay", format!("{first}ms"));
    }
}

fn latency(chance: &mut Chance, options: &mut Section, base: u64) {
    let mut set = |name: &str, value: String| options.push((name.to_owned(), value));
    // Never a multiple of the device's time, where a hair decides.
    let halves = chance.of(&[1, 3, 3, 5, 5, 7, 9]);
    set("latency_target", format!("{}", base * halves * 500));
    set("latency_window", format!("{}ms", chance.number(100, 400)));
    if chance.percent(50) {
        set("latency_percentile", chance.of(&["100", "99", "90", "50"]).to_owned());
    }
    if chance.percent(40) {
        set("latency_run", "1".to_owned());
    }
}
