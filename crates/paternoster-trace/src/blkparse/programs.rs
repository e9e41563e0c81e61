// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs: the names of processes, and what each of them did.
//!
//! ```text
//! note 77 "dd" ─▶ names      77 ─▶ dd
//! event of 77  ─▶ programs   dd (77)        by process
//! event of 78  ─▶            dd (77, ...)   by name: 77 came first, and was not alone
//! ```
//!
//! A process without a name is `(null)`, until it is counted or followed; from then on it is called
//! `unknown`. A process keeps its first name. By name, the processes called `unknown` each have
//! their own program when they first come, and the one that came last takes what any of them does
//! thereafter: as in blkparse.
//!
//! Programs are printed in the order of versions, in which runs of digits are numbers: `abc9`
//! before `abc10`.
//!
//! Invariant: I1 at most [`PROCESSES_MAX`] processes are known; others are `(null)` and not counted
//! by program.
//!
//! Source: PARSE-9, PARSE-25; the installed tool.

use core::cmp::Ordering;
use std::collections::BTreeMap;

use super::summary::{Counts, Side};

/// How many processes are known.
pub const PROCESSES_MAX: usize = 1 << 17;
/// Bytes of a name; a kernel keeps no more.
const NAME_MAX: usize = 15;
/// How a process is called that has no name and is counted.
const UNKNOWN: &[u8] = b"unknown";

#[derive(Debug)]
struct Process {
    name: Box<[u8]>,
    program: Option<usize>,
}

/// What the processes of one number, or of one name, did.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) pid: u32,
    pub(super) name: Box<[u8]>,
    /// There were other processes of this name.
    pub(super) several: bool,
    pub(super) counts: Counts,
    /// The longest times to be inserted, issued, completed, in microseconds.
    pub(super) waits: [[u64; 2]; 3],
}

/// Which wait.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    Allocation,
    Dispatch,
    Completion,
}

/// All processes.
#[derive(Debug)]
pub(super) struct Programs {
    by_name: bool,
    places: BTreeMap<u32, usize>,
    processes: Vec<Process>,
    /// The process that was looked up last, and its index.
    last: Option<(u32, usize)>,
    programs: Vec<Program>,
    /// The program of each name that was added last.
    named: BTreeMap<Box<[u8]>, usize>,
}

impl Programs {
    pub(super) fn new(by_name: bool) -> Programs {
        Programs {
            by_name,
            places: BTreeMap::new(),
            processes: Vec::new(),
            last: None,
            programs: Vec::new(),
            named: BTreeMap::new(),
        }
    }

    #[inline]
    fn place(&mut self, pid: u32) -> Option<usize> {
        match self.last {
            Some((last, place)) if last == pid => Some(place),
            _ => {
                let place = *self.places.get(&pid)?;
                self.last = Some((pid, place));
                Some(place)
            }
        }
    }

    /// Gives a process its name, unless it has one; it ends with a NUL, or where it is too long.
    pub(super) fn name(&mut self, pid: u32, name: &[u8]) {
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        self.known(pid, &name[..name.len().min(NAME_MAX)]);
    }

    /// The index of a process, which gets this name if it is new.
    fn known(&mut self, pid: u32, name: &[u8]) -> Option<usize> {
        if let Some(place) = self.place(pid) {
            return Some(place);
        }
        if self.processes.len() >= PROCESSES_MAX {
            return None;
        }
        let place = self.processes.len();
        self.places.insert(pid, place);
        self.processes.push(Process { name: name.into(), program: None });
        Some(place)
    }

    /// A process's name in a line.
    #[inline]
    pub(super) fn name_of(&mut self, pid: u32) -> &[u8] {
        match self.place(pid) {
            Some(place) => &self.processes[place].name,
            None => b"(null)",
        }
    }

    /// Sees to it that a process has a name.
    pub(super) fn meet(&mut self, pid: u32) {
        self.known(pid, UNKNOWN);
    }

    /// The program of a known process, if it has one.
    fn find(&self, place: usize) -> Option<usize> {
        let process = &self.processes[place];
        if self.by_name { self.named.get(&process.name).copied() } else { process.program }
    }

    /// The program of a process, made if there is none.
    pub(super) fn of(&mut self, pid: u32) -> Option<&mut Program> {
        let found = self.place(pid).and_then(|place| self.find(place));
        let index = match found {
            Some(index) => index,
            None => {
                let place = self.known(pid, UNKNOWN)?;
                self.add(pid, place)
            }
        };
        Some(self.shared(index, pid))
    }

    /// A program that is used by this process.
    fn shared(&mut self, index: usize, pid: u32) -> &mut Program {
        let program = &mut self.programs[index];
        program.several |= program.pid != pid;
        program
    }

