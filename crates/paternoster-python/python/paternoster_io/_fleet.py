# SPDX-License-Identifier: MIT OR Apache-2.0
"""A fleet of traces: one row for each trace, to sort, group and plot.

    paths, globs, URLs ──▶ open_trace: one pass over arrivals ─┐
                      └──▶ summary: which process waited       ├──▶ a row
                      └──▶ replay on a device, each scheduler ─┘

A trace that cannot be read is a row with an `error`.
"""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ._errors import Error, RequestError
from ._native import Table
from ._runs import DeviceLike, open_trace, replay

_INTERVAL_NS = 1_000_000_000
_PAUSE_NS = 100_000_000

#: Columns before those of the schedulers. Times are in ns, parts from 0 to 1.
COLUMNS = {
    "trace": "string", "events": "int64", "ios": "int64", "bytes": "int64",
    "length_ns": "int64", "iops": "double", "bytes_per_second": "double",
    "reads": "double", "read_bytes": "double", "mean_bytes": "double",
    "burstiness": "double", "peak_iops": "double", "idle": "double", "seekiness": "double",
    "processes": "int64", "waited": "string", "waited_ns": "double",
    "recorded_p50_ns": "int64", "recorded_p99_ns": "int64",
}  # fmt: skip


def _is_url(path: str) -> bool:
    return "://" in path


