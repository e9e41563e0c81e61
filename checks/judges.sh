# SPDX-License-Identifier: MIT OR Apache-2.0
# `./test --judges`: checks of a release that do not depend on a clock. In the release profile, as
# users run the program.
# `./test --full` has set these, if this runs in its shell.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS PATERNOSTER_SEQUENCES PATERNOSTER_POWER_CUTS PATERNOSTER_STREAM_REQUESTS

step "release: build"
release=(cargo test --release -p paternoster-schedulers -p paternoster-sim -p paternoster-gate -p paternoster --test no_allocation --test judges)
"${release[@]}" --no-run --quiet

step "no allocation in the steady state; published experiments, guarantees, shares, recorded results; same bytes as in debug"
run_tests judges "${release[@]}"

step "properties and power cuts, all of them"
test_options=(properties:: power_)
run_tests properties cargo test --release -p paternoster-schedulers -p paternoster-sim "${planted[@]}" --test all
test_options=()

step "drawn loads: is a client starved, is every law obeyed?"
PATERNOSTER_LOADS=80 PATERNOSTER_CASES=300 run_tests drawn-loads cargo test --release -p paternoster-torture --test all
test_options=()

step "drawn fio jobs: do they make the I/Os of the installed fio?"
test_options=(fio_drawn::)
PATERNOSTER_FIO_CASES=480 run_tests fio-drawn cargo test -p paternoster-workload --test all
test_options=()

step "the server's streams"
test_options=(device_loop::judge::)
PATERNOSTER_STREAM_REQUESTS=50000 run_tests streams cargo test --release -p paternoster-serve --lib
test_options=()

step "the gate's threads, in schedules that are drawn"
PATERNOSTER_SCHEDULES=100000 run_tests schedules \
  cargo test --release -p paternoster-gate --features shuttle --test schedules

install valgrind=valgrind
step "instructions per request"
if command -v valgrind >/dev/null 2>&1; then
  ./benches/instructions
else
  skip "instructions per request: valgrind is not installed"
fi

step "features, each left out"
for features in serve instruments lab; do
  cargo clippy --quiet -p paternoster --no-default-features --features $features --lib --bins -- -D warnings
done
run_tests features-serve cargo test -p paternoster -p paternoster-frame --no-default-features --features serve --lib
test_options=(features::)
run_tests features-instruments cargo test -p paternoster --no-default-features --features instruments --lib
test_options=()

step "lints of what ./test does not build, and of the library without hooks"
cargo clippy --quiet --workspace --all-targets "${planted[@]}" -- -D warnings
# `--all-targets` leaves out the test programs that plain `cargo test` skips.
cargo clippy --quiet --workspace --exclude paternoster-gate --test '*' "${planted[@]}" -- -D warnings
cargo clippy --quiet -p paternoster-gate --test all --test judges -- -D warnings
cargo clippy --quiet -p paternoster-gate --features shuttle --test schedules -- -D warnings
cargo clippy --quiet -p paternoster-core -p paternoster-schedulers --all-targets \
  --features paternoster-schedulers/planted-bugs -- -D warnings
cargo clippy --quiet -p paternoster-core -p paternoster-schedulers --lib -- -D warnings
cargo clippy --quiet -p paternoster-python --features planted-bugs -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

step "the library without std"
if rustup target list --installed 2>/dev/null | grep -q thumbv7em-none-eabi ||
  rustup target add thumbv7em-none-eabi >/dev/null 2>&1; then
  cargo build -p paternoster-core -p paternoster-schedulers --target thumbv7em-none-eabi --quiet
  cargo build -p paternoster-gate --no-default-features --target thumbv7em-none-eabi --quiet
else
  skip "the library without std: no target without std can be had here (the compiler checks #![no_std] for this one)"
fi

. checks/python.sh
