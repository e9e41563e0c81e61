#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Engines of sweeps: does a plan give the same with a loop, joblib, Dask, Ray, Spark and parts, even
# if a worker is killed; are the scripts for Slurm and Kubernetes valid? Sourced by `full.sh`, after
# `python.sh`, which makes the package; or run by itself:
#
#   bash checks/engines.sh
#
# Engines come from PyPI, Java and shellcheck from Debian. Engines that cannot be installed are
# skipped, and counted as skipped.
if [ -z "${logs:-}" ]; then
  set -euo pipefail
  cd "$(dirname "$0")/.."
  . checks/lib.sh
  . checks/python.sh
fi

python_engines() {
  local folder wheel
  folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/python
  wheel=$(echo "$folder"/wheels/paternoster_io-*-cp311-abi3-*.whl)
  if [ ! -f "$wheel" ]; then
    skip "engines of sweeps: there is no wheel of the Python package"
    return 0
  fi
  # Any installed Java will do.
  install java=default-jre-headless shellcheck=shellcheck
  step "downloads: engines of sweeps, Kubernetes' schemas (PyPI; 0.9 GB)"
  python_packages "$folder" joblib distributed ray pyspark optuna kubernetes-validate
  step "engines of sweeps: the program with Parquet"
  cargo build -q -p paternoster --features parquet,png
  step "engines of sweeps: 240 rows by each"
  PATERNOSTER_WITH_PARQUET="$folder/../debug/paternoster" \
    python_tests engines "$folder" crates/paternoster-python/tests/test_engines.py
}

python_engines
