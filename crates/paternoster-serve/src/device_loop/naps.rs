// SPDX-License-Identifier: MIT OR Apache-2.0
//! Naps: connections that wait for a cap, in line.
//!
//! ```text
//! tenant    requests: 4, 7     data: 2, 5, 9        by number, the first asked first
//! loop      (when, tenant, which line)              one time for each line that is not empty
//! ```
//!
//! When a line's time comes, its first connection is let go; the next one is considered once the
//! first has been charged. So a cap that opens for one fragment is not tried by every connection
//! that waits. A connection that reaches its cap while others wait in the line goes to its end.
//!
//! Tenants of a group with a cap have lines of their own: at most one connection of each line tries
//! the group's cap at a time.
//!
//! Invariants: I1 a line that is not empty has one time in `naps`; I2 a connection is in one line
//! at most, under the number of its `nap`.

use paternoster_core::Nanos;

use super::DeviceLoop;
use super::caps::Passing;
use super::connection::Blocked;

/// Lines of a tenant: for requests, and for data.
pub(super) const LINES: usize = 2;

/// The line in which to wait for this.
const fn line_of(what: Passing) -> usize {
    match what {
        Passing::Request => 0,
        Passing::Data(_) => 1,
    }
}

/// What the line is for.
const fn waits_for(line: usize) -> Passing {
    if line == 0 { Passing::Request } else { Passing::Data(0) }
}

impl DeviceLoop {
    /// Whether the caps of a connection's tenant let something pass; otherwise the connection is
    /// blocked.
    ///
    /// While a volume is drained, or the server stops, accepted requests do not wait.
    pub(super) fn is_within_caps(&mut self, index: u32, what: Passing) -> bool {
        let connection = self.connections.at(index);
        let ends = self.stopping || self.volumes.is_drained(connection.place);
        if !self.capped || ends {
            return true;
        }
        #[cfg(test)]
        {
            self.cap_looks += 1;
        }
        crate::tally::looked(1);
        let (tenant, line) = (connection.tenant, line_of(what));
        let own = connection.nap.filter(|(of, _)| *of == line).map(|(_, number)| number);
        let first = self.tenants.at(tenant).naps[line].first_key_value().map(|(first, _)| *first);
        let is_behind = first.is_some_and(|first| own.is_none_or(|own| first < own));
        let until = self.tenants.open_at(tenant, what);
        self.forget_nap(index);
        if until <= self.now && !is_behind {
            return true;
        }
        let number = own.unwrap_or_else(|| {
            self.napped += 1;
            self.napped
        });
        self.connections.at_mut(index).nap = Some((line, number));
        self.tenants.at_mut(tenant).naps[line].insert(number, index);
        self.set_time(tenant, line, until);
        self.block(index, Blocked::Cap(until));
        false
    }

    /// Something passes the caps of a connection's tenant.
    pub(super) fn charge(&mut self, index: u32, what: Passing) {
        if self.capped {
            self.tenants.charge(self.connections.at(index).tenant, self.now, what);
        }
    }

    /// A connection no longer waits for a cap.
    pub(super) fn forget_nap(&mut self, index: u32) {
        let connection = self.connections.at_mut(index);
        if let Some((line, number)) = connection.nap.take() {
            self.tenants.at_mut(connection.tenant).naps[line].remove(&number);
        }
    }

    /// Sets when to look at a line, if it has no time yet.
    fn set_time(&mut self, tenant: u32, line: usize, when: Nanos) {
        let node = self.tenants.at_mut(tenant);
        if node.nap_until[line].is_none() {
            node.nap_until[line] = Some(when);
            self.naps.insert((when, tenant, line));
        }
    }

    /// Lets connections go whose time has come.
    pub(super) fn wake_sleepers(&mut self) {
        let now = self.now;
        while let Some(&entry) = self.naps.first().filter(|(when, ..)| *when <= now) {
            self.naps.remove(&entry);
            let (_, tenant, line) = entry;
            // A tenant whose last connection has gone took its lines with it.
            let Some(node) = self.tenants.get_mut(tenant) else { continue };
            node.nap_until[line] = None;
            if node.naps[line].is_empty() {
                continue;
            }
            let until = self.tenants.open_at(tenant, waits_for(line));
            if until > now {
                self.set_time(tenant, line, until);
                continue;
            }
            let first = self.tenants.at_mut(tenant).naps[line].pop_first();
            if !self.tenants.at(tenant).naps[line].is_empty() {
                // Once this one has been charged.
                self.set_time(tenant, line, Nanos(now.0 + 1));
            }
            if let Some((_, index)) = first
                && matches!(self.connections.at(index).blocked, Blocked::Cap(_))
            {
                self.unblock(index);
            }
        }
    }

    /// Lets all go, whatever their caps say: connections whose volume ends pass them.
    pub(super) fn wake_all_sleepers(&mut self) {
        let connections: Vec<u32> = self.connections.iter().map(|(index, _)| index).collect();
        for index in connections {
            self.forget_nap(index);
            if matches!(self.connections.at(index).blocked, Blocked::Cap(_)) {
                self.unblock(index);
            }
        }
    }
}
