// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate for C: the functions of `include/paternoster.h`, which says what each does.
//!
//! This is the gate's only unsafe code: it trusts a C caller about its pointers, and nothing else.
//! Handles are boxes that the caller holds; a permit is a number, so that giving it back twice is
//! an error code and no fault.
//!
//! # What a caller owes (the reason for each `unsafe` here)
//! U1  A handle is NULL or was returned by this library and has not been closed since.
//! U2  A pointer to data to read or write is NULL or points to all of them; a text ends with 0, and
//!     has `room` bytes of room where that is given.
//! U3  A structure gives its size, and is that large.
//! U4  What a callback's context points to may be used by another thread.

mod recording;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use paternoster_gate::{
    Ask, AskError, Class, ClassError, ClassSpec, Counts, Gate, Kind, Nanos, Op, Permit,
    PermitError, Rate, Settings, Ticket,
};
use recording::Recording;

const VERSION: u32 = 1;
const FOREVER: u64 = u64::MAX;
const ANYWHERE: u64 = u64::MAX;
const ROTATIONAL: u32 = 1;
const NO_HELPER: u32 = 2;

/// The texts of `enum pn_result`.
const RESULTS: [&CStr; 10] = [
    c"done",
    c"not granted in time, or it cannot be done in time",
    c"there are no places left",
    c"the class was closed",
    c"the permit was given back already, or has expired",
    c"other classes are below it",
    c"the gate belongs to the parent process",
    c"an argument means nothing",
    c"a line of the recording has another answer now",
    c"a line, or the file, is no recording of a gate",
];
const OK: c_int = 0;
const TOO_LATE: c_int = 1;
const FULL: c_int = 2;
const CLOSED: c_int = 3;
const NOT_OUT: c_int = 4;
const IN_USE: c_int = 5;
const FORKED: c_int = 6;
const INVALID: c_int = 7;
const DIFFERS: c_int = 8;
const UNREADABLE: c_int = 9;

/// `struct pn_gate`.
struct Door {
    gate: Gate,
    recording: Option<Recording>,
}

impl Deref for Door {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

/// `struct pn_settings`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct CSettings {
    size: usize,
    permits: u32,
    asks: u32,
    classes: u32,
    flags: u32,
    expires_after_ns: u64,
    record: *const c_char,
}

impl Default for CSettings {
    fn default() -> CSettings {
        CSettings {
            size: 0,
            permits: 0,
            asks: 0,
            classes: 0,
            flags: 0,
            expires_after_ns: 0,
            record: ptr::null(),
        }
    }
}

/// `struct pn_rates`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct CRates {
    size: usize,
    cap_bytes: u64,
    cap_requests: u64,
    floor_bytes: u64,
    floor_requests: u64,
}

/// `struct pn_counts`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct CCounts {
    size: usize,
    figures: [u64; 9],
}

type Granted = Option<unsafe extern "C" fn(*mut c_void, c_int, u64)>;

fn refused(error: PermitError) -> c_int {
    match error {
        PermitError::Refused(AskError::Full) => FULL,
        PermitError::Refused(AskError::NoClass) => CLOSED,
        PermitError::Refused(AskError::TooLate(_)) | PermitError::TooLate => TOO_LATE,
        PermitError::Forked => FORKED,
        _ => INVALID,
    }
}

fn of_class(result: Result<(), ClassError>) -> c_int {
    match result {
        Ok(()) => OK,
        Err(ClassError::Full) => FULL,
        Err(ClassError::NoClass) => CLOSED,
        Err(ClassError::InUse) => IN_USE,
        Err(_) => INVALID,
    }
}

fn op_of(op: c_int) -> Option<Op> {
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Discard];
    usize::try_from(op).ok().and_then(|place| ops.get(place).copied())
}

/// What a handle or a pointer of the caller's points to.
unsafe fn look<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: U1, U2.
    unsafe { pointer.as_ref() }
}

/// Stores a value at `place`, unless that is NULL.
unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: U2.
        unsafe { place.write(value) };
    }
}

