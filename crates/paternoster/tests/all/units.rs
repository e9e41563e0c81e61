// SPDX-License-Identifier: MIT OR Apache-2.0
//! The systemd units: does systemd accept them?

use std::path::Path;
use std::process::Command;

/// Do both units pass `systemd-analyze verify` without a complaint? The program stands in for
/// itself, and their user need not exist on this machine.
#[test]
fn systemd_takes_the_units() {
    let told = "systemd-analyze is not installed: the units are not verified";
    let folder = std::env::temp_dir().join(format!("paternoster-units-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve");
    let units = ["paternoster.service", "paternoster.socket"].map(|name| {
        let text = std::fs::read_to_string(docs.join(name)).expect("a unit");
        let here = |line: &&str| {
            !["User=", "Group=", "SocketUser=", "Documentation="]
                .iter()
                .any(|it| line.starts_with(it))
        };
        let lines: Vec<&str> = text.lines().filter(here).collect();
        let program = env!("CARGO_BIN_EXE_paternoster");
        let text = lines.join("\n").replace("/usr/bin/paternoster", program);
        let path = folder.join(name);
        std::fs::write(&path, text + "\n").expect("room");
        path
    });
    let verified = Command::new("systemd-analyze").arg("verify").args(&units).output();
    let _gone = std::fs::remove_dir_all(&folder);
    match verified {
        Err(_) => eprintln!("skipped: systemd_takes_the_units: {told}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
    }
}
