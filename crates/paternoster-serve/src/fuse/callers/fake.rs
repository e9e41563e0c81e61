// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder for one test with processes and cgroups as it likes them, gone with the test.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use crate::host::private_folder::PrivateFolder;

thread_local! {
    /// What a thread has set by ionice, in the system's numbers, and how often it was queried.
    static IONICE: RefCell<(HashMap<u32, u32>, usize)> = RefCell::default();
}

pub(super) struct Fake(PrivateFolder);

impl Fake {
    pub(super) fn new() -> Fake {
        IONICE.with_borrow_mut(|ionice| *ionice = (HashMap::new(), 0));
        Fake(PrivateFolder::new("paternoster-callers").expect("a folder for the test"))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A thread of a process, by name, started at that tick.
    pub(super) fn thread(&self, thread: u32, process: u32, name: &str, started: u64) {
        self.stat(thread, name, 'S', started);
        self.write(&format!("proc/{thread}/status"), &format!("Name:\t{name}\nTgid:\t{process}\n"));
    }

    pub(super) fn stat(&self, thread: u32, name: &str, state: char, started: u64) {
        // Fields 4 to 18, nice 0, 20, 21, started, 23 to 40, policy 0.
        let some = |count| "7 ".repeat(count);
        let (first, second, last) = (some(15), some(2), some(18));
        let text = format!("{thread} ({name}) {state} {first}0 {second}{started} {last}0\n");
        self.write(&format!("proc/{thread}/stat"), &text);
    }

    pub(super) fn cgroup(&self, thread: u32, lines: &str) {
        self.write(&format!("proc/{thread}/cgroup"), lines);
    }

    pub(super) fn end(&self, thread: u32) {
        fs::remove_dir_all(self.path(&format!("proc/{thread}"))).expect("it was there");
    }

    /// What the thread has from now on.
    pub(super) fn ionice(thread: u32, answer: u32) {
        IONICE.with_borrow_mut(|ionice| ionice.0.insert(thread, answer));
    }

    /// How often ionice was queried: once for each look at a thread.
    pub(super) fn looks() -> usize {
        IONICE.with_borrow(|ionice| ionice.1)
    }

    /// The system's place in tests.
    pub(super) fn ask(thread: u32) -> Option<u32> {
        IONICE.with_borrow_mut(|ionice| {
            ionice.1 += 1;
            ionice.0.get(&thread).copied()
        })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(self.0.path());
    }
}
