# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does a scheduler in Python behave like ours: same decisions, same figures, laws kept or
violations named?"""

import bisect
import collections
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest
from conftest import DEVICES, documents, jobs, program
from hypothesis import given
from hypothesis import strategies as st

import paternoster_io as pt
from paternoster_io import _native


class Fifo(pt.Elevator):
    """First come, first served."""

    def __init__(self):
        self.waiting = collections.deque()
        self.ended = 0

    def insert(self, request, at_head):
        (self.waiting.appendleft if at_head else self.waiting.append)(request)

    def pick(self, now_ns):
        return self.waiting.popleft() if self.waiting else None

    def completed(self, request, now_ns, served_ns):
        self.ended += 1


class Elevating(pt.Elevator):
    """Serves upwards by sector, then from the lowest again; every call is recorded."""

    name = "elevating"
    told: collections.Counter = collections.Counter()

    def __init__(self):
        self.waiting, self.at = [], 0

    def attach(self, device):
        assert device["depth"] >= 1 and device["capacity_sectors"] > 0
        self.told["attach"] += 1

    def insert(self, request, at_head):
        request.place = (request.sector, id(request))
        bisect.insort(self.waiting, request, key=lambda it: it.place)
        self.told["insert"] += 1

    def pick(self, now_ns):
        place = bisect.bisect_left(self.waiting, self.at, key=lambda it: it.place[0])
        request = self.waiting.pop(place % len(self.waiting))
        self.at = request.end
        return request

    def removed(self, request):
        self.waiting.remove(request)
        self.told["removed"] += 1

    def started(self, request):
        self.told["started"] += 1

    def completed(self, request, now_ns, served_ns):
        assert now_ns >= request.arrived_ns and served_ns > 0
        self.told["completed"] += 1


@given(drawn=jobs(), device=st.sampled_from(DEVICES), seed=st.integers(0, 1000))
def test_every_request_of_a_drawn_job_is_served_once(drawn, device, seed):
    """Do schedulers in Python serve what `noop` serves, in the same `run`, on any device?"""
    result = pt.run(drawn, device=device, scheduler=["noop", Fifo, Elevating], seeds=seed)
    rows = result.clients.rows()
    of = {
        name: [(row["job"], row["direction"], row["ios"], row["bytes"]) for row in rows
               if row["scheduler"] == name]
        for name in ("noop", "fifo", "elevating")
    }  # fmt: skip
    assert of["noop"] == of["fifo"] == of["elevating"]


def test_equal_seeds_give_equal_digests(small):
    """Is a run with a scheduler in Python repeatable, event by event?"""
    digests = {pt.run(small, scheduler=Fifo).runs["digest"][0] for _ in range(3)}
    assert len(digests) == 1


def test_a_scheduler_is_told_what_happens(small):
    """Is a request inserted, started and completed, once each, and does it carry its attributes?"""
    Elevating.told.clear()
    pt.run(small, device="ssd-870evo", scheduler=Elevating, entitlement=False)
    assert {Elevating.told[what] for what in ("insert", "started", "completed")} == {256}


def test_order_by_sector_is_faster_on_a_disk():
    """Does a scheduler that saves seeks serve more random reads at a large depth on a disk than a
    FIFO?"""
    job = pt.Job(
        "a", rw="randread", bs="4k", size="400g", direct=1, ioengine="libaio", iodepth=64,
        runtime=20, time_based=1,
    )  # fmt: skip
    # With this disk's queue alone, two requests would wait.
    result = pt.run(
        job, device="hdd-7200-no-ncq", scheduler=[Fifo, Elevating], set="nr_requests=128",
        entitlement=False,
    )  # fmt: skip
    fifo, elevating = result.clients["iops"]
    assert elevating > 1.2 * fifo


class Broken(Fifo):
    """The base of the broken schedulers: they go wrong from the tenth pick on."""

    picks = 0

    def pick(self, now_ns):
        self.picks += 1
        return super().pick(now_ns) if self.picks < 10 else self.wrong(now_ns)


class Loses(Broken):
    def wrong(self, now_ns):
        self.waiting.clear()


class Doubles(Broken):
    last = None

    def pick(self, now_ns):
        self.last = super().pick(now_ns)
        return self.last

    def wrong(self, now_ns):
        return self.last


class Lies(Broken):
    def wrong(self, now_ns):
        return 42


class Oversleeps(Broken):
    def wrong(self, now_ns):
        return pt.Idle(now_ns)


class Raises(Broken):
    def wrong(self, now_ns):
        raise ZeroDivisionError("of its own")


@pytest.mark.parametrize(
    ("scheduler", "law"),
    [
        (Loses, "scheduler loses: I2: pick gave none though 1 requests wait here"),
        (Doubles, "scheduler doubles: I1: pick gave <Request read .*>, which does not wait here"),
        (Lies, "scheduler lies: I1: pick gave 42, which is no request"),
        (Oversleeps, r"scheduler oversleeps: I2: Idle\(\d+\) is no later than now"),
    ],
)
def test_a_broken_law_is_named(small, scheduler, law):
    """Does a scheduler that loses, repeats or invents requests, or oversleeps, get an exception
    that names the law, and is the next run unaffected?"""
    with pytest.raises(pt.ElevatorError, match=law):
        pt.run(small, device="null", scheduler=["noop", scheduler])
    assert pt.run(small, device="null", scheduler=Fifo).clients["ios"] == [256]


def test_an_exception_of_its_own_comes_out(small):
    """Does an exception in a method end the run, and is that exception raised?"""
    with pytest.raises(ZeroDivisionError, match="of its own"):
        pt.run(small, scheduler=Raises)

    class Unmade(Fifo):
        def __init__(self):
            raise LookupError("no")

    with pytest.raises(LookupError):
        pt.run(small, scheduler=Unmade)


def test_idle_is_kept(small):
    """Does a request that a scheduler holds back for a millisecond wait that long?"""

    class Slow(Fifo):
        def pick(self, now_ns):
            until = self.waiting[0].arrived_ns + 1_000_000
            return pt.Idle(until) if now_ns < until else super().pick(now_ns)

    result = pt.run(small, device="null", scheduler=["noop", Slow], entitlement=False)
    noop, slow = result.clients["mean_ns"]
    assert slow - noop == pytest.approx(1_000_000, rel=0.01)


def test_withdrawn_requests_are_passed_over():
    """Does a class without `removed` work where requests are merged, under a sequential writer of 4
    KiB through the page cache?"""
    job = pt.Job("a", rw="write", bs="4k", size="4m", end_fsync=1)
    result = pt.run(job, device="hdd-7200", scheduler=["noop", Fifo])
    assert result.clients["bytes"] == [4 << 20] * 2


def test_names_are_checked(small):
    """Are a class with the name of a built-in scheduler, a class without `pick`, and an object that
    is no scheduler refused?"""

    class Bfq(Fifo):
        pass

    class Half(pt.Elevator):
        def insert(self, request, at_head): ...

    for wrong, why in [
        (Bfq, "there is a scheduler `bfq` already"),
        (Half, "the class has no method `pick`"),
        (int, "is no scheduler"),
        ([Fifo()], "is no scheduler"),
    ]:
        with pytest.raises(pt.RequestError, match=why):
            pt.run(small, scheduler=wrong)


def test_a_scheduler_is_compared(small):
    """Does `compare` take a class together with built-in schedulers?"""
    job = pt.Job("a", **{**small.options, "runtime": "50ms", "size": "64m"})
    advice = pt.compare(job, device="ssd-870evo", scheduler=["noop", Fifo], seeds=2)
    tried = {row["scheduler"] for row in advice.document["schedulers"]}
    assert tried == {"noop", "fifo"}


def test_torture_judges_a_class():
    """Is a class tested under random loads like `noop`, without losing requests and repeatably, and
    does a class that loses requests raise its exception there too?"""
    told = program("torture", "-q", "--scheduler=noop", "--cases=3", "--format=json")
    assert [pt.torture("noop", cases=3).document] == documents(told.stdout)
    judged = pt.torture(Fifo, cases=3)
    assert [row["scheduler"] for row in judged.document["schedulers"]] == ["fifo"]
    # A FIFO may starve clients, but its sums are right and it is repeatable.
    assert not {"sums", "repeats"} & {one["law"] for one in judged.found}
    with pytest.raises(pt.ElevatorError, match="scheduler loses: I2"):
        pt.torture(Loses, cases=1)


def test_calls_of_threads_leave_each_other_alone():
    """Do concurrent calls from several threads, with built-in schedulers, Python schedulers, and
    one that loses requests, end as they do alone?"""
    job = pt.Job("a", rw="randread", bs="4k", size="2m", direct=1)
    kinds = ["bfq", Fifo, Loses]

    def call(place: int) -> str:
        try:
            return pt.run(job, scheduler=kinds[place % 3]).runs["digest"][0]
        except pt.ElevatorError as error:
            return str(error)

    alone = [call(place) for place in range(3)]
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        assert list(threads.map(call, range(30))) == alone * 10


#: Whether the wheel was made with the feature `planted-bugs`, as `checks/python.sh` does.
PLANTED = hasattr(_native, "planted_bugs")


class Panics(Fifo):
    """A bug that this module plants in the package when it makes the object."""

    _planted_panic = "planted"


class Waits(Fifo):
    """Keeps its requests forever."""

    def pick(self, now_ns):
        return pt.Idle(2**64 - 1)


@pytest.mark.skipif(not PLANTED, reason="panics: the wheel has no feature planted-bugs")
@pytest.mark.parametrize(
    "call",
    [
        lambda job: pt.run(job, scheduler=["noop", Panics]),
        lambda job: pt.run(job, scheduler="panics", seeds=range(3)),
        lambda job: pt.compare(job, device="null", scheduler=["noop", Panics], seeds=1),
        # On Rust's own threads, which have no Python thread state.
        lambda job: pt.compare(job, device="null", scheduler=["noop", "panics"], seeds=2),
        lambda _: pt.torture(Panics, cases=1),
    ],
)
def test_no_panic_crosses(small, call):
    """Does a panic in any call become an `Error` with its message, which `except Exception`
    catches, and does the next call work?"""
    with pytest.raises(pt.ElevatorError, match="scheduler loses: I2"):
        pt.run(small, scheduler=Loses)
    with contextlib.suppress(pt.Error):
        pt.run(small, scheduler=Panics)  # from here on it can be chosen by its name
    with pytest.raises(Exception, match="panic: planted") as caught:
        call(pt.Job("a", **{**small.options, "runtime": "50ms", "size": "64m"}))
    assert type(caught.value) is pt.Error
    first, second = (pt.run(small, scheduler=Fifo).runs["digest"] for _ in "ab")
    assert first == second


def test_what_goes_wrong_in_a_row_is_its_error(small):
    """Does a panic, a broken law or any exception in a class become the error of its row, and are
    the other rows as they are alone?"""

    class Raises(Fifo):
        def pick(self, now_ns):
            raise LookupError("nö\udcff")

    class Leaves(Fifo):
        def insert(self, request, at_head):
            raise SystemExit(3)

    job = "[a]\nrw=randread\nbs=4k\nsize=1m\ndirect=1\n"
    wrong = {
        Panics: "Error: a bug, in Paternoster or in a scheduler of your own: panic: planted",
        Loses: "ElevatorError: scheduler loses: I2: pick gave none though ",
        Raises: "LookupError: nö",
        Leaves: "SystemExit: 3",
        Waits: "RequestError: at ",
    }
    if not PLANTED:
        del wrong[Panics]
    good = {"job": job, "scheduler": "bfq"}
    rows = [row for kind in wrong for row in ({"job": job, "scheduler": kind}, good)]
    found = pt.run_rows([*rows, {"job": job, "scheduler": Fifo}]).rows()
    alone = pt.run_rows([good]).rows()[0]
    for kind, row, beside in zip(wrong, found[::2], found[1::2], strict=False):
        assert row["error"].startswith(wrong[kind]) and row["digest"] is None
        assert row["scheduler"] == kind.__name__.lower()
        assert {**beside, "cost_ns": 0} == {**alone, "cost_ns": 0}
    result = pt.run(small, scheduler=Fifo, device="ssd-870evo")
    assert (found[-1]["error"], found[-1]["ios"]) == (None, 256)
    assert found[-1]["max_ns"] == max(result.clients["max_ns"])


@pytest.mark.skipif(not PLANTED, reason="panics: the wheel has no feature planted-bugs")
def test_a_panic_of_a_row_is_told_once():
    """Does a panic print nothing on stderr, given that its row's error has its message and
    location?"""
    script = (
        "import paternoster_io as pt, test_elevators as own\n"
        "row = {'job': '[a]\\nrw=read\\nsize=64k\\n', 'scheduler': own.Panics}\n"
        "print(pt.run_rows([row, row])['error'])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "RUST_BACKTRACE": "0", "PYTHONPATH": os.path.dirname(__file__)},
    )  # fmt: skip
    assert (told.stdout.count("panic: planted ("), told.stderr) == (2, "")


def test_a_class_may_have_any_method():
    """May a row's scheduler be a class with a method `item`, as numbers of other libraries have,
    and does a class that is no scheduler become its row's error, whatever its attributes?"""

    class Items(Fifo):
        def item(self):
            return "a thing of its own"

    class Foreign:
        item = Items.item

    job = "[a]\nrw=randread\nbs=4k\nsize=64k\ndirect=1\n"
    rows = [{"job": job, "scheduler": kind} for kind in (Items, Foreign, Fifo)]
    own, foreign, plain = pt.run_rows(rows).rows()
    assert (own["error"], own["scheduler"]) == (None, "items")
    assert (own["ios"], own["max_ns"]) == (plain["ios"], plain["max_ns"])
    assert foreign["digest"] is None and "Foreign" in foreign["error"]


def test_ctrl_c_ends_rows_under_a_class():
    """Does SIGINT end all rows, whereas an exception in a class ends only its own row?"""
    job = "[a]\nrw=randread\nbs=4k\nsize=1g\ndirect=1\nruntime=1000h\ntime_based=1\n"
    rows = [{"job": job, "device": "null", "scheduler": kind} for kind in (Loses, Fifo, "noop")]
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        pt.run_rows(rows)
    timer.join()


def test_torture_ends(small):
    """Is a class that keeps its requests forever found to starve clients, and does SIGINT end the
    random loads in the middle?"""
    judged = pt.torture(Waits, cases=1)
    assert [one["law"] for one in judged.found] == ["waits"]
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        pt.torture("bfq", cases=1_000_000)
    timer.join()


def test_ctrl_c_ends_a_run_in_python():
    """Does SIGINT end a long run under a scheduler in Python?"""
    job = pt.Job("a", rw="randread", bs="4k", size="1g", direct=1, runtime="1000h", time_based=1)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        pt.run(job, device="null", scheduler=Fifo, entitlement=False)
    timer.join()
