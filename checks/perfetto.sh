# SPDX-License-Identifier: MIT OR Apache-2.0
# Does `--perfetto` output obey perfetto's published descriptors? They are in its Python package;
# without PyPI this is skipped. Sourced by `full.sh`.

perfetto_traces() {
  local folder file
  folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/perfetto
  step "downloads: perfetto's descriptors (PyPI)"
  if ! python3 -m venv "$folder" || ! "$folder/bin/pip" install -q perfetto protobuf >"$logs/perfetto.log" 2>&1; then
    skip "traces for perfetto: its descriptors cannot be had; see $logs/perfetto.log"
    return 0
  fi
  step "traces for perfetto by its own descriptors"
  file=$folder/runs.pftrace
  local run=(cargo run --release --quiet -p paternoster -- run jobs/recipes/database.fio -q --format csv)
  "${run[@]}" --device ssd-870evo --runtime 1s --scheduler none --scheduler bfq --scheduler paternoster \
    --perfetto "$file" >/dev/null
  "$folder/bin/python" checks/perfetto_trace.py "$file" pg-read pg-wal backup scheduler 'in the device' \
    'commands in the device' 'none on ssd-870evo' 'bfq on ssd-870evo' 'paternoster on ssd-870evo'
  "${run[@]}" --device hdd-7200 --runtime 1s --scheduler cfq --scheduler mq-deadline \
    --fault 'refuse every=50' --perfetto "$file" >/dev/null
  "$folder/bin/python" checks/perfetto_trace.py "$file" pg-read pg-wal backup scheduler 'cfq on hdd-7200'
  rm "$file"
}
perfetto_traces
