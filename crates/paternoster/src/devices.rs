// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster devices`: what there is, and every number with its source.

use paternoster_sim::{Description, catalog};
use serde_json::{Value, json};

use crate::arguments::{DevicesOptions, Listing};
use crate::table::{plain_table, trimmed};
use crate::{Failure, choice, print, schedulers, sysfs};

pub(crate) fn list(options: &DevicesOptions) -> Result<(), Failure> {
    let Some(name) = &options.name else {
        if options.json {
            return json_of_all();
        }
        let mut table = plain_table();
        for (name, _) in catalog::FILES {
            let device = choice::device(name)?;
            table.add_row([*name, device.model_name(), &device.summary]);
        }
        let more =
            "\n`paternoster devices NAME` shows every number of one and where it comes from.\n";
        return print(&(trimmed(&table) + more));
    };
    let device = choice::device(name)?;
    if options.json {
        return print(&format!("{:#}\n", json_of(&device)));
    }
    let Some(listing) = options.grep else { return print(&describe(&device)) };
    let scheduler = options.scheduler.as_deref().unwrap_or(listing.scheduler());
    let queue = schedulers::queue(scheduler, device.facts, &options.set)?;
    print(&match listing {
        Listing::All => schedulers::grep(&queue),
        Listing::Linux2634 => sysfs::listing(&queue)?,
    })
}

fn json_of_all() -> Result<(), Failure> {
    let each = catalog::FILES.iter().map(|(name, _)| {
        let device = choice::device(name)?;
        let (model, summary) = (device.model_name(), &device.summary);
        Ok(json!({ "name": name, "model": model, "summary": summary }))
    });
    let devices = each.collect::<Result<Vec<_>, Failure>>()?;
    print(&format!("{:#}\n", json!({ "devices": devices })))
}

fn json_of(device: &Description) -> Value {
    let Description { name, summary, valid, .. } = device;
    let each = device.parameters.iter().map(
        |number| json!({ "name": number.name, "value": number.value, "source": number.source }),
    );
    json!({
        "name": name,
        "model": device.model_name(),
        "summary": summary,
        "valid": valid,
        "capacity_bytes": device.facts.capacity * 512,
        "parameters": each.collect::<Vec<_>>(),
    })
}

fn describe(device: &Description) -> String {
    let mut table = plain_table();
    table.set_header(["number", "value", "source"]);
    for parameter in &device.parameters {
        table.add_row([&parameter.name, &parameter.value, &parameter.source]);
    }
    let Description { name, summary, valid, .. } = device;
    let model = device.model_name();
    format!("{name}: {summary}\nmodel {model}; valid for {valid}\n\n{}", trimmed(&table))
}
