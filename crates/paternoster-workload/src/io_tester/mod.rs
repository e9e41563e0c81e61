// SPDX-License-Identifier: MIT OR Apache-2.0
//! Io_tester: a job file of Seastar's program of that name, as a job file of fio.
//!
//! ```text
//! - name: big_writes              [big_writes]
//!   type: seqwrite                rw=write
//!   shards: [0, 1]                numjobs=2                one process for each shard
//!   shard_info:
//!     parallelism: 10             iodepth=10
//!     reqsize: 256kB              bs=262144
//!     shares: 10                  cgroup=big_writes cgroup_weight=…
//! ```
//!
//! A *fiber* of io_tester makes a request, waits, thinks. Without a pause between requests, those
//! of a shard are one process with as many requests in flight; with `think_time` or `rps` each is a
//! process of its own. With `rps`, each fiber makes `batch` requests at a time, this often a
//! second.
//!
//! Shares are weights of groups; the largest becomes 1000: 10 and 100 are 100 and 1000.
//! Weights go from 100 to 1000, so shares may differ by ten times.
//!
//! Invariants: I1 what is not translated is refused, with file, line and key; I2 each resulting
//! line is valid for fio.
//!
//! Source: Seastar (Apache-2.0) at 4dadb9c12440, `apps/io_tester`: `conf.yaml`, and which keys are
//! read with which units and defaults.

mod tree;

use core::fmt::{self, Write};

use self::tree::{Node, Value};
use crate::fio::jobfile::{Problem, is_global};

/// Seconds of a run, as io_tester's `--duration`.
const DURATION: u32 = 10;
/// Default bytes of each file.
const FILE: u64 = 1 << 30;
/// The largest weight of a group, and how many times the smallest it is.
const WEIGHT_MAX: u64 = 1000;
const WEIGHT_MIN: u64 = 100;
/// Processes of one job.
const CLONES_MAX: u64 = 1024;

/// Whether a text is a file of io_tester: its first line other than a comment begins a list, which
/// no line of fio's does.
#[must_use]
pub fn looks_like(text: &str) -> bool {
    let lines = text.lines().map(str::trim_end);
    let mut told =
        lines.filter(|line| !line.is_empty() && !line.starts_with('#') && *line != "---");
    told.next().is_some_and(|line| line == "-" || line.starts_with("- "))
}

/// The same jobs in fio's words.
///
/// # Errors
/// What is wrong, or has no equivalent in fio: file, line, key.
pub fn translate(file: &str, text: &str) -> Result<String, Vec<Problem>> {
    let refuse = |(line, message): tree::Wrong| {
        let text = text.lines().nth(line.saturating_sub(1) as usize).unwrap_or("");
        vec![Problem::new(file, line, text.trim(), message)]
    };
    let document = tree::read(text).map_err(refuse)?;
    let (mut jobs, mut problems) = (Vec::new(), Vec::new());
    let nodes = match document.map(|node| (node.line, node.value)) {
        Some((_, Value::List(nodes))) => nodes,
        told => return Err(refuse((told.map_or(1, |told| told.0), "no list of jobs".to_owned()))),
    };
    for node in &nodes {
        match Job::of(node) {
            Ok(job) => jobs.push(job),
            Err(wrong) => {
                problems.push(Problem::new(file, wrong.line, &wrong.text, wrong.message));
            }
        }
    }
    if problems.is_empty() {
        match in_fios_words(&jobs) {
            Ok(text) => return Ok(text),
            Err(wrong) => {
                problems.push(Problem::new(file, wrong.line, &wrong.text, wrong.message));
            }
        }
    }
    Err(problems)
}

/// A key that is wrong, with the reason.
struct Wrong {
    line: u32,
    /// The key, and its value.
    text: String,
    message: String,
}

fn wrong(key: &Node, value: &Node, message: impl Into<String>) -> Wrong {
    let text = format!("{}: {}", key.text(), value.text());
    Wrong { line: key.line, text, message: message.into() }
}

/// Which requests a job makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Io(&'static str),
    Cpu,
}

