// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the trace of a real kernel's loop device go the whole way: recorded, analysed, drawn,
//! replayed?
//!
//! It needs root, a loop device, and the kernel's tracer; without one of them the test says which
//! and passes.

use std::process::Output;

use super::*;

/// A loop device over a file of 16 MiB, which is removed with it.
struct Loop(String);

impl Loop {
    fn new(folder: &Folder) -> Result<Loop, String> {
        let image = folder.path().join("image");
        std::fs::write(&image, vec![7_u8; 16 << 20]).map_err(|error| error.to_string())?;
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output();
        let output = output.map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(Loop(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _best_effort = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

fn record(folder: &Folder, device: &str) -> Output {
    let reads = format!("dd if={device} of=/dev/null bs=64k count=100 iflag=direct 2>/dev/null");
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder.path()).args(["record", device, "-o", "cap", "--"]);
    command.args(["sh", "-c", &reads]).output().expect("it runs")
}

/// dd reads 100 blocks of 64 KiB, directly: the trace has just these, by name, and can be used in
/// every way.
#[test]
fn a_real_device_goes_the_whole_way() {
    // Usually it is not mounted until requested.
    let _best_effort = Command::new("mount")
        .args(["-t", "tracefs", "nodev", "/sys/kernel/tracing"])
        .stderr(Stdio::null())
        .status();
    let folder = Folder::new("capture");
    let device = match Loop::new(&folder) {
        Ok(device) => device,
        Err(reason) => return skipped(&format!("no loop device: {}", reason.trim())),
    };
    let recorded = record(&folder, &device.0);
    if !recorded.status.success() {
        let reason = String::from_utf8_lossy(&recorded.stderr).trim().replace('\n', " / ");
        return skipped(&format!("{} cannot be recorded: {reason}", device.0));
    }
    let text = run(PROGRAM, folder.path(), &["analyze", "cap", "--format", "json"]);
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let found = &found["traces"][0];
    let disk = &found["devices"][0];
    let read = &disk["read"];
    assert_eq!(read["completed_bytes"], 100 * 65_536, "{text}");
    let processes = disk["processes"].as_array().expect("processes");
    let dd = processes.iter().find(|process| process["name"] == "dd").expect("dd by its name");
    assert_eq!(dd["read_bytes"], 100 * 65_536, "{text}");
    assert_eq!(found["problems"], 0, "{text}");
    if is_here("blkparse", "-V") {
        let theirs = run("blkparse", folder.path(), &["-i", "cap", "-q"]);
        let theirs = theirs.lines().filter(|line| !line.starts_with("Input file"));
        let theirs: String = theirs.map(|line| format!("{line}\n")).collect();
        let words = ["analyze", "cap", "--format=blkparse", "--", "-q"];
        assert_equal("blkparse", &run(PROGRAM, folder.path(), &words), &theirs);
    }
    let pictures = ["analyze", "cap", "--plot=access=a.svg", "--html=report.html"];
    run(PROGRAM, folder.path(), &pictures);
    let drawn = std::fs::read_to_string(folder.path().join("a.svg")).expect("a picture");
    assert!(drawn.contains("dd"), "{drawn}");
    let replay = ["replay", "cap", "--device=hdd-7200", "--scheduler=noop", "-q"];
    let told = run(PROGRAM, folder.path(), &replay);
    assert!(told.contains("noop"), "{told}");
}
