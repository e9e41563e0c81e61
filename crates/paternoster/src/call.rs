// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call: what commands find out, as values, for a program that embeds this one.
//!
//! The Python package uses the words of the command line, so that options, defaults, checks and
//! messages are the program's, and so are the figures:
//!
//! ```text
//! ["run", "job.fio", "--scheduler", "bfq"] ─▶ arguments ─▶ the runs of `run` ─▶ outcomes
//! files in memory: job.fio, mine.toml ───────────▲                │
//! stop: another thread sets it ───────────────────────────────────┘ the present run ends early
//! ```
//!
//! Nothing is printed, no signal is handled, and nothing ends the process. What commands see of a
//! call is in `context.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use paternoster_core::Observer;
use paternoster_frame::Failure;
use paternoster_frame::context::Context;
use paternoster_workload::fio::job::Job;
use paternoster_workload::outcome::Outcome;
use serde_json::Value;

use crate::arguments::Command;
use crate::{advise, analyze, arguments_of, devices, help, replay, run, schedulers};

/// What one call of a command is given besides its words.
#[derive(Debug, Clone, Default)]
pub struct Call(Context);

/// The results of `run`.
#[derive(Debug)]
pub struct Ran<O> {
    /// Each run with its observer, by device and scheduler in the order of the words.
    pub runs: Vec<(Outcome, O)>,
    /// What the program prints as `note: …`.
    pub notes: Vec<String>,
    /// Why the program would end with status 1: a job failed.
    pub failed: Option<String>,
}

impl Call {
    /// Commands that read a file of this name read this text.
    #[must_use]
    pub fn with_files(self, files: BTreeMap<String, String>) -> Call {
        Call(self.0.with_files(files))
    }

