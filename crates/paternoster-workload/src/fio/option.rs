// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options: every option of a job file that we know by name, and what becomes of it.
//!
//! A published job file should run here, or fail with a sentence that says why. So the table holds
//! not only what we do but all of fio's local-disk vocabulary:
//!
//! | status | a job file that uses it |
//! |---|---|
//! | supported | works |
//! | ignored | works; a note says that the option has no meaning in a simulation |
//! | not yet | is refused, unless the value asks for what happens anyway (`zonemode=none`) |
//! | refused | is refused for good |
//! | none: unknown | is refused, with the nearest known name |
//!
//! Invariant: names and aliases are unique, and every supported option has a reader in `apply.rs`.
//!
//! Source: spec `fio.md` sections 1 (aliases), 2 (which subset) and 3.

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It works.
    Supported,
    /// Accepted with a note: it has no meaning in a simulation.
    Ignored,
    /// Known to fio, not supported yet.
    NotYet {
        /// Values that ask for what happens anyway; they are accepted.
        harmless: &'static [&'static str],
        /// What to do instead, or what is missing.
        hint: &'static str,
    },
    /// Known to fio, and not for a simulator of local disks.
    Refused,
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct FioOption {
    /// The name that reports use.
    pub name: &'static str,
    /// Other names of the same option.
    pub aliases: &'static [&'static str],
    /// What becomes of it.
    pub status: Status,
    /// A line of help.
    pub help: &'static str,
}

const fn yes(name: &'static str, help: &'static str) -> FioOption {
    FioOption { name, aliases: &[], status: Status::Supported, help }
}

const fn also(aliases: &'static [&'static str], mut option: FioOption) -> FioOption {
    option.aliases = aliases;
    option
}

const fn no(name: &'static str, help: &'static str) -> FioOption {
    FioOption { name, aliases: &[], status: Status::Ignored, help }
}

const fn later(
    name: &'static str,
    harmless: &'static [&'static str],
    hint: &'static str,
    help: &'static str,
) -> FioOption {
    FioOption { name, aliases: &[], status: Status::NotYet { harmless, hint }, help }
}

const fn never(name: &'static str, help: &'static str) -> FioOption {
    FioOption { name, aliases: &[], status: Status::Refused, help }
}

const OFF: &[&str] = &["0"];
const OFF_OR_NONE: &[&str] = &["0", "none"];
const VERIFY: &str = "there are no data to verify; leave the option out";
const LOGS: &str = "leave the option out and use the report";
const ITERATION: &str = "give the I/O as rw, bs and offset instead of a log";
const ZONES: &str = "only zonemode=none works; use offset and size";
const TARGET: &str = "give a fixed iodepth instead";
const CLASSES: &str = "give prio and prioclass for the whole job instead";
const ENDING: &str = "give each job a runtime instead";
const RATES: &str = "use rate or rate_iops";
const BATCHES: &str = "I/Os go and come one by one here; leave it at 1";
const FILES: &str = "give the files as several jobs instead";
const CACHE: &str = "the page cache comes later; use direct=1";

