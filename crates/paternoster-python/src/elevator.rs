// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elevator: a scheduler written as a Python class, audited at each call.
//!
//! ```text
//! queue ── insert(id) ──▶ slot: waits ── insert(request, at_head) ──▶ Python
//!       ── pick ────────▶ pick(now): a request that waits, Idle(until), or None ◀── Python
//!                             └ else: the law that it breaks ─▶ ElevatorError, the run ends
//! ```
//!
//! After the first exception Python is no longer called: waiting requests go out in order of
//! arrival, until the run has stopped.
//!
//! # Invariants
//! I1  Slots are what the queue and Python agree on: a request waits in its slot from `insert`
//!     until it is picked, withdrawn or merged away; nothing else can be picked.
//! I2  Requests wait only with a reason: one is in the device, or the timer is set.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paternoster::guard::within;
use paternoster_core::elevator::{Elevator, Fault, Pick, Place, Position, Side, Traits};
use paternoster_core::{Class, Client, Group, Nanos, QueueView, RequestId};
use paternoster_sim::schedulers;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::exception;
use crate::series::direction;

/// Stops a run with schedulers in Python, and says why it was stopped.
#[derive(Default)]
struct Present {
    stop: Option<Arc<AtomicBool>>,
    error: Option<PyErr>,
}

thread_local! {
    static PRESENT: RefCell<Present> = RefCell::default();
}

/// Does `work` on this thread; returns the exception of a scheduler, if any, which sets `stop`. A
/// part of watched work may be watched by itself, like a row of a sweep.
pub(crate) fn watched<R>(stop: Arc<AtomicBool>, work: impl FnOnce() -> R) -> (R, Option<PyErr>) {
    let (done, present) = within(&PRESENT, Present { stop: Some(stop), error: None }, work);
    (done, present.error)
}

/// A request, as Python sees it.
#[pyclass(frozen, dict, module = "paternoster_io._native")]
pub(crate) struct Request {
    slot: u32,
    #[pyo3(get)]
    op: &'static str,
    #[pyo3(get)]
    sync: bool,
    #[pyo3(get)]
    client: u32,
    #[pyo3(get)]
    weight: u32,
    #[pyo3(get)]
    group: u32,
    #[pyo3(get)]
    group_weight: u32,
    #[pyo3(get)]
    priority: (&'static str, u8),
    #[pyo3(get)]
    arrived_ns: u64,
    sector: AtomicU64,
    sectors: AtomicU32,
    withdrawn: AtomicBool,
}

#[pymethods]
impl Request {
    /// First sector of 512 bytes; a merge may change it.
    #[getter]
    fn sector(&self) -> u64 {
        self.sector.load(Ordering::Relaxed)
    }

    #[getter]
    fn sectors(&self) -> u32 {
        self.sectors.load(Ordering::Relaxed)
    }

    #[getter]
    fn end(&self) -> u64 {
        self.sector() + u64::from(self.sectors())
    }

    fn __repr__(&self) -> String {
        let (op, client) = (self.op, self.client);
        format!("<Request {op} {}+{} of client {client}>", self.sector(), self.sectors())
    }
}

/// Nothing now, though requests wait: not before this time, unless something changes.
#[pyclass(frozen, module = "paternoster_io._native")]
pub(crate) struct Idle {
    #[pyo3(get)]
    until_ns: u64,
}

#[pymethods]
impl Idle {
    #[new]
    fn new(until_ns: u64) -> Idle {
        Idle { until_ns }
    }
}

/// Lets a class be chosen as a scheduler by this name.
#[pyfunction]
pub(crate) fn lend(py: Python<'_>, name: String, class: Py<PyAny>) -> PyResult<()> {
    let (known, class) = (interned(&name), Arc::new(class));
    let make = move || Box::new(InPython::new(known, Arc::clone(&class))) as Box<dyn Elevator>;
    schedulers::lend(&name, Arc::new(make)).map_err(|why| exception(py, "RequestError", &why))
}

/// One text for each name ever lent: the trait requires one that lives forever.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeMap<String, &'static str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(name.to_owned()).or_insert_with(|| String::leak(name.to_owned()))
}

