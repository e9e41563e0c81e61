// SPDX-License-Identifier: MIT OR Apache-2.0
//! Do all recordings exist, and unpack as they were? A log that is missing, or that ends too early,
//! would be one without differences.

use paternoster_conformance::Folder;

/// 66 logs of 4.19.1 with 1,385,227 lines, 8 logs of 6.18 with 363,837: counted with `wc -l` when
/// they were recorded.
#[test]
fn all_lines_are_there() {
    for (folder, logs, lines) in [(Folder::Cfq, 66, 1_385_227), (Folder::Bfq, 8, 363_837)] {
        let names = folder.names();
        let found: usize = names.iter().map(|name| folder.log(name).lines().count()).sum();
        assert_eq!((names.len(), found), (logs, lines), "{folder:?}");
    }
}
