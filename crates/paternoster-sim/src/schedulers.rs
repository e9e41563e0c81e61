// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulers: every elevator that a program can choose by name, a stranger's too.
//!
//! ```text
//! paternoster_core::elevators ───┐
//!                                ├─▶ all, choices, by_name ──▶ program, server, torture
//! register(own elevators), once ─┘
//! ```
//!
//! The library itself keeps no state beside its queues; what a process has registered is here,
//! beside the catalog of devices, where every crate that chooses by name can see it.
//!
//! # Invariants
//! I1  A name means one elevator: `register` refuses one that is taken.
//! I2  What can be chosen does not change once it was registered; without it `all` is `ALL`.

use std::sync::OnceLock;

use paternoster_core::Elevator;
use paternoster_core::elevators::{ALL, Entry, by_name as known, choices as choices_of_ours};

static OWN: OnceLock<Vec<Entry>> = OnceLock::new();

/// Lets these elevators be chosen by name, in this process, from now on.
///
/// # Errors
/// What is wrong with a name: it is empty, holds what separates names on a command line, is taken,
/// or is not what the elevator says of itself; or this process has registered before.
pub fn register(own: Vec<Entry>) -> Result<(), String> {
    for (place, entry) in own.iter().enumerate() {
        let name = entry.name;
        let separates = |c: char| c.is_whitespace() || matches!(c, ':' | ',' | '=' | '/');
        if name.is_empty() || name.contains(separates) {
            return Err(format!("`{name}` cannot be a scheduler's name"));
        }
        if known(name).is_some() || own[..place].iter().any(|other| other.name == name) {
            return Err(format!("there is a scheduler `{name}` already"));
        }
        let says = (entry.make)().name();
        if says != name {
            return Err(format!("the scheduler `{name}` calls itself `{says}`"));
        }
    }
    OWN.set(own).map_err(|_| "schedulers are registered once in a process".to_owned())
}

/// Every elevator that can be chosen: ours in the order of their list, then those registered.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    ALL.iter().chain(OWN.get().into_iter().flatten())
}

/// All that, and `none`, which is no elevator.
pub fn choices() -> impl Iterator<Item = &'static Entry> + Clone {
    choices_of_ours().chain(OWN.get().into_iter().flatten())
}

/// Makes what is chosen by this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Elevator>> {
    known(name).or_else(|| all().find(|entry| entry.name == name).map(|entry| (entry.make)()))
}

#[cfg(test)]
mod tests {
    use paternoster_core::elevators::Noop;

    use super::*;

    /// Is a name that cannot be chosen refused, and nothing registered then?
    #[test]
    fn a_name_means_one_elevator() {
        let entry = |name| Entry { name, summary: "", make: || Box::new(Noop::new()) };
        let refusal = |names: &[&'static str]| {
            register(names.iter().copied().map(entry).collect()).unwrap_err()
        };
        assert_eq!(refusal(&["bfq"]), "there is a scheduler `bfq` already");
        assert_eq!(refusal(&["none"]), "there is a scheduler `none` already");
        assert_eq!(refusal(&["a:b"]), "`a:b` cannot be a scheduler's name");
        assert_eq!(refusal(&[""]), "`` cannot be a scheduler's name");
        assert_eq!(refusal(&["mine"]), "the scheduler `mine` calls itself `noop`");
        assert_eq!(all().count(), ALL.len());
        assert!(by_name("none").is_some() && by_name("mine").is_none());
    }
}
