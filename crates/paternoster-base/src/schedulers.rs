// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulers: every elevator that a program can choose by name, third-party ones included.
//!
//! ```text
//! paternoster_schedulers ────────┐
//!                                ├─▶ all, choices, by_name ──▶ program, server, torture
//! register(own elevators), once ─┘                           ▲
//! lend(name, what makes it) ────────────────▶ by_name ───────┘
//! ```
//!
//! The library itself keeps no state except its queues; what a process has registered is kept here,
//! next to the catalog of devices, where every crate that chooses by name can see it.
//!
//! # Invariants
//! I1  A name means one elevator: `register` refuses one that is taken.
//! I2  The choices do not change after `register`; without it `all` is `ALL`. A lent elevator is
//!     not in `all`, and may be replaced: a class that a notebook defines again.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use paternoster_core::Elevator;
use paternoster_core::elevator::Entry;
use paternoster_schedulers::{ALL, by_name as known, choices as choices_of_ours};

/// Makes an elevator that is lent.
pub type Lent = Arc<dyn Fn() -> Box<dyn Elevator> + Send + Sync>;

static OWN: OnceLock<Vec<Entry>> = OnceLock::new();
static LENT: RwLock<BTreeMap<String, Lent>> = RwLock::new(BTreeMap::new());

/// Lets these elevators be chosen by name, in this process, from now on.
///
/// # Errors
/// What is wrong with a name: it is empty, contains a separator of names on a command line, is
/// taken, or is not the elevator's own name; or this process has registered before.
pub fn register(own: Vec<Entry>) -> Result<(), String> {
    for (place, entry) in own.iter().enumerate() {
        let name = entry.name;
        check(name, own[..place].iter())?;
        let says = (entry.make)().traits().name;
        if says != name {
            return Err(format!("the scheduler `{name}` calls itself `{says}`"));
        }
    }
    OWN.set(own).map_err(|_| "schedulers are registered once in a process".to_owned())
}

/// Lets the elevator that `make` makes be chosen by this name, in place of the one lent under it
/// before.
///
/// # Errors
/// What is wrong with the name.
pub fn lend(name: &str, make: Lent) -> Result<(), String> {
    check(name, OWN.get().into_iter().flatten())?;
    LENT.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), make);
    Ok(())
}

/// Whether an elevator can have this name in addition to ours and these.
fn check<'a>(name: &str, mut others: impl Iterator<Item = &'a Entry>) -> Result<(), String> {
    let separates = |c: char| c.is_whitespace() || matches!(c, ':' | ',' | '=' | '/');
    if name.is_empty() || name.contains(separates) {
        return Err(format!("`{name}` cannot be a scheduler's name"));
    }
    if known(name).is_some() || others.any(|other| other.name == name) {
        return Err(format!("there is a scheduler `{name}` already"));
    }
    Ok(())
}

/// Every elevator that can be chosen: ours in the order of their list, then those registered.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    ALL.iter().chain(OWN.get().into_iter().flatten())
}

/// All elevators, and `none`, which is no elevator.
pub fn choices() -> impl Iterator<Item = &'static Entry> + Clone {
    choices_of_ours().chain(OWN.get().into_iter().flatten())
}

/// Makes the elevator of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Elevator>> {
    let own = || all().find(|entry| entry.name == name).map(|entry| (entry.make)());
    let lent = || {
        let lent = LENT.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        lent.map(|make| make())
    };
    known(name).or_else(own).or_else(lent)
}

#[cfg(test)]
mod tests {
    use paternoster_schedulers::Noop;

    use super::*;

    /// Is a name that cannot be chosen refused, without registering anything?
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

    /// Is a lent elevator chosen by its name, the last lent under it, and never in place of ours?
    #[test]
    fn elevators_are_lent() {
        let noop: Lent = Arc::new(|| Box::new(Noop::new()));
        let deadline: Lent = Arc::new(|| known("deadline").expect("it is one of ours"));
        assert_eq!(
            lend("bfq", Arc::clone(&noop)).unwrap_err(),
            "there is a scheduler `bfq` already"
        );
        assert!(lend("a b", Arc::clone(&noop)).is_err());
        for (make, name) in [(noop, "noop"), (deadline, "deadline")] {
            lend("lent", make).expect("the name is free");
            assert_eq!(by_name("lent").map(|it| it.traits().name), Some(name));
        }
        assert_eq!(all().count(), ALL.len());
    }
}
