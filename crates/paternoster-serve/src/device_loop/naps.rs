// SPDX-License-Identifier: MIT OR Apache-2.0
//! Naps: connections that wait for a cap, in line.
//!
//! ```text
//! tenant    requests: 4, 7     data: 2, 5, 9        by number, the first asked first
//! due       (when, tenant, which line)              one time for each line that is not empty
//! ```
//!
//! When a line's time comes, its first connection is let go; the next one is considered once the
//! first has been charged. So a cap that opens for one fragment is not tried by every connection
//! that waits. A connection that reaches its cap while others wait in the line goes to its end.
//!
//! Tenants of a group with a cap have lines of their own: at most one connection of each line tries
//! the group's cap at a time.
//!
//! Invariants: I1 a line that is not empty has one time in `due`; I2 a connection is in one line
//! at most, under the number of its `nap`.

use std::collections::{BTreeMap, BTreeSet};

use paternoster_core::Nanos;

use super::caps::Passing;
use super::connection::Connection;
use super::tenants::Tenants;

/// Lines of a tenant: for requests, and for data.
const LINES: usize = 2;

/// The line in which to wait for this.
const fn line_of(what: Passing) -> usize {
    match what {
        Passing::Request => 0,
        Passing::Data(_) => 1,
    }
}

/// What the connections of a line wait for.
const fn waits_for(line: usize) -> Passing {
    if line == 0 { Passing::Request } else { Passing::Data(0) }
}

/// Connections that wait for the same cap.
#[derive(Debug, Default)]
struct Line {
    /// Index of the connection for each number.
    connections: BTreeMap<u64, u32>,
    /// When to look at it.
    until: Option<Nanos>,
}

/// The connections that wait for caps.
#[derive(Debug, Default)]
pub(super) struct Naps {
    /// Whether there is any cap.
    capped: bool,
    /// The lines of each tenant.
    lines: Vec<[Line; LINES]>,
    /// When to look at which line of which tenant.
    due: BTreeSet<(Nanos, u32, usize)>,
    /// The last number given in a line.
    last: u64,
    /// How often a cap was looked at.
    #[cfg(test)]
    looks: u64,
}

impl Naps {
    /// Lines for tenants with these caps.
    pub(super) fn new(tenants: &Tenants) -> Naps {
        Naps { capped: has_caps(tenants), ..Naps::default() }
    }

    /// The caps have changed.
    pub(super) fn caps_changed(&mut self, tenants: &Tenants) {
        self.capped = has_caps(tenants);
    }

    /// Whether there is any cap.
    pub(super) const fn is_capped(&self) -> bool {
        self.capped
    }

    /// Whether the caps of a connection's tenant let something pass.
    ///
    /// # Errors
    /// Until when they do not: it waits in line.
    pub(super) fn is_within(
        &mut self,
        tenants: &Tenants,
        now: Nanos,
        (index, connection): (u32, &mut Connection),
        what: Passing,
    ) -> Result<(), Nanos> {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        crate::tally::looked(1);
        let (tenant, line) = (connection.tenant, line_of(what));
        let own = connection.nap.filter(|(of, _)| *of == line).map(|(_, number)| number);
        let first = self.line(tenant, line).connections.first_key_value().map(|(first, _)| *first);
        let is_behind = first.is_some_and(|first| own.is_none_or(|own| first < own));
        let until = tenants.open_at(tenant, what);
        self.forget(connection);
        if until <= now && !is_behind {
            return Ok(());
        }
        let number = own.unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        connection.nap = Some((line, number));
        self.line(tenant, line).connections.insert(number, index);
        self.set_time(tenant, line, until);
        Err(until)
    }

    /// Something passes the caps of a tenant.
    pub(super) fn charge(&self, tenants: &mut Tenants, tenant: u32, now: Nanos, what: Passing) {
        if self.capped {
            tenants.charge(tenant, now, what);
        }
    }

    /// A connection no longer waits for a cap.
    pub(super) fn forget(&mut self, connection: &mut Connection) {
        if let Some((line, number)) = connection.nap.take() {
            self.line(connection.tenant, line).connections.remove(&number);
        }
    }

    /// A tenant has gone, and its lines with it.
    pub(super) fn forget_tenant(&mut self, tenant: u32) {
        if let Some(lines) = self.lines.get_mut(tenant as usize) {
            *lines = Default::default();
        }
    }

