// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unwired: what a job file may say but a run cannot do yet.
//!
//! The language has more than the processes can do. Such a job is refused before it runs, never
//! silently approximated. One line per option; a change that makes a run honour it removes the
//! line.
//!
//! Source: FIO-20; fio's manual, for what each option would do.

use super::job::Job;
use super::option;
use super::problem::Problem;
use super::strides::ZoneMode;

/// An option, how to see that a job uses it, and what to do instead.
struct Unwired {
    option: &'static str,
    used: fn(&Job) -> bool,
    hint: &'static str,
}

const fn unwired(option: &'static str, used: fn(&Job) -> bool, hint: &'static str) -> Unwired {
    Unwired { option, used, hint }
}

const VERIFY: &str = "there are no data to verify by trims; leave the option out";
const ZBD: &str = "it needs a zoned device, and no device model is zoned; use zonemode=strided";

/// Every option that a run cannot honour, in the order of `option.rs`.
static UNWIRED: &[Unwired] = &[
    unwired("zonemode", |job| job.region.strides.mode == ZoneMode::Zbd, ZBD),
    unwired("trim_percentage", |job| job.verify.trim_percentage > 0, VERIFY),
    unwired("profile", |job| job.profile.is_some(), "write its jobs out"),
];

/// What a run of these jobs cannot do, each option of a job once.
#[must_use]
pub fn problems(jobs: &[Job]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for job in jobs {
        for feature in UNWIRED.iter().filter(|feature| (feature.used)(job)) {
            let problem = refusal(job, feature);
            // A global holds for many jobs, and is on one line.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

fn refusal(job: &Job, feature: &Unwired) -> Problem {
    let name = feature.option;
    let help = option::find(name).map_or("", |option| option.help);
    let message =
        format!("`{name}` is known to fio but not supported yet ({help}): {}", feature.hint);
    match job.section.origins.get(name) {
        Some(origin) => Problem::new(&origin.file, origin.line, &origin.text, message),
        None => Problem::new(&job.section.file, job.section.line, &job.name, message),
    }
}

#[cfg(test)]
mod tests {
    use super::super::apply::apply;
    use super::super::job::Unified;
    use super::*;

    /// Is every option of the table known and supported by the language, once?
    #[test]
    fn options_are_known() {
        for (place, feature) in UNWIRED.iter().enumerate() {
            let option = option::find(feature.option).expect(feature.option);
            assert_eq!(option.status, option::Status::Supported, "{}", feature.option);
            let again = UNWIRED[place + 1..].iter().any(|other| other.option == feature.option);
            assert!(!again, "{} twice", feature.option);
        }
    }

    /// Does a plain job use none of these options, and does one that asks for trims get the
    /// message?
    #[test]
    fn sentences() {
        let mut job = Job::default();
        assert_eq!(problems(&[job.clone()]), []);
        apply(&mut job, 1024, "trim_percentage", Some("16"), &mut Vec::new()).unwrap();
        let found = problems(&[job.clone(), job]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].message,
            "`trim_percentage` is known to fio but not supported yet (share of verified blocks \
             trimmed): there are no data to verify by trims; leave the option out"
        );
    }

    /// Is what only the report lacks accepted? It can be set to report directions as one.
    #[test]
    fn reports_as_one_are_made() {
        let mut job = Job::default();
        job.report.unified = Unified::Mixed;
        assert_eq!(problems(&[job]), []);
    }
}