/// A structure that begins with its size: reads that many bytes, and takes defaults for the rest;
/// for all of it, if it is NULL.
///
/// # Safety
/// U2, U3; and any bytes are a `T`.
unsafe fn structure<T: Default>(given: *const T) -> T {
    let mut read = T::default();
    // SAFETY: as above.
    unsafe {
        if let Some(size) = look(given.cast::<usize>()) {
            let len = (*size).min(size_of::<T>());
            ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut read).cast::<u8>(), len);
        }
    }
    read
}

/// A path.
unsafe fn path<'a>(text: *const c_char) -> &'a Path {
    // SAFETY: U2.
    Path::new(std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()))
}

/// Writes as much of a text as there is room for, with a 0 at its end; returns its whole length.
unsafe fn tell(text: &str, place: *mut c_char, room: usize) -> usize {
    if !place.is_null() && room > 0 {
        let len = text.len().min(room - 1);
        // SAFETY: U2; `len` and the 0 are within `room`, and our text never overlaps the caller's
        // memory.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr().cast(), place, len);
            place.add(len).write(0);
        }
    }
    text.len()
}

fn answer(asked: Result<Permit, PermitError>) -> (c_int, u64) {
    match asked.map(Permit::into_ticket) {
        Ok(Some(ticket)) => (OK, ticket.bits()),
        Ok(None) => (NOT_OUT, 0),
        Err(error) => (refused(error), 0),
    }
}

/// The time until which to wait; forever, if `most_ns` is that long.
fn until(class: &Class, most_ns: u64) -> Nanos {
    if most_ns == FOREVER { Nanos::MAX } else { class.gate().now() + Nanos(most_ns) }
}

#[unsafe(no_mangle)]
extern "C" fn pn_version() -> u32 {
    VERSION
}

