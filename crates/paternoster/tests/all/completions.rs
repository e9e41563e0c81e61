// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions in the shells themselves: the attributes after a scheduler's name.
//!
//! ```text
//! bash   its function, by the line and the word that bash hands to it
//! zsh    an interactive zsh on a terminal of its own (zpty); a key shows the line after Tab
//! fish   `complete -C LINE`
//! ```

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::skipped;

/// The line until the cursor, and what Tab makes of its last word.
const ONE: [(&str, &str); 10] = [
    ("paternoster run --scheduler bfq:slice_idle_u", "bfq:slice_idle_us="),
    ("paternoster run --scheduler=bfq:slice_idle_u", "--scheduler=bfq:slice_idle_us="),
    ("paternoster compare --scheduler bfq:timeout_s", "bfq:timeout_sync="),
    (
        "paternoster replay t --scheduler mq-deadline:low_latency=1,write_e",
        "mq-deadline:low_latency=1,write_expire=",
    ),
    (
        "paternoster run --scheduler bfq:slice_idle=0,back_seek_p",
        "bfq:slice_idle=0,back_seek_penalty=",
    ),
    ("paternoster run --scheduler kyb", "kyber"),
    ("paternoster run --device nvme-p", "nvme-pm9a3"),
    ("paternoster run --format mark", "markdown"),
    ("paternoster run --scheduler=kyb", "--scheduler=kyber"),
    ("paternoster run --device=nvme-p", "--device=nvme-pm9a3"),
];

fn script(shell: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    let output = program.args(["completions", shell]).output().expect("the program starts");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

/// The same in a file, as a user has it.
fn file(shell: &str) -> PathBuf {
    let name = format!("paternoster-completions-{}-{shell}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, script(shell)).expect("written");
    path
}

fn is_there(shell: &str) -> bool {
    Command::new(shell).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The output of a shell with this input.
fn printed(shell: &str, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(shell);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let written = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    written.expect("it reads everything");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Does bash complete the attributes of the scheduler before the colon, with and without `:` and
/// `=` among the letters at which it parts words, none of another's, and all after the colon?
#[test]
fn bash_completes_attributes() {
    if !is_there("bash") {
        return skipped("completions of attributes: bash is not there");
    }
    let script = script("bash");
    let complete = |line: &str, parted: &str| {
        // What bash replaces: the text after the last such letter.
        let word = line.rsplit(|letter| parted.contains(letter)).next().expect("one");
        let ask = format!(
            "{script}\nCOMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); \
             COMP_LINE='{line}'; COMP_POINT={}; \
             _paternoster_words paternoster '{word}' \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            line.len()
        );
        let kept = line.rsplit(' ').next().expect("one").strip_suffix(word).expect("its end");
        let all = printed("bash", &["--norc", "-s"], &ask);
        all.lines().map(|one| format!("{kept}{one}")).collect::<Vec<String>>()
    };
    for (line, expected) in ONE {
        for parted in [" :=", " "] {
            assert_eq!(complete(line, parted), [expected], "{line}");
        }
    }
    let all = complete("paternoster run --scheduler bfq:", " :=");
    assert!(all.len() > 10 && all.iter().all(|one| one.starts_with("bfq:")), "{all:?}");
    assert!(!all.iter().any(|one| one.contains("write_expire")), "{all:?}");
    assert_eq!(complete("paternoster run --scheduler nothing:sl", " :="), [""; 0]);
    // No option stands in the way of files and names.
    assert_eq!(complete("paternoster run j", " :="), [""; 0]);
    assert_eq!(complete("paternoster devices nvme-p", " :="), ["nvme-pm9a3"]);
    assert_eq!(complete("paternoster run --devi", " :="), ["--device"]);
}

/// Does zsh, as it stands on a terminal, complete the same lines by Tab?
#[test]
fn zsh_completes_attributes() {
    if !is_there("zsh") {
        return skipped("completions of attributes: zsh is not there (apt-get install zsh)");
    }
    let file = file("zsh");
    // A key shows the line between marks that are not typed.
    let driver = r#"
zmodload zsh/zpty
zpty z zsh -f -i
say() { zpty -w z "$1" }
say "unsetopt zle_bracketed_paste; PS1=; stty -echo cols 250; autoload -U compinit; compinit -u -D"
say "autoload -U is-at-least; source FILE; compdef _paternoster paternoster"
say 'show() { print -r -- "<""<$BUFFER>"">"; BUFFER=; zle -R }; zle -N show; bindkey "^X" show'
say 'print -r -- "<""<ready>"">"'
wait_for() { local piece all; repeat 2000; do
    if zpty -r -t z piece; then all+=$piece; else sleep 0.01; fi
    if [[ $all == *"<<"*">>"* ]]; then all=${all#*"<<"}; REPLY=${all%%">>"*}; return; fi
done; REPLY="nothing: $all" }
wait_for
while IFS= read -r line; do
    zpty -n -w z "$line"$'\t'$'\x18'
    wait_for
    print -r -- "$REPLY"
done
zpty -d z
"#;
    let driver = driver.replace("FILE", file.to_str().expect("text"));
    let path = file.with_extension("driver");
    std::fs::write(&path, driver).expect("written");
    let lines: String = ONE.iter().map(|(line, _)| format!("{line}\n")).collect();
    let told = printed("zsh", &["-f", path.to_str().expect("text")], &lines);
    for ((line, expected), told) in ONE.iter().zip(told.lines()) {
        let word = line.rsplit(' ').next().expect("one");
        let expected = format!("{}{expected}", line.strip_suffix(word).expect("its end"));
        assert_eq!(told.trim_end(), expected, "{line}");
    }
    assert_eq!(told.lines().count(), ONE.len(), "{told}");
    for file in [file, path] {
        std::fs::remove_file(file).expect("it is there");
    }
}

/// Does fish?
#[test]
fn fish_completes_attributes() {
    if !is_there("fish") {
        return skipped("completions of attributes: fish is not there (apt-get install fish)");
    }
    let file = file("fish");
    for (line, expected) in ONE {
        let ask = format!("source {}\ncomplete -C '{line}'\n", file.display());
        let told = printed("fish", &["--no-config"], &ask);
        let words: Vec<&str> =
            told.lines().map(|line| line.split('\t').next().unwrap_or("")).collect();
        assert_eq!(words, [expected], "{line}");
    }
    std::fs::remove_file(file).expect("it is there");
}
