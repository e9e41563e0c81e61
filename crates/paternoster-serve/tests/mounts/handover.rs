// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handover of a server with files: another one shows them, and processes open them again.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::files::{MIB, shown_by, turn};
use crate::common::client::READ;
use crate::common::{Client, Folder, end, start, take_over};

/// Is what a process wrote there when it opens the file again, which fails before; and does another
/// client notice nothing?
#[test]
fn processes_open_their_files_again() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::in_memory("files-handover");
    let (config, disk) = shown_by(&folder, 2 * MIB, |config| {
        config.server.control = Some(folder.path("control"));
    });
    let old = start(config.clone());
    let mut beside = Client::connect(&folder.path("nbd.sock"), "disk").expect("a server");
    assert_eq!(beside.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    let open = || OpenOptions::new().read(true).write(true).open(&disk);
    let file = open().expect("it is shown");
    file.write_all_at(&[2; 4096], MIB).expect("it is served");
    let ended = std::thread::spawn(move || old.wait());
    let new = take_over(config);
    ended.join().expect("no panic").expect("it ends in good order");
    assert_eq!(new.notes(), [""; 0]);
    let mut block = [0; 4096];
    file.read_exact_at(&mut block, MIB).expect_err("it was the other's");
    drop(file);
    open().expect("it is shown").read_exact_at(&mut block, MIB).expect("it is served");
    assert_eq!(block, [2; 4096]);
    let told = beside.ask(READ, 0, 0, 4096).expect("the same connection");
    assert_eq!((told.errno, &told.data[0].1[..]), (0, &[1; 4096][..]));
    drop(beside);
    end(&new);
}
