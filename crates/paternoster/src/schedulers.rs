// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster schedulers`: the schedulers there are, and every attribute with its meaning.

use paternoster_base::schedulers;
use paternoster_core::{Attribute, DeviceFacts, RequestQueue, Values};
use paternoster_frame::choice::queue;
use paternoster_frame::results::{Format, Results, document, emit, field};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::table::{plain_table, terminal_width, trimmed, wrap_last};
use paternoster_frame::{Failure, print};
use serde_json::{Value, json};

use crate::arguments::SchedulersOptions;

pub(crate) fn list(options: &SchedulersOptions) -> Result<(), Failure> {
    let format = options.format.or_json(options.json);
    let text = match &options.name {
        None if options.grep => {
            let each = schedulers::choices().map(|entry| {
                let queue = queue(entry.name, DeviceFacts::default(), &[])?;
                Ok(format!("{}:\n{}", entry.name, grep(&queue)))
            });
            each.collect::<Result<String, Failure>>()?
        }
        None => return emit(format, None, |format| all().told(format)),
        Some(name) => {
            let queue = queue(name, DeviceFacts::default(), &[])?;
            if !options.grep {
                return emit(format, None, |format| match format {
                    Format::Table => describe(name, &queue),
                    format => one(name, &queue).told(format),
                });
            }
            grep(&queue)
        }
    };
    print(&text)
}

/// A row for each scheduler.
fn all() -> Results {
    let mut sheet = Sheet::new(2, ["scheduler", "what it is"]);
    let mut csv = String::from("scheduler,summary\n");
    for entry in schedulers::choices() {
        sheet.row([entry.name, entry.summary].map(str::to_owned).to_vec());
        csv += &([entry.name, entry.summary].map(field).join(",") + "\n");
    }
    let each = schedulers::choices();
    let each = each.map(|entry| json!({ "name": entry.name, "summary": entry.summary }));
    let each: Vec<Value> = each.collect();
    Results {
        title: "schedulers".to_owned(),
        sheets: vec![("Schedulers".to_owned(), sheet)],
        notes: vec!["`paternoster schedulers NAME` shows the attributes of one.".to_owned()],
        csv,
        document: document("schedulers", json!({ "schedulers": each })),
        ..Results::default()
    }
}

/// The list, or one scheduler, as JSON, for a call.
pub(crate) fn found(options: &SchedulersOptions) -> Result<Value, Failure> {
    Ok(match &options.name {
        None => all().document,
        Some(name) => one(name, &queue(name, DeviceFacts::default(), &[])?).document,
    })
}

/// As `grep -r . .` prints a queue folder of sysfs.
pub(crate) fn grep(queue: &RequestQueue) -> String {
    let mut text = String::new();
    queue.for_each_attribute(|path, _, value| text.push_str(&format!("./{path}:{value}\n")));
    text + &format!("./scheduler:{}\n", scheduler_line(queue.elevator_name()))
}

/// As sysfs shows the choice: all names, the current one in brackets.
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

/// What a scheduler is, and the heads of its attributes' table.
const HEADS: [&str; 5] = ["attribute", "value", "unit", "takes", "meaning"];

fn heading(name: &str, queue: &RequestQueue) -> String {
    let present = queue.elevator_name();
    let entry = schedulers::choices().find(|entry| entry.name == present);
    format!("{name}: {}", entry.map_or("", |entry| entry.summary))
}

/// A row for each attribute.
fn attributes(queue: &RequestQueue) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    queue.for_each_attribute(|path, attribute, value| {
        // Tabs between numbers are for sysfs; here they would break the columns.
        let value = value.replace('\t', " ");
        let words = [path, &value, attribute.unit].map(str::to_owned);
        let [path, value, unit] = words;
        rows.push([path, value, unit, takes(attribute), attribute.help.to_owned()]);
    });
    rows
}

fn one(name: &str, queue: &RequestQueue) -> Results {
    let mut sheet = Sheet::new(HEADS.len(), HEADS);
    let mut csv = HEADS.join(",") + "\n";
    for row in attributes(queue) {
        csv += &(row.each_ref().map(|text| field(text)).join(",") + "\n");
        sheet.row(row.to_vec());
    }
    Results {
        title: heading(name, queue),
        sheets: vec![("Attributes".to_owned(), sheet)],
        notes: vec![OF_A_DEVICE.to_owned()],
        csv,
        document: document("scheduler", json_of(queue)),
        ..Results::default()
    }
}

const OF_A_DEVICE: &str = "Values are those of a device with 32 tags; \
                           `paternoster devices NAME --grep` shows another's.";

fn describe(name: &str, queue: &RequestQueue) -> String {
    let mut table = plain_table();
    table.set_header(HEADS);
    attributes(queue).into_iter().for_each(|row| {
        table.add_row(row);
    });
    wrap_last(&mut table, 5, 24);
    // A pipe has no width, and a terminal narrower than the names shows them whole.
    let width = terminal_width().and_then(|width| u16::try_from(width).ok());
    table.set_width(width.map_or(112, |width| width.clamp(72, 112)));
    format!("{}\n\n{}\n{OF_A_DEVICE}\n", heading(name, queue), trimmed(&table))
}

fn takes(attribute: &Attribute) -> String {
    match attribute.values {
        Values::ReadOnly => "read-only".to_owned(),
        values => values.to_string().replace("a whole number ", ""),
    }
}
