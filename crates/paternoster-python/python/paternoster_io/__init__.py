# SPDX-License-Identifier: MIT OR Apache-2.0
"""Linux I/O schedulers in virtual time.

    import paternoster_io as pt
    result = pt.run(pt.Job("a", rw="randread", size="1m"), scheduler=["none", "bfq"])
    polars.DataFrame(result.clients)

docs/python.md of the repository has the rest.
"""

from ._errors import ElevatorError, Error, JobError, RequestError
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
from ._native import Table, __version__
from ._runs import (
    Comparison,
    DeviceLike,
    Replayed,
    Result,
    Trace,
    compare,
    open_trace,
    replay,
    run,
)

__all__ = [
    "Attribute",
    "Comparison",
    "Device",
    "DeviceLike",
    "ElevatorError",
    "Error",
    "Job",
    "JobError",
    "Jobs",
    "Parameter",
    "Replayed",
    "RequestError",
    "Result",
    "Scheduler",
    "Table",
    "Trace",
    "__version__",
    "compare",
    "device",
    "devices",
    "open_trace",
    "replay",
    "run",
    "schedulers",
]
