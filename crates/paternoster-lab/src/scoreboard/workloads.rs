// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads: W1 to W25 as sections of the job files in `jobs/scoreboard/`.
//!
//! ```text
//! W2-4    w2.fio, section readers-4         judged (`rule.rs`)
//! W4q1-4  w4.fio, client with floods-4      shown: the tail of `client` against the floods' rate
//! W11r    w11.fio, sections r1 to r8        `r*`: all whose names begin so
//! ```
//!
//! A job named `client…` or `paced` is the interactive one of its workload: its 99.9th percentile
//! is shown. The scoreboard adds what the language cannot say: the size of files and the times by
//! device, a paced client's rate by whether the device rotates.
//!
//! Source: own; `docs/scoreboard.md` describes each. W11 to W19 are the loads of a review of deep
//! devices, W20 to W25 those of a review of all schedulers.

/// One workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    /// W, number, variant.
    pub(super) name: &'static str,
    /// File and text of its jobs.
    pub(super) file: (&'static str, &'static str),
    /// The sections that run; all if empty.
    pub(super) sections: &'static [&'static str],
    /// Whether throughput and shares get a verdict.
    pub(super) judged: bool,
}

/// What an elevator may hold, unless a workload has too many clients for that.
const REQUESTS: u32 = 256;
/// W18's 64 clients of eight.
const REQUESTS_MANY: u32 = 1024;
/// The part of the reference's throughput that keeps a cell; where all are alike and nothing can be
/// gained, nothing may be lost.
const THROUGHPUT_LEAST: f64 = 0.97;
const THROUGHPUT_LEAST_EQUALS: f64 = 0.995;

impl Workload {
    /// Whether a section of its file belongs to it.
    pub(super) fn has(&self, section: &str) -> bool {
        let is = |name: &&str| match name.strip_suffix('*') {
            Some(start) => section.starts_with(start),
            None => section == *name,
        };
        self.sections.is_empty() || self.sections.iter().any(is)
    }

    /// The `nr_requests` that the workload needs.
    pub(super) fn requests(&self) -> u32 {
        if family(self.name) == "W18" { REQUESTS_MANY } else { REQUESTS }
    }

    /// A file is one n-th of the device; returns n.
    pub(super) fn files(&self) -> u64 {
        if family(self.name) == "W18" { 64 } else { 32 }
    }

    /// The part of the reference's throughput that keeps a cell.
    pub(super) fn throughput_least(&self) -> f64 {
        match family(self.name) {
            "W19" => THROUGHPUT_LEAST_EQUALS,
            _ => THROUGHPUT_LEAST,
        }
    }

    /// Whether the first seconds are what counts.
    pub(super) fn counts_beginning(&self) -> bool {
        family(self.name) == "W10"
    }
}

macro_rules! file {
    ($name:literal) => {
        (
            concat!("jobs/scoreboard/", $name, ".fio"),
            include_str!(concat!("../../jobs/scoreboard/", $name, ".fio")),
        )
    };
}

type File = (&'static str, &'static str);

const W1: File = file!("w1");
const W2: File = file!("w2");
const W3: File = file!("w3");
const W4: File = file!("w4");
const W5: File = file!("w5");
const W6: File = file!("w6");
const W7: File = file!("w7");
const W8: File = file!("w8");
const W9: File = file!("w9");
const W10: File = file!("w10");
const W11: File = file!("w11");
const W12: File = file!("w12");
const W13: File = file!("w13");
const W14: File = file!("w14");
const W15: File = file!("w15");
const W16: File = file!("w16");
const W17: File = file!("w17");
const W18: File = file!("w18");
const W19: File = file!("w19");
const W20: File = file!("w20");
const W21: File = file!("w21");
const W22: File = file!("w22");
const W23: File = file!("w23");
const W24: File = file!("w24");
const W25: File = file!("w25");

