# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plan on a Dask cluster: python with_dask.py PLAN.parquet RESULTS.parquet."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
from dask.distributed import Client, LocalCluster

import paternoster_io as pt

CHUNK = 20

if __name__ == "__main__":
    plan = pq.read_table(sys.argv[1])
    chunks = [batch.to_pylist() for batch in plan.to_batches(max_chunksize=CHUNK)]
    # A cluster elsewhere: Client("tcp://scheduler:8786").
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        done = client.gather(client.map(pt.run_rows, chunks))
    pq.write_table(pa.concat_tables(pa.table(one) for one in done), sys.argv[2])
