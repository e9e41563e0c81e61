// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job files as a user meets them: real ones, the quirks of FIO-1 to FIO-17, and messages.
//!
//! Messages are compared word for word: they are the part of a parser that people read.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use paternoster_core::Nanos;
use paternoster_workload::fio::job::{Engine, Job, reporting_groups};
use paternoster_workload::fio::jobfile::{JobFile, Problem, Source, parse, parse_command_line};
use paternoster_workload::fio::unwired;
use paternoster_workload::fio::value::Amount;
use proptest::prelude::*;

use crate::common::skipped;

fn no_include(_: &str, named: &str) -> Result<(String, String), String> {
    Err(format!("there is no file {named}"))
}

fn environment(name: &str) -> Option<String> {
    (name == "FAIR_DIR").then(|| "fiodir".to_owned())
}

fn parsed(text: &str) -> Result<JobFile, Vec<Problem>> {
    parse(&[Source { name: "test.fio", text }], &[], &[], &environment, &no_include)
}

fn jobs(text: &str) -> Vec<Job> {
    parsed(text).unwrap_or_else(|problems| panic!("{problems:?}")).jobs
}

/// The problems, as they are printed.
fn messages(text: &str) -> Vec<String> {
    parsed(text).unwrap_err().iter().map(Problem::to_string).collect()
}

/// A file that real fio wrote or was given, if it is available.
fn sample(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/fio-3.33");
    let text = fs::read_to_string(path.join(name)).ok();
    if text.is_none() {
        skipped(&format!("no sample {}", path.join(name).display()));
    }
    text
}

/// Is the job file of seed 000 read, with four groups of two readers? The command line's runtime=3
/// loses against the file's runtime=5; its rate_iops=400 holds for all jobs.
#[test]
fn fair_fio_is_read() {
    let Some(text) = sample("fair.fio") else { return };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let defaults = [pair("runtime", "3"), pair("rate_iops", "400")];
    let source = Source { name: "fair.fio", text: &text };
    let file = parse(&[source], &defaults, &[], &environment, &no_include).unwrap();
    assert_eq!(file.jobs.len(), 8);
    assert_eq!(reporting_groups(&file.jobs), [0, 0, 1, 1, 2, 2, 3, 3]);
    let first = &file.jobs[0];
    assert_eq!(first.name, "test00");
    assert_eq!(first.blocks.block_size[0], (8192, 8192));
    assert_eq!(file.jobs[7].blocks.block_size[0], (4096, 4096));
    assert_eq!((first.time.runtime, first.time.time_based), (Some(Nanos::from_secs(5)), true));
    assert_eq!(first.pacing.rate_iops, [Some(400); 3]);
    assert_eq!((first.cache.direct, first.queue.engine), (Some(true), Engine::Sync));
    assert_eq!(first.file_names(0), ["fiodir/fair.dat"]);
    assert_eq!(first.region.size, Some(Amount::Bytes(64 << 20)));
    // As fair.json has them, in this order, without the bare time_based.
    let names: Vec<&str> = file.global.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "runtime",
            "rate_iops",
            "ioengine",
            "iodepth",
            "rw",
            "direct",
            "size",
            "runtime",
            "directory",
            "filename"
        ]
    );
    assert_eq!(first.section.given, [pair("bs", "8k")]);
    assert!(file.notes.is_empty());
}

/// Is mix.fio read, and does what a run cannot do yet give one sentence and line each?
#[test]
fn mix_fio_says_what_is_missing() {
    let Some(text) = sample("mix.fio") else { return };
    let source = Source { name: "mix.fio", text: &text };
    let file = parse(&[source], &[], &[], &environment, &no_include).unwrap();
    let first = &file.jobs[0];
    assert_eq!(first.report.logs.window, Nanos::from_millis(500));
    assert_eq!(first.report.logs.files("rdwr", 1)[0].1, "rdwr_bw.1.log");
    assert_eq!((file.jobs[1].syncs.fsync_every, file.jobs[1].syncs.at_end), (16, true));
    let problems = unwired::problems(&file.jobs);
    for problem in &problems {
        assert!(problem.message.contains("not supported yet"));
        let line = text.lines().nth(problem.line as usize - 1).unwrap();
        assert_eq!(line, problem.text);
    }
    // The third section alone needs nothing of it.
    let sections = ["bufread".to_owned()];
    let file = parse(&[source], &[], &sections, &environment, &no_include).unwrap();
    assert_eq!(file.jobs.len(), 1);
    assert_eq!(file.jobs[0].report.percentile_list, [50.0, 99.0, 99.9]);
    assert_eq!(unwired::problems(&file.jobs), []);
}