/// A job as its file describes it.
struct Job {
    line: u32,
    name: String,
    kind: Kind,
    /// The numbers of its shards; `None` is all of them.
    shards: Option<Vec<u64>>,
    parallelism: u64,
    rps: u64,
    batch: u64,
    limit: Option<u64>,
    shares: u64,
    /// The job whose class it has.
    class: Option<(String, u32)>,
    request: u64,
    think_ns: u64,
    execution_ns: u64,
    data_size: Option<u64>,
    dsync: bool,
    busy: bool,
    poisson: bool,
}

impl Job {
    fn of(node: &Node) -> Result<Job, Wrong> {
        let Value::Map(pairs) = &node.value else {
            let (text, message) = (node.text().to_owned(), "no job: name, type, shards".to_owned());
            return Err(Wrong { line: node.line, text, message });
        };
        let mut job = Job {
            line: node.line,
            name: String::new(),
            kind: Kind::Io(""),
            shards: None,
            parallelism: 0,
            rps: 0,
            batch: 1,
            limit: None,
            shares: 10,
            class: None,
            request: 4096,
            think_ns: 0,
            execution_ns: 1_000_000,
            data_size: None,
            dsync: false,
            busy: false,
            poisson: false,
        };
        let mut are = [false; 3];
        for (key, value) in pairs {
            match key.text() {
                "name" => (job.name, are[0]) = (name(key, value)?, true),
                "type" => (job.kind, are[1]) = (kind(key, value)?, true),
                "shards" => (job.shards, are[2]) = (shards(key, value)?, true),
                "data_size" => job.data_size = Some(bytes(key, value)?),
                "shard_info" => each(key, value, |key, value| job.shard_info(key, value))?,
                "options" => each(key, value, |key, value| job.option(key, value))?,
                // How large the file system makes pieces of a file: here a file is one piece.
                "extent_allocation_size_hint" => drop(bytes(key, value)?),
                "files_count" => {
                    return Err(wrong(
                        key,
                        value,
                        "only for `unlink`, and no file is deleted here",
                    ));
                }
                _ => return Err(wrong(key, value, unknown(JOB))),
            }
        }
        let missing = ["name", "type", "shards"].iter().zip(are).find(|(_, is)| !is);
        if let Some((key, _)) = missing {
            let (line, text) = (node.line, job.name);
            return Err(Wrong { line, text, message: format!("the job has no `{key}`") });
        }
        if job.parallelism == 0 {
            let message = "`parallelism` is missing or 0: such a job makes no request".to_owned();
            return Err(Wrong { line: node.line, text: job.name, message });
        }
        Ok(job)
    }

    fn shard_info(&mut self, key: &Node, value: &Node) -> Result<(), Wrong> {
        match key.text() {
            "parallelism" => self.parallelism = number(key, value, CLONES_MAX)?,
            "rps" => self.rps = number(key, value, 1 << 32)?,
            "batch" => self.batch = number(key, value, CLONES_MAX)?.max(1),
            "limit" => self.limit = Some(number(key, value, 1 << 32)?),
            "shares" => self.shares = number(key, value, 1 << 20)?.max(1),
            "class" => self.class = Some((name(key, value)?, key.line)),
            "reqsize" => self.request = bytes(key, value)?,
            "think_time" => self.think_ns = duration(key, value)?,
            "execution_time" => self.execution_ns = duration(key, value)?,
            "think_after" => {
                let message = "pauses by turns, which fio does not know: leave it out";
                return Err(wrong(key, value, message));
            }
            "bandwidth" => {
                let message = "io_tester reads it and does nothing with it: leave it out";
                return Err(wrong(key, value, message));
            }
            _ => return Err(wrong(key, value, unknown(SHARD_INFO))),
        }
        Ok(())
    }

    fn option(&mut self, key: &Node, value: &Node) -> Result<(), Wrong> {
        let one_of = |right: &str| Err(wrong(key, value, format!("not one of {right}")));
        match (key.text(), value.text()) {
            ("dsync", "true") => self.dsync = true,
            ("dsync", "false") => self.dsync = false,
            ("dsync", _) => return one_of("true, false"),
            ("sleep_type", "busyloop") => self.busy = true,
            ("sleep_type", "lowres" | "steady") => self.busy = false,
            ("sleep_type", _) => return one_of("busyloop, lowres, steady"),
            ("pause_distribution", "uniform") => self.poisson = false,
            ("pause_distribution", "poisson") => self.poisson = true,
            ("pause_distribution", _) => return one_of("uniform, poisson"),
            _ => return Err(wrong(key, value, unknown("dsync, sleep_type, pause_distribution"))),
        }
        Ok(())
    }
}

