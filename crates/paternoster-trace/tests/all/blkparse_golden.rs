// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the real blkparse 1.2.0 printed of recorded traces: is ours the same, byte for byte?
//!
//! The lines about the files that it read are left out. Without the recordings the tests say so and
//! pass.

use paternoster_trace::blkparse::Options;

use crate::common::golden::{
    CASES, KERNEL, assert_same, data, merged, text, unpacked, without_files,
};

/// Are lines, elapsed times, programs and the summary of all golden cases the same?
#[test]
fn golden_cases() {
    let Some(folder) = data("btt-golden") else { return };
    for case in CASES {
        let plain = Options::of_file(case);
        let elapsed = Options { elapsed: true, quiet: true, ..plain.clone() };
        let programs = Options { programs: true, quiet: true, ..plain.clone() };
        let runs = [("", plain), ("-t", elapsed), ("-s", programs)];
        let mut compared = 0;
        for (suffix, options) in runs {
            let path = folder.join(case).join(format!("blkparse{suffix}.txt"));
            let Ok(real) = std::fs::read(&path) else { continue };
            compared += 1;
            let ours = text(merged(&folder.join(case), case), options);
            assert_same(&format!("{case}{suffix}"), &ours, without_files(&real));
        }
        // The case `seeks` has the plain text alone.
        assert_eq!(compared, if case == "seeks" { 1 } else { 3 }, "{case}");
    }
}

/// Is the text of a running kernel's trace, with its summary, the same?
#[test]
fn kernel_traces() {
    let Some(folder) = data("kernel-traces") else { return };
    for name in KERNEL {
        let folder = folder.join(name);
        let real = unpacked(&folder.join(format!("{name}.blkparse.txt.gz")));
        let ours = text(merged(&folder, name), Options::of_file(name));
        assert_same(name, &ours, without_files(real.as_bytes()));
    }
}
