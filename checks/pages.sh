# SPDX-License-Identifier: MIT OR Apache-2.0
# Are pages for a browser free of errors, axe-core findings and sideways scrolling: on a wide
# screen, in dark mode, on a phone? axe-core comes from npm. Sourced by `full.sh`; pictures stay in
# the target folder's `pages`.

pages() {
  local folder run
  folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/pages
  mkdir -p "$folder"
  if ! command -v chromium >/dev/null 2>&1 || ! command -v node >/dev/null 2>&1; then
    skip "pages in a browser: no chromium or no node here"
    return 0
  fi
  step "downloads: axe-core (npm)"
  if ! [ -f "$folder/package/axe.min.js" ]; then
    if ! (cd "$folder" && npm pack --silent axe-core && tar -xzf axe-core-*.tgz) >"$logs/axe.log" 2>&1; then
      skip "pages in a browser: axe-core cannot be had; see $logs/axe.log"
      return 0
    fi
  fi
  step "pages in a browser: clicks, keys, the console, axe-core"
  run=(cargo run --release --quiet -p paternoster --)
  local job=(jobs/recipes/database.fio --device ssd-870evo -q --format csv)
  "${run[@]}" run "${job[@]}" --runtime 1s --scheduler none --scheduler bfq --html "$folder/run.html" \
    --trace "$folder/trace" >/dev/null
  "${run[@]}" compare "${job[@]}" --runtime 300ms --seeds 2 --html "$folder/compare.html" >/dev/null
  "${run[@]}" replay "$folder/trace.bfq" --device ssd-870evo --scheduler none -q --html "$folder/replay.html" >/dev/null
  "${run[@]}" analyze "$folder/trace.bfq" --html "$folder/analyze.html" >/dev/null
  "${run[@]}" guarantees --format html >"$folder/guarantees.html"
  node checks/pages.mjs "$folder/package/axe.min.js" "$folder" "$folder"/*.html
  rm "$folder"/trace.*
}
pages
