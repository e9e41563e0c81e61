// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watch: what the device did for others while a program started, and which processes shared queues
//! with it.
//!
//! ```text
//! others   ####|############################|####
//!           begin          ...          last request of the program
//!              |--------- counted ----------|
//! ```
//!
//! Bytes are counted where they are complete, at the device: a buffered writer is not done when it
//! has filled memory.

use paternoster_core::{Action, ClientId, Event, Nanos, Note, Observer, Op};

/// Counts during one start.
#[derive(Debug, Clone, Default)]
pub struct StartWatch {
    /// The program's processes are this many first clients of the run.
    processes: u32,
    begins: Nanos,
    /// Bytes that others have read and written since it began, and until its last request.
    so_far: [u64; 2],
    others: [u64; 2],
    merges: u64,
}

impl StartWatch {
    pub(super) fn new(processes: u32, begins: Nanos) -> StartWatch {
        StartWatch { processes, begins, ..StartWatch::default() }
    }

    fn is_own(&self, client: ClientId) -> bool {
        client.index() < self.processes
    }

    /// Bytes that others have read and written while the program started.
    #[must_use]
    pub const fn others(&self) -> [u64; 2] {
        self.others
    }

    /// How often one of its processes came to share a queue with another process's, or another one
    /// with it.
    #[must_use]
    pub const fn merges(&self) -> u64 {
        self.merges
    }
}

impl Observer for StartWatch {
    fn event(&mut self, event: &Event) {
        if event.action != Action::Complete || event.at < self.begins {
            return;
        }
        if self.is_own(event.client) {
            self.others = self.so_far;
            return;
        }
        let bytes = u64::from(event.sectors) * 512;
        match event.op {
            Op::Read => self.so_far[0] += bytes,
            Op::Write => self.so_far[1] += bytes,
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, note: &Note) {
        if let Note::QueuesMerged { client, into } = *note
            && self.is_own(client) != self.is_own(into)
        {
            self.merges += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{ClientSpec, DeviceFacts, Flags, RequestQueue};

    use super::*;

    /// A program of one process, and two others.
    fn clients() -> [ClientId; 3] {
        let noop = paternoster_schedulers::by_name("noop").expect("it is there");
        let mut queue =
            RequestQueue::builder(DeviceFacts::default(), noop).build().expect("its limits work");
        [0, 1, 2].map(|_| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there is room"))
    }

    fn complete(at_ms: u64, client: ClientId, op: Op, sectors: u32) -> Event {
        Event {
            at: Nanos::from_millis(at_ms),
            sequence: 0,
            action: Action::Complete,
            client,
            op,
            flags: Flags::NONE,
            sector: 0,
            sectors,
            error: 0,
            served: Nanos::ZERO,
        }
    }

    /// Is counted what others did between the beginning at 10 ms and the program's last request at
    /// 40, and neither what came before nor what came after?
    #[test]
    fn others_count_while_the_program_starts() {
        let [program, one, two] = clients();
        let mut watch = StartWatch::new(1, Nanos::from_millis(10));
        for event in [
            complete(5, one, Op::Read, 1000),
            complete(20, one, Op::Read, 8),
            complete(25, program, Op::Read, 8),
            complete(30, two, Op::Write, 16),
            complete(35, two, Op::Flush, 0),
            complete(40, program, Op::Read, 8),
            complete(50, one, Op::Read, 8),
            Event { action: Action::Issue, ..complete(30, one, Op::Read, 8) },
        ] {
            watch.event(&event);
        }
        assert_eq!(watch.others(), [8 * 512, 16 * 512]);
    }

    /// Do merges of the program with others count, on either side, and no others: neither those of
    /// others among themselves, nor, of a program of two processes, its own?
    #[test]
    fn merges_with_the_program_count() {
        let [program, one, two] = clients();
        for (processes, expected) in [(1, 2), (2, 1)] {
            let mut watch = StartWatch::new(processes, Nanos::ZERO);
            for (client, into) in [(program, one), (one, program), (one, two)] {
                watch.note(Nanos::ZERO, 0, &Note::QueuesMerged { client, into });
            }
            watch.note(Nanos::ZERO, 0, &Note::QueuesParted { client: program, from: one });
            assert_eq!(watch.merges(), expected, "{processes} of its processes");
        }
    }
}
