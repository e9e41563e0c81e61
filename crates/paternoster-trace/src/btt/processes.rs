// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes: submitters, by name; processes of one name are one.
//!
//! Notes name them: the name ends at its first `/` (`kworker/0:1` is `kworker`), process 0 is
//! always `kernel`. One without a note by its first event is called `pid000001234`.
//!
//! Limit: [`PROCESSES_MAX`] names; further ones share the last.
//!
//! Source: BTT-5, BTT-26.

use std::collections::BTreeMap;

use super::intervals::{Arrivals, Intervals};
use super::ranges::Activity;

/// Names that are kept separate.
pub const PROCESSES_MAX: usize = 1 << 14;
/// Numbers of processes that are remembered; further ones have no name.
const NOTES_MAX: usize = 1 << 20;

/// Processes that are found without a search.
const RECENT: usize = 64;

/// All processes of one name.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) intervals: Intervals,
    pub(super) arrivals: Arrivals,
    pub(super) activity: Activity,
}

/// All processes.
#[derive(Debug)]
pub(super) struct Processes {
    processes: Vec<Process>,
    by_name: BTreeMap<String, u32>,
    by_pid: BTreeMap<u32, u32>,
    /// The last ones that were looked up, by the low bits of their number.
    recent: [Option<(u32, u32)>; RECENT],
    shared: u64,
}

impl Processes {
    pub(super) const fn new() -> Processes {
        Processes {
            processes: Vec::new(),
            by_name: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            recent: [None; RECENT],
            shared: 0,
        }
    }

    /// A note names a process; the first name counts.
    pub(super) fn name(&mut self, pid: u32, name: &[u8]) {
        if self.by_pid.contains_key(&pid) || self.by_pid.len() >= NOTES_MAX {
            return;
        }
        let end = name.iter().position(|byte| matches!(byte, 0 | b'/')).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..end]);
        let known = self.known(if pid == 0 { "kernel" } else { &name });
        self.by_pid.insert(pid, known);
    }

    /// The process of this number.
    #[inline]
    pub(super) fn of(&mut self, pid: u32) -> u32 {
        match self.recent[pid as usize % RECENT] {
            Some((known, process)) if known == pid => process,
            _ => self.look_up(pid),
        }
    }

    fn look_up(&mut self, pid: u32) -> u32 {
        let process = match self.by_pid.get(&pid) {
            Some(process) => *process,
            None => {
                let process = self.known(&format!("pid{pid:09}"));
                if self.by_pid.len() < NOTES_MAX {
                    self.by_pid.insert(pid, process);
                }
                process
            }
        };
        self.recent[pid as usize % RECENT] = Some((pid, process));
        process
    }

    /// The process of this name, which may be new.
    fn known(&mut self, name: &str) -> u32 {
        if let Some(process) = self.by_name.get(name) {
            return *process;
        }
        let next = u32::try_from(self.processes.len()).expect("names are limited");
        if self.processes.len() >= PROCESSES_MAX {
            self.shared += 1;
            return next - 1;
        }
        self.by_name.insert(name.to_owned(), next);
        self.processes.push(Process {
            name: name.to_owned(),
            intervals: Intervals::default(),
            arrivals: Arrivals::new(),
            activity: Activity::default(),
        });
        next
    }

    pub(super) fn get_mut(&mut self, process: u32) -> &mut Process {
        &mut self.processes[process as usize]
    }

    /// In order of their names.
    pub(super) fn by_name(&self) -> impl Iterator<Item = &Process> {
        self.by_name.values().map(|process| &self.processes[*process as usize])
    }

    /// How many times a name had to share the last row.
    pub(super) const fn shared(&self) -> u64 {
        self.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are processes of one name one, with btt's names?
    #[test]
    fn processes_of_one_name_are_one() {
        let mut processes = Processes::new();
        processes.name(7, b"kworker/0:1\0\0\0\0\0");
        processes.name(8, b"kworker/1:0");
        processes.name(0, b"swapper");
        processes.name(8, b"renamed");
        assert_eq!(processes.of(7), processes.of(8));
        let (kernel, nameless) = (processes.of(0), processes.of(12));
        assert_eq!(processes.get_mut(kernel).name, "kernel");
        assert_eq!(processes.get_mut(nameless).name, "pid000000012");
        let names: Vec<&str> = processes.by_name().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["kernel", "kworker", "pid000000012"]);
    }
}
