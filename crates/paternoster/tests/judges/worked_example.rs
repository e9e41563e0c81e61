// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worked example of `docs/own-device.md`: does the device made from six published figures show
//! them? The rest of that page is tested in `tests/all/own_device.rs`.

use std::process::{Command, Stdio};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Does the worked example's device show the six figures from which it was made, within 1 %?
#[test]
fn the_worked_example_works() {
    let output = Command::new(env!("CARGO_BIN_EXE_paternoster"))
        .current_dir(ROOT)
        .args([
            "run",
            "-q",
            "--scheduler",
            "noop",
            "docs/examples/six-runs.fio",
            "--device",
            "docs/examples/ssd-850evo.toml",
            "--output-format",
            "json",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // The sequential ones in I/Os of 128 KiB: 549.939 and 531.114 MB/s.
    let published =
        [9738.0, 70_946.8, 549.939e6 / 131_072.0, 32_373.8, 67_293.0, 531.114e6 / 131_072.0];
    for (job, published) in published.into_iter().enumerate() {
        let way = if job < 3 { "read" } else { "write" };
        let found = report["jobs"][job][way]["iops"].as_f64().expect("a number");
        let off = (found / published - 1.0) * 100.0;
        assert!(off.abs() < 1.0, "job {job}: {found:.1}/s, published {published:.1}: {off:+.2} %");
    }
}
