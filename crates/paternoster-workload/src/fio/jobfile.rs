// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job files: sections of options, inherited from `[global]`, become jobs.
//!
//! ```text
//! [global]        bs=4k             defaults of the jobs below
//! [a]             size=1m           a: 4k
//! [global]        bs=8k             globals add up; the last value wins
//! [b]             size=1m           b: 8k, but a stays at 4k
//! ```
//!
//! A section is a `[global]` if its name begins so, as `[global2]` does. Options given on the
//! command line before a file act as a first `[global]`, so the file's own globals win over them.
//! Several files are separate groups: each begins with those options only, and its first job waits
//! for the jobs of the files before (`stonewall`).
//!
//! Invariants:
//! I1  No text makes the parser panic, and none makes it use more memory than the limits allow.
//! I2  Every problem names file and line. Reading goes on after a problem, to report several.
//! I3  A job is returned only if everything about it was understood: half a job is none.
//!
//! Source: FIO-1 to FIO-9.

use std::sync::Arc;

use super::apply::apply;
use super::check;
pub use super::command_line::parse_command_line;
use super::job::{Job, Origin};
pub use super::lines::Included;
use super::lines::{Content, Lexer, Line};
use super::option;
use super::problem::PROBLEMS_MAX;
pub use super::problem::Problem;
use super::variables;

/// Jobs of a run, counting clones.
pub const JOBS_MAX: u32 = 4096;

/// How the names of sections begin that give defaults (FIO-2).
const GLOBAL: &str = "global";

/// Whether a section of this name gives defaults and is no job: the beginning decides, as in fio.
pub(crate) fn is_global(name: &str) -> bool {
    name.starts_with(GLOBAL)
}

/// Notes that are kept; the rest would not be read either.
const NOTES_MAX: usize = 1000;

/// A job file with its name.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Name for messages and for files included from it.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// The jobs that job files describe.
#[derive(Debug, Clone)]
pub struct JobFile {
    /// Options with a value from the command line and `[global]`s, in order, as fio reports them.
    pub global: Vec<(String, String)>,
    /// The jobs in order; each represents `numjobs` clones.
    pub jobs: Vec<Job>,
    /// What was accepted but may be surprising.
    pub notes: Vec<Problem>,
}

/// Parses job files.
///
/// `defaults` are options from the command line (an empty value is a bare option); `sections`
/// restricts the run to sections of these names, all if empty; `environment` gives the value of
/// `${NAME}`; `include` reads a file named in an `include` line of another file, and returns the
/// name by which messages and further includes know it.
///
/// # Errors
/// Every problem found, up to a hundred.
pub fn parse(
    sources: &[Source<'_>],
    defaults: &[(String, String)],
    sections: &[String],
    environment: &dyn Fn(&str) -> Option<String>,
    include: &dyn Fn(&str, &str) -> Included,
) -> Result<JobFile, Vec<Problem>> {
    let mut builder = Builder::new(environment);
    for ((name, value), number) in defaults.iter().zip(1..) {
        let value = Some(value.clone()).filter(|value| !value.is_empty());
        builder.option("command line", number, name, name, value);
    }
    builder.keep_as_defaults();
    let mut lexer = Lexer::new(include);
    let mut found = vec![false; sections.len()];
    for source in sources {
        let lines = lexer.file(source.name, source.text, &mut builder.problems);
        builder.begin_file();
        builder.lines(&lines, sections, &mut found);
    }
    let first = sources.first().map_or("job file", |source| source.name);
    for (section, _) in sections.iter().zip(&found).filter(|(_, found)| !**found) {
        let message = format!("there is no section `{section}`");
        builder.problems.push(Problem::new(first, 1, section, message));
    }
    builder.finish(first)
}

/// Jobs under construction, for files and for the command line.
pub(super) struct Builder<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    /// The starting values of a new job, and its value of `kb_base`.
    template: Template,
    /// The template with which each file begins.
    defaults: Template,
    /// The job whose options are being read; `None` in `[global]`.
    current: Option<Template>,
    /// The next job is the first of a further file.
    wall: bool,
    clones: u64,
    global: Vec<(String, String)>,
    jobs: Vec<Job>,
    notes: Vec<Problem>,
    pub(super) problems: Vec<Problem>,
}