const JOB: &str = "name, type, shards, data_size, shard_info, options, \
                   extent_allocation_size_hint, files_count";
const SHARD_INFO: &str = "parallelism, rps, batch, limit, shares, class, reqsize, think_time, \
                          execution_time";

fn unknown(keys: &str) -> String {
    format!("unknown key; there are {keys}")
}

fn each(
    key: &Node,
    value: &Node,
    mut of: impl FnMut(&Node, &Node) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    match &value.value {
        Value::Map(pairs) => pairs.iter().try_for_each(|(key, value)| of(key, value)),
        _ => Err(wrong(key, value, "keys and values are missing")),
    }
}

fn name(key: &Node, value: &Node) -> Result<String, Wrong> {
    let text = value.text();
    let plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    if is_global(text.trim()) {
        // There it would be no job, and its options those of all jobs below it.
        let message = "fio takes a section whose name begins with `global` for no job: rename it";
        return Err(wrong(key, value, message));
    }
    match &value.value {
        Value::Word(_) if !text.trim().is_empty() && text.chars().all(plain) => Ok(text.to_owned()),
        _ => Err(wrong(key, value, "a name has letters, digits, blanks, `-`, `_` and `.`")),
    }
}

fn kind(key: &Node, value: &Node) -> Result<Kind, Wrong> {
    Ok(Kind::Io(match value.text() {
        "seqread" => "read",
        // Growth beyond the end of a file is, for a device, one stream of writes.
        "seqwrite" | "append" => "write",
        "randread" => "randread",
        "randwrite" => "randwrite",
        "cpu" => return Ok(Kind::Cpu),
        "unlink" => return Err(wrong(key, value, "no file is deleted here: leave the job out")),
        _ => {
            let message = "unknown type; there are seqread, seqwrite, randread, randwrite, \
                           append, cpu";
            return Err(wrong(key, value, message));
        }
    }))
}

fn shards(key: &Node, value: &Node) -> Result<Option<Vec<u64>>, Wrong> {
    match &value.value {
        Value::Word(word) if word == "all" => Ok(None),
        Value::List(nodes) if !nodes.is_empty() => {
            let mut shards: Vec<u64> = Vec::new();
            for node in nodes {
                shards.push(number(key, node, CLONES_MAX - 1)?);
            }
            shards.sort_unstable();
            shards.dedup();
            Ok(Some(shards))
        }
        _ => Err(wrong(key, value, "`all`, or a list of numbers")),
    }
}

fn number(key: &Node, value: &Node, most: u64) -> Result<u64, Wrong> {
    let number = value.text().parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| wrong(key, value, format!("no number from 0 to {most}")))
}

/// `256kB`: the letters before the `B` are powers of 1024.
fn bytes(key: &Node, value: &Node) -> Result<u64, Wrong> {
    let text = value.text();
    let (digits, shift) = match text.strip_suffix('B') {
        None => (text, 0),
        Some(rest) => match rest.char_indices().next_back() {
            Some((end, 'k')) => (&rest[..end], 10),
            Some((end, 'M')) => (&rest[..end], 20),
            Some((end, 'G')) => (&rest[..end], 30),
            _ => ("", 0),
        },
    };
    let most = (1_u64 << 50) >> shift;
    let number = digits.parse().ok().filter(|number| *number <= most).map(|n: u64| n << shift);
    let sectors = number.filter(|bytes| *bytes >= 512 && bytes.is_multiple_of(512));
    sectors.ok_or_else(|| wrong(key, value, "no size, as 512, 4kB, 2MB, 1GB, in sectors of 512"))
}

