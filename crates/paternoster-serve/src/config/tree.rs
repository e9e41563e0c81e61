// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree of groups: parents first, no circles, promises that fit.
//!
//! ```text
//! root ─┬─ group customers (floor 50%) ─┬─ tenant gold   (floor 60%)
//!       │                               └─ tenant silver (floor 30%)   60 + 30 = 90: the most
//!       └─ tenant backup (background, minimum 5%)        50 + 5 = 55 of what the root has
//! ```
//!
//! A floor is a part of what the siblings share. The floors of siblings add up to at most nine
//! tenths; the rest is divided by weight, so that a sibling without a floor does not starve.

use std::collections::HashMap;

use super::settle::Complaint;
use super::{Config, Group, ServiceClass, limits, quantity};

/// The groups with parents before children, otherwise in their order. All parents are there.
pub(super) fn parents_first(groups: Vec<Group>) -> Result<Vec<Group>, Complaint> {
    let levels: Vec<usize> = {
        let above: HashMap<&str, Option<&str>> =
            groups.iter().map(|group| (group.name.as_str(), group.parent.as_deref())).collect();
        groups.iter().map(|group| level(group, &above)).collect::<Result<_, _>>()?
    };
    let mut sorted: Vec<(usize, Group)> = levels.into_iter().zip(groups).collect();
    sorted.sort_by_key(|(level, _)| *level);
    Ok(sorted.into_iter().map(|(_, group)| group).collect())
}

/// How many groups are above this one.
fn level(group: &Group, above: &HashMap<&str, Option<&str>>) -> Result<usize, Complaint> {
    let mut way = vec![group.name.as_str()];
    let mut next = group.parent.as_deref();
    while let Some(name) = next {
        let circle = way.contains(&name);
        way.push(name);
        if circle || way.len() > limits::GROUP_LEVELS {
            let way = way.join(" in ");
            let why = if circle {
                format!("a group would be in itself: {way}")
            } else {
                format!("{way}: at most {} levels are allowed", limits::GROUP_LEVELS)
            };
            let parent = group.parent.as_deref().unwrap_or("");
            return Err(Complaint::new(&["group", &group.name, "parent"], parent, why));
        }
        next = above.get(name).copied().flatten();
    }
    Ok(way.len() - 1)
}

/// Siblings are promised at most nine tenths together.
pub(super) fn floors(config: &Config) -> Result<(), Complaint> {
    let groups = config.groups.iter().map(|group| {
        ("group", group.name.as_str(), "floor", group.parent.as_deref(), group.floor.unwrap_or(0))
    });
    let tenants = config.tenants.iter().map(|tenant| {
        let (key, promised) = match tenant.class {
            ServiceClass::Background { minimum } => ("minimum", minimum),
            ServiceClass::Kernel(_) => ("floor", tenant.floor.unwrap_or(0)),
        };
        ("tenant", tenant.name.as_str(), key, tenant.group.as_deref(), promised)
    });
    let mut sums: HashMap<Option<&str>, u32> = HashMap::new();
    for (kind, name, key, parent, promised) in groups.chain(tenants) {
        let sum = sums.entry(parent).or_default();
        let before = *sum;
        *sum += u32::from(promised);
        if *sum <= u32::from(*limits::FLOOR.end()) || promised == 0 {
            continue;
        }
        let show = |thousandths: u32| {
            quantity::show_percent(u16::try_from(thousandths).unwrap_or(u16::MAX))
        };
        let whose = parent.map_or("below the root".to_owned(), |name| format!("in group `{name}`"));
        let why = format!(
            "its siblings {whose} have {} already, and together at most {} are promised",
            show(before),
            quantity::show_percent(*limits::FLOOR.end())
        );
        return Err(Complaint::new(&[kind, name, key], quantity::show_percent(promised), why));
    }
    Ok(())
}
