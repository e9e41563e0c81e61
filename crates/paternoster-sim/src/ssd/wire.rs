// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wire: carries one thing at a time, first come first served: a flash channel, the link.
//!
//! A channel carries the data between its dies and the controller. The link carries them between
//! device and host, and each command costs it some time of its own; SATA's has one direction at
//! a time, PCIe's both:
//!
//! ```text
//! link 560 MB/s, 3 us a command:   4 KiB   3 + 7.314 = 10.3 us    97,000 commands a second
//!                                128 KiB   3 + 234.1 = 237.1 us   553 MB/s
//! ```
//!
//! # Invariants
//! I1  Transfers in one direction never overlap.

use paternoster_core::Nanos;

use crate::transfer::Transfer;

/// Carries one thing at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wire {
    free_at: Nanos,
}

impl Wire {
    /// Something that takes `time` comes at `now`; returns when it is through.
    pub(super) fn carry(&mut self, now: Nanos, time: Nanos) -> Nanos {
        self.free_at = now.max(self.free_at) + time;
        self.free_at
    }
}

/// What the link costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkCosts {
    /// Every byte.
    pub(super) rate: Transfer,
    /// Every command.
    pub(super) command: Nanos,
    /// Whether both directions can be used at the same time.
    pub(super) duplex: bool,
}

/// The link to the host.
#[derive(Debug)]
pub(super) struct Link {
    costs: LinkCosts,
    to_device: Wire,
    to_host: Wire,
}

impl Link {
    pub(super) fn new(costs: LinkCosts) -> Link {
        Link { costs, to_device: Wire::default(), to_host: Wire::default() }
    }

    /// A command and its data, if it has any, go to the device.
    pub(super) fn carry_in(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let time = self.costs.command + self.costs.rate.time(bytes);
        self.to_device.carry(now, time)
    }

    /// Data go to the host; the first data of a command pay its cost.
    pub(super) fn carry_out(&mut self, now: Nanos, bytes: u64, first: bool) -> Nanos {
        let command = if first { self.costs.command } else { Nanos::ZERO };
        let time = command + self.costs.rate.time(bytes);
        let wire = if self.costs.duplex { &mut self.to_host } else { &mut self.to_device };
        wire.carry(now, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(duplex: bool) -> Link {
        let rate = Transfer { nanos: 1_000_000_000, bytes: 560_000_000 };
        Link::new(LinkCosts { rate, command: Nanos::from_micros(3), duplex })
    }

    /// Does the arithmetic above hold? 4096 / 0.56 = 7314 ns, 3000 ns more for the command; what
    /// comes at the same time waits; a later part of a command costs only its bytes.
    #[test]
    fn bytes_and_commands_cost_time() {
        let mut link = link(false);
        assert_eq!(link.carry_out(Nanos::ZERO, 4096, true), Nanos(10_314));
        assert_eq!(link.carry_out(Nanos::ZERO, 4096, false), Nanos(17_628));
        assert_eq!(link.carry_in(Nanos::ZERO, 0), Nanos(20_628));
    }

    /// Do both directions of a duplex link run at the same time?
    #[test]
    fn directions_of_a_duplex_link() {
        let mut link = link(true);
        assert_eq!(link.carry_out(Nanos::ZERO, 4096, true), Nanos(10_314));
        assert_eq!(link.carry_in(Nanos::ZERO, 4096), Nanos(10_314));
        assert_eq!(link.carry_in(Nanos(50_000), 4096), Nanos(60_314));
    }
}