/// Methods of the object; `None` for those that its class does not override.
struct Methods {
    insert: Py<PyAny>,
    pick: Py<PyAny>,
    completed: Option<Py<PyAny>>,
    started: Option<Py<PyAny>>,
    requeued: Option<Py<PyAny>>,
    removed: Option<Py<PyAny>>,
    grown: Option<Py<PyAny>>,
    timer: Option<Py<PyAny>>,
}

/// The state of a request's slot.
#[derive(Default)]
struct Slot {
    request: Option<Py<Request>>,
    waits: bool,
    /// Counts arrivals, for the order of a drain.
    came: u64,
}

/// The scheduler.
struct InPython {
    name: &'static str,
    class: Arc<Py<PyAny>>,
    methods: Option<Methods>,
    slots: Vec<Slot>,
    waiting: u32,
    came: u64,
    failed: bool,
}

impl fmt::Debug for InPython {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InPython { name, waiting, failed, .. } = self;
        f.debug_struct("InPython")
            .field("name", name)
            .field("waiting", waiting)
            .field("failed", failed)
            .finish_non_exhaustive()
    }
}

const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Realtime => "realtime",
        Class::BestEffort => "best-effort",
        Class::Idle => "idle",
    }
}

/// A request of `view` for Python.
fn shown(view: &QueueView, id: RequestId) -> Request {
    let request = view.request(id);
    let client = request.client();
    let group = view.group_of(client);
    let priority = request.priority();
    let weight = view.client(client).map_or(0, Client::weight);
    Request {
        slot: id.index(),
        op: direction(request.op()),
        sync: request.is_sync(),
        client: client.index(),
        weight,
        group: group.index(),
        group_weight: view.group(group).map_or(0, Group::weight),
        priority: (class_name(priority.class), priority.level),
        arrived_ns: request.start().0,
        sector: AtomicU64::new(request.sector()),
        sectors: AtomicU32::new(request.sectors()),
        withdrawn: AtomicBool::new(false),
    }
}

impl InPython {
    fn new(name: &'static str, class: Arc<Py<PyAny>>) -> InPython {
        let (methods, slots) = (None, Vec::new());
        InPython { name, class, methods, slots, waiting: 0, came: 0, failed: false }
    }

