# SPDX-License-Identifier: MIT OR Apache-2.0
# `./test --changed`: tests the crates that a change touches, and lints those that depend on them.
#
#   crates/paternoster-trace/src/…   paternoster-trace, and every crate that depends on it
#   devices/…, docs/…, *.md          the program, whose tests read them
#   Cargo.toml, Cargo.lock, checks/  everything

. checks/lints.sh

since=${1:-HEAD}
changed() {
  git diff --name-only "$1" --
  git ls-files --others --exclude-standard
}
files=$(changed "$since")
[ -n "$files" ] || [ "$since" != HEAD ] || files=$(changed HEAD~1)
if [ -z "$files" ]; then
  echo "nothing has changed since $since"
  exit 0
fi

all=$(cd crates && echo *)
reached=' '
reach() { case $reached in *" $1 "*) return 1 ;; *) reached+="$1 " ;; esac; }
while read -r file; do
  case $file in
  crates/*) crate=${file#crates/}; reach "${crate%%/*}" || true ;;
  Cargo.toml | Cargo.lock | checks/* | test) for crate in $all; do reach "$crate" || true; done ;;
  *) reach paternoster || true ;;
  esac
done <<<"$files"
changed_crates=$reached
more=yes
while [ $more = yes ]; do
  more=no
  for crate in $all; do
    # --judges lints the benches, which need criterion, and the Python module.
    case $crate in paternoster-bench | paternoster-python) continue ;; esac
    for on in $reached; do
      # Dependencies of tests count too.
      if grep -Eq "^$on(\.workspace)? *=" "crates/$crate/Cargo.toml" && reach "$crate"; then more=yes; fi
    done
  done
done

# What queue and schedulers do together, and what real kernels decided, are the library's own tests.
tested=$changed_crates
is_tested() { case $tested in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
add() { if is_tested "$1" && ! is_tested "$2"; then tested+="$2 "; fi; }
add paternoster-core paternoster-schedulers
add paternoster-schedulers paternoster-conformance
packages=() others=() bugs=''
for crate in $reached; do
  if is_tested "$crate"; then packages+=(-p "$crate"); else others+=(-p "$crate"); fi
done
# Features may be named only for crates that are tested.
for crate in paternoster-schedulers paternoster-sim; do
  if is_tested "$crate"; then bugs+="$crate/planted-bugs,"; fi
done
planted=(${bugs:+--features "$bugs"})
echo "changed: $(wc -l <<<"$files") files; tested:$tested"

step "format"
cargo fmt --all --check

step "lints and code, in one pass"
cargo test "${packages[@]}" "${planted[@]}" --no-run

export PATERNOSTER_SEQUENCES=1000 PATERNOSTER_POWER_CUTS=50000

step "tests, audited in passing"
run_tests changed cargo test "${packages[@]}" "${planted[@]}"

if [ ${#others[@]} -gt 0 ]; then
  step "lints of the crates that depend on it; ./test runs their tests"
  (
    unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
    cargo clippy --quiet "${others[@]}" --all-targets -- -D warnings
  )
fi
