// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ionice: a thread's class and level, as `ionice` has set them or as nice and policy imply.
//!
//! The system answers with one number, class above and level below:
//!
//! ```text
//! ionice -c 2 -n 6      16390 = 2 << 13 | 6     best effort, level 6
//! (nothing was set)     0     = 0 << 13 | 0     then it follows from the CPU's priority:
//!                           policy FIFO, RR, deadline ─▶ realtime     level (nice + 20) / 5:
//!                           policy idle               ─▶ idle         nice -20 ─▶ 0, 0 ─▶ 4,
//!                           all others                ─▶ best effort  19 ─▶ 7
//! ```
//!
//! Between class and level newer kernels keep hints (of command duration limits): they are ignored.
//! Idle has no levels and counts as 7. Realtime starves all others, so it counts only for users
//! with permission; others get the highest of best effort, level 0.
//!
//! Sources: ioprio_set(2), sched(7); CFQ-2.

use paternoster_core::{Class, Priority};

use super::process::Stat;

/// Class and level in one number, of a thread; `None`: there is no such thread.
pub(super) type Ask = fn(thread: u32) -> Option<u32>;

/// Which of the things that may be asked about: one thread (`IOPRIO_WHO_PROCESS`).
const WHO_THREAD: libc::c_int = 1;
/// The class is above this many bits.
const CLASS_SHIFT: u32 = 13;
/// The level has the lowest bits.
const LEVEL_MASK: u32 = 7;
/// Idle has no levels.
const IDLE: Priority = Priority { class: Class::Idle, level: 7 };

/// Asks the system.
pub(super) fn of_thread(thread: u32) -> Option<u32> {
    // Number 0 would be ourselves.
    let thread = libc::c_int::try_from(thread).ok().filter(|thread| *thread > 0)?;
    // SAFETY: ioprio_get takes two plain integers and returns one; no memory is involved.
    let answer = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_THREAD, thread) };
    u32::try_from(answer).ok()
}

/// What the answer means for a thread of such nice and policy.
pub(super) fn priority(answer: Option<u32>, stat: &Stat) -> Priority {
    let answer = answer.unwrap_or(0);
    let level = u8::try_from(answer & LEVEL_MASK).unwrap_or(7);
    match answer >> CLASS_SHIFT {
        1 => Priority { class: Class::Realtime, level },
        2 => Priority { class: Class::BestEffort, level },
        3 => IDLE,
        _ => implied(stat),
    }
}

fn implied(stat: &Stat) -> Priority {
    let level = Priority::from_nice(stat.nice).level;
    match stat.policy {
        libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE => {
            Priority { class: Class::Realtime, level }
        }
        libc::SCHED_IDLE => IDLE,
        _ => Priority { class: Class::BestEffort, level },
    }
}

/// The priority that counts for this user.
pub(super) fn allowed(asked: Priority, uid: u32, realtime: &[u32]) -> Priority {
    if asked.class == Class::Realtime && !realtime.contains(&uid) {
        return Priority { class: Class::BestEffort, level: 0 };
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::super::process::own_thread;
    use super::*;

    fn stat(nice: i8, policy: i32) -> Stat {
        Stat { name: String::new(), ended: false, nice, started: 1, policy }
    }

    fn is(answer: u32, nice: i8, policy: i32) -> (Class, u8) {
        let priority = priority(Some(answer), &stat(nice, policy));
        (priority.class, priority.level)
    }

    /// Is a set priority reported as set, whatever nice is?
    #[test]
    fn set_by_ionice() {
        assert_eq!(is(1 << 13, 19, 0), (Class::Realtime, 0));
        assert_eq!(is(1 << 13 | 7, 0, 0), (Class::Realtime, 7));
        assert_eq!(is(16390, -20, libc::SCHED_IDLE), (Class::BestEffort, 6));
        assert_eq!(is(3 << 13, 0, 0), (Class::Idle, 7));
        assert_eq!(is(3 << 13 | 2, 0, 0), (Class::Idle, 7));
        // A hint (the 9 in the middle) changes nothing.
        assert_eq!(is(2 << 13 | 9 << 3 | 1, 0, 0), (Class::BestEffort, 1));
    }

    /// Where nothing was set, does it follow from nice and policy as on Linux?
    #[test]
    fn implied_by_nice_and_policy() {
        // (nice + 20) / 5
        for (nice, level) in [(-20, 0), (-16, 0), (-15, 1), (-1, 3), (0, 4), (5, 5), (19, 7)] {
            assert_eq!(is(0, nice, libc::SCHED_OTHER), (Class::BestEffort, level), "{nice}");
            assert_eq!(is(0, nice, libc::SCHED_BATCH), (Class::BestEffort, level), "{nice}");
            assert_eq!(is(0, nice, libc::SCHED_FIFO), (Class::Realtime, level), "{nice}");
            assert_eq!(is(0, nice, libc::SCHED_IDLE), (Class::Idle, 7), "{nice}");
        }
        assert_eq!(is(0, 0, libc::SCHED_RR), (Class::Realtime, 4));
        assert_eq!(is(0, 0, libc::SCHED_DEADLINE), (Class::Realtime, 4));
        // A level without a class is nothing that was set; nor is a class that is unknown.
        assert_eq!(is(2, 0, 0), (Class::BestEffort, 4));
        assert_eq!(is(7 << 13, 0, 0), (Class::BestEffort, 4));
        assert_eq!(priority(None, &stat(-20, 0)).level, 0);
    }

    /// Is realtime only for permitted users, and everything else for all?
    #[test]
    fn who_may_be_realtime() {
        let realtime = Priority { class: Class::Realtime, level: 3 };
        let best = Priority { class: Class::BestEffort, level: 0 };
        assert_eq!(allowed(realtime, 1000, &[0, 1000]), realtime);
        assert_eq!(allowed(realtime, 1001, &[0, 1000]), best);
        assert_eq!(allowed(realtime, 0, &[]), best);
        assert_eq!(allowed(IDLE, 5, &[]), IDLE);
        assert_eq!(allowed(Priority::default(), 5, &[]), Priority::default());
    }

    /// Does the system tell what was set for a thread of our own?
    #[test]
    fn a_thread_of_ours() {
        let told = std::thread::spawn(|| {
            let value: libc::c_int = 2 << 13 | 6;
            // SAFETY: ioprio_set takes three plain integers; 0 is the calling thread.
            let set = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_THREAD, 0, value) };
            (set, of_thread(own_thread()))
        });
        assert_eq!(told.join().unwrap(), (0, Some(16390)));
        assert_eq!(of_thread(u32::MAX), None);
        assert_eq!(of_thread(0), None);
        // Beyond the largest thread number (2^22): no thread.
        assert_eq!(of_thread(1 << 30), None);
    }
}
