// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members: clients and groups come, change and go.
//!
//! ```text
//! attached   an account at the floor of its group, and nothing known
//! changed    it takes its requests to its new place; what was learned of its place is forgotten
//! detached   what it was charged stays charged (G1)
//! ```
//!
//! Counts of the watchdog's window mean nothing after any of these.
//!
//! Source: G1, G2 of `docs/rules/adaptive.md`.

use crate::adaptive::Paternoster;
use paternoster_core::elevator::Members;
use paternoster_core::{ClientId, GroupId, QueueView};

impl Members for Paternoster {
    fn client_attached(&mut self, view: &mut QueueView, client: ClientId) {
        let (parent, weight, class) = self.accounts.place_of(view, client);
        self.clients.reset(client.index());
        self.overdue.reset(client.index());
        self.accounts.open(client.index(), parent, weight, class);
    }

    fn client_changed(&mut self, view: &mut QueueView, client: ClientId) {
        let (parent, weight, class) = self.accounts.place_of(view, client);
        let own = self.accounts.at(client.index());
        if (own.parent, own.class) != (parent, class) {
            self.part(view, client.index());
            self.cooperation.forget_place(client.index());
        }
        let group = self.accounts.group_of(client.index());
        self.sweep_groups.leave_with_all(&self.clients, group, client.index());
        self.accounts.change(client.index(), parent, weight, class);
        self.kinds().sort_into_sweep(client.index());
        self.watchdog.look_anew();
    }

    fn client_detached(&mut self, view: &mut QueueView, client: ClientId) {
        self.accounts.ask_no_more(client.index());
        self.part(view, client.index());
        self.cooperation.forget_place(client.index());
        self.clients.expect_no_more(client.index());
        self.clients.set_interactive(client.index(), false);
        self.present.remove(client.index());
        self.clients.reset(client.index());
        self.pricing.even.forget(client.index());
        self.pricing.drains.forget(client.index());
        self.seat_time.forget(client.index());
        self.device_time.departs(self.accounts.at(client.index()).charged);
        self.accounts.close(client.index());
        self.watchdog.look_anew();
    }

    fn group_changed(&mut self, view: &mut QueueView, group: GroupId) {
        self.accounts.open_group(view, group.index());
        self.watchdog.look_anew();
    }

    fn group_removed(&mut self, _: &mut QueueView, group: GroupId) {
        self.accounts.close(self.accounts.of_group(group.index()));
        self.watchdog.look_anew();
    }
}
