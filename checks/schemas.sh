# SPDX-License-Identifier: MIT OR Apache-2.0
# Are the manifests for Kubernetes and the board for Grafana right by their owners' schemas? Those of
# Kubernetes come with `kubernetes-validate` (PyPI), read strictly: an unknown field is a mistake.
# Grafana's are the types of its SDK for Go (`board/`). A mistake that is made on purpose must be
# found. Sourced by `full.sh`.

step "schemas: manifests (kubernetes-validate, PyPI), board (Grafana's SDK for Go)"
schemas=$(realpath -m "${CARGO_TARGET_DIR:-target}/schemas")
mkdir -p "$schemas"
manifests=(packaging/kubernetes/{namespace,rights,server,volumes,classes}.yaml)
validate=$schemas/kubernetes/bin/kubernetes-validate
[ -x "$validate" ] || {
  python3 -m venv "$schemas/kubernetes" &&
    "$schemas/kubernetes/bin/pip" install --quiet kubernetes-validate==1.37.0
} >"$logs/schemas.log" 2>&1 || rm -f "$validate"
if [ -x "$validate" ]; then
  # A kind that it does not know is a warning there, and no manifest here.
  for file in "${manifests[@]}"; do
    told=$("$validate" --strict --quiet "$file" 2>&1) && [ -z "$told" ] || {
      echo "$told"
      exit 1
    }
  done
  sed 's/hostNetwork:/hostNetwerk:/' packaging/kubernetes/server.yaml >"$schemas/wrong.yaml"
  ! "$validate" --strict --quiet "$schemas/wrong.yaml" >/dev/null 2>&1 || {
    echo "kubernetes-validate takes a field that there is not"
    exit 1
  }
else
  skip "manifests by schema: kubernetes-validate cannot be had (python3-venv, PyPI)"
fi

board=$schemas/board
rm -f "$board"
if command -v go >/dev/null 2>&1; then
  (cd checks/board && go build -o "$board" .) >>"$logs/schemas.log" 2>&1 || rm -f "$board"
fi
if [ -x "$board" ]; then
  "$board" packaging/monitoring/paternoster.grafana.json
  sed 's/"refresh": 2/"refesh": 2/' packaging/monitoring/paternoster.grafana.json >"$schemas/wrong.json"
  ! "$board" "$schemas/wrong.json" >/dev/null || {
    echo "Grafana's schema takes a field that there is not"
    exit 1
  }
else
  skip "the board by Grafana's schema: no Go, or its SDK cannot be had"
fi
