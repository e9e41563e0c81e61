// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shell: the gate for threads, futures and callbacks, around [`Core`] under a mutex.
//!
//! Each call takes the lock, lets the core do what is due, and notifies waiters with an outcome
//! when the lock is free again:
//!
//! ```text
//! permit ─▶ lock ─▶ ask, next … ─▶ unlock ─▶ unpark, wake, call back
//!             └ not granted: park
//! ```
//!
//! Some waits end by time: the gate keeps a permit for a class that is about to ask, a deadline
//! passes, a permit expires. One waiter watches the time for all of them: the thread that has been
//! blocked longest parks until then; if only futures and callbacks wait, a helper thread does,
//! started when first needed. A program that wants no helper calls [`Gate::poll`].
//!
//! # Invariants
//! I1  A waiter is notified when the lock is free, so that it may ask again at once.
//! I2  While any wait ends by time, a thread is parked until then or earlier: the first in
//!     `blocked`, or the helper.
//! I3  A ticket has a waiter exactly until the waiter was notified, or withdrew. The waiter stays
//!     until it has looked, though its permit may have expired meanwhile and the ticket may be in
//!     use again.

mod class;
mod future;
#[cfg(target_os = "linux")]
mod host;
mod permit;
mod sync;
mod waiter;

use std::boxed::Box;
use std::collections::VecDeque;
use std::string::String;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::machine::{
    Ask, AskError, ClassError, ClassId, ClassSpec, Core, Next, NotOut, Report, Settings, Ticket,
};
use paternoster_core::Nanos;
use paternoster_core::slab::{Key, Slab};
use sync::{Arc, Clock, Mutex, MutexGuard, Thread, Weak};
use waiter::{Call, Waiter};

pub use class::Class;
pub use future::PermitFuture;
pub use permit::Permit;

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermitError {
    /// The ask was refused.
    Refused(AskError),
    /// It was not granted in time.
    TooLate,
    /// This process is a child of the one that opened the gate, and forked while the gate was
    /// locked. The child must open its own gate.
    Forked,
}

impl core::fmt::Display for PermitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PermitError::Refused(error) => error.fmt(f),
            PermitError::TooLate => f.write_str("the permit was not granted in time"),
            PermitError::Forked => f.write_str("the gate belongs to the parent process"),
        }
    }
}

impl core::error::Error for PermitError {}

impl From<AskError> for PermitError {
    fn from(error: AskError) -> PermitError {
        PermitError::Refused(error)
    }
}

#[derive(Debug)]
struct State {
    core: Core,
    waiters: Slab<Waiter>,
    /// For each index of a ticket: the waiter to notify.
    listens: Vec<Option<Key>>,
    /// Threads that are blocked, the longest first.
    blocked: VecDeque<Key>,
    /// Until when the waiter that watches the time sleeps; `None`: until it is woken, or no waiter
    /// does.
    rings_at: Option<Nanos>,
    helper: Option<Thread>,
    may_help: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    clock: Clock,
    /// The process that opened it.
    pid: u32,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The helper finds that the gate is gone.
        let state = match self.state.get_mut() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(helper) = &state.helper {
            helper.unpark();
        }
    }
}

/// A recording into any writer of bytes.
struct Lines<W>(W);

impl<W: std::io::Write> core::fmt::Write for Lines<W> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| core::fmt::Error)
    }
}

/// A gate: fair permits for I/O, for the threads and tasks of a program. A clone is the same gate.
///
/// ```
/// use paternoster_gate::{ClassSpec, Gate, Op, Settings};
///
/// let gate = Gate::new(Settings::default());
/// let reads = gate.class(ClassSpec::new("reads").weight(400))?;
/// let flushes = gate.class(ClassSpec::new("flushes"))?;
/// std::thread::scope(|threads| {
///     for class in [&reads, &flushes] {
///         threads.spawn(move || {
///             let permit = class.permit(Op::Read, 4096).expect("one of four thousand");
///             // Do the I/O here.
///             drop(permit);
///         });
///     }
/// });
/// assert_eq!(reads.counts().map(|counts| counts.given_back), Some(1));
/// # Ok::<(), paternoster_gate::ClassError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

impl Gate {
    /// A gate without classes.
    #[must_use]
    pub fn new(settings: Settings) -> Gate {
        Gate::around(Core::new(settings), settings)
    }

    /// A gate whose calls are recorded, a line each, for [`Core::replay`]. It writes while it holds
    /// the lock: give it a buffered writer. A failed write ends the recording, and nothing else.
    #[must_use]
    pub fn recorded(settings: Settings, to: impl std::io::Write + Send + 'static) -> Gate {
        Gate::around(Core::recorded(settings, Box::new(Lines(to))), settings)
    }