    fn add(&mut self, pid: u32, place: usize) -> usize {
        let index = self.programs.len();
        let process = &mut self.processes[place];
        process.program = Some(index);
        let name = process.name.clone();
        self.named.insert(name.clone(), index);
        let (counts, waits) = (Counts::default(), [[0; 2]; 3]);
        self.programs.push(Program { pid, name, several: false, counts, waits });
        index
    }

    /// A request of this process took this long for a step; it counts if the process has done
    /// something that counts.
    pub(super) fn waited(&mut self, owner: u32, wait: Wait, side: Side, ns: u64) {
        let found = self.place(owner).and_then(|place| self.find(place));
        if let Some(index) = found {
            let longest = &mut self.shared(index, owner).waits[wait as usize][side as usize];
            *longest = (*longest).max(ns / 1000);
        }
    }

    /// All programs, by name and number.
    pub(super) fn sorted(&self) -> Vec<&Program> {
        let mut sorted: Vec<&Program> = self.programs.iter().collect();
        sorted.sort_by(|a, b| {
            let numbers = || a.pid.cast_signed().cmp(&b.pid.cast_signed());
            version_order(&a.name, &b.name).then_with(numbers)
        });
        sorted
    }
}

/// The order in which runs of digits count as numbers, and runs that begin with a zero as decimals:
/// `000`, `00`, `01`, `010`, `09`, `0`, `1`, `9`, `10`.
fn version_order(a: &[u8], b: &[u8]) -> Ordering {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let shared = a[..same].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (a_run, b_run) = (digits(&a[same - shared..]), digits(&b[same - shared..]));
    let bytes = a[same..].cmp(&b[same..]);
    if a_run.is_empty() || b_run.is_empty() {
        return bytes;
    }
    if a_run[0] != b'0' && b_run[0] != b'0' {
        return a_run.len().cmp(&b_run.len()).then(bytes);
    }
    // After zeros only, the one that continues is the smaller decimal.
    let zeros = shared > 0 && a_run[..shared].iter().all(|&digit| digit == b'0');
    match (zeros, a_run.len() > shared, b_run.len() > shared) {
        (true, true, false) => Ordering::Less,
        (true, false, true) => Ordering::Greater,
        _ => bytes,
    }
}

fn digits(text: &[u8]) -> &[u8] {
    &text[..text.iter().take_while(|byte| byte.is_ascii_digit()).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the order the one that the C library documents for versions?
    #[test]
    fn versions_are_in_order() {
        let order = ["000", "00", "01", "010", "09", "0", "1", "9", "10"];
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                let (left, right) = (format!("x{a}"), format!("x{b}"));
                assert_eq!(version_order(left.as_bytes(), right.as_bytes()), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(version_order(b"kworker/2:1", b"kworker/10:1"), Ordering::Less);
        assert_eq!(version_order(b"a", b"a1"), Ordering::Less);
        assert_eq!(version_order(b"B", b"a"), Ordering::Less);
    }

    /// Is it an order, so that sorting by it ends well? All words of up to four letters of `01/a`
    /// are sorted and then compared, each with each.
    #[test]
    fn the_order_of_versions_is_one() {
        let mut words: Vec<Vec<u8>> = vec![Vec::new()];
        for from in 0..85 {
            for letter in b"01/a" {
                words.push([&words[from][..], &[*letter]].concat());
            }
        }
        // 1 + 4 + 16 + 64 + 256.
        assert_eq!(words.len(), 341);
        words.sort_by(|a, b| version_order(a, b));
        for (i, a) in words.iter().enumerate() {
            for (j, b) in words.iter().enumerate() {
                assert_eq!(version_order(a, b), i.cmp(&j));
            }
        }
    }

    /// Do processes of one name share a program by name, and have their own otherwise?
    #[test]
    fn programs_by_name_and_by_number() {
        for (by_name, wanted) in [(true, vec![(77, true)]), (false, vec![(77, false), (78, false)])]
        {
            let mut programs = Programs::new(by_name);
            assert_eq!(programs.name_of(77), b"(null)");
            programs.name(78, b"dd\0rest");
            programs.name(77, b"dd");
            programs.name(77, b"later");
            for pid in [77, 78, 77] {
                programs.of(pid);
            }
            let found = programs.sorted().iter().map(|p| (p.pid, p.several)).collect::<Vec<_>>();
            assert_eq!(found, wanted);
            assert_eq!(programs.name_of(77), b"dd");
            programs.meet(5);
            programs.waited(5, Wait::Dispatch, Side::Read, 5000);
            assert_eq!(programs.sorted().len(), wanted.len());
            assert_eq!(programs.name_of(5), b"unknown");
        }
    }
}