    /// Work for several threads is done by at most this many.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Call {
        Call(self.0.with_threads(threads))
    }

    /// Once it is set, the call ends early, with [`Failure::Status`].
    #[must_use]
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.0.stop()
    }

    /// A part of this call: it ends when this one is stopped, and can be stopped by itself.
    #[must_use]
    pub fn part(&self) -> Call {
        Call(self.0.part())
    }

    /// `run`, each run observed by what `observer` makes for its jobs; with digests of the events.
    ///
    /// # Errors
    /// What the program says when the request is wrong.
    pub fn run<O: Observer + 'static>(
        &self,
        words: Vec<String>,
        observer: impl FnMut(&[Job]) -> O,
    ) -> Result<Ran<O>, Failure> {
        self.command(words, |command, fio| match command {
            Command::Run(options) => Some(run::outcomes(options, fio, observer)),
            _ => None,
        })
    }

    /// `compare`, as its JSON.
    ///
    /// # Errors
    /// What the program says when the request is wrong or a job fails.
    pub fn compare(&self, words: Vec<String>) -> Result<Value, Failure> {
        self.command(words, |command, _| match command {
            Command::Compare(options) => Some(advise::document(options)),
            _ => None,
        })
    }

    /// `replay` of a trace, as its JSON.
    ///
    /// # Errors
    /// What the program says when the request or the trace is wrong.
    pub fn replay(&self, words: Vec<String>) -> Result<Value, Failure> {
        self.command(words, |command, _| match command {
            Command::Replay(options) => Some(replay::document(options)),
            _ => None,
        })
    }

    /// `analyze`: what its JSON says of each trace.
    ///
    /// # Errors
    /// What the program says when the request or a trace is wrong.
    pub fn analyze(&self, words: Vec<String>) -> Result<Vec<Value>, Failure> {
        self.command(words, |command, _| match command {
            Command::Analyze(options) => Some(analyze::documents(options)),
            _ => None,
        })
    }

    /// `torture`, as its JSON; a broken law appears in it, and is not an error.
    ///
    /// # Errors
    /// What the program says when there is no such scheduler.
    #[cfg(feature = "lab")]
    pub fn torture(&self, words: Vec<String>) -> Result<Value, Failure> {
        self.command(words, |command, _| match command {
            Command::Torture(options) => Some(paternoster_lab::judgement(options)),
            _ => None,
        })
    }

    /// `devices` and `schedulers`, as their JSON.
    ///
    /// # Errors
    /// What the program says when there is no such device or scheduler.
    pub fn list(&self, words: Vec<String>) -> Result<Value, Failure> {
        self.command(words, |command, _| match command {
            Command::Devices(options) => Some(devices::found(options)),
            Command::Schedulers(options) => Some(schedulers::found(options)),
            _ => None,
        })
    }

    fn command<R>(
        &self,
        words: Vec<String>,
        work: impl FnOnce(&Command, &[String]) -> Option<Result<R, Failure>>,
    ) -> Result<R, Failure> {
        self.0.during(|| {
            let program = String::from("paternoster");
            let words: Vec<String> = std::iter::once(program).chain(words).collect();
            let other = words.get(1).cloned().unwrap_or_default();
            let (asked, fio) = arguments_of(words, help::try_parse)?;
            work(&asked.command, &fio)
                .unwrap_or_else(|| Err(Failure::Request(format!("`{other}` cannot be called so"))))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use paternoster_core::NoObserver;

    use super::*;

    const JOB: &str = "[a]\nrw=randread\nbs=4k\nsize=1m\ndirect=1\n";

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    fn call() -> Call {
        let null = include_str!("../../paternoster-sim/devices/null.toml");
        let files = [("a.fio", JOB), ("mine.toml", null)];
        Call::default()
            .with_files(files.map(|(name, text)| (name.to_owned(), text.to_owned())).into())
    }

    /// Are a job and a device taken from memory, and is there an outcome for each scheduler, with
    /// a digest?
    #[test]
    fn files_are_in_memory() {
        let asked = "run a.fio --device mine.toml --scheduler noop --scheduler bfq";
        let ran = call().run(words(asked), |_| NoObserver).expect("it is right");
        let names: Vec<&str> = ran.runs.iter().map(|run| run.0.report.scheduler.as_str()).collect();
        assert_eq!(names, ["noop", "bfq"]);
        for (outcome, _) in &ran.runs {
            // 1 MiB in requests of 4 KiB.
            assert_eq!(outcome.report.jobs[0].statistics.ios(), 256);
            assert!(outcome.event_hash.is_some());
        }
        assert!(!paternoster_frame::context::is_present(), "the call has ended");
    }

    /// Are the program's messages those of a call, and does none of them end the process?
    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| match call().run(words(text), |_| NoObserver) {
            Err(Failure::Request(message)) => message,
            other => panic!("{other:?}"),
        };
        assert!(refused("run a.fio --scheduler bqf").contains("did you mean `bfq`?"));
        assert!(refused("run b.fio").starts_with("job file b.fio: "));
        assert!(refused("run a.fio --seed x").contains("invalid value 'x' for '--seed <N>'"));
        assert!(refused("devices").contains("`devices` cannot be called so"));
    }

    /// Does a call that is stopped end as an interrupted program does, and leave others alone?
    #[test]
    fn a_call_is_stopped() {
        let stopped = call();
        stopped.stop().store(true, Ordering::Relaxed);
        let ended = stopped.run(words("run a.fio --device null"), |_| NoObserver);
        assert!(matches!(ended, Err(Failure::Status(130))), "{ended:?}");
        assert!(call().run(words("run a.fio --device null"), |_| NoObserver).is_ok());
    }

    /// Does a part of a call end with the whole, and does the whole go on after a part was stopped?
    #[test]
    fn a_part_is_stopped_by_itself() {
        let ended = |call: &Call| {
            matches!(
                call.run(words("run a.fio --device null"), |_| NoObserver),
                Err(Failure::Status(130))
            )
        };
        let whole = call();
        let (one, other) = (whole.part(), whole.part());
        one.stop().store(true, Ordering::Relaxed);
        assert_eq!([&one, &other, &whole].map(ended), [true, false, false]);
        whole.stop().store(true, Ordering::Relaxed);
        assert_eq!([&one, &other, &whole].map(ended), [true, true, true]);
    }
}
