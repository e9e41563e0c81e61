// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads, tasks and callbacks: do they get their permits, and is nothing kept of them afterwards?
//! No times are checked.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use paternoster_gate::{
    Ask, AskError, Class, ClassSpec, Core, Gate, Nanos, Op, PermitError, Report, Settings,
};

const READ: Ask = Ask::new(Op::Read, 4096);

fn one_at_a_time() -> (Gate, Class) {
    let gate = Gate::new(Settings { permits: 1, ..Settings::default() });
    let class = gate.class(ClassSpec::new("a")).unwrap();
    (gate, class)
}

/// Do sixteen threads of two classes get all their permits, never more at a time than there are,
/// and is nothing kept afterwards?
#[test]
fn threads() {
    let gate = Gate::new(Settings { permits: 3, ..Settings::default() });
    let classes = ["a", "b"].map(|name| gate.class(ClassSpec::new(name)).unwrap());
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|threads| {
        for place in 0..16 {
            let (class, inside, most) = (&classes[place % 2], &inside, &most);
            threads.spawn(move || {
                for _ in 0..50 {
                    let permit = class.permit(Op::Read, 4096).unwrap();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 3);
    assert_eq!(gate.in_all(), (0, 0));
    for class in classes {
        assert_eq!(class.counts().unwrap().given_back, 8 * 50);
    }
    gate.check().unwrap();
}

/// Does a waiting thread give up when its time is over, and is that reported?
#[test]
fn a_wait_has_an_end() {
    let (gate, class) = one_at_a_time();
    let held = class.permit(Op::Read, 4096).unwrap();
    let most = Duration::from_millis(5);
    let other = class.clone();
    let waits = thread::spawn(move || other.permit_within(Op::Read, 4096, most).map(drop));
    assert_eq!(waits.join().unwrap(), Err(PermitError::TooLate));
    assert!(class.try_permit(Op::Read, 4096).is_none());
    drop(held);
    drop(class.try_permit(Op::Read, 4096).unwrap());
    assert_eq!(gate.in_all(), (0, 0));
    let counts = class.counts().unwrap();
    assert_eq!((counts.too_late, counts.withdrawn, counts.given_back), (1, 1, 2));
}

/// Is an ask that cannot be in time refused at once, without waiting? Permits were held for 20 ms.
#[test]
fn too_late_is_said_at_once() {
    let (_gate, class) = one_at_a_time();
    for _ in 0..3 {
        let permit = class.permit(Op::Read, 4096).unwrap();
        thread::sleep(Duration::from_millis(20));
        drop(permit);
    }
    let asked = class.permit_by(Op::Read, 4096, Duration::from_millis(1));
    assert!(matches!(asked, Err(PermitError::Refused(AskError::TooLate(_)))), "{asked:?}");
    let (permit, done) = class.eta(Op::Read, 4096).unwrap();
    assert!(permit <= done && done >= Duration::from_millis(20), "{permit:?} {done:?}");
}

/// Does the permit of a thread that ended without giving it back expire, is that reported, and does
/// it go to a thread that waits without a limit?
#[test]
fn what_a_thread_leaves_behind_expires() {
    let expires_after = Nanos::from_millis(10);
    let gate = Gate::new(Settings { permits: 1, expires_after, ..Settings::default() });
    let class = gate.class(ClassSpec::new("a")).unwrap();
    let other = class.clone();
    thread::spawn(move || std::mem::forget(other.permit(Op::Read, 4096))).join().unwrap();
    let permit = class.permit(Op::Read, 4096).unwrap();
    assert!(matches!(gate.report(), Some(Report::Expired { .. })));
    thread::sleep(Duration::from_millis(11));
    // It is late itself; nothing had to notice until it came back.
    let _late = permit.give_back();
    assert_eq!(gate.in_all(), (0, 0));
}

/// Is a thread that asks while it holds a permit reported, but not one that asks for its next?
#[test]
fn a_thread_that_holds_and_waits() {
    let gate = Gate::new(Settings::default());
    let class = gate.class(ClassSpec::new("a")).unwrap();
    drop(class.permit(Op::Read, 1).unwrap());
    let first = class.permit(Op::Read, 1).unwrap();
    assert_eq!(gate.report(), None);
    let second = class.permit(Op::Read, 1).unwrap();
    assert!(matches!(gate.report(), Some(Report::HolderWaits { .. })));
    drop((first, second));
}

/// A waker that counts, and that a test can wait for.
#[derive(Default)]
struct Bell(Mutex<u32>, Condvar);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }
}

impl Bell {
    fn block_on<F: Future>(self: &Arc<Bell>, future: F) -> F::Output {
        let waker = Waker::from(Arc::clone(self));
        let mut future = pin!(future);
        loop {
            let rung = *self.0.lock().unwrap();
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            let guard = self.0.lock().unwrap();
            drop(self.1.wait_while(guard, |now| *now == rung).unwrap());
        }
    }
}

/// Does a task get its permit when another is given back, and by the helper when one expires; and
/// does one that is dropped leave nothing behind?
#[test]
fn tasks() {
    let expires_after = Nanos::from_millis(10);
    let gate = Gate::new(Settings { permits: 1, expires_after, ..Settings::default() });
    let class = gate.class(ClassSpec::new("a")).unwrap();
    let bell = Arc::new(Bell::default());
    std::mem::forget(class.permit(Op::Read, 4096));
    // It is not given back, and no thread is blocked in the gate: the helper wakes the task.
    drop(bell.block_on(class.permit_async(READ)).unwrap());
    gate.check().unwrap();
    // From here on nothing may expire, however long this thread is kept from the processor.
    let (gate, class) = one_at_a_time();
    let permit = class.permit(Op::Read, 4096).unwrap();
    {
        let waker = Waker::from(Arc::clone(&bell));
        let mut dropped = Box::pin(class.permit_async(READ));
        assert!(dropped.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(gate.in_all().0, 1);
    }
    assert_eq!(gate.in_all().0, 0);
    drop(permit);
    let late = class.permit_async(READ.until(gate.now()));
    assert!(bell.block_on(late).is_ok(), "there was one at once");
    drop(class.permit_async(READ));
    gate.check().unwrap();
}

/// Does a task that was woken and not polled again hold nothing once it is dropped?
#[test]
fn a_task_dropped_with_its_permit_gives_it_back() {
    let (gate, class) = one_at_a_time();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let held = class.permit(Op::Read, 4096).unwrap();
    let mut task = Box::pin(class.permit_async(READ));
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(held);
    assert_eq!((*bell.0.lock().unwrap(), gate.in_all()), (1, (0, 1)));
    drop(task);
    assert_eq!(gate.in_all(), (0, 0));
}

/// Are functions called with their permits, one after the other, and with an error when it is too
/// late; without a helper, by the thread that polls?
#[test]
fn functions() {
    let gate = Gate::new(Settings { permits: 1, ..Settings::default() }).without_helper();
    let class = gate.class(ClassSpec::new("a")).unwrap();
    let (told, was_told) = channel();
    let held = class.permit(Op::Read, 4096).unwrap();
    for number in 0..3 {
        let told = told.clone();
        let then = move |permit: Result<_, _>| {
            told.send((number, permit.map(drop))).unwrap();
        };
        class.permit_then(READ, then).unwrap();
    }
    let then = move |permit: Result<_, _>| told.send((9, permit.map(drop))).unwrap();
    class.permit_then(READ.until(gate.now() + Nanos::from_millis(1)), then).unwrap();
    while let Some(wait) = gate.poll().filter(|wait| *wait < Duration::from_secs(1)) {
        thread::sleep(wait);
    }
    assert_eq!(was_told.recv().unwrap(), (9, Err(PermitError::TooLate)));
    drop(held);
    let mut others: Vec<_> = was_told.iter().take(3).collect();
    others.sort_unstable_by_key(|(number, _)| *number);
    assert_eq!(others, [(0, Ok(())), (1, Ok(())), (2, Ok(()))]);
    assert_eq!(gate.in_all(), (0, 0));
}

/// Does the rest of the interface work: classes below, weights, words, figures, closing?
#[test]
fn the_rest_of_the_face() {
    let (gate, class) = one_at_a_time();
    let below = class.class(ClassSpec::new("b").weight(7)).unwrap();
    below.set_weight(9).unwrap();
    drop(below.permit_for(READ.at(1 << 20)).unwrap());
    assert!(gate.metrics().contains("paternoster_gate_granted_total{class=\"b\"} 1\n"));
    assert_eq!(gate.explain(9), "");
    assert!(class.close().is_err());
    below.close().unwrap();
    let asked = below.permit(Op::Read, 1);
    assert_eq!(asked.map(drop), Err(PermitError::Refused(AskError::NoClass)));
    assert_eq!(below.counts(), None);
    class.close().unwrap();
}

/// Written by several threads, and read meanwhile.
#[derive(Debug, Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Does a recording of eight threads in arbitrary order replay: each answer, and 50 permits for
/// each of the four threads of each class?
#[test]
fn a_recording_of_threads_is_done_again() {
    let bytes = Bytes::default();
    let gate = Gate::recorded(Settings { permits: 3, ..Settings::default() }, bytes.clone());
    let classes = ["a", "b"].map(|name| gate.class(ClassSpec::new(name)).unwrap());
    thread::scope(|threads| {
        for place in 0..8 {
            let class = &classes[place % 2];
            threads.spawn(move || (0..50).for_each(|_| drop(class.permit(Op::Read, 4096))));
        }
    });
    let text = String::from_utf8(bytes.0.lock().unwrap().clone()).unwrap();
    let (again, lines) = Core::replay(&text, usize::MAX).unwrap();
    assert_eq!(lines, text.lines().count());
    let mut figures = String::new();
    again.metrics(&mut figures).unwrap();
    for class in ["a", "b"] {
        let line = format!("paternoster_gate_given_back_total{{class=\"{class}\"}} 200\n");
        assert!(figures.contains(&line), "{figures}");
    }
    // Half of it gives a gate, too.
    assert!(Core::replay(&text, lines / 2).is_ok_and(|(_, read)| read == lines / 2));
}
