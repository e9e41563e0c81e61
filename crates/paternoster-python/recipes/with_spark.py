# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plan on Spark: python (or spark-submit) with_spark.py PLAN.parquet RESULTS.parquet."""

import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import paternoster_io as pt

CHUNK, RESULTS = 20, pa.table(pt.run_rows([])).schema
# Spark has no unsigned numbers: seeds are below 2^63 here.
SIGNED = pa.schema([f.with_type(pa.int64()) if f.type == pa.uint64() else f for f in RESULTS])

def rows(batches):
    for batch in batches:
        yield from pa.table(pt.run_rows(batch)).cast(SIGNED).to_batches()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    kept = [SIGNED.field(name) for name in pq.read_schema(sys.argv[1]).names]
    plan = pq.read_table(sys.argv[1]).cast(pa.schema(kept))
    spark = SparkSession.builder.master(os.environ.get("MASTER", "local[2]")).getOrCreate()
    tasks = spark.createDataFrame(plan).repartition(-(-len(plan) // CHUNK))
    done = tasks.mapInArrow(rows, from_arrow_schema(SIGNED)).toArrow()
    pq.write_table(done.cast(RESULTS), sys.argv[2])