    fn around(core: Core, settings: Settings) -> Gate {
        let asks = settings.asks.clamp(16, 10_240);
        let state = State {
            core,
            waiters: Slab::with_capacity(2 * asks),
            listens: vec![None; asks as usize],
            blocked: VecDeque::with_capacity(asks as usize),
            rings_at: None,
            helper: None,
            may_help: true,
        };
        let shared = Shared { state: Mutex::new(state), clock: Clock::new(), pid: pid() };
        Gate { shared: Arc::new(shared) }
    }

    /// A gate for the device that holds this file or folder, or for this block device. It only
    /// reads whether seeks cost time there; if unknown, the device is taken for flash.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn open(path: &std::path::Path) -> Gate {
        let rotational = Gate::is_rotational(path);
        Gate::new(Settings { rotational, ..Settings::default() })
    }

    /// Whether the kernel calls this device rotational, as [`Gate::open`] asks.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn is_rotational(path: &std::path::Path) -> bool {
        host::is_rotational(path)
    }

    /// Never starts a helper thread: the program calls [`Gate::poll`] instead.
    #[must_use]
    pub fn without_helper(self) -> Gate {
        if let Some(mut state) = self.shared.lock() {
            state.may_help = false;
        }
        self
    }

    /// The gate's time, which begins when it is made; deadlines of asks are in it.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    /// Opens a class.
    ///
    /// # Errors
    /// [`ClassError`]; [`ClassError::NoClass`] also in a forked child that cannot use the gate.
    pub fn class(&self, spec: ClassSpec) -> Result<Class, ClassError> {
        let mut state = self.shared.lock().ok_or(ClassError::NoClass)?;
        let id = state.core.open(spec)?;
        Ok(Class { gate: self.clone(), id })
    }

    /// Gives back the permit of [`Permit::into_ticket`].
    ///
    /// # Errors
    /// [`NotOut`] if it was given back already, or has expired.
    pub fn give_back(&self, ticket: Ticket) -> Result<(), NotOut> {
        let now = self.now();
        let given = self.shared.act(now, |state| state.core.give_back(now, ticket));
        given.unwrap_or(Err(NotOut))
    }

    /// Does what is due, and returns when it has to be called again at the latest, if there is no
    /// ask or give-back before. Only for programs whose waiters are futures and callbacks and that
    /// want no helper thread ([`Gate::without_helper`]).
    pub fn poll(&self) -> Option<Duration> {
        let now = self.now();
        self.shared.act(now, |_| ());
        let state = self.shared.lock()?;
        state.core.wakes_at().map(|at| Duration::from_nanos((at - now).0))
    }

    /// The next unread report: permits that expired, holders that ask for more.
    #[must_use]
    pub fn report(&self) -> Option<Report> {
        self.shared.lock()?.core.report()
    }

    /// Figures in the text format that Prometheus reads.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        if let Some(state) = self.shared.lock() {
            let written = state.core.metrics(&mut text);
            debug_assert!(written.is_ok(), "a string takes everything");
        }
        text
    }

    /// What waits for what and why: a line for each of at most `most` waiting asks.
    #[must_use]
    pub fn explain(&self, most: usize) -> String {
        let mut text = String::new();
        if let Some(state) = self.shared.lock() {
            let written = state.core.explain_all(most, &mut text);
            debug_assert!(written.is_ok(), "a string takes everything");
        }
        text
    }

    /// Asks that wait, and permits that are out.
    #[must_use]
    pub fn in_all(&self) -> (u32, u32) {
        self.shared.lock().map_or((0, 0), |state| state.core.in_all())
    }

    /// Verifies every invariant; for tests.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.shared.lock().map_or(Ok(()), |state| state.core.check())
    }
}

fn pid() -> u32 {
    std::process::id()
}

impl State {
    /// Nothing is due at `now`, and nothing waits: there is no waiter to notify or wake.
    fn is_quiet(&self, now: Nanos) -> bool {
        self.core.in_all().0 == 0 && !self.core.is_due(now)
    }

    /// Asks, for `waiter`.
    fn ask(
        &mut self,
        now: Nanos,
        class: ClassId,
        ask: Ask,
        waiter: Waiter,
    ) -> Result<(Ticket, Key), AskError> {
        let ticket = self.enter(now, class, ask)?;
        Ok((ticket, self.listen(ticket, waiter)?))
    }

    /// Asks; makes room for a waiter.
    fn enter(&mut self, now: Nanos, class: ClassId, ask: Ask) -> Result<Ticket, AskError> {
        if self.waiters.is_full() {
            return Err(AskError::Full);
        }
        self.core.ask(now, class, ask)
    }

