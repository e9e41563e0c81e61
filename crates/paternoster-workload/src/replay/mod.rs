// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay: a recorded trace under other schedulers, on other devices.
//!
//! ```text
//! events ──▶ Matcher ──▶ Recording ──▶ Schedule (timed, think, asap) ─┐
//!                            │                                        ├─▶ replay ──▶ Replayed
//!                            ├──▶ Mapping (wrap, scale, fail) ────────┘                 │
//!                            └──▶ Account, as recorded, against Account, as replayed    ┘
//! ```
//!
//! * `matching.rs`, `recording.rs`: events become I/Os in memory.
//! * `dependence.rs`: what each of them waited for, inferred; `schedule.rs`: when each comes.
//! * `fit.rs`: where it lies on a device of another size.
//! * `engine.rs`, `seat.rs`: the loop, and a process as a client of the queue.
//! * `figures.rs`, `backlog.rs`: for comparing the recording and its replays.
//!
//! Traces themselves are read elsewhere: plain data comes over, so that this crate knows no format.
//!
//! Source: TRACE-35 to TRACE-37.

mod backlog;
mod dependence;
mod engine;
mod figures;
mod fit;
mod matching;
mod recording;
mod schedule;
mod seat;

pub use backlog::Backlog;
pub use dependence::{Follows, infer};
pub use engine::{Replay, ReplayError, Replayed, limits, replay};
pub use figures::{Account, Figures, PERCENTILES};
pub use fit::{Fit, FitError, Mapping};
pub use matching::Matcher;
pub use recording::{
    Arrival, IOS_MAX, LATEST, PROCESSES_MAX, RecordedIo, RecordedProcess, Recording, RecordingError,
};
pub use schedule::{Manner, Schedule, Speed};
