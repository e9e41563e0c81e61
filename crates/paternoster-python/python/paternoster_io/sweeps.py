# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sweeps: a plan is a table, each of its rows is a run, and one pure function runs rows.

    plan ──▶ run_rows(batch) ──▶ results       here, or on any engine with workers (docs/sweeps.md)
      └──── part 17 of 200, without rows that have results ──▶ sweep

A row's `row` is a digest of its settings, so a plan may be cut, shuffled or run again: equal rows
give equal results, except `cost_ns`, the time that the run took.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._elevators import Elevator, lent
from ._errors import RequestError
from ._jobs import seeds_of
from ._native import Table

#: Columns of a plan: a job (fio's text, or a path) or a trace (a path), each with the file's hash
#: if that is to be checked, and on what it runs. `cost` is the expected time, in any unit: it
#: serves to divide a plan into equal parts.
PLAN = {
    "job": "string", "trace": "string", "sha256": "string", "device": "string",
    "scheduler": "string", "set": "string", "seed": "uint64", "runtime": "string",
    "window": "string", "cost": "double",
}  # fmt: skip

#: Columns of results, after `row` and the plan's own columns.
FIGURES = {
    "ios": "int64", "bytes": "int64", "iops": "double", "bytes_per_second": "double",
    "mean_ns": "double", "p50_ns": "int64", "p99_ns": "int64", "max_ns": "int64",
    "jain": "double", "device_idle": "double", "virtual_time_ns": "int64", "digest": "string",
    "error": "string", "version": "string", "cost_ns": "int64",
}  # fmt: skip


def plan(
    jobs: Iterable[str],
    devices: Iterable[str] = ("ssd-870evo",),
    schedulers: Iterable[str] = ("mq-deadline",),
    seeds: Iterable[int] = (0,),
    runtime: str | None = None,
) -> Table:
    """A plan: every job on every device under every scheduler with every seed."""
    devices, schedulers, seeds = list(devices), list(schedulers), seeds_of(seeds)
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
    # polars, pyarrow, ours, pandas; polars has `rows` too, but these are tuples.
    known: list[tuple[str, tuple[str, ...]]] = [
        ("to_dicts", ()), ("to_pylist", ()), ("rows", ()), ("to_dict", ("records",)),
    ]  # fmt: skip
    for method, arguments in known:
        if hasattr(batch, method):
            return list(getattr(batch, method)(*arguments))
    if isinstance(batch, (str, bytes, Mapping)):
        raise RequestError(f"a plan is a table, or a list of mappings: {batch!r:.80}")
    return [dict(row) for row in batch]


def _cells(rows: Iterable[dict[str, Any]]) -> str:
    """Rows of a plan as JSON, without empty cells."""

    def told(value: Any) -> Any:
        if isinstance(value, type):
            # A class, too, has the methods of its objects, such as `item`.
            return lent(value) if issubclass(value, Elevator) else _text(value)
        # `item()` turns numbers of other libraries into Python's.
        value = _plain(value)
        # A value that no column can hold becomes text, and its row has an error.
        if isinstance(value, float) and math.isfinite(value):
            return value
        if isinstance(value, int) and abs(value) < 1 << 64:
            return value
        return _text(value)

    kept = [
        {name: told(row[name]) for name in PLAN if not _empty(row.get(name))} for row in rows
    ]
    return json.dumps(kept)


def _plain(value: Any) -> Any:
    """A number of another library as a Python number; anything else, such as an array,
    unchanged."""
    try:
        return value.item()
    # An array of several elements raises an exception, and methods of other classes may do
    # anything.
    except Exception:
        return value


def _empty(value: Any) -> bool:
    """Whether a cell is empty: None, empty text, a value that is not equal to itself (NaN), or one
    whose comparison has no truth value (pandas' NA). An array, which compares element by element,
    is not empty."""
    try:
        return value is None or bool(value == "") or bool(value != value)
    except Exception:
        try:
            return (value != value) is value
        except Exception:
            return False


def _text(value: Any) -> str:
    """A cell as text. Python may refuse to print a number of more than 640 decimal digits."""
    is_vast = isinstance(value, int) and value.bit_length() > 2000
    try:
        text = hex(value) if is_vast else str(value)
    except Exception:
        text = object.__repr__(value)
    return text.encode(errors="backslashreplace").decode()


def row_id(row: dict[str, Any]) -> str:
    """A digest of a row's settings: 16 hexadecimal digits. The expected cost is not part of it."""
    return _native.sweep_names(_cells([row]))[0]


