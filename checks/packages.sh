# SPDX-License-Identifier: MIT OR Apache-2.0
# Are the packages complete? Each is made and put into a registry in a folder, together with the
# third-party crates that cargo already has here. From that, `cargo install paternoster` must find
# everything that it needs, as from crates.io, and use nothing of this repository. Sourced by
# `full.sh`.

step "packages: made, put into a local registry, the program installed from there"
folder=$(mktemp -d "${TMPDIR:-/tmp}/paternoster-packages.XXXXXX")
registry=$folder/registry
left_out=(--exclude paternoster-bench --exclude paternoster-conformance --exclude paternoster-python)
CARGO_TARGET_DIR=$folder/target cargo package --quiet --workspace "${left_out[@]}" --no-verify --allow-dirty
cargo vendor --quiet --locked --versioned-dirs "$registry" >/dev/null
for crate in "$folder"/target/package/*.crate; do
  tar -xzf "$crate" -C "$registry"
  printf '{"files":{},"package":"%s"}\n' "$(sha256sum "$crate" | cut -d' ' -f1)" \
    >"$registry/$(basename "$crate" .crate)/.cargo-checksum.json"
done
(
  cd "$folder"
  # Not in the release profile: this only checks that it builds. `--locked`: with the versions that
  # the package names.
  CARGO_TARGET_DIR=$folder/target cargo install --quiet --debug --offline --locked paternoster \
    --root "$folder/root" --config 'source.crates-io.replace-with="packages"' \
    --config "source.packages.directory='$registry'"
  PATH=$folder/root/bin:$PATH
  paternoster run --name=a --rw=randread --size=1m --device=ssd-870evo --scheduler=bfq -q >/dev/null
  paternoster devices >/dev/null
)
echo "the program runs from its packages: $(cd "$folder" && du -ch target/package/*.crate | tail -1 | cut -f1) of them"
rm -rf "$folder"
