// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reporting: what is reported and logged.
//!
//! Fields have the names of fio's options.
//!
//! Source: fio's manual.

use paternoster_core::Nanos;

use super::super::job_logs::LogRules;

/// fio's percentiles when nothing is said.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The option `unified_rw_reporting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unified {
    /// Directions apart.
    #[default]
    None,
    /// All directions as one.
    Mixed,
    /// Apart, then as one.
    Both,
}

/// Options of reports and logs.
#[derive(Debug, Clone)]
pub struct Reporting {
    /// Window of bandwidth samples.
    pub bwavgtime: Nanos,
    /// Percentiles of the report.
    pub percentile_list: Vec<f64>,
    /// How often a report is printed on the way.
    pub status_interval: Option<Nanos>,
    /// Logs of bandwidth, latency and I/Os.
    pub logs: LogRules,
    /// Whether the report separates directions.
    pub unified: Unified,
}

impl Default for Reporting {
    fn default() -> Reporting {
        Reporting {
            bwavgtime: Nanos::from_millis(500),
            percentile_list: PERCENTILES.to_vec(),
            status_interval: None,
            logs: LogRules::default(),
            unified: Unified::None,
        }
    }
}
