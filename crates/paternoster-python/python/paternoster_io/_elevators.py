# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulers in Python: a class that decides which waiting request goes to the device next.

    class Fifo(pt.Elevator):
        def __init__(self):
            self.waiting = collections.deque()
        def insert(self, request, at_head):
            self.waiting.append(request)
        def pick(self, now_ns):
            return self.waiting.popleft() if self.waiting else None
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ._errors import RequestError
from ._native import Idle, Request, lend


class Elevator:
    """The base class of schedulers in Python. Each run gets an object of its own, so runs share no
    state; `__init__` takes no arguments.

    Only `insert` and `pick` are required. Methods that are not overridden cost nothing.
    """

    #: Its name in tables; by default the class's name in lower case.
    name: ClassVar[str] = ""

    def attach(self, device: dict[str, Any]) -> None:
        """It joins a queue. `device` has capacity_sectors, depth, rotational, and requests: the
        most that there can be."""

    def insert(self, request: Request, at_head: bool) -> None:
        """A request begins to wait; ahead of all others if `at_head`, because the device refused
        it."""
        raise NotImplementedError

    def pick(self, now_ns: int) -> Request | Idle | None:
        """Returns the next request. It is called only while requests wait. `Idle(until_ns)`
        dispatches nothing until then, `None` nothing until a request in the device has ended."""
        raise NotImplementedError

    def started(self, request: Request) -> None:
        """A request that was picked goes to the device."""

    def completed(self, request: Request, now_ns: int, served_ns: int) -> None:
        """A request has ended; the device spent `served_ns` on it."""

    def requeued(self, request: Request) -> None:
        """The device refused a request that had started; it is inserted again."""

    def removed(self, request: Request) -> None:
        """A waiting request was withdrawn, or has become part of another. A class without this
        method may still pick it: it is then passed over."""

    def grown(self, request: Request) -> None:
        """More was merged into a waiting request; its `sector` and `sectors` have changed."""

    def timer(self, now_ns: int) -> None:
        """The time of an `Idle` has come; `pick` is asked next."""


def lent(given: type[Elevator]) -> str:
    """Makes a class selectable by its name, and returns the name."""
    name = given.name or re.sub(r"\W", "-", given.__name__.lower())
    for needed in ("insert", "pick"):
        if getattr(given, needed) is getattr(Elevator, needed):
            raise RequestError(f"scheduler {name}: the class has no method `{needed}`")
    lend(name, given)
    return name
