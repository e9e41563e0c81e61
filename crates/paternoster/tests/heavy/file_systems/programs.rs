// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs to which people trust their data, at work on our disk: fsx, SQLite, git.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::disk::{Disk, Way};
use super::kind::Kind;
use super::tools::{command, find, installed, succeeds};
use crate::common::skipped;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What fsx does to a file, and how often. Reads of a mounted file come from memory, so now and
/// then the kernel is told to drop its cache.
const ON_A_FILE: &str = "[weights]\nread = 10\nwrite = 10\nmapread = 5\nmapwrite = 5\n\
    truncate = 3\nfsync = 1\nfdatasync = 1\nclose_open = 1\ninvalidate = 1\nposix_fallocate = 1\n\
    punch_hole = 2\nsendfile = 1\nposix_fadvise = 5\ncopy_file_range = 2\n";

/// The same for a device, whose size is fixed and which cannot be mapped.
const ON_A_DEVICE: &str = "blockmode = true\nnosizechecks = true\nflen = 4194304\n\
    [weights]\nread = 10\nwrite = 10\nmapread = 0\nmapwrite = 0\ntruncate = 0\nfsync = 1\n\
    fdatasync = 1\n[opsize]\nmax = 262144\n";

/// fsx, from where `./test` puts it (`target/tools`), or installed; `None`, which is reported, if
/// neither.
fn fsx() -> Option<PathBuf> {
    // The folder for tests' temporary files lies in cargo's target folder.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target");
    let ours = target.join("tools/bin/fsx");
    let found = ours.is_file().then_some(ours).or_else(|| find("fsx"));
    if found.is_none() {
        let how = "cargo install fsx --root target/tools";
        skipped(&format!("fsx is not installed ({how})"));
    }
    found
}

fn run_fsx(fsx: &Path, disk: &Disk, on: &Path, configuration: &str, operations: u32) {
    let file = disk.aside("fsx.toml");
    std::fs::write(&file, configuration).expect("a file");
    let mut fsx = command(fsx);
    fsx.args(["-q", "-S", "20101", "-N", &operations.to_string(), "-f"]).arg(file);
    succeeds(fsx.arg("-P").arg(disk.aside("")).arg(on));
}

/// Random operations on one file of a mounted disk, each read compared with what should be there.
pub(crate) fn exercise(mut disk: Disk, kind: Kind) {
    let Some(fsx) = fsx() else { return };
    let mounted = kind.mount(&disk);
    run_fsx(&fsx, &disk, &mounted.path().join("file"), ON_A_FILE, 3000);
    mounted.unmount();
    kind.check(&disk);
    disk.detach();
}

/// Random reads and writes directly on the file that is the disk, at any byte and of any length;
/// with nbdfuse, which refuses requests that are not whole blocks of the server, on the loop
/// device.
pub(crate) fn exercise_device(mut disk: Disk, way: Way) {
    let Some(fsx) = fsx() else { return };
    let on = if way == Way::Nbd { disk.device().to_owned() } else { disk.file() };
    run_fsx(&fsx, &disk, &on, ON_A_DEVICE, 2000);
    disk.detach();
}

/// 100 transactions of one row, one of 5000, an update and a removal.
const TRANSACTIONS: &str = "\
    CREATE TABLE entries (id INTEGER PRIMARY KEY, amount INTEGER, body BLOB);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
      INSERT INTO entries SELECT i, i, randomblob(200) FROM n;
    CREATE INDEX by_amount ON entries (amount);
    UPDATE entries SET amount = amount + 1 WHERE id % 2 = 0;
    DELETE FROM entries WHERE id % 10 = 0;";

/// Rows: 5000 - 500 + 100 = 4600. Amounts: 1 + … + 5000 = 12502500, plus 1 for each of the 2500
/// even ones, minus the removed rows 10, 20, … 5000, each of which had 1 more: 10 * (1 + … + 500) +
/// 500 = 1253000; plus 100 times 7. That is 12502500 + 2500 - 1253000 + 700 = 11252700.
const QUESTIONS: &str = "PRAGMA integrity_check; SELECT count(*), sum(amount) FROM entries;";
const ANSWERS: &str = "ok\n4600|11252700";

/// SQLite with a rollback journal, and with a log (WAL): what was committed is there after the disk
/// has gone and come back.
pub(crate) fn sqlite(mut disk: Disk, kind: Kind) {
    if !installed(&[("sqlite3", "sqlite3")]) {
        return;
    }
    let mounted = kind.mount(&disk);
    for journal in ["delete", "wal"] {
        let single = "INSERT INTO entries (amount, body) VALUES (7, randomblob(3000));\n";
        let script = format!(
            "PRAGMA journal_mode={journal};\nPRAGMA synchronous=FULL;\n{TRANSACTIONS}\n{}",
            single.repeat(100)
        );
        let file = disk.aside("script.sql");
        std::fs::write(&file, script).expect("a file");
        let script = std::fs::File::open(file).expect("a file");
        let mut sqlite = command("sqlite3");
        succeeds(sqlite.arg("-bail").arg(mounted.path().join(journal)).stdin(Stdio::from(script)));
    }
    mounted.unmount();
    kind.check(&disk);
    disk.detach();
    disk.attach();
    let mounted = kind.mount(&disk);
    for journal in ["delete", "wal"] {
        let mut sqlite = command("sqlite3");
        let said = succeeds(sqlite.arg(mounted.path().join(journal)).arg(QUESTIONS));
        assert_eq!(said, ANSWERS, "{journal}");
    }
    mounted.unmount();
    disk.detach();
}

/// A clone of this repository, which git finds complete after the disk has gone and come back.
pub(crate) fn git(mut disk: Disk, kind: Kind) {
    if !installed(&[("git", "git")]) {
        return;
    }
    if !Path::new(ROOT).join(".git").exists() {
        skipped("this is no git repository");
        return;
    }
    // Whatever the repository's owner, and whatever this machine's git settings.
    let settings = disk.aside("gitconfig");
    std::fs::write(&settings, "[safe]\n\tdirectory = *\n").expect("a file");
    let git = |arguments: &[&str]| {
        let mut git = command("git");
        git.env("GIT_CONFIG_GLOBAL", &settings).env("GIT_CONFIG_SYSTEM", "/dev/null");
        // A hook that runs the tests has set these.
        git.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE").env_remove("GIT_WORK_TREE");
        succeeds(git.args(arguments))
    };
    let mounted = kind.mount(&disk);
    let clone = mounted.path().join("clone");
    let clone = clone.to_str().expect("UTF-8");
    let root = Path::new(ROOT).canonicalize().expect("there");
    let head = git(&["-C", ROOT, "rev-parse", "HEAD"]);
    git(&["clone", "-q", &format!("file://{}", root.display()), clone]);
    mounted.unmount();
    kind.check(&disk);
    disk.detach();
    disk.attach();
    let mounted = kind.mount(&disk);
    git(&["-C", clone, "fsck", "--full", "--no-progress"]);
    assert_eq!(git(&["-C", clone, "rev-parse", "HEAD"]), head);
    assert_eq!(git(&["-C", clone, "status", "--porcelain"]), "", "every file is as committed");
    mounted.unmount();
    disk.detach();
}