def _found(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The names of all traces, each once, with patterns expanded."""
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names: list[str] = []
    for path in [os.fsdecode(path) for path in several]:
        if _is_url(path):
            names += _resolved(path)
        elif glob.has_magic(path) and not os.path.exists(path):
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise RequestError(f"{path}: nothing matches")
            names += matches
        else:
            names.append(path)
    return list(dict.fromkeys(names))


def _resolved(url: str) -> list[str]:
    """The URLs that match a pattern."""
    opened = _fsspec().open_files
    try:
        names = [file.fs.unstrip_protocol(file.path) for file in opened(url, "rb")]
    # Each kind of store raises its own exceptions.
    except Exception as error:
        raise RequestError(f"{url}: {type(error).__name__}: {error}") from error
    if not names:
        raise RequestError(f"{url}: nothing matches")
    return names


def _fsspec() -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError as error:
        raise RequestError("URLs need fsspec: install it, or name files") from error


def _arrivals(path: str) -> dict[str, Any]:
    """Figures of a trace's arrivals. The device is the one with the most bytes."""
    devices: dict[str, dict[str, Any]] = {}
    events = 0
    with open_trace(path) as trace:
        for batch in trace:
            events += len(batch)
            columns = (batch[name] for name in ("action", "time_ns", "device", "op", "sector",
                                                "bytes"))  # fmt: skip
            for action, time, device, op, sector, size in zip(*columns, strict=True):
                if action != "Q":
                    continue
                of = devices.get(device)
                if of is None:
                    of = devices[device] = {
                        "ios": 0, "bytes": 0, "reads": 0, "read_bytes": 0, "first": time,
                        "last": time, "end": None, "seeks": 0, "pauses": 0, "each": {},
                    }  # fmt: skip
                of["ios"] += 1
                of["bytes"] += size
                if op == "read":
                    of["reads"] += 1
                    of["read_bytes"] += size
                of["seeks"] += of["end"] is not None and of["end"] != sector
                of["end"] = sector + size // 512
                pause = time - of["last"]
                of["pauses"] += pause if pause > _PAUSE_NS else 0
                of["last"] = time
                place = (time - of["first"]) // _INTERVAL_NS
                of["each"][place] = of["each"].get(place, 0) + 1
    if not devices:
        raise RequestError(f"{path}: no I/O is in it")
    of = max(devices.values(), key=lambda of: of["bytes"])
    ios, length = of["ios"], of["last"] - of["first"]
    intervals = length // _INTERVAL_NS + 1
    mean = ios / intervals
    # Intervals without I/O add nothing to the sum, but count in the mean.
    square = sum(count * count for count in of["each"].values()) / intervals
    seconds = length / 1e9
    return {
        "events": events, "ios": ios, "bytes": of["bytes"], "length_ns": length,
        "iops": ios / seconds if length else None,
        "bytes_per_second": of["bytes"] / seconds if length else None,
        "reads": of["reads"] / ios,
        "read_bytes": of["read_bytes"] / of["bytes"] if of["bytes"] else None,
        "mean_bytes": of["bytes"] / ios,
        "burstiness": (square - mean * mean) / mean, "peak_iops": float(max(of["each"].values())),
        "idle": of["pauses"] / length if length else None,
        "seekiness": of["seeks"] / (ios - 1) if ios > 1 else None,
    }  # fmt: skip


def _waited(path: str) -> dict[str, Any]:
    """The process whose I/Os waited longest in total before the device had them."""
    with open_trace(path) as trace:
        devices = trace.summary()["devices"]
    processes = [process for device in devices for process in device["processes"]]

    def waits(process: dict[str, Any]) -> float:
        return float(process["Q2D"]["mean_ns"] * process["Q2D"]["count"])

    worst = max(processes, key=waits, default=None)
    told: dict[str, Any] = {"processes": len(processes)}
    if worst is not None and waits(worst) > 0:
        told |= {"waited": worst["name"], "waited_ns": waits(worst)}
    return told


def _alike(one: float | None, other: float | None) -> float | None:
    if not one or not other:
        return None
    return min(one / other, other / one)


def _predicted(path: str, device: DeviceLike, schedulers: list[str], window: str | None
               ) -> dict[str, Any]:  # fmt: skip
    told = replay(path, device=device, scheduler=schedulers, window=window)
    recorded = told.recorded["all"]
    found = {f"recorded_{name}": recorded[name] for name in ("p50_ns", "p99_ns")}
    likeness: list[float] = []
    for scheduler, replayed in zip(schedulers, told.replays, strict=True):
        for name in ("p50_ns", "p99_ns"):
            found[f"{scheduler}_{name}"] = replayed["all"][name]
        pairs = [_alike(recorded[name], replayed["all"][name]) for name in ("p50_ns", "p99_ns")]
        known = [pair for pair in pairs if pair is not None]
        if known:
            likeness.append(min(known))
    tails = {scheduler: found[f"{scheduler}_p99_ns"] for scheduler in schedulers}
    known_tails = {name: tail for name, tail in tails.items() if tail is not None}
    found["best"] = min(known_tails, key=known_tails.__getitem__, default=None)
    found["likeness"] = max(likeness, default=None)
    return found


def fleet(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    device: DeviceLike = "hdd-7200",
    scheduler: str | Iterable[str] = ("none", "mq-deadline", "kyber", "bfq"),
    window: str | None = None,
) -> Table:
    """One row for each trace: load, mix, burstiness, idle time, seekiness, which process waited,
    and the latencies that the device would have under each scheduler.

    `paths` are files of any format, patterns (`traces/**/*.gz`) or URLs that fsspec supports.
    `window` is the part that is replayed (`0:60`); the other figures are of the whole trace.
    """
    schedulers = [scheduler] if isinstance(scheduler, str) else list(scheduler)
    columns = dict(COLUMNS)
    for name in schedulers:
        columns |= {f"{name}_p50_ns": "int64", f"{name}_p99_ns": "int64"}
    columns |= {"best": "string", "likeness": "double", "error": "string"}
    rows = [_row(name, device, schedulers, window) for name in _found(paths)]
    return Table.from_columns(
        [(name, kind, [row.get(name) for row in rows]) for name, kind in columns.items()]
    )


def _row(name: str, device: DeviceLike, schedulers: list[str], window: str | None
         ) -> dict[str, Any]:  # fmt: skip
    import tempfile  # compression and random numbers, which no other part of the package needs

    row: dict[str, Any] = {"trace": name}
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = _here(name, Path(folder)) if _is_url(name) else name
            row |= _arrivals(path)
            row |= _waited(path)
            row |= _predicted(path, device, schedulers, window)
    except (Error, OSError) as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return row


def _here(url: str, folder: Path) -> str:
    """A local copy of a URL's file."""
    copy = folder / (url.rsplit("/", 1)[-1] or "trace")
    try:
        with _fsspec().open(url, "rb") as source, copy.open("wb") as out:
            while piece := source.read(1 << 20):
                out.write(piece)
    except Exception as error:
        raise RequestError(f"{url}: {type(error).__name__}: {error}") from error
    return str(copy)
