# SPDX-License-Identifier: MIT OR Apache-2.0
"""`python -m paternoster_io …`: the whole program without installing it, and `sweep`, which only
the package has."""

import signal
import sys

from . import _native, sweeps


def main() -> int:
    """Runs the program with this process's arguments."""
    if sys.argv[1:2] == ["sweep"]:
        return sweeps.main(sys.argv[2:])
    # The program handles Ctrl-C itself; it sees a closed pipe as an error.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.program(["paternoster", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
