# SPDX-License-Identifier: MIT OR Apache-2.0
# The Python package: is a wheel made, does it install where there is no Rust and nothing else, and do its own
# tests hold there? Read by `judges.sh`. Its tools come from PyPI; where that cannot be asked, it is skipped.

# python_venv FOLDER PACKAGE…: an environment with these packages, unless it is there.
python_venv() {
  local folder=$1
  shift
  [ -e "$folder/whole" ] && return 0
  python3 -m venv "$folder" && "$folder/bin/pip" install -q "$@" >>"$logs/python.log" 2>&1 && touch "$folder/whole"
}

python_package() {
  local folder
  folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/python
  if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    skip "the Python package: there is no Python 3.11 with venv here"
    return 0
  fi
  step "downloads: maturin, pytest, consumers of Arrow (PyPI)"
  if ! python_venv "$folder/tools" 'maturin>=1.16,<2' mypy ||
    ! python_venv "$folder/venv" pytest hypothesis; then
    skip "the Python package: PyPI cannot be asked; see $logs/python.log"
    return 0
  fi
  # Each by itself: the tests that need a missing one are skipped. Engines of sweeps are for `--full`.
  local consumer all=(pyarrow pandas polars duckdb fsspec pyyaml)
  local without=(-k 'not (with_joblib or with_dask or with_ray or of_ray or with_spark or with_optuna)')
  local with_parquet=()
  if [ "$mode" = --full ]; then
    all+=(joblib distributed ray pyspark optuna) without=()
    cargo build -q -p paternoster --features parquet,png
    with_parquet=(PATERNOSTER_WITH_PARQUET="$folder/../debug/paternoster")
  fi
  for consumer in "${all[@]}"; do
    "$folder/venv/bin/python" -c "import ${consumer/pyyaml/yaml}" 2>/dev/null ||
      "$folder/venv/bin/pip" install -q "$consumer" >>"$logs/python.log" 2>&1 ||
      skip "the Python package with $consumer: it cannot be installed"
  done

  step "the Python package: wheel"
  rm -rf "$folder/wheels"
  (
    cd crates/paternoster-python
    CARGO_TARGET_DIR=$folder/.. "$folder/tools/bin/maturin" build --locked --release \
      --interpreter python3 --out "$folder/wheels"
  ) >>"$logs/python.log" 2>&1 || {
    tail -n 40 "$logs/python.log"
    return 1
  }
  local wheel
  wheel=$(echo "$folder"/wheels/paternoster_io-*-cp311-abi3-*.whl)
  [ -f "$wheel" ]

  step "the Python package: an empty environment, types, its own tests"
  # In an environment with nothing else, and without Rust in reach.
  python3 -m venv "$folder/empty"
  "$folder/empty/bin/pip" install -q --no-index --force-reinstall "$wheel"
  env -i "$folder/empty/bin/python" -m paternoster_io run --name=a --rw=randread --size=1m \
    --device=ssd-870evo --scheduler=bfq -q >/dev/null
  rm -rf "$folder/empty"
  "$folder/tools/bin/mypy" --strict --no-error-summary --cache-dir "$folder/mypy" \
    crates/paternoster-python/python/paternoster_io
  "$folder/venv/bin/pip" install -q --no-index --no-deps --force-reinstall "$wheel"
  local status=0
  env "${with_parquet[@]}" "$folder/venv/bin/python" -m pytest -q -rs -p no:cacheprovider "${without[@]}" \
    crates/paternoster-python/tests \
    >"$logs/python-tests.log" 2>&1 || status=$?
  tail -n 20 "$logs/python-tests.log"
  count_pytest "$logs/python-tests.log"
  return "$status"
}

# Adds what pytest counts in its last line: `3 failed, 25 passed, 1 skipped in 12.3s`.
count_pytest() {
  local last
  last=$(tail -n 1 "$1")
  number_of() { sed -n "s/.*\b\([0-9][0-9]*\) $1\b.*/\1/p" <<<"$last"; }
  local good bad less
  good=$(number_of passed) bad=$(number_of failed) less=$(number_of skipped)
  passed=$((passed + ${good:-0})) failed=$((failed + ${bad:-0})) skipped=$((skipped + ${less:-0}))
  sed -n 's/^SKIPPED \[[0-9]*\] \(.*\)/-\tskipped: python: \1/p' "$1" >>"$logs/skipped"
}

python_package
