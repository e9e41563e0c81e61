// SPDX-License-Identifier: MIT OR Apache-2.0
//! Urgency: threads that have to be in time.
//!
//! A thread that wakes up is usually run when the scheduler finds it fair, on a busy machine some
//! milliseconds later. With permission (root, or RLIMIT_RTPRIO) it asks for real time instead: then
//! it runs at once. It sleeps most of the time, and the kernel keeps 5 % for all others anyway.
//! Without permission it runs as usual.
//!
//! A sleeping thread's timer may ring up to 50 us late, so that several can ring together; ours ask
//! for 1 ns.

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Before everything that is not real time.
    RealTime,
    /// As any other thread.
    Usual,
}

/// Asks for the calling thread, and those that it starts: real time of this priority, from 1 on
/// (the least), and exact timers.
pub(super) fn hurry(priority: i32) -> Urgency {
    let one: libc::c_ulong = 1;
    let zero: libc::c_ulong = 0;
    // SAFETY: it changes the calling thread's timers; no memory is concerned.
    let _as_exact_as_it_gets =
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, one, zero, zero, zero) };
    // Past the C library: musl's `sched_setscheduler` always refuses.
    let itself: libc::c_long = 0;
    let policy = libc::c_long::from(libc::SCHED_RR);
    // SAFETY: the kernel's `sched_param` is one int, and the priority outlives the call.
    let refused =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, itself, policy, &raw const priority) };
    if refused == 0 { Urgency::RealTime } else { Urgency::Usual }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is the reported policy the thread's own? In a thread of its own, with which it ends.
    #[test]
    fn what_is_told_is_so() {
        let (told, policy) = std::thread::spawn(|| {
            let told = hurry(1);
            let itself: libc::c_long = 0;
            // SAFETY: no memory is concerned.
            (told, unsafe { libc::syscall(libc::SYS_sched_getscheduler, itself) })
        })
        .join()
        .unwrap();
        assert_eq!(told == Urgency::RealTime, policy == libc::c_long::from(libc::SCHED_RR));
    }
}
