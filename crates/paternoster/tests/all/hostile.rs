// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile values: whatever value an option of any command is given, is there an answer?
//!
//! ```text
//! COMMAND --help ─▶ its options with values ─▶ one or two of them, with drawn values ─▶ run
//!     a result (0), or a refusal (1, 2) that names `--option` or quotes the value; never a panic
//! ```
//!
//! A value may ask for a year of work: a call that takes longer than [`PATIENCE`] gets what Ctrl-C
//! sends, and must end by it; that is no result, so the machine's speed decides nothing. Memory is
//! bounded, so that a size that is believed shows as an abort. All is done in a folder of its own,
//! and no value is the name of a device.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;

/// How long a call may take before it is interrupted, and then until it ends.
const PATIENCE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(60)];
/// Address space in KiB: a large run needs a tenth of it.
const MEMORY: u64 = 8 << 20;

/// Each command, with options that make it short, or that it refuses if it would act on the
/// machine.
const CALLS: [&str; 22] = [
    "run job.fio --device=ssd-870evo --no-entitlement -q",
    "compare job.fio --device=ssd-870evo --scheduler=none --seeds=1 -q",
    "tiotest -t 1 -f 1 -r 5 -q",
    "tiobench --size=2 --random=4 -q",
    "disktest -T 1 -h 1 /dev/sdb -q",
    "iostest drr --time=100ms --filesize=4m -q",
    "dd --files=1 --size=1m -q",
    "startup --profile=xterm -q",
    "sysbench fileio --file-test-mode=rndrw --events=50 --file-total-size=16m --file-num=2 -q run",
    "replay trace.csv --input-format=msr -q",
    "analyze trace.csv",
    "sweep plan.csv --out=results",
    "reproduce flash-fairness --list",
    "guarantees --scheduler=noop -q",
    "scoreboard --device=flash-card-2010 --workload=W1-8 --scheduler=none --seeds=1 \
     --settle=100ms --runtime=300ms -q",
    "torture --scheduler=noop --cases=1 -q",
    "devices ssd-870evo",
    "schedulers bfq",
    "examples",
    "serve nowhere.toml --check",
    "ctl --socket=nowhere.sock list",
    "emulate no-such-device",
];

/// The long options of a command that take a value.
fn options(command: &str) -> Vec<String> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    let help = program.args([command, "--help"]).output().expect("the program starts").stdout;
    let help = String::from_utf8(help).expect("text");
    let option = |line: &str| {
        let (name, value) = line.trim_start().rsplit_once("--")?.1.split_once([' ', '=', '['])?;
        let own = line.trim_start().starts_with('-') && value.contains('<');
        own.then(|| name.to_owned())
    };
    help.lines().filter_map(option).collect()
}

fn prepare(folder: &Path) {
    fs::create_dir_all(folder).expect("made");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
    write("job.fio", "[pg]\nrw=randread\nbs=4k\nsize=64k\nruntime=20ms\ndirect=1\n");
    write("trace.csv", "128166372003061629,usr,0,Read,7014609920,24576,41286\n");
    write("plan.csv", "job,device\n\"[a]\nrw=read\nsize=64k\n\",null\n");
}

/// How a call ended, and what it said.
fn ended(folder: &Path, words: &[String]) -> Result<(Option<i32>, String), String> {
    let said = folder.join("said");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {MEMORY}; exec \"$@\"")).arg("sh");
    command.arg(env!("CARGO_BIN_EXE_paternoster")).args(words).current_dir(folder);
    command.env("PATERNOSTER_CONTROL", "nowhere.sock");
    let stderr = File::create(&said).expect("made");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    let mut interrupted = false;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        if !interrupted && begun.elapsed() > PATIENCE[0] {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
            interrupted = true;
        }
        if begun.elapsed() > PATIENCE[0] + PATIENCE[1] {
            child.kill().expect("it runs");
            let _status = child.wait();
            return Err("it does not end by Ctrl-C".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = String::from_utf8_lossy(&fs::read(said).expect("it is there")).into_owned();
    // A command that hears no Ctrl-C by itself ends by the signal.
    if interrupted && status.code().is_none() {
        return Ok((Some(130), said));
    }
    Ok((status.code(), said))
}

/// Whether a message names an option, or has its value in quotes; a value that no sentence has by
/// chance (`1/0`, `../..`, long numbers) may stand alone. A letter or a word of it somewhere is not
/// enough: `1`, `-` and `size` are in nearly any message.
fn is_named(said: &str, option: &str, value: &str) -> bool {
    let is_end = |rest: &str| {
        !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '-')
    };
    let name = format!("--{option}");
    let is_option = said.match_indices(&name).any(|(at, _)| is_end(&said[at + name.len()..]));
    let begin = |text: &str| text.chars().take(8).collect::<String>();
    let begin = if value.trim().is_empty() { begin(value) } else { begin(value.trim()) };
    let is_quoted = ["`", "'", "\""].iter().any(|quote| said.contains(&format!("{quote}{begin}")));
    let is_odd = begin.chars().filter(|letter| letter.is_alphanumeric()).count() > 1
        && begin.chars().any(|letter| !letter.is_alphanumeric())
        || begin.chars().count() == 8
        || begin.chars().count() > 2 && begin.chars().all(|letter| !letter.is_alphanumeric());
    is_option || !begin.is_empty() && (is_quoted || is_odd && said.contains(&begin))
}

