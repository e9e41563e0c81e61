# SPDX-License-Identifier: MIT OR Apache-2.0
# Lints while compiling: uses clippy's driver as the compiler instead of running `cargo clippy`,
# which would compile the workspace once more. Lints are errors.
RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver
[ -x "$RUSTC_WORKSPACE_WRAPPER" ] || {
  echo "clippy is missing: rustup component add clippy" >&2
  exit 1
}
export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"
