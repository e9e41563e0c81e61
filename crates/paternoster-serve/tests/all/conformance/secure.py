# SPDX-License-Identifier: MIT OR Apache-2.0
"""With TLS required, which clients get in, and are they served as without TLS?"""

import random
import sys

import nbd

from common import SIZE, SOCKET, content, prepare, refused, wait

KNOWN, NAMELESS, FORGED = sys.argv[3:6]


def secure(folder, **options):
    h = prepare(**options)
    h.set_tls(nbd.TLS_REQUIRE)
    h.set_tls_certificates(folder)
    # Only the chain can be checked: a unix socket has no host name.
    h.connect_unix(SOCKET)
    return h


def kept_out(connect):
    """Such a client sees neither data nor sizes."""
    try:
        h = connect()
        # With TLS 1.3 a client's handshake ends before the server has seen its certificate.
        h.pread(512, 0)
    except nbd.Error:
        return
    raise AssertionError("somebody was let in")


kept_out(lambda: secure(NAMELESS))
kept_out(lambda: secure(FORGED))

# Without TLS there is no list, no size and no access; but a client may disconnect properly.
h = prepare()
h.set_tls(nbd.TLS_DISABLE)
h.set_opt_mode(True)
h.connect_unix(SOCKET)
for act in (lambda: h.opt_list(lambda *_: 0)), h.opt_info, h.opt_go:
    try:
        act()
        raise AssertionError("an option was done before TLS")
    except nbd.Error:
        assert h.aio_is_negotiating(), "it could still ask for TLS"
h.opt_abort()
h = prepare(structured=False)
h.set_tls(nbd.TLS_DISABLE)
h.set_handshake_flags(0)
kept_out(lambda: h.connect_unix(SOCKET) or h)

# An authorised client is served, however TLS divides its data into records.
for structured in True, False:
    h = secure(KNOWN, structured=structured, strict=False, blocks=False)
    assert h.get_tls_negotiated()
    chance = random.Random(8)
    model = bytearray(content())
    for _ in range(60):
        length = chance.choice((1, 511, 4096, 16384, 16385, 70_001, 1 << 20))
        offset = chance.randrange(SIZE - length)
        if chance.random() < 0.5:
            data = chance.randbytes(length)
            h.pwrite(data, offset)
            model[offset : offset + length] = data
        else:
            assert h.pread(length, offset) == model[offset : offset + length]
    refused("EINVAL", h.pread, 512, SIZE)
    refused("ENOSPC", h.pwrite, bytes(100_000), SIZE - 1)
    under_way = []
    for number in range(64):
        buffer = nbd.Buffer(60_000)
        offset = chance.randrange(SIZE - 60_000)
        under_way.append((buffer, offset, h.aio_pread(buffer, offset)))
    for buffer, offset, cookie in under_way:
        wait(h, cookie)
        assert buffer.to_bytearray() == model[offset : offset + 60_000]
    h.flush()
    assert content() == model
    h.shutdown()
