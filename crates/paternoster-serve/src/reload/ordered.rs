// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ordered: what was changed in the running server and not saved, which a reload gives up.
//!
//! ```text
//! file read at the start   weight 100        what holds before    300 (ordered)
//! file now                 weight 100        what holds behind    100
//!                                      ──▶   tenant.gold.weight: 300 -> 100 (ordered, not saved)
//! ```
//!
//! The file counts, as where a service manager reads its units again: after a reload the state is
//! that of a fresh start. Orders undone by this are reported, even if the file has not changed.
//!
//! Invariant: told is what was different in the running server, by asking it before and behind;
//! a value that the file writes in another way than the server shows it is no difference.

use super::{Change, Config, Keeper, Order, Running, Settings, changes};

impl Keeper {
    /// This configuration with what was ordered of the loops.
    pub(super) fn live(&self, config: &Config) -> Result<Config, String> {
        let mut live = config.clone();
        for (handle, _) in &self.device_loops {
            let settings = handle.ask(Order::Settings)?;
            let named = |error| format!("device {}: {error}", handle.device);
            let settings: Settings = serde_json::from_value(settings).map_err(named)?;
            settings.put_into(&mut live, &handle.device);
        }
        Ok(live)
    }
}

/// What a reload has changed, a line each: `from_file` by the file, and what was ordered. `before`
/// and `behind` are what held and what holds.
pub(super) fn lines(
    from_file: &[Change],
    running: &Running,
    before: &Config,
    behind: &Config,
) -> Vec<String> {
    let ordered = changes(&running.config, before);
    let is_ordered = |change: &Change| ordered.iter().any(|one| one.key == change.key);
    let mut given_up = changes(before, behind);
    given_up.retain(is_ordered);
    let is_told = |change: &&Change| given_up.iter().all(|one| one.key != change.key);
    let told = from_file.iter().filter(is_told).map(ToString::to_string);
    let given_up = given_up.iter().map(|change| words(change, before));
    told.chain(given_up.map(|line| line + " (ordered, not saved)")).collect()
}

/// A change in words. A tenant that no file has is there again by the weight of such a one.
fn words(change: &Change, before: &Config) -> String {
    let tenant = match &change.key[..] {
        [kind, name] if kind == "tenant" => before.tenants.iter().find(|it| it.name == *name),
        _ => None,
    };
    match tenant {
        Some(it) => format!("tenant.{}.weight: {} -> 100", it.name, it.weight),
        None => change.to_string(),
    }
}
