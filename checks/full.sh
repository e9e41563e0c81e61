# SPDX-License-Identifier: MIT OR Apache-2.0
# `./test --full`, after the tests and the judges: checks that need heavy packages, or the clock of
# this machine. A figure in real time is the median of three tries, within bounds that widen with
# the machine's noise.

# PostgreSQL's programs, without the database that Debian would start.
install_postgresql() {
  compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null && return 0
  local settings=/etc/postgresql-common/createcluster.conf before
  install $settings=postgresql-common
  [ -e $settings ] && can_install || return 0
  before=$(mktemp)
  cp $settings "$before"
  echo 'create_main_cluster = false' >>$settings
  install "/usr/lib/postgresql/*/bin/initdb=postgresql"
  cp "$before" $settings
  rm "$before"
}

# The file system exerciser, from crates.io, put where its tests look for it.
install_fsx() {
  local tools=${CARGO_TARGET_DIR:-target}/tools
  [ -x "$tools/bin/fsx" ] || command -v fsx >/dev/null 2>&1 && return 0
  step "downloads: fsx (crates.io)"
  cargo install fsx --version 0.3.2 --locked --debug --quiet --root "$tools" ||
    echo "fsx could not be installed; tests that need it are skipped, and counted as that"
}

# A kernel with its own NBD client, and a shell, unpacked where the guest's test looks for them; only QEMU and
# nbd-client are installed here.
unpack_guest() {
  local guest=${CARGO_TARGET_DIR:-target}/guest kernel package
  compgen -G "$guest/boot/vmlinuz*" >/dev/null && return 0
  can_install || return 0
  step "downloads: a kernel and busybox for a guest (Debian, unpacked only)"
  kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
  mkdir -p "$guest"
  (
    cd "$guest"
    apt-get download -q "${kernel:-linux-image-cloud-amd64}" busybox-static
    for package in *.deb; do dpkg -x "$package" . && rm "$package"; done
  ) >"$logs/guest.log" 2>&1 || echo "no kernel could be had; the test that needs it is skipped, and counted as that"
}

install chromium=chromium nbdfuse=nbdfuse mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs git=git
install qemu-system-x86_64=qemu-system-x86 nbd-client=nbd-client promtool=prometheus
install_postgresql
install_fsx
unpack_guest

step "shares, processes and emulated devices in real time, release"
test_options=(--test-threads=1)
run_tests real-time cargo test --release -p paternoster-serve -p paternoster -p paternoster-gate-c --test real_time
test_options=()

step "file systems, databases, a guest with the kernel's NBD client, and clients of others, release"
run_tests heavy cargo test --release -p paternoster --test heavy

step "pictures as PNG and in a browser, columns as Parquet"
run_tests pictures cargo test -p paternoster-trace --features png --test pictures
run_tests columns cargo test -p paternoster --features parquet,png columns

step "alerts, by promtool"
run_tests alerts cargo test --workspace "${planted[@]}" --test all monitoring::

. checks/schemas.sh
. checks/engines.sh
. checks/packages.sh
. checks/dist.sh
. checks/perfetto.sh
. checks/pages.sh
. checks/book.sh

step "the disk under turmoil, madsim and moonpool, each a workspace of its own"
for adapter in turmoil madsim moonpool; do
  if (cd "adapters/$adapter" && cargo fetch --quiet 2>/dev/null); then
    PATERNOSTER_CRASHES=10000 run_tests "adapter-$adapter" env -C "adapters/$adapter" cargo test
  else
    skip "the disk under $adapter: its crates cannot be fetched"
  fi
done

step "properties and power cuts, longer"
export PATERNOSTER_SEQUENCES=400000 PATERNOSTER_POWER_CUTS=20000000
test_options=(properties:: power_)
run_tests properties-longer cargo test --release -p paternoster-schedulers -p paternoster-sim "${planted[@]}" --test all
test_options=()
unset PATERNOSTER_SEQUENCES PATERNOSTER_POWER_CUTS

step "benches, quick"
cargo bench -p paternoster-bench -- --quick
