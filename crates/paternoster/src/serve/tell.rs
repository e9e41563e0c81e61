// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output: what would be served (`--check`), and what is, at the start.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use paternoster_frame::table::{plain_table, trimmed};
use paternoster_serve::config::{
    Address, Caps, Config, Device, Fuse, Listen, Rights, Rule, ServiceClass, TlsMode, Volume, Who,
    quantity,
};
use paternoster_serve::control::order::Order;
use paternoster_serve::control::snapshot::Snapshot;
use paternoster_serve::host::listen::Place;
use paternoster_serve::host::uri::uri;
use paternoster_serve::server::Server;

/// Where a socket is, as far as that is known before it is open; with the kind of TLS.
fn place(listen: &Listen) -> Option<Place> {
    match &listen.at {
        Address::Unix { path, .. } => Some(Place::Unix(path.clone())),
        Address::Tcp(at) => Some(Place::Tcp(*at)),
        Address::Inherited(_) => None,
    }
}

/// What would be served, as tables.
pub(super) fn check(config: &Config) -> String {
    let parts = [
        sockets(config),
        files(config),
        exports(config),
        rights(config),
        devices(config),
        tenants(config),
        rules(config),
        take_over(config),
    ];
    let told: Vec<String> = parts.into_iter().flatten().collect();
    told.join("\n")
}

fn table(header: &[&str], rows: Vec<Vec<String>>) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let mut table = plain_table();
    table.set_width(u16::MAX);
    table.set_header(header);
    table.add_rows(rows);
    Some(trimmed(&table))
}

fn sockets(config: &Config) -> Option<String> {
    let row = |listen: &Listen| {
        let mode = match listen.at {
            Address::Unix { mode, .. } => format!("{mode:04o}"),
            _ => "-".to_owned(),
        };
        let tls = match listen.tls {
            TlsMode::Off => "off",
            TlsMode::Offered => "offered",
            TlsMode::Required => "required",
        };
        vec![listen.at.to_string(), mode, tls.to_owned()]
    };
    table(&["socket", "mode", "TLS"], config.server.listen.iter().map(row).collect())
}

/// The file that the volume is.
pub(super) fn file(fuse: &Fuse, volume: &Volume) -> PathBuf {
    fuse.mount.join(&volume.name)
}

fn files(config: &Config) -> Option<String> {
    let fuse = config.server.fuse.as_ref()?;
    let cgroups = fuse.cgroups.as_ref().map(|root| root.display().to_string());
    let users: Vec<String> = fuse.realtime.iter().map(u32::to_string).collect();
    let row = vec![
        fuse.mount.display().to_string(),
        cgroups.unwrap_or_else(|| "-".to_owned()),
        if users.is_empty() { "-".to_owned() } else { users.join(" ") },
        if fuse.allow_other { "may" } else { "may not" }.to_owned(),
        fuse.processes.to_string(),
    ];
    table(&["files in", "cgroups", "realtime users", "others", "processes"], vec![row])
}

/// Clients that notice when another process takes over.
fn take_over(config: &Config) -> Option<String> {
    config.server.control.as_ref()?;
    let secure = config.server.listen.iter().filter(|listen| listen.tls != TlsMode::Off);
    let secure: Vec<String> = secure.map(|listen| listen.at.to_string()).collect();
    let mut told = String::new();
    if !secure.is_empty() {
        let secure = secure.join(", ");
        told += &format!("--take-over: clients under TLS must reconnect ({secure})\n");
    }
    if let Some(fuse) = &config.server.fuse {
        let folder = fuse.mount.display();
        told += &format!("--take-over: processes on files below {folder} must open them again\n");
    }
    (!told.is_empty()).then_some(told)
}

fn exports(config: &Config) -> Option<String> {
    // Clients of sockets need the URI; the folder's table has the file names.
    let fuse = config.server.fuse.as_ref();
    let at = config.server.listen.iter().find_map(|listen| Some((place(listen)?, listen.tls)));
    let row = |(device, volume): (&Device, &Volume)| {
        let uri = at.as_ref().map(|(place, tls)| uri(place, *tls, &volume.name));
        vec![
            volume.name.clone(),
            uri.or_else(|| Some(file(fuse?, volume).display().to_string()))
                .unwrap_or_else(|| "-".to_owned()),
            device.name.clone(),
            volume.path.display().to_string(),
            range(volume),
            match (volume.readonly, volume.share) {
                (true, true) => "read-only, shared",
                (true, false) => "read-only",
                (false, true) => "shared",
                (false, false) => "",
            }
            .to_owned(),
        ]
    };
    let volumes = config
        .devices
        .iter()
        .flat_map(|device| device.volumes.iter().map(move |volume| (device, volume)));
    let where_to = if at.is_none() && fuse.is_some() { "file" } else { "URI" };
    table(&["export", where_to, "device", "path", "bytes", ""], volumes.map(row).collect())
}

/// Which bytes; for a whole file how many there are now.
fn range(volume: &Volume) -> String {
    let start = quantity::show_size(volume.start);
    let Ok(found) = fs::metadata(&volume.path) else { return "(not there)".to_owned() };
    match volume.length {
        Some(length) => format!("{} from {start}", quantity::show_size(length)),
        None if found.is_file() => {
            let rest = found.len().saturating_sub(volume.start);
            format!("{} from {start}", quantity::show_size(rest))
        }
        None => format!("all from {start}"),
    }
}

