// SPDX-License-Identifier: MIT OR Apache-2.0
//! Apply: one option with its value, written into a job.
//!
//! The table of `option.rs` says which options exist; here is what the supported ones do, by
//! subject in the files below; options of one concept are read next to it (`Syncs::set` and
//! others). An option given twice counts as given last. Options that exclude each other (`direct`,
//! `buffered`; `rwmixread`, `rwmixwrite`) undo each other in the same way; but `bs` has no effect
//! together with a `bsrange` or a `bssplit`, before or after it.
//!
//! Source: the rules that the files below name.

mod how;
mod place;
mod tell;
mod what;
mod when;
mod who;

use super::job::Job;
use super::option::{self, FioOption, Status};
use super::value::Reader;

/// Writes `name=value` into `job`; `None` is the bare option.
///
/// # Errors
/// What is wrong with the option or its value, and what would be right.
pub(super) fn apply(
    job: &mut Job,
    kilo: u64,
    name: &str,
    value: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let Some(option) = option::find(name) else {
        return Err(unknown(name));
    };
    match option.status {
        Status::Supported if value.is_none_or(str::is_empty) && option.takes_text() => {
            Err(format!("`{name}` needs a value: {}", option.help))
        }
        Status::Supported => {
            let mut reader = Reader::new(kilo, notes);
            supported(job, option, value, &mut reader)
        }
        Status::Ignored => {
            notes.push(format!("`{name}` is accepted and ignored ({})", option.help));
            Ok(())
        }
        Status::NotYet { hint } => {
            Err(format!("`{name}` is known to fio but not supported yet ({}): {hint}", option.help))
        }
        Status::Refused => Err(format!(
            "`{name}` is for {}, which a simulator of local disks does not have",
            option.help
        )),
    }
}

/// The sentence about an unknown option.
fn unknown(name: &str) -> String {
    match option::nearest(name) {
        Some(near) => format!("unknown option `{name}`; did you mean `{near}`?"),
        None => format!("unknown option `{name}`: fio 3.33 has none like it; leave it out"),
    }
}

fn supported(
    job: &mut Job,
    option: &FioOption,
    value: Option<&str>,
    read: &mut Reader<'_>,
) -> Result<(), String> {
    let name = option.name;
    let text = value.unwrap_or("1");
    let known = what::what(job, name, text, read)?
        || place::place(job, name, text, read)?
        || how::how(job, name, text, read)?
        || when::when(job, name, text, read)?
        || who::who(job, name, text, read)?
        || tell::tell(job, name, value, read)?;
    if known { Ok(()) } else { Err(format!("`{name}` has no reader")) }
}

#[cfg(test)]
mod tests {
    use paternoster_core::Nanos;

    use super::super::ending::ExitWhat;
    use super::super::job::{Kind, Pattern};
    use super::super::option::OPTIONS;
    use super::*;

    fn job(options: &[(&str, &str)]) -> Job {
        let mut job = Job::default();
        for (name, value) in options {
            apply(&mut job, 1024, name, Some(value), &mut Vec::new()).unwrap();
        }
        job
    }

    fn error(name: &str, value: &str) -> String {
        apply(&mut Job::default(), 1024, name, Some(value), &mut Vec::new()).unwrap_err()
    }

    /// Has every supported option a reader?
    #[test]
    fn supported_options_are_read() {
        for option in OPTIONS.iter().filter(|option| option.status == Status::Supported) {
            let result = apply(&mut Job::default(), 1024, option.name, Some("1"), &mut Vec::new());
            assert!(!result.is_err_and(|message| message.contains("no reader")), "{}", option.name);
        }
    }

    /// Do patterns and their suffixes read as FIO-30 to FIO-32 say?
    #[test]
    fn patterns() {
        let rw = job(&[("rw", "randread:8")]).order.rw;
        assert_eq!(rw, Pattern { random: true, kind: Kind::ReadOnly, skip: 8 });
        assert_eq!(job(&[("rw", "read:-8k")]).order.rw.skip, -8192);
        assert_eq!(job(&[("rw", "readwrite")]).order.rw_text, "rw");
        assert_eq!(job(&[("rw", "randrw")]).order.rw.skip, 1);
        assert!(error("rw", "randread:0").contains("from 1"));
    }

