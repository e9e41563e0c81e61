// SPDX-License-Identifier: MIT OR Apache-2.0
//! Undo: everything that was changed on this machine, restored in reverse order.
//!
//! ```text
//! done    attach loop0   rotational 0→1   scheduler none→bfq   mkdir blkio/…
//! undone  detach loop0 ◀ rotational 0   ◀ scheduler none     ◀ rmdir blkio/…
//! ```
//!
//! Each change is written down before the next one is made, so that whatever ends the command (the
//! end, an error, a panic, Ctrl-C) finds the whole list. What cannot be restored is reported.
//!
//! # Invariants
//! I1  A file that was set several times gets what it held before the first time: the last to be
//!     undone is the first that was done.
//! I2  A step that fails does not prevent the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use paternoster_frame::say;

/// A folder or a device that is being released is free within this time, or not at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const GLANCE: Duration = Duration::from_millis(20);

/// One change, and how to undo it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Writes these values into a file, one after the other.
    Write(PathBuf, Vec<String>),
    /// Removes a folder, with what is in it if it is our own.
    Folder(PathBuf, bool),
    /// Frees a loop device (`/dev/loop0`).
    Loop(PathBuf),
    /// Unmounts a folder.
    Mount(PathBuf),
}

/// The changes made. Dropping it restores everything.
#[derive(Debug, Default)]
pub(super) struct Undo {
    steps: Vec<Step>,
}

impl Undo {
    /// Nothing is to be undone yet.
    pub(super) fn new() -> Undo {
        Undo::default()
    }

    /// Writes `value` into a kernel file, whose current contents will be restored. For a choice
    /// (`none [bfq]`) that is the word in brackets.
    ///
    /// # Errors
    /// The file, the value, and what the system said.
    pub(super) fn set(&mut self, file: &Path, value: &str) -> Result<(), String> {
        let before = read(file)?;
        self.set_and(file, value, vec![chosen(&before)])
    }

    /// The same, but these values are written at the end.
    pub(super) fn set_and(
        &mut self,
        file: &Path,
        value: &str,
        end: Vec<String>,
    ) -> Result<(), String> {
        // Written down first: a half-done write is undone, too.
        self.steps.push(Step::Write(file.to_owned(), end));
        write(file, value)
    }

    /// Makes a folder; `ours` if everything in it may be removed with it.
    ///
    /// # Errors
    /// The folder, and what the system said.
    pub(super) fn folder(&mut self, folder: &Path, ours: bool) -> Result<(), String> {
        fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        self.steps.push(Step::Folder(folder.to_owned(), ours));
        Ok(())
    }

    /// A loop device that was attached.
    pub(super) fn attached(&mut self, device: &Path) {
        self.steps.push(Step::Loop(device.to_owned()));
    }

    /// A folder that was mounted on.
    pub(super) fn mounted(&mut self, folder: &Path) {
        self.steps.push(Step::Mount(folder.to_owned()));
    }

    /// Restores everything, the last first; returns what could not be.
    pub(super) fn all(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        while let Some(step) = self.steps.pop() {
            wrong.extend(step.undo().err());
        }
        wrong
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for wrong in self.all() {
            say!("paternoster: not put back: {wrong}");
        }
    }
}

impl Step {
    fn undo(&self) -> Result<(), String> {
        match self {
            Step::Write(file, values) => values.iter().try_for_each(|value| write(file, value)),
            Step::Folder(folder, false) => patiently(|| {
                fs::remove_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))
            }),
            Step::Folder(folder, true) => {
                fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
            }
            Step::Loop(device) => {
                tool(Command::new("losetup").arg("-d").arg(device))?;
                // The system frees it when the last one has closed it.
                let name = device.file_name().unwrap_or_default();
                let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
                patiently(|| match backing.exists() {
                    true => Err(format!("{} is still attached", device.display())),
                    false => Ok(()),
                })
            }
            Step::Mount(folder) => patiently(|| tool(Command::new("umount").arg(folder)).map(drop)),
        }
    }
}

