# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every command with every flag that it may have, with structured and with simple replies."""

import os

import nbd

from common import FILE, SIZE, connect, content, map_of, wait

HOLE = nbd.STATE_HOLE | nbd.STATE_ZERO
MIB = 1 << 20


def pattern(length, first):
    """Each sector has its own byte, repeating after 251; none is zero."""
    sectors = (bytes([(first + sector) % 251 + 1]) * 512 for sector in range(length // 512))
    return b"".join(sectors)


def writes_and_reads(h):
    h.pwrite(pattern(MIB, 1), 0)
    h.pwrite(pattern(MIB, 2), MIB, nbd.CMD_FLAG_FUA)
    assert h.pread(2 * MIB, 0) == pattern(MIB, 1) + pattern(MIB, 2)
    assert h.pread(512, SIZE - 512) == bytes(512)
    h.flush()
    assert content()[: 2 * MIB] == pattern(MIB, 1) + pattern(MIB, 2)


def zeroes(h):
    nothing = bytes(64 << 10)
    ways = 0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FAST_ZERO, nbd.CMD_FLAG_FUA, 0x13
    for flags in ways:
        h.pwrite(pattern(MIB, 3), 0)
        h.zero(64 << 10, 128 << 10, flags)
        expected = bytearray(pattern(MIB, 3))
        expected[128 << 10 : 192 << 10] = nothing
        assert h.pread(MIB, 0) == expected, f"zeroes with flags {flags:#x}"
    # Longer than any payload may be, but still done completely.
    h.pwrite(b"x" * 512, SIZE - 512)
    h.zero(SIZE, 0)
    assert content() == bytes(SIZE)


def forgets(h):
    for flags in 0, nbd.CMD_FLAG_FUA:
        h.pwrite(pattern(MIB, 4), MIB)
        h.trim(MIB, MIB, flags)
        # A hint: reads may return old data or zeroes; here the file can have holes.
        assert h.pread(MIB, MIB) == bytes(MIB)
        h.pwrite(pattern(4096, 5), MIB)
        assert h.pread(4096, MIB) == pattern(4096, 5)


def cache(h):
    h.cache(SIZE, 0)
    h.cache(512, 512)


def status(h):
    h.trim(SIZE, 0)
    assert map_of(h) == [(SIZE, HOLE)]
    h.pwrite(b"x" * 8192, MIB)
    assert map_of(h) == [(MIB, HOLE), (8192, 0), (SIZE - MIB - 8192, HOLE)]
    # Only the first run is reported, however many there are.
    assert map_of(h, flags=nbd.CMD_FLAG_REQ_ONE) == [(MIB, HOLE)]
    assert map_of(h, 4096, MIB + 4096) == [(4096, 0)]
    # Zeroes that must not become a hole keep their space in the file. How they are reported is
    # free.
    h.zero(8192, MIB, nbd.CMD_FLAG_NO_HOLE)
    assert os.stat(FILE).st_blocks * 512 >= 8192
    assert h.pread(8192, MIB) == bytes(8192)
    h.zero(8192, MIB)
    assert map_of(h) == [(SIZE, HOLE)]


def chunks(h):
    """Reads are answered in chunks that cover the range exactly once; with DF in a single chunk."""
    h.pwrite(pattern(3 * MIB, 6), 512)
    for length, flags in (3 * MIB, 0), (64 << 10, 0), (64 << 10, nbd.CMD_FLAG_DF):
        seen = []

        def chunk(data, offset, kind, error):
            assert kind in (nbd.READ_DATA, nbd.READ_HOLE)
            seen.append((offset, len(data)))

        data = h.pread_structured(length, 512, chunk, flags)
        assert data == pattern(length, 6)
        reached = 512
        for offset, size in sorted(seen):
            assert offset == reached, f"a gap or an overlap at {reached}: {seen}"
            reached += size
        assert reached == 512 + length
        assert flags == 0 or len(seen) == 1, "do not fragment"
    h.trim(SIZE, 0)


def farewell(h):
    """Requests sent before DISC are answered before the connection ends."""
    buffers = [nbd.Buffer(4096) for _ in range(32)]
    cookies = [h.aio_pread(buffer, 4096 * n) for n, buffer in enumerate(buffers)]
    wait(h, *cookies)
    h.shutdown()
    assert h.aio_is_closed()


for structured in True, False:
    h = connect(structured=structured)
    assert h.get_structured_replies_negotiated() == structured
    assert h.can_df() == structured
    assert h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION) == structured
    assert h.can_fast_zero() and h.can_cache() and h.can_trim() and h.can_multi_conn()
    writes_and_reads(h)
    zeroes(h)
    forgets(h)
    cache(h)
    if structured:
        status(h)
        chunks(h)
    h.zero(SIZE, 0)
    farewell(h)
