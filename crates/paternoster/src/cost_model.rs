// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster cost-model`: what requests cost a device, measured on its model; and the jobs that
//! measure a real one.
//!
//! ```text
//! paternoster cost-model --device ssd-870evo    rbps=… rseqiops=… rrandiops=… wbps=… …   one line
//! paternoster cost-model --jobs                 a job file for fio
//! ```

use clap::Args;
use paternoster_frame::cost_model::{self, CostModel, JOBS};
use paternoster_frame::results::{Format, Results, document, emit};
use paternoster_frame::sheet::Sheet;
use paternoster_frame::target::{Real, Target};
use paternoster_frame::{Failure, print};
use paternoster_workload::fio::value::Reader;
use serde_json::json;

/// Measure what requests cost a modelled device, for the attribute `cost_model` of the scheduler
/// paternoster
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster cost-model --device ssd-870evo
  paternoster cost-model --jobs > cost-model.fio
  paternoster run a.fio --device my-disk.toml --scheduler paternoster:cost_model=measured
  paternoster run a.fio --scheduler \"paternoster:cost_model=$(paternoster cost-model)\"

Exit status: 0 done, 2 the request was wrong.")]
pub(crate) struct CostModelOptions {
    /// A device's name (see `paternoster devices`) or device file
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "ssd-870evo")]
    device: String,

    /// How far random requests lie apart at most: as far as a client's file or volume reaches (8g)
    /// [default: a tenth of the device]
    #[arg(long, value_name = "SIZE")]
    span: Option<String>,

    /// Print the jobs that measure a real device with fio; nothing is measured
    #[arg(long, conflicts_with_all = ["device", "span", "format"])]
    jobs: bool,

    /// How to print the numbers; as a table they are one line
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

pub(crate) fn cost_model(options: &CostModelOptions) -> Result<(), Failure> {
    if options.jobs {
        return print(JOBS);
    }
    let target = Target::find(&options.device, Real::Refused, 0)?;
    let span = options.span.as_deref().map(|text| span(text, &target)).transpose()?;
    let model = cost_model::measure(&target, span)?;
    emit(options.format, None, |format| match format {
        Format::Table => format!("{model}\n"),
        format => results(&target.name, &model).told(format),
    })
}

/// A part of the device, of a megabyte at least, which the loads have from its middle on.
fn span(text: &str, target: &Target) -> Result<u64, Failure> {
    let (least, most) = (1 << 20, target.facts.capacity * 512 / 2);
    let refused = |why: String| Failure::Request(format!("--span {text}: {why}"));
    let size = Reader::new(1024, &mut Vec::new()).size(text).map_err(refused)?;
    if (least..=most).contains(&size) {
        return Ok(size);
    }
    Err(refused(format!("it is from 1m to half of the device, {most} bytes")))
}

fn results(device: &str, model: &CostModel) -> Results {
    let heads = ["number", "value", "unit"];
    let mut sheet = Sheet::new(heads.len(), heads);
    let mut csv = heads.join(",") + "\n";
    let mut numbers = json!({ "device": device, "cost_model": model.to_string() });
    for (key, value) in model.told() {
        let unit = if key.ends_with("bps") { "bytes/s" } else { "1/s" };
        let row = [key.to_owned(), value.to_string(), unit.to_owned()];
        csv += &(row.join(",") + "\n");
        sheet.row(row.to_vec());
        numbers[key] = value.into();
    }
    Results {
        title: format!("cost model of {device}"),
        sheets: vec![("Cost model".to_owned(), sheet)],
        csv,
        document: document("cost-model", numbers),
        ..Results::default()
    }
}
