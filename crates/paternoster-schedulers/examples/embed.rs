// SPDX-License-Identifier: MIT OR Apache-2.0
//! Embed the library in a daemon: two tenants of weights 100 and 300 share a file.
//!
//! ```text
//! tenant ──bio──▶ RequestQueue ──command──▶ worker thread (pread, pwrite)
//!    ▲              │      ▲                   │
//!    └─ Done, Wake ─┘      └──── complete ─────┘
//!
//! cargo run --example embed -p paternoster-schedulers
//! ```
//!
//! The queue knows no files, threads or clocks: the daemon has them. See docs/serve/embed.md.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use std::{env, io, process, thread};

use paternoster_core::{Bio, ClientId, ClientSpec, Command, Cookie, DeviceFacts, Flags, GroupSpec};
use paternoster_core::{
    Limits, Nanos, Op, Outcome, Output, RequestQueue, Status, SubmitError, Waiting,
};

const WEIGHTS: [u32; 2] = [100, 300];
const DEPTH: u32 = 2; // commands in the device at a time, each with a worker thread
const SIZE: u64 = 8192; // of the file, in sectors of 512 bytes
const UNDER_WAY: u64 = 32; // requests, half of them each tenant's

type Failed = Box<dyn std::error::Error>;

/// A command on its way to a worker and back, with the buffers of the bios that it carries.
struct Job(Command, Vec<(Cookie, Vec<u8>)>, Outcome);

/// What a tenant wants: 4 KiB somewhere; one in four is a write, for which it waits.
fn wish(client: ClientId, cookie: Cookie, left: u64) -> Bio {
    let random = (left * UNDER_WAY + cookie).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sector = (random >> 33) % SIZE / 8 * 8;
    let op = if random >> 62 == 0 { Op::Write } else { Op::Read };
    Bio::new(client, op, sector, 8).flags(Flags::SYNC).cookie(cookie)
}

/// A queue with a group for each weight. Its capacities are fixed here, none grows later.
fn queue() -> Result<(RequestQueue, Vec<ClientId>), Failed> {
    let (capacity, depth, write_cache) = (SIZE, DEPTH, true); // a flush is an fsync
    let facts = DeviceFacts { capacity, depth, write_cache, ..DeviceFacts::default() };
    let limits = Limits { bios: 24, ..Limits::default() }; // 32 will come: some get Busy
    let elevator = paternoster_schedulers::by_name("bfq").ok_or("no such scheduler")?;
    let mut queue = RequestQueue::builder(facts, elevator).limits(limits).build()?;
    queue.set_attribute(Nanos::ZERO, "low_latency", "0")?; // no client is raised above its weight
    queue.set_attribute(Nanos::ZERO, "max_budget", "256")?; // short turns, of at most 128 KiB
    let mut clients = Vec::new();
    for weight in WEIGHTS {
        let group = queue.add_group(Nanos::ZERO, GroupSpec::new().weight(weight))?;
        clients.push(queue.attach(Nanos::ZERO, ClientSpec::new().group(group))?);
    }
    Ok((queue, clients))
}

/// A thread that does one command at a time, until the daemon has gone.
fn worker(file: Arc<File>, done: Sender<Job>) -> Sender<Job> {
    let (sender, jobs) = channel();
    thread::spawn(move || {
        for Job(command, mut buffers, _) in jobs {
            let mut at = command.sector * 512;
            let mut result = if command.op == Op::Flush { file.sync_data() } else { Ok(()) };
            for (_, buffer) in &mut buffers {
                result = result.and_then(|()| match command.op {
                    Op::Read => file.read_exact_at(buffer, at),
                    Op::Write => file.write_all_at(buffer, at),
                    _ => Ok(()),
                });
                at += buffer.len() as u64;
            }
            let failed = |why: io::Error| Outcome::failed(why.raw_os_error().unwrap_or(5)); // EIO
            let outcome = result.map_or_else(failed, |()| Outcome::OK);
            let _daemon_has_gone = done.send(Job(command, buffers, outcome));
        }
    });
    sender
}

/// Serves tenants that always want more; returns how many requests each had, and how often one was
/// woken.
pub(crate) fn serve(mut left: u64) -> Result<([u64; 2], u64), Failed> {
    let path = env::temp_dir().join(format!("paternoster-embed-{}", process::id()));
    let file = Arc::new(File::options().read(true).write(true).create_new(true).open(&path)?);
    fs::remove_file(&path)?; // gone with its last user
    file.set_len(SIZE * 512)?;
    let (done, ended) = channel();
    let workers: Vec<_> = (0..DEPTH).map(|_| worker(file.clone(), done.clone())).collect();
    let (mut queue, clients) = queue()?;
    let mut buffers = HashMap::new(); // those that no worker has
    let (mut asked, mut refused) = (Vec::new(), Vec::<Bio>::new());
    let (mut served, mut wakes) = ([0; 2], 0);
    for cookie in 0..UNDER_WAY {
        buffers.insert(cookie, vec![0; 4096]);
        asked.push(wish(clients[(cookie % 2) as usize], cookie, left));
    }
    let start = Instant::now(); // any clock that never steps back
    let now = || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    loop {
        for bio in asked.drain(..) {
            match queue.submit(now(), bio) {
                Err(SubmitError::Busy) => refused.push(bio), // until its client is woken
                accepted => drop(accepted?),
            }
        }
        match queue.next(now()) {
            Output::Issue(command) => {
                let cookies = queue.cookies(command.tag);
                let own = cookies.filter_map(|cookie| buffers.remove_entry(&cookie)).collect();
                // A tag is below the depth: it names a worker that has nothing to do.
                workers[command.tag.index() as usize].send(Job(command, own, Outcome::OK))?;
            }
            Output::Done(cookie, Outcome { status: Status::Ok, .. }) => {
                let tenant = (cookie % 2) as usize;
                match left {
                    0 => continue,
                    1 => asked.push(Bio::flush(clients[tenant]).cookie(cookie)), // make it durable
                    _ => asked.push(wish(clients[tenant], cookie, left)),
                }
                (served[tenant], left) = (served[tenant] + 1, left - 1);
            }
            Output::Done(_, bad) => return Err(format!("{:?}", bad.status).into()), // or tell it
            Output::Wake(client) => {
                wakes += 1;
                asked.extend(refused.extract_if(.., |bio| bio.client == client));
            }
            Output::Wait { why: Waiting::Empty, .. } => break,
            Output::Wait { until, .. } => {
                // Until a command ends, at most until the queue wants to be asked again.
                let most = Duration::from_nanos((until.unwrap_or(Nanos::MAX) - now()).0);
                if let Ok(Job(command, own, outcome)) = ended.recv_timeout(most) {
                    buffers.extend(own);
                    queue.complete(now(), command.tag, outcome)?;
                }
            }
        }
    }
    Ok((served, wakes))
}

fn main() -> Result<(), Failed> {
    let (served, wakes) = serve(10_000)?;
    println!("weights {WEIGHTS:?}, requests {served:?}, {wakes} times woken");
    Ok(())
}
