// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goal: what a job should achieve, as a person writes it: `JOB METRIC OP VALUE`.
//!
//! ```text
//! pg-read p99<5ms      wal sync-p99 <= 10ms      backup bw>200MB/s      * share>0.9
//! └─job─┘ └┬┘^└┬┘                                                       └ each job
//!       metric op value
//! ```
//!
//! A job's clones are one job here; so are sections of one name.
//!
//! # Invariants
//! G1  A value is in the unit of its metric: ns, I/Os a second, bytes a second, or a part.
//! G2  `miss` is above 1 exactly when the goal is not met.

use paternoster_core::near::nearest;
use paternoster_frame::Failure;

/// What is measured of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    P50,
    P99,
    P999,
    Max,
    SyncP99,
    Iops,
    Bandwidth,
    Share,
}

impl Metric {
    const ALL: [(&'static str, Metric); 8] = [
        ("p50", Metric::P50),
        ("p99", Metric::P99),
        ("p99.9", Metric::P999),
        ("max", Metric::Max),
        ("sync-p99", Metric::SyncP99),
        ("iops", Metric::Iops),
        ("bw", Metric::Bandwidth),
        ("share", Metric::Share),
    ];
}

const TIMES: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9)];
const BANDWIDTHS: [(&str, f64); 7] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
const RATES: [(&str, f64); 3] = [("", 1.0), ("k", 1e3), ("M", 1e6)];
const PARTS: [(&str, f64); 2] = [("", 1.0), ("%", 0.01)];

/// One goal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Goal {
    /// The goal as written.
    pub(crate) text: String,
    /// The job's name, or `*` for each.
    pub(crate) job: String,
    pub(crate) metric: Metric,
    /// At most (`<`, `<=`) or at least.
    pub(crate) at_most: bool,
    /// The limit itself does not meet the goal.
    strict: bool,
    pub(crate) limit: f64,
}

impl Goal {
    /// Reads a goal for one of these jobs.
    pub(crate) fn parse(text: &str, jobs: &[String]) -> Result<Goal, Failure> {
        let refuse = |why: String| Failure::Request(format!("--goal `{text}`: {why}"));
        let form = "a goal is JOB METRIC OP VALUE, as `pg-read p99<5ms`";
        let Some(at) = text.find(['<', '>']) else {
            return Err(refuse(format!("there is no `<` or `>` in it; {form}")));
        };
        let (left, right) = (text[..at].trim(), &text[at..]);
        let at_most = right.starts_with('<');
        let strict = !right[1..].starts_with('=');
        let value = right[if strict { 1 } else { 2 }..].trim();
        let Some((job, word)) = left.rsplit_once(char::is_whitespace) else {
            return Err(refuse(format!("`{left}` is not a job and a metric; {form}")));
        };
        let job = job.trim();
        if job != "*" && !jobs.iter().any(|one| one == job) {
            let names: Vec<&str> = jobs.iter().map(String::as_str).collect();
            let hint = hint(job, &names);
            return Err(refuse(format!("there is no job `{job}`{hint}, and * for each")));
        }
        let Some(&(_, metric)) = Metric::ALL.iter().find(|(name, _)| *name == word) else {
            let names = Metric::ALL.map(|(name, _)| name);
            let hint = hint(word, &names);
            return Err(refuse(format!("there is no metric `{word}`{hint}")));
        };
        let limit = limit(metric, value).map_err(refuse)?;
        let (text, job) = (text.trim().to_owned(), job.to_owned());
        Ok(Goal { text, job, metric, at_most, strict, limit })
    }

    /// Whether it is about the job of this name.
    pub(crate) fn is_about(&self, job: &str) -> bool {
        self.job == "*" || self.job == job
    }

    /// How far a value is from the limit: 1 at it, 2 if it is twice what is allowed or half of what
    /// is required.
    pub(crate) fn miss(&self, value: f64) -> f64 {
        if !value.is_finite() {
            return f64::INFINITY;
        }
        let (over, under) = if self.at_most { (value, self.limit) } else { (self.limit, value) };
        let miss = if under > 0.0 { over / under } else { f64::INFINITY };
        // The limit itself counts as a miss, by the smallest amount.
        if self.strict && miss >= 1.0 { miss.max(1.0 + f64::EPSILON) } else { miss }
    }
}

