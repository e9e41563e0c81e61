// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats: does what every command prints parse as what `--format` says it is?
//!
//! ```text
//! commands × (json, csv, markdown, html, table, parquet)   all pairs, and drawn misspellings
//! ```
//!
//! The readers are strict where a mistake of ours would show: CSV by RFC 4180, tables of Markdown
//! with their rule, tags of HTML in pairs.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use proptest::prelude::*;
use serde_json::Value;

use crate::results::wrong as wrong_in;

const FORMATS: [&str; 6] = ["json", "csv", "markdown", "html", "table", "parquet"];

/// One call of each command that tells results; `{t}` is a trace that was made before. A server's
/// answers are in `ctl.rs`; versus-kernel needs a kernel to compare with.
const CALLS: [&str; 21] = [
    "run --name=a,b --rw=randwrite --fdatasync=1 --size=64k --device=ssd-870evo --scheduler=bfq \
     --scheduler=none --direct=1 -q",
    "compare jobs/recipes/database.fio --device=ssd-870evo --scheduler=none --runtime=20ms \
     --seeds=1 -q --goal=pg-read|p99<5ms",
    "tiotest -t 2 -f 1 -r 5 --device=hdd-7200 -q",
    "tiobench --threads=1,2 --size=2 --random=4 --device=hdd-7200 -q",
    "disktest -T 1 -h 1 -K 2 /dev/sdb --device=hdd-7200 -q",
    "iostest drr --jobs=1,2 --time=100ms --filesize=4m --device=hdd-7200 -q",
    "dd --files=2 --size=1m --device=hdd-7200 -q",
    "startup --profile=xterm --device=ssd-870evo -q",
    "startup --list",
    "sysbench fileio --file-test-mode=rndrw --events=100 --file-total-size=64m --file-num=4 -q run",
    "replay {t} --scheduler=bfq --scheduler=noop -q",
    "analyze {t} {t}",
    "reproduce flash-fairness -q",
    "reproduce --list",
    "guarantees --scheduler=noop -q",
    "scoreboard --device=flash-card-2010 --workload=W1-8 --scheduler=none --seeds=1 \
     --settle=100ms --runtime=300ms -q",
    "torture --scheduler=noop --cases=2 -q",
    "devices",
    "devices ssd-870evo",
    "schedulers",
    "schedulers bfq",
];

fn program(words: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(words).stdin(Stdio::null()).output().expect("the program starts")
}

fn words(call: &str, trace: &str, format: &str) -> Vec<String> {
    let word = |word: &str| word.replace("{t}", trace).replace('|', " ");
    call.split(' ')
        .filter(|word| !word.is_empty())
        .map(word)
        .chain([format!("--format={format}")])
        .collect()
}

/// The records of CSV; what is no CSV is told.
pub(crate) fn csv(text: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut all, mut record, mut cell, mut quoted) = (vec![], vec![], String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quoted) {
            ('"', true) if letters.next_if_eq(&'"').is_some() => cell.push('"'),
            ('"', true) => {
                quoted = false;
                if !matches!(letters.peek(), None | Some(',' | '\n')) {
                    return Err(format!("record {}: letters behind a quoted cell", all.len()));
                }
            }
            ('"', false) if cell.is_empty() => quoted = true,
            ('"', false) => return Err(format!("record {}: a quote in a bare cell", all.len())),
            (',', false) => record.push(std::mem::take(&mut cell)),
            ('\n', false) => {
                record.push(std::mem::take(&mut cell));
                all.push(std::mem::take(&mut record));
            }
            (letter, _) => cell.push(letter),
        }
    }
    let ends = cell.is_empty() && record.is_empty() && !quoted;
    let width = all.first().map_or(0, Vec::len);
    match all.iter().position(|record| record.len() != width) {
        _ if !ends => Err("the last line has no end".to_owned()),
        Some(place) => Err(format!("record {place} has {} cells of {width}", all[place].len())),
        None if all.len() < 2 => Err("no line but the head".to_owned()),
        None if all[0].iter().collect::<BTreeSet<_>>().len() < width => {
            Err(format!("two columns of one name: {:?}", all[0]))
        }
        None => Ok(all),
    }
}