/// Do globals hold for the jobs below, add up, and lose against the job's own options?
#[test]
fn globals_hold_for_jobs_below() {
    let jobs = jobs(
        "[global]\nsize=1m\nbs=4k\n[a]\n[global]\nbs=8k\nstonewall\n[b]\n[b]\nbs=1k\nname=c\n",
    );
    let sizes: Vec<u64> = jobs.iter().map(|job| job.blocks.block_size[0].0).collect();
    assert_eq!(sizes, [4096, 8192, 1024]);
    assert!(!jobs[0].clones.stonewall && jobs[1].clones.stonewall && jobs[2].clones.stonewall);
    assert!(jobs.iter().all(|job| job.region.size == Some(Amount::Bytes(1 << 20))));
    assert_eq!((jobs[1].name.as_str(), jobs[2].name.as_str()), ("b", "c"));
}

/// Does a section whose name begins with `global` give defaults, as it does in fio, and says a note
/// so; also where sections are chosen, and on the command line? Capitals, a blank before it and
/// `name=` make a job.
#[test]
fn what_begins_with_global_is_no_job() {
    let text =
        "[globalx]\nsize=1m\n[a]\n[global2]\nbs=8k\nname=z\n[Global]\n[ global3]\nname=global4\n";
    let source = Source { name: "test.fio", text };
    let read = |sections: &[&str]| {
        let sections: Vec<String> = sections.iter().map(|&name| name.to_owned()).collect();
        parse(&[source], &[], &sections, &environment, &no_include)
    };
    let named = |file: &JobFile| -> Vec<(String, u64)> {
        file.jobs.iter().map(|job| (job.name.clone(), job.blocks.block_size[0].0)).collect()
    };
    let job = |name: &str, size| (name.to_owned(), size);
    let file = read(&[]).unwrap();
    assert_eq!(named(&file), [job("a", 4096), job("Global", 8192), job("global4", 8192)]);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(file.global, [pair("size", "1m"), pair("bs", "8k"), pair("name", "z")]);
    let notes: Vec<String> = file.notes.iter().map(Problem::to_string).collect();
    let why = "a section whose name begins with `global` is no job, as in fio: it gives defaults \
               to the jobs below it";
    assert_eq!(
        notes,
        [format!("test.fio:1: {why}: `[globalx]`"), format!("test.fio:4: {why}: `[global2]`")]
    );
    assert_eq!(named(&read(&["Global"]).unwrap()), [job("Global", 8192)]);
    assert!(read(&["global2"]).unwrap_err()[0].message.contains("there is no section"));
    let args = ["--name=globalx", "--bs=8k", "--size=1m", "--name=b"].map(str::to_owned);
    let file = parse_command_line(&args, &environment).unwrap();
    assert_eq!(named(&file), [job("b", 8192)]);
    assert_eq!(file.global, [pair("name", "globalx"), pair("bs", "8k"), pair("size", "1m")]);
    assert_eq!(file.notes.len(), 1);
}

/// Are comments, bare words, variables and sums read as fio reads them?
#[test]
fn lines_are_read_as_fio_reads_them() {
    let jobs = jobs(
        "\u{feff}; c\r\n  # c\r\n[a]\r\n  size=1m ; c\r\ntime_based\r\nruntime=1\r\n\
         directory=/x/${FAIR_DIR}${NONE}\r\niodepth=2*$ncpus\r\nioengine=libaio\r\n\
         filename=a\\:b:c\r\n",
    );
    assert_eq!(jobs[0].file_names(0), ["/x/fiodir/a:b", "/x/fiodir/c"]);
    assert_eq!(jobs[0].queue.iodepth, 8);
    assert!(jobs[0].time.time_based);
    let wrong = messages("[a]\nsize=1m\nbs=$pagesize*4\n");
    assert_eq!(
        wrong,
        ["test.fio:3: `$pagesize` must come last in a sum: write `4*$pagesize`: `bs=$pagesize*4`"]
    );
}

