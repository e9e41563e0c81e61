# SPDX-License-Identifier: MIT OR Apache-2.0
# `./test`: format, lints and tests. Nothing in it depends on how fast the machine is.

. checks/lints.sh

step "format"
cargo fmt --all --check

install fio=fio /usr/share/doc/fio/examples=fio-examples blkparse=blktrace jq=jq nbdinfo=libnbd-bin \
  /usr/lib/python3/dist-packages/nbd.py=python3-libnbd qemu-io=qemu-utils fusermount3=fuse3 \
  nbdkit=nbdkit /usr/include/nbdkit-filter.h=nbdkit-plugin-dev sqlite3=sqlite3 \
  /usr/include/sqlite3.h=libsqlite3-dev /usr/include/liburing.h=liburing-dev \
  pkg-config=pkg-config groff=groff-base zsh=zsh fish=fish
step "downloads: crates"
cargo fetch --locked

step "lints and code, in one pass"
cargo test --workspace "${planted[@]}" --no-run

# A part of what the judges check in release.
export PATERNOSTER_SEQUENCES=2000 PATERNOSTER_POWER_CUTS=150000 PATERNOSTER_STREAM_REQUESTS=2500

step "tests, audited in passing"
run_tests everyday cargo test --workspace "${planted[@]}"
