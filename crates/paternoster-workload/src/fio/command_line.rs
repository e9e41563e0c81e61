// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command line: jobs written as arguments, `--name=x --rw=randread --bs=4k`.
//!
//! `--name=` begins a job, or defaults, as `[name]` does; options before the first are global.
//! `--opt=value`, `--opt value` and a bare `--opt` are understood. Problems give the number of the
//! argument, from 1, as their line.
//!
//! Source: FIO-5.

use super::jobfile::{Builder, JobFile, is_global};
use super::problem::{PROBLEMS_MAX, Problem};

/// What messages call the command line.
const FILE: &str = "command line";

/// Arguments of one run.
const ARGUMENTS_MAX: usize = 65_536;

/// Parses jobs that are written as arguments.
///
/// # Errors
/// Every problem found, up to a hundred.
pub fn parse_command_line(
    args: &[String],
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<JobFile, Vec<Problem>> {
    let mut builder = Builder::new(environment);
    if args.len() > ARGUMENTS_MAX {
        let message = format!("there are more than {ARGUMENTS_MAX} arguments");
        return Err(vec![Problem::new(FILE, 1, "", message)]);
    }
    let mut rest = args.iter().zip(1..).peekable();
    while let Some((argument, number)) = rest.next() {
        if builder.problems.len() >= PROBLEMS_MAX {
            break;
        }
        let Some(option) = argument.strip_prefix("--").filter(|option| !option.is_empty()) else {
            let message = "this is no option: write `--name=job` or `--option=value`";
            builder.problems.push(Problem::new(FILE, number, argument, message));
            continue;
        };
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => {
                let next = rest.next_if(|(next, _)| !next.starts_with("--"));
                (option, next.map(|(next, _)| next.clone()))
            }
        };
        if key == "name" {
            builder.end_job();
            let name = value.as_deref().unwrap_or("");
            if is_global(name) {
                builder.begin_globals(name, FILE, number, argument);
            } else {
                builder.begin_job(name, FILE, number);
            }
        }
        builder.option(FILE, number, argument, key, value);
    }
    builder.finish(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::value::Amount;

    fn parse(line: &str) -> Result<JobFile, Vec<Problem>> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse_command_line(&args, &|_| None)
    }

    /// Are jobs begun by `--name`, with earlier options as globals, in all three spellings?
    #[test]
    fn arguments_make_jobs() {
        let file =
            parse("--size=1m --bs 8k --name=x --rw=randread --time_based --runtime=5 --name y");
        let file = file.unwrap();
        assert_eq!(file.jobs.len(), 2);
        assert_eq!(file.jobs[0].name, "x");
        assert!(file.jobs[0].time.time_based && file.jobs[0].order.rw.random);
        assert_eq!(file.jobs[1].blocks.block_size[0], (8192, 8192));
        assert_eq!(file.jobs[1].region.size, Some(Amount::Bytes(1 << 20)));
        assert!(!file.jobs[1].time.time_based);
        assert_eq!(file.global.len(), 2);
    }

    /// Do problems give the argument's number?
    #[test]
    fn problems_count_arguments() {
        let problems = parse("--name=x stray --size=1m --bsx=3").unwrap_err();
        assert_eq!(problems.len(), 2);
        assert_eq!((problems[0].line, problems[1].line), (2, 4));
        assert_eq!(
            problems[1].to_string(),
            "command line:4: unknown option `bsx`; did you mean `bs`?: `--bsx=3`"
        );
        assert!(parse("--name").is_err());
    }
}
