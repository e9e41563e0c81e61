// SPDX-License-Identifier: MIT OR Apache-2.0
//! Journal: a log line for each client that comes, and one with its figures when it goes.
//!
//! ```text
//! vm1: unix uid 107 pid 4711: connected, tenant gold
//! vm1: unix uid 107 pid 4711: gone after 61.204 s: it said good-bye; tenant gold, 12 reads
//!      (49152 bytes), 3 writes (12288 bytes), 1 flushes, 0 errors            (in one line)
//! ```
//!
//! A client that left by itself is logged at `info`, one that was disconnected at `warning`.
//! Processes that use a file (FUSE) come and go with each shell command: they are logged at
//! `debug`.

use paternoster_core::Nanos;

use super::connection::Connection;
use super::tenants::Tenants;
use super::volumes::Volumes;
use crate::config::Level;
use crate::control::snapshot::Figures;
use crate::log::Entry;

/// The volumes and tenants by which connections are named in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    /// The device.
    pub device: &'a str,
    /// The loop's volumes.
    pub volumes: &'a Volumes,
    /// The loop's tenants.
    pub tenants: &'a Tenants,
}

impl Names<'_> {
    /// Logs that a client has come.
    pub(super) fn tell_of_arrival(&self, connection: &Connection) {
        let tenant = &self.tenants.at(connection.tenant).name;
        let readonly = if connection.negotiated.facts.readonly { ", read-only" } else { "" };
        self.entry_of(connection, Level::Info, "connect").tell_of(
            connection.peer.origin,
            format_args!(
                "{}: {}: connected, tenant {tenant}{readonly}",
                self.volumes.at(connection.place).name,
                connection.peer
            ),
        );
    }

    /// Logs that a client goes, and why.
    pub(super) fn tell_of_departure(
        &self,
        now: Nanos,
        connection: &Connection,
        reason: &str,
        level: Level,
    ) {
        let passed = (now - connection.came).0 / 1_000_000;
        let Figures { reads, read_bytes, writes, write_bytes, flushes, errors, .. } =
            connection.figures;
        let tenant = &self.tenants.at(connection.tenant).name;
        let withdrawn = match connection.ios {
            0 => String::new(),
            ios => format!(", {ios} not answered"),
        };
        let words = format!(
            "{}: {}: gone after {}.{:03} s: {reason}; tenant {tenant}, {reads} reads ({read_bytes} \
             bytes), {writes} writes ({write_bytes} bytes), {flushes} flushes, {errors} errors\
             {withdrawn}",
            self.volumes.at(connection.place).name,
            connection.peer,
            passed / 1000,
            passed % 1000,
        );
        self.entry_of(connection, level, "disconnect")
            .with("reason", reason)
            .with("duration_ms", passed)
            .with("reads", reads)
            .with("read_bytes", read_bytes)
            .with("writes", writes)
            .with("write_bytes", write_bytes)
            .with("flushes", flushes)
            .with("errors", errors)
            .tell_of(connection.peer.origin, format_args!("{words}"));
    }

    fn entry_of(&self, connection: &Connection, level: Level, event: &'static str) -> Entry {
        let level = if connection.process.is_some() { Level::Debug } else { level };
        Entry::new(level, event)
            .with("device", self.device)
            .with("volume", &*self.volumes.at(connection.place).name)
            .with("tenant", &*self.tenants.at(connection.tenant).name)
            .with("peer", &*connection.peer.words)
            .with("connection", connection.id)
    }
}