/// Fails if lines that look like a table of Markdown are none.
pub(crate) fn markdown(text: &str) -> Result<(), String> {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count() - 1;
    let lines: Vec<&str> = text.lines().collect();
    let mut tables = 0;
    for block in lines.chunk_by(|a, b| a.starts_with('|') == b.starts_with('|')) {
        if !block[0].starts_with('|') {
            continue;
        }
        tables += 1;
        let rule = block.get(1).ok_or("a table of one line")?;
        if rule.chars().any(|letter| !"|-: ".contains(letter)) {
            return Err(format!("no rule below its head: {rule}"));
        }
        if let Some(line) = block.iter().find(|line| cells(line) != cells(block[0])) {
            return Err(format!("{} cells, the head {}: {line}", cells(line), cells(block[0])));
        }
    }
    if tables == 0 { Err("there is no table".to_owned()) } else { Ok(()) }
}

/// Tags that are not in pairs, and addresses that need a network.
pub(crate) fn html(text: &str) -> Result<(), String> {
    const ALONE: [&str; 6] = ["meta", "br", "hr", "input", "link", "img"];
    if !text.to_lowercase().starts_with("<!doctype html>") {
        return Err("it begins otherwise".to_owned());
    }
    let mut open: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if rest.starts_with('!') {
            continue;
        }
        let end = rest.find('>').ok_or("a tag has no end")?;
        let (tag, closes, alone) =
            (rest[..end].to_owned(), rest.starts_with('/'), rest[..end].ends_with('/'));
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/');
        let name = name.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or("");
        let name = name.to_lowercase();
        match () {
            () if closes && open.pop().as_deref() != Some(&name) => {
                return Err(format!("</{name}> ends nothing; open are {open:?}"));
            }
            () if closes || alone || ALONE.contains(&&*name) => {}
            () => {
                if matches!(&*name, "script" | "style") {
                    let behind = rest.find(&format!("</{name}")).ok_or("a script has no end")?;
                    rest = &rest[behind..];
                }
                open.push(name);
            }
        }
    }
    // Where an end may be left out by the standard.
    open.retain(|name| !["p", "li", "td", "tr", "th", "html", "body"].contains(&&**name));
    if open.is_empty() { Ok(()) } else { Err(format!("never ended: {open:?}")) }
}

/// The same rows and columns as the lines.
#[cfg(feature = "parquet")]
fn parquet(bytes: &[u8], lines: &[Vec<String>]) -> Result<(), String> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let file = std::env::temp_dir().join(format!("paternoster-{}.parquet", std::process::id()));
    std::fs::write(&file, bytes).expect("written");
    let opened = std::fs::File::open(&file).expect("it is there");
    let reader = SerializedFileReader::new(opened).map_err(|error| error.to_string())?;
    std::fs::remove_file(&file).expect("it is there");
    let rows: Vec<_> = reader.get_row_iter(None).map_err(|error| error.to_string())?.collect();
    if rows.len() + 1 != lines.len() {
        return Err(format!("{} rows of {}", rows.len(), lines.len() - 1));
    }
    for (row, line) in rows.into_iter().zip(&lines[1..]) {
        let row = row.map_err(|error| error.to_string())?;
        let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        if names != lines[0].iter().collect::<Vec<_>>() {
            return Err(format!("columns {names:?}"));
        }
        for ((name, cell), text) in row.get_column_iter().zip(line) {
            let told = cell.to_string();
            // Only what is real may be written in another way: digits of others must be there.
            let same = match cell {
                parquet::record::Field::Double(told) => text.parse() == Ok(*told),
                _ => told.trim_matches('"') == *text || text.is_empty() && told == "null",
            };
            if !same {
                return Err(format!("{name}: {told} is not {text}"));
            }
        }
    }
    Ok(())
}

