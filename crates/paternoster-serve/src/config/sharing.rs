// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections `[group.NAME]`, `[tenant.NAME]` and `[[rule]]`: shares, and which client belongs to
//! which tenant.

use toml::de::DeValue;

use super::document::Section;
use super::file::ConfigError;
use super::limits::{GROUPS, LEVEL, RULES, TENANTS, WEIGHT};
use super::{Caps, Group, Rule, ServiceClass, Tenant, Who, quantity, words};

/// The least that a background tenant gets unless its `minimum` says otherwise, in thousandths.
const MINIMUM: u16 = 10;

pub(super) fn groups(root: &mut Section<'_>) -> Result<Vec<Group>, ConfigError> {
    let named = root.named("group", GROUPS)?.into_iter();
    named.map(|(name, section)| group(name, section)).collect()
}

fn group(name: String, mut section: Section<'_>) -> Result<Group, ConfigError> {
    let mut group = Group::new(&name);
    group.parent = section.text("parent")?;
    group.weight = section.number("weight", &WEIGHT)?.unwrap_or(group.weight);
    group.caps = caps(&mut section)?;
    group.floor = section.parsed("floor", quantity::percent)?;
    section.finish()?;
    Ok(group)
}

pub(super) fn tenants(root: &mut Section<'_>) -> Result<Vec<Tenant>, ConfigError> {
    let named = root.named("tenant", TENANTS)?.into_iter();
    named.map(|(name, section)| tenant(name, section)).collect()
}

fn tenant(name: String, mut section: Section<'_>) -> Result<Tenant, ConfigError> {
    let mut tenant = Tenant::new(&name);
    tenant.group = section.text("group")?;
    tenant.weight = section.number("weight", &WEIGHT)?.unwrap_or(tenant.weight);
    tenant.class = section.parsed("class", str::parse)?.unwrap_or(tenant.class);
    tenant.level = section.number("level", &LEVEL)?.unwrap_or(tenant.level);
    tenant.caps = caps(&mut section)?;
    tenant.floor = section.parsed("floor", quantity::percent)?;
    let asked = section.parsed("minimum", quantity::percent)?;
    match (&mut tenant.class, asked) {
        (ServiceClass::Background { minimum }, asked) => *minimum = asked.unwrap_or(MINIMUM),
        (ServiceClass::Kernel(_), Some(_)) => {
            let why = "only `class = \"background\"` has a minimum; others have a `floor`";
            return Err(section.wrong("minimum", why));
        }
        (ServiceClass::Kernel(_), None) => {}
    }
    section.finish()?;
    Ok(tenant)
}

fn caps(section: &mut Section<'_>) -> Result<Caps, ConfigError> {
    let bytes = section.parsed("cap", quantity::rate)?;
    let requests = section.number("cap-requests", &(1..=1_000_000_000u64))?;
    Ok(Caps { bytes: bytes.unwrap_or(0), requests: requests.unwrap_or(0) })
}

pub(super) fn rules(root: &mut Section<'_>) -> Result<Vec<Rule>, ConfigError> {
    root.list("rule", RULES)?.into_iter().map(rule).collect()
}

/// Numbers of users, groups and processes; the largest one is none.
const NUMBERS: std::ops::RangeInclusive<u32> = 0..=u32::MAX - 1;

fn rule(mut section: Section<'_>) -> Result<Rule, ConfigError> {
    let export = section.text("export")?;
    let pid = section.number("pid", &NUMBERS)?;
    let who = Who { export, pid, ..who(&mut section)? };
    let Some(tenant) = section.value("tenant", template)? else {
        return Err(section.missing("tenant", "`tenant = \"…\"` says whose such a client is"));
    };
    section.finish()?;
    Ok(Rule { who, tenant })
}

/// What rules and rights ask of a client alike.
pub(super) fn who(section: &mut Section<'_>) -> Result<Who, ConfigError> {
    Ok(Who {
        uid: section.number("uid", &NUMBERS)?,
        gid: section.number("gid", &NUMBERS)?,
        cgroup: section.text("cgroup")?,
        address: section.parsed("address", words::network)?,
        certificate: section.text("certificate")?,
        ..Who::default()
    })
}

fn template(value: &DeValue<'_>) -> Result<String, String> {
    words::template(value.as_str().ok_or("a text between quotes")?)
}
