// SPDX-License-Identifier: MIT OR Apache-2.0
//! An elevator in a crate outside the workspace, made as `docs/own-elevator.md` explains: the
//! page's dependencies, the example's source, and nothing that only our own crates see.
//!
//! ```text
//! target/outside/Cargo.toml    [dependencies] of the page; the crates from here, not crates.io
//!                Cargo.lock    ours, so that no registry is asked
//!                src/main.rs   examples/elevator.rs
//! ```
//!
//! It is compiled into our target folder, with our profile, so that other projects' crates are not
//! compiled again; ours are, because cargo distinguishes members of a workspace from other crates.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect("it is in the repository")
}

/// The contents of the first block of a language that holds `words`.
fn block<'a>(page: &'a str, language: &str, words: &str) -> &'a str {
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.into_iter().find(|block| block.contains(words)).expect("the page has it")
}

/// The sections of our manifest that say how crates are compiled.
fn profiles(manifest: &str) -> String {
    let sections = manifest.split("\n[").skip(1);
    let profiles = sections.filter(|section| section.starts_with("profile.dev"));
    profiles.map(|section| format!("\n[{section}")).collect()
}

/// Cargo's folder for what is built, in which this test is.
fn target() -> PathBuf {
    let folders = Path::new(env!("CARGO_BIN_EXE_paternoster")).ancestors();
    folders.into_iter().nth(2).expect("target/PROFILE/paternoster").to_path_buf()
}

/// Makes the crate and builds it, once; the program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = target().join("outside");
        fs::create_dir_all(folder.join("src")).expect("a folder");
        let page = read("docs/own-elevator.md");
        let crates = fs::canonicalize(Path::new(ROOT).join("crates")).expect("it is there");
        let patches = ["paternoster-core", "paternoster"].map(|name| {
            let path = crates.join(name);
            format!("{name} = {{ path = {path:?} }}\n")
        });
        let manifest = format!(
            "[package]\nname = \"lottery\"\nedition = \"2024\"\n\n[workspace]\n\n{}\n\
             [patch.crates-io]\n{}{}",
            block(&page, "toml", "[dependencies]"),
            patches.concat(),
            profiles(&read("Cargo.toml")),
        );
        fs::write(folder.join("Cargo.toml"), manifest).expect("room");
        fs::write(folder.join("Cargo.lock"), read("Cargo.lock")).expect("room");
        let source = read("crates/paternoster/examples/elevator.rs");
        fs::write(folder.join("src/main.rs"), source).expect("room");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--offline", "--quiet", "--target-dir"])
            .arg(target())
            .current_dir(&folder)
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .output()
            .expect("cargo starts");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target().join("debug/lottery")
    })
}

fn told(arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    let output = command.current_dir(ROOT).args(arguments).output().expect("it starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

fn told_as_json(arguments: &[&str]) -> Value {
    serde_json::from_str(&told(arguments)).expect("JSON")
}

/// Does the page show the `main` that the example has?
#[test]
fn the_page_shows_the_example() {
    let page = read("docs/own-elevator.md");
    let main = block(&page, "rust", "main_with");
    assert!(read("crates/paternoster/examples/elevator.rs").ends_with(main), "{main}");
}

/// Does the elevator work with every tool: is each promise measured, does it have a row of the
/// scoreboard, are drawn loads run with it?
#[test]
fn it_goes_through_the_instruments() {
    let only = ["--scheduler", "lottery", "--format", "json"];
    let guarantees = told_as_json(&[&["guarantees", "-q"], &only[..]].concat());
    let row = &guarantees["schedulers"][0];
    assert_eq!(row["scheduler"], "lottery", "{guarantees:#}");
    let promises = row["promises"].as_object().expect("promises");
    assert!(promises.values().all(|promise| promise["found"].is_number()), "{row:#}");

    let cell = ["--device", "flash-card-2010", "--workload", "W2-2", "--seeds", "1"];
    let short = ["--settle", "1s", "--runtime", "2s"];
    let board = told_as_json(&[&["scoreboard"], &only[..], &cell[..], &short[..]].concat());
    assert!(board.to_string().contains("\"lottery\""), "{board:#}");

    let drawn = told(&["torture", "--scheduler", "lottery", "--cases", "5"]);
    assert!(drawn.contains("lottery"), "{drawn}");
}

/// Does a job come to its end under it, in virtual time and on a file?
#[test]
fn jobs_run_under_it() {
    let image = target().join("outside/disk.img");
    fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("a sparse file");
    for device in ["ssd-870evo", image.to_str().expect("text")] {
        // 4 MiB by 4 KiB.
        let job = ["--name=a", "--rw=randread", "--bs=4k", "--size=4m", "--iodepth=4"];
        let asked = ["run", "-q", "--scheduler", "lottery", "--output-format", "json"];
        let report = told_as_json(&[&asked[..], &["--device", device], &job[..]].concat());
        let reads = &report["jobs"][0]["read"]["total_ios"];
        assert_eq!(*reads, 1024, "{device}: {report:#}");
    }
}

/// A server that is ended with the test.
struct Server(Child, PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _waited = self.0.wait();
        let _gone = fs::remove_dir_all(&self.1);
    }
}

/// Does the handshake for the export `disk` and reads one block at `offset`.
fn first_block(socket: &Path, offset: u64) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    // Fixed newstyle, no zeroes; NBD_OPT_EXPORT_NAME.
    let option = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 4], b"disk"].concat();
    stream.write_all(&option)?;
    let mut export = [0; 10];
    stream.read_exact(&mut export)?;
    // NBD_CMD_READ, cookie 7.
    let head = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    stream.write_all(&[&head[..], &offset.to_be_bytes(), &4096_u32.to_be_bytes()].concat())?;
    let mut reply = vec![0; 16 + 4096];
    stream.read_exact(&mut reply)?;
    assert_eq!(&reply[..8], &[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a simple reply, no error");
    Ok(reply.split_off(16))
}

/// Does a server share a file with it, does the server's control know its name, and can it be
/// changed for another scheduler and back while clients are connected?
#[test]
fn a_server_shares_by_it() {
    let folder = std::env::temp_dir().join(format!("paternoster-outside-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let content: Vec<u8> = (0..=255).flat_map(|number: u8| [number; 4096]).collect();
    fs::write(folder.join("disk"), content).expect("room");
    let configuration = format!(
        "[server]\nlisten = \"unix:{}\"\ncontrol = \"{}\"\n\
         [device.disk]\nscheduler = \"lottery\"\n\
         [volume.disk]\ndevice = \"disk\"\npath = \"{}\"\nreadonly = true\n",
        path("nbd.sock"),
        path("control.sock"),
        path("disk"),
    );
    fs::write(folder.join("serve.toml"), configuration).expect("room");
    let mut child = Command::new(program())
        .args(["serve", &path("serve.toml")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a server");
    let mut log = BufReader::new(child.stderr.take().expect("its log"));
    let _server = Server(child, folder.clone());
    let mut line = String::new();
    while !line.contains("at nbd+unix:") {
        assert_ne!(log.read_line(&mut line).expect("text"), 0, "it ended: {line}");
    }
    let control = path("control.sock");
    let ctl = |words: &[&str]| told(&[&["ctl", "--socket", &control], words].concat());
    for scheduler in ["lottery", "noop", "lottery"] {
        ctl(&["scheduler", scheduler]);
        assert!(ctl(&["list"]).contains(scheduler));
        // Each block holds its number.
        let block = first_block(&folder.join("nbd.sock"), 5 * 4096).expect("a block");
        assert!(block.iter().all(|&byte| byte == 5), "{scheduler}");
    }
}
