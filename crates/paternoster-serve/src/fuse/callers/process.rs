// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes: which process a thread belongs to, from `/proc`.
//!
//! A request of FUSE names the thread that made it (so do io_uring's own threads). Two files say
//! the rest; a thread has them as a process does, though `ls /proc` does not show it:
//!
//! ```text
//! /proc/4712/status   Tgid:   4711                      the process
//! /proc/4712/stat     4712 (a) b) S 1 … 0 … 8123 … 0    name, state, nice, started, policy
//!                          └──┘ name: anything at all, also brackets and blanks
//!                               3 4    19   22     41   numbers of the fields
//! ```
//!
//! After the *last* bracket there are only numbers and one letter, whatever the name is.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// More of a file is not read: both have about 1.5 KiB.
const FILE_BYTES: u64 = 16 << 10;
/// The kernel's own bound is 15; threads of its own have a little more.
const NAME_BYTES: usize = 64;

/// What is known of a thread, or of a process, by its number alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    /// The process's name, printable.
    pub(super) name: String,
    /// It has ended; its parent has yet to collect its status.
    pub(super) ended: bool,
    /// -20 to 19.
    pub(super) nice: i8,
    /// When it was started, in ticks since boot. Together with the process's number that is unique.
    pub(super) started: u64,
    /// The CPU's scheduling policy, as `sched_setscheduler` numbers it.
    pub(super) policy: i32,
}

impl Stat {
    /// Reads it; `None` if there is no such thread (or it cannot be seen).
    pub(super) fn read(proc_root: &Path, number: u32) -> Option<Stat> {
        Stat::parse(&text(proc_root, number, "stat")?)
    }

    fn parse(text: &str) -> Option<Stat> {
        let (start, end) = (text.find('(')?, text.rfind(')')?);
        let name = text.get(start + 1..end)?;
        // The first field here is the third in the manual.
        let fields: Vec<&str> = text[end + 1..].split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            name: printable(name),
            ended: matches!(field(3)?, "Z" | "X" | "x"),
            nice: field(19)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
            policy: field(41)?.parse().ok()?,
        })
    }
}

/// The process that the thread belongs to.
pub(super) fn process_of(proc_root: &Path, thread: u32) -> Option<u32> {
    let text = text(proc_root, thread, "status")?;
    // The name comes first and could look like anything, but has no line ends.
    let value = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    value.trim().parse().ok().filter(|process| *process > 0)
}

fn text(proc_root: &Path, number: u32, name: &str) -> Option<String> {
    let file = File::open(proc_root.join(number.to_string()).join(name)).ok()?;
    let mut text = Vec::with_capacity(2048);
    file.take(FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn printable(name: &str) -> String {
    let end = (0..=NAME_BYTES).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name[..end].replace(char::is_control, "?")
}

/// The number of the thread that asks.
#[cfg(test)]
pub(super) fn own_thread() -> u32 {
    // A link to `PID/task/TID`.
    let link = std::fs::read_link("/proc/thread-self").expect("a thread of ours");
    let number = link.file_name().and_then(|name| name.to_str());
    number.and_then(|number| number.parse().ok()).expect("a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str) -> String {
        // Fields 4 to 18, 19 (nice), 20, 21, 22 (started), 23 to 40, 41 (policy), 42.
        let some = |count| "7 ".repeat(count);
        format!("42 ({name}) S {}-5 {}8123 {}3 0\n", some(15), some(2), some(18))
    }

    /// Are the fields found whatever the process's name is?
    #[test]
    fn fields_behind_any_name() {
        for name in ["dd", "a b", "a) S 1 2", ")", "(((", "", "Web Content (x)"] {
            let stat = Stat::parse(&line(name)).unwrap();
            assert_eq!((stat.name.as_str(), stat.ended), (name, false));
            assert_eq!((stat.nice, stat.started, stat.policy), (-5, 8123, 3), "{name}");
        }
        assert_eq!(Stat::parse(&line("a\nb\u{1b}")).unwrap().name, "a?b?");
        assert_eq!(Stat::parse(&line(&"é".repeat(100))).unwrap().name, "é".repeat(32));
        assert!(Stat::parse(&line("dd").replace(" S ", " Z ")).unwrap().ended);
    }

    /// Is what is no such line taken for no thread?
    #[test]
    fn nonsense() {
        let long = line("dd").replace("8123", "99999999999999999999999");
        for text in ["", "42", "42 (dd", "42 dd)", ")(", "42 (dd) S 1 2 3", &long] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }

    /// Does the real system say of a thread of ours whose it is, and its own nice?
    #[test]
    fn a_thread_of_ours() {
        let root = Path::new(crate::host::peer::PROC);
        let own = std::process::id();
        let here = own_thread();
        assert_ne!(here, own, "tests run in threads of their own");
        assert_eq!(process_of(root, here), Some(own));
        assert_eq!(process_of(root, own), Some(own));
        let (thread, process) = (Stat::read(root, here).unwrap(), Stat::read(root, own).unwrap());
        assert!(thread.started >= process.started && !thread.ended);
        assert_eq!(process_of(root, u32::MAX), None);
        assert_eq!(Stat::read(root, u32::MAX), None);
    }
}
