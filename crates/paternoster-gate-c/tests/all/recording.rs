// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings from C: they are made and replayed, and a changed line is found.

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::ptr;

// The library itself, which has no Rust interface.
use paternoster_c as _;

use crate::common::{compile, fresh_folder, has_all};
use crate::under_valgrind;

unsafe extern "C" {
    fn pn_replay(
        recording: *const c_char,
        until: usize,
        lines: *mut usize,
        text: *mut c_char,
        room: usize,
    ) -> c_int;
}

/// What C gets for a recording: the result, the line, the words as far as there is room.
fn replay(file: &Path, until: usize, room: usize) -> (c_int, usize, String) {
    let path = CString::new(file.to_str().expect("a path")).expect("without 0");
    let (mut lines, mut text) = (usize::MAX, vec![0_u8; room.max(1)]);
    // SAFETY: there is as much room as given.
    let result =
        unsafe { pn_replay(path.as_ptr(), until, &raw mut lines, text.as_mut_ptr().cast(), room) };
    let len = text.iter().position(|byte| *byte == 0).expect("a 0 at its end");
    text.truncate(len);
    (result, lines, String::from_utf8(text).expect("words"))
}

/// Does the example compile under gcc and clang without a warning, say what the read waited for,
/// and leave nothing behind; and is each line that is changed afterwards found?
#[test]
fn a_recording_is_done_again() {
    let folder = fresh_folder("recording");
    let file = folder.join("made.gate");
    for compiler in ["gcc", "clang"] {
        if !has_all("a_recording_is_done_again", &[compiler]) {
            continue;
        }
        let program = compile(compiler, "recorded.c", "recorded", &[]);
        let mut ways = vec![Command::new(&program)];
        // valgrind 3.19 does not read what clang 14 writes for debuggers.
        if compiler == "gcc" && has_all("a_recording_is_done_again", &["valgrind"]) {
            ways.push(under_valgrind(&program));
        }
        for mut way in ways {
            let output = way.arg(&file).output().expect("it starts");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
            assert!(text.starts_with("reads, 4096 bytes: it waits for"), "{text}");
        }
    }
    let Ok(text) = fs::read_to_string(&file) else { return };
    let count = text.lines().count();
    assert_eq!(replay(&file, usize::MAX, 64), (0, count, String::new()));
    // A line's answer comes after its last `=`: PN_DIFFERS says which line it is.
    let changed = folder.join("changed.gate");
    for (place, line) in text.lines().enumerate().skip(1) {
        let (call, answer) = line.rsplit_once(" = ").expect("a call and its answer");
        let other = text.replacen(line, &format!("{call} = {answer}0"), 1);
        fs::write(&changed, &other).expect("it is written");
        let (result, at, words) = replay(&changed, usize::MAX, 512);
        // The same line may occur earlier.
        let first = text.lines().position(|other| other == line).expect("it is there");
        assert_eq!((result, at), (8, first.min(place) + 1), "{line}: {words}");
        assert!(words.starts_with(&format!("line {at} has another answer now")), "{words}");
    }
}

/// Is a text that is no recording answered in words, cut where the room ends, and is NULL no fault?
#[test]
fn what_is_no_recording() {
    let folder = fresh_folder("no-recording");
    let file = folder.join("some");
    let (result, line, words) = replay(&file, usize::MAX, 512);
    assert_eq!((result, line), (9, 0));
    assert!(words.contains("some: No such file"), "{words}");
    for text in ["", "gate", "gate 999 1 1 1 1 false\n", "gate 2 1\n", "\u{0}\n"] {
        fs::write(&file, text).expect("it is written");
        let (result, line, words) = replay(&file, usize::MAX, 16);
        assert_eq!((result, line), (9, 1), "{text:?}");
        assert_eq!(words, "line 1 is no ca", "{text:?}");
    }
    fs::write(&file, [0xff, b'\n']).expect("it is written");
    assert_eq!(replay(&file, usize::MAX, 0).0, 9);
    // SAFETY: NULL is allowed.
    let result = unsafe { pn_replay(ptr::null(), 0, ptr::null_mut(), ptr::null_mut(), 0) };
    assert_eq!(result, 7);
}
