# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs: calls in Python, translated to the program's command line.

    run(job, device="null", scheduler=["noop", "bfq"], seeds=range(3), runtime="1s")
      -> run job.fio -q --device null --scheduler noop --scheduler bfq --runtime 1s --seed 0 …
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, Union

from . import _native
from ._elevators import Elevator, lent
from ._errors import JobError, RequestError
from ._jobs import Device, Jobs, seeds_of, text_of
from ._native import Table

#: A device's name, the path of a device file, or a device.
DeviceLike = Union[str, "os.PathLike[str]", Device]


#: A scheduler's name, possibly with attributes (`bfq:slice_idle=0`), or your own class.
SchedulerLike = Union[str, type[Elevator]]


def _several(given: Any, single: tuple[type, ...]) -> list[Any]:
    return [given] if isinstance(given, single) else list(given)


class _Words:
    """The words of a command, and the files that are passed to it in memory."""

    def __init__(self, *words: str) -> None:
        self.words = list(words)
        self.files: dict[str, str] = {}
        #: whether any of the schedulers is a Python class
        self.own = False

    def document(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(_native.document(self.words, self.files, self.own))
        return told

    def job(self, jobs: Jobs) -> None:
        name, text = text_of(jobs)
        if text is not None:
            self.files[name] = text
        # A name must not look like an option.
        self.words.append(f"./{name}" if name.startswith("-") and name != "-" else name)

    def devices(self, given: DeviceLike | Iterable[DeviceLike] | None) -> None:
        if given is None:
            return
        for device in _several(given, (str, os.PathLike, Device)):
            if isinstance(device, Device):
                name, more = f"{device.name}.toml", 1
                while self.files.get(name, device.toml) != device.toml:
                    name, more = f"{device.name}-{more}.toml", more + 1
                self.files[name] = device.toml
            else:
                name = os.fspath(device)
            self.words.append(f"--device={name}")

    def option(self, name: str, value: Any) -> None:
        if value is None:
            return
        for one in _several(value, (str, int, float)):
            self.words.append(f"--{name}={one}")

    def schedulers(self, given: SchedulerLike | Iterable[SchedulerLike] | None) -> None:
        for one in [] if given is None else _several(given, (str, type)):
            if isinstance(one, type) and issubclass(one, Elevator):
                one, self.own = lent(one), True
            if not isinstance(one, str):
                raise RequestError(f"{one!r} is no scheduler: name one, or give a class")
            self.words.append(f"--scheduler={one}")


@dataclasses.dataclass(frozen=True)
class Result:
    """The results of runs. Every table begins with device, scheduler and seed, and any consumer of
    Arrow takes it: `pyarrow.table(result.clients)`, `polars.DataFrame(result.clients)`."""

    #: one row per run: digest of its events, the device's counts
    runs: Table
    #: one row per run, job, clone and direction: rates, latencies, share and entitled share
    clients: Table
    #: one row per run and section between two stonewalls: fairness, idle time
    sections: Table
    #: one row per bin of latencies
    histograms: Table
    #: one row per interval and client, if `interval` was given
    series: Table
    #: fio's JSON of each run, as `--output-format json` prints it
    documents: tuple[str, ...] = dataclasses.field(repr=False)
    #: the notes that the program prints
    notes: tuple[str, ...] = ()

    def json(self, place: int = 0) -> dict[str, Any]:
        """fio's JSON of one run."""
        return _object(self.documents[place])


def _object(text: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(text)
    return told


def _nanos(interval: float | None) -> int:
    if not interval:
        return 0
    # At least a nanosecond, at most what 64 bits hold: 292 years.
    if not 1e-9 <= interval < 2**63 / 1e9:
        raise RequestError(f"interval {interval}: seconds, more than none")
    return round(interval * 1e9)


def run(
    job: Jobs,
    *,
    device: DeviceLike | Iterable[DeviceLike] = "ssd-870evo",
    scheduler: SchedulerLike | Iterable[SchedulerLike] = "mq-deadline",
    seeds: int | Iterable[int] = 0,
    runtime: str | float | None = None,
    set: str | Iterable[str] = (),
    fault: str | Iterable[str] = (),
    host: str | Iterable[str] = (),
    section: str | Iterable[str] = (),
    placement: str | None = None,
    submit_cost: str | None = None,
    start_jitter: str | None = None,
    entitlement: bool = True,
    interval: float | None = None,
    check: bool = True,
) -> Result:
    """Runs jobs on each device, under each scheduler, with each seed, as `paternoster run` does.

    With an `interval`, in seconds, there is the table `series`. If a job fails, a JobError is
    raised whose `result` has everything, unless `check` is false.
    """
    words = _Words("run")
    words.job(job)
    words.words.append("-q")
    words.devices(device)
    words.schedulers(scheduler)
    options = {
        "runtime": runtime, "set": set, "fault": fault, "host": host, "section": section,
        "placement": placement, "submit-cost": submit_cost, "start-jitter": start_jitter,
    }  # fmt: skip
    for name, value in options.items():
        words.option(name, value)
    if not entitlement:
        words.words.append("--no-entitlement")
    found = _native.run(words.words, words.files, seeds_of(seeds), _nanos(interval), words.own)
    failed = found.pop("failed")
    result = Result(
        documents=tuple(found.pop("documents")), notes=tuple(found.pop("notes")), **found
    )
    if failed is not None and check:
        error = JobError(failed)
        error.result = result
        raise error
    return result


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Which scheduler to use, and why."""

    #: what `paternoster compare --format json` prints
    document: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def best(self) -> str:
        """The best scheduler, with its attributes."""
        return str(self.document["best"])


def compare(
    job: Jobs,
    *,
    device: DeviceLike,
    goals: str | Iterable[str] = (),
    scheduler: SchedulerLike | Iterable[SchedulerLike] | None = None,
    seeds: int = 5,
    runtime: str | float | None = None,
) -> Comparison:
    """Tries which scheduler is best for a job, as `paternoster compare` does."""
    words = _Words("compare")
    words.job(job)
    words.words.append("-q")
    words.devices(device)
    words.schedulers(scheduler)
    words.option("goal", goals)
    words.option("seeds", seeds)
    words.option("runtime", runtime)
    return Comparison(words.document())


@dataclasses.dataclass(frozen=True)
class Judgement:
    """How schedulers did under random loads."""

    #: what `paternoster torture --format json` prints
    document: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def found(self) -> list[dict[str, Any]]:
        """Each load under which a scheduler broke a law, unless one of its own rules excuses
        that."""
        found: list[dict[str, Any]] = self.document["found"]
        return found


def torture(
    scheduler: SchedulerLike | Iterable[SchedulerLike], *, cases: int = 40, seed: int = 0
) -> Judgement:
    """Tests schedulers under random loads, as `paternoster torture` does."""
    words = _Words("torture", "-q")
    words.schedulers(scheduler)
    words.option("cases", cases)
    words.option("seed", seed)
    return Judgement(words.document())


@dataclasses.dataclass(frozen=True)
class Replayed:
    """A trace as recorded, and replayed."""

    #: what `paternoster replay --format json` prints
    document: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def recorded(self) -> dict[str, Any]:
        """The figures of the recording."""
        recorded: dict[str, Any] = self.document["recorded"]
        return recorded

    @property
    def replays(self) -> list[dict[str, Any]]:
        """The figures of each replay, by device and scheduler."""
        replays: list[dict[str, Any]] = self.document["replays"]
        return replays


def replay(
    trace: str | os.PathLike[str],
    *,
    device: DeviceLike | Iterable[DeviceLike] = "hdd-7200",
    scheduler: SchedulerLike | Iterable[SchedulerLike] = "mq-deadline",
    manner: str | None = None,
    speed: float | None = None,
    window: str | None = None,
    from_device: str | None = None,
    fit: str | None = None,
    format: str | None = None,
    set: str | Iterable[str] = (),
    seed: int = 0,
) -> Replayed:
    """Replays a recorded trace under other schedulers or on other devices, as `paternoster replay`
    does."""
    words = _Words("replay", os.fspath(trace), "-q")
    words.devices(device)
    words.schedulers(scheduler)
    options = {
        "manner": manner, "speed": speed, "window": window, "from-device": from_device,
        "fit": fit, "input-format": format, "set": set, "seed": seed,
    }  # fmt: skip
    for name, value in options.items():
        words.option(name, value)
    return Replayed(words.document())


class Trace:
    """A recorded trace of any format: an iterator of batches of events, each a Table."""

    def __init__(self, path: str | os.PathLike[str], format: str | None, batch: int) -> None:
        self.path = os.fspath(path)
        self._format = format
        self._events = _native.Trace(self.path, format, batch)

    def __iter__(self) -> Iterator[Table]:
        return self

    def __next__(self) -> Table:
        return next(self._events)

    @property
    def problems(self) -> tuple[int, list[str]]:
        """How many records were refused, and the first of them; known at the end."""
        return self._events.problems

    def close(self) -> None:
        """Stops reading."""
        self._events.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def summary(self, *, window: str | None = None, device: str | None = None) -> dict[str, Any]:
        """What `paternoster analyze --format json` says about the trace: phases, seeks, each
        process. Reads the whole trace."""
        words = _Words("analyze", self.path, "--format=json")
        words.option("window", window)
        words.option("device", device)
        words.option("input-format", self._format)
        documents: list[dict[str, Any]] = json.loads(
            _native.document(words.words, {}, False)
        )
        return documents[0]


def open_trace(
    path: str | os.PathLike[str], *, format: str | None = None, batch: int = 65536
) -> Trace:
    """Opens a trace: blktrace's files by their prefix, or one file of any format."""
    if os.fspath(path) == "-":
        raise RequestError("standard input is Python's own: name a file")
    return Trace(path, format, batch)
