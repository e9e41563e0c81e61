// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines: what is told of tenants and groups, in snapshots and in what orders can change.
//!
//! Invariant: only those are told to which a name refers.

use paternoster_core::Class;

use super::{Node, ROOT, Tenants};
use crate::config::ServiceClass;
use crate::control::order::Setting;
use crate::control::snapshot::TenantLine;

impl Tenants {
    /// The settings that orders can change.
    pub(in crate::device_loop) fn settings(&self) -> Vec<Setting> {
        let setting = |node: &Node| Setting {
            name: node.name.clone(),
            is_group: node.is_group,
            is_at_the_root: node.parent == ROOT,
            weight: node.weight,
            class: class_name(node.class).to_owned(),
            minimum: match node.class {
                ServiceClass::Background { minimum } => minimum,
                ServiceClass::Kernel(_) => 0,
            },
            level: node.level,
        };
        self.present().map(|(_, node)| setting(node)).collect()
    }

    /// Lines for a snapshot, parents before children.
    pub(in crate::device_loop) fn lines(&self) -> Vec<TenantLine> {
        let mut lines: Vec<TenantLine> = self
            .iter()
            .filter(|(place, node)| *place != ROOT && !node.is_gone)
            .map(|(_, node)| self.line(node))
            .collect();
        lines.sort_by(|a, b| (!a.is_group, &a.name).cmp(&(!b.is_group, &b.name)));
        lines
    }

    fn line(&self, node: &Node) -> TenantLine {
        TenantLine {
            name: node.name.clone(),
            parent: self.at(node.parent).name.clone(),
            is_group: node.is_group,
            weight: node.weight,
            effective_weight: node.effective,
            class: class_name(node.class).to_owned(),
            level: node.level,
            connections: node.connections,
            figures: node.figures.clone(),
        }
    }
}

/// The class's name, as in configurations and listings.
const fn class_name(class: ServiceClass) -> &'static str {
    match class {
        ServiceClass::Kernel(Class::Realtime) => "realtime",
        ServiceClass::Kernel(Class::BestEffort) => "best-effort",
        ServiceClass::Kernel(Class::Idle) => "idle",
        ServiceClass::Background { .. } => "background",
    }
}
