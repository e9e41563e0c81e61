// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening a loop: its backend, its line of sectors, its queue, its memory.
//!
//! ```text
//! config::Device ──▶ backend ──▶ places ──▶ queue (elevator, attributes) ──▶ tenants ──▶ loop
//! ```
//!
//! Attributes are set in the order in which they were written. Two defaults differ from the
//! kernel's: `nr_requests` is as large as the queue, because what waits is bounded by memory; and
//! bfq's `low_latency` is off, because it favours the latest client over the weights.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use paternoster_core::{DeviceFacts, Limits, Nanos, NoObserver, Observer, Values};

use super::commands::Commands;
use super::complaints::Complaints;
use super::connection_table::Connections;
use super::geometry::{self, Place};
use super::handover::Handover;
use super::inbox::{Slot, inbox, unanswered};
use super::messages::Message;
use super::naps::Naps;
use super::policy::Policy;
use super::poller::Poller;
use super::processes::Processes;
use super::queue_limit::QueueLimit;
use super::replies::Replies;
use super::requests::Requests;
use super::seats;
use super::settings::Settings;
use super::shared::Shared;
use super::stop::Stop;
use super::surveys::Surveys;
use super::tenants::Tenants;
use super::time::Time;
use super::volumes::Volumes;
use super::{DeviceLoop, DeviceLoopHandle, receive};
use crate::config::{self, Config};
use crate::control::order::{Asked, Order};
use crate::device;
use crate::device::arena::{Arena, LARGEST};
use crate::device::lender::Lender;
use crate::host::plain_file;
use crate::nbd::ExportFacts;
use crate::recorded_queue::RecordedQueue;
use crate::server::Options;
use crate::stats::Stats;

/// Requests that wait or are under way at most; more stay in the sockets. Their number grows with
/// memory, within these bounds. Debug builds audit every place after every call.
const REQUESTS: (u64, u64) = (128, if cfg!(debug_assertions) { 256 } else { 4096 });
const BYTES_PER_REQUEST: u64 = 16 << 10;
/// Attributes whose default differs from the kernel's: here as many as possible, and 0.
const DEFAULTS: [&str; 2] = ["nr_requests", "low_latency"];
/// How long to wait for a loop's answer to an order.
const PATIENCE: Duration = Duration::from_secs(10);

/// A loop that is ready to run.
#[derive(Debug)]
pub struct Opened {
    /// The loop, which must run on a thread of its own.
    pub device_loop: DeviceLoop,
    /// For orders to the loop.
    pub handle: DeviceLoopHandle,
    /// The inbox for new clients.
    pub slot: Slot<Message>,
    /// What clients are told of its volumes.
    pub exports: Vec<ExportFacts>,
    /// Notes for the user that started the server.
    pub notes: Vec<String>,
}

impl DeviceLoop {
    /// Opens a device of a configuration.
    ///
    /// # Errors
    /// What could not be opened or made, in words.
    pub fn open(
        config: &Config,
        device: &config::Device,
        options: &Options,
    ) -> Result<Opened, String> {
        let opened =
            device::open::open_with(&options.system, device, options.handed_files().as_deref());
        let opened = opened.map_err(|error| format!("device {}: {error}", device.name))?;
        let notes = opened.note.into_iter().collect();
        let backend = match options.wrap {
            Some(wrap) => wrap(opened.backend),
            None => opened.backend,
        };
        DeviceLoop::before(backend, notes, config, device, options)
    }

    /// A loop in front of a backend that has the device's files.
    pub(super) fn before(
        backend: Box<dyn device::Backend>,
        mut notes: Vec<String>,
        config: &Config,
        device: &config::Device,
        options: &Options,
    ) -> Result<Opened, String> {
        let told = |error: &dyn std::fmt::Display| format!("device {}: {error}", device.name);
        let (places, line_end) =
            geometry::lay_out(&options.system, &device.volumes, |file| backend.file(file))
                .map_err(|error| told(&error))?;
        let facts = facts(&*backend, &places);
        let arena =
            Arena::new(usize::try_from(device.memory).unwrap_or(usize::MAX).max(4 * LARGEST))
                .map_err(|error| told(&error))?;
        let lender = Lender::new(backend, &arena);
        let limits = limits(config, device, facts.depth);
        let mut recorded_queue = make_queue(device, facts, limits).map_err(|error| told(&error))?;
        if let Some(prefix) = options.decisions.as_deref() {
            let path =
                record(&device.name, prefix, &mut recorded_queue).map_err(|error| told(&error))?;
            notes.push(format!("{}: decisions are recorded in {}", device.name, path.display()));
        }
        let tenants = Tenants::new(config, &mut recorded_queue).map_err(|error| told(&error))?;
        set_attributes(device, limits.requests, &mut recorded_queue)
            .map_err(|error| told(&error))?;
        let (slot, inbox) = inbox().map_err(|error| told(&error))?;
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let poller = Poller::new(inbox, processors).map_err(|error| told(&error))?;
        if let Some(wakeup) = lender.backend().wakeup() {
            poller.add_wakeup(wakeup).map_err(|error| told(&error))?;
        }
        let surveys = lender.survey_wakeup().ok_or_else(|| told(&"no more file descriptors"))?;
        poller.add_wakeup(surveys).map_err(|error| told(&error))?;
        let exports: Vec<ExportFacts> =
            places.iter().map(|place| place.export_facts(&facts)).collect();
        let processes = Processes::new(config, &exports);
        let names = places.iter().map(|place| place.name.clone()).collect();
        let handle = handle(device.name.clone(), names, slot.clone(), &config.server);
        let mut queue_limit = QueueLimit::new(device.delay_bound, facts.depth);
        queue_limit.divide(&tenants);
        // A fragment is a request of the queue at most. In legacy pools each kind of I/O has a
        // third of them; beyond that sleepers are served in turn, without regard to the tenant.
        let of_one = share_of_one(&config.server, device);
        let shared = Shared::new((arena, of_one), 2 * limits.bios, limits.requests, queue_limit);
        let naps = Naps::new(&tenants);
        let device_loop = DeviceLoop {
            name: device.name.clone(),
            commands: Commands::new(lender, &facts),
            recorded_queue,
            volumes: Volumes::new(&device.name, places, line_end, &options.system),
            tenants,
            shared,
            settings: Settings::of(config),
            time: Time::start(),
            poller,
            connections: Connections::new(connections(config, device), limits.clients),
            processes,
            requests: Requests::new(2 * limits.bios, limits.bios),
            naps,
            surveys: Surveys::default(),
            handover: Handover::default(),
            stop: Stop::default(),
            complaints: Complaints::new(&device.name),
            policy: Policy::new(&device.name, names_of(device)),
            buffer: vec![0; receive::BUFFER].into_boxed_slice(),
            replies: Replies::new(),
        };
        Ok(Opened { device_loop, handle, slot, exports, notes })
    }
}

