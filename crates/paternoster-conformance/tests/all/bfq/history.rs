// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of a recorded call: which queues had them, when they began and ended, what their time
//! cost.
//!
//! The kernel reads its clock before it writes its finding. A turn begins after the message before
//! `set_in_service_queue`, and ends after the one before `is_slow`; the latter comes at once, the
//! former some microseconds later:
//!
//! ```text
//! .339036  calc_finish …
//! .339038  dispatch requests: 5 busy queues
//!            └ began
//! .339041  set_in_service_queue, cur-budget = 512
//! ```

use paternoster_trace::ftrace::{BfqMessage, Call, QueueName, What};

/// The turns of one call, the next one last.
#[derive(Debug, Default)]
pub(super) struct History {
    begun: Vec<Begun>,
    ended: Vec<Ended>,
}

/// A turn that began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) queue: Option<QueueName>,
    pub(super) at_ns: u64,
}

/// A turn that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) at_ns: u64,
    /// Sectors for its time; `None` if that was not charged.
    pub(super) charge: Option<u64>,
}

impl History {
    /// What the messages of a call say.
    pub(super) fn of(call: &Call) -> History {
        let mut history = History::default();
        let mut before = call.entered_ns;
        let (mut slow, mut charge) = (None, None);
        for record in &call.records {
            if let What::Message { queue, message } = &record.what {
                match *message {
                    BfqMessage::SetInService { .. } => {
                        history.begun.push(Begun { queue: *queue, at_ns: before });
                    }
                    BfqMessage::IsSlow { .. } => slow = Some(record.at_ns),
                    BfqMessage::Served { sectors } => charge = Some(sectors),
                    BfqMessage::Expire { .. } => {
                        let at_ns = slow.take().unwrap_or(record.at_ns);
                        history.ended.push(Ended { at_ns, charge: charge.take() });
                    }
                    _ => {}
                }
                before = record.at_ns;
            }
        }
        history.begun.reverse();
        history.ended.reverse();
        history
    }

    /// The next turn that begins.
    pub(super) fn begun(&self) -> Option<Begun> {
        self.begun.last().copied()
    }

    /// The next turn has begun.
    pub(super) fn pass_begun(&mut self) {
        self.begun.pop();
    }

    /// The next turn that ends.
    pub(super) fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop()
    }
}
