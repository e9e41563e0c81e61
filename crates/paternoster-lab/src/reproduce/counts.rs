// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts: how often a scheduler noted each action, by the client it was done to; what happened to
//! flushes; what each client got in each second.
//!
//! Clients of a run have the numbers of its processes; the next number is the flusher's.

use paternoster_core::event::Action;
use paternoster_core::{ClientId, Event, Nanos, Note, Observer, Op};

use super::seconds::Seconds;

/// Counts of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Queues that came to share one.
    pub(crate) merges: u64,
    /// Clients that left a queue which they shared.
    pub(crate) partings: u64,
    /// Requests served in another client's turn.
    pub(crate) injections: u64,
    /// Flushes that the device has done, and their device time.
    pub(crate) flushes: u64,
    pub(crate) flush_time: Nanos,
    /// Commands that the device refused: reads and writes, flushes.
    pub(crate) refused: [u64; 2],
    pub(crate) seconds: Seconds,
    /// For each client: how often it began to weigh more.
    raises: Vec<u64>,
}

impl Counts {
    /// How often client number `client` began to weigh more, or still more.
    pub(crate) fn raises(&self, client: usize) -> u64 {
        self.raises.get(client).copied().unwrap_or(0)
    }

    fn raised(&mut self, client: ClientId) {
        let place = client.index() as usize;
        if self.raises.len() <= place {
            self.raises.resize(place + 1, 0);
        }
        self.raises[place] += 1;
    }
}

impl Observer for Counts {
    fn event(&mut self, event: &Event) {
        let flush = event.op == Op::Flush;
        match event.action {
            Action::Complete => {
                self.flushes += u64::from(flush);
                self.flush_time += if flush { event.served } else { Nanos::ZERO };
                self.seconds.add(event.at, event.client, event.op, event.served);
            }
            Action::Requeue => self.refused[usize::from(flush)] += 1,
            _ => {}
        }
    }

    fn note(&mut self, _: Nanos, _: u64, note: &Note) {
        match *note {
            Note::QueuesMerged { .. } => self.merges += 1,
            Note::QueuesParted { .. } => self.partings += 1,
            Note::Injected { .. } => self.injections += 1,
            Note::WeightRaised { client, coefficient } if coefficient > 1 => self.raised(client),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{ClientSpec, DeviceFacts, RequestQueue};

    use super::*;

    /// Is each note counted under its name, and the end of a raise not at all?
    #[test]
    fn notes_are_counted() {
        let noop = paternoster_schedulers::by_name("noop").expect("it is there");
        let mut queue =
            RequestQueue::builder(DeviceFacts::default(), noop).build().expect("its limits work");
        let [client, into] =
            [0, 1].map(|_| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("there is room"));
        let raised = |coefficient| Note::WeightRaised { client: into, coefficient };
        let mut counts = Counts::default();
        for note in [
            Note::QueuesMerged { client, into },
            Note::QueuesParted { client, from: into },
            Note::Injected { client, into },
            Note::Injected { client: into, into: client },
            raised(30),
            raised(1),
            raised(3000),
        ] {
            counts.note(Nanos::ZERO, 0, &note);
        }
        assert_eq!([counts.merges, counts.partings, counts.injections], [1, 1, 2]);
        assert_eq!([0, 1, 2].map(|client| counts.raises(client)), [0, 2, 0]);
    }
}
