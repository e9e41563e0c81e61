// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program as a user or a script meets it: output, messages, exit status.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::skipped;

/// Seed 000's job on seed 000's card.
const FAIR: [&str; 3] = ["run", "jobs/fair.fio", "--device=flash-card-2010"];
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Real fio's outputs, where the folder is there.
const SAMPLES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../paternoster-workload/tests/samples/fio-3.33");

fn paternoster(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(arguments).current_dir(ROOT).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Runs and expects success.
fn succeeds(arguments: &[&str]) -> String {
    let output = paternoster(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Runs and expects a refusal; returns its message.
fn refuses(arguments: &[&str]) -> String {
    let output = paternoster(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
    assert!(output.stdout.is_empty(), "a refused request prints no result");
    stderr(&output)
}

/// Runs with `text` on standard input.
fn with_input(arguments: &[&str], text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// Seed 000's unpatched table, kB/s (bytes per millisecond): 4 KiB reader, the other one.
const SEED_000: [(u64, u64); 4] = [(1485, 2922), (1327, 5126), (1031, 8493), (761, 12_486)];

/// Is every figure under noop within 4 % of seed 000's unpatched table?
#[test]
fn seed_000_under_noop() {
    let text = succeeds(&[
        "run",
        "jobs/fair.fio",
        "--device",
        "flash-card-2010",
        "--scheduler",
        "noop",
        "--output-format",
        "json",
    ]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    for (group, (small, large)) in SEED_000.into_iter().enumerate() {
        for (job, published) in [(2 * group, large), (2 * group + 1, small)] {
            let read = &report["jobs"][job]["read"];
            let bytes = read["io_bytes"].as_u64().unwrap();
            let per_ms = bytes / read["runtime"].as_u64().unwrap();
            let off = per_ms.abs_diff(published) * 1000 / published;
            assert!(off <= 40, "job {job}: {per_ms} kB/s, published {published}: {off} per mille");
        }
    }
}

/// Does the old form print `Run status` lines as the seed shows them?
#[test]
fn seed_000_in_its_own_form() {
    let text =
        succeeds(&[&FAIR[..], &["--scheduler", "noop", "--output-format", "normal1"]].concat());
    assert!(
        text.contains("test00: (g=0): rw=randread, bs=8K-8K/8K-8K, ioengine=sync, iodepth=1\n")
    );
    assert!(text.contains("Run status group 3 (all jobs):\n"));
    let line = text.lines().find(|line| line.contains("READ: io=")).expect("a Run status line");
    // 21560 KiB in 5002 ms: 21560 * 1024 / 5002 = 4413 (the seed: 4406).
    assert!(
        line.contains("io=21560KiB, aggrb=4413KiB/s, minb=1471KiB/s, maxb=2943KiB/s"),
        "{line}"
    );
}

/// Every key path of a JSON value, arrays by their first element; percentile numbers and bins
/// separately.
fn key_tree(value: &Value, path: &str, tree: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let named =
                    ["options", "percentile", "bins"].iter().any(|free| path.ends_with(free));
                if !named && key != "paternoster" {
                    let below = format!("{path}/{key}");
                    tree.push(below.clone());
                    key_tree(value, &below, tree);
                }
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                key_tree(first, &format!("{path}/0"), tree);
            }
        }
        _ => {}
    }
}

/// Does our JSON have the key tree that it had when it was compared with real fio (see the next
/// test)?
#[test]
fn json_has_the_golden_key_tree() {
    let ours = succeeds(&[&FAIR[..], &["--scheduler", "noop", "--output-format", "json"]].concat());
    let ours: Value = serde_json::from_str(&ours).unwrap();
    let mut tree = Vec::new();
    key_tree(&ours, "", &mut tree);
    let golden = include_str!("../golden/json-key-tree.txt");
    assert_eq!(tree, golden.lines().collect::<Vec<_>>());
}

/// Is that golden key tree the one of real fio's JSON for the same job, where its sample exists?
#[test]
fn json_has_the_key_tree_of_fio() {
    let sample = Path::new(SAMPLES).join("fair.json");
    let Ok(sample) = std::fs::read_to_string(&sample) else {
        return skipped(&format!("no sample {}", sample.display()));
    };
    let sample: Value = serde_json::from_str(&sample).unwrap();
    let ours = succeeds(&[&FAIR[..], &["--scheduler", "noop", "--output-format", "json"]].concat());
    let ours: Value = serde_json::from_str(&ours).unwrap();
    let (mut theirs_tree, mut ours_tree) = (Vec::new(), Vec::new());
    key_tree(&sample, "", &mut theirs_tree);
    key_tree(&ours, "", &mut ours_tree);
    // Sample runs on a file system's disk have more keys there than a model has.
    let of_interest = |path: &&String| !path.starts_with("/disk_util/0/aggr");
    let missing: Vec<_> =
        theirs_tree.iter().filter(of_interest).filter(|path| !ours_tree.contains(path)).collect();
    assert!(missing.is_empty(), "keys of fio that we do not have: {missing:?}");
    let more: Vec<_> = ours_tree.iter().filter(|path| !theirs_tree.contains(path)).collect();
    assert!(more.is_empty(), "keys of ours that fio does not have: {more:?}");
}

/// Does a consumer's `jq` line work unchanged, on one document and on several?
#[test]
fn jq_reads_it() {
    let has_jq = Command::new("jq").arg("--version").output().is_ok();
    if !has_jq {
        return skipped("jq is not installed (Debian package jq)");
    }
    let json = succeeds(&[
        "run",
        "jobs/fair.fio",
        "--device=flash-card-2010",
        "--section=test00",
        "--scheduler",
        "noop",
        "--scheduler",
        "deadline",
        "--output-format",
        "json",
    ]);
    let mut jq = Command::new("jq");
    jq.arg(".jobs[0].read.bw").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = jq.spawn().unwrap();
    child.stdin.take().unwrap().write_all(json.as_bytes()).unwrap();
    let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    // Alone on the card: 8 KiB in 1.48432 ms and 20 us between. In 5 s 5000 / 1.50432 = 3323.8
    // begin, so 3324 reads; the last ends at 3324 * 1.50432 - 0.02 = 5000.3 ms: 3324 * 8 KiB /
    // 5.000 s = 5318 KiB/s.
    assert_eq!(text, "5318\n5318\n");
}

/// Do several schedulers give one table, a column for each, with a unit on every figure?
#[test]
fn several_schedulers_give_one_table() {
    let two = ["--scheduler", "noop", "--scheduler", "mq-deadline"];
    let text = succeeds(&[&FAIR[..], &two].concat());
    let head: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(head, ["noop", "mq-deadline"]);
    for figure in ["IOPS", "bandwidth", "mean", "p50", "p99", "p99.9", "max", "device time"] {
        let rows = text.lines().filter(|line| line.contains(&format!(" {figure}  "))).count();
        // Eight jobs; four groups have rates, too.
        assert!(rows == 8 || rows == 8 + 4, "{figure}: {rows} rows in {text}");
    }
    assert!(text.contains("worst off") && text.contains("device idle"));
}

/// Can a program read which devices and schedulers there are, and what attributes one takes?
#[test]
fn lists_are_json() {
    let json = |words: &[&str]| -> Value { serde_json::from_str(&succeeds(words)).expect("JSON") };
    let named = |list: &Value, name: &str| {
        list.as_array().expect("a list").iter().find(|one| one["name"] == name).cloned()
    };
    assert!(named(&json(&["devices", "--format=json"])["devices"], "ssd-870evo").is_some());
    assert!(named(&json(&["schedulers", "--format", "json"])["schedulers"], "bfq").is_some());
    let bfq = json(&["schedulers", "bfq", "--format=json"]);
    let slice_idle = named(&bfq["attributes"], "slice_idle").expect("it has one");
    assert_eq!((&slice_idle["unit"], &slice_idle["value"]), (&"ms".into(), &"8".into()));
    // 4 GiB: 4 x 2^30.
    let card = json(&["devices", "flash-card-2010", "--format=json"]);
    assert_eq!(card["capacity_bytes"], 4_294_967_296_u64);
}

/// Is every mistake refused with its place and its remedy?
#[test]
fn refusals_name_place_and_remedy() {
    let bad_job = std::env::temp_dir().join(format!("paternoster-{}.fio", std::process::id()));
    std::fs::write(&bad_job, "[a]\nrw=randread\niodept=3\nsize=1m\n").unwrap();
    let bad_device = std::env::temp_dir().join(format!("paternoster-{}.toml", std::process::id()));
    std::fs::write(&bad_device, "name = \"x\"\nmodel = \"y\"\nsummary = \"\"\nvalid = \"\"\n")
        .unwrap();
    let (job, device) = (bad_job.to_str().unwrap(), bad_device.to_str().unwrap());
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", job], &[".fio:3: ", "iodept=3", "iodepth"]),
        (&["run", "jobs/none.fio"], &["jobs/none.fio", "No such file"]),
        (&["run"], &["there is no job", "--name"]),
        (
            &["run", "jobs/fair.fio", "--scheduler", "cfg"],
            &["there is no scheduler `cfg`", "mq-deadline"],
        ),
        (&["rnu"], &["did you mean `run`?"]),
        (&["run", "jobs/fair.fio", "--shceduler", "bfq"], &["did you mean --scheduler?"]),
        (&["run", "jobs/fair.fio", "--scheduler=bfq:slice_idle=-1"], &["from 0", "in ms"]),
        (
            &["run", "jobs/fair.fio", "--scheduler", "noop:x=1"],
            &["no attribute `x`", "schedulers noop"],
        ),
        (
            &["run", "jobs/fair.fio", "--scheduler", "deadline:fifo_batch=many"],
            &["`fifo_batch` cannot be `many`", "a whole number from 0"],
        ),
        (
            &["run", "jobs/fair.fio", "--set", "nr_requests=10000"],
            &["`nr_requests` can be at most"],
        ),
        (
            &["run", "jobs/fair.fio", "--device", "floppy"],
            &["no device `floppy`", "flash-card-2010"],
        ),
        (&["run", "jobs/fair.fio", "--device", device], &[".toml:2: ", "`y`", "linear"]),
        (&["run", "jobs/fair.fio", "--section=tst"], &["tst"]),
        (&["run", "jobs/fair.fio", "--runtime", "soon"], &["--runtime soon"]),
        (&["run", "--name=a", "--size=1m", "--host", "swap=1g"], &["no `swap`", "dirty_ratio"]),
        (
            &["run", "--name=a", "--direct=1", "--size=1t", "--device", "lab-disk"],
            &["would end at byte"],
        ),
    ];
    for (arguments, expected) in cases {
        let message = refuses(arguments);
        for part in *expected {
            assert!(message.contains(part), "{arguments:?}: `{part}` is not in: {message}");
        }
    }
    std::fs::remove_file(bad_job).unwrap();
    std::fs::remove_file(bad_device).unwrap();
}

/// Can jobs come from standard input and from the command line, as fio takes them?
#[test]
fn jobs_come_from_anywhere() {
    let job = "[a]\nrw=randread\nsize=1m\ndirect=1\n";
    let output = with_input(&["run", "-", "--scheduler", "noop", "--output-format", "csv"], job);
    assert!(output.status.success(), "{}", stderr(&output));
    let from_input = stdout(&output);
    // 1 MiB in blocks of 4 KiB: 256 reads.
    assert!(from_input.lines().nth(1).unwrap().contains(",1048576,"), "{from_input}");
    let from_line = succeeds(&[
        "run",
        "--name=a",
        "--rw=randread",
        "--size=1m",
        "--direct=1",
        "--scheduler",
        "noop",
        "--output-format",
        "csv",
    ]);
    assert_eq!(from_input, from_line);
}

/// Do terse and `json+` come out as fio's scripts expect them? 130 fields with one disk, of which
/// field 7 is the bandwidth of reads; `--minimal` is the same.
#[test]
fn scripts_get_their_forms() {
    let job = ["run", "jobs/fair.fio", "--section=test30", "--scheduler", "noop"];
    let with = |more: &[&str]| succeeds(&[&job[..], more].concat());
    let terse = with(&["--minimal"]);
    assert_eq!(terse, with(&["--output-format=terse"]));
    let fields: Vec<&str> = terse.trim_end().split(';').collect();
    assert_eq!((fields.len(), fields[0], fields[2]), (130, "3", "test30"));
    assert!(fields[6].parse::<u64>().unwrap() > 0);
    assert!(with(&["--minimal", "--terse-version=5"]).starts_with("5;"));
    let both = with(&["--output-format=json+,terse"]);
    assert!(both.contains("\"bins\" : {") && both.ends_with(&terse));
    assert!(refuses(&["run", "jobs/fair.fio", "--terse-version=6"]).contains("2, 3, 4 and 5"));
}

/// Is what the language allows but a run cannot do yet refused, with line and option?
#[test]
fn what_is_not_wired_is_refused() {
    let options = ["run", "--name=a", "--size=1m", "--verify=md5", "--trim_percentage=5"];
    let message = refuses(&options);
    assert!(message.contains("command line:4: `trim_percentage` is known to fio"), "{message}");
    let message = refuses(&["run", "--name=a", "--size=1m", "--zonemode=zbd", "--parse-only"]);
    assert!(message.contains("no device model is zoned"), "{message}");
}

/// Does `--parse-only` check everything and run nothing?
#[test]
fn parse_only_runs_nothing() {
    assert_eq!(succeeds(&["run", "jobs/fair.fio", "--parse-only"]), "");
}

/// Do listings show attributes with their meaning, and as sysfs shows them?
#[test]
fn listings_are_complete() {
    let text = succeeds(&["schedulers", "mq-deadline", "--grep"]);
    assert!(text.contains("./iosched/read_expire:500\n./iosched/write_expire:5000\n"));
    // 32 tags: nr_requests 2 * 32, async_depth three quarters of that (DL-9).
    assert!(text.contains("./nr_requests:64\n") && text.contains("./iosched/async_depth:48\n"));
    assert!(text.contains("./scheduler:none noop deadline [mq-deadline]"));
    let card = succeeds(&["devices", "flash-card-2010"]);
    assert!(card.contains("1.116 ms") && card.contains("fitted"));
    assert!(succeeds(&["devices"]).contains("lab-disk"));
    assert!(succeeds(&["devices", "flash-card-2010", "--grep"]).contains("./queue_depth:1\n"));
}

/// Does a kernel's listing show its own default scheduler, and is an option for listings refused
/// without one instead of being ignored?
#[test]
fn a_listing_takes_a_scheduler_and_attributes() {
    let listing = succeeds(&["devices", "array-eva", "--grep=2.6.34", "--set", "quantum=4"]);
    assert!(listing.starts_with("./iosched/quantum:4\n"), "{listing}");
    assert!(listing.contains("./scheduler:noop deadline [cfq]\n"), "{listing}");
    for ignored in [["--set", "quantum=4"], ["--scheduler", "cfq"]] {
        let message = refuses(&["devices", "array-eva", ignored[0], ignored[1]]);
        assert!(message.contains("--grep"), "{message}");
    }
    assert!(refuses(&["devices", "--grep=2.6.34"]).contains("<NAME>"));
}

/// Do completion scripts and man pages come out, and does the help have examples?
#[test]
fn manuals_come_out() {
    assert!(succeeds(&["completions", "bash"]).contains("paternoster"));
    let folder = std::env::temp_dir().join(format!("paternoster-man-{}", std::process::id()));
    succeeds(&["man", folder.to_str().unwrap()]);
    assert!(folder.join("paternoster-run.1").exists());
    let configuration = std::fs::read_to_string(folder.join("paternoster.5")).unwrap();
    assert!(configuration.contains(".TP\n\\fBlisten\\fR\n"), "{configuration}");
    let page = std::fs::read_to_string(folder.join("paternoster-compare.1")).unwrap();
    let typed = "\\fBpaternoster compare\\fR \\fB\\-\\-device\\fR \\fINAME|FILE.toml\\fR [";
    assert!(page.contains(typed), "{page}");
    let pages = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for path in pages.filter(|path| path.extension().is_some_and(|section| section == "1")) {
        let page = std::fs::read_to_string(&path).unwrap();
        let (_, rest) = page.split_once(".SH SYNOPSIS\n").expect("a synopsis");
        let (synopsis, rest) = rest.split_once(".SH DESCRIPTION\n").expect("a description");
        for line in rest.lines().filter(|line| line.starts_with("\\fB\\-\\-")) {
            let (option, rest) = line[3..].split_once("\\fR").expect("its end");
            let is_told = |part: &str| part.starts_with(&format!("{option}\\fR"));
            let told: Vec<&str> = synopsis.split("\\fB").filter(|part| is_told(part)).collect();
            assert!(told.len() == 1, "{}: {option}: {synopsis}", path.display());
            let values = [rest, told[0]].map(|text| text.contains("\\fI"));
            assert_eq!(values[0], values[1], "{}: {option}: {rest}: {told:?}", path.display());
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
    for command in ["run", "schedulers", "devices", "examples", "completions", "man"] {
        assert!(succeeds(&[command, "--help"]).contains("Example"), "{command}");
    }
}

/// The command of the README's table and what it prints, and the table.
fn hero() -> (String, String, String) {
    let readme = std::fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let begin = "cargo run --release -- ";
    let command = readme.lines().skip_while(|line| !line.starts_with(begin));
    let command: Vec<&str> = command.take_while(|line| *line != "```").collect();
    let command = command.join(" ").replace('\\', "");
    let command = command.strip_prefix(begin).expect("the README's command").to_owned();
    let words: Vec<&str> = command.split_whitespace().collect();
    let printed = succeeds(&words);
    let shown = readme.split("```text\n").find(|block| block.starts_with("device "));
    let shown = shown.and_then(|block| block.split("```").next()).expect("the table");
    (command, printed, shown.to_owned())
}

/// Are the README's rows those that its command prints, including what each of the three jobs got
/// and is entitled to; and does each client get at least 90 % of its entitlement under the elevator
/// that the README recommends? The worst-off job does, so all do.
#[test]
fn the_readme_shows_real_output_and_its_elevator_keeps_its_word() {
    let (command, printed, shown) = hero();
    let rows: Vec<&str> = shown.lines().collect();
    for row in &rows {
        assert!(printed.lines().any(|line| line == *row), "the program does not print: {row}");
    }
    let count = |figure: &str| rows.iter().filter(|row| row.contains(figure)).count();
    assert_eq!((count(" got  "), count(" entitled  ")), (3, 3), "{shown}");
    assert!(command.ends_with(" --scheduler paternoster"), "the last column is the elevator's");
    let worst = rows.iter().find(|row| row.contains("its got/entitled")).expect("the row");
    let worst = worst.trim_end_matches([' ', '%']).rsplit(' ').next().expect("the last column");
    assert!(worst.parse::<f64>().expect("per cent") >= 90.0, "paternoster: {worst} %");
}
