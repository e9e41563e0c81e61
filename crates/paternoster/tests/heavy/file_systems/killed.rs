// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kill -9` of the server in the middle of writes that are synced.
//!
//! A writer makes files and replaces a counter, and notes what has been synced; the server dies
//! without a word during the next write. It starts again, the file system replays its journal, and
//! everything noted must be there: a flush was answered only when it was done.
//!
//! ```text
//! writer   … file 11, synced ─ noted ─ counter 11, synced ─ noted ─ file 12 ✗
//! server                                                     kill -9 ↑
//! then     files 0..=11 whole; the counter is 11, or the 12 that was in flight
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::disk::Disk;
use super::files::content;
use super::kind::Kind;

/// How often the server dies. What was written before one kill must survive the next ones, too.
const ROUNDS: u64 = 3;
/// The most files that are written, whatever happens to the server.
const MOST: u64 = 100_000;
/// How long one file may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files by their number among those of all rounds: a different length each, up to 96 KiB.
fn file(number: u64) -> Vec<u8> {
    let bytes = usize::try_from(number * 7919 % 98_304).expect("small");
    content(number, bytes)
}

fn name(number: u64) -> String {
    format!("file-{number}")
}

/// What a writer may rely on.
#[derive(Debug, Clone, Copy)]
enum Synced {
    File(u64),
    Counter(u64),
}

/// Writes file after file, from this number on, until that fails; notes every sync that succeeded.
fn write(root: &Path, from: u64, notes: &Sender<Synced>) -> io::Result<()> {
    let folder = File::open(root)?;
    let counter =
        File::options().create(true).truncate(false).write(true).open(root.join("counter"))?;
    for number in from..MOST {
        let mut new = File::create(root.join(name(number)))?;
        new.write_all(&file(number))?;
        new.sync_all()?;
        folder.sync_all()?;
        let _the_test_has_failed = notes.send(Synced::File(number));
        counter.write_all_at(&number.to_le_bytes().repeat(512), 0)?;
        counter.sync_data()?;
        let _the_test_has_failed = notes.send(Synced::Counter(number));
    }
    Ok(())
}

/// The count of files that were noted so far, and the last counter.
#[derive(Debug, Default)]
struct Notes {
    files: u64,
    counter: Option<u64>,
}

impl Notes {
    fn take(&mut self, synced: Synced) {
        match synced {
            Synced::File(number) => self.files = number + 1,
            Synced::Counter(number) => self.counter = Some(number),
        }
    }

    /// Fails unless everything noted is there.
    fn check(&self, root: &Path) {
        for number in 0..self.files {
            let found = fs::read(root.join(name(number)));
            let found = found.unwrap_or_else(|error| panic!("file {number} was synced: {error}"));
            assert!(found == file(number), "file {number} was synced, and is different");
        }
        let Some(counter) = self.counter else { return };
        let found = fs::read(root.join("counter")).expect("the counter was synced");
        let found = u64::from_le_bytes(found[..8].try_into().expect("8 bytes"));
        // The next one may have been written, but not yet noted.
        assert!(found == counter || found == counter + 1, "the counter is {found}, not {counter}");
    }
}

/// One life of the server: its writer gets `files` files further, and then some.
fn until_killed(disk: &Disk, root: &Path, notes: &mut Notes, files: u64) {
    let (sender, synced) = channel();
    let from = notes.files;
    thread::scope(|scope| {
        let writer = scope.spawn(move || write(root, from, &sender));
        while notes.files < from + files {
            match synced.recv_timeout(PATIENCE) {
                Ok(synced) => notes.take(synced),
                Err(_) => {
                    // A process that waits for a dead disk waits for ever: the disk must end first.
                    disk.kill();
                    panic!("after {} files: {:?}: {}", notes.files, writer.join(), disk.log());
                }
            }
        }
        disk.kill();
        assert!(writer.join().expect("no panic").is_err(), "who writes to a dead disk is told");
    });
    synced.try_iter().for_each(|synced| notes.take(synced));
}

/// Kills, starts again and looks, several times.
pub(crate) fn killed(mut disk: Disk, kind: Kind) {
    let mut notes = Notes::default();
    for round in 0..ROUNDS {
        let mounted = kind.mount(&disk);
        // Not the same moment of the journal's life in every round.
        until_killed(&disk, mounted.path(), &mut notes, 20 + 17 * round);
        mounted.unmount();
        disk.detach();
        disk.attach();
        let mounted = kind.mount(&disk);
        notes.check(mounted.path());
        mounted.unmount();
        kind.check(&disk);
    }
    disk.detach();
    // 20 + 37 + 54 and what came in before each kill.
    assert!(notes.files >= 111, "{notes:?}");
}
