# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plan on a Ray cluster: python with_ray.py PLAN.parquet RESULTS.parquet."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data

import paternoster_io as pt

CHUNK = 20


def rows(batch):
    return pa.table(pt.run_rows(batch))


if __name__ == "__main__":
    plan = pq.read_table(sys.argv[1])
    chunks = [plan.slice(start, CHUNK) for start in range(0, len(plan), CHUNK)]
    # A cluster elsewhere: ray.init("auto").
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    tasks = ray.data.from_arrow(chunks).map_batches(rows, batch_size=None, batch_format="pyarrow")
    done = ray.get(tasks.to_arrow_refs())
    ray.shutdown()
    pq.write_table(pa.concat_tables(done), sys.argv[2])
