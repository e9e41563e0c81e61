# SPDX-License-Identifier: MIT OR Apache-2.0
"""Illegal requests: each is refused as the protocol says, and affects no other client."""

import nbd

from common import FILE, SIZE, connect, content, refused

# A well-behaved client, which is served all the time.
neighbour = connect()
OWN = b"neighbour " * 51 + b"of"  # a sector: 51 times 10 and 2
neighbour.pwrite(OWN, SIZE - 1024)
neighbour.flush()


def all_is_well(h):
    """Both the connection with the illegal request and another one are still served."""
    assert h.pread(512, 0) == bytes(512)
    assert neighbour.pread(512, SIZE - 1024) == OWN


def illegal(h, expected, act, *args):
    refused(expected, act, *args)
    all_is_well(h)


def past_the_end(h):
    illegal(h, "EINVAL", h.pread, 512, SIZE)
    illegal(h, "EINVAL", h.pread, 1024, SIZE - 512)
    illegal(h, "EINVAL", h.pread, 512, 2**63 - 512)
    illegal(h, "ENOSPC", h.pwrite, bytes(512), SIZE)
    illegal(h, "ENOSPC", h.pwrite, b"x" * 1024, SIZE - 512)
    illegal(h, "ENOSPC", h.pwrite, b"x" * (1 << 20), SIZE - 512)
    illegal(h, "ENOSPC", h.zero, 1024, SIZE - 512)
    # The protocol lets the server choose which of the two errors a trim gets.
    illegal(h, ("EINVAL", "ENOSPC"), h.trim, 1024, SIZE - 512)
    illegal(h, "EINVAL", h.cache, 1024, SIZE - 512)
    illegal(h, "ENOSPC", h.zero, 2**32 - 512, 2**63 - 512)


def zero_length(h):
    illegal(h, "EINVAL", h.pread, 0, 0)
    illegal(h, "EINVAL", h.pwrite, b"", 0)
    illegal(h, "EINVAL", h.trim, 0, 0)
    illegal(h, "EINVAL", h.zero, 0, 0)
    illegal(h, "EINVAL", h.cache, 0, 0)


def flags(h, structured):
    unknown = 1 << 9
    illegal(h, "EINVAL", h.pread, 512, 0, unknown)
    # The payload of a refused write must be skipped.
    illegal(h, "EINVAL", h.pwrite, b"x" * 512, 0, unknown)
    illegal(h, "EINVAL", h.pwrite, b"x" * (300 << 10), 0, nbd.CMD_FLAG_DF)
    illegal(h, "EINVAL", h.trim, 512, 0, nbd.CMD_FLAG_NO_HOLE)
    illegal(h, "EINVAL", h.zero, 512, 0, nbd.CMD_FLAG_REQ_ONE)
    illegal(h, "EINVAL", h.flush, unknown)
    illegal(h, "EINVAL", h.cache, 512, 0, nbd.CMD_FLAG_FAST_ZERO)
    if structured:
        illegal(h, "EINVAL", h.block_status, 512, 0, lambda *_: 0, nbd.CMD_FLAG_DF)
    else:
        # Not negotiated: DF makes no sense, and block status has no reply.
        illegal(h, "EINVAL", h.pread, 512, 0, nbd.CMD_FLAG_DF)


def too_long(h):
    # 32 MiB is the most for one request; libnbd itself stops at 64.
    for length in (32 << 20) + 512, 64 << 20:
        illegal(h, ("EOVERFLOW", "EINVAL", "ERANGE"), h.pread, length, 0)
        illegal(h, ("EOVERFLOW", "EINVAL", "ENOSPC", "ERANGE"), h.pwrite, bytes(length), 0)


def unaligned():
    # A client that knows the block sizes must keep to them ...
    h = connect(strict=False)
    assert h.get_block_size(nbd.SIZE_MINIMUM) == 512
    for offset, length in (1, 512), (0, 511), (513, 1), (1000, 24):
        illegal(h, "EINVAL", h.pread, length, offset)
        illegal(h, "EINVAL", h.pwrite, b"x" * length, offset)
        illegal(h, "EINVAL", h.zero, length, offset)
        illegal(h, "EINVAL", h.trim, length, offset)
    h.shutdown()
    # ... and one that does not know them may ask for any byte.
    h = connect(strict=False, blocks=False)
    h.pwrite(b"abc", 4095)
    assert h.pread(5, 4094) == b"\0abc\0"
    h.zero(3, 4095)
    all_is_well(h)
    h.shutdown()


def readonly():
    h = connect("fixed", strict=False)
    assert h.is_read_only()
    for act, what in (h.pwrite, b"x" * 512), (h.zero, 512), (h.trim, 512):
        refused("EPERM", act, what, 0)
        assert h.pread(512, 0) == bytes(512)
    refused("EPERM", h.pwrite, b"x" * (1 << 20), 1 << 30)
    h.flush()
    all_is_well(h)
    h.shutdown()


def many_at_once():
    # 200 legal and illegal requests under way together: each gets its own answer.
    h = connect(strict=False)
    under_way = []
    for number in range(200):
        buffer = nbd.Buffer(512)
        offset = SIZE if number % 3 == 0 else 512 * number
        under_way.append((number, h.aio_pread(buffer, offset)))
    for number, cookie in under_way:
        try:
            while not h.aio_command_completed(cookie):
                assert h.poll(60_000) == 1
            assert number % 3 != 0, "a read past the end was done"
        except nbd.Error as error:
            assert number % 3 == 0 and error.errno == "EINVAL", error
    all_is_well(h)
    h.shutdown()


for structured in True, False:
    h = connect(structured=structured, strict=False)
    past_the_end(h)
    zero_length(h)
    flags(h, structured)
    too_long(h)
    if structured:
        # The refusal has a message too; libnbd keeps it for its debug log.
        error = refused("EINVAL", h.pread, 512, SIZE)
    h.shutdown()
unaligned()
readonly()
many_at_once()
neighbour.shutdown()
expected = bytes(SIZE - 1024) + OWN + bytes(512)
assert content() == expected, f"something that was refused was written to {FILE}"
