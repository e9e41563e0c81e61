// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions: the record of a live server's queue, repeated.
//!
//! ```text
//! live.sda.decisions ──▶ every call again ──▶ the same answers? ──▶ figures, or the difference
//!                                │
//!                                └──▶ --dispatch OUT.csv, --trace PREFIX
//! ```
//!
//! There is no device, and no time except the recorded one: the record says when commands ended.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use paternoster_core::{Event, Nanos, Note, Observer};
use paternoster_frame::setting::SettingOptions;
use paternoster_frame::{Failure, print};
use paternoster_serve::decisions::block::FileError;
use paternoster_serve::decisions::{Dispatch, End, ReplayError, Replayed, Step, replay_with};
use paternoster_trace::blktrace::Tracer;

use crate::evidence::{Evidence, TraceFiles};

/// Repeats the record `name`.
pub(super) fn replay(
    name: &str,
    dispatch: Option<&Path>,
    setting: &SettingOptions,
) -> Result<(), Failure> {
    let record: Box<dyn Read> = match name {
        "-" => Box::new(io::stdin().lock()),
        name => Box::new(File::open(name).map_err(|error| refusal(name, &error))?),
    };
    let evidence = Evidence::new(setting)?;
    let mut order = dispatch.map(Order::create).transpose()?;
    // File errors are reported after the replay.
    let wrong = RefCell::new(Ok(()));
    let note = |result: Result<(), Failure>| {
        let mut wrong = wrong.borrow_mut();
        if wrong.is_ok() {
            *wrong = result;
        }
    };
    let observe = |header: &paternoster_serve::decisions::Header| {
        let tracer = evidence.tracer(&header.elevator);
        Watch(tracer.unwrap_or_else(|failure| {
            note(Err(failure));
            None
        }))
    };
    let mut each = |step, watch: &mut Watch| match step {
        Step::Attached { index, pid } => watch.call(index, pid),
        Step::Dispatched(dispatch) => {
            if let Some(order) = &mut order {
                order.add(&dispatch);
            }
        }
        Step::Over => note(watch.finish()),
    };
    let replayed = replay_with(BufReader::new(record), observe, &mut each);
    if let Some(order) = order {
        note(order.finish());
    }
    let replayed = replayed.map_err(|error| failure(name, &error))?;
    print(&told(name, &replayed))?;
    wrong.into_inner()
}

fn refusal(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Request(format!("{name}: {error}"))
}

/// A difference is not the fault of the request.
fn failure(name: &str, error: &ReplayError) -> Failure {
    match error {
        ReplayError::Difference(difference) => {
            Failure::Job(format!("{name}: the replay differs at {difference}"))
        }
        ReplayError::File(FileError::Damaged { .. }) => Failure::Job(format!("{name}: {error}")),
        _ => refusal(name, error),
    }
}

/// The trace of the repeated run, if one was requested.
struct Watch(Option<Tracer<TraceFiles>>);

impl Watch {
    fn call(&mut self, index: u32, pid: u32) {
        if let Some(tracer) = &mut self.0 {
            tracer.call(index, pid, &format!("client {index}"));
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.0.take().map_or(Ok(()), |tracer| tracer.into_sink().finish())
    }
}

impl Observer for Watch {
    fn event(&mut self, event: &Event) {
        if let Some(tracer) = &mut self.0 {
            tracer.event(event);
        }
    }

    fn note(&mut self, at: Nanos, sequence: u64, note: &Note) {
        if let Some(tracer) = &mut self.0 {
            tracer.note(at, sequence, note);
        }
    }
}

/// The dispatch order, as CSV.
struct Order {
    name: String,
    out: BufWriter<File>,
    wrong: io::Result<()>,
}

impl Order {
    fn create(path: &Path) -> Result<Order, Failure> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| refusal(&name, &error))?;
        let mut out = BufWriter::new(file);
        let wrong = out.write_all(b"time_ns,op,sector,sectors,client\n");
        Ok(Order { name, out, wrong })
    }

    /// A line; the client is empty for what the queue does by itself.
    fn add(&mut self, dispatch: &Dispatch) {
        if self.wrong.is_ok() {
            let Dispatch { at, sector, sectors, client, .. } = dispatch;
            let (op, at) = (dispatch.op_name(), at.0);
            let client = client.map(|client| client.to_string()).unwrap_or_default();
            self.wrong = writeln!(self.out, "{at},{op},{sector},{sectors},{client}");
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        let done = self.wrong.and_then(|()| self.out.flush());
        done.map_err(|error| refusal(&self.name, &error))
    }
}

fn told(name: &str, replayed: &Replayed) -> String {
    let header = &replayed.header;
    let (first, last) = replayed.span.unwrap_or_default();
    let end = match replayed.end {
        End::Complete => "with its queue".to_owned(),
        End::Cut(why) => format!("cut before its queue ended: {why}"),
        End::BrokenOff(byte) => {
            format!("breaks off at byte {byte}: the server was killed, or the file lost its end")
        }
    };
    let lines = [
        ("record", format!("{name}, of version {}", header.program)),
        ("scheduler", header.elevator.clone()),
        ("depth", header.facts.depth.to_string()),
        ("calls", replayed.calls.to_string()),
        ("clients", replayed.clients.to_string()),
        ("bios", replayed.bios.to_string()),
        ("commands", replayed.commands.to_string()),
        ("time", format!("{first} to {last}, {}", last - first)),
        ("end", end),
        ("identical", "yes, every answer".to_owned()),
        ("order", format!("{:016x}", replayed.digest)),
    ];
    lines.iter().fold(String::new(), |mut text, (what, value)| {
        let _infallible = writeln!(text, "{what:<10} {value}");
        text
    })
}
