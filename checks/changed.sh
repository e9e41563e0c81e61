# SPDX-License-Identifier: MIT OR Apache-2.0
# `./test --changed`: the crates that a change reaches.
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
  *) reach paternoster-cli || true ;;
  esac
done <<<"$files"
more=yes
while [ $more = yes ]; do
  more=no
  for crate in $all; do
    for on in $reached; do
      # Dependencies for tests reach too.
      if grep -Eq "^$on(\.workspace)? *=" "crates/$crate/Cargo.toml" && reach "$crate"; then more=yes; fi
    done
  done
done
packages=()
for crate in $reached; do packages+=(-p "$crate"); done
echo "changed: $(wc -l <<<"$files") files; reached:$reached"

step "format"
cargo fmt --all --check

step "lints and code, in one pass"
cargo test "${packages[@]}" "${planted[@]}" --no-run

export PATERNOSTER_SEQUENCES=5000 PATERNOSTER_POWER_CUTS=50000

step "tests, audited in passing"
run_tests changed cargo test "${packages[@]}" "${planted[@]}"
