// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster devices`: what there is, and every number with its source.

use paternoster_sim::{Description, catalog};

use crate::arguments::{DevicesOptions, Listing};
use crate::table::{plain_table, trimmed};
use crate::{Failure, choice, print, schedulers, sysfs};

pub(crate) fn list(options: &DevicesOptions) -> Result<(), Failure> {
    let Some(name) = &options.name else {
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
    let Some(listing) = options.grep else { return print(&describe(&device)) };
    let scheduler = options.scheduler.as_deref().unwrap_or(listing.scheduler());
    let queue = schedulers::queue(scheduler, device.facts, &options.set)?;
    print(&match listing {
        Listing::All => schedulers::grep(&queue),
        Listing::Linux2634 => sysfs::listing(&queue)?,
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
