// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ordered: changes of the running server that were not saved; a reload undoes them.
//!
//! ```text
//! file read at the start   weight 100        in force before      300 (ordered)
//! file now                 weight 100        in force afterwards  100
//!                                      ──▶   tenant.gold.weight: 300 -> 100 (ordered, not saved)
//! ```
//!
//! The file counts, as when a service manager reloads its units: after a reload the state is that
//! of a fresh start. Orders that are undone by this are reported, even if the file has not changed.
//!
//! Invariant: what is reported are the differences in the running server, which is asked before and
//! after; a value that the file merely writes in another form is no difference.

use super::{Change, Config, Keeper, Order, Running, Settings, changes};

impl Keeper {
    /// This configuration, with the orders that the loops have carried out.
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

/// What a reload has changed, one line each: `from_file` are the file's changes; orders that were
/// undone are added. `before` and `behind` are the configurations in force before and after.
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

/// A change as text. A tenant that is not in the file falls back to the default weight.
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
