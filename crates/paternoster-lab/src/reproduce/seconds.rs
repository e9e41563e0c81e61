// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seconds: what each client got in each second of a run.
//!
//! A mean over ten seconds hides a client that got nothing in five of them. Here completions are
//! sorted into windows of one second from the beginning of the run, by client; a flush counts for
//! the client that asked for it first. Only whole seconds between the ramp and the last completion
//! count:
//!
//! ```text
//! ramp 1 s, runtime 3.4 s     | 0 |[1]|[2]|[3]| .4      least of the three in brackets
//! ```

use paternoster_core::{ClientId, Nanos, Op};

/// One second of one client.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    ios: u64,
    served: Nanos,
}

/// Figures by client and second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seconds {
    clients: Vec<Vec<Second>>,
    last: Nanos,
}

impl Seconds {
    /// A command has ended that took this much device time.
    pub(crate) fn add(&mut self, at: Nanos, client: ClientId, op: Op, served: Nanos) {
        self.last = self.last.max(at);
        let second = entry(entry(&mut self.clients, client.index() as usize), number_of(at));
        second.ios += u64::from(op != Op::Flush);
        second.served += served;
    }

    /// The whole seconds after `ramp`.
    fn whole(&self, ramp: Nanos) -> std::ops::Range<usize> {
        number_of(ramp + Nanos::from_secs(1) - Nanos(1))..number_of(self.last)
    }

    fn sums(&self, second: usize, of: &dyn Fn(usize) -> bool) -> Second {
        let mut sum = Second::default();
        for (client, seconds) in self.clients.iter().enumerate() {
            if let (true, Some(one)) = (of(client), seconds.get(second)) {
                sum.ios += one.ios;
                sum.served += one.served;
            }
        }
        sum
    }

    /// The fewest I/Os that these clients got in a second; `None` if there is no whole one.
    pub(crate) fn least_ios(&self, ramp: Nanos, of: &dyn Fn(usize) -> bool) -> Option<u64> {
        self.whole(ramp).map(|second| self.sums(second, of).ios).min()
    }

    /// The smallest part of a second's device time that was theirs.
    pub(crate) fn least_share(&self, ramp: Nanos, of: &dyn Fn(usize) -> bool) -> Option<f64> {
        let share = |second| {
            let all = self.sums(second, &|_| true).served.0.max(1);
            as_f64(self.sums(second, of).served.0) / as_f64(all)
        };
        self.whole(ramp).map(share).min_by(f64::total_cmp)
    }
}

fn number_of(at: Nanos) -> usize {
    usize::try_from(at.0 / Nanos::from_secs(1).0).unwrap_or(usize::MAX)
}

/// The entry at this index, made if it does not exist yet.
fn entry<T: Default>(all: &mut Vec<T>, place: usize) -> &mut T {
    if all.len() <= place {
        all.resize_with(place + 1, T::default);
    }
    &mut all[place]
}

#[expect(clippy::cast_precision_loss, reason = "printed figures")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use paternoster_core::{ClientSpec, DeviceFacts, RequestQueue};

    /// Does the drawing hold? Ramp 1 s, the last completion at 4.4: seconds 1 to 3 count. In second
    /// 2 the first client has one I/O of 1 ms and the other 3 ms, of which 2 are a flush: a
    /// quarter.
    #[test]
    fn only_whole_seconds_count() {
        let noop = paternoster_schedulers::by_name("noop").expect("it is there");
        let mut queue =
            RequestQueue::builder(DeviceFacts::default(), noop).build().expect("its limits work");
        let [one, other] =
            [0, 1].map(|_| queue.attach(Nanos::ZERO, ClientSpec::new()).expect("room"));
        let mut seconds = Seconds::default();
        let millis = Nanos::from_millis;
        for at in [1100, 1200, 2500, 3100, 3200, 4400] {
            seconds.add(millis(at), one, Op::Read, millis(1));
        }
        seconds.add(millis(2100), other, Op::Write, millis(1));
        seconds.add(millis(2200), other, Op::Flush, millis(2));
        let [first, second] = [0, 1].map(|client| move |index: usize| index == client);
        assert_eq!(seconds.least_ios(millis(1000), &first), Some(1));
        assert_eq!(seconds.least_ios(millis(1000), &second), Some(0));
        assert!((seconds.least_share(millis(1000), &first).unwrap() - 0.25).abs() < 1e-9);
        assert_eq!(seconds.least_ios(millis(4000), &first), None);
    }
}
