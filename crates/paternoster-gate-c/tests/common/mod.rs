// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests share: the libraries that cargo built, and C programs compiled against them.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where cargo put the libraries: next to this test.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    test.parent().expect("it lies in a folder").to_path_buf()
}

pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether all of these programs and headers are here; says which one is missing, with the test's
/// name.
pub(crate) fn has_all(test: &str, needed: &[&str]) -> bool {
    let is_here = |needed: &str| match needed.starts_with('/') {
        true => Path::new(needed).exists(),
        false => has(needed),
    };
    let missing = needed.iter().find(|needed| !is_here(needed));
    missing.inspect(|missing| println!("skipped: {test}: {missing} is not installed")).is_none()
}

/// An example in C, compiled by this compiler against the shared library, without a warning. `name`
/// is the result's, used by one test only.
pub(crate) fn compile(compiler: &str, example: &str, name: &str, more: &[&str]) -> PathBuf {
    let folder = libraries();
    let made = folder.join(format!("{name}-{compiler}"));
    let output = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-o"])
        .arg(&made)
        .arg(Path::new(ROOT).join("examples").join(example))
        .arg(format!("-I{ROOT}/include"))
        .arg(format!("-L{}", folder.display()))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lpaternoster_c", "-pthread"])
        .args(more)
        .output()
        .expect("the compiler starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    made
}

/// The program that commits to databases (`sqlite.c`), with its VFS, by this compiler; `name` as
/// above.
pub(crate) fn sqlite_program(compiler: &str, name: &str) -> PathBuf {
    let shim = Path::new(ROOT).join("examples/sqlite-fair-vfs.c");
    let more = [shim.to_str().expect("a path"), "-lsqlite3"];
    compile(compiler, "../tests/real_time/sqlite.c", name, &more)
}

/// An empty folder of this name.
pub(crate) fn fresh_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _old = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// nbdkit's filter, compiled by this compiler. It stays loaded: the library under it has threads.
pub(crate) fn nbdkit_filter(compiler: &str, test: &str) -> PathBuf {
    let options = ["-D_POSIX_C_SOURCE=200809L", "-shared", "-fPIC", "-Wl,-z,nodelete"];
    let made = compile(compiler, "nbdkit-fair-filter.c", &format!("fair-{test}"), &options);
    // nbdkit takes a name that ends so for the file of a filter.
    let filter = made.with_extension("so");
    std::fs::rename(&made, &filter).expect("the same folder");
    filter
}

/// Needed to compile the filter, and to load it.
pub(crate) const NBDKIT: [&str; 2] = ["/usr/include/nbdkit-filter.h", "nbdkit"];