/// Is the surprising KiB form read as fio reads it, with a note that names file and line?
#[test]
fn surprising_values_leave_notes() {
    let file = parsed("[a]\nsize=1m\nbs=512KiB\nthread\n").unwrap();
    assert_eq!(file.jobs[0].blocks.block_size[0], (512_000, 512_000));
    let notes: Vec<String> = file.notes.iter().map(Problem::to_string).collect();
    assert_eq!(
        notes,
        [
            "test.fio:3: `KiB` counts in powers of 1000 here, as in fio; \
             write `K` for powers of 1024: `bs=512KiB`",
            "test.fio:4: `thread` is accepted and ignored (threads instead of processes): `thread`",
        ]
    );
    // kb_base counts in any order within the section.
    assert_eq!(
        jobs("[a]\nsize=1m\nbs=64k\nkb_base=1000\n")[0].blocks.block_size[0],
        (64_000, 64_000)
    );
}

/// Are the messages for common mistakes the agreed ones, all of them in one run?
#[test]
fn messages_are_as_agreed() {
    let text = "[a]\nsize=1m\niodeph=3\nrw = read\nbs=4q\nprio=8\nbadopt=3\n[b]\nrw=read\n[c\n";
    assert_eq!(
        messages(text),
        [
            "test.fio:3: unknown option `iodeph`; did you mean `iodepth`?: `iodeph=3`",
            "test.fio:4: no blanks are allowed around `=`: write `rw=read`: `rw = read`",
            "test.fio:5: `q` in `4q` is no unit: sizes take k, m, g, t or p, \
             powers of 1024: `bs=4q`",
            "test.fio:6: 8 is out of range: it must be from 0 to 7: `prio=8`",
            "test.fio:7: unknown option `badopt`: fio 3.33 has none like it; leave it out: \
             `badopt=3`",
            "test.fio:8: job `b` works on a file and needs a size: \
             write `size=64m`, or name a device as in `filename=/dev/sda`: `b`",
            "test.fio:10: the section's `[` is not closed by `]`: `[c`",
        ]
        .map(str::to_owned)
    );
    assert_eq!(
        messages("bs=4k\n"),
        ["test.fio:1: options need a section before them: write `[global]` or `[name]`: `bs=4k`"]
    );
    assert_eq!(messages("; x\n").len(), 1);
    // What could not be read may have been the size: no second message.
    assert_eq!(messages("[a]\nsize = 1m\n").len(), 1);
    assert_eq!(jobs("[a]\nfilename=/dev/sda\n")[0].region.size, None);
}

/// Do includes insert lines, and are loops, depth, headers and missing files reported?
#[test]
fn includes_are_followed_with_care() {
    let include = |from: &str, named: &str| -> Result<(String, String), String> {
        assert!(!from.is_empty());
        let text = match named {
            "good" => "size=1m\ninclude deeper\n".to_owned(),
            "deeper" => "bs=8k\n".to_owned(),
            "loop" => "include loop2\n".to_owned(),
            "loop2" => "include loop\n".to_owned(),
            "header" => "[x]\n".to_owned(),
            "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" => {
                format!("include {}\n", named.parse::<u32>().unwrap() + 1)
            }
            _ => return Err("there is no such file".to_owned()),
        };
        Ok((named.to_owned(), text))
    };
    let run =
        |text: &str| parse(&[Source { name: "test.fio", text }], &[], &[], &environment, &include);
    let file = run("[a]\ninclude good\n").unwrap();
    assert_eq!(file.jobs[0].blocks.block_size[0], (8192, 8192));
    let first = |text: &str| run(text).unwrap_err()[0].to_string();
    assert_eq!(
        first("[a]\ninclude loop\n"),
        "loop2:1: include loop: test.fio -> loop -> loop2 -> loop: `include loop`"
    );
    assert_eq!(first("[a]\ninclude 0\n"), "7:1: includes are nested more than 8 deep: `include 8`");
    assert_eq!(
        first("[a]\ninclude header\n"),
        "header:1: an included file cannot begin a section: `[x]`"
    );
    assert_eq!(
        first("[a]\ninclude none\n"),
        "test.fio:2: `none` cannot be included: there is no such file: `include none`"
    );
}

