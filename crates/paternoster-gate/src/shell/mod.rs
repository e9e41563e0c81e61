// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shell: the gate for threads, futures and callbacks, around [`Core`] under a mutex.
//!
//! Each call takes the lock, lets the core do what is due, and tells those who have got something
//! when the lock is free again:
//!
//! ```text
//! permit ─▶ lock ─▶ ask, next … ─▶ unlock ─▶ unpark, wake, call back
//!             └ not granted: park
//! ```
//!
//! Some waits end by time: the gate keeps a permit for a class that is about to ask, a deadline
//! passes, a permit expires. One waiter rings for all of them: the thread that has been blocked
//! longest parks until then; if only futures and callbacks wait a helper thread does, which is
//! started when it is needed first. A program that wants none calls [`Gate::poll`].
//!
//! # Invariants
//! I1  A waiter is told something when the lock is free, so that it may ask again at once.
//! I2  While anything waits that ends by time, a thread is parked until then or earlier: the first
//!     in `blocked`, or the helper.
//! I3  A ticket has a waiter exactly until that was told, or withdrew. The waiter stays until it
//!     has looked, though its permit may have expired meanwhile and the ticket be another's.

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
    /// It was not asked for.
    Refused(AskError),
    /// It was not granted in time.
    TooLate,
    /// This process is a child of the one that opened the gate, and the fork found the gate in the
    /// middle of something. Open one of its own.
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
    /// By index of a ticket: who is to be told of it.
    listens: Vec<Option<Key>>,
    /// Threads that are blocked, the longest first.
    blocked: VecDeque<Key>,
    /// Until when the one who rings sleeps; `None`: for as long as nobody wakes it, or nobody does.
    rings_at: Option<Nanos>,
    helper: Option<Thread>,
    may_help: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    clock: Clock,
    /// The thread that opened it.
    pid: u32,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // It finds that the gate has gone.
        let state = match self.state.get_mut() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some(helper) = &state.helper {
            helper.unpark();
        }
    }
}

/// A recording into what bytes are written to.
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

    /// A gate whose calls are recorded, a line each, for [`Core::replay`]. It writes while it has
    /// the lock: give it what has a buffer. What cannot be written ends the recording, and nothing
    /// else.
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

    /// A gate before the device on which this file or folder lies, or before this block device. All
    /// that is read of it is whether seeks cost time there; unknown, it is taken for flash.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn open(path: &std::path::Path) -> Gate {
        let rotational = Gate::is_rotational(path);
        Gate::new(Settings { rotational, ..Settings::default() })
    }

    /// What [`Gate::open`] reads.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn is_rotational(path: &std::path::Path) -> bool {
        host::is_rotational(path)
    }

    /// Starts no thread, whatever waits: [`Gate::poll`] is called instead.
    #[must_use]
    pub fn without_helper(self) -> Gate {
        if let Some(mut state) = self.shared.lock() {
            state.may_help = false;
        }
        self
    }

    /// The gate's time, which begins when it is made: what asks take for deadlines.
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

    /// Lets what is due happen, and tells when it has to be called again at the latest, if nothing
    /// is asked for or given back until then. Only for programs whose waiters are futures and
    /// callbacks and that want no helper thread ([`Gate::without_helper`]).
    pub fn poll(&self) -> Option<Duration> {
        let now = self.now();
        self.shared.act(now, |_| ());
        let state = self.shared.lock()?;
        state.core.wakes_at().map(|at| Duration::from_nanos((at - now).0))
    }

    /// The next report that was not read: permits that expired, holders that ask for more.
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

    /// What waits for what and why: a line for each of at most `most` that wait.
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
    /// Nothing is due at `now`, and nothing waits: there is none to be told or woken.
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

    /// Asks; there is a place for what will listen.
    fn enter(&mut self, now: Nanos, class: ClassId, ask: Ask) -> Result<Ticket, AskError> {
        if self.waiters.is_full() {
            return Err(AskError::Full);
        }
        self.core.ask(now, class, ask)
    }

    /// `waiter` is told what becomes of a ticket.
    fn listen(&mut self, ticket: Ticket, waiter: Waiter) -> Result<Key, AskError> {
        let key = self.waiters.insert(waiter).map_err(|_| AskError::Full)?;
        self.listens[ticket.index() as usize] = Some(key);
        Ok(key)
    }

    /// What became of a ticket; whom to tell when the lock is free.
    fn tell(&mut self, ticket: Ticket, is_granted: bool) -> Option<Call> {
        let key = self.listens[ticket.index() as usize].take()?;
        let call = self.waiters.get_mut(key)?.tell(ticket, is_granted);
        if let Some(Call::Back(..)) = call {
            self.waiters.release(key.index());
        }
        call
    }

    /// What a waiter was told. Then it is none any more.
    fn told(&mut self, key: Key) -> Option<bool> {
        let told = self.waiters.get(key)?.told()?;
        self.waiters.release(key.index());
        Some(told)
    }
}

impl Shared {
    /// The state, unless this is a child whose parent was in the middle of something.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        #[cfg(not(feature = "shuttle"))]
        match self.state.try_lock() {
            Ok(state) => return Some(state),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            // Only who has to wait asks whose child it is: that is a call of the kernel.
            Err(std::sync::TryLockError::WouldBlock) if self.pid != pid() => return None,
            Err(std::sync::TryLockError::WouldBlock) => {}
        }
        #[cfg(feature = "shuttle")]
        let _one_process = self.pid;
        Some(self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Does something with the core at `now`, then what is due, and tells all concerned (I1).
    fn act<T>(self: &Arc<Shared>, now: Nanos, what: impl FnOnce(&mut State) -> T) -> Option<T> {
        let mut state = self.lock()?;
        let result = what(&mut state);
        self.leave(state, now);
        Some(result)
    }

    /// What is due at `now` happens, and all concerned are told when the lock is free.
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

    /// What is due now; returns who has to be told of it when the lock is free.
    fn settle(&self, state: &mut State, now: Nanos) -> Vec<Call> {
        // Allocates only if another than the one who calls is told.
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

    /// Something ends by time before any thread would wake up: one has to look when that is (I2).
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
            // Whether it is parked or about to be, it looks under the lock until when it may sleep.
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

/// What is due happens; until when the helper may sleep. `None` if the gate has gone.
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
