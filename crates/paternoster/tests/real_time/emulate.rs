// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster emulate` against the clock. What else it does is in `tests/all/emulate.rs`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::emulate::{PATIENCE, Place, can, texts};

/// Does a signal end it in good order?
#[test]
fn until_a_signal() {
    if !can() {
        return;
    }
    let place = Place::new();
    let mut command = place.emulate("lab-disk", &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while place.is_empty() && child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    // From here on its file reads like a disk: 8.1 ms.
    let began = Instant::now();
    std::fs::read(place.mount().join("lab-disk")).map(drop).unwrap_or_default();
    let read = began.elapsed();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let (said, why) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}{why}");
    assert!(place.is_empty());
    assert!(why.contains("within 2 to 5 %"), "{why}");
    // 32 MiB at 150 MB/s alone are 223 ms, plus 100 us for each request.
    assert!(read >= Duration::from_millis(220), "{read:?} {why}");
    assert!(said.lines().any(|line| line.trim_start().starts_with("read")), "{said}");
}
