// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outputs without a reader: closed (`>&-`, `2>&-`), a pipe whose reader has gone (`| head -1`), a
//! full disk. Each command gets a short request, and a wrong one, with each output in each of these
//! ways.
//!
//! Laws: the program never panics (status 101) and no signal ends it; the fate of standard error
//! never changes its status; without a reader of its results it ends as it would with one; and
//! results that could not be written to a full disk are a failure.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::skipped;
use crate::serve_arguments::Scratch;

/// The fate of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Closed,
    Gone,
    Full,
}

use Way::{Closed, Full, Gone, Read};

/// The commands, split at spaces; `{…}` is a file of the test's.
const RIGHT: [&str; 32] = [
    "run --name=a --rw=randread --size=64k --device=ssd-870evo --scheduler=bfq",
    "run {job} --scheduler none --scheduler bfq --runtime 20ms --explain",
    "run {job} --scheduler none --output-format json --runtime 20ms",
    "compare {job} --seeds 1 --runtime 20ms --scheduler none --scheduler bfq",
    "compare {job} --seeds 1 --runtime 20ms --scheduler none --format json",
    "sweep {plan} --out {rows}",
    "examples",
    "examples jobs/recipes/database.fio",
    "examples --write {folder}",
    "devices",
    "devices ssd-870evo --format json",
    "schedulers",
    "schedulers bfq",
    "cost-model --device flash-card-2010",
    "startup --profile xterm --repeat 1 --device ssd-870evo --scheduler noop",
    "sysbench fileio --file-test-mode=rndwr --file-total-size=4M --file-num=1 --time=1 run",
    "tiotest --device ssd-870evo -f 1 -t 1",
    "tiobench --device ssd-870evo --size 16 --threads 1",
    "disktest -T 1 -r /dev/sdf --device ssd-870evo",
    "iostest bsr --filesize 1m --bs 4k --device ssd-870evo",
    "dd --files 1 --size 1m --device ssd-870evo",
    "replay {trace} --scheduler none --device ssd-870evo",
    "analyze {trace}",
    "analyze {trace} --format blkparse",
    "analyze {trace} --format csv",
    "record /nowhere",
    "completions bash",
    "completions fish",
    "man {folder}",
    "help run",
    "--help",
    "--version",
];
/// The same for what exists only with certain features.
#[cfg(all(feature = "serve", feature = "lab"))]
const FEATURES: [&str; 11] = [
    "serve {disk} --check",
    "serve {disk} --run true",
    "serve {nothing} --check",
    "ctl status --socket {nothing}",
    "top --socket {nothing}",
    "emulate ssd-870ev --mount {folder}",
    "reproduce no-such-thing",
    "scoreboard --device nowhere",
    "guarantees --scheduler nnoop",
    "torture --cases 1 --scheduler nnoop",
    "versus-kernel --device {nothing}",
];
#[cfg(not(all(feature = "serve", feature = "lab")))]
const FEATURES: [&str; 0] = [];

/// A folder with the files that the commands name.
struct Files(Scratch);

impl Files {
    fn new() -> Files {
        let files = Scratch::new();
        std::fs::create_dir(files.text("folder")).expect("a folder");
        let job = "[global]\ndirect=1\nioengine=libaio\niodepth=4\ntime_based\nruntime=1\n\
                   size=64m\nrw=randread\n[one]\n[two]\nbs=64k\n";
        std::fs::write(files.text("job"), job).expect("a job");
        // A write of 8 sectors: queued, issued, completed a millisecond later.
        let trace = "  8,0    0        1     0.000000000  1  Q   W 64 + 8 [cp]\n\
                     8,0    0        2     0.000001000  1  D   W 64 + 8 [cp]\n\
                     8,0    0        3     0.001001000  1  C   W 64 + 8 [0]\n";
        std::fs::write(files.text("trace"), trace).expect("a trace");
        let plan =
            format!("job,device,scheduler,runtime\n{},ssd-870evo,none,20ms\n", files.text("job"));
        std::fs::write(files.text("plan"), plan).expect("a plan");
        let _path = files.disk("disk");
        Files(files)
    }

    fn words(&self, line: &str) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix('{').and_then(|w| w.strip_suffix('}')) {
            Some(name) => self.0.text(name),
            None => word.to_owned(),
        };
        line.split(' ').map(word).collect()
    }
}

/// An output that takes nothing; closing is left to the shell.
fn to(way: Way) -> Stdio {
    match way {
        Read => Stdio::piped(),
        Closed => Stdio::null(),
        Gone => {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            writer.into()
        }
        Full => OpenOptions::new().write(true).open("/dev/full").expect("it opens").into(),
    }
}

fn done(words: &[String], out: Way, err: Way) -> Output {
    let close = |way, what| if way == Closed { what } else { "" };
    let line = format!("exec \"$@\" {} {}", close(out, ">&-"), close(err, "2>&-"));
    let mut command = Command::new("sh");
    command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_paternoster")]).args(words);
    command.env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null());
    command.stdout(to(out)).stderr(to(err)).output().expect("it starts")
}

