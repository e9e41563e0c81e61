# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans for the tests of sweeps, and which parts of their results must be equal."""

import csv
import hashlib
from pathlib import Path

import pytest

RECIPES = Path(__file__).parent.parent / "recipes"

#: Four jobs of 20 ms; with twelve devices and five schedulers that makes 240 rows.
JOBS = [
    "[reader]\nrw=randread\nbs=4k\nsize=64m\ndirect=1\nioengine=libaio\niodepth=8\n",
    "[writer]\nrw=write\nbs=64k\nsize=64m\ndirect=1\n",
    "[a]\nrw=randrw\nbs=4k\nsize=64m\ndirect=1\nnumjobs=2\nrandrepeat=0\n",
    "[log]\nrw=write\nbs=4k\nsize=1m\ndirect=1\nfdatasync=1\n[scan]\nrw=read\nbs=1m\nsize=64m\n",
]
DEVICES = [
    "array-eva", "flash-card-2010", "hdd-7200", "hdd-7200-no-ncq", "lab-disk", "lab-flash",
    "null", "nvme-7300", "nvme-kc3000", "nvme-pm9a3", "ssd-870evo", "ssd-pm883",
]  # fmt: skip
SCHEDULERS = ["none", "mq-deadline", "kyber", "bfq", "paternoster"]


def without_cost(rows: list[dict]) -> list[dict]:
    """The parts that must be equal, in order of the rows' names."""
    kept = [{name: row[name] for name in row if name != "cost_ns"} for row in rows]
    return sorted(kept, key=lambda row: row["row"])


def sorted_bytes(table, folder: Path) -> bytes:
    """A Parquet file of the parts that must be equal, in order of the rows' names."""
    pq = pytest.importorskip("pyarrow.parquet")
    table = table.drop_columns(["cost_ns"]).sort_by("row").combine_chunks()
    pq.write_table(table.replace_schema_metadata(None), folder / "sorted.parquet")
    return hashlib.sha256((folder / "sorted.parquet").read_bytes()).digest()


def as_csv(plan, folder: Path) -> Path:
    """The plan as a file."""
    with (folder / "plan.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, plan.column_names)
        writer.writeheader()
        writer.writerows(plan.rows())
    return folder / "plan.csv"