    /// When to look at the next line.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.due.first().map(|&(until, ..)| until)
    }

    /// The next connection whose time has come.
    pub(super) fn wake(&mut self, tenants: &Tenants, now: Nanos) -> Option<u32> {
        while let Some(&entry) = self.due.first().filter(|(when, ..)| *when <= now) {
            self.due.remove(&entry);
            let (_, tenant, line) = entry;
            let is_empty = {
                let line = self.line(tenant, line);
                line.until = None;
                line.connections.is_empty()
            };
            // A tenant whose last connection has gone took its lines with it.
            if is_empty {
                continue;
            }
            let until = tenants.open_at(tenant, waits_for(line));
            if until > now {
                self.set_time(tenant, line, until);
                continue;
            }
            let first = self.line(tenant, line).connections.pop_first();
            if !self.line(tenant, line).connections.is_empty() {
                // Once this one has been charged.
                self.set_time(tenant, line, Nanos(now.0 + 1));
            }
            if let Some((_, index)) = first {
                return Some(index);
            }
        }
        None
    }

    /// Sets when to look at a line, if it has no time yet.
    fn set_time(&mut self, tenant: u32, line: usize, when: Nanos) {
        let until = &mut self.line(tenant, line).until;
        if until.is_none() {
            *until = Some(when);
            self.due.insert((when, tenant, line));
        }
    }

    fn line(&mut self, tenant: u32, line: usize) -> &mut Line {
        let place = tenant as usize;
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, Default::default);
        }
        &mut self.lines[place][line]
    }

    /// How often a cap was looked at.
    #[cfg(test)]
    pub(super) const fn looks(&self) -> u64 {
        self.looks
    }

    /// Whether no connection waits, and no line has a time.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.lines.iter().flatten().all(|line| line.connections.is_empty())
    }

    /// Whether there are caps is overlooked.
    #[cfg(test)]
    pub(super) const fn overlook(&mut self, capped: bool) {
        self.capped = capped;
    }
}

fn has_caps(tenants: &Tenants) -> bool {
    tenants.iter().any(|(_, node)| node.cap.limits())
}

#[cfg(test)]
mod tests {
    use paternoster_core::{DeviceFacts, Limits, NoObserver};

    use super::*;
    use crate::config::{self, Config};
    use crate::recorded_queue::RecordedQueue;

    /// Are connections above a cap of ten requests a second let go one after the other, in the
    /// order in which they came? The burst of 100 ms is worth one.
    #[test]
    fn a_line_is_let_go_in_turn() {
        let caps = config::Caps { bytes: 0, requests: 10 };
        let tenant = config::Tenant { caps, ..config::Tenant::new("slow") };
        let config = Config { tenants: vec![tenant], ..Config::default() };
        let noop = paternoster_schedulers::by_name("noop").unwrap();
        let limits = Limits { groups: 64, ..Limits::default() };
        let mut queue =
            RecordedQueue::new(DeviceFacts::default(), limits, noop, NoObserver).unwrap();
        let mut tenants = Tenants::new(&config, &mut queue).unwrap();
        let tenant = tenants.find("slow").unwrap();
        let mut naps = Naps::new(&tenants);
        let mut all = Connection::some(&[tenant; 3]);
        let what = Passing::Request;
        (0..2).for_each(|_| naps.charge(&mut tenants, tenant, Nanos::ZERO, what));
        let at = Nanos::from_millis(100);
        for (index, connection) in (0..).zip(&mut all) {
            let within = naps.is_within(&tenants, Nanos::ZERO, (index, connection), what);
            assert_eq!(within, Err(at), "two have passed");
        }
        assert_eq!((naps.next_at(), naps.wake(&tenants, Nanos::ZERO)), (Some(at), None));
        assert_eq!(naps.wake(&tenants, at), Some(0));
        assert_eq!(naps.is_within(&tenants, at, (0, &mut all[0]), what), Ok(()));
        naps.charge(&mut tenants, tenant, at, what);
        assert_eq!(naps.wake(&tenants, Nanos(at.0 + 1)), None, "the cap is used up again");
        assert_eq!(naps.wake(&tenants, at + at), Some(1));
        naps.forget(&mut all[1]);
        naps.forget(&mut all[2]);
        naps.wake(&tenants, Nanos::from_secs(9));
        assert!(naps.is_empty());
    }
}
