# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sweeps: a plan is a table, a row of it is a run, and one pure function does rows.

    plan ──▶ run_rows(batch) ──▶ results       here, or in whatever has workers (docs/sweeps.md)
      └──── part 17 of 200, less what the results have already ──▶ sweep

A row's `row` is a digest of what it asks, so that a plan may be cut, shuffled or done again: equal
rows give equal results, but for `cost_ns`, the time that it took.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ._errors import Error, RequestError
from ._native import Table, __version__
from ._runs import Result, replay, run

#: What a row of a plan may have: a job (fio's text, or a path) or a trace (a path), each with the
#: hash of the file if that is to be checked, and on what it runs. `cost` is what it is expected to
#: take, in any unit: parts of a plan are made equal by it.
PLAN = {
    "job": "string", "trace": "string", "sha256": "string", "device": "string",
    "scheduler": "string", "set": "string", "seed": "uint64", "runtime": "string",
    "window": "string", "cost": "double",
}  # fmt: skip

#: What a row of results has behind `row` and the plan's own columns.
FIGURES = {
    "ios": "int64", "bytes": "int64", "iops": "double", "bytes_per_second": "double",
    "mean_ns": "double", "p50_ns": "int64", "p99_ns": "int64", "max_ns": "int64",
    "jain": "double", "device_idle": "double", "virtual_time_ns": "int64", "digest": "string",
    "error": "string", "version": "string", "cost_ns": "int64",
}  # fmt: skip

_DEFAULTS = {"device": "ssd-870evo", "scheduler": "mq-deadline", "seed": 0}


def plan(
    jobs: Iterable[str],
    devices: Iterable[str] = ("ssd-870evo",),
    schedulers: Iterable[str] = ("mq-deadline",),
    seeds: Iterable[int] = (0,),
    runtime: str | None = None,
) -> Table:
    """A plan of every job on every device under every scheduler with every seed."""
    devices, schedulers, seeds = list(devices), list(schedulers), list(seeds)
    rows = [
        {"job": str(job), "device": device, "scheduler": scheduler, "seed": seed,
         "runtime": runtime}
        for job in jobs for device in devices for scheduler in schedulers for seed in seeds
    ]  # fmt: skip
    return _table(rows, PLAN)


def _table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> Table:
    return Table.from_columns(
        [(name, kind, [row.get(name) for row in rows]) for name, kind in columns.items()]
    )


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """The rows of a table of ours, pyarrow's, polars' or pandas', or a list of mappings."""
    # polars, pyarrow, ours, pandas; polars has `rows`, too, of tuples.
    known: list[tuple[str, tuple[str, ...]]] = [
        ("to_dicts", ()), ("to_pylist", ()), ("rows", ()), ("to_dict", ("records",)),
    ]  # fmt: skip
    for method, arguments in known:
        if hasattr(batch, method):
            return list(getattr(batch, method)(*arguments))
    return [dict(row) for row in batch]