fn devices(config: &Config) -> Option<String> {
    let row = |device: &Device| {
        let attributes = device.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        vec![
            device.name.clone(),
            device.scheduler.clone(),
            attributes.collect::<Vec<_>>().join(" "),
            device.depth.map_or("auto".to_owned(), |depth| depth.to_string()),
            device.engine.to_string(),
            device.direct.to_string(),
            quantity::show_size(device.memory),
            device.delay_bound.map_or("-".to_owned(), quantity::show_time),
        ]
    };
    let header =
        ["device", "scheduler", "attributes", "depth", "engine", "direct", "memory", "delay bound"];
    table(&header, config.devices.iter().map(row).collect())
}

fn tenants(config: &Config) -> Option<String> {
    let floor = |floor: Option<u16>| floor.map_or("-".to_owned(), quantity::show_percent);
    let groups = config.groups.iter().map(|group| {
        vec![
            format!("{} (group)", group.name),
            group.parent.clone().unwrap_or_default(),
            group.weight.to_string(),
            "-".to_owned(),
            floor(group.floor),
            cap(group.caps),
        ]
    });
    let tenants = config.tenants.iter().map(|tenant| {
        let least = match tenant.class {
            ServiceClass::Background { minimum } => Some(minimum),
            ServiceClass::Kernel(_) => tenant.floor,
        };
        vec![
            tenant.name.clone(),
            tenant.group.clone().unwrap_or_default(),
            tenant.weight.to_string(),
            format!("{} {}", tenant.class, tenant.level),
            floor(least),
            cap(tenant.caps),
        ]
    });
    table(&["tenant", "in", "weight", "class", "floor", "cap"], groups.chain(tenants).collect())
}

fn cap(caps: Caps) -> String {
    match (caps.bytes, caps.requests) {
        (0, 0) => "-".to_owned(),
        (bytes, 0) => quantity::show_rate(bytes),
        (0, requests) => format!("{requests} requests/s"),
        (bytes, requests) => format!("{}, {requests} requests/s", quantity::show_rate(bytes)),
    }
}

fn rules(config: &Config) -> Option<String> {
    let row = |rule: &Rule| {
        let configured = config.tenants.iter().any(|tenant| tenant.name == rule.tenant);
        let note = if configured { "" } else { "weight 100" };
        vec![conditions(rule), rule.tenant.clone(), note.to_owned()]
    };
    table(&["clients", "tenant", ""], config.rules.iter().map(row).collect())
}

fn conditions(rule: &Rule) -> String {
    match rule.who == Who::default() {
        true => "all others".to_owned(),
        false => rule.who.to_string(),
    }
}

/// Which clients may open which volume, for volumes with a rule.
fn rights(config: &Config) -> Option<String> {
    let entries = |entries: &[Who]| match entries {
        [] => "nobody".to_owned(),
        entries => entries.iter().map(Who::to_string).collect::<Vec<_>>().join(", "),
    };
    let by_name = config.server.shows_certificates();
    let row = |volume: &Volume| {
        let Rights { allow, readonly_for, most_clients } = &volume.rights;
        vec![
            volume.name.clone(),
            match allow {
                Some(allow) => entries(allow),
                None if by_name => format!("by TLS: certificate={}", volume.name),
                None => "anyone".to_owned(),
            },
            entries(readonly_for),
            most_clients.map_or("-".to_owned(), |most| most.to_string()),
        ]
    };
    let volumes = config.devices.iter().flat_map(|device| &device.volumes);
    let told = volumes.filter(|volume| by_name || volume.rights != Rights::default());
    table(&["export", "may open", "read-only for", "clients"], told.map(row).collect())
}

/// What the server does otherwise than the configuration suggests, a line each.
pub(super) fn notes(left_out: &[String], server: &Server) -> String {
    let all = left_out.iter().chain(server.notes());
    all.map(|note| format!("paternoster: {note}\n")).collect()
}

/// What is served, a line for each export; then the further sockets.
pub(super) fn started(config: &Config, places: &[(Place, TlsMode)], server: &Server) -> String {
    let device_loops = server.device_loops();
    let mut text = String::new();
    if let Some(metrics) = server.metrics() {
        let way = if metrics.ip().to_canonical().is_loopback() { "http" } else { "https" };
        let _written = writeln!(text, "paternoster: metrics at {way}://{metrics}/metrics");
    }
    for device in &config.devices {
        let device_loop = device_loops.iter().find(|device_loop| device_loop.device == device.name);
        let snapshot = device_loop.and_then(|device_loop| device_loop.ask(Order::Snapshot).ok());
        let snapshot = snapshot.and_then(|value| serde_json::from_value::<Snapshot>(value).ok());
        let (backend, scheduler) = snapshot.map_or_else(
            || (device.engine.to_string(), device.scheduler.clone()),
            |snapshot| (snapshot.backend, snapshot.scheduler),
        );
        for volume in &device.volumes {
            let uri = places.first().map(|(place, tls)| uri(place, *tls, &volume.name));
            let file = config.server.fuse.as_ref().map(|fuse| file(fuse, volume));
            let file = file.map(|file| file.display().to_string());
            let places: Vec<String> = uri.into_iter().chain(file).collect();
            let readonly = if volume.readonly { ", read-only" } else { "" };
            // Writing to a String cannot fail.
            let _written = writeln!(
                text,
                "paternoster: {} at {} ({backend}, {scheduler}{readonly})",
                volume.name,
                places.join(" and ")
            );
        }
    }
    for (place, _) in places.iter().skip(1) {
        let _written = match place {
            Place::Unix(path) => writeln!(text, "paternoster: also at unix:{}", path.display()),
            Place::Tcp(at) => writeln!(text, "paternoster: also at tcp:{at}"),
        };
    }
    text
}
