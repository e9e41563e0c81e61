# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions: what the program would have printed, with its words.

Exit status 2 is a RequestError, 1 a JobError, 130 a KeyboardInterrupt.
"""

from __future__ import annotations


class Error(Exception):
    """Whatever goes wrong in this package."""


class RequestError(Error, ValueError):
    """What was asked is wrong: a job, a device, a scheduler, an option, a trace."""


class JobError(Error, RuntimeError):
    """A job failed. `result` has what all jobs did until then, if there is any."""

    result: object = None


class ElevatorError(Error):
    """A scheduler in Python broke the law that the message names."""


class GateError(Error):
    """The gate gave no permit."""


class TooLate(GateError, TimeoutError):
    """A permit was not granted in time, or its I/O would not have ended in time."""
