# SPDX-License-Identifier: MIT OR Apache-2.0
# Does docs/ build as a book without dead links? mdBook, from crates.io, builds it into the target
# folder's `book`. Sourced by `full.sh`.

book() {
  local target tools mdbook
  target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
  tools=$target/tools
  mdbook=$tools/bin/mdbook
  if ! [ -x "$mdbook" ] && ! mdbook=$(command -v mdbook); then
    mdbook=$tools/bin/mdbook
    step "downloads: mdBook (crates.io)"
    if ! cargo install mdbook --version 0.5.4 --locked --debug --quiet --root "$tools" >"$logs/mdbook.log" 2>&1; then
      skip "the book: mdBook cannot be had; see $logs/mdbook.log"
      return 0
    fi
  fi
  step "the book, and its links"
  rm -rf "$target/book"
  "$mdbook" build docs --dest-dir "$target/book"
  python3 checks/links.py "$target/book"
}
book
