# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several connections to one volume: what one of them sees, all see."""

import random

import nbd

from common import SIZE, connect, content, wait

BLOCK = 4096
BLOCKS = SIZE // BLOCK

handles = [connect(structured=number % 2 == 0) for number in range(5)]
*writers, flusher = handles
assert flusher.can_multi_conn()

# A write that was answered on one connection is visible on all, and in the file after a flush on
# any of them.
for round in range(8):
    for place, writer in enumerate(writers):
        for part in range(8):
            writer.pwrite(bytes([round * 16 + place + 1]) * 512, (place * 8 + part) * 512)
    seen = flusher.pread(len(writers) * BLOCK, 0)
    flusher.flush()
    expected = b"".join(bytes([round * 16 + place + 1]) * BLOCK for place in range(len(writers)))
    assert seen == expected, f"round {round}: what was answered on one is not there for another"
    assert content()[: len(expected)] == expected, f"round {round}: what was flushed"

# Writes everywhere, 64 under way on each connection, with flushes and reads in between. Two writes
# under way to the same block may end in either order, so each block is written once per round.
chance = random.Random(8)
for round in range(2):
    blocks = list(range(BLOCKS))
    chance.shuffle(blocks)
    value = {block: chance.randrange(1, 256) for block in blocks}
    under_way = {h: [] for h in handles}
    for number, block in enumerate(blocks):
        h = handles[number % len(handles)]
        buffer = nbd.Buffer.from_bytearray(bytearray([value[block]] * BLOCK))
        under_way[h].append(h.aio_pwrite(buffer, block * BLOCK))
        if number % 100 == 99:
            under_way[h].append(h.aio_flush())
        if len(under_way[h]) >= 64:
            wait(h, *under_way[h])
            under_way[h].clear()
    for h in handles:
        wait(h, *under_way[h])
    expected = b"".join(bytes([value[block]]) * BLOCK for block in range(BLOCKS))
    # All read all of it, in parallel.
    buffers = [(h, nbd.Buffer(SIZE)) for h in handles]
    cookies = [(h, h.aio_pread(buffer, 0)) for h, buffer in buffers]
    for h, cookie in cookies:
        wait(h, cookie)
    for place, (_, buffer) in enumerate(buffers):
        assert buffer.to_bytearray() == expected, f"round {round}: connection {place}"
    flusher.flush()
    assert content() == expected, f"round {round}: the file"

# A client that disconnects without DISC, with requests under way, affects no other.
lost = connect()
for number in range(32):
    lost.aio_pread(nbd.Buffer(64 << 10), number * (64 << 10))
    lost.poll(0)
del lost
for h in handles:
    assert h.pread(BLOCK, 0) == expected[:BLOCK]
    h.shutdown()
