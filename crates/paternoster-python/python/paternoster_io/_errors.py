# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions, with the messages that the program would have printed.

Exit status 2 becomes a RequestError, 1 a JobError, 130 a KeyboardInterrupt.
"""

from __future__ import annotations


class Error(Exception):
    """The base of all exceptions of this package."""


class RequestError(Error, ValueError):
    """The request is wrong: a job, a device, a scheduler, an option, a trace."""


class JobError(Error, RuntimeError):
    """A job failed. `result` has what all jobs had done by then, if anything."""

    result: object = None


class ElevatorError(Error):
    """A scheduler in Python broke a law; the message says which."""


class GateError(Error):
    """The gate gave no permit."""


class TooLate(GateError, TimeoutError):
    """A permit was not granted in time, or its I/O would not have ended in time."""
