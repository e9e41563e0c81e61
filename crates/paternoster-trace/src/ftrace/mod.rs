// SPDX-License-Identifier: MIT OR Apache-2.0
//! ftrace: the text that a running kernel's tracer `blk` writes, with its scheduler's messages.
//!
//! ```text
//!  fio-3446  [000] d..1.  3987.797439:   7,0    Q  RS 524288 + 256 [fio]
//!  fio-3446  [000] d....  3987.797456:   7,0   1,0  m   N bfq [bfq_limit_depth] wr_busy 0 …
//!  fio-3446  [000] d..1.  3987.797464:   7,0   1,0  m   N bfq3446S calc_finish: serv 10922, w 40
//!      │ ┌───────────── an event of the block layer: a step of a request, as in blktrace
//!  Record ── What ───── a message of bfq, typed
//!        └───────────── another speaker's message, unchanged
//! ```
//!
//! Nothing is needed for it but a kernel: in the tracing folder (`/sys/kernel/tracing`)
//!
//! ```text
//! echo 0 > options/bin; echo 0 > options/blk_classic
//! echo 1 > /sys/block/sda/trace/enable; echo ffff > /sys/block/sda/trace/act_mask
//! echo blk > current_tracer; cat trace_pipe > log
//! ```
//!
//! bfq speaks if the kernel was built with block traces; the words here are those of Linux 6.18.
//! Other versions' words are kept as [`BfqMessage::Unknown`]; see [`What::Note`] for other
//! speakers. This module is independent of the library's own types: a log is foreign data.
//!
//! * [`Reader`]: lines, as [`Entry`]s; a wrong one is an [`Error`] with its line and text.
//! * [`Record`], [`Event`]: one line.
//! * [`BfqMessage`]: a message of bfq.
//! * [`Calls`]: records put together as the scheduler was entered: insertions, dispatches, ….
//! * [`Summary`]: a log's numbers, by queue.
//!
//! Source: TRACE-20, TRACE-21, TRACE-26; recordings of Linux 6.18 in `paternoster-conformance`.

mod bfq;
mod calls;
mod line;
mod reader;
mod summary;

pub use bfq::{BfqMessage, ExpireReason, Partner, QueueName};
pub use calls::{Call, CallKind, Calls, HELD_MAX, Issued, Merge, RECORDS_MAX, Service};
pub use line::{Action, Context, Detail, Device, Event, Letters, Record, What};
pub use reader::{Entry, Error, LINE_MAX, Reader};
pub use summary::{QUEUES_MAX, QueueSummary, Summary};
