# SPDX-License-Identifier: MIT OR Apache-2.0
# `./test --soak DURATION [--seed N]`: first Miri; then, until the time is over, rounds of all tests
# with a new seed for every generator, and of each fuzz target for a while. The next round's seed is
# stored, so that the next soak goes on where this one ended; `--seed N` begins at N. A failure
# prints its seed and how to repeat it.

. checks/lints.sh

fuzz_seconds=30
usage() {
  echo "./test --soak: $1; usage: ./test --soak DURATION [--seed N], e.g. ./test --soak 90s, 30m, 8h" >&2
  exit 2
}
[[ ${1:-} =~ ^([0-9]+)([smhd]?)$ ]] || usage "'${1:-}' is no duration"
case ${BASH_REMATCH[2]} in m) unit=60 ;; h) unit=3600 ;; d) unit=86400 ;; *) unit=1 ;; esac
ends=$((SECONDS + BASH_REMATCH[1] * unit))
shift
kept=${CARGO_TARGET_DIR:-target}/soak-seed
seed=$(cat "$kept" 2>/dev/null || echo 1)
if [ $# -gt 0 ]; then
  [ "$1" = --seed ] && [[ ${2:-} =~ ^[0-9]+$ ]] && [ $# = 2 ] || usage "'$*' is not --seed N"
  seed=$2
fi
left() { echo $((ends - SECONDS)); }

step "build"
cargo test --workspace "${planted[@]}" --no-run --quiet

fuzz=no
if cargo +nightly --version >/dev/null 2>&1; then
  cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet cargo-fuzz || true
  cargo fuzz --version >/dev/null 2>&1 && fuzz=yes
fi
[ $fuzz = yes ] || skip "fuzz targets: no nightly toolchain, or no cargo-fuzz"
targets=$(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"/\1/p' fuzz/Cargo.toml)

# A run that ends because the time is over has not failed.
within() {
  local status=0 time
  time=$(left)
  [ "$time" -gt 0 ] || return 0
  timeout "$time" "$@" || status=$?
  [ $status = 124 ] || return $status
}

# Once, the memory that a kernel writes to. A region with a buffer that never comes back is not
# freed.
if cargo +nightly miri --version >/dev/null 2>&1; then
  step "Miri: arena, lender, pieces"
  test_options=(device::arena device::lender device::pieces)
  run_tests miri within env -u RUSTC_WORKSPACE_WRAPPER PROPTEST_CASES=3 \
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" \
    cargo +nightly miri test -p paternoster-serve --lib
  test_options=()
else
  skip "Miri: no nightly toolchain with it: rustup +nightly component add miri rust-src"
fi

echo "$seed" >"$kept"
while [ "$(left)" -gt 0 ]; do
  step "seed $seed: generators"
  # Each case of the judge of streams uses the next seed: rounds must not share seeds.
  export PROPTEST_RNG_SEED=$seed PATERNOSTER_POWER_SEED=$seed PATERNOSTER_STREAM_SEED=${seed}000000
  if ! run_tests "soak-$seed" within env PATERNOSTER_SEQUENCES=100000 PATERNOSTER_POWER_CUTS=2000000 \
    PATERNOSTER_STREAM_REQUESTS=100000 PATERNOSTER_UPGRADE_SECONDS=120 \
    PATERNOSTER_SOAK_SECONDS=120 PATERNOSTER_SOAK_SEED=$seed \
    PATERNOSTER_LOADS=20 PATERNOSTER_LOADS_SEED=$((1000 * seed)) \
    PATERNOSTER_CASES=100 PATERNOSTER_CASES_SEED=$((10000 * seed)) \
    PATERNOSTER_FIO_CASES=2000 PATERNOSTER_FIO_SEED=$((1000 * seed)) \
    cargo test --workspace "${planted[@]}"; then
    echo "failed with seed $seed; again: PROPTEST_RNG_SEED=$seed PATERNOSTER_POWER_SEED=$seed" \
      "PATERNOSTER_STREAM_SEED=${seed}000000 ./test"
    exit 1
  fi
  step "seed $seed: fio jobs that depend on the clock"
  test_options=(fio_timed:: --test-threads=1)
  if ! run_tests "soak-timed-$seed" within env PATERNOSTER_FIO_TIMED=200 \
    PATERNOSTER_FIO_SEED=$((1000 * seed)) cargo test -p paternoster --test real_time; then
    echo "failed with seed $seed; the cases are in target/tmp/fio-timed"
    exit 1
  fi
  test_options=()
  if [ $fuzz = yes ] && [ "$(left)" -gt $((fuzz_seconds + 5)) ]; then
    step "seed $seed: fuzz targets, $fuzz_seconds s each"
    for target in $targets; do
      [ "$(left)" -gt $((fuzz_seconds + 5)) ] || break
      (cd fuzz && cargo +nightly fuzz run "$target" --fuzz-dir . -- -seed="$seed" \
        -max_total_time=$fuzz_seconds -rss_limit_mb=1024) >"$logs/fuzz-$target.log" 2>&1 || {
        tail -40 "$logs/fuzz-$target.log"
        echo "fuzz target $target failed with seed $seed; the input is in fuzz/artifacts/$target"
        exit 1
      }
    done
  fi
  # A round cut short by the time limit is restarted by the next soak.
  [ "$(left)" -gt 0 ] || break
  seed=$((seed + 1))
  echo "$seed" >"$kept"
done
echo "next seed: $seed"
