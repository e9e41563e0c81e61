// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio's own example job files: does every one that is about local disks parse, and is every other
//! one refused with a message that names what is out of scope?
//!
//! They are read where Debian's package fio-examples puts them; without it the test says so and
//! passes. Only their names are here.

use std::fs;
use std::path::Path;

use paternoster_workload::fio::jobfile::{JobFile, Problem, Source, parse};
use paternoster_workload::fio::unwired;

use crate::common::skipped;

const FOLDER: &str = "/usr/share/doc/fio/examples";

/// The expected outcome of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The example parses.
    Parses,
    /// It parses once a size is given on the command line, as it expects.
    NeedsSize,
    /// It parses with these values for its variables.
    NeedsEnvironment,
    /// It is refused, and the message has this word: an engine or option out of scope.
    Refused(&'static str),
}

use Outcome::{NeedsEnvironment, NeedsSize, Parses, Refused};

const FILES: &[(&str, Outcome)] = &[
    ("1mbs_clients.fio", Parses),
    ("aio-read.fio", Parses),
    ("backwards-read.fio", Parses),
    ("basic-verify.fio", Parses),
    ("butterfly.fio", NeedsSize),
    ("cmdprio-bssplit.fio", Parses),
    ("cmdprio-percentage.fio", Parses),
    ("cpp_null.fio", Parses),
    ("cpuio.fio", Parses),
    ("cross-stripe-verify.fio", Parses),
    ("dedupe-global.fio", Parses),
    ("dev-dax.fio", Refused("`dev-dax`")),
    ("dfs.fio", Refused("`dfs`")),
    ("disk-zone-profile.fio", Parses),
    ("e4defrag.fio", Refused("`e4defrag`")),
    ("e4defrag2.fio", Refused("`e4defrag`")),
    ("enospc-pressure.fio", Parses),
    ("exec.fio", Refused("`exec`")),
    ("exitwhat.fio", Parses),
    ("falloc.fio", Refused("`falloc`")),
    ("filecreate-ioengine.fio", Refused("`filecreate`")),
    ("filedelete-ioengine.fio", Refused("`filedelete`")),
    ("filestat-ioengine.fio", Refused("`filestat`")),
    ("fio-rand-RW.fio", Parses),
    ("fio-rand-read.fio", Parses),
    ("fio-rand-write.fio", Parses),
    ("fio-seq-RW.fio", Parses),
    ("fio-seq-read.fio", Parses),
    ("fio-seq-write.fio", Parses),
    ("fixed-rate-submission.fio", Parses),
    ("flow.fio", Parses),
    ("fsx.fio", Parses),
    ("ftruncate.fio", Refused("`ftruncate`")),
    ("gfapi.fio", Refused("`gfapi`")),
    ("gpudirect-rdmaio-client.fio", Refused("`rdma`")),
    ("gpudirect-rdmaio-server.fio", Refused("`rdma`")),
    ("http-s3-crypto.fio", Refused("`http`")),
    ("http-s3-storage-class.fio", Refused("`http`")),
    ("http-s3.fio", Refused("`http`")),
    ("http-swift.fio", Refused("`http`")),
    ("http-webdav.fio", Refused("`http`")),
    ("ime.fio", Refused("`ime_psync`")),
    ("iometer-file-access-server.fio", Parses),
    ("jesd219.fio", Parses),
    ("latency-profile.fio", Parses),
    ("libcufile-cufile.fio", Refused("`libcufile`")),
    ("libcufile-posix.fio", Refused("`libcufile`")),
    ("libhdfs.fio", Refused("`libhdfs`")),
    ("libiscsi.fio", Refused("`libiscsi`")),
    ("libpmem.fio", Refused("`libpmem`")),
    ("librpma_apm-client.fio", Refused("`librpma_apm_client`")),
    ("librpma_apm-server.fio", Refused("`librpma_apm_server`")),
    ("librpma_gpspm-client.fio", Refused("`librpma_gpspm_client`")),
    ("librpma_gpspm-server.fio", Refused("`librpma_gpspm_server`")),
    ("libzbc-rand-write.fio", Refused("`libzbc`")),
    ("libzbc-seq-read.fio", Refused("`libzbc`")),
    ("mtd.fio", Refused("`mtd`")),
    ("nbd.fio", Refused("`nbd`")),
    ("netio.fio", Refused("`net`")),
    ("netio_multicast.fio", Refused("`net`")),
    ("nfs.fio", Refused("`nfs`")),
    ("null.fio", Parses),
    ("numa.fio", Parses),
    ("pmemblk.fio", Refused("`pmemblk`")),
    ("poisson-rate-submission.fio", Parses),
    ("rados.fio", Refused("`rados`")),
    ("rand-zones.fio", Parses),
    ("rbd.fio", Refused("`rbd`")),
    ("rdmaio-client.fio", Refused("`rdma`")),
    ("rdmaio-server.fio", Refused("`rdma`")),
    ("sg_verify-fail.fio", Refused("`sg`")),
    ("sg_verify.fio", Refused("`sg`")),
    ("sg_write_same_ndob.fio", Refused("`sg`")),
    ("ssd-steadystate.fio", Parses),
    ("ssd-test.fio", Parses),
    ("steadystate.fio", Parses),
    ("surface-scan.fio", NeedsSize),
    ("tiobench-example.fio", Parses),
    ("uring-cmd-ng.fio", Refused("`io_uring_cmd`")),
    ("uring-cmd-zoned.fio", Refused("`io_uring_cmd`")),
    ("waitfor.fio", Parses),
    ("xnvme-compare.fio", NeedsEnvironment),
    ("xnvme-zoned.fio", NeedsEnvironment),
    ("zbd-rand-write.fio", Parses),
    ("zbd-seq-read.fio", Parses),
    ("zipf.fio", Parses),
];

