// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tidiness should not take up reviews: this test reads the tree.
//!
//! Every source file opens with its licence and an essay, lines have at most 100 columns, no
//! unfinished work is left, unsafe code gives its reason, files keep to one concept's length, every
//! module is part of a crate, and the targets of documents exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use paternoster_core::{DeviceFacts, RequestQueue};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const COLUMNS: usize = 100;
const DOCUMENT_COLUMNS: usize = 112;
/// Lines before a file's tests. A file that needs more must earn it by being one thing.
const LINES: usize = 700;

/// Every file of the project with one of these endings, in the order of their names.
pub(crate) fn files(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(Path::new(ROOT), &mut found);
    found.sort();
    let wanted = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        endings.contains(&ending)
    };
    let read = |path: PathBuf| fs::read_to_string(&path).map(|text| (path, text));
    found.into_iter().filter(wanted).map(read).collect::<Result<_, _>>().expect("readable")
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let skipped = name.starts_with("target") || name == ".git" || name == "corpus";
        match entry.path() {
            _ if skipped => {}
            path if path.is_dir() => collect(&path, found),
            path => found.push(path),
        }
    }
}

/// The complaints of a check over some files, each with its place.
fn complaints(
    files: &[(PathBuf, String)],
    check: impl Fn(&Path, &str) -> Vec<(usize, String)>,
) -> Vec<String> {
    let root = Path::new(ROOT);
    let mut all = Vec::new();
    for (path, text) in files {
        let shown = path.strip_prefix(root).unwrap_or(path).display();
        all.extend(check(path, text).iter().map(|(line, what)| format!("{shown}:{line}: {what}")));
    }
    all
}

fn lines_with(text: &str, what: impl Fn(&str) -> Option<String>) -> Vec<(usize, String)> {
    let numbered = text.lines().enumerate();
    numbered.filter_map(|(place, line)| Some((place + 1, what(line)?))).collect()
}

