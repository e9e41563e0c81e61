# SPDX-License-Identifier: MIT OR Apache-2.0
"""Are permits granted in fair order, to threads and tasks, and given back whatever happens?"""

import asyncio
import threading
import time

import pytest

import paternoster_io as pt


def out(of: pt.GateClass) -> int:
    """How many permits are out."""
    counts = of.counts()
    return counts["granted"] - counts["given_back"]


def all_of(gate: pt.Gate, of: pt.GateClass) -> list[pt.Permit]:
    """Takes permits until none is available at once."""
    held = []
    while (permit := of.try_permit("read", 4096)) is not None:
        held.append(permit)
    return held


def test_a_permit_is_given_back():
    """Is a permit held inside the `with`, and given back after it, even if the I/O fails?"""
    gate = pt.Gate()
    reads = gate.open("reads", weight=400)
    with reads.permit("read", 4096):
        assert out(reads) == 1
    with pytest.raises(OSError, match="a scratch"), gate.permit("reads", "write", 512, offset=0):
        raise OSError("a scratch")
    assert out(reads) == 0
    counts = reads.counts()
    assert (counts["granted"], counts["given_back"], counts["bytes"]) == (2, 2, 4608)
    permit = reads.try_permit("flush", 0)
    assert permit is not None and permit.give_back() and not permit.give_back()
    del permit
    lost = reads.try_permit("read", 1)
    assert out(reads) == 1
    del lost
    assert out(reads) == 0
    assert "reads" in gate.metrics()
    permit_in, done_in = reads.eta("read", 4096)
    assert 0 <= permit_in <= done_in


def test_threads_go_on_while_one_waits():
    """Is the GIL free while a thread waits for a permit, and does that thread get the next one?"""
    gate = pt.Gate()
    reads = gate.open("reads")
    held = all_of(gate, reads)
    entered = threading.Event()

    def wait():
        with reads.permit("read", 4096):
            entered.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while reads.counts()["asked"] < len(held) + 1:
        time.sleep(0.001)
    # This thread runs while the other one waits.
    assert not entered.is_set()
    held.pop().give_back()
    assert entered.wait(10)
    thread.join(10)
    while held:
        held.pop().give_back()
    assert out(reads) == 0


def test_tasks_wait_together():
    """Do many tasks of one loop get permits, and does a cancelled one leave nothing behind?"""
    gate = pt.Gate()
    reads = gate.open("reads")

    async def one(done: list[int], number: int):
        async with reads.permit("read", 4096):
            await asyncio.sleep(0)
            done.append(number)

    async def main() -> list[int]:
        held = all_of(gate, reads)
        done: list[int] = []
        tasks = [asyncio.create_task(one(done, number)) for number in range(50)]
        given_up = asyncio.create_task(one([], 0))
        await asyncio.sleep(0)
        given_up.cancel()
        for permit in held:
            permit.give_back()
        await asyncio.gather(*tasks)
        with pytest.raises(asyncio.CancelledError):
            await given_up
        return done

    assert sorted(asyncio.run(main())) == list(range(50))
    deadline = time.monotonic() + 10
    while out(reads) > 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert out(reads) == 0


def test_times_are_kept():
    """Is TooLate raised if a permit does not come in time, for a thread and for a task?"""
    gate = pt.Gate()
    reads = gate.open("reads")
    held = all_of(gate, reads)
    with pytest.raises(pt.TooLate), reads.permit("read", 4096, within=0.02):
        pass
    with pytest.raises(TimeoutError), reads.permit("read", 4096, by=1e-9):
        pass

    async def main():
        async with reads.permit("read", 4096, within=0.02):
            pass

    with pytest.raises(pt.TooLate):
        asyncio.run(main())
    assert reads.counts()["too_late"] >= 1
    assert gate.explain() is not None and len(held) > 0


def test_many_threads_end():
    """Do 32 threads of two classes, with and without a child class, all get their permits?"""
    gate = pt.Gate()
    heavy = gate.open("heavy", weight=400)
    classes = [heavy, heavy.open("below", kind="background"), gate.open("light")]

    def work(of: pt.GateClass):
        for _ in range(20):
            with of.permit("read", 4096):
                pass

    threads = [threading.Thread(target=work, args=(of,)) for of in classes for _ in range(11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [of.counts()["given_back"] for of in classes] == [220] * 3


def test_rates_hold():
    """Does a class with a cap of 50 a second get at most its burst at once, 5 plus one; and does a
    class with a floor get its next permit at once against a flood of 10,000 times its weight?"""
    gate = pt.Gate()
    capped = gate.open("capped")
    capped.set_rates(cap_requests=50)
    began, had = time.monotonic(), 0
    while time.monotonic() < began + 0.3:
        if (permit := capped.try_permit("read", 4096)) is not None:
            had += permit.give_back()
    # However late this thread runs: 50 a second, plus 5 at once, plus one.
    assert 1 <= had <= 6 + 50 * (time.monotonic() - began)
    capped.set_rates()
    assert all(capped.try_permit("read", 4096) is not None for _ in range(100))
    below = capped.open("below")
    with pytest.raises(pt.RequestError, match="without a floor"):
        capped.set_rates(floor_bytes=1)
    below.set_rates(floor_bytes=1 << 20, floor_requests=10)
    with below.permit("read", 4096):
        assert out(below) == 1
    with pytest.raises(OverflowError):
        below.set_rates(cap_bytes=-1)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda gate: gate.open("x", kind="fast"), 'kind "fast": normal, urgent, background'),
        (lambda gate: gate.permit("x", "read", 1), "no class 'x' was opened"),
        (lambda gate: gate.open("x").permit("raed", 1).__enter__(), 'op "raed": read, write'),
        (lambda gate: gate.open("x").permit("read", 1, within=-1).__enter__(), "within -1"),
    ],
)
def test_wrong_asks_are_refused(ask, said):
    """Does each mistake get a clear message?"""
    with pytest.raises(pt.Error, match=said):
        ask(pt.Gate())
