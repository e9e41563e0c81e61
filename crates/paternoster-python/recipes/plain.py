# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plan in one process: python plain.py PLAN.parquet RESULTS.parquet."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq

import paternoster_io as pt

if __name__ == "__main__":
    plan = pq.read_table(sys.argv[1])
    pq.write_table(pa.table(pt.run_rows(plan)), sys.argv[2])