    /// Are splits shared out, sorted and checked? 4k/60:16k/40 for reads; 8k alone has no share.
    #[test]
    fn splits_are_sorted_by_share() {
        let split = job(&[("bssplit", "4k/60:16k/40,8k")]);
        assert_eq!(split.blocks.bssplit[0], [(16_384, 40), (4096, 60)]);
        assert_eq!(split.blocks.bssplit[1], [(8192, 0)]);
        assert_eq!(split.blocks.block_size, [(4096, 16_384), (8192, 8192), (8192, 8192)]);
        // 70 % are left for two sizes: 35 each.
        let blank = job(&[("bssplit", "4k/30:8k:16k/")]);
        assert_eq!(blank.blocks.bssplit[0], [(4096, 30), (8192, 35), (16_384, 35)]);
        // A share of 0 is a blank one.
        let none = job(&[("bssplit", "4k/0:8k/:16k/40")]);
        assert_eq!(none.blocks.bssplit[0], [(4096, 30), (8192, 30), (16_384, 40)]);
        assert!(error("bssplit", "4k/60:8k/41").contains("101 %"));
        // A `bs` after it changes nothing, as in fio, except for a direction that it leaves out.
        let both = job(&[("bssplit", "4k/30:8k,"), ("bs", "2k")]);
        assert_eq!(
            (both.blocks.block_size[0], both.blocks.block_size[1]),
            ((4096, 8192), (2048, 2048))
        );
        assert_eq!(both.blocks.bssplit[0], [(4096, 30), (8192, 70)]);
        let range = job(&[("bsrange", "4k-8k"), ("bs", "2k")]);
        assert_eq!(range.blocks.block_size, [(4096, 8192); 3]);
    }

    /// Does the option given last win where two say the same thing?
    #[test]
    fn last_option_wins() {
        assert_eq!(job(&[("rwmixread", "70"), ("rwmixwrite", "20")]).order.rwmixread, 80);
        assert_eq!(job(&[("direct", "1"), ("buffered", "1")]).cache.direct, Some(false));
        assert_eq!(job(&[]).cache.direct, None);
        assert_eq!(job(&[("rate", "1k,")]).pacing.rate, [Some(1024), None, None]);
        assert_eq!(job(&[("rate", "1k,2k")]).pacing.rate, [Some(1024), Some(2048), Some(2048)]);
    }

    /// Do options that are refused say what they are and what to do instead?
    #[test]
    fn refusals_are_helpful() {
        assert_eq!(
            error("merge_blktrace_file", "x"),
            "`merge_blktrace_file` is known to fio but not supported yet (merge traces): \
             it comes with traces; merge them with blkparse"
        );
        assert!(error("ioengine", "rbd").contains("local disk"));
        assert!(error("ioengine", "filestat").contains("out of scope"));
        assert!(error("hostname", "x").contains("network"));
        assert_eq!(error("prio", "8"), "8 is out of range: it must be from 0 to 7");
        let mut notes = Vec::new();
        apply(&mut Job::default(), 1024, "thread", None, &mut notes).unwrap();
        assert_eq!(notes, ["`thread` is accepted and ignored (threads instead of processes)"]);
    }

    /// Do options of every concept reach their fields?
    #[test]
    fn concepts_are_reached() {
        let job = job(&[
            ("fsync", "16"),
            ("random_distribution", "zipf:1.2"),
            ("zonesize", "16k"),
            ("rate_process", "poisson"),
            ("flow", "3"),
            ("latency_target", "5ms"),
            ("max_latency", "1s,"),
            ("cmdprio_percentage", "20"),
            ("verify", "md5"),
            ("replay_scale", "2"),
            ("exit_what", "all"),
            ("cpuload", "85"),
            ("write_lat_log", "p"),
            ("thinktime_iotime", "9s"),
            ("status-interval", "5"),
        ]);
        assert_eq!(job.syncs.fsync_every, 16);
        assert!(!job.random.random_distribution.is_uniform());
        assert_eq!(
            (job.region.strides.size, job.pacing.flow.weight, job.replay.scale),
            (16_384, 3, 2)
        );
        assert!(
            job.pacing.rates.poisson
                && job.verify.enabled
                && job.priority.command_priority.is_used()
        );
        assert_eq!(job.pacing.latency_goal.target, Nanos::from_millis(5));
        assert_eq!(job.pacing.max_latency, [Some(Nanos::from_secs(1)), None, None]);
        assert_eq!(job.clones.ending.what, ExitWhat::All);
        assert_eq!(
            (job.queue.cpu_load.percent, job.report.logs.latency.as_deref()),
            (85, Some("p"))
        );
        assert_eq!(job.think.think_io_time, Nanos::from_secs(9));
        assert_eq!(job.report.status_interval, Some(Nanos::from_secs(5)));
        let mut bare = Job::default();
        apply(&mut bare, 1024, "write_bw_log", None, &mut Vec::new()).unwrap();
        assert_eq!(bare.report.logs.bandwidth.as_deref(), Some(""));
    }
}
