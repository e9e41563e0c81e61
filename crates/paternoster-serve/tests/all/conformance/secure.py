# SPDX-License-Identifier: MIT OR Apache-2.0
"""TLS is required: who gets in, and are they served as in plain text?"""

import random
import sys

import nbd

from common import SIZE, SOCKET, content, prepare, refused, wait

KNOWN, NAMELESS, FORGED = sys.argv[3:6]


def secure(folder, **options):
    h = prepare(**options)
    h.set_tls(nbd.TLS_REQUIRE)
    h.set_tls_certificates(folder)
    # Nothing but the chain can be checked: a unix socket has no host's name.
    h.connect_unix(SOCKET)
    return h


def kept_out(connect):
    """Whoever it is sees neither data nor sizes."""
    try:
        h = connect()
        # Under TLS 1.3 a client believes to be in before the server has seen its certificate.
        h.pread(512, 0)
    except nbd.Error:
        return
    raise AssertionError("somebody was let in")


kept_out(lambda: secure(NAMELESS))
kept_out(lambda: secure(FORGED))

# In plain text there is neither a list, nor a size, nor a way in; but one may leave.
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

# Who may, is served: whatever the pieces that TLS cuts it into.
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
