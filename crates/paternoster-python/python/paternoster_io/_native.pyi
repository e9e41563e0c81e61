# SPDX-License-Identifier: MIT OR Apache-2.0
"""The compiled half; use what `paternoster_io` has of it."""

from collections.abc import Iterator
from typing import Any, final

__version__: str

@final
class Table:
    """Rows of figures. Any consumer of Arrow takes one: `pyarrow.table(t)`, `polars.DataFrame(t)`,
    `pandas.DataFrame.from_arrow(t)`, DuckDB by its name in a query."""

    @staticmethod
    def from_columns(columns: list[tuple[str, str, list[Any]]]) -> Table:
        """A table of columns: name, type (string, int64, uint64, double), values."""
    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> list[Any]:
        """The values of one column."""
    def __eq__(self, other: object) -> bool: ...
    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by their names."""
    def rows(self) -> list[dict[str, Any]]:
        """A dict for each row."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Trace:
    def __new__(cls, path: str, format: str | None = None, batch: int = 65536) -> Trace: ...
    def __iter__(self) -> Iterator[Table]: ...
    def __next__(self) -> Table: ...
    @property
    def problems(self) -> tuple[int, list[str]]: ...
    def close(self) -> None: ...
    @staticmethod
    def formats() -> list[str]: ...

@final
class Request:
    """A request, as a scheduler sees it. Attributes of one's own may be set."""

    op: str
    """read, write, trim, flush or other"""
    sync: bool
    client: int
    """a small number, unique among the clients"""
    weight: int
    group: int
    group_weight: int
    priority: tuple[str, int]
    """realtime, best-effort or idle, and a level from 0 to 7"""
    arrived_ns: int
    @property
    def sector(self) -> int: ...
    @property
    def sectors(self) -> int: ...
    @property
    def end(self) -> int: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

@final
class Idle:
    """Nothing now, though requests wait: not before this time, unless something changes."""

    until_ns: int
    def __new__(cls, until_ns: int) -> Idle: ...

def lend(name: str, elevator: type) -> None: ...
def run(
    words: list[str], files: dict[str, str], seeds: list[int], interval: int, own: bool
) -> dict[str, Any]: ...
def document(words: list[str], files: dict[str, str], own: bool) -> str: ...
def program(words: list[str]) -> int: ...
def device_file(name: str) -> str | None: ...
