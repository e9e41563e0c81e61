// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simple case: a configuration from paths and flags.
//!
//! One device with all the paths as volumes; everything else by default. What the file's reader
//! would refuse is refused here in the same words.

use std::path::Path;
use std::str::FromStr;

use paternoster_frame::Failure;
use paternoster_frame::choice::SchedulerChoice;
use paternoster_serve::config::{
    Address, Config, Device, Fuse, Listen, Rights, Server, Tenant, Tls, Volume, Who, quantity,
};

use super::arguments::ServeOptions;

/// The one device's name.
const DEVICE: &str = "disk";

/// The configuration that the flags mean; `fallback` is where it listens by default.
pub(super) fn config(options: &ServeOptions, fallback: &[Listen]) -> Result<Config, Failure> {
    let config = Config {
        server: server(options, fallback)?,
        devices: vec![device(options)?],
        groups: Vec::new(),
        tenants: options.tenant.iter().map(|text| tenant(text)).collect::<Result<_, _>>()?,
        rules: options.rule.iter().map(|text| read("--rule", text)).collect::<Result<_, _>>()?,
    };
    config.settle().map_err(|complaint| Failure::Request(complaint.to_string()))
}

/// A flag's text by its type's own reader.
fn read<T: FromStr<Err = String>>(option: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|why| Failure::Request(format!("{option} cannot be `{text}`: {why}")))
}

fn server(options: &ServeOptions, fallback: &[Listen]) -> Result<Server, Failure> {
    let tls = options.tls_cert.clone().zip(options.tls_key.clone());
    let tls = tls.map(|(certificate, key)| Tls {
        certificate,
        key,
        client_authority: options.tls_ca.clone(),
    });
    let mut listen = Vec::new();
    for path in &options.socket {
        let at: Address = read("--socket", &format!("unix:{}", path.display()))?;
        listen.push(Listen::new(at, tls.is_some()));
    }
    for text in &options.listen {
        listen.push(Listen::new(read("--listen", text)?, tls.is_some()));
    }
    if listen.is_empty() {
        listen.extend_from_slice(fallback);
    }
    // An address is what follows `tcp:`.
    let metrics = options.metrics.as_ref().map(|text| match format!("tcp:{text}").parse() {
        Ok(Address::Tcp(at)) => Ok(at),
        _ => Err(Failure::Request(format!(
            "--metrics cannot be `{text}`: address and port, as `127.0.0.1:9809`"
        ))),
    });
    Ok(Server {
        listen,
        tls,
        fuse: fuse(options),
        control: options.control.clone(),
        metrics: metrics.transpose()?,
        pidfile: options.pidfile.clone(),
        user: options.user.clone(),
        insecure: options.insecure,
        sandbox: !options.no_sandbox,
        verbose: options.verbose,
        log_level: options.log_level.unwrap_or_default(),
        log_format: options.log_format.unwrap_or_default(),
        ..Server::default()
    })
}

/// Volumes as files, if requested.
fn fuse(options: &ServeOptions) -> Option<Fuse> {
    let fuse = Fuse::new(options.fuse.clone()?);
    Some(Fuse { cgroups: options.cgroups.clone(), allow_other: options.allow_other, ..fuse })
}

fn device(options: &ServeOptions) -> Result<Device, Failure> {
    let mut device = Device::new(DEVICE);
    if let Some(text) = &options.scheduler {
        let choice = SchedulerChoice::parse(text)?;
        device.attributes = choice.attributes().to_vec();
        device.scheduler = choice.name;
    }
    device.depth = options.depth;
    if let Some(text) = &options.engine {
        device.engine = read("--engine", text)?;
    }
    if let Some(text) = &options.direct {
        device.direct = read("--direct", text)?;
    }
    if let Some(text) = &options.memory {
        device.memory = quantity::size(text)
            .map_err(|why| Failure::Request(format!("--memory cannot be `{text}`: {why}")))?;
    }
    device.volumes = volumes(options)?;
    Ok(device)
}

fn volumes(options: &ServeOptions) -> Result<Vec<Volume>, Failure> {
    let (paths, names) = (options.paths.len(), options.name.len());
    if names > paths {
        let message = format!("{names} times --name for {paths} paths; once for each at most");
        return Err(Failure::Request(message));
    }
    let allow = options.allow.iter().map(|text| read("--allow", text));
    let allow = allow.collect::<Result<Vec<Who>, _>>()?;
    let allow = (!allow.is_empty()).then_some(allow);
    let mut volumes: Vec<Volume> = Vec::new();
    for (place, path) in options.paths.iter().enumerate() {
        let name = options.name.get(place).cloned().map_or_else(|| file_name(path), Ok)?;
        if volumes.iter().any(|other| other.name == name) {
            let message = format!("two exports would be named `{name}`; --name gives others");
            return Err(Failure::Request(message));
        }
        volumes.push(Volume {
            readonly: options.readonly,
            raw: options.raw,
            rights: Rights { allow: allow.clone(), ..Rights::default() },
            ..Volume::new(name, path)
        });
    }
    Ok(volumes)
}

fn file_name(path: &Path) -> Result<String, Failure> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        Failure::Request(format!("{}: no file has such a name; see --name", path.display()))
    })
}

fn tenant(text: &str) -> Result<Tenant, Failure> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let tenant = parts.and_then(|(name, weight)| {
        Some(Tenant { weight: weight.parse().ok()?, ..Tenant::new(name) })
    });
    tenant.ok_or_else(|| {
        let example = "a name and a weight from 1 to 10000, as `db=300`";
        Failure::Request(format!("--tenant cannot be `{text}`: {example}"))
    })
}