#[unsafe(no_mangle)]
extern "C" fn pn_result_text(result: c_int) -> *const c_char {
    let text = usize::try_from(result).ok().and_then(|place| RESULTS.get(place));
    text.map_or(c"no result of this library".as_ptr(), |text| text.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_open(before: *const c_char, settings: *const CSettings) -> *mut Door {
    // SAFETY: U2, U3; its fields are numbers, and a pointer that is NULL by default.
    let given = unsafe { structure(settings) };
    let or = |value: u32, otherwise: u32| if value == 0 { otherwise } else { value };
    let mut settings = Settings::default();
    settings.permits = or(given.permits, settings.permits);
    settings.asks = or(given.asks, settings.asks);
    settings.classes = or(given.classes, settings.classes);
    settings.rotational = given.flags & ROTATIONAL != 0;
    if given.expires_after_ns != 0 {
        settings.expires_after = Nanos(given.expires_after_ns);
    }
    if !before.is_null() {
        // SAFETY: U2.
        settings.rotational |= Gate::is_rotational(unsafe { path(before) });
    }
    let recording = match given.record.is_null() {
        true => None,
        // SAFETY: U2.
        false => match Recording::create(unsafe { path(given.record) }) {
            Ok(recording) => Some(recording),
            Err(_) => return ptr::null_mut(),
        },
    };
    let gate = match &recording {
        Some(recording) => Gate::recorded(settings, recording.clone()),
        None => Gate::new(settings),
    };
    let gate = if given.flags & NO_HELPER == 0 { gate } else { gate.without_helper() };
    Box::into_raw(Box::new(Door { gate, recording }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_close(gate: *mut Door) {
    if !gate.is_null() {
        // SAFETY: U1: it came from `pn_gate_open`, and the caller no longer has it.
        let door = unsafe { Box::from_raw(gate) };
        // Buffered lines are written to the file, though classes keep the gate alive.
        let _no_answer_to_give = door.recording.as_ref().map(Recording::flush);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_flush(gate: *mut Door) -> c_int {
    // SAFETY: U1.
    let recording = unsafe { look(gate) }.and_then(|door| door.recording.as_ref());
    recording.map_or(INVALID, |recording| recording.flush().map_or(UNREADABLE, |()| OK))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_now(gate: *const Door) -> u64 {
    // SAFETY: U1.
    unsafe { look(gate) }.map_or(0, |gate| gate.now().0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_poll(gate: *mut Door) -> u64 {
    // SAFETY: U1.
    let wait = unsafe { look(gate) }.and_then(|gate| gate.poll());
    wait.map_or(FOREVER, |wait| u64::try_from(wait.as_nanos()).unwrap_or(FOREVER))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_in_all(gate: *const Door, waiting: *mut u32, out: *mut u32) -> c_int {
    // SAFETY: U1.
    let Some(gate) = (unsafe { look(gate) }) else { return INVALID };
    let (waits, are_out) = gate.in_all();
    // SAFETY: U2.
    unsafe {
        put(waiting, waits);
        put(out, are_out);
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_metrics(gate: *const Door, text: *mut c_char, room: usize) -> usize {
    // SAFETY: U1, U2.
    unsafe { look(gate).map_or(0, |gate| tell(&gate.metrics(), text, room)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_explain(
    gate: *const Door,
    most: usize,
    text: *mut c_char,
    room: usize,
) -> usize {
    // SAFETY: U1, U2.
    unsafe { look(gate).map_or(0, |gate| tell(&gate.explain(most), text, room)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_gate_report(gate: *mut Door, text: *mut c_char, room: usize) -> usize {
    // SAFETY: U1.
    let Some(report) = (unsafe { look(gate) }).and_then(|gate| gate.report()) else { return 0 };
    let mut words = String::new();
    let written = write!(words, "{report}");
    debug_assert!(written.is_ok(), "a string takes everything");
    // SAFETY: U2.
    unsafe { tell(&words, text, room) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_class_open(
    gate: *mut Door,
    above: *mut Class,
    name: *const c_char,
    weight: u32,
    kind: c_int,
) -> *mut Class {
    let kinds = [Kind::Normal, Kind::Urgent, Kind::Background, Kind::Idle];
    let kind = usize::try_from(kind).ok().and_then(|place| kinds.get(place).copied());
    // SAFETY: U1.
    let (gate, above) = unsafe { (look(gate), look(above)) };
    let (Some(gate), Some(kind), false) = (gate, kind, name.is_null()) else {
        return ptr::null_mut();
    };
    // SAFETY: U2.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let spec = ClassSpec::new(&name).weight(weight).kind(kind);
    let opened = above.map_or_else(|| gate.class(spec.clone()), |above| above.class(spec.clone()));
    opened.map_or(ptr::null_mut(), |class| Box::into_raw(Box::new(class)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_class_set_weight(class: *mut Class, weight: u32) -> c_int {
    // SAFETY: U1.
    unsafe { look(class) }.map_or(INVALID, |class| of_class(class.set_weight(weight)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_class_set_rates(class: *mut Class, rates: *const CRates) -> c_int {
    // SAFETY: U1.
    let Some(class) = (unsafe { look(class) }) else { return INVALID };
    // SAFETY: U2, U3; its fields are numbers.
    let given = unsafe { structure(rates) };
    let cap = Rate { bytes: given.cap_bytes, requests: given.cap_requests };
    let floor = Rate { bytes: given.floor_bytes, requests: given.floor_requests };
    of_class(class.set_rates(cap, floor))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_class_close(class: *mut Class) -> c_int {
    // SAFETY: U1.
    let result = unsafe { look(class) }.map_or(INVALID, |class| of_class(class.close()));
    if result == OK {
        // SAFETY: U1: it came from `pn_class_open`, and the caller no longer has it.
        drop(unsafe { Box::from_raw(class) });
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_class_counts(class: *const Class, counts: *mut CCounts) -> c_int {
    // SAFETY: U1, U2: its size is the first field.
    let (class, size) = unsafe { (look(class), look(counts.cast::<usize>())) };
    let (Some(class), Some(size)) = (class, size) else { return INVALID };
    let Some(own) = class.counts() else { return CLOSED };
    let Counts { asked, granted, given_back, expired, withdrawn, too_late, bytes, .. } = own;
    let (device_time, waited) = (own.device_time.0, own.waited.0);
    let figures =
        [asked, granted, given_back, expired, withdrawn, too_late, bytes, device_time, waited];
    let filled = CCounts { size: *size, figures };
    let len = filled.size.min(size_of::<CCounts>());
    // SAFETY: U3: no more bytes are written than the caller says there are.
    unsafe {
        ptr::copy_nonoverlapping((&raw const filled).cast::<u8>(), counts.cast::<u8>(), len);
    }
    OK
}

/// Asks in this way, and stores the permit for the caller.
unsafe fn ask(
    class: *const Class,
    op: c_int,
    permit: *mut u64,
    ask: impl FnOnce(&Class, Op) -> Result<Permit, PermitError>,
) -> c_int {
    // SAFETY: U1.
    let class = unsafe { look(class) };
    let (Some(class), Some(op), false) = (class, op_of(op), permit.is_null()) else {
        return INVALID;
    };
    let (result, number) = answer(ask(class, op));
    // SAFETY: U2.
    unsafe { put(permit, number) };
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_permit_wait(
    class: *mut Class,
    op: c_int,
    len: u64,
    most_ns: u64,
    permit: *mut u64,
) -> c_int {
    // SAFETY: U1, U2.
    unsafe { pn_permit_wait_at(class, op, ANYWHERE, len, most_ns, permit) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_permit_wait_at(
    class: *mut Class,
    op: c_int,
    offset: u64,
    len: u64,
    most_ns: u64,
    permit: *mut u64,
) -> c_int {
    let wait = |class: &Class, op| {
        let ask = Ask::new(op, len).until(until(class, most_ns));
        class.permit_for(if offset == ANYWHERE { ask } else { ask.at(offset) })
    };
    // SAFETY: U1, U2.
    unsafe { ask(class, op, permit, wait) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_permit_by(
    class: *mut Class,
    op: c_int,
    len: u64,
    most_ns: u64,
    permit: *mut u64,
) -> c_int {
    // SAFETY: U1, U2.
    unsafe {
        ask(class, op, permit, |class, op| class.permit_by(op, len, Duration::from_nanos(most_ns)))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_permit_try(
    class: *mut Class,
    op: c_int,
    len: u64,
    permit: *mut u64,
) -> c_int {
    // SAFETY: U1, U2.
    unsafe {
        ask(class, op, permit, |class, op| class.try_permit(op, len).ok_or(PermitError::TooLate))
    }
}

/// What a callback is called with.
struct Context(*mut c_void);

// SAFETY: U4.
unsafe impl Send for Context {}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_permit_async(
    class: *mut Class,
    op: c_int,
    len: u64,
    most_ns: u64,
    granted: Granted,
    context: *mut c_void,
) -> c_int {
    // SAFETY: U1.
    let class = unsafe { look(class) };
    let (Some(class), Some(op), Some(granted)) = (class, op_of(op), granted) else {
        return INVALID;
    };
    let context = Context(context);
    let then = move |permit| {
        // Moves the whole struct into the closure, not just the pointer in it.
        let Context(context) = { context };
        let (result, number) = answer(permit);
        // SAFETY: U4; the caller passed this function to be called this way.
        unsafe { granted(context, result, number) };
    };
    let asked = class.permit_then(Ask::new(op, len).until(until(class, most_ns)), then);
    asked.map_or_else(refused, |()| OK)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_permit_give_back(gate: *mut Door, permit: u64) -> c_int {
    // SAFETY: U1.
    let Some(gate) = (unsafe { look(gate) }) else { return INVALID };
    gate.give_back(Ticket::from_bits(permit)).map_or(NOT_OUT, |()| OK)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pn_class_eta(
    class: *const Class,
    op: c_int,
    len: u64,
    permit_ns: *mut u64,
    done_ns: *mut u64,
) -> c_int {
    // SAFETY: U1.
    let class = unsafe { look(class) };
    let (Some(class), Some(op)) = (class, op_of(op)) else { return INVALID };
    let Some((permit, done)) = class.eta(op, len) else { return CLOSED };
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: U2.
    unsafe {
        put(permit_ns, nanos(permit));
        put(done_ns, nanos(done));
    }
    OK
}

const _: () = assert!(
    size_of::<CSettings>() == 40 && size_of::<CRates>() == 40 && size_of::<CCounts>() == 80
);