const fn judged(name: &'static str, file: File, sections: &'static [&'static str]) -> Workload {
    Workload { name, file, sections, judged: true }
}

const fn shown(name: &'static str, file: File, sections: &'static [&'static str]) -> Workload {
    Workload { name, file, sections, judged: false }
}

/// Every workload, in the order of their numbers.
pub(super) const ALL: &[Workload] = &[
    judged("W1-8", W1, &["small", "other-8"]),
    judged("W1-16", W1, &["small", "other-16"]),
    judged("W1-32", W1, &["small", "other-32"]),
    judged("W1-64", W1, &["small", "other-64"]),
    judged("W1-128", W1, &["small", "other-128"]),
    judged("W2-1", W2, &["readers-1"]),
    judged("W2-2", W2, &["readers-2"]),
    judged("W2-4", W2, &["readers-4"]),
    judged("W2-8", W2, &["readers-8"]),
    judged("W2-16", W2, &["readers-16"]),
    judged("W2w", W2, &["s1", "s2", "s3", "s4"]),
    judged("W2r", W2, &["r1", "r2", "r3", "r4"]),
    judged("W2s", W2, &["small"]),
    judged("W3", W3, &[]),
    shown("W4q1-1", W4, &["client", "floods-1"]),
    shown("W4q1-4", W4, &["client", "floods-4"]),
    shown("W4q1-16", W4, &["client", "floods-16"]),
    shown("W4p-1", W4, &["paced", "floods-1"]),
    shown("W4p-4", W4, &["paced", "floods-4"]),
    shown("W4p-16", W4, &["paced", "floods-16"]),
    shown("W4pw", W4, &["paced", "writes"]),
    judged("W5a", W5, &["light-mixed", "heavy-mixed"]),
    judged("W5b", W5, &["light-mixed", "heavy-small"]),
    judged("W5c", W5, &["light-small", "heavy-mixed"]),
    judged("W6", W6, &["sequential", "random"]),
    judged("W6m", W6, &["sequential-4", "random-4"]),
    judged("W6d", W6, &["sequential", "flood"]),
    judged("W7-1", W7, &["client", "aggressors-1"]),
    judged("W7-4", W7, &["client", "aggressors-4"]),
    judged("W7-16", W7, &["client", "aggressors-16"]),
    judged("W7-256", W7, &["client", "aggressors-256"]),
    shown("W8", W8, &["client", "writer"]),
    shown("W8-9", W8, &["client-9", "writer"]),
    shown("W9-100", W9, &["client-100", "other"]),
    shown("W9-400", W9, &["client-400", "other"]),
    shown("W9-1000", W9, &["client-1000", "other"]),
    shown("W9-4000", W9, &["client-4000", "other"]),
    shown("W9-8000", W9, &["client-8000", "other"]),
    shown("W9-bursts", W9, &["client-bursts", "other"]),
    judged("W10", W10, &[]),
    judged("W11m", W11, &["m*"]),
    judged("W11r", W11, &["r*"]),
    judged("W11w", W11, &["w*"]),
    judged("W12m", W12, &["deep-m", "flat-m"]),
    judged("W12r", W12, &["deep-r", "flat-r"]),
    judged("W13m", W13, &["heavy-m", "light-m"]),
    judged("W13r", W13, &["heavy-r", "light-r"]),
    judged("W14", W14, &[]),
    judged("W15", W15, &[]),
    judged("W16", W16, &[]),
    shown("W17", W17, &[]),
    judged("W18m", W18, &["m*"]),
    judged("W18r", W18, &["r*"]),
    judged("W19m", W19, &["m"]),
    judged("W19r", W19, &["r"]),
    judged("W20", W20, &["victim", "large"]),
    judged("W20e", W20, &["equal"]),
    judged("W21f", W21, &["first", "floods"]),
    judged("W21i", W21, &["plain", "idlers"]),
    judged("W22", W22, &["think-2", "think-12"]),
    judged("W22f", W22, &["think-2", "think-12", "flood"]),
    judged("W23", W23, &[]),
    judged("W24", W24, &[]),
    judged("W25-2", W25, &["reader", "writers-2"]),
    judged("W25-8", W25, &["reader", "writers-8"]),
    judged("W25r", W25, &["readers-4", "writers-4"]),
];

/// The workloads that a person means by `name`: one, or all of a number (`W2`).
pub(super) fn by_name(name: &str) -> Vec<Workload> {
    let whole = family(name).len() == name.len();
    let meant = |workload: &&Workload| {
        let own = if whole { family(workload.name) } else { workload.name };
        own.eq_ignore_ascii_case(name)
    };
    ALL.iter().filter(meant).copied().collect()
}

/// W and the number, without the variant.
pub(super) fn family(name: &str) -> &str {
    let digits = name.get(1..).unwrap_or("");
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    name.get(..=end).unwrap_or(name)
}

/// Whether a job of this name is the interactive one.
pub(super) fn is_client(job: &str) -> bool {
    job.starts_with("client") || job == "paced"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are workloads found by their names and by their numbers? W2 has five counts of readers, two
    /// of weights, small calls; W1 is no W10; W3 is one.
    #[test]
    fn names_and_numbers() {
        let names = |name| by_name(name).iter().map(|found| found.name).collect::<Vec<_>>();
        assert_eq!(names("W2").len(), 8);
        assert_eq!(names("w1").len(), 5);
        assert_eq!(names("W6"), ["W6", "W6m", "W6d"]);
        assert_eq!(names("w4p-4"), ["W4p-4"]);
        assert_eq!(names("W3"), ["W3"]);
        assert_eq!(names("W11"), ["W11m", "W11r", "W11w"]);
        assert!(names("W26").is_empty() && names("").is_empty());
        assert_eq!([family("W10"), family("W4q1-16"), family("W")], ["W10", "W4", "W"]);
    }

    /// Are names unique, and shown only what one client's tail tells: W4, W8, W9, W17?
    #[test]
    fn judged_are_those_of_the_issue() {
        for (place, workload) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.name != workload.name));
            let shown = ["W4", "W8", "W9", "W17"];
            assert_eq!(workload.judged, !shown.contains(&family(workload.name)));
        }
    }
}
