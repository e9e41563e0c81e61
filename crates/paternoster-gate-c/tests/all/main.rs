// SPDX-License-Identifier: MIT OR Apache-2.0
//! C programs that use the header and the library: do they compile without a warning, run, and
//! leave no memory behind?

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where cargo has put the libraries: beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    test.parent().expect("it lies in a folder").to_path_buf()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The example, compiled by this compiler against the shared library, for this test alone.
fn compile(compiler: &str, test: &str) -> PathBuf {
    let folder = libraries();
    let program = folder.join(format!("threads-{compiler}-{test}"));
    let output = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-o"])
        .arg(&program)
        .arg(Path::new(ROOT).join("examples/threads.c"))
        .arg(format!("-I{ROOT}/include"))
        .arg(format!("-L{}", folder.display()))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lpaternoster_c", "-pthread"])
        .output()
        .expect("the compiler starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Does the example with pthreads compile under gcc and clang without a warning; and does each of
/// its classes get its 100 permits of 4 KiB, and every misuse its answer?
#[test]
fn the_example_compiles_and_runs() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            println!("skipped: the_example_compiles_and_runs: {compiler} is not installed");
            continue;
        }
        let output = Command::new(compile(compiler, "runs")).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        // Two threads of 50 each; by a callback one more, of no bytes.
        assert_eq!(
            text,
            "class 0: 101 permits, 409600 bytes\nclass 1: 100 permits, 409600 bytes\n"
        );
    }
}

/// Does valgrind find nothing to say of the example?
#[test]
fn the_example_leaves_nothing_behind() {
    for program in ["gcc", "valgrind"] {
        if !has(program) {
            println!("skipped: the_example_leaves_nothing_behind: {program} is not installed");
            return;
        }
    }
    let output = Command::new("valgrind")
        .args([
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(compile("gcc", "valgrind"))
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Has the header every function of the library, and the library every function of the header?
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
    assert_eq!(header, names(&read("src/lib.rs")));
    assert!(header.len() >= 20, "{header:?}");
}