fn limit(metric: Metric, value: &str) -> Result<f64, String> {
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let (number, unit) = (&value[..digits], value[digits..].trim());
    let (units, right): (&[(&str, f64)], &str) = match metric {
        Metric::Iops => (&RATES, "a number of I/Os a second, as 500 or 12k"),
        Metric::Bandwidth => (&BANDWIDTHS, "bytes a second, as 200MB/s or 64MiB/s"),
        Metric::Share => (&PARTS, "a part of what it is entitled to, as 0.9 or 90%"),
        _ => (&TIMES, "a time with its unit, as 300us, 5ms or 1s"),
    };
    let wrong = || format!("`{value}` is not {right}");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = if metric == Metric::Bandwidth { unit.trim_end_matches("/s") } else { unit };
    let (_, times) = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let limit = number * times;
    if limit > 0.0 { Ok(limit) } else { Err(wrong()) }
}

/// What to add after an unknown word.
fn hint(word: &str, known: &[&str]) -> String {
    let all = known.join(", ");
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`? There are {all}"),
        None => format!("; there are {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs() -> Vec<String> {
        ["pg-read", "wal", "backup"].map(str::to_owned).to_vec()
    }

    fn goal(text: &str) -> Goal {
        Goal::parse(text, &jobs()).unwrap_or_else(|why| panic!("{text}: {why:?}"))
    }

    /// Is each metric read with its unit? 5 ms are 5e6 ns, 64 MiB 67,108,864 bytes, 90 % 0.9.
    #[test]
    fn goals_are_read() {
        let near = |goal: Goal, limit: f64| (goal.limit - limit).abs() < 1e-6 * limit;
        assert!(near(goal("pg-read p99<5ms"), 5e6));
        assert!(near(goal("pg-read  p99.9 <= 300 us"), 3e5));
        assert!(near(goal("wal sync-p99<0.5s"), 5e8));
        assert!(near(goal("backup bw>64MiB/s"), 67_108_864.0));
        assert!(near(goal("backup bw > 200MB"), 2e8));
        assert!(near(goal("pg-read iops>=12k"), 12e3));
        assert!(near(goal("* share>90%"), 0.9));
        assert!(goal("* share>0.9").is_about("wal") && !goal("wal max<1s").is_about("backup"));
    }

    /// Does a miss say how far away it is, in both directions, and does `<` exclude the limit?
    #[test]
    fn misses_are_factors() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(goal("wal p99<5ms").miss(10e6), 2.0));
        assert!(near(goal("wal p99<5ms").miss(2.5e6), 0.5));
        assert!(near(goal("wal iops>100").miss(50.0), 2.0));
        assert!(goal("wal p99<5ms").miss(5e6) > 1.0 && goal("wal p99<=5ms").miss(5e6) <= 1.0);
        assert!(goal("wal iops>100").miss(0.0).is_infinite());
        // A job that does nothing has no latency, and meets no goal.
        assert!(goal("wal p99<5ms").miss(f64::NAN).is_infinite());
    }

    /// Does a refusal name what is wrong, and what would be right?
    #[test]
    fn refusals_say_what_would_be_right() {
        for (text, wrong, right) in [
            ("pg-read p99=5ms", "`<` or `>`", "pg-read p99<5ms"),
            ("p99<5ms", "`p99`", "JOB METRIC OP VALUE"),
            ("pg-raed p99<5ms", "`pg-raed`", "did you mean `pg-read`?"),
            ("wal p9<5ms", "`p9`", "did you mean `p99`?"),
            ("wal latency<5ms", "`latency`", "there are p50, p99"),
            ("wal p99<5", "`5`", "5ms"),
            ("wal p99<fast", "`fast`", "5ms"),
            ("wal bw>200", "`200`", "200MB/s"),
            ("wal iops>0", "`0`", "12k"),
            ("wal share>2x", "`2x`", "90%"),
        ] {
            match Goal::parse(text, &jobs()) {
                Err(Failure::Request(why)) => {
                    assert!(why.contains(wrong) && why.contains(right), "{why}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