/// `1000us`; `0` needs no unit.
fn duration(key: &Node, value: &Node) -> Result<u64, Wrong> {
    let text = value.text();
    let unit = |unit| text.strip_suffix(unit);
    let (digits, ns) = if text == "0" {
        (text, 1)
    } else if let Some(digits) = unit("ns") {
        (digits, 1)
    } else if let Some(digits) = unit("us") {
        (digits, 1000)
    } else if let Some(digits) = unit("ms") {
        (digits, 1_000_000)
    } else {
        (unit("s").unwrap_or(""), 1_000_000_000)
    };
    let hour = 3_600_000_000_000;
    let number = digits.parse().ok().and_then(|number: u64| number.checked_mul(ns));
    let number = number.filter(|ns| *ns <= hour);
    number.ok_or_else(|| wrong(key, value, "no time up to an hour, as 90us, 5ms, 1s"))
}

/// All jobs, with what holds for all of them.
fn in_fios_words(jobs: &[Job]) -> Result<String, Wrong> {
    let named = jobs.iter().filter_map(|job| job.shards.as_ref()?.last());
    let all = named.max().map_or(1, |last| last + 1);
    let shares = || jobs.iter().filter(|job| job.class.is_none()).map(|job| job.shares);
    let (most, least) = (shares().max().unwrap_or(1), shares().min().unwrap_or(1));
    let mut out = format!(
        "[global]\ndirect=1\nioengine=libaio\nrandrepeat=0\ntime_based=1\nruntime={DURATION}\n\
         group_reporting=1\n"
    );
    for job in jobs {
        let refuse = |line, message: String| Wrong { line, text: job.name.clone(), message };
        let group = match &job.class {
            None => job,
            Some((class, line)) => jobs
                .iter()
                .find(|other| other.class.is_none() && other.name == *class)
                .ok_or_else(|| refuse(*line, format!("no job is the class `{class}`")))?,
        };
        if least * WEIGHT_MAX < most * WEIGHT_MIN {
            let message = format!("shares from {least} to {most}: they may differ by ten times");
            return Err(refuse(job.line, message));
        }
        let weight = group.shares * WEIGHT_MAX / most;
        let shards = job.shards.as_ref().map_or(all, |shards| shards.len() as u64);
        let alone = job.kind == Kind::Cpu || job.rps > 0 || job.think_ns > 0;
        let (clones, depth) = match (alone, job.rps > 0) {
            (false, _) => (shards, job.parallelism),
            (true, true) => (shards * job.parallelism, job.batch),
            (true, false) => (shards * job.parallelism, 1),
        };
        if clones > CLONES_MAX {
            return Err(refuse(job.line, format!("{clones} fibers, more than {CLONES_MAX}")));
        }
        job.write(&mut out, (shards, all), (clones, depth), (&group.name, weight));
    }
    Ok(out)
}

impl Job {
    /// Writes the section of a job.
    fn write(
        &self,
        out: &mut String,
        (shards, all): (u64, u64),
        (clones, depth): (u64, u64),
        (group, weight): (&str, u64),
    ) {
        let mut line = |text: fmt::Arguments<'_>| {
            let _written_to_a_string = writeln!(out, "{text}");
        };
        line(format_args!("[{}]\nnumjobs={clones}", self.name));
        line(format_args!("cgroup={group}\ncgroup_weight={weight}"));
        let Kind::Io(rw) = self.kind else {
            let each = self.execution_ns + self.think_ns;
            let percent = (self.execution_ns * 100).checked_div(each).unwrap_or(100).clamp(1, 100);
            let burns = (self.execution_ns / 1000).max(1);
            line(format_args!("ioengine=cpuio\ncpuload={percent}\ncpuchunks={burns}"));
            return;
        };
        let request = self.request;
        // Whole requests: each file has at least one.
        let size = self.data_size.map_or(FILE, |bytes| bytes / all).max(request);
        line(format_args!("rw={rw}\nbs={request}\nsize={size}\niodepth={depth}"));
        if self.dsync {
            line(format_args!("sync=dsync"));
        }
        if let Some(limit) = self.limit {
            let bytes = (limit * shards).div_ceil(clones).max(1).saturating_mul(request);
            line(format_args!("time_based=0\nio_size={bytes}"));
        }
        if self.rps > 0 {
            line(format_args!("rate_iops={}", self.rps * self.batch));
            let process = if self.poisson { "poisson" } else { "linear" };
            line(format_args!("rate_process={process}"));
        } else if self.think_ns > 0 {
            let think = self.think_ns.div_ceil(1000);
            line(format_args!("thinktime={think}"));
            if self.busy {
                line(format_args!("thinktime_spin={think}"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
