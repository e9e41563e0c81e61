// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tell: options of reports and logs.
//!
//! Source: FIO-101, FIO-103, FIO-115, FIO-123.

use crate::fio::job::{Job, Unified};
use crate::fio::value::{self, MILLISECOND, Reader};

/// Percentiles in a report, as in fio.
const PERCENTILES_MAX: usize = 20;

/// Options for reports; `value` is `None` for a bare option.
pub(super) fn tell(
    job: &mut Job,
    name: &str,
    value: Option<&str>,
    read: &mut Reader<'_>,
) -> Result<bool, String> {
    let text = value.unwrap_or("1");
    match name {
        "bwavgtime" => {
            job.report.bwavgtime = read.time(text, MILLISECOND)?;
            if job.report.bwavgtime.0 == 0 {
                return Err("a window of samples cannot be empty".to_owned());
            }
        }
        "percentile_list" => {
            job.report.percentile_list = value::percentages(text, PERCENTILES_MAX)?;
        }
        "status-interval" => {
            job.report.status_interval = Some(read.seconds(text)?).filter(|time| time.0 > 0);
        }
        "unified_rw_reporting" => {
            job.report.unified = match text {
                "none" | "0" => Unified::None,
                "mixed" | "1" => Unified::Mixed,
                "both" | "2" => Unified::Both,
                _ => return Err(format!("`{text}` is none of none, mixed and both")),
            }
        }
        _ => return job.report.logs.set(name, value, read),
    }
    Ok(true)
}
