// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our elevators compared with real ones: the same requests at the same times; same decisions?
//!
//! * [`cfq`]: cfq of Linux 4.19.1, decision by decision; deadline and noop, dispatch by dispatch.
//! * [`bfq`]: bfq of Linux 6.18, word by word and number by number.
//! * [`flush`]: what left the queue of Linux 4.19.1 around flushes, command by command.
//! * [`recordings`]: whether all recordings exist.
//!
//! `--nocapture` shows the accounts; they are explained in `docs/schedulers`.

mod bfq;
mod cfq;
mod flush;
mod recordings;
