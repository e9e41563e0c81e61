// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configured: the configuration that a plan is, as a server reads it from a file.
//!
//! One device with the plan's volumes that are there, and its groups, tenants and rules. Timeouts
//! that end a client by the clock are far away: a case ends by its laws, not by its time.

use std::ops::Range;

use paternoster_core::Nanos;

use super::names::Names;
use super::plan::{Plan, VolumePlan};
use super::{succession, tenants};
use crate::config::{Config, Device, Direct, Engine, Server, Volume};

/// A volume has another name after each reload that renames it.
pub(super) fn volume_name(number: usize, volume: &VolumePlan) -> String {
    match volume.renamed {
        0 => format!("v{number}"),
        times => format!("v{number}n{times}"),
    }
}

/// Bytes of the medium that no volume has.
pub(super) fn beside(plan: &Plan) -> Vec<Range<usize>> {
    let ranges = plan.volumes.iter().map(|volume| volume.start..volume.start + volume.size);
    let mut volumes: Vec<Range<usize>> = ranges.collect();
    volumes.push(plan.bytes..plan.bytes);
    volumes.sort_by_key(|range| range.start);
    let (mut end, mut beside) = (0, Vec::new());
    for range in volumes {
        if range.start > end {
            beside.push(end..range.start);
        }
        end = end.max(range.end);
    }
    beside
}

/// The configuration, and its only device.
pub(super) fn config(plan: &Plan) -> (Config, Device) {
    let server = Server {
        connections: u32::try_from(16 + plan.clients.len()).unwrap(),
        handshake_timeout: Nanos::from_secs(3),
        drain_timeout: Nanos(plan.drain_timeout),
        connection_memory: plan.connection_memory,
        // No client is late by the clock here.
        stall_timeout: Nanos::from_secs(1 << 20),
        ..Server::default()
    };
    let there = plan.volumes.iter().enumerate().filter(|(_, volume)| !volume.is_out);
    let volumes = there.map(|(number, volume)| {
        let path = Names::path(volume.file, volume.path);
        Volume {
            start: (volume.start - plan.files[volume.file]) as u64,
            length: Some((volume.size + volume.odd) as u64),
            readonly: volume.readonly,
            share: succession::is_shared(plan, volume.file),
            ..Volume::new(volume_name(number, volume), path)
        }
    });
    let device = Device {
        name: "dev".to_owned(),
        scheduler: plan.scheduler.to_owned(),
        attributes: vec![("max_sectors_kb".to_owned(), plan.sectors_kb.to_string())],
        depth: None,
        memory: 4 << 20,
        direct: Direct::Auto,
        engine: Engine::Auto,
        delay_bound: plan.delay_bound,
        volumes: volumes.collect(),
    };
    let (groups, tenants) = (tenants::groups(plan), tenants::configured(plan));
    let devices = vec![device.clone()];
    (Config { server, devices, groups, tenants, rules: tenants::rules(plan) }, device)
}
