// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections `[device.NAME]` and `[volume.NAME]`.
//!
//! A volume says which device it is on; with a single device it need not; without any, all volumes
//! are on one device named `device` that has all defaults.

use toml::de::DeValue;

use super::document::{Section, plain};
use super::file::ConfigError;
use super::limits::{ATTRIBUTES, DEPTH, DEVICES, VOLUMES};
use super::{Device, Direct, Volume, near, quantity, rights, words};

pub(super) fn read(root: &mut Section<'_>) -> Result<Vec<Device>, ConfigError> {
    let named = root.named("device", DEVICES)?.into_iter();
    let mut devices: Vec<Device> =
        named.map(|(name, section)| device(name, section)).collect::<Result<_, _>>()?;
    let volumes = root.named("volume", VOLUMES)?;
    if volumes.is_empty() {
        let why = "`[volume.NAME]` with `path = \"/srv/disk.img\"` is what clients see";
        return Err(root.missing("volume", why));
    }
    if devices.is_empty() {
        devices.push(Device::new("device"));
    }
    for (name, section) in volumes {
        let (place, volume) = volume(name, section, &devices)?;
        devices[place].volumes.push(volume);
    }
    Ok(devices)
}

fn device(name: String, mut section: Section<'_>) -> Result<Device, ConfigError> {
    let mut device = Device::new(&name);
    if let Some(scheduler) = section.text("scheduler")? {
        device.scheduler = scheduler;
    }
    if let Some(attributes) = section.child("attributes")? {
        device.attributes = read_attributes(&attributes)?;
    }
    device.depth = section.number("depth", &DEPTH)?;
    if let Some(memory) = section.parsed("memory", quantity::size)? {
        device.memory = memory;
    }
    device.direct = section.value("direct", direct)?.unwrap_or_default();
    device.engine = section.parsed("engine", str::parse)?.unwrap_or_default();
    device.delay_bound = section.parsed("delay-bound", quantity::time)?;
    section.finish()?;
    Ok(device)
}

/// `true`, `false`, or a word.
fn direct(value: &DeValue<'_>) -> Result<Direct, String> {
    match (value.as_bool(), value.as_str()) {
        (Some(true), _) => Ok(Direct::Yes),
        (Some(false), _) => Ok(Direct::No),
        (None, text) => text.unwrap_or("").parse(),
    }
}

/// Attributes as sysfs names them, in the order of the file; numbers and switches as sysfs has
/// them.
fn read_attributes(section: &Section<'_>) -> Result<Vec<(String, String)>, ConfigError> {
    let all = section.all();
    if all.len() > ATTRIBUTES {
        let why = format!("{} where {ATTRIBUTES} are allowed", all.len());
        return Err(section.missing("attributes", &why));
    }
    let each = all.into_iter().map(|(name, value)| {
        let text = match value.get_ref() {
            DeValue::String(text) => plain(text),
            DeValue::Integer(number) if number.radix() == 10 => {
                Ok(number.as_str().replace('_', ""))
            }
            DeValue::Boolean(switch) => Ok(u8::from(*switch).to_string()),
            _ => Err("a whole number, true, false, or a text".to_owned()),
        };
        let text = text.map_err(|why| section.wrong(name, &why))?;
        Ok((name.to_owned(), text))
    });
    each.collect()
}

/// A volume, and the place of its device.
fn volume(
    name: String,
    mut section: Section<'_>,
    devices: &[Device],
) -> Result<(usize, Volume), ConfigError> {
    let names = || devices.iter().map(|device| device.name.as_str());
    let place = match section.text("device")? {
        Some(asked) => names().position(|name| name == asked).ok_or_else(|| {
            let hint = near::hint(&asked, names());
            section.wrong("device", &format!("there is no such device{hint}"))
        })?,
        None if devices.len() == 1 => 0,
        None => {
            let known = near::hint("", names());
            return Err(section.missing("device", &format!("there are several{known}")));
        }
    };
    let Some(path) = section.parsed("path", words::path)? else {
        return Err(
            section.missing("path", "`path = \"…\"` is the file or block device with the data")
        );
    };
    let volume = Volume {
        name,
        path,
        start: section.value("start", bytes)?.unwrap_or(0),
        length: section.value("length", bytes)?,
        readonly: section.switch("readonly")?.unwrap_or(false),
        share: section.switch("share")?.unwrap_or(false),
        raw: section.switch("raw")?.unwrap_or(false),
        description: section.text("description")?.unwrap_or_default(),
        rights: rights::read(&mut section)?,
    };
    section.finish()?;
    Ok((place, volume))
}

/// A size, or a plain number of bytes.
fn bytes(value: &DeValue<'_>) -> Result<u64, String> {
    let text = value.as_str().or_else(|| value.as_integer().map(|number| number.as_str()));
    quantity::size(text.unwrap_or("?"))
}
