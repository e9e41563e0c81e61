# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plan on this machine's cores: python with_joblib.py PLAN.parquet RESULTS.parquet."""

import sys

import joblib
import pyarrow as pa
import pyarrow.parquet as pq

import paternoster_io as pt

WORKERS, CHUNK = 2, 20

if __name__ == "__main__":
    plan = pq.read_table(sys.argv[1])
    chunks = [batch.to_pylist() for batch in plan.to_batches(max_chunksize=CHUNK)]
    done = joblib.Parallel(n_jobs=WORKERS)(joblib.delayed(pt.run_rows)(one) for one in chunks)
    pq.write_table(pa.concat_tables(pa.table(one) for one in done), sys.argv[2])