    /// Makes the object, and finds out which methods its class has.
    fn make(&self, py: Python<'_>, view: &QueueView) -> PyResult<Methods> {
        let base = PyModule::import(py, "paternoster_io._elevators")?.getattr("Elevator")?;
        let object = self.class.bind(py).call0()?;
        // For tests, to which no real bug of ours is available.
        #[cfg(feature = "planted-bugs")]
        if let Ok(planted) = object.getattr("_planted_panic") {
            panic!("{planted}");
        }
        let facts = view.facts();
        let device = PyDict::new(py);
        device.set_item("capacity_sectors", facts.capacity)?;
        device.set_item("depth", facts.depth)?;
        device.set_item("rotational", facts.rotational)?;
        device.set_item("requests", view.limits().requests)?;
        object.call_method1("attach", (device,))?;
        let own = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let is_base = object.get_type().getattr(name)?.is(&base.getattr(name)?);
            Ok(if is_base { None } else { Some(object.getattr(name)?.unbind()) })
        };
        Ok(Methods {
            insert: object.getattr("insert")?.unbind(),
            pick: object.getattr("pick")?.unbind(),
            completed: own("completed")?,
            started: own("started")?,
            requeued: own("requeued")?,
            removed: own("removed")?,
            grown: own("grown")?,
            timer: own("timer")?,
        })
    }

    /// Keeps the first exception, and stops the run.
    fn fail(&mut self, error: PyErr) {
        self.failed = true;
        PRESENT.with_borrow_mut(|present| {
            if let Some(stop) = &present.stop {
                stop.store(true, Ordering::Relaxed);
            }
            present.error.get_or_insert(error);
        });
    }

    fn broken(&mut self, py: Python<'_>, law: &str) {
        let message = format!("scheduler {}: {law}", self.name);
        self.fail(exception(py, "ElevatorError", &message));
    }

    /// Calls a method about a request, if the class has it.
    fn tell(&mut self, which: impl Fn(&Methods) -> Option<&Py<PyAny>>, id: RequestId) {
        let slot = self.slots.get(id.index() as usize);
        let Some(request) = slot.and_then(|slot| slot.request.as_ref()) else { return };
        let Some(method) = self.methods.as_ref().and_then(which) else { return };
        if self.failed {
            return;
        }
        let told = Python::attach(|py| method.call1(py, (request,)).map(drop));
        if let Err(error) = told {
            self.fail(error);
        }
    }

    fn slot(&mut self, id: RequestId) -> &mut Slot {
        let place = id.index() as usize;
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, Slot::default);
        }
        &mut self.slots[place]
    }

    /// A request no longer waits here; returns whether it did.
    fn leaves(&mut self, id: RequestId) -> bool {
        let waited = std::mem::take(&mut self.slot(id).waits);
        self.waiting -= u32::from(waited);
        waited
    }

    /// The one that has waited longest.
    fn oldest(&self) -> Option<RequestId> {
        let waiting = self.slots.iter().enumerate().filter(|(_, slot)| slot.waits);
        let (place, _) = waiting.min_by_key(|(_, slot)| slot.came)?;
        u32::try_from(place).ok().map(RequestId::from_index)
    }

    /// Calls Python's `pick`; `None` after an exception.
    fn ask(&mut self, py: Python<'_>, view: &mut QueueView) -> Option<Pick> {
        let now = view.now().0;
        loop {
            let method = &self.methods.as_ref()?.pick;
            let said = match method.call1(py, (now,)) {
                Ok(said) => said.into_bound(py),
                Err(error) => {
                    self.fail(error);
                    return None;
                }
            };
            if said.is_none() {
                if view.in_device().requests > 0 {
                    return Some(Pick::Await);
                }
                let law = format!(
                    "I2: pick gave none though {} requests wait here and nothing is in the device: \
                     it has lost them, or they wait for ever; pick one, or give Idle",
                    self.waiting
                );
                self.broken(py, &law);
                return None;
            }
            if let Ok(request) = said.cast::<Request>() {
                let request = request.get();
                let id = RequestId::from_index(request.slot);
                let known = self.slots.get(request.slot as usize);
                let is_own = known.is_some_and(|slot| {
                    slot.waits && slot.request.as_ref().is_some_and(|own| own.is(&said))
                });
                if is_own {
                    self.leaves(id);
                    return Some(Pick::Dispatch(id, Place::Tail));
                }
                // A class without `removed` may pick withdrawn requests.
                if request.withdrawn.swap(false, Ordering::Relaxed) {
                    if self.waiting > 0 {
                        continue;
                    }
                    return Some(Pick::Nothing);
                }
                let law = format!(
                    "I1: pick gave {}, which does not wait here: it was picked before, or was \
                     removed",
                    request.__repr__()
                );
                self.broken(py, &law);
                return None;
            }
            if let Ok(idle) = said.cast::<Idle>() {
                let until = idle.get().until_ns;
                if until > now {
                    view.set_precise_timer(Nanos(until));
                    return Some(Pick::Idle);
                }
                self.broken(py, &format!("I2: Idle({until}) is no later than now ({now})"));
                return None;
            }
            let law = format!("I1: pick gave {said}, which is no request, no Idle and not None");
            self.broken(py, &law);
            return None;
        }
    }
}

impl Elevator for InPython {
    fn traits(&self) -> Traits {
        Traits::mq(self.name)
    }

    fn attach(&mut self, view: &mut QueueView) {
        self.slots.resize_with(view.request_slots() as usize, Slot::default);
        match Python::attach(|py| self.make(py, view)) {
            Ok(methods) => self.methods = Some(methods),
            Err(error) => self.fail(error),
        }
    }

