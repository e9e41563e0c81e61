// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is each table of docs/which-scheduler.md what `paternoster compare` prints?
//!
//! The page holds the commands: what stands between the block of a command and `<!-- end -->` is
//! what it prints as Markdown. `PATERNOSTER_WRITE_TABLES=1` writes the page anew instead:
//!
//! ```text
//! PATERNOSTER_WRITE_TABLES=1 cargo test --release -p paternoster --test judges -- recipes::
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::too_slow;

const COMMAND: &str = "```\npaternoster compare ";
const BEHIND: &str = "\n```\n\n";
const END: &str = "<!-- end -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Words of a command line; what stands between two `'` is one.
fn words(line: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (nth, part) in line.split('\'').enumerate() {
        if nth % 2 == 1 {
            all.push(part.to_owned());
        } else {
            all.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    all
}

fn printed(line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.arg("compare").args(words(line)).args(["-q", "--format", "markdown"]);
    let output = command.current_dir(root()).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Does the page show real output, for seven recipes and each job file in jobs/recipes?
#[test]
fn the_documentation_shows_real_output() {
    if too_slow() {
        return;
    }
    let path = root().join("docs/which-scheduler.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let mut parts = page.split(COMMAND);
    let mut made = parts.next().expect("what is before the first command").to_owned();
    let mut recipes = 0;
    for part in parts {
        let (line, rest) = part.split_once(BEHIND).expect("a command's block ends");
        let (_, behind) = rest.split_once(END).expect("a table ends");
        made += &format!("{COMMAND}{line}{BEHIND}{}\n{END}{behind}", printed(line));
        recipes += 1;
    }
    let files = std::fs::read_dir(root().join("jobs/recipes")).expect("the recipes").count();
    assert_eq!((recipes, files), (7, 7));
    if std::env::var_os("PATERNOSTER_WRITE_TABLES").is_some() {
        std::fs::write(&path, made).expect("the page can be written");
        return;
    }
    assert!(page == made, "run it with PATERNOSTER_WRITE_TABLES=1 and look at what differs");
}
