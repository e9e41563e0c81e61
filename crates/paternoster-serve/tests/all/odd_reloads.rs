// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reloads at odd moments, and of odd files: does the server go on as it was, and does each get an
//! answer?

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Client, end};
use crate::reload::{Reloading, snapshot};

const DISK: &str = "[device.dev]\nmemory = \"4MiB\"\n";

fn weighing(house: &Reloading, weight: u32) -> String {
    let disk = house.folder.path("a");
    format!("{DISK}[volume.a]\npath = \"{}\"\n[tenant.a]\nweight = {weight}\n", disk.display())
}

/// Writes and reads a block: the server is alive.
fn works(client: &mut Client, value: u8) {
    assert_eq!(client.write(0, 0, &[value; 4096]).unwrap(), 0);
    assert_eq!(client.read(0, 4096).unwrap(), [value; 4096]);
}

/// Is a path that leads to no configuration refused soon, with its name and what is wrong, and
/// nothing changed: a folder, a pipe (also one that a program holds open and does not write to), a
/// socket, a link to nowhere or to itself, a missing file, 100 MB with a sound beginning, bytes
/// that are no text, a device without an end?
#[test]
fn files_that_are_none_change_nothing() {
    let house = Reloading::new("odd-files");
    house.write(&weighing(&house, 100));
    let good = fs::read(&house.file).unwrap();
    let server = house.start();
    let mut client = house.connect("nbd.sock", "a").unwrap();
    let file = &house.file;
    let long = || {
        let open = fs::File::create(file).unwrap();
        std::io::Write::write_all(&mut &open, &good).unwrap();
        open.set_len(100_000_000).unwrap();
    };
    let held = RefCell::new(None);
    let silent = || {
        make_pipe(file);
        *held.borrow_mut() = fs::File::options().read(true).write(true).open(file).ok();
        assert!(held.borrow().is_some());
    };
    let odd: [(&str, &dyn Fn(), &str); 10] = [
        ("a folder", &|| fs::create_dir(file).unwrap(), "Is a directory"),
        ("a pipe", &|| make_pipe(file), "it is a pipe"),
        ("a silent pipe", &silent, "it is a pipe"),
        ("a socket", &|| drop(UnixListener::bind(file).unwrap()), "it cannot be read"),
        ("a link to nowhere", &|| symlink("/nowhere/at/all", file).unwrap(), "No such file"),
        ("a link to itself", &|| symlink(file, file).unwrap(), "symbolic links"),
        ("nothing", &|| fs::write(file, "").unwrap(), "`server` is missing"),
        ("100 MB", &long, "more than the"),
        ("no text", &|| fs::write(file, b"# \xff").unwrap(), "byte 2 is not UTF-8 text"),
        ("a device", &|| symlink("/dev/zero", file).unwrap(), "more than the"),
    ];
    for ((what, make, why), value) in odd.into_iter().zip(1u8..) {
        let _was_a_file = fs::remove_file(file);
        make();
        let begun = Instant::now();
        let told = server.reload().unwrap_err();
        assert!(told.contains("serve.toml") && told.contains(why), "{what}: {told}");
        assert!(told.contains("nothing was changed"), "{what}: {told}");
        // The server reads no more than a file may have; this limit only ends a test that hangs.
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        works(&mut client, value);
        assert_eq!(snapshot(&server).tenants[0].weight, 100, "{what}");
        if file.is_dir() {
            fs::remove_dir(file).unwrap();
        }
    }
    let _a_link = fs::remove_file(file);
    house.write(&weighing(&house, 300));
    server.reload().unwrap();
    assert_eq!(snapshot(&server).tenants[0].weight, 300);
    end(&server);
}

fn make_pipe(at: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(at).status();
    assert!(made.expect("mkfifo of coreutils").success());
}

/// Do many reloads at once, of a file that keeps changing and is cut now and then, each end with an
/// answer, while a client notices nothing; and does the last one decide?
#[test]
fn many_reloads_at_once() {
    let house = Reloading::new("odd-many");
    house.write(&weighing(&house, 100));
    let server = house.start();
    let (done, sound) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = house.connect("nbd.sock", "a").unwrap();
            let mut value = 0u8;
            while !done.load(Ordering::SeqCst) {
                value = value % 250 + 1;
                works(&mut client, value);
            }
        });
        let writer = scope.spawn(|| {
            // The last one is sound.
            for round in 0..41 {
                match round % 4 {
                    3 => fs::write(&house.file, "[serv").unwrap(),
                    _ => house.write(&weighing(&house, 100 + round)),
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let each = (0..4).map(|_| {
            scope.spawn(|| {
                for _ in 0..15 {
                    match server.reload() {
                        Ok(_) => sound.store(true, Ordering::SeqCst),
                        Err(why) => assert!(why.contains("nothing was changed"), "{why}"),
                    }
                }
            })
        });
        let each: Vec<_> = each.collect();
        each.into_iter().for_each(|one| one.join().expect("its reloads"));
        writer.join().expect("it wrote");
        done.store(true, Ordering::SeqCst);
    });
    house.write(&weighing(&house, 777));
    server.reload().unwrap();
    assert_eq!(snapshot(&server).tenants[0].weight, 777);
    assert!(sound.load(Ordering::SeqCst), "none of 60 found a sound file");
    end(&server);
}

/// Does a reload that is ordered before, during or after a stop get an answer, and does the server
/// end in good order, with what its client wrote?
#[test]
fn a_reload_beside_a_stop() {
    for late in 0..6 {
        let house = Reloading::new("odd-stop");
        house.write(&weighing(&house, 100));
        let server = house.start();
        works(&mut house.connect("nbd.sock", "a").unwrap(), 7);
        house.write(&weighing(&house, 300));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(200 * late));
                server.stop();
            });
            for _ in 0..4 {
                // An error says why; what matters is that there is an answer.
                if let Err(why) = server.reload() {
                    assert!(!why.is_empty());
                }
            }
        });
        server.wait().expect("it ends in good order");
        assert!(server.reload().is_err(), "there is nothing left that could be changed");
        assert_eq!(fs::read(house.folder.path("a")).unwrap()[..4096], [7; 4096]);
    }
}