    fn insert(&mut self, view: &mut QueueView, id: RequestId, position: Position) {
        self.came += 1;
        let came = self.came;
        self.waiting += 1;
        let failed = self.failed;
        let slot = self.slot(id);
        (slot.waits, slot.came) = (true, came);
        if failed {
            return;
        }
        let inserted = Python::attach(|py| {
            let slot = self.slot(id);
            let request = match &slot.request {
                Some(known) => known.clone_ref(py),
                None => {
                    let made = Py::new(py, shown(view, id))?;
                    slot.request.insert(made).clone_ref(py)
                }
            };
            let Some(methods) = &self.methods else { return Ok(()) };
            methods.insert.call1(py, (request, position == Position::Head)).map(drop)
        });
        if let Err(error) = inserted {
            self.fail(error);
        }
    }

    fn grown(&mut self, view: &mut QueueView, id: RequestId, _side: Side) {
        let request = view.request(id);
        let (sector, sectors) = (request.sector(), request.sectors());
        if let Some(shown) = &self.slot(id).request {
            shown.get().sector.store(sector, Ordering::Relaxed);
            shown.get().sectors.store(sectors, Ordering::Relaxed);
        }
        self.tell(|methods| methods.grown.as_ref(), id);
    }

    fn absorbed(&mut self, view: &mut QueueView, survivor: RequestId, gone: RequestId) {
        self.removed(view, gone);
        self.grown(view, survivor, Side::Back);
    }

    fn pick(&mut self, view: &mut QueueView) -> Pick {
        if self.waiting == 0 {
            return Pick::Nothing;
        }
        if !self.failed
            && let Some(pick) = Python::attach(|py| self.ask(py, view))
        {
            return pick;
        }
        match self.oldest() {
            None => Pick::Nothing,
            Some(id) => {
                self.leaves(id);
                Pick::Dispatch(id, Place::Tail)
            }
        }
    }

    fn started(&mut self, _view: &mut QueueView, id: RequestId) {
        self.tell(|methods| methods.started.as_ref(), id);
    }

    fn requeued(&mut self, _view: &mut QueueView, id: RequestId) {
        self.tell(|methods| methods.requeued.as_ref(), id);
    }

    fn completed(&mut self, view: &mut QueueView, id: RequestId, served: Nanos) {
        let Some(method) = self.methods.as_ref().and_then(|all| all.completed.as_ref()) else {
            return;
        };
        let slot = self.slots.get(id.index() as usize);
        let Some(request) = slot.and_then(|slot| slot.request.as_ref()) else { return };
        if self.failed {
            return;
        }
        let now = view.now().0;
        let told = Python::attach(|py| method.call1(py, (request, now, served.0)).map(drop));
        if let Err(error) = told {
            self.fail(error);
        }
    }

    fn removed(&mut self, _view: &mut QueueView, id: RequestId) {
        if !self.leaves(id) {
            return;
        }
        let tells = self.methods.as_ref().is_some_and(|all| all.removed.is_some());
        if tells {
            self.tell(|methods| methods.removed.as_ref(), id);
        } else if let Some(request) = &self.slot(id).request {
            request.get().withdrawn.store(true, Ordering::Relaxed);
        }
    }

    fn released(&mut self, _view: &mut QueueView, id: RequestId) {
        self.leaves(id);
        self.slot(id).request = None;
    }

    fn timer(&mut self, view: &mut QueueView) {
        let Some(method) = self.methods.as_ref().and_then(|all| all.timer.as_ref()) else { return };
        if self.failed {
            return;
        }
        let now = view.now().0;
        if let Err(error) = Python::attach(|py| method.call1(py, (now,)).map(drop)) {
            self.fail(error);
        }
    }

    fn drain(&mut self, view: &mut QueueView) -> Option<RequestId> {
        let id = self.oldest()?;
        self.removed(view, id);
        Some(id)
    }

    fn explain(&self, _: &QueueView, _: RequestId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}, a class in Python, has not picked it", self.name)
    }

    fn waiting(&self) -> u32 {
        self.waiting
    }

    fn audit(&self, _: &QueueView) -> Result<(), Fault> {
        let waiting = self.slots.iter().filter(|slot| slot.waits).count();
        if waiting == self.waiting as usize {
            Ok(())
        } else {
            Err(format!("I1: {waiting} slots wait, {} were counted", self.waiting))
        }
    }
}
