// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio: the real one, run for the parts of a job, and its results for each process.
//!
//! All parts start together. One in a cgroup is started by a shell that enters the cgroup and then
//! becomes fio:
//!
//! ```text
//! sh -c 'echo $$ > FOLDER/cgroup.procs && exec fio …'
//! ```
//!
//! Results come as JSON in a file, because fio also says other things on its output. A stop
//! request, or an error, ends all of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use paternoster_core::Nanos;
use serde_json::Value;

use super::split::Part;

/// How often it checks whether all have ended.
const GLANCE: Duration = Duration::from_millis(10);
/// How long a fio that was asked to end may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than any job here may take; one that hangs would hold the device for ever.
const LONGEST: Duration = Duration::from_secs(3600);

/// What a process got.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Got {
    /// The job's name.
    pub(super) name: String,
    /// Bytes a second, of both directions.
    pub(super) rate: f64,
    /// I/Os a second.
    pub(super) iops: f64,
    /// Its mean latency in ns; like the next two, of the direction with more I/Os.
    pub(super) mean: f64,
    /// The median of its latencies in ns.
    pub(super) p50: f64,
    /// The 99th percentile in ns.
    pub(super) p99: f64,
}

/// Children that end with it.
#[derive(Debug, Default)]
struct Children(Vec<(Child, PathBuf)>);

impl Drop for Children {
    fn drop(&mut self) {
        for (child, _) in &self.0 {
            if let Ok(supervised) = paternoster_serve::host::signals::Supervised::of(child) {
                supervised.ask_to_end();
            }
        }
        let begin = Instant::now();
        for (child, _) in &mut self.0 {
            while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < PATIENCE {
                sleep(GLANCE);
            }
            let _gone_already = child.kill();
            let _gone_already = child.wait();
        }
    }
}

