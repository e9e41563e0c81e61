// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster devices`: what there is, and every number with its source.

use paternoster_sim::{Description, catalog};

use crate::Failure;
use crate::arguments::DevicesOptions;
use crate::{choice, schedulers};

pub(crate) fn list(options: &DevicesOptions) -> Result<(), Failure> {
    let Some(name) = &options.name else {
        let mut table = schedulers::plain_table();
        for (name, _) in catalog::FILES {
            let device = choice::device(name)?;
            table.add_row([*name, device.model_name(), &device.summary]);
        }
        println!("{table}");
        println!("\n`paternoster devices NAME` shows every number of one and where it comes from.");
        return Ok(());
    };
    let device = choice::device(name)?;
    if options.grep {
        schedulers::grep(&schedulers::queue(&options.scheduler, device.facts)?);
    } else {
        describe(&device);
    }
    Ok(())
}

fn describe(device: &Description) {
    println!("{}: {}", device.name, device.summary);
    println!("model {}; valid for {}\n", device.model_name(), device.valid);
    let mut table = schedulers::plain_table();
    table.set_header(["number", "value", "source"]);
    for parameter in &device.parameters {
        table.add_row([&parameter.name, &parameter.value, &parameter.source]);
    }
    println!("{table}");
}