/// Retries for a while: processes that were ended take a moment to be gone.
fn patiently(mut does: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match does() {
            Err(_) if begin.elapsed() < PATIENCE => sleep(GLANCE),
            done => return done,
        }
    }
}

/// A tool's standard output; its error output if it failed.
pub(super) fn tool(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} ended with {}: {}", output.status, said.trim()))
}

/// What a file of the kernel holds, without the end of its line.
pub(super) fn read(file: &Path) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.trim().to_owned())
}

fn write(file: &Path, value: &str) -> Result<(), String> {
    fs::write(file, value).map_err(|error| format!("{value} into {}: {error}", file.display()))
}

/// The word in brackets of `none [bfq] kyber`; any other text as it is.
pub(super) fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in place of sysfs, removed with its test.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let name = format!("paternoster-undo-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            for (file, value) in [("scheduler", "none [mq-deadline] bfq\n"), ("depth", "128\n")] {
                fs::write(folder.join(file), value).unwrap();
            }
            Tree(folder)
        }

        fn holds(&self, file: &str) -> String {
            fs::read_to_string(self.0.join(file)).unwrap()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    fn change(tree: &Tree, undo: &mut Undo) {
        undo.set(&tree.0.join("scheduler"), "bfq").unwrap();
        undo.set(&tree.0.join("scheduler"), "kyber").unwrap();
        let depths = vec!["127".to_owned(), "128".to_owned()];
        undo.set_and(&tree.0.join("depth"), "4", depths).unwrap();
        undo.folder(&tree.0.join("group"), false).unwrap();
        undo.folder(&tree.0.join("ours"), true).unwrap();
        fs::write(tree.0.join("ours/something"), "").unwrap();
        assert_eq!((tree.holds("scheduler"), tree.holds("depth")), ("kyber".into(), "4".into()));
    }

    fn is_as_before(tree: &Tree) {
        // The word in brackets was chosen.
        assert_eq!(tree.holds("scheduler"), "mq-deadline");
        assert_eq!(tree.holds("depth"), "128");
        assert!(!tree.0.join("group").exists() && !tree.0.join("ours").exists());
    }

    /// Is everything restored in reverse order when the list is dropped?
    #[test]
    fn changes_are_put_back() {
        let tree = Tree::new("drop");
        let mut undo = Undo::new();
        change(&tree, &mut undo);
        drop(undo);
        is_as_before(&tree);
    }

    /// Also after a panic?
    #[test]
    fn a_panic_puts_back_too() {
        let tree = Tree::new("panic");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut undo = Undo::new();
            change(&tree, &mut undo);
            panic!("expected by the test");
        }));
        assert!(panicked.is_err());
        is_as_before(&tree);
    }

    /// If a step fails (its file is gone), are all others undone, and is it reported?
    #[test]
    fn one_failure_does_not_keep_the_rest() {
        let tree = Tree::new("failure");
        let mut undo = Undo::new();
        undo.set(&tree.0.join("scheduler"), "bfq").unwrap();
        let gone = tree.0.join("gone");
        fs::create_dir(&gone).unwrap();
        fs::write(gone.join("file"), "1").unwrap();
        undo.set(&gone.join("file"), "2").unwrap();
        fs::remove_dir_all(&gone).unwrap();
        let wrong = undo.all();
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].starts_with("1 into "), "{wrong:?}");
        assert_eq!(tree.holds("scheduler"), "mq-deadline");
    }

    /// Is a value that the file refuses reported with the file's name, and still undone?
    #[test]
    fn refusals_name_the_file() {
        let tree = Tree::new("refusal");
        let wrong = Undo::new().set(&tree.0.join("nothing"), "1").unwrap_err();
        assert!(wrong.contains("nothing: No such file"), "{wrong}");
        assert_eq!(tool(&mut Command::new("/nowhere/tool")).unwrap_err().split(':').count(), 2);
    }
}
