// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options: every option of a job file that we know by name, and what we do with it.
//!
//! A published job file should run here, or fail with a sentence that says why. So the table holds
//! not only what we support but all of fio's local-disk vocabulary:
//!
//! | status | a job file that uses it |
//! |---|---|
//! | supported | works; what a run cannot do yet is refused by `unwired.rs` |
//! | ignored | works; a note says that the option has no meaning in a simulation |
//! | not yet | is refused |
//! | refused | is refused for good |
//! | none: unknown | is refused, with the nearest known name |
//!
//! A few options are ours, because fio has nothing like them; it refuses a job that has one, and a
//! note says so.
//!
//! Invariant: names and aliases are unique, and every supported option has a reader in `apply.rs`.
//!
//! Source: FIO-10 (other names), FIO-11; the rules of each option are named in its own file.

use paternoster_core::near;

/// How far an option is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The option works as in fio.
    Supported,
    /// Accepted with a note: it has no meaning in a simulation.
    Ignored,
    /// Known to fio, not supported yet.
    NotYet {
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
    /// How far it is supported.
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

const fn later(name: &'static str, hint: &'static str, help: &'static str) -> FioOption {
    FioOption { name, aliases: &[], status: Status::NotYet { hint }, help }
}

const fn never(name: &'static str, help: &'static str) -> FioOption {
    FioOption { name, aliases: &[], status: Status::Refused, help }
}

const TRACES: &str = "it comes with traces; merge them with blkparse";

/// All options, by subject.
pub static OPTIONS: &[FioOption] = &[
    // The workload.
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
    yes("random_generator", "tausworthe, tausworthe64 or lfsr"),
    yes("random_distribution", "random, zipf:theta, pareto:h, normal:dev, zoned:…, zoned_abs:…"),
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
    yes("offset_increment", "added to offset for each further clone, in bytes or percent"),
    yes("offset_align", "what an offset in percent is rounded up to a multiple of"),
    yes("filesize", "size of each file, or a range lo-hi of sizes"),
    also(&["nr_files"], yes("nrfiles", "number of files of a job")),
    yes("openfiles", "how many files are served by turns at one time"),
    yes("file_service_type", "which file is next: roundrobin[:n], sequential, random, zipf…"),
    yes("zonemode", "none, strided or zbd"),
    yes("zonesize", "bytes of I/O in a zone"),
    yes("zoneskip", "bytes left out between zones"),
    yes("zonerange", "size of a zone"),
    no("zonecapacity", "writable part of a zone, for zonemode=zbd"),
    no("max_open_zones", "zones written at one time, for zonemode=zbd"),
    no("job_max_open_zones", "zones written at one time by a job, for zonemode=zbd"),
    no("ignore_zone_limits", "the device's limit of open zones, for zonemode=zbd"),
    no("zone_reset_threshold", "when zones are reset, for zonemode=zbd"),
    no("zone_reset_frequency", "how often zones are reset, for zonemode=zbd"),
    no("read_beyond_wp", "read zones beyond the write pointer, for zonemode=zbd"),
    // How.
    yes("direct", "bypass the page cache"),
    yes("buffered", "opposite of direct"),
    yes("ioengine", "sync, psync, vsync, pvsync, pvsync2, mmap, splice, libaio, io_uring, …"),
    yes("iodepth", "I/Os in flight, with an asynchronous engine"),
    yes("iodepth_low", "how far the depth falls before it is filled again"),
    also(&["iodepth_batch"], yes("iodepth_batch_submit", "I/Os submitted together; 0 is iodepth")),
    also(
        &["iodepth_batch_complete"],
        yes("iodepth_batch_complete_min", "completions waited for; 0 polls"),
    ),
    yes("iodepth_batch_complete_max", "completions taken at most"),
    yes("io_submit_mode", "inline, or offload for an open loop"),
    yes("serialize_overlap", "no two I/Os in flight on the same bytes"),
    yes("sync", "O_SYNC or O_DSYNC for writes: none, sync or dsync"),
    yes("fsync", "fsync after so many writes"),
    yes("fdatasync", "fdatasync after so many writes"),
    yes("end_fsync", "fsync at the end of the job"),
    yes("fsync_on_close", "fsync when a file is closed"),
    yes("sync_file_range", "flush ranges after so many writes: wait_before,write,wait_after:N"),
    yes("write_barrier", "every so many writes one is a barrier"),
    yes("pre_read", "read the files into the cache before the job"),
    yes("invalidate", "drop cached pages before the job"),
    yes("overwrite", "files have their blocks before they are written"),
    // When.
    yes("numjobs", "clones of the job"),
    also(&["wait_for_previous"], yes("stonewall", "start after all earlier jobs have ended")),
    yes("new_group", "begin a new reporting group"),
    yes("group_reporting", "report the clones as one"),
    yes("wait_for", "start after the named job has ended"),
    also(&["start_delay"], yes("startdelay", "start so much later, or within lo-hi")),
    also(&["timeout"], yes("runtime", "stop after so long")),
    yes("time_based", "start again at the end of the region until runtime is over"),
    yes("ramp_time", "run so long before anything is counted"),
    yes("loops", "repeat the job so often"),
    yes("number_ios", "stop after so many I/Os"),
    yes("exitall", "the first job that ends stops others"),
    yes("exit_what", "what exitall stops: group, stonewall or all"),
    yes("exitall_on_error", "an error stops all jobs"),
    yes("thinktime", "sleep after an I/O, in microseconds"),
    yes("thinktime_spin", "part of the thinktime that burns CPU"),
    yes("thinktime_blocks", "I/Os between two thinktimes"),
    yes("thinktime_blocks_type", "what thinktime_blocks counts: complete or issue"),
    yes("thinktime_iotime", "time of I/O between two thinktimes"),
    yes("rate", "limit in bytes per second, reads,writes,trims"),
    yes("rate_iops", "limit in I/Os per second, reads,writes,trims"),
    also(&["ratemin"], yes("rate_min", "fail below so many bytes per second")),
    yes("rate_iops_min", "fail below so many I/Os per second"),
    yes("rate_process", "linear or poisson"),
    yes("rate_ignore_thinktime", "a thinktime is not caught up with"),
    also(&["ratecycle"], yes("rate_cycle", "window of rate_min, in milliseconds")),
    yes("flow", "weight in a shared flow"),
    yes("flow_id", "which flow"),
    yes("flow_sleep", "pause of a job whose flow is ahead, in microseconds"),
    yes("latency_target", "find the depth that keeps this latency"),
    yes("latency_window", "how long a depth is tried"),
    yes("latency_percentile", "share of I/Os within the target"),
    yes("latency_run", "go on after the depth is found"),
    yes("max_latency", "fail when an I/O takes longer, reads,writes,trims"),
    // When, and ours: fio has none of these.
    yes("frame_period", "makes the job a player: a frame in each period, late if it takes longer"),
    yes("frame_size", "bytes of a frame; one I/O unless given"),
    yes(
        "frame_deadline",
        "how long a frame may take, from when it is due; the period unless given",
    ),
    yes("frame_preroll", "frames read before the first is due, which cannot be late"),
    yes("change", "at a time: another cgroup_weight, prioclass, prio, rate, rate_iops"),
    // Priorities and groups.
    yes("prio", "I/O priority, 0 (first) to 7"),
    yes("prioclass", "I/O class: 0 none, 1 real time, 2 best effort, 3 idle"),
    yes("nice", "CPU priority, -20 to 19; gives the I/O priority (nice+20)/5 if there is no prio"),
    yes("cgroup", "control group of the job"),
    yes("cgroup_weight", "weight of that group, 100 to 1000"),
    yes("cmdprio_percentage", "share of I/Os with another priority, reads,writes"),
    yes("cmdprio_class", "their class, reads,writes"),
    yes("cmdprio", "their level, reads,writes"),
    yes("cmdprio_bssplit", "their share by block size: size/percent[/class/level]:…"),
    // Reports.
    yes("bwavgtime", "window of the bandwidth samples, in milliseconds"),
    yes("percentile_list", "percentiles of the report, a:b:c"),
    yes("status-interval", "report so often"),
    yes("write_bw_log", "log of bandwidth"),
    yes("write_lat_log", "log of latency"),
    yes("write_iops_log", "log of I/Os per second"),
    yes("write_hist_log", "log of latency histograms"),
    yes("log_avg_msec", "average logs over so long"),
    yes("log_hist_msec", "histograms over so long"),
    yes("log_hist_coarseness", "how often the bins of a histogram are halved, 0 to 6"),
    yes("log_max_value", "log the largest value"),
    yes("log_offset", "log offsets"),
    yes("log_prio", "log priorities"),
    yes("per_job_logs", "one log per job"),
    yes("unified_rw_reporting", "report all directions as one: none, mixed or both"),
    no("iopsavgtime", "window of the I/O samples"),
    no("clat_percentiles", "report percentiles of completion latency"),
    no("lat_percentiles", "report percentiles of total latency"),
    no("slat_percentiles", "report percentiles of submission latency"),
    no("significant_figures", "digits of the report"),
    no("stats", "report this job"),
    no("disk_util", "report the use of disks"),
    no("block_error_percentiles", "report trims until an error"),
    no("log_compression", "compression of logs"),
    no("log_compression_cpus", "CPUs that compress logs"),
    no("log_store_compressed", "compressed logs"),
    no("log_unix_epoch", "time of logs"),
    no("log_alternate_epoch", "time of logs"),
    no("log_alternate_epoch_clock_id", "clock of logs"),
    no("log_entries", "first size of logs"),
    // Data.
    yes("verify", "read what was written: md5, crc32c, sha256, xxhash, pattern, null, …"),
    yes("do_verify", "run the verify phase"),
    yes("verify_backlog", "verify after so many writes"),
    yes("verify_backlog_batch", "blocks of a backlog that are verified"),
    yes("verify_only", "only verify"),
    yes("verifysort", "verify in order of offsets"),
    yes("trim_percentage", "share of verified blocks trimmed"),
    no("verifysort_nr", "how many blocks are sorted at one time"),
    no("verify_pattern", "data to be written"),
    no("verify_interval", "bytes between headers"),
    no("verify_offset", "where the header is"),
    no("verify_fatal", "stop at the first error; there are none"),
    no("verify_dump", "save wrong blocks; there are none"),
    no("verify_async", "threads that verify"),
    no("verify_async_cpus", "their CPUs"),
    no("verify_state_save", "save the state at the end"),
    no("verify_state_load", "load a state"),
    no("trim_verify_zero", "trimmed blocks must be zero"),
    no("trim_backlog", "trim after so many writes, with trim_percentage"),
    no("trim_backlog_batch", "trims of a backlog, with trim_percentage"),
    no("experimental_verify", "verify by replaying the generators"),
    // Replay.
    yes("read_iolog", "replay a log, a:b:c for the clones"),
    yes("write_iolog", "record what is done"),
    yes("replay_no_stall", "replay without pauses"),
    yes("replay_redirect", "replay on another device"),
    yes("replay_align", "align replayed offsets, a power of two"),
    yes("replay_scale", "divide replayed offsets"),
    yes("replay_time_scale", "speed of the replay, in percent"),
    yes("replay_skip", "what is not replayed: read,write,trim,sync"),
    no("read_iolog_chunked", "read the log in parts"),
    later("merge_blktrace_file", TRACES, "merge traces"),
    later("merge_blktrace_scalars", TRACES, "speeds of merged traces"),
    later("merge_blktrace_iters", TRACES, "repetitions of merged traces"),
    // The CPU.
    yes("cpuload", "share of the CPU that cpuio burns, in percent"),
    yes("cpuchunks", "how long it burns at one time, in microseconds"),
    yes("exit_on_io_done", "the CPU job ends with the last I/O job"),
    no("cpumode", "how it is burned"),
    yes("profile", "a built-in workload: tiobench"),
    // Of no meaning here.
    also(&["threads"], no("thread", "threads instead of processes")),
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
    no("priohint", "hint of the whole job"),
    no("cmdprio_hint", "hint of some I/Os"),
    no("flow_watermark", "tokens of a flow"),
    no("atomic", "atomic writes"),
    no("thp", "huge pages for mmap"),
    no("create_serialize", "lay out files one after another"),
    no("create_fsync", "sync laid out files"),
    no("create_on_open", "lay out files late"),
    no("create_only", "only lay out files"),
    no("allow_file_create", "may files be created"),
    no("allow_mounted_write", "may mounted devices be written"),
    no("unlink", "remove files at the end"),
    no("unlink_each_loop", "remove files after each loop"),
    no("file_append", "write at the end of the file"),
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
    no("exec_on_max_latency", "program run when an I/O takes too long"),
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
    no("ioscheduler", "scheduler of the device; here it is chosen with --scheduler"),
    no("softrandommap", "go on without a map if memory is short"),
    // Not for local disks.
    never("donorname", "defragmentation"),
    never("inplace", "defragmentation"),
    never("sg_write_mode", "SCSI commands"),
    never("cmd_type", "NVMe commands"),
    never("program", "other programs"),
    never("arguments", "other programs"),
    never("grace_time", "other programs"),
    never("std_redirect", "other programs"),
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

impl FioOption {
    /// Options that mean nothing as a bare word; the others are numbers, where bare is 1.
    #[must_use]
    pub fn takes_text(&self) -> bool {
        matches!(
            self.name,
            "name"
                | "description"
                | "rw"
                | "rw_sequencer"
                | "bs"
                | "bsrange"
                | "bssplit"
                | "random_generator"
                | "filename"
                | "directory"
                | "filename_format"
                | "ioengine"
                | "size"
                | "io_size"
                | "cgroup"
                | "percentile_list"
                | "random_distribution"
                | "file_service_type"
                | "zonemode"
                | "sync"
                | "sync_file_range"
                | "io_submit_mode"
                | "wait_for"
                | "exit_what"
                | "thinktime_blocks_type"
                | "rate_process"
                | "cmdprio_bssplit"
                | "verify"
                | "read_iolog"
                | "write_iolog"
                | "replay_redirect"
                | "replay_skip"
                | "profile"
                | "frame_period"
                | "frame_size"
                | "frame_deadline"
                | "change"
        )
    }
}

/// Every name, with the aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().flat_map(|o| core::iter::once(&o.name).chain(o.aliases)).copied()
}

/// The known name nearest to `wrong`, if it is near.
#[must_use]
pub fn nearest(wrong: &str) -> Option<&'static str> {
    near::nearest(wrong, names())
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

    /// Are the other names of FIO-10 known?
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
    }
}
