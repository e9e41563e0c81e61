// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places: where clients and groups of a view stand in the tree of accounts, and what they weigh.
//!
//! Source: G2 of `docs/rules/adaptive.md`.

use super::Accounts;
use paternoster_core::{ClientId, QueueView};

/// The priority level at which the weight counts as it is.
const LEVEL_PLAIN: u32 = 4;

impl Accounts {
    /// The account, weight and class of a client: its level scales its weight.
    pub(in super::super) fn place_of(&self, view: &QueueView, client: ClientId) -> (u32, u32, u8) {
        let own = view.client_at(client.index());
        let level = u32::from(own.priority().level.min(7));
        let weight = (own.weight().max(1) * (8 - level) / LEVEL_PLAIN).max(1);
        let parent = self.of_group(view.group_of(client).index());
        (parent, weight, own.priority().class as u8)
    }

    /// Opens the account of a group, after those above it.
    pub(in super::super) fn open_group(&mut self, view: &QueueView, group: u32) {
        let node = self.of_group(group);
        let own = view.group_at(group);
        let Some(parent) = own.parent() else { return };
        let (above, class) = (self.of_group(parent.index()), 1);
        if self.is_open(node) {
            self.change(node, above, own.weight(), class);
        } else {
            self.open_group(view, parent.index());
            self.open(node, above, own.weight(), class);
        }
    }
}
