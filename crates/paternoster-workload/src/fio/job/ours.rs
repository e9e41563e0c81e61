// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ours: what a job does that no option of fio says.

use std::sync::Arc;

use super::super::changes::Changes;
use super::super::frames::FrameRules;
use super::super::relay::Leg;
use super::super::work::Work;

/// Options that fio does not have.
#[derive(Debug, Clone, Default)]
pub struct Ours {
    /// All clones take their offsets from one position. No option of fio's: disktest does it.
    pub shared_position: bool,
    /// The clones hand over to each other; empty if they do not. No option of fio's: startup does
    /// it.
    pub relay: Vec<Leg>,
    /// What the clones do comes from one generator with these rules; its directions and places
    /// are not those of `rw`. No option of fio's: sysbench does it.
    pub generated: Option<Arc<dyn Work>>,
    /// The job ends with the last that is not background. Not an option of fio's: startup uses it.
    pub background: bool,
    /// The frames of a player. No option of fio's.
    pub frames: FrameRules,
    /// How it changes during the run. Not an option of fio's.
    pub changes: Changes,
}
