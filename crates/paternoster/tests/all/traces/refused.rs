// SPDX-License-Identifier: MIT OR Apache-2.0
//! Are mistakes reported, with their place and what would be right, and nothing else done?

use super::*;

pub(super) fn refused(folder: &Folder, arguments: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    let output = command.current_dir(folder.path()).args(arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Are requests that cannot be done refused with a reason?
#[test]
fn wrong_requests_are_refused() {
    let folder = Folder::new("refused");
    trace(&folder, "noop");
    std::fs::write(folder.path().join("noise"), [0xff, 0, 0x13, 7].repeat(100)).expect("a file");
    for (arguments, reason) in [
        (&["analyze", "nothing"][..], "nothing"),
        (&["analyze", "."], "folder"),
        (&["analyze", "noise"], "noise"),
        (&["analyze", "t", "--window", "3:1"], "ends before it has begun"),
        (&["analyze", "t", "--mask", "isue"], "`isue` is no kind of event"),
        (&["analyze", "t", "--device", "sda"], "a device is MAJOR,MINOR"),
        (&["analyze", "t", "--device", "9,9"], "no event in it that was asked for"),
        (&["analyze", "t", "--", "-A"], "--format btt"),
        (&["analyze", "t", "--format", "btt", "--", "-Y"], "-Y: there is no such option"),
        (&["analyze", "t", "--format", "btt", "--", "-t", "soon"], "it is a time in seconds"),
        (&["analyze", "t", "--format", "blkparse", "--", "-w", "3:1"], "-w 3:1: "),
        (&["analyze", "t", "t", "--format", "btt"], "one trace at a time"),
        (&["run", "mixture.fio", "--trace", "no/such/folder"], "there is no folder no/such"),
        (&["run", "mixture.fio", "--trace", ""], "prefix"),
        (&["record", "/dev/null", "-o", "x"], "no block device"),
        (&["record", "/dev/null", "--seconds", "0"], "more than 0"),
    ] {
        let message = refused(&folder, arguments);
        assert!(message.contains(reason), "{arguments:?}: {message}");
    }
}

/// Does a trace that was cut, or damaged in the middle, give what it holds, and say what is missing
/// where?
#[test]
fn damaged_traces_give_what_they_hold() {
    let folder = Folder::new("damaged");
    trace(&folder, "noop");
    let whole = std::fs::read(folder.path().join("t.blktrace.2")).expect("a file");
    let told = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("a file");
        let mut command = Command::new(PROGRAM);
        let output = command.current_dir(folder.path()).args(["analyze", name]).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{name}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(told("whole", &whole), "");
    let cut = told("cut", &whole[..whole.len() - 10]);
    assert!(cut.contains("the trace ends within a record, of which there are 38 bytes"), "{cut}");
    let mut damaged = whole.clone();
    // Records are multiples of eight bytes here; the hundredth byte onwards is no magic number.
    damaged.splice(48..48, *b"damage");
    let damaged = told("damaged", &damaged);
    assert!(damaged.contains("bytes are no record of blktrace"), "{damaged}");
}
