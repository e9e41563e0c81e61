// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments that others have published, as data, one file each.
//!
//! A file says where its figures were published, which runs represent them here, and how each
//! figure is made and judged. `docs/reproduce.md` explains how to write one.

mod array_btt;
mod array_dd;
mod array_disktest;
mod array_readers;
mod array_sysfs;
mod array_tiotest;
mod arrays;
mod early_merge;
mod flash_fairness;
mod flash_fairness_ncq;
mod flush_hold;
mod flush_options;
mod flush_owner;
mod gate_agentenv;
mod gate_ceph;
mod gate_eloqstore;
mod gate_riffle;
mod gate_seastar;
mod merge_cost;
mod merge_window;
mod position_tree;
mod ssd_injection;
mod ssd_injection_mixed;
mod startup;
mod victim;

use crate::reproduce::experiment::Experiment;

/// All of them, in the order of their publication.
pub(crate) fn all() -> Vec<Experiment> {
    vec![
        flash_fairness::experiment(),
        flash_fairness_ncq::experiment(),
        array_readers::experiment(),
        array_tiotest::experiment(),
        array_disktest::experiment(),
        array_dd::experiment(),
        array_btt::experiment(),
        array_sysfs::experiment(),
        position_tree::experiment(),
        early_merge::experiment(),
        merge_window::experiment(),
        merge_cost::experiment(),
        startup::experiment(),
        ssd_injection::experiment(),
        ssd_injection_mixed::experiment(),
        flush_hold::experiment(),
        flush_options::experiment(),
        flush_owner::experiment(),
        victim::experiment(),
        gate_riffle::experiment(),
        gate_seastar::experiment(),
        gate_eloqstore::experiment(),
        gate_ceph::experiment(),
        gate_agentenv::experiment(),
    ]
}
