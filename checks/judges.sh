# SPDX-License-Identifier: MIT OR Apache-2.0
# `./test --judges`: what a release is judged by and no clock has a say in. In the release profile, as the
# program is used.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS

step "no allocation in the steady state, release"
run_tests allocation cargo test --release -p paternoster -p paternoster-sim --test no_allocation

step "published experiments, guarantees, shares, same bytes as in debug; release"
run_tests judges cargo test --release -p paternoster-cli --test judges

step "instructions per request"
install valgrind=valgrind
step "instructions per request"
if command -v valgrind >/dev/null 2>&1; then
  ./benches/instructions
else
  skip "instructions per request: valgrind is not installed"
fi

step "features, each left out"
for features in "" serve lab; do
  cargo clippy --quiet -p paternoster-cli --no-default-features --features "$features" --all-targets -- -D warnings
done
cargo clippy --quiet --workspace --all-targets --features paternoster/planted-bugs -- -D warnings

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

step "the library without std"
if rustup target list --installed 2>/dev/null | grep -q thumbv7em-none-eabi ||
  rustup target add thumbv7em-none-eabi >/dev/null 2>&1; then
  cargo build -p paternoster --target thumbv7em-none-eabi --quiet
else
  skip "the library without std: no target without std can be had here (the compiler checks #![no_std] for this one)"
fi