/// How it ended, if not by a panic or a signal.
fn status(output: &Output) -> Result<i32, String> {
    match output.status.code() {
        Some(code @ (0..=2)) => Ok(code),
        Some(code) => Err(format!("ends with {code}")),
        None => Err(format!("ends by signal {:?}", output.status.signal())),
    }
}

/// Of standard output and of standard error.
type Ways = [(Way, Way)];

/// All fates of the two outputs, if it is not read.
const WAYS: &Ways = &[
    (Closed, Read),
    (Gone, Read),
    (Read, Closed),
    (Read, Gone),
    (Read, Full),
    (Closed, Closed),
    (Gone, Gone),
    (Full, Full),
];
/// The same for a command that only reports an error.
const WRONG: &Ways = &[(Closed, Closed), (Full, Full)];

/// Broken laws of a command.
fn faults(words: &[String], ways: &Ways) -> Vec<String> {
    let told = done(words, Read, Read);
    let usual = match status(&told) {
        Ok(usual) => usual,
        Err(why) => return vec![format!("{words:?}: {why}")],
    };
    let mut faults = Vec::new();
    for &(out, err) in ways {
        let lost = out == Full && !told.stdout.is_empty();
        let is_right = match status(&done(words, out, err)) {
            Ok(2) if lost => Ok(()),
            Ok(code) if code == usual && !lost => Ok(()),
            Ok(code) => Err(format!("ends with {code}, else with {usual}")),
            Err(why) => Err(why),
        };
        if let Err(why) = is_right {
            faults.push(format!("{words:?}, stdout {out:?}, stderr {err:?}: {why}"));
        }
    }
    faults
}

/// Does each command keep the laws, for requests that it can and cannot carry out?
#[test]
fn no_output_is_needed() {
    if !Path::new("/dev/full").exists() {
        return skipped("no /dev/full");
    }
    let files = Files::new();
    let lines: Vec<&str> = RIGHT.into_iter().chain(FEATURES).collect();
    let commands = commands();
    for command in &commands {
        let is_asked = lines.iter().any(|line| line.split(' ').next() == Some(command));
        assert!(is_asked || FEATURES.is_empty(), "no line asks for {command}");
    }
    let wrong = commands.iter().map(|command| format!("{command} --no-such-option"));
    let right = lines.iter().map(|line| (files.words(line), WAYS));
    let wrong = wrong.map(|line| (files.words(&line), WRONG));
    let all: Vec<(Vec<String>, &Ways)> = right.chain(wrong).collect();
    // Two at a time: most of the wait is for starts of the program.
    let found: Vec<String> = std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(2)).map(|part| {
            scope.spawn(|| {
                let each = part.iter().flat_map(|(words, ways)| faults(words, ways));
                each.collect::<Vec<String>>()
            })
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The names that the program's help lists.
fn commands() -> Vec<String> {
    let help = done(&["--help".to_owned()], Read, Read).stdout;
    let help = String::from_utf8(help).expect("text");
    let lists = help.split("\n\n").filter(|part| {
        part.lines().next().is_some_and(|head| head.ends_with(':') && !head.starts_with("Exam"))
            && !part.starts_with("Options:")
    });
    let mut commands = Vec::new();
    for line in lists.flat_map(|list| list.lines().skip(1)) {
        let Some(line) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) else {
            continue;
        };
        let names = line.split("  ").next().unwrap_or_default();
        commands.extend(names.split(", ").map(str::to_owned));
    }
    assert!(commands.len() > 15, "{commands:?}");
    commands
}

/// Does a server whose log has no reader serve, and end on request?
#[cfg(feature = "serve")]
#[test]
fn a_server_needs_no_output() {
    for (out, err) in [(Closed, Closed), (Gone, Gone), (Full, Full)] {
        let files = Files::new();
        let words = files.words("serve {disk} -v --socket {socket} --pidfile {pid}");
        let server = std::thread::spawn(move || done(&words, out, err));
        let socket = files.0.text("socket");
        let client = loop {
            match std::os::unix::net::UnixStream::connect(&socket) {
                Ok(client) => break client,
                Err(_) if server.is_finished() => panic!("{:?}", server.join()),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        };
        // The server greets with 18 bytes: NBDMAGIC, IHAVEOPT, two of flags.
        let mut greeting = [0; 18];
        std::io::Read::read_exact(&mut &client, &mut greeting).expect("a greeting");
        assert_eq!(&greeting[..8], b"NBDMAGIC");
        // Words that are not NBD: a line in the log.
        std::io::Write::write_all(&mut &client, &[0xff; 64]).expect("it reads");
        let pid = std::fs::read_to_string(files.0.text("pid")).expect("its number");
        let sent = Command::new("kill").args(["-TERM", pid.trim()]).status();
        assert!(sent.expect("kill is there").success());
        let ended = server.join().expect("no panic");
        assert_eq!(status(&ended), Ok(0), "stdout {out:?}, stderr {err:?}");
    }
}