/// Without the feature there is nothing to read.
#[cfg(not(feature = "parquet"))]
fn parquet(_: &[u8], _: &[Vec<String>]) -> Result<(), String> {
    Err("this program has no Parquet".to_owned())
}

/// Does what each command prints parse as what it was asked for, with equal columns in all lines,
/// the same rows as columns, and keys that the schema has? Where Parquet was left out, is it
/// refused with how it can be had?
#[test]
fn what_is_printed_is_what_was_asked_for() {
    let trace = std::env::temp_dir().join(format!("paternoster-formats-{}", std::process::id()));
    let trace = trace.to_str().expect("text");
    let made = "run --name=a --rw=randrw --size=64k --device=ssd-870evo --direct=1 -q";
    let made = words(&format!("{made} --trace={trace}"), "", "json");
    assert!(program(&made).status.success());
    let mut wrong = Vec::new();
    for call in CALLS {
        let mut lines = Vec::new();
        for format in FORMATS {
            let output = program(&words(call, trace, format));
            let said = String::from_utf8_lossy(&output.stderr);
            let mut told = |why: String| wrong.push(format!("{call} --format={format}: {why}"));
            if format == "parquet" && !cfg!(feature = "parquet") {
                if output.status.code() != Some(2) || !said.contains("--features parquet") {
                    told(format!("{:?}, {said}", output.status));
                }
                continue;
            }
            // A published figure that is outside, or a broken law, is a result all the same.
            if output.status.code().is_none_or(|status| status > 1) {
                told(format!("{:?}, {said}", output.status));
                continue;
            }
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let parsed = match format {
                "json" => serde_json::from_str::<Value>(&text)
                    .map_err(|error| error.to_string())
                    .and_then(|document| match wrong_in(&document) {
                        none if none.is_empty() => Ok(()),
                        some => Err(some[..some.len().min(3)].join("\n")),
                    }),
                "csv" => csv(&text).map(|found| lines = found),
                "markdown" => markdown(&text),
                "html" => html(&text),
                "parquet" => parquet(&output.stdout, &lines),
                _ if text.trim().is_empty() => Err("nothing".to_owned()),
                _ => Ok(()),
            };
            if let Err(why) = parsed {
                told(why);
            }
        }
    }
    for cpu in 0..4 {
        let _absent = std::fs::remove_file(format!("{trace}.blktrace.{cpu}"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Do these readers see what is wrong?
#[test]
fn the_readers_refuse() {
    for wrong in ["a,b\n1\n", "a,b\n1,2", "a\n", "a,a\n1,2\n", "a\n\"x\"y\n", "a\nx\"y\n"] {
        assert!(csv(wrong).is_err(), "{wrong}");
    }
    assert_eq!(csv("a,b\n\"x,\"\"y\n\",\n").expect("it is").last().unwrap(), &["x,\"y\n", ""]);
    for wrong in ["no table", "| a |\n", "| a |\n| b |\n", "| a |\n| --- |\n| b | c |\n"] {
        assert!(markdown(wrong).is_err(), "{wrong}");
    }
    for wrong in ["<p>", "<!doctype html><b>", "<!doctype html><b></i></b>"] {
        assert!(html(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Is any word that is no format refused by whichever command, before it does anything, with
    /// the word and the known ones?
    #[test]
    fn other_words_are_refused(
        call in prop::sample::select(&CALLS[..]),
        word in "[a-zé%_]{1,12}",
    ) {
        prop_assume!(!FORMATS.contains(&&*word) && word != "report");
        prop_assume!(!["btt", "blkparse", "frontier", "kept", "sysbench"].contains(&&*word));
        let output = program(&words(call, "/nowhere", &word));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        prop_assert_eq!(output.status.code(), Some(2), "{}", said);
        let expected = format!("--format {word}: there is no such format");
        prop_assert!(said.contains(&expected) && said.contains("markdown"), "{}", said);
        prop_assert!(output.stdout.is_empty());
    }
}