def predict(batch: Any) -> Table:
    """The plan with the predicted cost of each row, in ns, so that its parts cost about the
    same."""
    rows = rows_of(batch)
    # Cells as in the plan, whichever library it comes from.
    told: list[dict[str, Any]] = json.loads(_cells(rows))
    found = [
        {name: _cell(row.get(name), name, place) for name in PLAN} for place, row in enumerate(told)
    ]
    for row, cost in zip(found, _native.sweep_costs(_cells(rows)), strict=True):
        row["cost"] = float(round(cost))
    return _table(found, PLAN)


def _cell(value: Any, name: str, place: int) -> Any:
    """A cell in its column's type: a column cannot hold another type."""
    if value is None or name == "cost":
        return None
    if PLAN[name] == "string":
        return str(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # By length first, since Python refuses to parse thousands of digits; 2**64 has 20.
    digits = str(value).lstrip("0") or "0"
    if digits.isdecimal() and len(digits) <= 20 and int(digits) < 1 << 64:
        return int(digits)
    raise RequestError(f"row {place} of the plan: {name} is no {PLAN[name]}: {value!r:.80}")


def run_rows(batch: Any) -> Table:
    """Runs the rows of a plan. A row that fails becomes a row with an `error`. The function keeps
    no state and depends only on the batch and the files that it names. In a mapping the scheduler
    may be a class; an exception that it raises is its row's error."""
    return _results(_done(rows_of(batch)))


def _done(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = json.loads(_native.sweep_rows(_cells(rows)))
    return done


def _results(done: Sequence[dict[str, Any]]) -> Table:
    return _table(done, {"row": "string", **PLAN, **FIGURES})


def part_of(rows: Sequence[dict[str, Any]], part: int, parts: int) -> list[dict[str, Any]]:
    """Part number `part` (from 1) of `parts` of about equal cost: each row, in order of falling
    cost, goes to the part that costs least so far."""
    return [rows[place] for place in _native.sweep_part(_cells(rows), part, parts)]


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        if path.suffix == ".parquet":
            return list(_parquet().read_table(path).to_pylist())
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror or error}") from error
    # Neither text nor a table: pyarrow's errors are ValueErrors too.
    except (ValueError, csv.Error) as error:
        raise RequestError(f"{path}: {error}") from error


def _parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RequestError("Parquet needs pyarrow: install it, or use CSV") from error


def _write(path: Path, table: Table) -> None:
    """Writes a file completely, or not at all."""
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
    """All results in a folder, by `row`."""
    columns = {"row": "string", **PLAN, **FIGURES}
    kinds: dict[str, Any] = {"string": str, "uint64": int, "int64": int, "double": float}
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(Path(folder).glob("rows-*")):
        for row in _read(path):
            try:
                typed: dict[str, Any] = {
                    name: None if row.get(name) in (None, "") else kinds[kind](row[name])
                    for name, kind in columns.items()
                }
            except (ValueError, TypeError) as error:
                raise RequestError(f"{path}: no results of a sweep: {error}") from error
            found[str(typed["row"])] = typed
    return _table([found[key] for key in sorted(found)], columns)


def sweep(
    rows: Any, out: str | os.PathLike[str], *, part: tuple[int, int] = (1, 1),
    chunk_s: float = 10.0, form: str = "csv",
) -> Iterator[Table]:  # fmt: skip
    """Runs a part of a plan, except rows that already have results. Each chunk of about `chunk_s`
    seconds becomes a file in `out`, and is yielded."""
    folder = Path(out)
    if form not in ("csv", "parquet"):
        raise RequestError(f"there is no form `{form}`; there are csv and parquet")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"{folder}: {error.strerror}") from error
    done = {str(row.get("row")) for path in folder.glob("rows-*") for row in _read(path)}
    mine = part_of(rows_of(rows), *part)
    names = _native.sweep_names(_cells(mine))
    # From the end, so that a plan of a million rows is not shifted at each step.
    left = [row for row, name in zip(mine, names, strict=True) if name not in done][::-1]
    while left:
        chunk: list[dict[str, Any]] = []
        began = time.monotonic()
        while left and (not chunk or time.monotonic() - began < chunk_s):
            chunk += _done([left.pop()])
        table = _results(chunk)
        # Named by its content, so no two parts write the same file.
        name = hashlib.sha256("".join(table["row"]).encode()).hexdigest()[:16]
        try:
            _write(folder / f"rows-{name}.{form}", table)
        except OSError as error:
            raise RequestError(f"{folder}: {error.strerror or error}") from error
        yield table


def main(words: Sequence[str]) -> int:
    """`python -m paternoster_io sweep`."""
    import argparse  # needed only for the command line

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
        # 19 digits always fit an index in Rust.
        if not all(number.isdecimal() and len(number) < 20 for number in (part, parts)):
            raise RequestError(f"--part {asked.part}: it is I/N, as 17/200")
        try:
            rows = _read(asked.plan)
        except RequestError as error:
            raise RequestError(f"plan {error}") from error
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
