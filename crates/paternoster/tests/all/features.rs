// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program that was built for one purpose contains, by the tree of its dependencies.
//!
//! A server runs for years and hears strangers: the simulator, the generators of load and what
//! reads traces are nothing that it needs, and so nothing that an exploit should find there.

use std::process::Command;

/// The packages of the program with these features alone, ours and others', without versions.
fn packages(features: &str) -> Vec<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let tree = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--package", "paternoster", "--edges", "normal"])
        .args(["--no-default-features", "--features", features])
        .args(["--prefix", "none", "--format", "{lib}|{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo, which runs this test");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).expect("text");
    let name = |line: &str| Some(line.split_once('|')?.1.split(' ').next()?.to_owned());
    let mut all: Vec<String> = text.lines().filter_map(name).collect();
    all.sort();
    all.dedup();
    all
}

fn ours(features: &str) -> Vec<String> {
    let all = packages(features);
    all.into_iter().filter(|name| name.starts_with("paternoster")).collect()
}

/// Is a program with the server alone without the simulator, the generators of load, what judges
/// and what reads traces, and is one without the server without TLS, FUSE and io_uring?
#[test]
fn a_server_alone_has_no_simulator_and_no_tracer() {
    let server = ["", "-base", "-core", "-frame", "-measure", "-schedulers", "-serve"];
    assert_eq!(ours("serve"), server.map(|name| format!("paternoster{name}")));
    let others = packages("serve");
    for absent in ["saphyr-parser", "resvg", "parquet", "ruzstd", "flate2", "libm"] {
        assert!(!others.iter().any(|name| name == absent), "{absent}: {others:?}");
    }
    // The same question of a program that has them finds them: it is asked rightly.
    for present in ["paternoster-sim", "paternoster-trace", "paternoster-workload"] {
        assert!(ours("instruments").iter().any(|name| name == present), "{present}");
    }
    let simulator = packages("instruments");
    for absent in ["paternoster-serve", "rustls", "ring", "fuser", "io-uring"] {
        assert!(!simulator.iter().any(|name| name == absent), "{absent}: {simulator:?}");
    }
}
