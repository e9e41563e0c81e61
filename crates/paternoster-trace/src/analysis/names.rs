// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: processes by a small number, with their names.
//!
//! The first [`PROCESSES_MAX`] get a number of their own, others share the last one.

use std::collections::BTreeMap;

use super::PROCESSES_MAX;

/// Bytes of a name that are kept; the kernel has 15.
const NAME_MAX: usize = 64;

/// Represents all processes without a row of their own.
pub(super) const OTHERS: u32 = u32::MAX;

/// Processes in the order in which they were seen.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_pid: BTreeMap<u32, u32>,
    pids: Vec<u32>,
    called: BTreeMap<u32, String>,
    last: Option<(u32, u32)>,
}

impl Names {
    /// The number of a process.
    #[inline]
    pub(super) fn index(&mut self, pid: u32) -> u32 {
        match self.last {
            Some((last, index)) if last == pid => index,
            _ => self.look_up(pid),
        }
    }

    fn look_up(&mut self, pid: u32) -> u32 {
        let next = u32::try_from(self.pids.len()).unwrap_or(u32::MAX);
        let index = match self.by_pid.get(&pid) {
            Some(index) => *index,
            None if self.pids.len() < PROCESSES_MAX => {
                self.by_pid.insert(pid, next);
                self.pids.push(pid);
                next
            }
            None => next - 1,
        };
        self.last = Some((pid, index));
        index
    }

    /// A process's name from now on.
    pub(super) fn learn(&mut self, pid: u32, payload: &[u8]) {
        if self.called.len() >= PROCESSES_MAX && !self.called.contains_key(&pid) {
            return;
        }
        let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
        let name = String::from_utf8_lossy(&payload[..end.min(NAME_MAX)]).into_owned();
        self.called.insert(pid, name);
    }

    /// Number and name of the process of this index; the kernel's own is number 0.
    pub(super) fn of(&self, index: u32) -> (u32, String) {
        if index == OTHERS {
            return (0, "(others)".to_owned());
        }
        let pid = self.pids.get(index as usize).copied().unwrap_or(0);
        let name = match self.called.get(&pid) {
            Some(name) => name.clone(),
            None if pid == 0 => "kernel".to_owned(),
            None => String::new(),
        };
        (pid, name)
    }
}
