// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings: what a loop takes from the configuration and keeps as it is, until another one comes.
//!
//! Invariant: they are of one configuration, whole.

use paternoster_core::Nanos;

use crate::config::{self, Identity, Rule, rules};

/// See above.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Requests are logged.
    pub verbose: bool,
    /// How long a client may keep what it owes.
    pub stall_timeout: Nanos,
    /// How long clients have to finish, when the server stops or a volume goes.
    pub drain_timeout: Nanos,
    /// How long the device has, when the clients are gone.
    pub device_timeout: Nanos,
    /// Say whose a client is.
    rules: Vec<Rule>,
}

impl Settings {
    /// The settings of a configuration.
    pub(super) fn of(config: &config::Config) -> Settings {
        Settings {
            verbose: config.server.tells_requests(),
            stall_timeout: config.server.stall_timeout,
            drain_timeout: config.server.drain_timeout,
            device_timeout: config.server.device_timeout,
            rules: config.rules.clone(),
        }
    }

    /// The name of the tenant that a client is of.
    pub(super) fn tenant_of(&self, identity: &Identity) -> String {
        rules::tenant_of(&self.rules, identity)
    }

    /// Takes the rules of a configuration, and nothing else.
    #[cfg(test)]
    pub(super) fn take_rules(&mut self, rules: &[Rule]) {
        self.rules = rules.to_vec();
    }

    /// The rules.
    #[cfg(test)]
    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }
}
