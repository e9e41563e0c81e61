// SPDX-License-Identifier: MIT OR Apache-2.0
//! nbdkit's filter: does it compile, load, leave data unchanged, and refuse what it must?

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{NBDKIT, has, has_all, nbdkit_filter};

/// nbdkit with the filter on its own socket, for as long as the shell command `run` takes.
fn serve(filter: &Path, plugin: &[&str], run: &str) -> Output {
    let mut server = Command::new("nbdkit");
    server.args(["--verbose", "--exit-with-parent", "-U", "-"]);
    server.arg(format!("--filter={}", filter.display())).args(plugin).args(["--run", run]);
    server.output().expect("nbdkit starts")
}

/// Compiled by gcc and clang: do 4 MiB come back as sent, and is each request counted for its
/// client, with the weight that the command line gives to its export name?
#[test]
fn data_go_through_the_filter() {
    if !has_all("data_go_through_the_filter", &[&NBDKIT[..], &["nbdcopy", "cmp"]].concat()) {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let sent: Vec<u8> =
        (0..1u32 << 20).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let (there, back) = (folder.join("fair-there"), folder.join("fair-back"));
    std::fs::write(&there, sent).expect("a file");
    let (to, from) = (there.display(), back.display());
    let copy = format!("nbdcopy {to} \"$uri\" && nbdcopy \"$uri\" {from} && cmp {to} {from}");
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            println!("skipped: data_go_through_the_filter: {compiler} is not installed");
            continue;
        }
        let filter = nbdkit_filter(compiler, "data");
        let plugin = ["-e", "db", "memory", "4M", "fair-by=export", "fair-weight=db:400"];
        let output = serve(&filter, &plugin, &copy);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert!(told.contains("fair: db weighs 400"), "{told}");
        // Both copies may have had several connections; all of them belong to one client.
        let bytes: u64 = told
            .lines()
            .filter_map(|line| line.split_once("fair: db had ")?.1.split_once(" permits, "))
            .map(|(_, rest)| {
                rest.split(' ').next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
            })
            .sum();
        assert_eq!(bytes, 2 * (4 << 20), "{told}");
    }
}

/// Are an invalid parameter refused, and a plugin that does one request at a time under the
/// server's lock, where all would wait for one permit?
#[test]
fn what_the_filter_refuses() {
    if !has_all("what_the_filter_refuses", &[&NBDKIT[..], &["gcc"]].concat()) {
        return;
    }
    let filter = nbdkit_filter("gcc", "refuses");
    for (plugin, word) in [
        (&["memory", "1M", "fair-by=colour"][..], "client, connection or export"),
        (&["memory", "1M", "fair-weight=400"], "NAME:N is expected"),
        (&["memory", "1M", "fair-weight=db:heavy"], "fair-weight"),
        (
            &["--filter=noparallel", "memory", "1M", "serialize=all-requests"],
            "one request at a time",
        ),
    ] {
        let output = serve(&filter, plugin, "true");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(word), "{plugin:?}: {told}");
    }
}
