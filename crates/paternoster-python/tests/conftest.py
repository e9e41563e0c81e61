# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests share: the program in a process of its own, and random jobs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from plans import DEVICES as PLANNED_DEVICES
from plans import JOBS
from plans import SCHEDULERS as PLANNED_SCHEDULERS

import paternoster_io as pt
from paternoster_io import sweeps

# A shell starts background processes with SIGINT ignored; then no signal would end a run.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same cases every time; PATERNOSTER_PYTHON_CASES asks for more.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=int(os.environ.get("PATERNOSTER_PYTHON_CASES", "25")),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("repeatable")

#: Devices that are quick to simulate, and schedulers of each kind.
DEVICES = ["null", "ssd-870evo", "nvme-pm9a3", "hdd-7200"]
SCHEDULERS = ["none", "mq-deadline", "kyber", "bfq", "bfq:low_latency=0", "cfq", "paternoster"]


def program(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program in the package, in a process of its own."""
    command = [sys.executable, "-m", "paternoster_io", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def documents(text: str) -> list[dict]:
    """JSON documents, one after another."""
    found, decoder = [], json.JSONDecoder()
    text = text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].strip()
    return found


@st.composite
def jobs(draw) -> list[pt.Job]:
    """One to three fio jobs that end soon on any device."""

    def job(place: int) -> pt.Job:
        rw = draw(st.sampled_from(["read", "write", "randread", "randwrite", "randrw", "rw"]))
        options = {
            "rw": rw,
            "bs": draw(st.sampled_from(["4k", "16k", "128k"])),
            "size": draw(st.sampled_from(["256k", "1m", "3m"])),
            "direct": draw(st.sampled_from([0, 1, 1])),
            "ioengine": draw(st.sampled_from(["sync", "libaio"])),
            "iodepth": draw(st.sampled_from([1, 4, 32])),
            "numjobs": draw(st.integers(1, 2)),
            "fsync": draw(st.sampled_from([None, 8])),
            "thinktime": draw(st.sampled_from([None, 100])),
            "prioclass": draw(st.sampled_from([None, 2, 3])),
            "randrepeat": draw(st.integers(0, 1)),
        }
        return pt.Job(f"job{place}", **options)

    return [job(place) for place in range(draw(st.integers(1, 3)))]


@pytest.fixture
def small() -> pt.Job:
    """256 reads of 4 KiB."""
    return pt.Job("a", rw="randread", bs="4k", size="1m", direct=1)


@pytest.fixture(scope="session")
def plan() -> pt.Table:
    """240 rows: four jobs of 20 ms, twelve devices, five schedulers."""
    return sweeps.plan(JOBS, PLANNED_DEVICES, PLANNED_SCHEDULERS, [7], runtime="20ms")


@pytest.fixture(scope="session")
def done(plan) -> pt.Table:
    """The plan's results from one loop."""
    return pt.run_rows(plan)
