# SPDX-License-Identifier: MIT OR Apache-2.0
"""Do consumers of Arrow take a table as it is? Libraries that are not installed are skipped by
name."""

import pickle

import pytest

import paternoster_io as pt

COLUMNS = [
    ("word", "string", ["a", None, "ä"]),
    ("count", "int64", [1, -2, None]),
    ("seed", "uint64", [2**64 - 1, 0, None]),
    ("rate", "double", [0.5, None, 1e300]),
]


@pytest.fixture
def table():
    return pt.Table.from_columns(COLUMNS)


def test_python_reads_a_table_alone(table):
    """Are columns, rows and types accessible without any library?"""
    assert table.column_names == [name for name, _, _ in COLUMNS]
    assert table.to_dict() == {name: values for name, _, values in COLUMNS}
    assert table.rows()[0] == {"word": "a", "count": 1, "seed": 2**64 - 1, "rate": 0.5}
    assert len(table) == table.num_rows == 3
    assert pickle.loads(pickle.dumps(table)) == table
    with pytest.raises(KeyError):
        table["nothing"]
    with pytest.raises(ValueError, match="there is no type `date`"):
        pt.Table.from_columns([("x", "date", [])])


def test_pyarrow(table):
    """Does pyarrow take it as a table, a batch and a schema, and is an unused capsule freed?"""
    pyarrow = pytest.importorskip("pyarrow")
    taken = pyarrow.table(table)
    assert taken.to_pydict() == table.to_dict()
    assert [str(field.type) for field in taken.schema] == [kind for _, kind, _ in COLUMNS]
    assert pyarrow.record_batch(table).num_rows == 3
    assert pyarrow.schema(table) == taken.schema
    for _ in range(100):
        table.__arrow_c_stream__()
        table.__arrow_c_array__()


def test_pandas(table):
    """Does pandas take it as a frame?"""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame.from_arrow(table)
    assert list(frame.columns) == table.column_names and len(frame) == 3


def test_polars(table):
    """Does polars take it as a frame?"""
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(table).to_dict(as_series=False) == table.to_dict()


def test_duckdb(table):
    """Does DuckDB take it as a relation, by its name in a query?"""
    duckdb = pytest.importorskip("duckdb")
    figures = table
    found = duckdb.sql("select word, count from figures where count is not null order by count")
    assert figures is table and found.fetchall() == [(None, -2), ("a", 1)]


def addresses(array) -> int:
    """Where numpy's view of a column begins."""
    return array.__array_interface__["data"][0]


def test_columns_are_not_copied():
    """Does pyarrow share the table's memory, and do polars and pandas share pyarrow's? (pandas'
    `from_arrow` gathers columns of the same type, which copies them.)"""
    pyarrow = pytest.importorskip("pyarrow")
    columns = [("word", "string", ["a", "ä"]), ("count", "int64", [1, -2]),
               ("seed", "uint64", [2**64 - 1, 0]), ("rate", "double", [0.5, 1e300])]  # fmt: skip
    table = pt.Table.from_columns(columns)
    first, second = pyarrow.table(table), pyarrow.table(table)
    for name, _, _ in columns:
        first_at, second_at = (
            [part.address for part in taken[name].chunk(0).buffers() if part is not None]
            for taken in (first, second)
        )
        assert first_at == second_at
    numbers = ["count", "seed", "rate"]
    at = [first[name].chunk(0).buffers()[1].address for name in numbers]
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    frame = polars.DataFrame(table)
    assert [addresses(frame[name].to_numpy(allow_copy=False)) for name in numbers] == at
    frame = first.to_pandas(types_mapper=pandas.ArrowDtype)
    taken = [pyarrow.table(frame)[name].chunk(0).buffers()[1].address for name in numbers]
    assert taken == at


def test_results_join(small):
    """Can a result be queried as a relation: the mean latency by scheduler?"""
    polars = pytest.importorskip("polars")
    result = pt.run(small, device="ssd-870evo", scheduler=["noop", "bfq"])
    frame = polars.DataFrame(result.clients).group_by("scheduler", maintain_order=True)
    assert frame.agg(polars.col("ios").sum())["ios"].to_list() == [256, 256]
