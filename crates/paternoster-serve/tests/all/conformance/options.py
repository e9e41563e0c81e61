# SPDX-License-Identifier: MIT OR Apache-2.0
"""The handshake, option by option."""

import nbd

from common import SIZE, SOCKET, connect, prepare, refused

neighbour = connect()


def at_the_options(export="disk", **options):
    h = prepare(export, **options)
    h.set_opt_mode(True)
    h.set_full_info(True)
    h.connect_unix(SOCKET)
    assert h.aio_is_negotiating()
    return h


def listed(h):
    found = []
    assert h.opt_list(lambda name, text: found.append((name, text)) or 0) == 2
    return found


def contexts(h):
    found = []
    h.opt_list_meta_context(lambda name: found.append(name) or 0)
    return found


# Any number of options, in any order, with mistakes in between.
h = at_the_options()
for _ in range(3):
    assert listed(h) == [("disk", "to write on"), ("fixed", "")]
    h.set_export_name("nobody")
    refused("ENOENT", h.opt_info)
    refused("ENOENT", h.opt_go)
    assert h.aio_is_negotiating(), "a wrong name is no end"
    h.set_export_name("fixed")
    h.opt_info()
    assert h.get_size() == 1 << 20 and h.is_read_only()
    assert h.get_canonical_export_name() == "fixed"
    h.set_export_name("disk")
    h.opt_info()
    assert h.get_size() == SIZE and not h.is_read_only()
    assert h.get_export_description() == "to write on"
h.opt_go()
assert h.aio_is_ready() and h.pread(512, 0) == bytes(512)
h.shutdown()

# Metadata contexts: all, those of a namespace, one, and none.
h = at_the_options()
h.clear_meta_contexts()
assert contexts(h) == ["base:allocation"]
for query, expected in ("base:", 1), ("base:allocation", 1), ("base:alloc", 0), ("x:y", 0):
    h.clear_meta_contexts()
    h.add_meta_context(query)
    assert len(contexts(h)) == expected, query
# An unknown context is not selected, and block status then has nothing to report.
h.clear_meta_contexts()
h.add_meta_context("x:y")
h.opt_go()
assert not h.can_meta_context("x:y")
refused(("EINVAL", "ENOTSUP"), h.block_status, 512, 0, lambda *_: 0)
h.set_strict_mode(0)
refused("EINVAL", h.block_status, 512, 0, lambda *_: 0)
assert h.pread(512, 0) == bytes(512)
h.shutdown()

# The empty name means the first export, and the server reports its name.
h = at_the_options("")
h.opt_go()
assert h.get_canonical_export_name() == "disk" and h.get_size() == SIZE
h.shutdown()

# Names of the greatest allowed length, and one character longer.
h = at_the_options("x" * 4096)
refused("ENOENT", h.opt_info)
h.set_export_name("\u00e4\u20ac")
refused("ENOENT", h.opt_go)
h.opt_abort()
assert h.aio_is_closed()

# Handshakes of older clients: with zeroes after EXPORT_NAME, without fixed newstyle.
for flags in 0, nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE, nbd.HANDSHAKE_FLAG_NO_ZEROES:
    h = prepare(structured=False)
    h.set_handshake_flags(flags)
    h.connect_unix(SOCKET)
    assert h.get_size() == SIZE and not h.can_df()
    h.pwrite(b"old" * 512, 0)
    assert h.pread(1536, 0) == b"old" * 512
    h.zero(1536, 0)
    h.shutdown()
# There is no reply that tells such a client that a name is wrong: the connection ends.
h = prepare("nobody", structured=False)
h.set_handshake_flags(0)
try:
    h.connect_unix(SOCKET)
    raise AssertionError("there is no export of that name")
except nbd.Error:
    pass

assert neighbour.pread(512, 0) == bytes(512)
neighbour.shutdown()
