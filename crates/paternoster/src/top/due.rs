// SPDX-License-Identifier: MIT OR Apache-2.0
//! Due: what each tenant is entitled to of what all used in an interval.
//!
//! By class, then by the weights that the scheduler uses (including floors), group by group; no
//! tenant gets more than it asks for. A tenant with open requests asks for the whole device; one
//! without asked for what it got.
//!
//! ```text
//! weights 300 and 100     got 86 %, 14 %      both have requests open     entitled 75 %, 25 %
//!                         got 86 %, 14 %      the second has none open    entitled 86 %, 14 %
//! ```
//!
//! Source: `paternoster_workload::entitlement`.

use std::collections::BTreeSet;

use paternoster_base::entitlement::{Party, Use, WEIGHT, entitled_by_class};
use paternoster_serve::control::snapshot::{Snapshot, TenantLine};

/// A tenant, or a process without one, in an interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    /// The tenant; `None`: a process outside the tenants, which is entitled to what it got.
    pub(super) line: Option<&'a TenantLine>,
    /// The part of what all used that it got, 0 to 1.
    pub(super) share: f64,
    /// Whether it has requests open.
    pub(super) wants_more: bool,
}

/// The part that each is entitled to, in order.
pub(super) fn due(snapshot: &Snapshot, claims: &[Claim<'_>]) -> Vec<f64> {
    let uses: Vec<Use> = claims
        .iter()
        .map(|claim| {
            let asks_for_all = claim.wants_more && claim.line.is_some();
            let alone = if asks_for_all { 1.0 } else { claim.share };
            Use { rate: claim.share, alone, saturated: 1.0 }
        })
        .collect();
    let classes = ["realtime", "best-effort", "idle"].map(|class| {
        let is_in = |place: &usize| class_of(claims[*place].line) == class;
        let places: BTreeSet<usize> = (0..claims.len()).filter(is_in).collect();
        below("", snapshot, claims, &places)
    });
    entitled_by_class(&classes, &uses)
}

/// A background tenant counts as best effort, with its effective weight.
fn class_of(line: Option<&TenantLine>) -> &str {
    match line.map(|line| &*line.class) {
        Some(class @ ("realtime" | "idle")) => class,
        _ => "best-effort",
    }
}

/// The tenants among these indices that are in a group (or in none), and the groups in it.
fn below(
    parent: &str,
    snapshot: &Snapshot,
    claims: &[Claim<'_>],
    places: &BTreeSet<usize>,
) -> Vec<Party> {
    let weight = |line: &TenantLine| f64::from(line.effective_weight.max(1));
    let mut all = Vec::new();
    for &place in places {
        match claims[place].line {
            Some(line) if line.parent == parent => all.push(Party::Client(place, weight(line))),
            None if parent.is_empty() => all.push(Party::Client(place, WEIGHT)),
            _ => {}
        }
    }
    // A server names parents before their children; one that is its own ancestor has none.
    let groups = snapshot.tenants.iter().filter(|line| line.is_group && line.name != parent);
    for group in groups.filter(|line| line.parent == parent) {
        let members = below(&group.name, snapshot, claims, places);
        if !members.is_empty() {
            all.push(Party::Group(members, weight(group)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, parent: &str, weight: u32) -> TenantLine {
        TenantLine {
            name: name.to_owned(),
            parent: parent.to_owned(),
            effective_weight: weight,
            class: "best-effort".to_owned(),
            ..TenantLine::default()
        }
    }

    fn entitled(snapshot: &Snapshot, got: &[(&TenantLine, f64, bool)]) -> Vec<i64> {
        let claim = |&(line, share, wants_more)| Claim { line: Some(line), share, wants_more };
        let claims: Vec<Claim<'_>> = got.iter().map(claim).collect();
        #[allow(clippy::cast_possible_truncation, reason = "thousandths")]
        due(snapshot, &claims).iter().map(|part| (part * 1000.0).round() as i64).collect()
    }

    /// Does the example above hold: 300 to 100 of two that want more are 750 and 250 of 1,000, and
    /// one that wants no more is content?
    #[test]
    fn one_that_asks_for_little_is_content() {
        let (vm1, vm2) = (line("vm1", "", 300), line("vm2", "", 100));
        let none = Snapshot::default();
        assert_eq!(entitled(&none, &[(&vm1, 0.86, true), (&vm2, 0.14, true)]), [750, 250]);
        assert_eq!(entitled(&none, &[(&vm1, 0.86, true), (&vm2, 0.14, false)]), [860, 140]);
        // What the first does not ask for is the second's.
        assert_eq!(entitled(&none, &[(&vm1, 0.2, false), (&vm2, 0.8, true)]), [200, 800]);
        assert_eq!(entitled(&none, &[(&vm1, 0.0, false), (&vm2, 0.0, false)]), [0, 0]);
    }

    /// Do groups divide by their weights, whatever is in them, and do classes come one after the
    /// other? Two groups of 100 have 500 each; in one of them two share by 300 to 100.
    #[test]
    fn groups_and_classes() {
        let group = |name: &str| TenantLine { is_group: true, ..line(name, "", 100) };
        let snapshot = Snapshot { tenants: vec![group("a"), group("b")], ..Snapshot::default() };
        let (one, two, three) = (line("1", "a", 300), line("2", "a", 100), line("3", "b", 7));
        let got = [(&one, 0.1, true), (&two, 0.1, true), (&three, 0.8, true)];
        assert_eq!(entitled(&snapshot, &got), [375, 125, 500]);
        let idle = TenantLine { class: "idle".to_owned(), ..line("4", "", 1000) };
        let got = [(&three, 0.5, true), (&idle, 0.5, true)];
        assert_eq!(entitled(&snapshot, &got), [1000, 0]);
    }
}