/// Has everything that grows an end, with a message of its own?
#[test]
fn limits_have_messages() {
    let has = |text: &str, words: &str| {
        let messages = messages(text);
        assert!(messages.iter().any(|message| message.contains(words)), "{messages:?}");
    };
    has(&format!("[a]\nsize=1m{}\n", "0".repeat(20_000)), "at most 16384 fit");
    has(&";\n".repeat(600_000), "at most 1048576 fit");
    has("[a]\nsize=1m\nnumjobs=4097\n", "more than 4096 jobs");
    has(&format!("[global]\nsize=1m\n{}", "[a]\n".repeat(4097)), "more than 4096 jobs");
    has(&format!("[a]\nsize=1m\nfilename={}\n", "a:".repeat(300)), "at most 256 fit");
    assert_eq!(messages(&format!("[a]\n{}", "x\n".repeat(1000))).len(), 100);
    // A bomb: each of five levels includes the next ten times, and the last has 64 KiB.
    let calls = Cell::new(0);
    let include = |_: &str, named: &str| {
        calls.set(calls.get() + 1);
        let level: u32 = named.parse().unwrap_or(5);
        let lines = format!("include {}\n", level + 1).repeat(10);
        Ok((named.to_owned(), if level < 5 { lines } else { ";\n".repeat(32_768) }))
    };
    let source = Source { name: "bomb", text: "[a]\ninclude 1\n" };
    let problems = parse(&[source], &[], &[], &environment, &include).unwrap_err();
    assert!(problems.iter().any(|problem| problem.message.contains("all includes")));
    assert!(calls.get() < 300);
}

/// Does `--section` choose jobs but keep globals, and is a wrong name a problem?
#[test]
fn sections_choose_jobs() {
    let text = "[global]\nsize=1m\n[a]\nbadopt\n[b]\nbs=8k\n";
    let source = Source { name: "test.fio", text };
    let run =
        |section: &str| parse(&[source], &[], &[section.to_owned()], &environment, &no_include);
    assert_eq!(run("b").unwrap().jobs.len(), 1);
    assert_eq!(run("z").unwrap_err()[0].to_string(), "test.fio:1: there is no section `z`: `z`");
}

/// Is each further file a group of its own, with nothing of the other file's globals?
#[test]
fn files_are_separate_groups() {
    let one = Source { name: "one", text: "[global]\nsize=1m\nbs=8k\n[a]\n[b]\n" };
    let two = Source { name: "two", text: "[c]\nsize=1m\n[d]\nsize=1m\n" };
    let jobs = parse(&[one, two], &[], &[], &environment, &no_include).unwrap().jobs;
    let walls: Vec<bool> = jobs.iter().map(|job| job.clones.stonewall).collect();
    assert_eq!(walls, [false, false, true, false]);
    assert_eq!(jobs[2].blocks.block_size[0], (4096, 4096));
}

/// The folder of inputs that the fuzzer begins with.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/job_file")
}

/// Does every input of the corpus give jobs or problems that name file and line?
#[test]
fn corpus_is_read() {
    let mut count = 0;
    for entry in fs::read_dir(corpus()).into_iter().flatten().flatten() {
        let bytes = fs::read(entry.path()).unwrap();
        check(&String::from_utf8_lossy(&bytes));
        count += 1;
    }
    assert!(count >= 10 || !corpus().exists(), "{count} inputs");
}

/// Parses `text` in every way; problems must have a place.
fn check(text: &str) {
    let include = |_: &str, named: &str| Ok((named.to_owned(), text.to_owned()));
    let source = Source { name: "any.fio", text };
    let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let results = [
        parse(&[source], &[], &[], &environment, &include),
        parse_command_line(&args, &environment),
    ];
    for problem in results.into_iter().filter_map(Result::err).flatten() {
        assert!(!problem.file.is_empty() && problem.line > 0 && !problem.message.is_empty());
    }
}

proptest! {
    /// Does arbitrary text give jobs or problems, and never a panic?
    #[test]
    fn arbitrary_text_never_panics(text in "(\\PC|\n){0,200}") {
        check(&text);
    }

    /// The same for text made of the language's own pieces, which gets further.
    #[test]
    fn arbitrary_pieces_never_panic(pieces in prop::collection::vec(prop::sample::select(&[
        "[global]", "[global2]", "[", "]", "\n", "\n[a]\n", "=", ":", ",", "/", "-", "%", "4k",
        "0x", "8KiB", "\nbs=", "\nbsrange=", "\nbssplit=", "\nrw=", "randread", "\nsize=",
        "\nrate=", "\nnice=", "\nfilename=", "\\", "${", "}", "$ncpus", "*", "\ninclude x", " ",
        ";", "#", "99999999999", "\nstartdelay=", "\npercentile_list=", "--", "--name",
        "\nnumjobs=", "\nkb_base=1000", "é",
    ][..]), 0..60)) {
        check(&pieces.concat());
    }
}
