// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster devices`: the devices there are, and every number with its source.

use paternoster_frame::results::{Results, document, emit, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::{Failure, choice, print, sysfs};
use paternoster_sim::{Description, catalog};
use serde_json::{Value, json};

use crate::arguments::{DevicesOptions, Listing};
use crate::schedulers;

pub(crate) fn list(options: &DevicesOptions) -> Result<(), Failure> {
    let format = options.format.or_json(options.json);
    let Some(name) = &options.name else {
        let all = all()?;
        return emit(format, None, |format| all.told(format));
    };
    let device = choice::device(name)?;
    let Some(listing) = options.grep else {
        return emit(format, None, |format| one(&device).told(format));
    };
    let scheduler = options.scheduler.as_deref().unwrap_or(listing.scheduler());
    let queue = choice::queue(scheduler, device.facts, &options.set)?;
    print(&match listing {
        Listing::All => schedulers::grep(&queue),
        Listing::Linux2634 => sysfs::listing(&queue)?,
    })
}

/// A row for each device of the catalog.
fn all() -> Result<Results, Failure> {
    let heads = ["device", "model", "what it is"];
    let mut sheet = Sheet::new(heads.len(), heads);
    let mut csv = String::from("device,model,summary\n");
    let mut each = Vec::new();
    for (name, _) in catalog::FILES {
        let device = choice::device(name)?;
        let (model, summary) = (device.model_name(), &device.summary);
        each.push(json!({ "name": name, "model": model, "summary": summary }));
        csv += &([*name, model, summary].map(field).join(",") + "\n");
        sheet.row([*name, model, summary].map(str::to_owned).to_vec());
    }
    let note = "`paternoster devices NAME` shows every number of one and where it comes from.";
    Ok(Results {
        title: "devices".to_owned(),
        sheets: vec![("Devices".to_owned(), sheet)],
        notes: vec![note.to_owned()],
        csv,
        document: document("devices", json!({ "devices": each })),
        ..Results::default()
    })
}

/// The list, or one device, as JSON, for a call.
pub(crate) fn found(options: &DevicesOptions) -> Result<Value, Failure> {
    Ok(match &options.name {
        None => all()?.document,
        Some(name) => one(&choice::device(name)?).document,
    })
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

fn one(device: &Description) -> Results {
    let heads = ["number", "value", "source"];
    let mut sheet = Sheet::new(heads.len(), heads);
    let mut csv = heads.join(",") + "\n";
    for number in &device.parameters {
        let row = [&number.name, &number.value, &number.source];
        csv += &(row.map(|text| field(text)).join(",") + "\n");
        sheet.row(row.map(Clone::clone).to_vec());
    }
    let Description { name, summary, valid, .. } = device;
    let model = device.model_name();
    Results {
        title: format!("{name}: {summary}\nmodel {model}; valid for {valid}"),
        sheets: vec![("Numbers".to_owned(), sheet)],
        notes: Vec::new(),
        csv,
        document: document("device", json_of(device)),
        ..Results::default()
    }
}
