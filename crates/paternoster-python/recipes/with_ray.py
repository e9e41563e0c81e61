# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plan on a Ray cluster: python with_ray.py PLAN.parquet RESULTS.parquet."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import ray

import paternoster_io as pt

CHUNK = 20


@ray.remote(max_retries=3)
def rows(chunk):
    return pt.run_rows(chunk)


if __name__ == "__main__":
    plan = pq.read_table(sys.argv[1])
    chunks = [batch.to_pylist() for batch in plan.to_batches(max_chunksize=CHUNK)]
    # A cluster elsewhere: ray.init("auto").
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    done = ray.get([rows.remote(chunk) for chunk in chunks])
    ray.shutdown()
    pq.write_table(pa.concat_tables(pa.table(one) for one in done), sys.argv[2])
