// SPDX-License-Identifier: MIT OR Apache-2.0
//! PostgreSQL on a disk of ours, with its own benchmark: a small bank.
//!
//! Each of pgbench's transactions adds a random sum to an account, to its teller and to its branch,
//! and notes it in a history. So, at any time, the four sums are equal.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::disk::Disk;
use super::kind::Kind;
use super::process::{Process, until};
use super::tools::{command, installed, succeeds, tried};
use crate::common::skipped;

/// PostgreSQL refuses to run as root; this user exists on every machine.
const USER: &str = "nobody";
/// Where Debian puts programs that are not in users' PATH.
const VERSIONS: &str = "/usr/lib/postgresql";
/// How long a server may take to start, even after a crash.
const START: Duration = Duration::from_secs(60);

/// Two clients of 100 transactions; an account is one of 100000.
const CLIENTS: u32 = 2;
const TRANSACTIONS: u32 = 100;

/// The sums, each as one column, with the number of entries and of accounts.
const QUESTION: &str = "SELECT \
    (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
    (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history), \
    (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history), \
    (SELECT count(*) FROM pgbench_history), (SELECT count(*) FROM pgbench_accounts)";

/// The folder of the newest PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(VERSIONS).ok()?.flatten().map(|entry| entry.path());
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.filter_map(|path| Some((number(&path)?, path.join("bin")))).max()?.1;
    ["initdb", "postgres", "pgbench", "psql"]
        .iter()
        .all(|program| newest.join(program).is_file())
        .then_some(newest)
}

/// A database in a folder of a mounted disk.
struct Bank<'a> {
    programs: &'a Path,
    data: PathBuf,
    /// The server's output.
    log: PathBuf,
}

impl Bank<'_> {
    /// A program of PostgreSQL as its user, in the database's folder.
    fn program(&self, name: &str) -> Command {
        let mut program = command("setpriv");
        program.args(["--reuid", USER, "--clear-groups"]).arg(self.programs.join(name));
        program.env("HOME", &self.data).current_dir("/");
        program
    }

    fn client(&self, name: &str) -> Command {
        let mut client = self.program(name);
        client.arg("-h").arg(&self.data).args(["-U", "postgres"]);
        client
    }

    /// Starts the server; it is this process's child, and so ends with its guard.
    fn start(&self) -> Process {
        let mut server = Command::new("setpriv");
        server.args(["--reuid", USER, "--clear-groups"]).arg(self.programs.join("postgres"));
        server.arg("-D").arg(&self.data).args(["-c", "listen_addresses=", "-c"]);
        server.arg(format!("unix_socket_directories={}", self.data.display()));
        // A group of its own, so that ^C in a terminal reaches it only through its guard.
        server.current_dir("/").env("LC_ALL", "C").process_group(0);
        let server = Process::start(&mut server, &self.log);
        let ready = || tried(&mut self.client("pg_isready")) || !server.is_running();
        let answers = until(START, ready) && server.is_running();
        assert!(answers, "{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        server
    }

    fn query(&self) -> String {
        succeeds(self.client("psql").args(["-X", "-A", "-t", "-c", QUESTION, "postgres"]))
    }
}

/// pgbench's own run, and the bank's books after the disk has gone and come back.
pub(crate) fn pgbench(mut disk: Disk, kind: Kind) {
    let Some(programs) = programs() else {
        skipped("PostgreSQL is not installed (Debian package postgresql)");
        return;
    };
    if !installed(&[("setpriv", "util-linux")]) {
        return;
    }
    let mounted = kind.mount(&disk);
    let data = mounted.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    succeeds(command("chown").arg(USER).arg(&data));
    let bank = Bank { programs: &programs, data, log: disk.aside("postgres.log") };
    let mut initdb = bank.program("initdb");
    initdb.args(["--username=postgres", "--auth=trust", "--locale=C", "--encoding=UTF8"]);
    succeeds(initdb.args(["--wal-segsize=1", "-D"]).arg(&bank.data));
    let server = bank.start();
    succeeds(bank.client("pgbench").args(["-i", "-q", "-s", "1", "postgres"]));
    let [clients, transactions] = [CLIENTS, TRANSACTIONS].map(|number| number.to_string());
    let mut pgbench = bank.client("pgbench");
    let said = succeeds(pgbench.args(["-n", "-c", &clients, "-t", &transactions]).arg("postgres"));
    assert!(said.contains("number of transactions actually processed: 200/200"), "{said}");
    // SIGINT is its fast and orderly end.
    assert!(server.end("-INT"), "PostgreSQL did not end well");
    mounted.unmount();
    kind.check(&disk);
    disk.detach();
    disk.attach();
    let mounted = kind.mount(&disk);
    let server = bank.start();
    // 2 clients * 100 transactions; 100000 accounts to a branch.
    assert_eq!(bank.query(), "t|t|t|200|100000");
    assert!(server.end("-INT"), "PostgreSQL did not end well");
    mounted.unmount();
    disk.detach();
}
