# SPDX-License-Identifier: MIT OR Apache-2.0
# What the test scripts share: steps and their times, packages, and test runs with reports of
# failures and skipped tests. Sourced by `../test`; not run by itself.

# Complete logs of the steps.
logs=${CARGO_TARGET_DIR:-target}/test-logs
mkdir -p "$logs"
rm -f "$logs"/*.log

# Features with the bugs that the tests of the tests plant.
planted=(--features paternoster-schedulers/planted-bugs,paternoster-sim/planted-bugs)

# --- Steps: a heading, and in the end what each has taken ------------------------------------------------

steps=() step_name='' step_began=0 step_cpu=0

# Sets `cpu` to the hundredths of a second of CPU that the children of this shell have used so far.
# (A command substitution would report its own children.)
cpu=0
read_cpu() {
  times >"$logs/times"
  cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] } }
    END { printf "%d", sum * 100 }' "$logs/times")
}

step_end() {
  [ -n "$step_name" ] || return 0
  read_cpu
  steps+=("$(printf '%6d %6d  %s' $((SECONDS - step_began)) $(((cpu - step_cpu) / 100)) "$step_name")")
  step_name=''
}

step() {
  step_end
  read_cpu
  step_name=$* step_began=$SECONDS step_cpu=$cpu
  printf '\n== %s\n' "$*"
}

# --- Packages: judges of the tests; a test that needs a missing one says so ------------------------------

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# install NEEDED=PACKAGE…: the Debian packages of those commands (or files) that are missing, in one go.
install() {
  local pair missing=()
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null 2>&1 || compgen -G "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  step "downloads: ${missing[*]} (Debian)"
  if ! can_install; then
    echo "not root on Debian: not installed; tests that need them are skipped, and counted as that"
    return 0
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -q "${missing[@]}" >"$logs/packages.log" 2>&1 && return 0
  apt-get update -q >"$logs/packages.log" 2>&1 || true
  # One by one, so that an unavailable package affects only the tests that need it.
  for pair in "${missing[@]}"; do
    apt-get install -y -q "$pair" >>"$logs/packages.log" 2>&1 || echo "$pair could not be installed"
  done
}

# --- Test runs: counted, with what was skipped -----------------------------------------------------------

passed=0 failed=0 skipped=0

# A test that cannot run prints a line `skipped: WHAT: WHY` and returns. Cargo counts it as passed,
# we do not. Prints `TEST<tab>skipped: …` for each such test of a log, once.
skipped_of() {
  awk '
    /^---- .* (stdout|stderr) ----$/ { test = $2; told = 0 }
    /^test result: / { test = "" }
    /^skipped: / && test != "" && !told { told = 1; print test "\t" $0 }
  ' "$1"
}

# run_tests NAME COMMAND…: runs cargo test, prints what it builds and how each binary ended, and
# keeps the rest in a log. Failures are printed in full.
run_tests() {
  local log=$logs/$1.log status=0
  shift
  "$@" --no-fail-fast -- --show-output "${test_options[@]}" 2>&1 | tee "$log" | awk '
    /^     Running|^   Doc-tests|^test result: /  { print; failing = 0; fflush(); next }
    /^failures:$/                                 { failing = 1 }
    /^successes:$/                                { failing = 0; inside = 1 }
    /^running [0-9]+ test/                        { inside = 1; next }
    failing || !inside                            { print; fflush() }
  ' || status=$?
  local counts
  counts=$(awk '/^test result: / { for (i = 1; i <= NF; i++) { if ($i == "passed;") p += $(i - 1); if ($i == "failed;") f += $(i - 1) } }
    END { print p + 0, f + 0 }' "$log")
  passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
  local less
  less=$(skipped_of "$log" | tee -a "$logs/skipped" | wc -l)
  skipped=$((skipped + less)) passed=$((passed - less))
  return "$status"
}
test_options=()

# --- The end: what was skipped and why, seconds by step, the count ---------------------------------------

# skip WHAT: WHY, also for steps that are not tests.
skip() {
  printf '%s\tskipped: %s\n' "-" "$*" >>"$logs/skipped"
  skipped=$((skipped + 1))
}

summary() {
  local status=$?
  step_end
  if [ -s "$logs/skipped" ]; then
    printf '\n== skipped, not counted as passed\n'
    cut -f2 "$logs/skipped" | sort | uniq -c | sort -rn |
      sed -E 's/^ *([0-9]+) skipped: (.*)/\1 x \2/'
  fi
  printf '\n== seconds\n  wall    CPU  step\n'
  printf '%s\n' "${steps[@]}"
  printf '%6d %6d  in all\n\n' "$SECONDS" $((cpu / 100))
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$status" = 0 ] || echo "FAILED; logs: $logs"
}
: >"$logs/skipped"
trap summary EXIT
