# SPDX-License-Identifier: MIT OR Apache-2.0
# Are the packages whole? Each is made, unpacked where nothing else of the repository is, and the program is
# built and installed from them. Read by `full.sh`; crates of others come from where cargo has them.

step "packages: made, unpacked, the program installed from them"
folder=$(mktemp -d "${TMPDIR:-/tmp}/paternoster-packages.XXXXXX")
left_out=(--exclude paternoster-bench --exclude paternoster-conformance --exclude paternoster-python)
CARGO_TARGET_DIR=$folder/target cargo package --quiet --workspace "${left_out[@]}" --no-verify --allow-dirty
for crate in "$folder"/target/package/*.crate; do
  tar -xzf "$crate" -C "$folder"
done
printf '[patch.crates-io]\n' >"$folder/patch.toml"
for crate in "$folder"/paternoster-*-[0-9]*/; do
  name=$(basename "$crate")
  printf '%s = { path = "%s" }\n' "${name%-[0-9]*}" "${crate%/}" >>"$folder/patch.toml"
done
program=$(echo "$folder"/paternoster-[0-9]*/)
(
  cd "$folder"
  # Not in the release profile: what is asked is whether it builds.
  CARGO_TARGET_DIR=$folder/target cargo install --quiet --debug --path "$program" --root "$folder/root" \
    --config "$folder/patch.toml"
  PATH=$folder/root/bin:$PATH
  paternoster run --name=a --rw=randread --size=1m --device=ssd-870evo --scheduler=bfq -q >/dev/null
  paternoster devices >/dev/null
)
echo "the program runs from its packages: $(cd "$folder" && du -ch target/package/*.crate | tail -1 | cut -f1) of them"
rm -rf "$folder"
