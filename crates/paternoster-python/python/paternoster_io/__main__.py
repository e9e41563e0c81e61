# SPDX-License-Identifier: MIT OR Apache-2.0
"""`python -m paternoster_io …`: the whole program, without an installation of its own."""

import signal
import sys

from . import _native


def main() -> int:
    """The program with this process's arguments."""
    # The program hears Ctrl-C itself; a closed pipe is an error that it sees.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.program(["paternoster", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
