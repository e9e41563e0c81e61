// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster schedulers`: what there is, and every attribute with its meaning.

use comfy_table::presets;
use comfy_table::{ContentArrangement, Table};
use paternoster::{Attribute, DeviceFacts, Limits, RequestQueue, Values, elevators};

use crate::Failure;
use crate::arguments::SchedulersOptions;
use crate::choice::SchedulerChoice;

pub(crate) fn list(options: &SchedulersOptions) -> Result<(), Failure> {
    match &options.name {
        None if options.grep => {
            for entry in elevators::ALL {
                println!("{}:", entry.name);
                grep(&queue(entry.name, DeviceFacts::default())?);
            }
        }
        None => {
            let mut table = plain_table();
            for entry in elevators::ALL {
                table.add_row([entry.name, entry.summary]);
            }
            println!("{table}");
            println!("\n`paternoster schedulers NAME` shows the attributes of one.");
        }
        Some(name) => {
            let queue = queue(name, DeviceFacts::default())?;
            if options.grep { grep(&queue) } else { describe(name, &queue) }
        }
    }
    Ok(())
}

pub(crate) fn queue(name: &str, facts: DeviceFacts) -> Result<RequestQueue, Failure> {
    let choice = SchedulerChoice::parse(name)?;
    let limits = Limits { requests: 768, ..Limits::default() };
    let mut queue = RequestQueue::unobserved(facts, limits, choice.make());
    choice.prepare(&mut queue, &[])?;
    Ok(queue)
}

/// As `grep -r . .` prints a queue folder of sysfs.
pub(crate) fn grep(queue: &RequestQueue) {
    queue.for_each_attribute(|path, _, value| println!("./{path}:{value}"));
    println!("./scheduler:{}", scheduler_line(queue.elevator_name()));
}

/// As sysfs shows the choice: all names, the present one in brackets.
fn scheduler_line(present: &str) -> String {
    let names = elevators::ALL.iter().map(|entry| {
        if entry.name == present { format!("[{present}]") } else { entry.name.to_owned() }
    });
    names.collect::<Vec<_>>().join(" ")
}

fn describe(name: &str, queue: &RequestQueue) {
    let present = queue.elevator_name();
    if let Some(entry) = elevators::ALL.iter().find(|entry| entry.name == present) {
        println!("{}: {}\n", name, entry.summary);
    }
    let mut table = plain_table();
    table.set_header(["attribute", "value", "unit", "takes", "meaning"]);
    queue.for_each_attribute(|path, attribute, value| {
        table.add_row([path, value, attribute.unit, &takes(attribute), attribute.help]);
    });
    println!("{table}");
    println!(
        "\nValues are those of a device with 32 tags; `paternoster devices NAME --grep` \
         shows another's."
    );
}

fn takes(attribute: &Attribute) -> String {
    match attribute.values {
        Values::ReadOnly => "read-only".to_owned(),
        values => values.to_string().replace("a whole number ", ""),
    }
}

pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(100);
    table
}
