// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending: how the end of one job ends others, and which job waits for which.
//!
//! ```text
//! exitall                      the first that ends stops its group (exit_what=group), whichever
//!                              job it is and whichever has the option
//! exit_what=stonewall          ... all that run now; those after the next stonewall go on
//! exit_what=all                ... everything, started or not
//! wait_for=writers             begins when every clone of [writers] has ended
//! ```
//!
//! A job waits for another by name, so the name must come before it and only once (fio's rule;
//! otherwise two jobs could wait for each other).
//!
//! Source: FIO-60; manual of fio 3.33.

use super::job::Job;
use super::value;

/// The option `exit_what`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExitWhat {
    /// The jobs of the same reporting group.
    #[default]
    Group,
    /// All jobs that run now.
    Stonewall,
    /// All jobs of the run.
    All,
}

/// What a job's end does to others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ending {
    /// `exitall`: each job's end stops others.
    pub exit_all: bool,
    /// `exit_what`: which.
    pub what: ExitWhat,
    /// `exitall_on_error`: so does its failure.
    pub on_error: bool,
    /// `wait_for`: the job that must have ended before this one begins.
    pub wait_for: Option<String>,
}

impl Ending {
    /// Reads one option; returns false if it is not one of these.
    pub(super) fn set(&mut self, name: &str, text: &str) -> Result<bool, String> {
        match name {
            "exitall" => self.exit_all = value::boolean(text)?,
            "exit_what" => self.what = exit_what(text)?,
            "exitall_on_error" => self.on_error = value::boolean(text)?,
            "wait_for" => self.wait_for = Some(text.to_owned()).filter(|name| !name.is_empty()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks `wait_for` of a job after the jobs `before`; returns the index of the job that it
    /// waits for, if any, or what is wrong.
    ///
    /// # Errors
    /// No earlier job has the name, or several have.
    pub fn waits_for(&self, before: &[Job]) -> Result<Option<usize>, String> {
        let Some(name) = &self.wait_for else { return Ok(None) };
        let mut named = (0..before.len()).filter(|place| before[*place].name == *name);
        match (named.next(), named.next()) {
            (Some(place), None) => Ok(Some(place)),
            (None, _) => Err(format!("wait_for: there is no job `{name}` before this one")),
            (Some(_), Some(_)) => Err(format!(
                "wait_for: several jobs before this one are named `{name}`; give them other names"
            )),
        }
    }
}

fn exit_what(text: &str) -> Result<ExitWhat, String> {
    match text {
        "group" => Ok(ExitWhat::Group),
        "stonewall" => Ok(ExitWhat::Stonewall),
        "all" => Ok(ExitWhat::All),
        _ => Err(format!("`{text}` is none of group, stonewall and all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the awaited job found, if there is exactly one before?
    #[test]
    fn the_awaited_job_is_before_and_alone() {
        let job = |name: &str| Job { name: name.to_owned(), ..Job::default() };
        let before = [job("a"), job("b"), job("b")];
        let waits = |name: &str| {
            let ending = Ending { wait_for: Some(name.to_owned()), ..Ending::default() };
            ending.waits_for(&before)
        };
        assert_eq!(waits("a"), Ok(Some(0)));
        assert!(waits("b").unwrap_err().contains("several"));
        assert!(waits("c").unwrap_err().contains("no job `c`"));
        assert_eq!(Ending::default().waits_for(&before), Ok(None));
    }
}
