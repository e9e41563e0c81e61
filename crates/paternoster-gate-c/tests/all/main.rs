// SPDX-License-Identifier: MIT OR Apache-2.0
//! C programs that use the header and the library: do they compile without a warning, run, and
//! leave no memory behind?

#[path = "../common/mod.rs"]
mod common;
mod nbdkit;
mod recording;
mod sqlite;

use std::path::Path;
use std::process::Command;

use common::{ROOT, compile, has, has_all, libraries};

/// Does the example with pthreads compile under gcc and clang without a warning; and does each of
/// its classes get its 100 permits of 4 KiB, and every misuse an error code?
#[test]
fn the_example_compiles_and_runs() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            println!("skipped: the_example_compiles_and_runs: {compiler} is not installed");
            continue;
        }
        let output =
            Command::new(compile(compiler, "threads.c", "runs", &[])).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        // Two threads of 50 each; one more by a callback, of 0 bytes.
        assert_eq!(
            text,
            "class 0: 101 permits, 409600 bytes\nclass 1: 100 permits, 409600 bytes\n"
        );
    }
}

/// A program under valgrind, which exits with 9 if it finds an error.
pub(crate) fn under_valgrind(program: &Path) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
    valgrind.arg("--errors-for-leak-kinds=definite").arg(program);
    valgrind
}

/// Does valgrind find no error in the example?
#[test]
fn the_example_leaves_nothing_behind() {
    if !has_all("the_example_leaves_nothing_behind", &["gcc", "valgrind"]) {
        return;
    }
    let program = compile("gcc", "threads.c", "valgrind", &[]);
    let output = under_valgrind(&program).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A process forks while it holds a permit: does the child leave the parent's gate as it was, and
/// does a gate of its own work?
#[test]
fn a_fork_leaves_the_parents_gate_as_it_was() {
    for compiler in ["gcc", "clang"] {
        if !has_all("a_fork_leaves_the_parents_gate_as_it_was", &[compiler]) {
            continue;
        }
        let program = compile(compiler, "../tests/all/fork.c", "fork", &[]);
        let status = Command::new(&program).status().expect("it starts");
        // The exit code says which step failed (`fork.c`).
        assert!(status.success(), "{compiler}: {status}");
    }
}

/// Does the example with io_uring, one thread and callbacks, compile under gcc and clang without a
/// warning, get its 100 permits of 4 KiB for each class, and leave nothing behind?
#[test]
fn the_example_with_io_uring() {
    if !has_all("the_example_with_io_uring", &["/usr/include/liburing.h"]) {
        return;
    }
    for compiler in ["gcc", "clang"] {
        if !has_all("the_example_with_io_uring", &[compiler]) {
            continue;
        }
        let program = compile(compiler, "uring.c", "uring", &["-luring"]);
        let mut ways = vec![Command::new(&program)];
        // valgrind 3.19 cannot read clang 14's debug information.
        if compiler == "gcc" && has_all("the_example_with_io_uring", &["valgrind"]) {
            ways.push(under_valgrind(&program));
        }
        for mut way in ways {
            let output = way.output().expect("it starts");
            if output.status.code() == Some(77) {
                println!("skipped: the_example_with_io_uring: there is no io_uring here");
                return;
            }
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(
                text,
                "class 0: 100 permits, 409600 bytes\nclass 1: 100 permits, 409600 bytes\n"
            );
        }
    }
}

/// Installed below a prefix, does pkg-config find the library, shared and static, and does groff
/// find no fault in the manual?
#[test]
fn installed_it_is_found() {
    if !has_all("installed_it_is_found", &["gcc", "pkg-config"]) {
        return;
    }
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
    let _old = std::fs::remove_dir_all(&prefix);
    let install = Path::new(ROOT).join("install");
    let installed = Command::new(install).arg(&prefix).arg(libraries()).status();
    assert!(installed.expect("it starts").success());
    let flags = "$(pkg-config --cflags paternoster)";
    for (name, libraries) in [
        ("shared", "$(pkg-config --libs paternoster) -pthread"),
        ("static", "-L\"$PREFIX\"/lib -l:libpaternoster_c.a -lpthread -ldl -lm"),
    ] {
        let script = format!(
            "set -e; export PKG_CONFIG_PATH=\"$PREFIX\"/lib/pkgconfig\n\
             test \"$(pkg-config --modversion paternoster)\" = {}\n\
             gcc {flags} {ROOT}/examples/threads.c {libraries} -o \"$PREFIX\"/{name}\n\
             LD_LIBRARY_PATH=\"$PREFIX\"/lib \"$PREFIX\"/{name}\n",
            env!("CARGO_PKG_VERSION")
        );
        let output = Command::new("sh").args(["-c", &script]).env("PREFIX", &prefix).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(prefix.join("share/man/man3/paternoster-gate.3.gz").exists());
    if has_all("installed_it_is_found", &["groff"]) {
        let page = Path::new(ROOT).join("man/paternoster-gate.3");
        let told = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(page).output();
        assert_eq!(String::from_utf8_lossy(&told.expect("it starts").stderr), "");
    }
}

/// Does the manual name every function of the header?
#[test]
fn the_manual_is_whole() {
    let read = |file: &str| std::fs::read_to_string(Path::new(ROOT).join(file)).expect(file);
    let manual = read("man/paternoster-gate.3");
    let header = read("include/paternoster.h");
    let functions = header.split("pn_").skip(1).filter_map(|part| {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_')?;
        part[end..].starts_with('(').then(|| format!("pn_{}(", &part[..end]))
    });
    let missing: Vec<String> = functions.filter(|name| !manual.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Does the header have every function of the library, and the library every function of the
/// header?
#[test]
fn header_and_library_agree() {
    let names = |text: &str| {
        let mut names: Vec<String> = Vec::new();
        for part in text.split("pn_").skip(1) {
            let name: String =
                part.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if part[name.len()..].starts_with('(') {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    };
    let read = |file: &str| std::fs::read_to_string(Path::new(ROOT).join(file)).expect(file);
    let header = names(&read("include/paternoster.h"));
    let library = read("src/lib.rs") + &read("src/recording.rs");
    assert_eq!(header, names(&library));
    assert!(header.len() >= 20, "{header:?}");
}