/// Runs the parts in `folder`, where their files are written. `enter` is the folder of a part's
/// cgroup. Returns what each clone got, in order of index.
///
/// # Errors
/// The message of a fio that failed, or that a stop was requested.
pub(super) fn run(
    parts: &[(Part, Option<PathBuf>)],
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Vec<Got>, String> {
    let mut children = Children::default();
    for (nth, (part, enter)) in parts.iter().enumerate() {
        let jobs = folder.join(format!("part{nth}.fio"));
        let wrong = |error: std::io::Error| format!("{}: {error}", jobs.display());
        fs::write(&jobs, &part.text).map_err(wrong)?;
        let told = folder.join(format!("part{nth}.json"));
        let _older = fs::remove_file(&told);
        let said = File::create(folder.join(format!("part{nth}.said"))).map_err(wrong)?;
        let mut command = command(enter.as_deref());
        command.arg("--output-format=json").arg(format!("--output={}", told.display())).arg(&jobs);
        command.stdin(Stdio::null()).stdout(said.try_clone().map_err(wrong)?).stderr(said);
        let child = command.current_dir(folder).spawn().map_err(|error| format!("fio: {error}"))?;
        children.0.push((child, told));
    }
    wait(&mut children, stop, folder)?;
    let count = parts.iter().map(|(part, _)| part.clones.len()).sum();
    let mut all = vec![Got::default(); count];
    for ((part, _), (_, told)) in parts.iter().zip(&children.0) {
        let text = fs::read_to_string(told)
            .map_err(|error| format!("fio wrote no results: {}: {error}", told.display()))?;
        let found = results(&text)?;
        if let Some(late) = part.ends.and_then(|ends| later(&text, ends)) {
            return Err(format!(
                "fio ended {late} s or more behind ramp_time and runtime: it counts a process from \
                 the end of its first I/O after the ramp on, and one that got none for so long was \
                 counted when others had gone; give the job no ramp_time, here and there"
            ));
        }
        if found.len() != part.clones.len() {
            let (found, sent) = (found.len(), part.clones.len());
            return Err(format!("fio tells of {found} jobs where {sent} were run"));
        }
        for (&place, got) in part.clones.iter().zip(found) {
            all[place] = got;
        }
    }
    Ok(all)
}

fn command(enter: Option<&Path>) -> Command {
    let Some(cgroup) = enter else { return Command::new("fio") };
    let mut shell = Command::new("sh");
    // The first word after the script is its $0.
    let script = "echo $$ > \"$0/cgroup.procs\" && exec fio \"$@\"";
    shell.args(["-c", script]).arg(cgroup);
    shell
}

fn wait(children: &mut Children, stop: &AtomicBool, folder: &Path) -> Result<(), String> {
    let begin = Instant::now();
    let mut left: Vec<usize> = (0..children.0.len()).collect();
    while !left.is_empty() {
        if stop.load(Ordering::Relaxed) {
            return Err("stopped".to_owned());
        }
        if begin.elapsed() > LONGEST {
            return Err(format!("fio has not ended after {} s", LONGEST.as_secs()));
        }
        let mut ended = Vec::new();
        for &nth in &left {
            let status = children.0[nth].0.try_wait().map_err(|error| format!("fio: {error}"))?;
            match status {
                None => {}
                Some(status) if status.success() => ended.push(nth),
                Some(status) => {
                    let said = folder.join(format!("part{nth}.said"));
                    let said = fs::read_to_string(said).unwrap_or_default();
                    let said: Vec<&str> = said.lines().take(5).collect();
                    return Err(format!("fio ended with {status}: {}", said.join("; ")));
                }
            }
        }
        left.retain(|nth| !ended.contains(nth));
        sleep(GLANCE);
    }
    Ok(())
}

/// How many seconds fio ended after `ends`, at least, if slow last I/Os do not explain it.
fn later(text: &str, ends: Nanos) -> Option<u64> {
    let document = text.find('{').map_or("", |begin| &text[begin..]);
    let document: Value = serde_json::from_str(document).ok()?;
    // Of all jobs together, in whole seconds, rounded up.
    let elapsed = document["jobs"].as_array()?.iter().filter_map(|job| job["elapsed"].as_u64());
    let late = elapsed.max()?.saturating_sub(ends.0.div_ceil(Nanos::from_secs(1).0));
    (late > 1).then(|| late - 1)
}

/// fio's JSON results for each job.
pub(super) fn results(text: &str) -> Result<Vec<Got>, String> {
    let wrong = |what: &str| format!("fio's results are not as expected: {what}");
    // Notes may come before the document.
    let document = text.find('{').map_or("", |begin| &text[begin..]);
    let document: Value =
        serde_json::from_str(document).map_err(|error| wrong(&error.to_string()))?;
    let jobs = document["jobs"].as_array().ok_or_else(|| wrong("there are no `jobs`"))?;
    let of = |job: &Value| {
        let name = job["jobname"].as_str().unwrap_or_default().to_owned();
        let number = |value: &Value, what: &str| {
            value.as_f64().ok_or_else(|| wrong(&format!("{what} of job {name}")))
        };
        if let Some(errno @ 1..) = job["error"].as_u64() {
            return Err(format!("job {name} failed with errno {errno}"));
        }
        let mut got = Got { name: name.clone(), ..Got::default() };
        let mut most = -1.0;
        for way in ["read", "write", "trim"].map(|way| &job[way]) {
            let ios = number(&way["total_ios"], "total_ios")?;
            got.rate += number(&way["bw_bytes"], "bw_bytes")?;
            got.iops += number(&way["iops"], "iops")?;
            if ios > most {
                most = ios;
                got.mean = number(&way["lat_ns"]["mean"], "lat_ns")?;
                let percentile = &way["lat_ns"]["percentile"];
                // A direction without I/O has none.
                got.p50 = percentile["50.000000"].as_f64().unwrap_or(0.0);
                got.p99 = percentile["99.000000"].as_f64().unwrap_or(0.0);
            }
        }
        Ok(got)
    };
    jobs.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, error: u32, ways: [(u32, u32, u32); 3]) -> Value {
        let way = |(ios, bytes, p50): (u32, u32, u32)| {
            serde_json::json!({
                "total_ios": ios, "bw_bytes": bytes, "iops": f64::from(ios) / 2.0,
                "lat_ns": { "mean": f64::from(p50) + 0.5,
                    "percentile": { "50.000000": p50, "99.000000": 2 * p50 } },
            })
        };
        let [read, write, trim] = ways.map(way);
        let (jobname, error) = (name, error);
        serde_json::json!({
            "jobname": jobname, "error": error, "read": read, "write": write, "trim": trim,
        })
    }

    /// Are rates of both directions added, latencies those of the larger one, and notes before the
    /// document skipped?
    #[test]
    fn results_are_read() {
        let document = serde_json::json!({
            "jobs": [job("a", 0, [(10, 4000, 7), (30, 6000, 9), (0, 0, 0)])],
        });
        let found = results(&format!("note: something\n{document:#}")).unwrap();
        let expected = Got {
            name: "a".to_owned(),
            rate: 10_000.0,
            iops: 20.0,
            mean: 9.5,
            p50: 9.0,
            p99: 18.0,
        };
        assert_eq!(found, [expected]);
    }

    /// Is fio's error reported with the job, and are non-results refused?
    #[test]
    fn failures_are_told() {
        let failed = serde_json::json!({ "jobs": [job("b", 5, [(0, 0, 0); 3])] });
        assert_eq!(results(&failed.to_string()).unwrap_err(), "job b failed with errno 5");
        for (text, expected) in
            [("", "EOF"), ("{}", "no `jobs`"), ("{\"jobs\":[{\"error\":0}]}", "total_ios")]
        {
            let wrong = results(text).unwrap_err();
            assert!(wrong.contains(expected), "{text}: {wrong}");
        }
    }

    /// Is a fio detected whose clock began late? Measured: I/Os of 2.5 s after a ramp of 1 s and a
    /// runtime of 4 ended after 7.5 s, `elapsed` 8; I/Os of 0.7 s after 5.6 s, `elapsed` 6.
    #[test]
    fn late_windows_are_found() {
        let told = |elapsed: u64| {
            serde_json::json!({ "jobs": [{ "elapsed": 0 }, { "elapsed": elapsed }] }).to_string()
        };
        assert_eq!(later(&told(8), Nanos::from_secs(5)), Some(2));
        assert_eq!(later(&told(6), Nanos::from_secs(5)), None);
        assert_eq!(later("{}", Nanos::from_secs(5)), None);
    }

    /// Does a fio that is in a cgroup enter it first?
    #[test]
    fn cgroups_are_entered() {
        assert_eq!(command(None).get_program(), "fio");
        let entered = command(Some(Path::new("/sys/fs/cgroup/x")));
        assert_eq!(entered.get_program(), "sh");
        assert_eq!(entered.get_args().last().unwrap(), "/sys/fs/cgroup/x");
    }
}
