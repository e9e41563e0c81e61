// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drive: runs a queue and a model until nothing is left to do.
//!
//! The loop that every caller of the library writes, for tests and first trials: commands go to the
//! model, completions go back, and the model sets the time. The program's own loop, with processes,
//! traces and changes of settings, is in `paternoster-workload`.
//!
//! ```text
//! drive ── next ──▶ queue ── Issue ──▶ model        a client that gets Busy waits for its Wake
//!   ▲                 │◀── complete ─────┘
//!   └─ submit ◀─ done ┘
//! ```

use std::collections::VecDeque;

use paternoster_core::event::Observer;
use paternoster_core::{
    Bio, ClientId, Cookie, Device, Nanos, Outcome, Output, RequestQueue, SubmitError,
};

use crate::model::{Model, Simulated};

/// A bio that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The number that its client gave it.
    pub cookie: Cookie,
    /// How the bio ended.
    pub outcome: Outcome,
    /// The time.
    pub at: Nanos,
}

/// Lets `model` serve what is in `queue`. After each bio `done` returns the bios to submit next:
/// one, many or none. Returns when the last bio ended.
///
/// Two readers, one with three times the other's weight, on a disk that takes one command at a
/// time:
///
/// ```
/// use paternoster_core::{Bio, ClientSpec, GroupSpec, Nanos, Op, RequestQueue};
/// use paternoster_sim::{catalog, drive};
///
/// let device = catalog::by_name("hdd-7200-no-ncq").unwrap().unwrap();
/// let bfq = paternoster_schedulers::by_name("bfq").unwrap();
/// let mut queue = RequestQueue::builder(device.facts, bfq).build().unwrap();
/// queue.set_attribute(Nanos::ZERO, "low_latency", "0").unwrap();
/// let clients = [300, 100].map(|weight| {
///     let group = queue.add_group(Nanos::ZERO, GroupSpec::new().weight(weight)).unwrap();
///     queue.attach(Nanos::ZERO, ClientSpec::new().group(group)).unwrap()
/// });
/// // Sequential reads of 128 KiB, each reader in its own half of the first 2 GiB.
/// let read = |reader: usize, number: u64| {
///     let sector = reader as u64 * 2_097_152 + number * 256;
///     Bio::new(clients[reader], Op::Read, sector, 256).cookie(reader as u64)
/// };
/// let mut read_by = [1, 1];
/// for reader in 0..2 {
///     queue.submit(Nanos::ZERO, read(reader, 0)).unwrap();
/// }
/// drive(&mut queue, device.model(), |done| {
///     let reader = done.cookie as usize;
///     read_by[reader] += 1;
///     (done.at < Nanos::from_secs(20)).then(|| read(reader, read_by[reader]))
/// })
/// .unwrap();
/// let share = read_by[0] as f64 / (read_by[0] + read_by[1]) as f64;
/// assert!((0.70..0.80).contains(&share), "{share}");
/// ```
///
/// # Errors The queue's error for a bio that it does not accept.
pub fn drive<O: Observer, Next: IntoIterator<Item = Bio>>(
    queue: &mut RequestQueue<O>,
    model: impl Model,
    mut done: impl FnMut(Done) -> Next,
) -> Result<Nanos, SubmitError> {
    let mut device = Simulated::new(model);
    let mut ended = Nanos::ZERO;
    // Bios of clients that sleep, each client's in their order.
    let mut refused: VecDeque<Bio> = VecDeque::new();
    loop {
        let now = device.now();
        match queue.next(now) {
            Output::Issue(command) => {
                if device.submit(command).is_err() {
                    let is_in_device = queue.requeue(now, command.tag);
                    debug_assert!(is_in_device.is_ok(), "{command:?} was issued a moment ago");
                }
            }
            Output::Done(cookie, outcome) => {
                ended = now;
                for bio in done(Done { cookie, outcome, at: now }) {
                    if refused.iter().any(|other| other.client == bio.client) {
                        refused.push_back(bio);
                    } else {
                        submit(queue, now, bio, &mut refused)?;
                    }
                }
            }
            Output::Wake(client) => retry(queue, now, client, &mut refused)?,
            Output::Wait { until, .. } => {
                if let Some(completion) = device.wait(until) {
                    let told = queue.complete(completion.at, completion.tag, completion.outcome);
                    debug_assert!(told.is_ok(), "{completion:?} is of no command");
                } else if until.is_none() {
                    return Ok(ended);
                }
            }
        }
    }
}

/// Submits a bio, or keeps it until its client is woken.
fn submit<O: Observer>(
    queue: &mut RequestQueue<O>,
    now: Nanos,
    bio: Bio,
    refused: &mut VecDeque<Bio>,
) -> Result<bool, SubmitError> {
    match queue.submit(now, bio) {
        Ok(_) => Ok(true),
        Err(SubmitError::Busy) => {
            refused.push_front(bio);
            Ok(false)
        }
        Err(why) => Err(why),
    }
}

/// A client is awake: it submits what it has, until there is no room again.
fn retry<O: Observer>(
    queue: &mut RequestQueue<O>,
    now: Nanos,
    client: ClientId,
    refused: &mut VecDeque<Bio>,
) -> Result<(), SubmitError> {
    while let Some(place) = refused.iter().position(|bio| bio.client == client) {
        let Some(bio) = refused.remove(place) else { break };
        if !submit(queue, now, bio, refused)? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use paternoster_core::{ClientSpec, DeviceFacts, Limits, Op};

    use super::*;
    use crate::null::Null;

    /// Does every bio end once, even those of clients that slept: 3 clients with 12 bios each in a
    /// queue that has room for 16, on a device that takes 10 us a command, one at a time?
    #[test]
    fn sleepers_get_their_turn() {
        let facts = DeviceFacts { depth: 1, ..DeviceFacts::default() };
        let limits = Limits { bios: 16, ..Limits::default() };
        for elevator in paternoster_schedulers::ALL {
            let queue = RequestQueue::builder(facts, (elevator.make)()).limits(limits).build();
            let mut queue = queue.expect("16 bios are enough");
            let clients =
                [0; 3].map(|_| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("room"));
            // No two are adjacent, so none are merged.
            let bio = |number: u64| {
                let client = clients[(number % 3) as usize];
                Bio::new(client, Op::Read, number * 1000, 8).cookie(number)
            };
            queue.submit(Nanos::ZERO, bio(0)).expect("room for one");
            let mut ends = [0; 36];
            let model = Null::new(facts, Nanos::from_micros(10));
            // After the first all others come at once, twice as many as there is room for.
            let end = drive(&mut queue, model, |done| {
                ends[usize::try_from(done.cookie).expect("small")] += 1;
                (1..36).filter(move |_| done.cookie == 0).map(bio)
            });
            assert_eq!(ends, [1; 36], "{}", elevator.name);
            // One after the other, 10 us each.
            assert!(end.unwrap() >= Nanos::from_micros(360), "{}", elevator.name);
            assert!(queue.audit().is_ok());
        }
    }
}