/// All options, by subject.
pub static OPTIONS: &[FioOption] = &[
    // What is done.
    yes("name", "new name of the job"),
    yes("description", "free text, repeated in reports"),
    also(
        &["readwrite"],
        yes("rw", "read, write, trim, their rand forms, rw, randrw, trimwrite; [:N]"),
    ),
    yes("rwmixread", "reads in hundredths of a mixed job"),
    yes("rwmixwrite", "writes in hundredths of a mixed job"),
    yes("rw_sequencer", "what randread:N does between random offsets: sequential or identical"),
    yes("percentage_random", "how many hundredths of a random job are random"),
    also(&["blocksize"], yes("bs", "block size: one, or reads,writes,trims")),
    also(&["blocksize_range"], yes("bsrange", "block sizes from lo-hi[,lo-hi[,lo-hi]]")),
    yes("bssplit", "block sizes with shares: size/percent:size/percent[,writes[,trims]]"),
    also(&["blocksize_unaligned"], yes("bs_unaligned", "block sizes of any number of bytes")),
    also(&["blockalign"], yes("ba", "alignment of random offsets; turns the random map off")),
    yes("bs_is_seq_rand", "first block size for sequential, second for random I/O"),
    yes("norandommap", "random offsets may repeat before all blocks are used"),
    yes("random_generator", "tausworthe; tausworthe64 and lfsr come later"),
    yes("randseed", "seed of all generators"),
    yes("randrepeat", "same offsets on every run"),
    yes("allrandrepeat", "same everything on every run"),
    yes("kb_base", "1024, or 1000 to count k as 1000"),
    // Where.
    yes("filename", "files or devices, a:b:c"),
    yes("directory", "where files without a path are"),
    yes("filename_format", "name of files: $jobname.$jobnum.$filenum"),
    yes("size", "region of each job, in bytes or percent"),
    also(&["io_limit"], yes("io_size", "amount of I/O, if different from size")),
    yes("offset", "start of the region, in bytes or percent"),
    yes("offset_increment", "added to offset for each further clone"),
    also(&["file_size"], yes("filesize", "size of a file")),
    also(&["nr_files"], later("nrfiles", &["1"], FILES, "number of files of a job")),
    later("file_service_type", &["roundrobin"], FILES, "which file is next"),
    later("offset_align", OFF, "give an aligned offset", "alignment of offsets in percent"),
    later(
        "random_distribution",
        &["random"],
        "only the uniform one works",
        "how offsets are drawn",
    ),
    later("zonemode", &["none"], ZONES, "none, strided or zbd"),
    later("zonesize", OFF, ZONES, "bytes of I/O in a zone"),
    later("zoneskip", OFF, ZONES, "bytes left out between zones"),
    later("zonerange", OFF, ZONES, "size of a zone"),
    later("zonecapacity", OFF, ZONES, "writable part of a zone"),
    later("max_open_zones", OFF, ZONES, "zones written at one time"),
    later("job_max_open_zones", OFF, ZONES, "zones written at one time by a job"),
    later("ignore_zone_limits", OFF, ZONES, "do not respect the device's limit of open zones"),
    later("zone_reset_threshold", OFF, ZONES, "when zones are reset"),
    later("zone_reset_frequency", OFF, ZONES, "how often zones are reset"),
    no("read_beyond_wp", "read zones beyond the write pointer"),
    // How.
    yes("direct", "bypass the page cache"),
    yes("buffered", "opposite of direct"),
    yes("ioengine", "sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio, null"),
    yes("iodepth", "I/Os in flight, with an asynchronous engine"),
    yes("iodepth_low", "how far the depth falls before it is filled again"),
    also(
        &["iodepth_batch"],
        later("iodepth_batch_submit", &["1"], BATCHES, "I/Os submitted together; 0 is iodepth"),
    ),
    also(
        &["iodepth_batch_complete"],
        later("iodepth_batch_complete_min", &["1"], BATCHES, "completions waited for; 0 polls"),
    ),
    later("iodepth_batch_complete_max", &["1"], BATCHES, "completions taken at most"),
    later("io_submit_mode", &["inline"], RATES, "inline, or offload for an open loop"),
    later("serialize_overlap", OFF, "use iodepth=1", "no two I/Os in flight on the same bytes"),
    yes("sync", "O_SYNC or O_DSYNC for writes"),
    yes("fsync", "fsync after so many writes"),
    yes("fdatasync", "fdatasync after so many writes"),
    yes("end_fsync", "fsync at the end of the job"),
    yes("fsync_on_close", "fsync when a file is closed"),
    yes("sync_file_range", "flush ranges after so many writes"),
    yes("write_barrier", "every so many writes one is a barrier"),
    later("pre_read", OFF, CACHE, "read the files into the cache before the job"),
    // When.
    yes("numjobs", "clones of the job"),
    also(&["wait_for_previous"], yes("stonewall", "start after all earlier jobs have ended")),
    yes("new_group", "begin a new reporting group"),
    yes("group_reporting", "report the clones as one"),
    later("wait_for", &[], "use stonewall", "start after the named job has ended"),
    also(&["start_delay"], yes("startdelay", "start so much later, or within lo-hi")),
    also(&["timeout"], yes("runtime", "stop after so long")),
    yes("time_based", "start again at the end of the region until runtime is over"),
    yes("ramp_time", "run so long before anything is counted"),
    yes("loops", "repeat the job so often"),
    yes("number_ios", "stop after so many I/Os"),
    later("exitall", OFF, ENDING, "the first job that ends stops all"),
    later("exit_what", &[], ENDING, "what exitall stops"),
    later("exitall_on_error", OFF, ENDING, "an error stops all jobs"),
    later("exec_on_max_latency", &[], ENDING, "run a program"),
    yes("thinktime", "sleep after an I/O, in microseconds"),
    yes("thinktime_spin", "part of the thinktime that burns CPU"),
    yes("thinktime_blocks", "I/Os between two thinktimes"),
    later(
        "thinktime_blocks_type",
        &["complete"],
        "thinking counts completions",
        "complete or issue",
    ),
    later("thinktime_iotime", OFF, "use thinktime_blocks", "time of I/O between two thinktimes"),
    yes("rate", "limit in bytes per second, reads,writes,trims"),
    yes("rate_iops", "limit in I/Os per second, reads,writes,trims"),
    also(&["ratemin"], later("rate_min", OFF, RATES, "fail below so many bytes per second")),
    later("rate_iops_min", OFF, RATES, "fail below so many I/Os per second"),
    later("rate_process", &["linear"], RATES, "linear or poisson"),
    later("rate_ignore_thinktime", OFF, RATES, "thinktime does not count against the rate"),
    no("rate_cycle", "window of rate_min"),
    later("flow", OFF, RATES, "weight in a shared flow"),
    later("flow_id", OFF, RATES, "which flow"),
    later("flow_watermark", &[], RATES, "tokens of a flow"),
    later("flow_sleep", &[], RATES, "pause of a job whose flow is ahead"),
    later("latency_target", OFF, TARGET, "find the depth that keeps this latency"),
    later("latency_window", OFF, TARGET, "how long a depth is tried"),
    later("latency_percentile", &["100"], TARGET, "share of I/Os within the target"),
    later("latency_run", OFF, TARGET, "go on after the depth is found"),
    later("max_latency", OFF, TARGET, "fail when an I/O takes longer"),
    // As whom.
    yes("prio", "I/O priority, 0 (first) to 7"),
    yes("prioclass", "I/O class: 0 none, 1 real time, 2 best effort, 3 idle"),
    yes("nice", "CPU priority, -20 to 19; gives the I/O priority (nice+20)/5 if there is no prio"),
    yes("cgroup", "control group of the job"),
    yes("cgroup_weight", "weight of that group, 100 to 1000"),
    later("cmdprio_percentage", OFF, CLASSES, "share of I/Os with another priority"),
    later("cmdprio_class", &[], CLASSES, "their class"),
    later("cmdprio", &[], CLASSES, "their level"),
    later("cmdprio_hint", &[], CLASSES, "their hint"),
    later("cmdprio_bssplit", &[], CLASSES, "their share by block size"),
    later("priohint", OFF, CLASSES, "hint of the whole job"),
    // What is reported.
    yes("bwavgtime", "window of the bandwidth samples, in milliseconds"),
    yes("percentile_list", "percentiles of the report, a:b:c"),
    later("status-interval", OFF, LOGS, "report so often"),
    later("write_bw_log", &[], LOGS, "log of bandwidth"),
    later("write_lat_log", &[], LOGS, "log of latency"),
    later("write_iops_log", &[], LOGS, "log of I/Os per second"),
    later("write_hist_log", &[], LOGS, "log of latency histograms"),
    later("log_avg_msec", OFF, LOGS, "average logs over so long"),
    later("log_hist_msec", OFF, LOGS, "histograms over so long"),
    later("log_max_value", OFF, LOGS, "log the largest value"),
    later("log_offset", OFF, LOGS, "log offsets"),
    later("log_prio", OFF, LOGS, "log priorities"),
    later("per_job_logs", &["0", "1"], LOGS, "one log per job"),
    later("unified_rw_reporting", OFF_OR_NONE, LOGS, "report all directions as one"),
    no("iopsavgtime", "window of the I/O samples"),
    no("clat_percentiles", "report percentiles of completion latency"),
    no("lat_percentiles", "report percentiles of total latency"),
    no("slat_percentiles", "report percentiles of submission latency"),
    no("significant_figures", "digits of the report"),
    no("stats", "report this job"),
    no("log_compression", "compression of logs"),
    no("log_store_compressed", "compressed logs"),
    no("log_unix_epoch", "time of logs"),
    no("log_entries", "first size of logs"),
    // Data.
    later("verify", OFF_OR_NONE, VERIFY, "check the data that were written"),
    later("do_verify", OFF, VERIFY, "run the verify phase"),
    later("verify_backlog", OFF, VERIFY, "verify after so many writes"),
    later("verify_backlog_batch", OFF, VERIFY, "I/Os of a backlog"),
    later("verify_only", OFF, VERIFY, "only verify"),
    later("verifysort", &["0", "1"], VERIFY, "verify in order of offsets"),
    later("verify_pattern", &[], VERIFY, "data to be written"),
    later("verify_interval", &[], VERIFY, "bytes between headers"),
    later("verify_offset", &[], VERIFY, "where the header is"),
    later("verify_fatal", OFF, VERIFY, "stop at the first error"),
    later("verify_dump", OFF, VERIFY, "save wrong blocks"),
    later("verify_async", OFF, VERIFY, "threads that verify"),
    later("verify_async_cpus", &[], VERIFY, "their CPUs"),
    later("verify_state_save", &["0", "1"], VERIFY, "save the state at the end"),
    later("verify_state_load", OFF, VERIFY, "load a state"),
    later("trim_percentage", OFF, VERIFY, "share of verified blocks trimmed"),
    later("trim_verify_zero", OFF, VERIFY, "trimmed blocks must be zero"),
    later("trim_backlog", OFF, VERIFY, "trim after so many writes"),
    later("trim_backlog_batch", OFF, VERIFY, "trims of a backlog"),
    later("experimental_verify", OFF, VERIFY, "verify by replaying the generators"),
    // Replay.
    later("read_iolog", &[], ITERATION, "replay a log or a trace"),
    later("write_iolog", &[], ITERATION, "record what is done"),
    later("replay_no_stall", OFF, ITERATION, "replay without pauses"),
    later("replay_redirect", &[], ITERATION, "replay on another device"),
    later("replay_align", OFF, ITERATION, "align replayed offsets"),
    later("replay_scale", &["1"], ITERATION, "divide replayed offsets"),
    later("replay_time_scale", &["100"], ITERATION, "speed of the replay"),
    later("replay_skip", &[], ITERATION, "directions not replayed"),
    later("merge_blktrace_file", &[], ITERATION, "merge traces"),
    later("merge_blktrace_scalars", &[], ITERATION, "speeds of merged traces"),
    later("merge_blktrace_iters", &[], ITERATION, "repetitions of merged traces"),
    later("read_iolog_chunked", OFF, ITERATION, "read the log in parts"),
    // The CPU.
    later("cpuload", &[], "use thinktime_spin", "share of the CPU that is burned"),
    later("cpuchunks", &[], "use thinktime_spin", "how it is cut"),
    later("cpumode", &[], "use thinktime_spin", "how it is burned"),
    later("exit_on_io_done", OFF, ENDING, "the CPU job ends with the last I/O job"),
    // Of no meaning here.
    no("thread", "threads instead of processes"),
    yes("invalidate", "drop cached pages before the job"),
    also(&["iomem"], no("mem", "where buffers are")),
    also(&["mem_align"], no("iomem_align", "alignment of buffers")),
    no("lockmem", "memory locked"),
    no("hugepage-size", "size of huge pages"),
    no("cpus_allowed", "CPUs of the job"),
    no("cpus_allowed_policy", "how CPUs are shared"),
    no("cpumask", "CPUs of the job, as a mask"),
    no("numa_cpu_nodes", "CPU nodes"),
    no("numa_mem_policy", "memory nodes"),
    no("scramble_buffers", "vary the data a little"),
    no("refill_buffers", "new data for each write"),
    no("zero_buffers", "write zeros"),
    no("buffer_pattern", "write a pattern"),
    no("buffer_compress_percentage", "how compressible the data are"),
    no("buffer_compress_chunk", "how they are compressible"),
    no("dedupe_percentage", "how many blocks are equal"),
    no("dedupe_mode", "which blocks are equal"),
    no("dedupe_working_set_percentage", "of which blocks they are copies"),
    no("dedupe_global", "equal across jobs"),
    no("fallocate", "how files are laid out"),
    no("fill_device", "write until the device is full"),
    no("fadvise_hint", "advice for the page cache"),
    no("write_hint", "life time of written data"),
    no("create_serialize", "lay out files one after another"),
    no("create_fsync", "sync laid out files"),
    no("create_on_open", "lay out files late"),
    no("create_only", "only lay out files"),
    no("allow_file_create", "may files be created"),
    no("allow_mounted_write", "may mounted devices be written"),
    no("unlink", "remove files at the end"),
    no("unlink_each_loop", "remove files after each loop"),
    no("overwrite", "lay out files before writing"),
    no("file_append", "write at the end of the file"),
    no("openfiles", "files open at one time"),
    no("lockfile", "lock of files"),
    no("opendir", "add the files of a directory"),
    no("unique_filename", "names of network clients' files"),
    also(&["gtod_cpu"], no("clocksource_cpu", "CPU that reads the clock")),
    no("gtod_reduce", "read the clock less often"),
    no("clocksource", "which clock"),
    no("disable_lat", "do not measure total latency"),
    no("disable_clat", "do not measure completion latency"),
    no("disable_slat", "do not measure submission latency"),
    also(&["disable_bw"], no("disable_bw_measurement", "do not measure bandwidth")),
    no("exec_prerun", "program run before"),
    no("exec_postrun", "program run after"),
    no("uid", "user"),
    no("gid", "group"),
    no("cgroup_nodelete", "keep the control group"),
    also(&["ss"], no("steadystate", "end when figures are steady")),
    also(&["ss_dur"], no("steadystate_duration", "window of the steady state")),
    also(&["ss_ramp"], no("steadystate_ramp_time", "time before the steady state")),
    no("ss_interval", "interval of the steady state"),
    no("registerfiles", "register files with io_uring"),
    no("fixedbufs", "register buffers with io_uring"),
    no("nonvectored", "plain reads and writes with io_uring"),
    no("force_async", "how io_uring issues"),
    no("uncached", "uncached buffered I/O"),
    no("nowait", "do not wait for resources"),
    no("sqthread_poll", "kernel thread polls the submission queue"),
    no("sqthread_poll_cpu", "its CPU"),
    no("hipri", "poll for completions"),
    no("hipri_percentage", "share of polled I/Os"),
    no("userspace_reap", "take completions without a system call"),
    no("ignore_error", "errors that do not end the job"),
    no("error_dump", "print errors"),
    no("continue_on_error", "do not end at errors"),
    no("unit_base", "bits or bytes in reports"),
    no("idle-prof", "profile of idle CPUs"),
    no("profile", "a built-in workload"),
    no("ioscheduler", "scheduler of the device; here it is chosen with --scheduler"),
    no("softrandommap", "go on without a map if memory is short"),
    // Not for local disks.
    never("hostname", "network engines"),
    never("port", "network engines"),
    never("protocol", "network engines"),
    never("listen", "network engines"),
    never("clustername", "object stores"),
    never("rbdname", "object stores"),
    never("pool", "object stores"),
    never("namenode", "object stores"),
    never("client", "client and server"),
    never("server", "client and server"),
];

