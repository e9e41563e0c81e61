// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster schedulers`: what there is, and every attribute with its meaning.

use paternoster_core::{Attribute, DeviceFacts, Limits, RequestQueue, Values};
use paternoster_sim::schedulers;
use serde_json::{Value, json};

use crate::arguments::SchedulersOptions;
use crate::choice::{SchedulerChoice, assignment};
use crate::table::{plain_table, trimmed, wrap_last};
use crate::{Failure, print};

pub(crate) fn list(options: &SchedulersOptions) -> Result<(), Failure> {
    let text = match &options.name {
        None if options.grep => {
            let each = schedulers::choices().map(|entry| {
                let queue = queue(entry.name, DeviceFacts::default(), &[])?;
                Ok(format!("{}:\n{}", entry.name, grep(&queue)))
            });
            each.collect::<Result<String, Failure>>()?
        }
        None if options.json => {
            let each = schedulers::choices();
            let each = each.map(|entry| json!({ "name": entry.name, "summary": entry.summary }));
            format!("{:#}\n", json!({ "schedulers": each.collect::<Vec<_>>() }))
        }
        None => {
            let mut table = plain_table();
            for entry in schedulers::choices() {
                table.add_row([entry.name, entry.summary]);
            }
            let more = "\n`paternoster schedulers NAME` shows the attributes of one.\n";
            trimmed(&table) + more
        }
        Some(name) => {
            let queue = queue(name, DeviceFacts::default(), &[])?;
            match () {
                () if options.grep => grep(&queue),
                () if options.json => format!("{:#}\n", json_of(&queue)),
                () => describe(name, &queue),
            }
        }
    };
    print(&text)
}

/// A queue that nothing runs through, with these attributes (`NAME=VALUE`) and the scheduler's own.
pub(crate) fn queue(
    name: &str,
    facts: DeviceFacts,
    set: &[String],
) -> Result<RequestQueue, Failure> {
    let set = set.iter().map(|text| assignment("--set", text)).collect::<Result<Vec<_>, _>>()?;
    let choice = SchedulerChoice::parse(name)?;
    let limits = Limits { requests: 768, ..Limits::default() };
    let mut queue = RequestQueue::unobserved(facts, limits, choice.make());
    choice.prepare(&mut queue, &set)?;
    Ok(queue)
}

/// As `grep -r . .` prints a queue folder of sysfs.
pub(crate) fn grep(queue: &RequestQueue) -> String {
    let mut text = String::new();
    queue.for_each_attribute(|path, _, value| text.push_str(&format!("./{path}:{value}\n")));
    text + &format!("./scheduler:{}\n", scheduler_line(queue.elevator_name()))
}

/// As sysfs shows the choice: all names, the present one in brackets.
fn scheduler_line(present: &str) -> String {
    let names = schedulers::choices().map(|entry| {
        if entry.name == present { format!("[{present}]") } else { entry.name.to_owned() }
    });
    names.collect::<Vec<_>>().join(" ")
}

fn json_of(queue: &RequestQueue) -> Value {
    let name = queue.elevator_name();
    let summary = schedulers::choices().find(|entry| entry.name == name);
    let mut attributes = Vec::new();
    queue.for_each_attribute(|path, attribute, value| {
        attributes.push(json!({
            "name": path.strip_prefix("iosched/").unwrap_or(path),
            "path": path,
            "value": value,
            "unit": attribute.unit,
            "takes": takes(attribute),
            "help": attribute.help,
        }));
    });
    let summary = summary.map_or("", |entry| entry.summary);
    json!({ "name": name, "summary": summary, "attributes": attributes })
}

fn describe(name: &str, queue: &RequestQueue) -> String {
    let present = queue.elevator_name();
    let entry = schedulers::choices().find(|entry| entry.name == present);
    let summary = entry.map_or("", |entry| entry.summary);
    let mut table = plain_table();
    table.set_header(["attribute", "value", "unit", "takes", "meaning"]);
    queue.for_each_attribute(|path, attribute, value| {
        // Tabs between numbers are for sysfs; here they would break the columns.
        let value = value.replace('\t', " ");
        table.add_row([path, &value, attribute.unit, &takes(attribute), attribute.help]);
    });
    wrap_last(&mut table, 5, 24);
    table.set_width(112);
    format!(
        "{name}: {summary}\n\n{}\nValues are those of a device with 32 tags; \
         `paternoster devices NAME --grep` shows another's.\n",
        trimmed(&table)
    )
}

fn takes(attribute: &Attribute) -> String {
    match attribute.values {
        Values::ReadOnly => "read-only".to_owned(),
        values => values.to_string().replace("a whole number ", ""),
    }
}
