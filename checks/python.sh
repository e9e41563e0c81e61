# SPDX-License-Identifier: MIT OR Apache-2.0
# The Python package: does a wheel build, does it install where there is neither Rust nor any
# package, and do its own tests pass there? Sourced by `judges.sh` and `engines.sh`. Its tools come
# from PyPI; without PyPI it is skipped.

# python_venv FOLDER PACKAGE…: makes an environment with these packages, unless it exists.
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
  python_packages "$folder" pyarrow pandas polars duckdb fsspec pyyaml

  step "the Python package: wheel"
  rm -rf "$folder/wheels"
  (
    cd crates/paternoster-python
    # Only for its tests; no published wheel has the feature.
    CARGO_TARGET_DIR=$folder/.. "$folder/tools/bin/maturin" build --locked --release \
      --features planted-bugs --interpreter python3 --out "$folder/wheels"
  ) >>"$logs/python.log" 2>&1 || {
    tail -n 40 "$logs/python.log"
    return 1
  }
  local wheel
  wheel=$(echo "$folder"/wheels/paternoster_io-*-cp311-abi3-*.whl)
  [ -f "$wheel" ]

  step "the Python package: an empty environment, types, its own tests"
  # In an environment with nothing else, and without Rust in the PATH.
  python3 -m venv "$folder/empty"
  "$folder/empty/bin/pip" install -q --no-index --force-reinstall "$wheel"
  env -i "$folder/empty/bin/python" -m paternoster_io run --name=a --rw=randread --size=1m \
    --device=ssd-870evo --scheduler=bfq -q >/dev/null
  rm -rf "$folder/empty"
  "$folder/tools/bin/mypy" --strict --no-error-summary --cache-dir "$folder/mypy" \
    crates/paternoster-python/python/paternoster_io
  "$folder/venv/bin/pip" install -q --no-index --no-deps --force-reinstall "$wheel"
  local status=0
  python_tests python-tests "$folder" crates/paternoster-python/tests --ignore-glob='*/test_engines.py' || status=$?
  return "$status"
}

# python_packages FOLDER PACKAGE…: installs each by itself, so that only tests that need a missing one are
# skipped.
python_packages() {
  local folder=$1 package
  shift
  for package in "$@"; do
    [ -e "$folder/venv/has-$package" ] && continue
    if "$folder/venv/bin/pip" install -q "$package" >>"$logs/python.log" 2>&1; then
      touch "$folder/venv/has-$package"
    else
      skip "the Python package with $package: it cannot be installed"
    fi
  done
}

# python_tests LOG FOLDER WORDS…: runs the package's own tests, and counts them.
python_tests() {
  local log=$logs/$1.log folder=$2 status=0
  shift 2
  "$folder/venv/bin/python" -m pytest -q -rs -p no:cacheprovider "$@" >"$log" 2>&1 || status=$?
  if [ "$status" = 0 ]; then tail -n 20 "$log"; else cat "$log"; fi
  count_pytest "$log"
  return "$status"
}

# Adds the counts in pytest's last line: `3 failed, 25 passed, 1 skipped in 12.3s`.
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