#[derive(Debug, Clone)]
struct Template {
    job: Job,
    kilo: u64,
    /// Something about this job was wrong; it is not checked further.
    broken: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(environment: &'a dyn Fn(&str) -> Option<String>) -> Builder<'a> {
        let template = Template { job: Job::default(), kilo: 1024, broken: false };
        Builder {
            environment,
            defaults: template.clone(),
            template,
            current: None,
            wall: false,
            clones: 0,
            global: Vec::new(),
            jobs: Vec::new(),
            notes: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn keep_as_defaults(&mut self) {
        self.defaults = self.template.clone();
    }

    fn begin_file(&mut self) {
        self.template = self.defaults.clone();
        self.wall = !self.jobs.is_empty();
    }

    fn lines(&mut self, lines: &[Line], sections: &[String], found: &mut [bool]) {
        let mut at = 0;
        while at < lines.len() && !self.is_full() {
            let is_header = |line: &Line| matches!(line.content, Content::Header(_));
            let length = lines[at + 1..].iter().take_while(|line| !is_header(line)).count();
            self.section(&lines[at], &lines[at + 1..=at + length], sections, found);
            at += 1 + length;
        }
    }

    /// One header with its options. The first line of a file may be an option instead.
    fn section(&mut self, head: &Line, body: &[Line], sections: &[String], found: &mut [bool]) {
        if head.content == Content::Wrong {
            return;
        }
        let Content::Header(name) = &head.content else {
            let message = "options need a section before them: write `[global]` or `[name]`";
            self.problems.push(Problem::new(&head.file, head.number, &head.text, message));
            return;
        };
        // A blank before it counts: `[ global]` is a job.
        if head.text.strip_prefix('[').is_some_and(is_global) {
            self.begin_globals(name, &head.file, head.number, &head.text);
        } else {
            for (_, found) in sections.iter().zip(found).filter(|(wanted, _)| *wanted == name) {
                *found = true;
            }
            if !sections.is_empty() && !sections.contains(name) {
                return;
            }
            self.begin_job(name, &head.file, head.number);
        }
        self.base(body);
        for line in body {
            if self.is_full() {
                break;
            }
            match &line.content {
                Content::Option(key, value) => {
                    self.option(&line.file, line.number, &line.text, key, value.clone());
                }
                Content::Wrong | Content::Header(_) => self.mark_broken(),
            }
        }
        self.end_job();
    }

    /// Sizes depend on `kb_base`, in any order within its section: it is read first.
    fn base(&mut self, body: &[Line]) {
        for line in body {
            match &line.content {
                Content::Option(key, Some(value)) if key == "kb_base" => self.set_base(value),
                _ => {}
            }
        }
    }

    fn set_base(&mut self, value: &str) {
        let template = self.current.as_mut().unwrap_or(&mut self.template);
        template.kilo = if value == "1000" { 1000 } else { 1024 };
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// Begins a section of defaults. A note says so where the name looks like a job's.
    pub(super) fn begin_globals(&mut self, name: &str, file: &str, line: u32, text: &str) {
        if name != GLOBAL {
            let message = "a section whose name begins with `global` is no job, as in fio: it \
                           gives defaults to the jobs below it";
            self.note(file, line, text, message.to_owned());
        }
    }

    /// Begins a job as a copy of the globals so far.
    pub(super) fn begin_job(&mut self, name: &str, file: &str, line: u32) {
        let mut current = self.template.clone();
        name.clone_into(&mut current.job.name);
        file.clone_into(&mut current.job.section.file);
        current.job.section.line = line;
        self.current = Some(current);
    }

    /// Applies one option to the job, or to the globals if there is none.
    pub(super) fn option(
        &mut self,
        file: &str,
        line: u32,
        text: &str,
        key: &str,
        value: Option<String>,
    ) {
        let mut remarks = Vec::new();
        let result = self.apply(key, value, &mut remarks);
        // A value for three directions is read three times.
        remarks.dedup();
        for remark in remarks {
            self.note(file, line, text, remark);
        }
        match result {
            Ok(()) => self.keep_origin(file, line, text, key),
            Err(message) => {
                self.mark_broken();
                self.problems.push(Problem::new(file, line, text, message));
            }
        }
    }

    /// Notes where the option was given, for problems found later.
    fn keep_origin(&mut self, file: &str, line: u32, text: &str, key: &str) {
        let Some(option) = option::find(key) else { return };
        let Problem { file, line, text, .. } = Problem::new(file, line, text, "");
        let template = self.current.as_mut().unwrap_or(&mut self.template);
        template.job.section.origins.insert(option.name, Arc::new(Origin { file, line, text }));
    }

    fn mark_broken(&mut self) {
        self.current.as_mut().unwrap_or(&mut self.template).broken = true;
    }

    fn apply(
        &mut self,
        key: &str,
        value: Option<String>,
        remarks: &mut Vec<String>,
    ) -> Result<(), String> {
        let value = match value {
            Some(value) => Some(variables::replace(&value, self.environment)?),
            None => None,
        };
        if key == "kb_base" {
            match value.as_deref() {
                Some(base @ ("1000" | "1024")) => self.set_base(base),
                _ => return Err("`kb_base` is 1000 or 1024".to_owned()),
            }
        }
        let template = self.current.as_mut().unwrap_or(&mut self.template);
        apply(&mut template.job, template.kilo, key, value.as_deref(), remarks)?;
        // fio's reports do not show bare options.
        if let Some(value) = value {
            let given = match &mut self.current {
                Some(current) => &mut current.job.section.given,
                None => &mut self.global,
            };
            given.push((key.to_owned(), value));
        }
        Ok(())
    }

    /// Ends the job that [`Builder::begin_job`] began, if there is one.
    pub(super) fn end_job(&mut self) {
        let Some(Template { mut job, broken, .. }) = self.current.take() else { return };
        job.clones.stonewall |= core::mem::take(&mut self.wall);
        self.clones = self.clones.saturating_add(u64::from(job.clones.numjobs));
        if self.clones > u64::from(JOBS_MAX) {
            let message = format!("there are more than {JOBS_MAX} jobs, counting clones");
            self.problems.push(Problem::new(
                &job.section.file,
                job.section.line,
                &job.name,
                message,
            ));
            // The rest would only repeat it.
            self.clones = 0;
            self.jobs.clear();
            return;
        }
        let mut remarks = Vec::new();
        // What a broken job lacks may be what was broken.
        if !(broken || self.template.broken)
            && let Err(message) = check::complete(&mut job, &mut remarks)
                .and_then(|()| job.clones.ending.waits_for(&self.jobs).map(|_| ()))
        {
            self.problems.push(Problem::new(
                &job.section.file,
                job.section.line,
                &job.name,
                message,
            ));
        }
        for remark in remarks {
            self.note(&job.section.file, job.section.line, &job.name, remark);
        }
        self.jobs.push(job);
    }

    fn note(&mut self, file: &str, line: u32, text: &str, message: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Problem::new(file, line, text, message));
        }
    }

    /// The jobs, or what is wrong with them.
    pub(super) fn finish(mut self, file: &str) -> Result<JobFile, Vec<Problem>> {
        self.end_job();
        if self.problems.is_empty() && self.jobs.is_empty() {
            let message = "there is no job: begin one with `[name]` or `--name=name`";
            self.problems.push(Problem::new(file, 1, file, message));
        }
        if self.problems.is_empty() {
            Ok(JobFile { global: self.global, jobs: self.jobs, notes: self.notes })
        } else {
            Err(in_order(self.problems))
        }
    }
}

/// Problems by file, in the order in which files were met, and by line.
fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    let mut files: Vec<String> = Vec::new();
    for problem in &problems {
        if !files.contains(&problem.file) {
            files.push(problem.file.clone());
        }
    }
    problems.sort_by_cached_key(|problem| {
        (files.iter().position(|file| *file == problem.file), problem.line)
    });
    problems
}