def _asked(row: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """What a row asks, in the types of the plan, without what it leaves open; and what is wrong."""
    asked: dict[str, Any] = {}
    wrong = None
    for name, kind in PLAN.items():
        value = row.get(name)
        if value is None or value == "" or value != value:
            continue
        try:
            # Seeds come as floating-point numbers from a library that has no other empty cell.
            typed = {"string": str, "uint64": int, "double": float}[kind](value)
            whole = not isinstance(value, float) or typed == value
            if kind == "uint64" and not (whole and 0 <= typed < 2**64):
                raise ValueError
            asked[name] = typed
        except (TypeError, ValueError, OverflowError):
            wrong = f"{name} of a plan's row is no {kind}: {value!r}"
    return asked, wrong


def row_id(row: dict[str, Any]) -> str:
    """A digest of what a row asks: 16 hexadecimal digits. What it may cost is no part of it."""
    asked, wrong = _asked(row)
    asked.pop("cost", None)
    named = {**_DEFAULTS, **asked} if wrong is None else {**asked, "wrong": wrong}
    text = json.dumps(named, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_hash(asked: dict[str, Any]) -> None:
    if "sha256" not in asked:
        return
    name = asked.get("trace", asked.get("job", ""))
    is_text = "trace" not in asked and "\n" in name
    try:
        content = name.encode() if is_text else Path(name).read_bytes()
    except OSError as error:
        raise RequestError(f"{name}: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != asked["sha256"]:
        raise RequestError(f"{'the job' if is_text else name} has sha256 {found}, not as planned")


def _of_run(result: Result) -> dict[str, Any]:
    """The figures of one run, of all its clients together."""
    clients = result.clients.rows()
    ios = sum(client["ios"] for client in clients)
    counts: dict[int, int] = {}
    bins = result.histograms
    for value, count in zip(bins["value_ns"], bins["count"], strict=True):
        counts[value] = counts.get(value, 0) + count
    most = max((client["max_ns"] for client in clients), default=0)

    def percentile(of_hundred: int) -> int | None:
        # The first bin that so many of all latencies do not exceed, as the program counts them.
        total, reached = sum(counts.values()), 0
        for value in sorted(counts):
            reached += counts[value]
            if reached * 100 >= of_hundred * total:
                return min(value, most)
        return None

    run_row, sections = result.runs.rows()[0], result.sections.rows()
    total_ns = sum(client["mean_ns"] * client["ios"] for client in clients)
    return {
        "ios": ios,
        "bytes": sum(client["bytes"] for client in clients),
        "iops": sum(client["iops"] for client in clients),
        "bytes_per_second": float(sum(client["bytes_per_second"] for client in clients)),
        "mean_ns": total_ns / ios if ios else None,
        "p50_ns": percentile(50),
        "p99_ns": percentile(99),
        "max_ns": most if ios else None,
        "jain": min((section["jain_device_time"] for section in sections), default=None),
        "device_idle": sections[0]["device_idle"] if len(sections) == 1 else None,
        "virtual_time_ns": run_row["virtual_time_ns"],
        "digest": run_row["digest"],
    }


def _of_replay(document: dict[str, Any]) -> dict[str, Any]:
    """The figures of one replay of a trace, whose digest is that of its document."""
    told = document["replays"][0]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    figures = told["all"]
    names = (
        "ios", "bytes", "iops", "bytes_per_second", "mean_ns", "p50_ns", "p99_ns", "max_ns",
    )  # fmt: skip
    return {
        **{name: figures[name] for name in names},
        "virtual_time_ns": figures["length_ns"],
        "digest": digest,
    }


def _run_row(row: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter_ns()
    asked, wrong = _asked(row)
    found: dict[str, Any] = dict(asked)
    try:
        if wrong is not None:
            raise RequestError(wrong)
        _check_hash(asked)
        on = {**_DEFAULTS, **asked}
        sets = on.get("set", "").split()
        if "trace" in asked:
            told = replay(
                on["trace"], device=on["device"], scheduler=on["scheduler"], seed=on["seed"],
                window=on.get("window"), set=sets,
            )  # fmt: skip
            found |= _of_replay(told.document)
        elif "job" in asked:
            result = run(
                on["job"], device=on["device"], scheduler=on["scheduler"], seeds=on["seed"],
                runtime=on.get("runtime"), set=sets, entitlement=False,
            )  # fmt: skip
            found |= _of_run(result)
        else:
            raise RequestError("the row has neither a job nor a trace")
    except Error as error:
        found["error"] = f"{type(error).__name__}: {error}"
    cost = time.perf_counter_ns() - began
    return {"row": row_id(row), **found, "version": __version__, "cost_ns": cost}


def run_rows(batch: Any) -> Table:
    """Does the rows of a plan. A row that fails is a row with an `error`. It keeps no state and
    depends on nothing but the batch and the files that it names."""
    done = [_run_row(row) for row in rows_of(batch)]
    return _table(done, {"row": "string", **PLAN, **FIGURES})


def part_of(rows: Sequence[dict[str, Any]], part: int, parts: int) -> list[dict[str, Any]]:
    """One of so many parts (from 1) of about equal cost: each row, the dearest first, goes to the
    part that has least until then."""
    if not 1 <= part <= parts:
        raise RequestError(f"--part {part}/{parts}: the first part is 1, the last {parts}")
    sums = [0.0] * parts
    mine: list[int] = []
    order = sorted(range(len(rows)), key=lambda place: -_cost(rows[place]))
    for place in order:
        least = min(range(parts), key=sums.__getitem__)
        sums[least] += _cost(rows[place])
        if least == part - 1:
            mine.append(place)
    return [rows[place] for place in sorted(mine)]


def _cost(row: dict[str, Any]) -> float:
    cost = row.get("cost")
    return 1.0 if cost is None or cost == "" or cost != cost else float(cost)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        if path.suffix == ".parquet":
            return list(_parquet().read_table(path).to_pylist())
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise RequestError(f"plan {path}: {error.strerror}") from error


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RequestError("Parquet needs pyarrow: install it, or use CSV") from error


def _write(path: Path, table: Table) -> None:
    """Writes a file whole, or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    if path.suffix == ".parquet":
        parquet, pyarrow = _parquet(), importlib.import_module("pyarrow")
        parquet.write_table(pyarrow.table(table), unfinished)
    else:
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.column_names)
            columns = table.to_dict().values()
            writer.writerows(zip(*columns, strict=True))
    unfinished.replace(path)


def results(folder: str | os.PathLike[str]) -> Table:
    """Everything in a folder of results, by `row`."""
    columns = {"row": "string", **PLAN, **FIGURES}
    kinds: dict[str, Any] = {"string": str, "uint64": int, "int64": int, "double": float}
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(Path(folder).glob("rows-*")):
        for row in _read(path):
            typed: dict[str, Any] = {
                name: None if row.get(name) in (None, "") else kinds[kind](row[name])
                for name, kind in columns.items()
            }
            found[str(typed["row"])] = typed
    return _table([found[key] for key in sorted(found)], columns)


def sweep(
    rows: Any, out: str | os.PathLike[str], *, part: tuple[int, int] = (1, 1),
    chunk_s: float = 10.0, form: str = "csv",
) -> Iterator[Table]:  # fmt: skip
    """Does a part of a plan, but for what the results have already. Each chunk of about `chunk_s`
    seconds becomes a file in `out`, and is given back."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    done = set(results(folder)["row"])
    left = [row for row in part_of(rows_of(rows), *part) if row_id(row) not in done]
    while left:
        chunk: list[dict[str, Any]] = []
        began = time.monotonic()
        while left and (not chunk or time.monotonic() - began < chunk_s):
            chunk.append(_run_row(left.pop(0)))
        table = _table(chunk, {"row": "string", **PLAN, **FIGURES})
        # Named by what is in it: no two parts write one file.
        name = hashlib.sha256("".join(table["row"]).encode()).hexdigest()[:16]
        _write(folder / f"rows-{name}.{form}", table)
        yield table


def main(words: Sequence[str]) -> int:
    """`python -m paternoster_io sweep`."""
    parser = argparse.ArgumentParser(
        prog="paternoster sweep",
        description="Does the rows of a plan that the results have not. Exit status: 0 done, 1 rows"
        " have errors, 2 the request was wrong, 130 interrupted: whole chunks are kept.",
    )
    parser.add_argument("plan", type=Path, metavar="PLAN.csv|PLAN.parquet")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where results go")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="only the Ith of N parts")
    parser.add_argument("--chunk", type=float, default=10.0, metavar="SECONDS",
                        help="how long a file of results is worked on [default: 10]")  # fmt: skip
    parser.add_argument("--form", choices=["csv", "parquet"], default="csv")
    asked = parser.parse_args(words)
    failed = count = 0
    try:
        part, _, parts = asked.part.partition("/")
        if not (part.isdecimal() and parts.isdecimal()):
            raise RequestError(f"--part {asked.part}: it is I/N, as 17/200")
        rows = _read(asked.plan)
        which = (int(part), int(parts))
        for table in sweep(rows, asked.out, part=which, chunk_s=asked.chunk, form=asked.form):
            count += len(table)
            failed += sum(error is not None for error in table["error"])
    except RequestError as error:
        print(f"paternoster: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"{count} rows done, {failed} with errors", file=sys.stderr)
    return 1 if failed else 0
