// SPDX-License-Identifier: MIT OR Apache-2.0
//! Split: separates the arguments of `run` into ours and fio's.
//!
//! ```text
//! run --seed 3 --name a --rw randread fair.fio --direct=1
//!     ours ──▶ run --seed 3 fair.fio        fio's ──▶ --name=a --rw=randread --direct=1
//! ```
//!
//! `--runtime` is ours before the first `--name` and the job's after it. A value may follow `=` or
//! be the next argument, as fio takes it. An option that is neither's is refused here if it is
//! nearly one of ours; others go to fio's reader, which knows what is near to them.

use clap::{Command, CommandFactory};
use paternoster_core::near;
use paternoster_frame::Failure;
use paternoster_workload::fio::option::{self, FioOption};

use crate::arguments::Program;

/// fio's options for its own screen, help and machinery.
const WITHOUT_MEANING: [&str; 21] = [
    "alloc-size",
    "append-terse",
    "aux-path",
    "bandwidth-log",
    "cmdhelp",
    "cpuclock-test",
    "crctest",
    "daemonize",
    "debug",
    "enghelp",
    "eta",
    "eta-interval",
    "eta-newline",
    "inflate-log",
    "max-jobs",
    "mem-checks",
    "readonly",
    "remote-config",
    "showcmd",
    "trigger-file",
    "warnings-fatal",
];

/// Words after a number that make it a time.
const TIME_UNITS: [&str; 6] = ["us", "ms", "s", "m", "h", "d"];

/// Our own arguments, and fio's options of `run`, each in order.
pub(crate) fn split_off_fio(all: Vec<String>) -> Result<(Vec<String>, Vec<String>), Failure> {
    if all.get(1).map(String::as_str) != Some("run") {
        return Ok((all, Vec::new()));
    }
    let program = Program::command();
    let ours = Ours(program.find_subcommand("run"));
    let (mut own, mut fio) = (Vec::new(), Vec::new());
    let mut in_job = false;
    let mut rest = all.into_iter().peekable();
    while let Some(argument) = rest.next() {
        let option = argument.strip_prefix("--").filter(|option| !option.is_empty());
        let Some(option) = option else {
            own.push(argument);
            continue;
        };
        let name = option.split_once('=').map_or(option, |(name, _)| name).to_owned();
        let has_value = option.contains('=');
        in_job |= name == "name";
        // Both know a runtime; after a job's name it is that job's.
        let of_job = in_job && name == "runtime" && (has_value || rest.peek().is_some());
        if ours.knows(&name) && !of_job {
            own.push(argument);
            if !has_value && ours.takes_value(&name) {
                let value = rest.next();
                a_time_is_one_word(&name, value.as_deref(), rest.peek())?;
                own.extend(value);
            }
            continue;
        }
        ours.check(&name)?;
        let value = |next: &String| !has_value && is_value(option::find(&name), next);
        match rest.next_if(value) {
            None => fio.push(argument),
            Some(value) => {
                a_time_is_one_word(&name, Some(&value), rest.peek())?;
                fio.push(format!("{argument}={value}"));
            }
        }
    }
    Ok((own, fio))
}

/// Whether `next` is the value of fio's option before it, and not a job file.
fn is_value(option: Option<&FioOption>, next: &str) -> bool {
    let Some(option) = option else { return false };
    let number = next.starts_with(|first: char| first.is_ascii_digit()) && !next.ends_with(".fio");
    !next.starts_with("--") && (option.takes_text() || number)
}

/// Refuses `--runtime 5 s`.
fn a_time_is_one_word(
    name: &str,
    value: Option<&str>,
    next: Option<&String>,
) -> Result<(), Failure> {
    let value = value.filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    let unit = next.filter(|next| TIME_UNITS.contains(&next.as_str()));
    let (Some(value), Some(unit)) = (value, unit) else { return Ok(()) };
    Err(Failure::Request(format!(
        "--{name} {value} {unit}: number and unit are one word, --{name} {value}{unit}"
    )))
}

/// The definition of `run`.
struct Ours<'a>(Option<&'a Command>);