/// How much memory one connection may have: never more than a quarter, so that one that takes no
/// answers leaves some to others.
pub(super) fn share_of_one(server: &config::Server, device: &config::Device) -> u64 {
    server.connection_memory.min(device.memory / 4)
}

/// Connections at a time: connections, and processes.
fn connections(config: &Config, device: &config::Device) -> u32 {
    seats::in_all(config.server.connections)
        .saturating_add(Processes::most(config, device.volumes.len()))
}

/// The facts for the queue: the backend's, with room for the longest line.
fn facts(backend: &dyn device::Backend, places: &[Place]) -> DeviceFacts {
    let facts = backend.facts();
    let rotational = places.iter().any(|place| place.facts.rotational);
    DeviceFacts { capacity: geometry::LONGEST, rotational: facts.rotational || rotational, ..facts }
}

fn limits(config: &Config, device: &config::Device, depth: u32) -> Limits {
    let requests = (device.memory / BYTES_PER_REQUEST).clamp(REQUESTS.0, REQUESTS.1);
    let requests = u32::try_from(requests).unwrap_or(u32::MAX).max(2 * depth);
    Limits {
        requests,
        bios: 2 * requests,
        clients: connections(config, device).saturating_add(1),
        groups: Tenants::groups_needed(config),
        notes: 64,
    }
}

fn make_queue(
    device: &config::Device,
    facts: DeviceFacts,
    limits: Limits,
) -> Result<RecordedQueue<Stats>, String> {
    RecordedQueue::named(facts, limits, &device.scheduler, Stats::new(&limits))
}

/// Records the loop's decisions from the first call on.
fn record(
    device: &str,
    prefix: &Path,
    recorded_queue: &mut RecordedQueue<Stats>,
) -> Result<PathBuf, String> {
    let mut path = prefix.as_os_str().to_owned();
    path.push(format!(".{device}.decisions"));
    let path = PathBuf::from(path);
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = plain_file::create(&path).map_err(|error| error.to_string())?;
    recorded_queue.record(Box::new(file)).map_err(|error| named(&error))?;
    Ok(path)
}

/// The attributes that are set at the start.
pub(super) fn names_of(device: &config::Device) -> BTreeSet<String> {
    let given = device.attributes.iter().map(|(name, _)| name.as_str());
    given.chain(DEFAULTS).map(str::to_owned).collect()
}

/// Names and values of all settable attributes of this device's queue, as it is when opened.
/// Attributes that cannot be set are counters.
///
/// # Errors
/// The attributes that are refused.
pub(crate) fn attributes(
    device: &config::Device,
    facts: DeviceFacts,
    limits: Limits,
) -> Result<Vec<(String, String)>, String> {
    let mut recorded_queue = RecordedQueue::named(facts, limits, &device.scheduler, NoObserver)?;
    set_attributes(device, limits.requests, &mut recorded_queue)?;
    let mut all = Vec::new();
    recorded_queue.queue().for_each_attribute(|name, attribute, value| {
        if attribute.values != Values::ReadOnly {
            all.push((name.to_owned(), value.to_owned()));
        }
    });
    Ok(all)
}

fn set_attributes<O: Observer>(
    device: &config::Device,
    requests: u32,
    recorded_queue: &mut RecordedQueue<O>,
) -> Result<(), String> {
    let nr_requests = requests.to_string();
    for (name, value) in DEFAULTS.into_iter().zip([nr_requests.as_str(), "0"]) {
        // An elevator without this attribute needs no such default.
        let _unknown = recorded_queue.set_attribute(Nanos::ZERO, name, value);
    }
    for (name, value) in &device.attributes {
        recorded_queue
            .set_attribute(Nanos::ZERO, name, value)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn handle(
    device: String,
    volumes: Vec<String>,
    slot: Slot<Message>,
    server: &config::Server,
) -> DeviceLoopHandle {
    // Clients, then what is in the device, then the last flush: the loop enforces these itself.
    let limits = [server.drain_timeout, server.device_timeout, server.device_timeout];
    let end: Duration = limits.iter().map(|limit| Duration::from_nanos(limit.0)).sum();
    DeviceLoopHandle::new(device, volumes, move |order| {
        let patience = match order {
            Order::Drain { .. } => 6 * PATIENCE,
            Order::Stop => end + PATIENCE,
            _ => PATIENCE,
        };
        let (answer, answers) = channel();
        slot.put(Message::Asked(Asked { order, answer }))
            .map_err(|_| "its thread has ended".to_owned())?;
        answers.recv_timeout(patience).unwrap_or_else(|why| Err(unanswered(why, patience)))
    })
}
