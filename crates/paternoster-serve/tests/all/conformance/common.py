# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the scripts share: connections, and checks that a call fails as it must."""

import errno
import sys

import nbd

SOCKET = sys.argv[1]
FILE = sys.argv[2]
SIZE = 4 << 20


def prepare(export="disk", structured=True, blocks=True, strict=True):
    """A handle that is not connected yet. `blocks`: request block sizes, and thereby promise to
    keep to them. Without `strict` libnbd sends whatever it is told, even if the protocol forbids
    it."""
    h = nbd.NBD()
    h.set_export_name(export)
    h.set_request_structured_replies(structured)
    h.set_request_block_size(blocks)
    if not strict:
        h.set_strict_mode(0)
    if structured:
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    return h


def connect(*args, **options):
    h = prepare(*args, **options)
    h.connect_unix(SOCKET)
    return h


def refused(expected, act, *args):
    """Makes the call, which must fail with one of these errors (a name, or names)."""
    expected = (expected,) if isinstance(expected, str) else expected
    try:
        act(*args)
    except nbd.Error as error:
        assert error.errno in expected, f"{act.__name__}{args[1:]}: {error}; not {expected}"
        return error
    shown = [a if isinstance(a, int) else f"{len(a)} bytes" for a in args]
    raise AssertionError(f"{act.__name__} {shown} was done; {expected} was expected")


def map_of(h, length=SIZE, offset=0, flags=0):
    """Runs of block status, as pairs of length and flags."""
    found = []

    def extent(context, offset, entries, error):
        assert context == nbd.CONTEXT_BASE_ALLOCATION
        found.extend(zip(entries[::2], entries[1::2]))

    h.block_status(length, offset, extent, flags)
    return found


def wait(h, *cookies):
    """Waits for asynchronous requests; raises what went wrong."""
    for cookie in cookies:
        while not h.aio_command_completed(cookie):
            assert h.poll(60_000) == 1, "a minute without a word"


def content():
    """The file behind the volume `disk`, read directly."""
    with open(FILE, "rb") as file:
        return file.read()


assert errno.EINVAL == 22, "the protocol has Linux's numbers"