/// The option called `name`, by its name or an alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static FioOption> {
    OPTIONS.iter().find(|option| option.name == name || option.aliases.contains(&name))
}

/// The known name nearest to `wrong`, if it is near: a third of its letters may differ.
#[must_use]
pub fn nearest(wrong: &str) -> Option<&'static str> {
    let letters: Vec<char> = wrong.chars().take(64).collect();
    let names = OPTIONS.iter().flat_map(|o| core::iter::once(&o.name).chain(o.aliases));
    let (distance, name) = names.map(|name| (edit_distance(&letters, name), *name)).min()?;
    (distance <= (letters.len() / 3).max(1)).then_some(name)
}

/// How many letters must be inserted, removed or replaced to make `left` into `right`.
fn edit_distance(left: &[char], right: &str) -> usize {
    // One row of Levenshtein's table: the distance of the prefix so far to each prefix of `left`.
    let mut row: Vec<usize> = (0..=left.len()).collect();
    for (below, letter) in right.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = below + 1;
        for (index, other) in left.iter().enumerate() {
            let replaced = diagonal + usize::from(*other != letter);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[left.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is every name there once, with help?
    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = OPTIONS
            .iter()
            .flat_map(|option| core::iter::once(option.name).chain(option.aliases.iter().copied()))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(OPTIONS.iter().all(|option| !option.help.is_empty()));
    }

    /// Are the aliases of spec 1 known?
    #[test]
    fn aliases_lead_to_their_option() {
        for (alias, name) in [
            ("readwrite", "rw"),
            ("blocksize", "bs"),
            ("blocksize_range", "bsrange"),
            ("blockalign", "ba"),
            ("io_limit", "io_size"),
            ("start_delay", "startdelay"),
            ("timeout", "runtime"),
            ("file_size", "filesize"),
            ("iodepth_batch", "iodepth_batch_submit"),
            ("iodepth_batch_complete", "iodepth_batch_complete_min"),
            ("nr_files", "nrfiles"),
            ("ratemin", "rate_min"),
            ("wait_for_previous", "stonewall"),
        ] {
            assert_eq!(find(alias).unwrap().name, name);
        }
    }

    /// Is a slip of the pen recognised, and nonsense not?
    #[test]
    fn nearest_names() {
        assert_eq!(nearest("iodeph"), Some("iodepth"));
        assert_eq!(nearest("blocksise"), Some("blocksize"));
        assert_eq!(nearest("xyzzyxyzzy"), None);
        let letters: Vec<char> = "kitten".chars().collect();
        assert_eq!(edit_distance(&letters, "sitting"), 3);
    }
}
