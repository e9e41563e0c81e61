// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--plot` as a user meets it: pictures that are the same on every machine, all runs in one,
//! refusals that say what would be right.
//!
//! After an intended change of pictures: `PATERNOSTER_GOLDEN=write cargo test -p paternoster
//! --test all plots`, and look at them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plots");

fn paternoster(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

/// Runs with `--plot KIND=FILE` for a file of this test's own and returns the picture.
fn picture(test: &str, kind: &str, arguments: &[&str]) -> String {
    let file = own_file(&format!("{test}-{kind}.svg"));
    let plot = format!("--plot={kind}={}", file.display());
    let output = paternoster(&[arguments, &[&plot]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    let text = std::fs::read_to_string(&file).expect("the picture was written");
    roxmltree::Document::parse(&text).expect("well-formed");
    text
}

fn own_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn refusal(arguments: &[&str]) -> String {
    let output = paternoster(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "nothing was run");
    String::from_utf8(output.stderr).expect("text")
}

/// The labels that parsing finds in a picture's legend.
fn labels(text: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(text).expect("well-formed");
    let bold = |part: &roxmltree::Node<'_, '_>| {
        part.has_tag_name("tspan") && part.attribute("font-weight") == Some("bold")
    };
    let texts = document.descendants().filter(bold).filter_map(|part| part.text());
    texts.map(str::to_owned).collect()
}

/// 160 reads and writes of four processes on a disk, deep enough that schedulers differ.
const SMALL: [&str; 15] = [
    "run",
    "--device=hdd-7200",
    "--scheduler=noop",
    "--scheduler=deadline:fifo_batch=1",
    "-q",
    "--rw=randrw",
    "--direct=1",
    "--bs=16k",
    "--size=64m",
    "--ioengine=libaio",
    "--iodepth=16",
    "--number_ios=40",
    "--name=reader",
    "--numjobs=4",
    "--output-format=csv",
];

/// The example of the documents.
const TIOTEST: [&str; 14] = [
    "tiotest",
    "-t",
    "8",
    "-f",
    "20",
    "-r",
    "100",
    "-F",
    "--device=array-eva",
    "--scheduler=noop",
    "--scheduler=cfq:low_latency=0",
    "--set=read_ahead_kb=512",
    "--set=hz=250",
    "-q",
];

/// Are pictures, here and in the documents, the same bytes as those that were approved?
#[test]
fn pictures_are_golden() {
    let one: Vec<&str> = SMALL.into_iter().filter(|word| !word.contains("fifo_batch")).collect();
    for (folder, name, kind, arguments) in [
        (GOLDEN, "throughput", "throughput", &SMALL[..]),
        (GOLDEN, "iops-one", "iops", &one[..]),
        (GOLDEN, "latency", "latency", &SMALL[..]),
        (GOLDEN, "latency-histogram", "latency-histogram", &SMALL[..]),
        (DOCS, "tiotest-throughput", "throughput", &TIOTEST[..]),
        (DOCS, "tiotest-iops", "iops", &TIOTEST[..]),
        (DOCS, "tiotest-latency", "latency", &TIOTEST[..]),
        (DOCS, "tiotest-latency-histogram", "latency-histogram", &TIOTEST[..]),
        (GOLDEN, "queue-depth", "queue-depth", &SMALL[..]),
        (GOLDEN, "access", "access", &SMALL[..]),
        (GOLDEN, "access-one", "access", &one[..]),
        (DOCS, "tiotest-queue-depth", "queue-depth", &TIOTEST[..]),
        (DOCS, "tiotest-access", "access", &TIOTEST[..]),
    ] {
        let text = picture(name, kind, arguments);
        let file = format!("{folder}/{name}.svg");
        if std::env::var_os("PATERNOSTER_GOLDEN").is_some_and(|what| what == "write") {
            std::fs::write(&file, &text).expect("the golden file can be written");
        }
        let golden = std::fs::read_to_string(&file).expect("the golden file");
        assert!(text == golden, "{name}.svg differs: see the head of this file");
    }
}

/// Does a picture show every run of its command, and only those?
#[test]
fn all_runs_are_in_one_picture() {
    let iostest = ["iostest", "drr", "--jobs=1,2", "--time=200ms", "--filesize=4m", "-q"];
    let both = ["--device=hdd-7200", "--scheduler=noop", "--scheduler=kyber"];
    let text = picture("all", "queue-depth", &[&iostest[..], &both[..]].concat());
    assert_eq!(labels(&text), ["noop, 1 job", "noop, 2 jobs", "kyber, 1 job", "kyber, 2 jobs"]);
    let two = ["--device=hdd-7200", "--device=null", "--scheduler=noop"];
    let dd = ["dd", "--files=2", "--size=1m", "-q"];
    let text = picture("all", "access", &[&dd[..], &two[..]].concat());
    assert_eq!(labels(&text), ["noop on hdd-7200", "noop on null"]);
}

/// Does a picture with `:job` have a curve for each process of each run, and does a kind that
/// cannot have one get a refusal that says which can?
#[test]
fn processes_have_curves() {
    for kind in ["latency", "latency-histogram", "throughput", "iops"] {
        let text = picture("jobs", &format!("{kind}:job"), &SMALL);
        let expected: Vec<String> = ["noop", "deadline:fifo_batch=1"]
            .iter()
            .flat_map(|run| (0..4).map(move |clone| format!("{run}, reader.{clone}")))
            .collect();
        assert!(labels(&text).starts_with(&expected), "{kind}: {:?}", labels(&text));
    }
    let said = refusal(&["dd", "--size=1m", "--plot", "access:job=a.svg"]);
    let said = said.split_whitespace().collect::<Vec<&str>>().join(" ");
    let right = "a curve for each job is one of throughput, iops, latency, latency-histogram";
    assert!(said.contains(right), "{said}");
}

/// Does every built-in workload have pictures?
#[test]
fn built_in_workloads_have_pictures() {
    let tiotest = ["tiotest", "-t", "2", "-f", "1", "-r", "5", "-q", "--device=hdd-7200"];
    let tiobench = ["tiobench", "--threads=2", "--size=2", "--random=4", "-q", "--device=hdd-7200"];
    let disktest = ["disktest", "-T", "1", "-h", "1", "-K", "2", "-q", "/dev/sdb"];
    for (words, label) in [
        (&tiotest[..], "mq-deadline"),
        (&tiobench[..], "mq-deadline, 2 threads"),
        (&disktest[..], "mq-deadline"),
    ] {
        assert_eq!(labels(&picture(words[0], "queue-depth", words)), [label]);
    }
}

/// Is the mean for one reader, whose one request is in the device except for the 20 us before each,
/// below 1 and the maximum 1? (The device file's numbers decide how much below.)
#[test]
fn one_reader_has_one_request() {
    let words = ["run", "--name=a", "--rw=randread", "--direct=1", "--size=1m", "--number_ios=20"];
    let text = picture("one", "queue-depth", &[&words[..], &["--device=hdd-7200"]].concat());
    let document = roxmltree::Document::parse(&text).expect("well-formed");
    let said = document.descendants().find(|part| part.has_tag_name("desc"));
    let said = said.and_then(|part| part.text()).expect("a description");
    assert!(said.contains("mean 0.9") && said.contains("most 1,"), "{said}");
}

/// Is a picture written as PNG if the program can, twice as large as the SVG says, and does it
/// otherwise name the feature it needs, before anything runs?
#[test]
fn png_needs_its_feature() {
    let file = own_file("feature.png");
    let _gone = std::fs::remove_file(&file);
    let plot = format!("--plot=iops={}", file.display());
    let words = ["dd", "--size=1m", "-q", &plot];
    if cfg!(feature = "png") {
        let output = paternoster(&words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bytes = std::fs::read(&file).expect("the picture was written");
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
        // The head of the first chunk: 2 * 960 pixels across.
        assert_eq!(bytes[16..20], 1920_u32.to_be_bytes());
    } else {
        let said = refusal(&words);
        let said = said.split_whitespace().collect::<Vec<&str>>().join(" ");
        assert!(said.contains("build it with `--features png`, or name the file iops=….svg"));
        assert!(!file.exists());
    }
}

/// Does a refusal say what would be right, before anything runs?
#[test]
fn wrong_plots_are_refused() {
    let with = |plots: &[&str]| {
        let mut words = vec!["dd", "--size=1m"];
        plots.iter().for_each(|plot| words.extend(["--plot", plot]));
        refusal(&words)
    };
    let said = with(&["seeks=a.svg"]);
    let right = "there is no picture `seeks`; there are queue-depth, access, throughput, iops, \
                 latency, latency-histogram";
    // Lines of a message are broken where they are long.
    let said = said.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(said.contains(right), "{said}");
    assert!(with(&["access"]).contains("it is KIND=FILE.svg; kinds are queue-depth, access"));
    assert!(with(&["access=a.jpeg"]).contains("name the file access=….svg"));
    assert!(with(&["access=no/such/a.svg"]).contains("there is no folder no/such"));
    assert!(with(&["access=a.svg", "queue-depth=a.svg"]).contains("two pictures"));
}