    /// Registers `waiter` for the outcome of a ticket.
    fn listen(&mut self, ticket: Ticket, waiter: Waiter) -> Result<Key, AskError> {
        let key = self.waiters.insert(waiter).map_err(|_| AskError::Full)?;
        self.listens[ticket.index() as usize] = Some(key);
        Ok(key)
    }

    /// Records the outcome of a ticket; returns the waiter to call when the lock is free.
    fn tell(&mut self, ticket: Ticket, is_granted: bool) -> Option<Call> {
        let key = self.listens[ticket.index() as usize].take()?;
        let call = self.waiters.get_mut(key)?.tell(ticket, is_granted);
        if let Some(Call::Back(..)) = call {
            self.waiters.release(key.index());
        }
        call
    }

    /// Takes a waiter's outcome. The waiter is then removed.
    fn told(&mut self, key: Key) -> Option<bool> {
        let told = self.waiters.get(key)?.told()?;
        self.waiters.release(key.index());
        Some(told)
    }
}

impl Shared {
    /// The state, unless this is a child process that forked while the gate was locked.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        #[cfg(not(feature = "shuttle"))]
        match self.state.try_lock() {
            Ok(state) => return Some(state),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            // Checks for a fork only if it would have to wait, since that takes a system call.
            Err(std::sync::TryLockError::WouldBlock) if self.pid != pid() => return None,
            Err(std::sync::TryLockError::WouldBlock) => {}
        }
        #[cfg(feature = "shuttle")]
        let _one_process = self.pid;
        Some(self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Does something with the core at `now`, then what is due, and notifies waiters (I1).
    fn act<T>(self: &Arc<Shared>, now: Nanos, what: impl FnOnce(&mut State) -> T) -> Option<T> {
        let mut state = self.lock()?;
        let result = what(&mut state);
        self.leave(state, now);
        Some(result)
    }

    /// Does what is due at `now`, and notifies waiters when the lock is free.
    #[inline]
    fn leave(self: &Arc<Shared>, mut state: MutexGuard<'_, State>, now: Nanos) {
        if state.is_quiet(now) {
            return;
        }
        let calls = self.settle(&mut state, now);
        let ringer = self.find_ringer(&mut state);
        drop(state);
        self.make(calls);
        self.make(ringer);
    }

    fn make(self: &Arc<Shared>, calls: impl IntoIterator<Item = Call>) {
        for call in calls {
            call.make(self);
        }
    }

    /// Does what is due now; returns the waiters to call when the lock is free.
    fn settle(&self, state: &mut State, now: Nanos) -> Vec<Call> {
        // Allocates only to notify a waiter other than the caller.
        let mut calls = Vec::new();
        loop {
            let (ticket, is_granted) = match state.core.next(now) {
                Next::Granted(ticket) => (ticket, true),
                Next::TooLate(ticket) => (ticket, false),
                Next::Wait(_) | Next::Idle => return calls,
            };
            calls.extend(state.tell(ticket, is_granted));
        }
    }

    /// If a wait ends by time before any thread would wake up, chooses one to watch the time (I2).
    fn find_ringer(self: &Arc<Shared>, state: &mut State) -> Option<Call> {
        let (waits, _) = state.core.in_all();
        if waits == 0 {
            return None;
        }
        let due = state.core.wakes_at()?;
        if state.rings_at.is_some_and(|at| at <= due) {
            return None;
        }
        if let Some(first) = state.blocked.front() {
            // Whether it is parked or about to be, it reads under the lock until when it may sleep.
            state.rings_at = Some(due);
            return state.waiters.get(*first).and_then(Waiter::ring);
        }
        if state.helper.is_none() && state.may_help {
            state.helper = self.start_helper();
        }
        state.rings_at = state.helper.as_ref().map(|_| due);
        state.helper.clone().map(Call::Unpark)
    }

    fn start_helper(self: &Arc<Shared>) -> Option<Thread> {
        let (shared, clock) = (Arc::downgrade(self), self.clock.clone());
        sync::spawn(move || {
            let Some(until) = help(&shared) else { return false };
            clock.park(until);
            true
        })
    }
}

/// Does what is due; returns until when the helper may sleep. `None` if the gate is gone.
fn help(shared: &Weak<Shared>) -> Option<Option<Nanos>> {
    let shared = shared.upgrade()?;
    let mut state = shared.lock()?;
    let calls = shared.settle(&mut state, shared.clock.now());
    let (waits, _) = state.core.in_all();
    state.rings_at = None;
    let (mut until, mut ringer) = (None, None);
    if state.blocked.is_empty() {
        until = state.core.wakes_at().filter(|_| waits > 0);
        state.rings_at = until;
    } else {
        ringer = shared.find_ringer(&mut state);
    }
    drop(state);
    shared.make(calls);
    shared.make(ringer);
    Some(until)
}