/// Does every source file open with the licence and an essay on what it is?
#[test]
fn files_open_with_licence_and_essay() {
    let found = complaints(&files(&["rs"]), |_, text| {
        let mut lines = text.lines();
        let licence = lines.next() == Some("// SPDX-License-Identifier: MIT OR Apache-2.0");
        let essay = lines.next().is_some_and(|line| line.starts_with("//! "));
        if licence && essay { vec![] } else { vec![(1, "no licence or no essay".to_owned())] }
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// A page without program output, which has its own width.
fn without_output(text: &str) -> String {
    let mut is_output = false;
    let lines = text.lines().map(|line| {
        is_output = line == "```text" || is_output && line != "```";
        if is_output { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Has every line at most 100 columns (documents 112), and none a blank at its end or a tab?
#[test]
fn lines_are_short() {
    let found = complaints(&files(&["rs", "md", "toml", "fio"]), |path, text| {
        let text = &without_output(text);
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let table = ending != "rs";
        let most = if ending == "md" { DOCUMENT_COLUMNS } else { COLUMNS };
        lines_with(text, |line| {
            let columns = line.chars().count();
            // Tables and device files have their own width.
            let free = table && (line.contains('|') || line.contains("source ="))
                || line.contains("http")
                || path.ends_with("Cargo.lock");
            if columns > most && !free && !line.starts_with("summary") && !line.starts_with("valid")
            {
                return Some(format!("{columns} columns"));
            }
            (line.ends_with(' ') || line.contains('\t'))
                .then(|| "a tab, or a blank at its end".to_owned())
        })
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// Is no unfinished work left?
#[test]
fn no_work_in_progress() {
    let banned = ["FIX", "ME"].concat();
    let words =
        [&banned, &["TO", "DO"].concat(), &["db", "g!("].concat(), &["to", "do!("].concat()];
    let found = complaints(&files(&["rs", "md", "toml"]), |_, text| {
        lines_with(text, |line| {
            words.iter().find(|word| line.contains(**word)).map(|w| (*w).clone())
        })
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// Are clients and processes things in what users read, with no archaic words? (A person may be
/// "he": the pages on mails are exempt for that word.)
#[test]
fn documents_speak_plainly() {
    let found = complaints(&files(&["md"]), |path, text| {
        let page = path.strip_prefix(ROOT).unwrap_or(path);
        let is_page = page.starts_with("docs") && !page.starts_with("docs/rules");
        if !(is_page || page.ends_with("README.md")) {
            return Vec::new();
        }
        let on_mails = page.starts_with("docs/seeds");
        lines_with(&without_output(text), |line| odd_word(line, on_mails))
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// The first word of a line that plain English has not; `persons` may be "he".
fn odd_word(line: &str, persons: bool) -> Option<String> {
    let odd = |word: &str| match word {
        "whoever" | "Whoever" | "himself" | "nobody" | "Nobody" | "somebody" | "Somebody" => true,
        "he" | "He" | "his" | "him" => !persons,
        _ => false,
    };
    let mut words = line.split(|c: char| !c.is_ascii_alphabetic());
    let odd = words.find(|word| odd(word)).map(|word| format!("`{word}`"));
    odd.or_else(|| line.contains(". Who ").then(|| "a sentence with `Who`".to_owned()))
}

/// The same in comments. Experiments are of mails, which persons wrote.
#[test]
fn comments_speak_plainly() {
    let found = complaints(&files(&["rs"]), |path, text| {
        // These two name the words.
        let names_them =
            path.ends_with("tests/all/tidy.rs") || path.ends_with("tests/all/words.rs");
        let persons = ["experiments", "reproduce"]
            .iter()
            .any(|of| path.components().any(|part| part.as_os_str() == *of));
        lines_with(text, |line| {
            comment(line).filter(|_| !names_them).and_then(|at| odd_word(&line[at..], persons))
        })
    });
    assert!(found.is_empty(), "{} lines: {found:#?}", found.len());
}

/// Files of other projects, and a placeholder, that comments name.
const ELSEWHERE: [&str; 3] = ["doc/proto.md", "doc/uri.md", "NAME.rs"];

/// Is every file that a comment or a page names there? A name is a path's end: `bfq/tags.rs`. (The
/// change log speaks of files as they were.)
#[test]
fn named_files_exist() {
    let all = files(&["rs", "md", "sh"]);
    let mut ends = BTreeSet::new();
    for (path, _) in &all {
        let path = path.strip_prefix(ROOT).unwrap_or(path).to_string_lossy().into_owned();
        let starts = path.match_indices('/').map(|(at, _)| at + 1).chain([0]);
        ends.extend(starts.map(|at| path[at..].to_owned()).collect::<Vec<_>>());
    }
    let found = complaints(&all, |path, text| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_code = match ending {
            Some("rs") => true,
            Some("md") => false,
            _ => return Vec::new(),
        };
        if path.ends_with("CHANGELOG.md") {
            return Vec::new();
        }
        lines_with(text, |line| {
            let line = if is_code { &line[comment(line)?..] } else { line };
            let lost = names(line).find(|name| !ends.contains(*name) && !ELSEWHERE.contains(name));
            lost.map(|name| format!("no file `{name}`"))
        })
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// Where a line's comment begins.
fn comment(line: &str) -> Option<usize> {
    line.find("// ").or_else(|| line.find("//! ")).or_else(|| line.find("/// "))
}

/// The names of sources, pages and scripts in a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-');
    let whole = move |(at, word): (usize, &'_ str)| {
        !line[..at].ends_with(['{', '<', '*', ':', '$', '>', '}']) && !word.starts_with(['/', '-'])
    };
    let words = line.split(move |c| !is_part(c));
    let placed = words.map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word));
    placed.filter(move |&it| whole(it)).filter_map(|(_, word)| {
        let word = word.trim_end_matches('.').trim_start_matches("../").trim_start_matches("./");
        let (stem, ending) = word.rsplit_once('.')?;
        let named = !stem.is_empty() && !stem.starts_with('.') && !stem.ends_with('/');
        (named && matches!(ending, "rs" | "md" | "sh")).then_some(word)
    })
}

/// Does every unsafe block say why it is sound, and is there none in the crates that forbid it?
#[test]
fn unsafe_code_gives_its_reason() {
    let found = complaints(&files(&["rs"]), |_, text| {
        let lines: Vec<&str> = text.lines().collect();
        let mut bad = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let uses = ["{", "impl"].iter().any(|what| code.contains(&["unsafe", what].join(" ")));
            let before = &lines[place.saturating_sub(4)..place];
            if uses && !before.iter().any(|line| line.contains("SAFETY:")) {
                bad.push((place + 1, "unsafe without a reason".to_owned()));
            }
        }
        bad
    });
    assert!(found.is_empty(), "{found:#?}");
    let names = [
        "base",
        "core",
        "disk",
        "frame",
        "gate",
        "lab",
        "measure",
        "schedulers",
        "sim",
        "trace",
        "workload",
    ];
    for name in names.map(|name| format!("paternoster-{name}")) {
        let file = Path::new(ROOT).join("crates").join(&name).join("src/lib.rs");
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{name}");
    }
}

/// Does no part of the queue know the queue? A part owns its state and gets what it needs; the
/// queue acts.
#[test]
fn parts_of_the_queue_do_not_know_it() {
    let core = Path::new(ROOT).join("crates/paternoster-core/src");
    let folders = [core.join("block"), core.join("flush")];
    let mut parts = 0;
    let is_part = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    for (path, text) in files(&["rs"]).iter().filter(|(path, _)| is_part(path)) {
        let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
        let named = code.filter(|code| code.contains("RequestQueue")).count();
        assert_eq!(named, 0, "{}", path.display());
        parts += 1;
    }
    assert!(parts >= 12, "there were twelve");
}

/// Is every file one concept long?
#[test]
fn files_are_one_concept_long() {
    let found = complaints(&files(&["rs"]), |path, text| {
        let tests = path.components().any(|part| part.as_os_str() == "tests");
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        if tests || lines <= LINES { vec![] } else { vec![(lines, "too long".to_owned())] }
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// Is every module named by its parent? A file that no module names is dead.
#[test]
fn no_dead_files() {
    let sources = files(&["rs"]);
    // What `mod NAME;` and `path = "NAME.rs"` name, and in which file.
    let mut names: BTreeMap<&str, BTreeSet<&Path>> = BTreeMap::new();
    for (path, text) in &sources {
        let modules = text.split("mod ").skip(1).filter_map(|rest| rest.split_once(';'));
        let paths = text.split(".rs\"]").filter_map(|before| before.rsplit(['/', '"']).next());
        for name in modules.map(|(name, _)| name).chain(paths) {
            names.entry(name).or_default().insert(path);
        }
    }
    let found = complaints(&sources, |path, _| {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let folder = path.parent().unwrap();
        let is_root = ["main", "lib", "mod"].contains(&stem.as_str())
            || ["tests", "benches", "examples", "fuzz_targets"]
                .iter()
                .any(|name| folder.ends_with(name));
        let named_by = names.get(stem.as_str());
        if is_root || named_by.is_some_and(|files| files.iter().any(|other| *other != path)) {
            vec![]
        } else {
            vec![(1, "no file names this module".to_owned())]
        }
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// Does every relative link of a document lead somewhere, and none of docs/, which is a book of its
/// own, out of it?
#[test]
fn links_lead_somewhere() {
    let found = complaints(&files(&["md"]), |path, text| {
        lines_with(text, |line| {
            line.split("](").skip(1).find_map(|rest| {
                let target = rest.split([')', '#']).next().unwrap_or("");
                let local = !target.is_empty() && !target.contains("://");
                let there = path.parent().unwrap().join(target).exists();
                let page = path.strip_prefix(Path::new(ROOT).join("docs"));
                let deep = page.map_or(usize::MAX, |page| page.components().count() - 1);
                let leaves = target.matches("../").count() > deep;
                let what = if leaves { "out of the book to" } else { "nothing at" };
                (local && (!there || leaves)).then(|| format!("{what} {target}"))
            })
        })
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// Is every attribute explained, and every scheduler named in the README?
#[test]
fn everything_that_can_be_set_is_documented() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    for entry in paternoster_schedulers::ALL {
        assert!(readme.contains(entry.name), "{} is not in the README", entry.name);
        let queue = RequestQueue::builder(DeviceFacts::default(), (entry.make)())
            .build()
            .expect("its limits work");
        queue.for_each_attribute(|path, attribute, _| {
            assert!(attribute.help.len() > 10, "{path} is not explained");
        });
    }
}
