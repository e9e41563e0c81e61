// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster examples`: the job files that are built in; listed, printed, or written.
//!
//! ```text
//! paternoster examples                    database.fio …   what each is
//! paternoster examples database           the file on stdout
//! paternoster examples --write jobs       jobs/fair.fio, jobs/recipes/database.fio … as documented
//! ```
//!
//! # Invariants
//! X1  Nothing outside the folder is written, not even through links: a file is newly made or not
//!     at all, and a folder in it is one, not a link.
//! X2  Without --force no file changes: a difference is found before the first is written.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use paternoster_core::near;
use paternoster_frame::job_files::{EXAMPLES, Example, short};
use paternoster_frame::results::{Format, Listed, emit};
use paternoster_frame::table::{plain_table, trimmed, wrap_last};
use paternoster_frame::{Failure, print};

/// List the job files that are built in, print one, or write all into a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster examples
  paternoster examples --write jobs
  paternoster examples database
  paternoster examples database | paternoster run - --device nvme-pm9a3 --scheduler bfq

Exit status: 0 done, 2 the request was wrong.")]
pub(crate) struct ExamplesOptions {
    /// Print this one
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Write all of them into this folder, which is made if it does not exist; with `jobs` the
    /// commands in the documentation find theirs
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    write: Option<PathBuf>,

    /// With --write: also replace existing files that differ
    #[arg(long, requires = "write")]
    force: bool,

    /// How to print the list
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    #[arg(conflicts_with_all = ["name", "write"])]
    format: Format,
}

pub(crate) fn examples(options: &ExamplesOptions) -> Result<(), Failure> {
    match (&options.name, &options.write) {
        (Some(name), _) => print(find(name)?.1),
        (None, Some(folder)) => write(folder, options.force),
        (None, None) => emit(options.format, None, |format| match format {
            Format::Table => list(),
            format => listed().results().told(format),
        }),
    }
}

/// By its path, or its name with or without the ending.
fn find(name: &str) -> Result<Example, Failure> {
    let wanted = name.strip_suffix(".fio").unwrap_or(name);
    let found = EXAMPLES.into_iter().find(|&(path, _)| short(path) == wanted || path == name);
    found.ok_or_else(|| {
        let hint = near::hint(name, EXAMPLES.iter().map(|&(path, _)| short(path)));
        Failure::Request(format!("there is no example `{name}`{hint}"))
    })
}

/// The first sentence of its comment.
fn about(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix(';')).map(str::trim);
    let comment: Vec<&str> = comment.take_while(|line| !line.is_empty()).collect();
    let comment = comment.join(" ");
    comment.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// The list for programs.
fn listed() -> Listed<3> {
    let row = |(path, text)| [short(path).into(), path.into(), about(text).into()];
    let rows = EXAMPLES.into_iter().map(row).collect();
    Listed { kind: "examples", heads: ["name", "path", "about"], rows }
}

fn list() -> String {
    let mut table = plain_table();
    for (path, text) in EXAMPLES {
        table.add_row([short(path).to_owned(), about(text)]);
    }
    wrap_last(&mut table, 2, 40);
    trimmed(&table)
        + "\n`paternoster examples --write jobs` writes them into the folder jobs; `paternoster \
           examples NAME`\nprints one.\n"
}

fn write(folder: &Path, force: bool) -> Result<(), Failure> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::Request(format!("{}: {why}", path.display()))
    };
    let mut missing = Vec::new();
    for (name, text) in EXAMPLES {
        let path = folder.join(name);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => missing.push((path, text)),
            Err(error) => return Err(wrong(&path, &error)),
            Ok(there)
                if there.is_file() && fs::read(&path).is_ok_and(|is| is == text.as_bytes()) => {}
            Ok(there) if there.is_dir() => return Err(wrong(&path, &"this is a folder")),
            Ok(_) if force => missing.push((path, text)),
            Ok(_) => {
                let why = "it is there and differs; nothing was written; --force writes over it";
                return Err(wrong(&path, &why));
            }
        }
    }
    for (path, text) in &missing {
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| wrong(parent, &error))?;
        if parent != folder && fs::symlink_metadata(parent).is_ok_and(|it| it.is_symlink()) {
            return Err(wrong(parent, &"this is a link, and may lead out of the folder"));
        }
        if force {
            let _absent = fs::remove_file(path);
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| wrong(path, &error))?;
    }
    let (new, all) = (missing.len(), EXAMPLES.len());
    let first = folder.join(EXAMPLES[0].0);
    print(&format!(
        "{}: {new} files written, {} were there. Try:\n  paternoster compare {} --device \
         ssd-870evo --goal 'pg-read p99<5ms'\n",
        folder.display(),
        all - new,
        first.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are all job files of the folder built in, except those that belong to other commands?
    #[test]
    fn no_job_file_is_forgotten() {
        for folder in ["", "recipes/", "learn/"] {
            let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs").join(folder);
            for entry in fs::read_dir(jobs).unwrap() {
                let entry = entry.unwrap();
                let name = format!("{folder}{}", entry.file_name().to_str().unwrap());
                let known = EXAMPLES.iter().any(|&(path, _)| path == name);
                assert!(known || entry.file_type().unwrap().is_dir(), "{name}");
            }
        }
        assert!(EXAMPLES.iter().all(|(_, text)| !about(text).is_empty()));
        let about = about(find("nas").expect("it is one").1);
        let whole = "A NAS on a disk: a film that is played, two copies over the network, and \
                     photographs that are looked at";
        assert_eq!(about, whole);
    }

    /// Are files newly made or left alone, is nothing overwritten without a request, and is no link
    /// followed out of the folder?
    #[test]
    fn files_are_made_and_kept() {
        let place =
            std::env::temp_dir().join(format!("paternoster-examples-{}", std::process::id()));
        let (folder, outside) = (place.join("jobs"), place.join("outside"));
        fs::create_dir_all(&outside).unwrap();
        let fair = folder.join("fair.fio");
        write(&folder, false).unwrap();
        let text = fs::read_to_string(&fair).unwrap();
        write(&folder, false).unwrap();
        fs::write(&fair, "mine").unwrap();
        fs::remove_file(folder.join("early-merge.fio")).unwrap();
        let Err(Failure::Request(message)) = write(&folder, false) else { panic!("it differs") };
        assert!(message.contains("fair.fio: it is there and differs"), "{message}");
        assert_eq!(fs::read_to_string(&fair).unwrap(), "mine");
        assert!(!folder.join("early-merge.fio").exists(), "nothing was written");
        // A link in place of a file is replaced, not followed.
        fs::write(outside.join("secret"), "kept").unwrap();
        fs::remove_file(&fair).unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), &fair).unwrap();
        write(&folder, true).unwrap();
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(&fair).unwrap(), text);
        // A link in place of a folder is refused.
        fs::remove_dir_all(folder.join("recipes")).unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("recipes")).unwrap();
        assert!(write(&folder, true).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        fs::remove_dir_all(place).unwrap();
    }
}
