# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random pipelined requests through libnbd: is every byte of every answer right?

    interop.py URI SEED REQUESTS CONNECTIONS structured|simple whole|any FILE

With `any`, every second connection asks for bytes and not for whole blocks.
Each connection has its own part of the disk, in which no two requests under way overlap: so it is
known what every read must return. Trimmed ranges may hold anything until they are written again. At
the end a new connection reads everything and writes it to FILE, to be compared with the disk.
"""

import random
import sys

import nbd

URI, SEED, REQUESTS, CONNECTIONS, REPLIES, SHAPE, FILE = sys.argv[1:]
DEPTH = 32
KINDS = ["read"] * 8 + ["write"] * 8 + ["zero"] * 2 + ["trim", "flush", "cache", "status"]


def connect(blocks):
    """`blocks`: requests block sizes, and keeps to them."""
    h = nbd.NBD()
    h.set_request_structured_replies(REPLIES == "structured")
    h.set_request_block_size(blocks)
    h.set_uri_allow_local_file(True)
    if REPLIES == "structured":
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    # Newer versions of libnbd request extended headers by themselves, with structured replies.
    h.connect_uri(URI)
    assert blocks is False or h.get_structured_replies_negotiated() == (REPLIES == "structured")
    return h


class Client:
    """A connection, its part of the disk, and the expected content."""

    def __init__(self, number, start, length):
        self.chance = random.Random(int(SEED) * 1000 + number)
        self.blocks = number % 2 == 0 or SHAPE == "whole"
        self.h = connect(self.blocks)
        self.start, self.length = start, length
        self.must = bytearray(self.h.pread(length, start))
        self.unknown = bytearray(length)
        self.under_way = []

    def place(self):
        """A range that no request under way touches; `None` if none was found soon."""
        longest = self.chance.choice([1, 600, 5000, 5000, 70_000, 70_000, 1 << 20, 3 << 20])
        unit = 4096 if self.blocks else 1
        for _ in range(10):
            length = -(-self.chance.randint(1, longest) // unit) * unit
            offset = self.chance.randrange(0, self.length - length + 1) // unit * unit
            end = offset + length
            if not any(at < end and offset < until for _, at, until, _ in self.under_way):
                return offset, length
        return None

    def ask(self):
        kind = self.chance.choice(KINDS)
        place = self.place()
        if place is None:
            return
        offset, length = place
        if kind == "status" and not self.h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION):
            kind = "read"
        if kind == "trim" and not self.h.can_trim():
            kind = "flush"
        if kind == "cache" and not self.h.can_cache():
            kind = "flush"
        at, end, check = self.start + offset, offset + length, None
        fua = self.chance.choice([0, 0, nbd.CMD_FLAG_FUA]) if self.h.can_fua() else 0
        if kind == "read":
            buffer = nbd.Buffer(length)
            cookie = self.h.aio_pread(buffer, at)
            check = lambda: self.compare(buffer.to_bytearray(), offset)
        elif kind == "write":
            data = self.chance.randbytes(length)
            cookie = self.h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), at, flags=fua)
            self.becomes(offset, data)
        elif kind == "zero":
            flags = fua | self.chance.choice([0, nbd.CMD_FLAG_NO_HOLE])
            cookie = self.h.aio_zero(length, at, flags=flags)
            self.becomes(offset, bytes(length))
        elif kind == "trim":
            cookie = self.h.aio_trim(length, at, flags=fua)
            self.unknown[offset:end] = b"\1" * length
        elif kind == "flush":
            cookie, end = self.h.aio_flush(), offset
        elif kind == "cache":
            cookie = self.h.aio_cache(length, at)
        else:
            told = []
            extent = lambda context, first, entries, error: told.extend(entries)
            cookie = self.h.aio_block_status(length, at, extent)
            check = lambda: self.look_at_runs(told)
        self.under_way.append((cookie, offset, end, check))

    def becomes(self, offset, data):
        self.must[offset : offset + len(data)] = data
        self.unknown[offset : offset + len(data)] = bytes(len(data))

    def compare(self, came, offset):
        end = offset + len(came)
        if came == self.must[offset:end]:
            return
        for place, byte in enumerate(came, offset):
            if byte != self.must[place] and not self.unknown[place]:
                raise AssertionError(
                    f"byte {self.start + place} of a read of {len(came)} from "
                    f"{self.start + offset} on: {byte:#x}, and {self.must[place]:#x} must be "
                    f"there ({REPLIES})"
                )

    def look_at_runs(self, told):
        assert len(told) >= 2 and len(told) % 2 == 0 and all(told[::2]), f"runs: {told}"

    def take(self):
        self.h.poll(0)
        left = []
        for one in self.under_way:
            cookie, _, _, check = one
            if not self.h.aio_command_completed(cookie):
                left.append(one)
            elif check is not None:
                check()
        self.under_way = left


count = int(CONNECTIONS)
size = connect(False).get_size()
part = size // count // 4096 * 4096
clients = [Client(number, number * part, part) for number in range(count)]
asked = 0
while asked < int(REQUESTS):
    for client in clients:
        # Now and then it reads nothing for a while, so that answers queue up.
        for _ in range(client.chance.randrange(DEPTH)):
            if len(client.under_way) < DEPTH:
                client.ask()
                asked += 1
        if client.chance.randrange(4):
            client.take()
        if len(client.under_way) >= DEPTH:
            client.h.poll(20)
while any(client.under_way for client in clients):
    for client in clients:
        client.take()
        if client.under_way:
            client.h.poll(20)
# Trimmed ranges are written, so that all content is known.
for client in clients:
    for offset in range(0, client.length, 4096):
        end = min(offset + 4096, client.length)
        if any(client.unknown[offset:end]):
            client.h.pwrite(bytes(end - offset), client.start + offset)
            client.becomes(offset, bytes(end - offset))
clients[-1].h.flush()
again = connect(False)
with open(FILE, "wb") as file:
    for client in clients:
        came = again.pread(client.length, client.start)
        client.compare(came, 0)
        file.write(came)
for h in [again] + [client.h for client in clients]:
    h.shutdown()
print(asked)