impl Ours<'_> {
    fn find(&self, name: &str) -> Option<&clap::Arg> {
        let is = |argument: &&clap::Arg| argument.get_long() == Some(name);
        self.0?.get_arguments().find(is)
    }

    fn knows(&self, name: &str) -> bool {
        name == "help" || self.find(name).is_some()
    }

    fn takes_value(&self, name: &str) -> bool {
        self.find(name).is_some_and(|argument| argument.get_action().takes_values())
    }

    /// Refuses what is nearly ours, and what fio has only for itself.
    fn check(&self, name: &str) -> Result<(), Failure> {
        if option::find(name).is_some() {
            return Ok(());
        }
        if WITHOUT_MEANING.contains(&name) {
            let message = format!("--{name}: fio has it, here it has no meaning; leave it out");
            return Err(Failure::Request(message));
        }
        let ours: Vec<&str> = self
            .0
            .into_iter()
            .flat_map(Command::get_arguments)
            .filter_map(clap::Arg::get_long)
            .collect();
        let mut known = ours.clone();
        for name in option::names() {
            known.push(name);
        }
        match near::nearest(name, known) {
            Some(near) if ours.contains(&near) => {
                Err(Failure::Request(format!("unknown option --{name}; did you mean --{near}?")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two lists as text, or the refusal.
    fn split(line: &str) -> Result<(String, String), String> {
        let words = ["paternoster", "run"].into_iter().chain(line.split(' ')).map(str::to_owned);
        match split_off_fio(words.collect()) {
            Ok((own, fio)) => Ok((own[2..].join(" "), fio.join(" "))),
            Err(Failure::Request(message)) => Err(message),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn parts(own: &str, fio: &str) -> Result<(String, String), String> {
        Ok((own.to_owned(), fio.to_owned()))
    }

    /// Does a runtime belong to the job whose name it follows?
    #[test]
    fn a_jobs_runtime_is_its_own() {
        let expected = parts("--runtime=9", "--name=a --runtime=2 --name=b");
        assert_eq!(split("--runtime=9 --name=a --runtime=2 --name=b"), expected);
        let expected = parts("--runtime 9", "--name=a --runtime=2");
        assert_eq!(split("--runtime 9 --name a --runtime 2"), expected);
    }

    /// Do fio's options go to fio, and ours to us, with `=` and with a space?
    #[test]
    fn fio_options_are_split_off() {
        let expected = parts("--seed 3 a.fio", "--name=a --rw=read --direct=1");
        assert_eq!(split("--name=a --rw=read --seed 3 a.fio --direct=1"), expected);
        let expected = parts("--seed 3 a.fio", "--name=a --rw=read --bs=4k --size=16m");
        assert_eq!(split("--name a --rw read --seed 3 --bs 4k a.fio --size 16m"), expected);
        // A bare word is no reason to take a job file for its value.
        let expected = parts("a.fio -q 4.fio", "--time_based --direct");
        assert_eq!(split("--time_based a.fio -q --direct 4.fio"), expected);
    }

    /// Is a typing error in our options distinguished from one in fio's?
    #[test]
    fn slips_in_our_options_are_said() {
        let message = "unknown option --shceduler; did you mean --scheduler?";
        assert_eq!(split("a.fio --shceduler bfq"), Err(message.to_owned()));
        // fio's reader says what is near.
        assert_eq!(split("a.fio --iodeph=4"), parts("a.fio", "--iodeph=4"));
    }

    /// Does the message say that a time is one word?
    #[test]
    fn times_are_one_word() {
        let message = "--runtime 5 s: number and unit are one word, --runtime 5s";
        assert_eq!(split("a.fio --runtime 5 s"), Err(message.to_owned()));
        assert_eq!(split("--name a --runtime 5 s"), Err(message.to_owned()));
        assert_eq!(split("--runtime 5 a.fio"), parts("--runtime 5 a.fio", ""));
    }

    /// Are fio's options for its own screen and help answered as such, and is none of them known as
    /// a job's or ours?
    #[test]
    fn options_without_meaning_are_answered() {
        let message = "--eta: fio has it, here it has no meaning; leave it out";
        assert_eq!(split("a.fio --eta=never"), Err(message.to_owned()));
        let program = Program::command();
        let ours = Ours(program.find_subcommand("run"));
        for name in WITHOUT_MEANING {
            assert!(!ours.knows(name) && option::find(name).is_none(), "{name}");
        }
    }
}
