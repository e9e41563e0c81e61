// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster top`: how much of a running server's devices each tenant has, live.
//!
//! ```text
//! control socket ─snapshot─▶ before ┐
//!                ─snapshot─▶ after  ┴─▶ rows (differences) ─▶ frame (lines) ─▶ terminal, or a pipe
//!                                                               ▲ keys: sort, connections, scroll
//! ```
//!
//! Counters only go up, so that two snapshots show what happened between them. On a terminal the
//! view is redrawn in place with a few escape sequences; in a pipe frames follow each other.

mod due;
mod frame;
mod rows;
mod terminal;

use std::io::{ErrorKind, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use paternoster_base::quantity;
use paternoster_core::Nanos;
use paternoster_frame::Failure;
use paternoster_serve::control::client::{Client, PATIENCE};
use paternoster_serve::control::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::ctl::{ServerOptions, connect, failure};
use frame::{Line, View, frame};
use terminal::{Key, Terminal};

/// Show how much of a running server's devices each tenant has, live
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: q ends, c shows connections, left and right choose the column to sort \
by, up and down scroll.

Examples:
  paternoster top
  paternoster top --interval 250ms --socket /run/paternoster/control.sock
  paternoster top --once
  paternoster top --interval 10s > shares.txt

Exit status: 0 done, 1 the server's answer cannot be read, 2 the request was wrong."
)]
pub(crate) struct TopOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// How often figures are taken; they cover this time (1s, 250ms, 1m; seconds without a unit)
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) interval: String,

    /// Print one interval and end
    #[arg(long)]
    pub(crate) once: bool,

    /// No colours, no cursor movement, no keys: one frame after another, as in a pipe
    #[arg(long)]
    pub(crate) plain: bool,

    /// Connections below their tenants, as the key c shows them
    #[arg(long, short)]
    pub(crate) connections: bool,
}

pub(crate) fn top(options: &TopOptions) -> Result<(), Failure> {
    let interval = time(&options.interval)?;
    // A server drops clients that say nothing for five minutes.
    if interval < Nanos::from_millis(1) || interval > Nanos::from_secs(240) {
        return Err(Failure::Request("--interval must be from 1ms to 4m".to_owned()));
    }
    let interval = Duration::from_nanos(interval.0);
    let mut client = connect(&options.server, PATIENCE)?;
    let view = View { connections: options.connections, ..View::default() };
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if options.once || options.plain || !terminal {
        return plain(&mut client, interval, &view, options.once);
    }
    live(&mut client, interval, view)
}

/// A span of time, in seconds if it has no unit.
fn time(text: &str) -> Result<Nanos, Failure> {
    const UNITS: [(&str, u64); 6] = [
        ("", 1_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    quantity::exact(text, &UNITS).map(Nanos).ok_or_else(|| {
        let right = "a span of time: a number, and ms, s or m, as `250ms`";
        Failure::Request(format!("--interval {text}: {right}"))
    })
}

/// The state of all devices.
fn snapshots(client: &mut Client) -> Result<Vec<Snapshot>, Failure> {
    let answer = client.ask(&json!({ "do": "snapshot" })).map_err(failure)?;
    let devices = answer["devices"].as_array().map_or(&[][..], Vec::as_slice);
    let answered = devices.iter().filter(|device| device.get("error").is_none());
    let read = |device: &Value| {
        let snapshot = serde_json::from_value(device.clone());
        snapshot.map_err(|error| Failure::Job(format!("the server's snapshot: {error}")))
    };
    answered.map(read).collect()
}

fn plain(client: &mut Client, interval: Duration, view: &View, once: bool) -> Result<(), Failure> {
    let mut before = snapshots(client)?;
    let mut next = Instant::now() + interval;
    loop {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next += interval;
        let after = snapshots(client)?;
        let mut text = String::new();
        for Line { text: line, .. } in frame(&before, &after, view) {
            text.push_str(&line);
            text.push('\n');
        }
        if !once {
            text.push('\n');
        }
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // A reader that closes the pipe has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            done => done?,
        }
        if once {
            return Ok(());
        }
        before = after;
    }
}

fn live(client: &mut Client, interval: Duration, mut view: View) -> Result<(), Failure> {
    let first = snapshots(client)?;
    let mut terminal = Terminal::open()?;
    // The first frame covers all the time since the server began.
    let (mut before, mut after) = (Vec::new(), first);
    loop {
        let next = Instant::now() + interval;
        loop {
            (view.width, view.height) = terminal.size();
            view.live = true;
            terminal.draw(&frame(&before, &after, &view))?;
            match terminal.key(next)? {
                Some(Key::Quit) => return Ok(()),
                Some(key) => view.turn(key),
                None if Instant::now() >= next => break,
                None => {}
            }
        }
        before = std::mem::replace(&mut after, snapshots(client)?);
    }
}
