# SPDX-License-Identifier: MIT OR Apache-2.0
"""Linux I/O schedulers in virtual time.

    import paternoster_io as pt
    result = pt.run(pt.Job("a", rw="randread", size="1m"), scheduler=["none", "bfq"])
    polars.DataFrame(result.clients)

docs/python.md of the repository has the rest.
"""

from ._elevators import Elevator
from ._errors import ElevatorError, Error, GateError, JobError, RequestError, TooLate
from ._fleet import fleet
from ._gate import Gate, GateClass, Permit
from ._jobs import (
    Attribute,
    Device,
    Job,
    Jobs,
    Parameter,
    Scheduler,
    device,
    devices,
    schedulers,
)
from ._native import Idle, Request, Table, __version__
from ._runs import (
    Comparison,
    DeviceLike,
    Judgement,
    Replayed,
    Result,
    SchedulerLike,
    Trace,
    compare,
    open_trace,
    replay,
    run,
    torture,
)
from .sweeps import run_rows

__all__ = [
    "Attribute",
    "Comparison",
    "Device",
    "DeviceLike",
    "Elevator",
    "ElevatorError",
    "Error",
    "Gate",
    "GateClass",
    "GateError",
    "Idle",
    "Job",
    "JobError",
    "Judgement",
    "Jobs",
    "Parameter",
    "Permit",
    "Replayed",
    "Request",
    "RequestError",
    "Result",
    "Scheduler",
    "SchedulerLike",
    "Table",
    "TooLate",
    "Trace",
    "__version__",
    "compare",
    "device",
    "devices",
    "fleet",
    "open_trace",
    "replay",
    "run",
    "run_rows",
    "schedulers",
    "torture",
]
