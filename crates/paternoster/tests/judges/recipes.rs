// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is each table of docs/which-scheduler.md, docs/found.md and docs/learn.md what its command
//! prints, and each picture of a lesson what its command draws?
//!
//! A page holds the commands: the text between a command's block and `<!-- end -->` is its output.
//! `PATERNOSTER_WRITE_TABLES=1` rewrites the pages instead:
//!
//! ```text
//! PATERNOSTER_WRITE_TABLES=1 cargo test --release -p paternoster --test judges -- recipes::
//! ```

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::too_slow;

const COMMAND: &str = "```\npaternoster ";
const BEHIND: &str = "\n```\n\n";
const END: &str = "<!-- end -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Words of a command line, which a `\` at its end continues; text between two `'` is one word.
fn words(line: &str) -> Vec<String> {
    let mut all = Vec::new();
    let line = line.replace("\\\n", " ");
    for (nth, part) in line.split('\'').enumerate() {
        if nth % 2 == 1 {
            all.push(part.to_owned());
        } else {
            all.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    all
}

/// What the program prints, given the words of `line` and `more`.
fn printed(line: &str, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.args(words(line)).args(more);
    let output = command.current_dir(root()).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Judges a page of `docs`, or rewrites it, with `show` for a command's output; returns the number
/// of its commands.
fn judge(name: &str, show: impl Fn(&str) -> String) -> usize {
    let path = root().join("docs").join(name);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let mut parts = page.split(COMMAND);
    let mut made = parts.next().expect("what is before the first command").to_owned();
    let mut commands = 0;
    for part in parts {
        let (line, rest) = part.split_once(BEHIND).expect("a command's block ends");
        let (_, behind) = rest.split_once(END).expect("a table ends");
        made += &format!("{COMMAND}{line}{BEHIND}{}\n{END}{behind}", show(line));
        commands += 1;
    }
    if std::env::var_os("PATERNOSTER_WRITE_TABLES").is_some() {
        std::fs::write(&path, made).expect("the page can be written");
    } else {
        assert!(page == made, "run it with PATERNOSTER_WRITE_TABLES=1 and look at what differs");
    }
    commands
}

fn files(folder: &str) -> usize {
    std::fs::read_dir(root().join("jobs").join(folder)).expect("the jobs").count()
}

/// Does the page of recipes show real output, and has each of the seven its job file?
#[test]
fn recipes_show_real_output() {
    if too_slow() {
        return;
    }
    let show = |line: &str| printed(line, &["-q", "--format", "markdown"]);
    assert_eq!((judge("which-scheduler.md", show), files("recipes")), (7, 7));
}

/// Does the page of faults show what the program says today, and has each of its commands a job?
/// Twelve jobs, and a device of its own.
#[test]
fn found_faults_show_real_output() {
    if too_slow() {
        return;
    }
    let show = |line: &str| printed(line, &["-q", "--format", "markdown"]);
    assert_eq!((judge("found.md", show), files("found")), (12, 13));
}

/// The picture of each lesson: which of the page's commands it belongs to, and what it shows.
const PICTURES: [(usize, &str); 5] = [
    (0, "access"),
    (1, "throughput:job"),
    (2, "latency:job"),
    (4, "throughput:job"),
    (5, "throughput:job"),
];

/// Do the lessons show real output, and are their pictures those of their commands? Five jobs, one
/// of them run twice.
#[test]
fn lessons_show_real_output() {
    let (nth, pictures) = (Cell::new(0), Cell::new(0));
    let show = |line: &str| {
        let command = nth.replace(nth.get() + 1);
        let picture = PICTURES.iter().position(|(of, _)| *of == command);
        let Some(lesson) = picture else {
            return format!("```text\n{}```\n", printed(line, &["-q"]));
        };
        pictures.set(pictures.get() + 1);
        let drawn = format!("{}/learn-{}.svg", env!("CARGO_TARGET_TMPDIR"), lesson + 1);
        let plot = format!("--plot={}={drawn}", PICTURES[lesson].1);
        let told = printed(line, &["-q", &plot]);
        judge_picture(Path::new(&drawn), lesson + 1);
        format!("```text\n{told}```\n")
    };
    assert_eq!((judge("learn.md", show), files("learn")), (6, 5));
    assert_eq!(pictures.get(), 5);
}

/// Is a lesson's picture in the documents the one that was drawn? Rewritten as pages are.
fn judge_picture(drawn: &Path, lesson: usize) {
    let kept = root().join(format!("docs/plots/learn-{lesson}.svg"));
    let drawn = std::fs::read(drawn).expect("it was drawn");
    if std::env::var_os("PATERNOSTER_WRITE_TABLES").is_some() {
        std::fs::write(&kept, &drawn).expect("the picture can be written");
    }
    let kept = std::fs::read(&kept).unwrap_or_default();
    assert!(kept == drawn, "learn-{lesson}.svg: run it with PATERNOSTER_WRITE_TABLES=1, and look");
}
