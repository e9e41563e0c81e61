# SPDX-License-Identifier: MIT OR Apache-2.0
"""The gate: permits for I/O in fair order, for the threads and tasks of a program.

    gate = pt.Gate("/var/lib/mine")
    reads = gate.open("reads", weight=400)
    with reads.permit("read", 4096):            # or `async with`
        os.pread(fd, 4096, 0)
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from ._errors import GateError

if TYPE_CHECKING:
    import asyncio

Op = Literal["read", "write", "flush", "discard"]
Kind = Literal["normal", "urgent", "background", "idle"]


class Permit:
    """A permit, for `with` or `async with`: it is held inside, and given back at the end."""

    def __init__(
        self, of: _native.GateClass, op: str, length: int, offset: int | None,
        within: float | None, by: float | None,
    ) -> None:  # fmt: skip
        self._class, self._asked = of, (op, length, offset, within, by)
        self._out: _native.GatePermit | None = None

    def __enter__(self) -> Permit:
        self._only_once()
        self._out = self._class.wait(*self._asked)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.give_back()

    async def __aenter__(self) -> Permit:
        self._only_once()
        # This import takes half of the package's import time, and sweeps do not need it.
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[_native.GatePermit] = loop.create_future()

        def settle(permit: _native.GatePermit | None, error: BaseException | None) -> None:
            if future.done():  # cancelled meanwhile
                if permit is not None:
                    permit.give_back()
            elif permit is not None:
                future.set_result(permit)
            elif error is not None:
                future.set_exception(error)

        def tell(permit: _native.GatePermit | None, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(settle, permit, error)
            except RuntimeError:  # the loop was closed
                if permit is not None:
                    permit.give_back()

        self._class.then(tell, *self._asked)
        self._out = await future
        return self

    async def __aexit__(self, *_: object) -> None:
        self.give_back()

    def _only_once(self) -> None:
        if self._out is not None:
            raise GateError("a permit is for one `with` at a time")

    def give_back(self) -> bool:
        """Gives it back before the end; returns whether it was still held."""
        out, self._out = self._out, None
        return out is not None and out.give_back()


class GateClass:
    """A class of a program's I/Os, which share by weight with other classes."""

    def __init__(self, name: str, of: _native.GateClass) -> None:
        self.name, self._class = name, of

    def open(self, name: str, *, weight: int = 100, kind: Kind = "normal") -> GateClass:
        """A child class; the children of a class divide its share."""
        return GateClass(name, self._class.open(name, weight, kind))

    def permit(
        self, op: Op, length: int, *, offset: int | None = None, within: float | None = None,
        by: float | None = None,
    ) -> Permit:  # fmt: skip
        """A permit for an I/O of `length` bytes. `TooLate` is raised if it is not granted `within`
        that many seconds, or if the I/O would not have ended `by` that many seconds from now."""
        return Permit(self._class, op, length, offset, within, by)

    def try_permit(self, op: Op, length: int) -> Permit | None:
        """A permit that is already granted, if one is free now."""
        out = self._class.now(op, length)
        if out is None:
            return None
        permit = _Granted(self._class, op, length, None, None, None)
        permit._out = out
        return permit

    def eta(self, op: Op, length: int) -> tuple[float, float] | None:
        """In how many seconds a permit would be granted, and its I/O would have ended."""
        return self._class.eta(op, length)

    def counts(self) -> dict[str, Any]:
        """What it has got so far."""
        return self._class.counts()

    def set_weight(self, weight: int) -> None:
        """Changes its weight."""
        self._class.set_weight(weight)

    def set_rates(
        self, *, cap_bytes: int = 0, cap_requests: int = 0, floor_bytes: int = 0,
        floor_requests: int = 0,
    ) -> None:  # fmt: skip
        """Sets the most and the least that it gets per second; 0 is no limit. A cap applies to the
        class and all classes below it together. A floor is served before weights count; only a
        class without children may have one."""
        self._class.set_rates((cap_bytes, cap_requests), (floor_bytes, floor_requests))

    def close(self) -> None:
        """Closes the class: it gives no more permits."""
        self._class.close()


class _Granted(Permit):
    """A permit that was granted before its `with`."""

    def __enter__(self) -> Permit:
        return self

    async def __aenter__(self) -> Permit:
        return self


class Gate:
    """Fair permits for this process's I/O to a device, or to the files below `path`."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._gate = _native.Gate(None if path is None else os.fspath(path))
        self._classes: dict[str, GateClass] = {}

    def open(self, name: str, *, weight: int = 100, kind: Kind = "normal") -> GateClass:
        """A class, which shares by weight with its siblings. An `urgent` class goes before them, a
        `background` class has a sixteenth of its weight, an `idle` one gets what they leave."""
        self._classes[name] = opened = GateClass(name, self._gate.open(name, weight, kind))
        return opened

    def permit(self, name: str, op: Op, length: int, **more: Any) -> Permit:
        """A permit of the class with this name."""
        if name not in self._classes:
            raise GateError(f"no class {name!r} was opened")
        return self._classes[name].permit(op, length, **more)

    def explain(self, most: int = 20) -> str:
        """What each class waits for, and why."""
        return self._gate.explain(most)

    def metrics(self) -> str:
        """Figures in Prometheus' text format."""
        return self._gate.metrics()

    def report(self) -> str | None:
        """Likely mistakes of the program, each reported once: permits that were never given back,
        threads that ask for a second permit."""
        return self._gate.report()