/// Does this law fail for messages that name another option, or in which the value only happens to
/// be?
#[test]
fn a_message_must_name_what_it_refuses() {
    assert!(is_named("--size 1q: no size", "size", "1q"));
    assert!(is_named("there is no scheduler `nop`", "scheduler", "nop"));
    assert!(is_named("there is no section ` `", "section", " "));
    assert!(is_named("device file 1/0: no such file", "device", "1/0"));
    for (said, option, value) in [
        ("--size 1q: no size", "seed", "1"),
        ("the file's size is 10 bytes", "size", "1"),
        ("--time-based is not known", "time", "-"),
        ("job.fio:1: an error", "jobs", ":"),
    ] {
        assert!(!is_named(said, option, value), "{said}");
    }
}

/// What is wrong with how a call ended.
fn judged(
    folder: &Path,
    words: &[String],
    drawn: &[(String, String)],
    results: &Cell<u32>,
) -> Result<(), String> {
    let (status, said) = ended(folder, words)?;
    let named = || drawn.iter().any(|(option, value)| is_named(&said, option, value));
    // Commands that would act on the machine are refused for a word of their own, alone.
    let own = |said: &str| {
        let word = ["nowhere.toml", "nowhere.sock", "no-such-device"].into_iter();
        let mut word = word.filter(|word| words.iter().any(|given| given.ends_with(word)));
        word.any(|word| said.contains(word))
    };
    match status {
        _ if said.contains("panicked at") || said.contains("a bug, in") => Err(said),
        Some(0) => {
            results.set(results.get() + 1);
            Ok(())
        }
        Some(130) => Ok(()),
        Some(1 | 2) if said.trim().is_empty() => Err("it says nothing".to_owned()),
        // A job that failed, a law that does not hold: what it asked for was begun.
        Some(1) => Ok(()),
        Some(2) if named() || own(&said) => Ok(()),
        other => Err(format!("{other:?}: {said}")),
    }
}

fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (-3_i64..70_000).prop_map(|number| number.to_string()),
        prop::sample::select(
            &["18446744073709551616", "1e308", "-1e-9", "NaN", "inf", "-0", "0"][..]
        )
        .prop_map(str::to_owned),
    ];
    let unit =
        prop::sample::select(&["", "", "k", "g", "TiB", "us", "ms", "s", "h", "%", " s"][..]);
    let odd = [
        "",
        " ",
        "-",
        "--",
        "=",
        ",",
        ":",
        ";",
        "a=b",
        "1:2:3",
        "%s%n",
        "../..",
        "\u{1b}[2J",
        "\n",
        "é",
        "日本語",
        "\u{202e}x",
        "'",
        "\"",
        "$(true)",
        "*",
        "none,none",
        "bfq:",
        "bfq:=",
        ":::",
        "bfq:slice_idle=9999999999999",
        "pg p99<",
        "pg p99<5ms",
        "p99<-1",
        "W1-999",
        "1/0",
        "0:0",
    ];
    // What may be right: most of these are refused by some options and taken by others.
    let plain = prop::sample::select(&["", "ms", "k", "%", "us", ":3", "=1"][..]);
    let word = ["none", "bfq", "null", "noop", "csv", "json", "x", "0:1", "1/2", "read", "random"];
    prop_oneof![
        4 => (1_u32..20, plain).prop_map(|(number, unit)| format!("{number}{unit}")),
        3 => prop::sample::select(word.to_vec()).prop_map(str::to_owned),
        4 => (number, unit).prop_map(|(number, unit)| number + unit),
        4 => prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
        2 => "[a-z]{1,9}",
        1 => "\\PC{1,12}",
        1 => (1_usize..5000).prop_map(|length| "9".repeat(length)),
    ]
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(160)
}

/// Has whichever option of whichever command, with whatever value, an answer: a result, or a
/// refusal that names it; and never a panic, an abort, or a call that does not end by Ctrl-C?
#[test]
fn whatever_is_asked_has_an_answer() {
    let folder = std::env::temp_dir().join(format!("paternoster-hostile-{}", std::process::id()));
    let known: Vec<(&str, Vec<String>)> = CALLS
        .iter()
        .map(|call| (*call, options(call.split(' ').next().expect("a command"))))
        .collect();
    for (call, options) in &known {
        assert!(!options.is_empty(), "{call}: its help has no options");
    }
    let call = (0..known.len()).prop_flat_map(move |place| {
        let (call, options) = known[place].clone();
        let one = (prop::sample::select(options), value());
        (Just(call), prop::collection::vec(one, 1..3))
    });
    let config = ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 40,
        ..ProptestConfig::default()
    };
    let results = Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let found = runner.run(&call, |(call, drawn)| {
        let _absent = fs::remove_dir_all(&folder);
        prepare(&folder);
        let given = drawn.iter().map(|(option, value)| format!("--{option}={value}"));
        let own = call.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
        // A drawn value takes the place of the call's own.
        let is_drawn = |word: &String| {
            let option = word.trim_start_matches("--").split('=').next().unwrap_or("");
            word.starts_with("--") && drawn.iter().any(|(name, _)| name == option)
        };
        let mut words: Vec<String> = own.filter(|word| !is_drawn(word)).collect();
        words.splice(1..1, given);
        if words.iter().any(|word| word.contains('\0')) {
            return Ok(());
        }
        judged(&folder, &words, &drawn, &results).map_err(|why| {
            let mut all = std::io::stderr().lock();
            let _unheard = writeln!(all, "{words:?}: {why}");
            TestCaseError::fail(format!("{words:?}: {why}"))
        })
    });
    let _absent = fs::remove_dir_all(&folder);
    if let Err(error) = found {
        panic!("{error}");
    }
    // Not everything is refused; otherwise only the reader of options would have been tested.
    let (results, least) = (results.get(), cases() / 25);
    println!("{results} results among {} calls", cases());
    assert!(results >= least, "{results} results among {} calls", cases());
}
