# SPDX-License-Identifier: MIT OR Apache-2.0
# Does a user without Rust and without network get from the tarball to the first table? Runs
# `./dist`, checks its sums, and unpacks the tarball into an otherwise empty root, the .deb into
# another.
# Sourced by `full.sh`.

step "dist: tarball, package, sums; the first table in an empty root"
dist=$(mktemp -d "${TMPDIR:-/tmp}/paternoster-dist.XXXXXX")
./dist --profile "${PATERNOSTER_DIST_PROFILE:-release}" "$dist"
(cd "$dist" && sha256sum --quiet -c SHA256SUMS)

# in_root COMMAND…: runs it with nothing but the unpacked files, and no network.
in_root() { unshare --user --map-root-user --net chroot "$dist/root" "$@"; }

# has_all FOLDER: checks that everything a user expects below the prefix is there and complete.
has_all() {
  local share=$1/share
  [ -x "$1/bin/paternoster" ]
  gzip -t "$share"/man/man1/paternoster{,-run,-compare,-serve}.1.gz "$share"/man/man5/*.5.gz
  grep -q . "$share/bash-completion/completions/paternoster"
  grep -q . "$share/zsh/site-functions/_paternoster"
  grep -q . "$share/fish/vendor_completions.d/paternoster.fish"
  grep -q . "$share/doc/paternoster/jobs/recipes/database.fio"
  grep -q . "$1/lib/systemd/system/paternoster.service"
  grep -q . "$1/lib/systemd/system/paternoster.socket"
}

began=$(date +%s%N)
mkdir -p "$dist/root/tmp"
tar -xzf "$dist"/paternoster-*-linux.tar.gz -C "$dist/root" --strip-components=1
if unshare --user --map-root-user --net true 2>/dev/null; then
  in_root /bin/paternoster examples --write /tmp/jobs >/dev/null
  in_root /bin/paternoster run /tmp/jobs/recipes/database.fio --scheduler none --scheduler bfq -q >"$dist/table"
  grep -q '^ *none  *bfq$' "$dist/table"
  grep -q '^ pg-read read ' "$dist/table"
  took=$((($(date +%s%N) - began) / 1000000))
  echo "from the tarball to the first table, offline, in an empty root: $took ms"
  in_root /bin/paternoster compare /share/doc/paternoster/jobs/recipes/database.fio --device ssd-870evo \
    --goal 'pg-read p99<5ms' --seeds 1 --runtime 1s -q >/dev/null
else
  skip "dist: no namespaces here, so the tarball is not tried in an empty root"
fi

has_all "$dist/root"
"$dist"/root/install "$dist/prefix" >/dev/null
diff -r "$dist/root/share" "$dist/prefix/share"
if command -v dpkg-deb >/dev/null 2>&1; then
  dpkg-deb --info "$dist"/paternoster_*.deb | grep '^ Package: paternoster$' >/dev/null
  dpkg-deb --extract "$dist"/paternoster_*.deb "$dist/debian"
  has_all "$dist/debian/usr"
  cmp "$dist/debian/usr/bin/paternoster" "$dist/root/bin/paternoster"
else
  skip "dist: no dpkg-deb, so no .deb"
fi
compgen -G "$dist/*.oci.tar" >/dev/null || skip "dist: nothing here builds a container's image"
rm -rf "$dist"
