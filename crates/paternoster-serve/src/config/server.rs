// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section `[server]`: sockets, limits, the user to switch to.

use std::path::PathBuf;

use super::document::{Section, TextOrSection};
use super::file::ConfigError;
use super::limits::{CONNECTIONS, IMAGE_FOLDERS, LISTENERS};
use super::{Address, Listen, Server, Tls, TlsMode, fuse, quantity, rights, words};

const ADDRESSES: &str = "`\"unix:/PATH\"`, `\"tcp:ADDRESS:PORT\"`, or \
                         `{ at = \"…\", mode = \"0660\", tls = \"required\" }`";

pub(super) fn read(mut section: Section<'_>) -> Result<Server, ConfigError> {
    let default = Server::default();
    let tls = section.child("tls")?.map(tls).transpose()?;
    let fuse = section.child("fuse")?.map(fuse::read).transpose()?;
    let path = |section: &mut Section<'_>, key| section.parsed(key, words::path);
    let server = Server {
        listen: listen(&mut section, tls.is_some(), fuse.is_some())?,
        fuse,
        control: path(&mut section, "control")?,
        control_mode: section.parsed("control-mode", quantity::mode)?,
        control_orders: rights::entries(&mut section, "control-orders")?,
        metrics: section.parsed("metrics", words::socket_address)?,
        pidfile: path(&mut section, "pidfile")?,
        user: section.text("user")?,
        group: section.text("group")?,
        connections: section.number("connections", &CONNECTIONS)?.unwrap_or(default.connections),
        connection_memory: section
            .parsed("connection-memory", quantity::size)?
            .unwrap_or(default.connection_memory),
        handshake_timeout: section
            .parsed("handshake-timeout", quantity::time)?
            .unwrap_or(default.handshake_timeout),
        stall_timeout: section
            .parsed("stall-timeout", quantity::time)?
            .unwrap_or(default.stall_timeout),
        drain_timeout: section
            .parsed("drain-timeout", quantity::time)?
            .unwrap_or(default.drain_timeout),
        device_timeout: section
            .parsed("device-timeout", quantity::time)?
            .unwrap_or(default.device_timeout),
        insecure: section.switch("insecure")?.unwrap_or(default.insecure),
        sandbox: section.switch("sandbox")?.unwrap_or(default.sandbox),
        image_folders: image_folders(&mut section)?,
        traces: path(&mut section, "traces")?.unwrap_or(default.traces),
        verbose: section.switch("verbose")?.unwrap_or(default.verbose),
        log_level: section.parsed("log-level", str::parse)?.unwrap_or(default.log_level),
        log_format: section.parsed("log-format", str::parse)?.unwrap_or(default.log_format),
        tls,
    };
    section.finish()?;
    Ok(server)
}

/// Folders, each a text.
fn image_folders(section: &mut Section<'_>) -> Result<Vec<PathBuf>, ConfigError> {
    const KEY: &str = "image-folders";
    const REMEDY: &str = "folders, as `[\"/srv/images\"]`";
    let entries = section.texts_or_sections(KEY, IMAGE_FOLDERS, REMEDY)?;
    let each = |entry| match entry {
        TextOrSection::Text(text, span) => {
            words::path(text).map_err(|why| section.wrong_at(KEY, span, &why))
        }
        TextOrSection::Section(_) => Err(section.wrong(KEY, REMEDY)),
    };
    entries.into_iter().map(each).collect()
}

/// Nowhere is right only where clients have files to come to.
fn listen(
    section: &mut Section<'_>,
    certified: bool,
    files: bool,
) -> Result<Vec<Listen>, ConfigError> {
    let entries = section.texts_or_sections("listen", LISTENERS, ADDRESSES)?;
    if entries.is_empty() && !files {
        let why = format!("{ADDRESSES}; only with `[server.fuse]` it may be left out");
        return Err(section.wrong("listen", &why));
    }
    let each = |entry| match entry {
        TextOrSection::Text(text, span) => {
            let at: Address =
                text.parse().map_err(|why: String| section.wrong_at("listen", span, &why))?;
            Ok(Listen::new(at, certified))
        }
        TextOrSection::Section(section) => listener(section, certified),
    };
    entries.into_iter().map(each).collect()
}

fn listener(mut section: Section<'_>, certified: bool) -> Result<Listen, ConfigError> {
    let Some(at) = section.parsed("at", str::parse)? else {
        return Err(section.missing("at", "`at = \"unix:/PATH\"` or `at = \"tcp:ADDRESS:PORT\"`"));
    };
    let mut listen = Listen::new(at, certified);
    let mode = section.parsed("mode", quantity::mode)?;
    match (&mut listen.at, mode) {
        (Address::Unix { mode, .. }, Some(asked)) => *mode = asked,
        (_, Some(_)) => {
            let why = "only unix sockets have a mode; leave it out";
            return Err(section.wrong("mode", why));
        }
        (_, None) => {}
    }
    listen.tls = section.parsed("tls", str::parse::<TlsMode>)?.unwrap_or(listen.tls);
    section.finish()?;
    Ok(listen)
}

fn tls(mut section: Section<'_>) -> Result<Tls, ConfigError> {
    let needed = |section: &mut Section<'_>, key| -> Result<PathBuf, ConfigError> {
        let path = section.parsed(key, words::path)?;
        path.ok_or_else(|| section.missing(key, "the path of a PEM file"))
    };
    let tls = Tls {
        certificate: needed(&mut section, "certificate")?,
        key: needed(&mut section, "key")?,
        client_authority: section.parsed("client-authority", words::path)?,
    };
    section.finish()?;
    Ok(tls)
}