fn parsed(name: &str, text: &str, outcome: Outcome) -> Result<JobFile, Vec<Problem>> {
    let environment = |name: &str| match name {
        _ if outcome != NeedsEnvironment => None,
        "FIO_RW" => Some("randread".to_owned()),
        "FIO_IODEPTH" | "FIO_BS" => Some("4096".to_owned()),
        _ => None,
    };
    let size = [("size".to_owned(), "1g".to_owned())];
    let defaults = if outcome == NeedsSize { &size[..] } else { &[] };
    let include = |_: &str, named: &str| Err(format!("no file {named}"));
    parse(&[Source { name, text }], defaults, &[], &environment, &include)
}

/// What is wrong with a file's outcome, if it is not the expected one.
fn surprise(name: &str, text: &str, expected: Outcome) -> Option<String> {
    let problems = match (parsed(name, text, expected), expected) {
        (Ok(_), Refused(word)) => return Some(format!("{name}: parses in spite of {word}")),
        (Ok(_), _) => return None,
        (Err(problems), _) => problems,
    };
    let messages: Vec<String> = problems.iter().map(Problem::to_string).collect();
    let named = |word: &str| messages.iter().any(|message| message.contains(word));
    match expected {
        Refused(word) if named(word) => None,
        _ => Some(format!("{name}: {messages:#?}")),
    }
}

/// Does every example have the outcome in the list?
#[test]
fn examples_parse_or_say_what_is_out_of_scope() {
    if !Path::new(FOLDER).is_dir() {
        return skipped(&format!("no {FOLDER} (Debian package fio-examples)"));
    }
    let mut surprises = Vec::new();
    let mut parse = 0;
    for (name, expected) in FILES {
        // Another version of the package may have other files.
        let Ok(text) = fs::read_to_string(Path::new(FOLDER).join(name)) else { continue };
        parse += usize::from(!matches!(expected, Refused(_)));
        surprises.extend(surprise(name, &text, *expected));
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    assert!(parse > 30, "{parse} files parse");
}

/// Does an example that needs a zoned device say so before it would run?
#[test]
fn zoned_devices_are_asked_for() {
    let text = "[global]\nzonemode=zbd\n[a]\nfilename=/dev/sda\nrw=write\n";
    let file = parsed("z.fio", text, Parses).unwrap();
    let problems = unwired::problems(&file.jobs);
    assert_eq!(problems.len(), 1);
    assert_eq!((problems[0].line, problems[0].text.as_str()), (2, "zonemode=zbd"));
    assert!(problems[0].message.contains("no device model is zoned"));
}
